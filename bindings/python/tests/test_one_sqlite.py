"""One SQLite for a file of a process. That wheels do as here, with two real copies, is tried by
packaging/try_wheel.py; here the process has one, and `two` says otherwise."""

from __future__ import annotations

import os
import pathlib
import sqlite3
from typing import Any

import pytest

import quipu
from quipu import Store, _one_sqlite
from quipu._native import lib


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_one_sqlite, "two", lambda: True)


def test_python_and_the_library_share_the_systems_sqlite(path: pathlib.Path) -> None:
    if sqlite3.sqlite_version != _one_sqlite.own_version():
        pytest.skip("this Python has an SQLite of its own")
    assert not _one_sqlite.two()
    with Store(path), sqlite3.connect(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() is not None


def test_a_module_that_is_not_loaded_shares_nothing() -> None:
    assert not lib.qpy_sqlite_is_shared(b"/nowhere/_sqlite3.so")


@pytest.mark.usefixtures("two")
def test_the_sqlite3_module_is_kept_from_a_store_that_is_open(path: pathlib.Path) -> None:
    link = path.with_name("link.db")
    with Store(path) as store:
        os.symlink(path, link)
        plain: list[Any] = [path, str(path), bytes(path), link]
        for target, uri in [*((one, False) for one in plain), (f"file:{path}?mode=ro", True)]:
            with pytest.raises(quipu.Misuse, match="'.*' is open as a store of this process"):
                sqlite3.connect(target, uri=uri)
        store.append("talk", "hi", create=True)
        sqlite3.connect(":memory:").close()
        sqlite3.connect(path.with_name("other.db")).close()
    sqlite3.connect(path).close()


@pytest.mark.usefixtures("two")
def test_a_store_is_kept_from_a_file_that_the_sqlite3_module_has_open(path: pathlib.Path) -> None:
    Store(path).close()
    other = sqlite3.connect(path)
    for address in (str(path), f"file:{path}", f"file://{path}"):
        with pytest.raises(quipu.Misuse, match="has '.*' open, and not by this package"):
            Store(address)
    other.close()
    with Store(path) as store, Store(path) as again:  # many stores are one SQLite's
        store.append("talk", "hi", create=True)
        assert "talk" in again


@pytest.mark.usefixtures("two")
def test_an_import_is_kept_from_a_file_that_is_open(store: Store, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "theirs.db"
    with sqlite3.connect(source) as other:
        other.execute("CREATE TABLE t (x)")
        other.commit()
        with pytest.raises(quipu.Misuse, match="'theirs.db' open, and not by this package"):
            store.import_source(source)
    other.close()


@pytest.mark.usefixtures("two")
def test_a_store_of_a_parent_is_no_obstacle_for_its_child(path: pathlib.Path) -> None:
    with Store(path) as store:
        store.append("talk", "hi", create=True)
        child = os.fork()
        if child == 0:
            try:
                with Store(path) as own:
                    own.append("talk", "from the child")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(store.get("talk").messages) == 2
