"""Errors: a class for each status, with the library's own words."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re

import pytest

import quipu
from conftest import ROOT
from quipu import _errors
from quipu._native import ffi, lib


def test_every_status_of_the_library_has_a_class() -> None:
    header = (ROOT / "include" / "quipu" / "base.h").read_text(encoding="utf-8")
    rows = re.findall(r'X\((\w+), (-?\d+), "([^"]+)"\)', header)
    assert len(rows) > 10
    for name, number, text in rows:
        if int(number) == 0:
            continue
        error = _errors.error_of(int(number), "why")
        known = {"NOMEM": "NoMemory", "IO": "InputOutput"}
        wanted = known.get(name, name.title().replace("_", ""))
        assert type(error).__name__ == wanted
        assert error.status == int(number)
        doc = (type(error).__doc__ or "").lower()
        assert text.split(":")[0].lower().rstrip(".") in doc


def test_an_unknown_status_is_still_an_error() -> None:
    error = _errors.error_of(-999, "new")
    assert type(error) is quipu.QuipuError
    assert (error.status, str(error)) == (-999, "new")


def test_errors_carry_the_message_of_the_library(tmp_path: pathlib.Path) -> None:
    with pytest.raises(quipu.NotFound, match="gone.db"):
        quipu.Store(tmp_path / "gone.db", must_exist=True)
    (tmp_path / "other.db").write_bytes(b"not a database, but long enough to look like a file" * 40)
    with pytest.raises(quipu.QuipuError):
        quipu.Store(tmp_path / "other.db")


def test_limits_are_errors_of_their_own(store: quipu.Store) -> None:
    store.create("k" * 1024)
    with pytest.raises(quipu.Limit):
        store.create("k" * 1025)
    with pytest.raises(quipu.Invalid):
        store.append("k" * 1024, quipu.Message("nobody", "x"))  # type: ignore[arg-type]


def test_the_version_is_the_library_s() -> None:
    assert ffi.string(lib.qpy_version()).decode() == quipu.__version__
    assert importlib.metadata.version("quipu-store") == quipu.__version__


def test_the_process_has_one_sqlite() -> None:
    import sqlite3

    assert ffi.string(lib.qpy_sqlite_version()).decode() == sqlite3.sqlite_version
    sqlite3.connect(":memory:").close()
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists():
        libraries = {
            line.split()[-1] for line in maps.read_text().splitlines() if "libsqlite3" in line
        }
        assert len(libraries) == 1
