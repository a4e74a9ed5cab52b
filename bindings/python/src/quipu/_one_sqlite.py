"""One SQLite for a file.

POSIX locks belong to a process and a file: closing a file drops the locks that anybody in the
process holds on it. One copy of SQLite has all its descriptors and takes care; two do not see those
of each other. Wheels carry an SQLite of their own, and some Pythons another one for their sqlite3
module. Then no file may be open in both: the second one to open it gets Misuse. Where both use one
copy, as with the system's library, nothing here does anything.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from ._errors import Misuse
from ._native import ffi, lib

File = tuple[int, int]  # device and number: two paths can name one file

_open: dict[File, weakref.WeakSet[Any]] = {}  # our files, and the handles of their stores
_ever: set[File] = set()  # files that were opened here: a fork may have left descriptors of them
_theirs: set[File] = set()  # files that the sqlite3 module was seen to open
_listening = False

_DESCRIPTORS = 1024  # that are looked at where nothing lists them

_WHY = (
    "this package and Python's sqlite3 module have a copy of SQLite each, and closing a file in one"
    " drops the locks of the other"
)


def two() -> bool:
    """Whether Python's sqlite3 module, if it is loaded, has another SQLite than this package."""
    module = sys.modules.get("_sqlite3")
    if module is None:
        return False
    path = getattr(module, "__file__", None)
    return not lib.qpy_sqlite_is_shared(ffi.NULL if path is None else os.fsencode(path))


def own_version() -> str:
    """The version of this package's SQLite."""
    found: str = ffi.string(lib.qpy_sqlite_version()).decode()
    return found


def _identity(path: str | bytes | int) -> File | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _paths(uri: str) -> Iterator[str]:
    """The paths that an address may mean."""
    yield uri
    if uri.startswith("file:"):
        rest = uri[len("file:") :].partition("?")[0]
        yield rest[2:] if rest.startswith("///") else rest


def _file(uri: str) -> File | None:
    """The file at an address; None for a store elsewhere, and for a file that does not exist."""
    return next(filter(None, map(_identity, _paths(uri))), None)


def _has_descriptor(file: File) -> bool:
    """Whether the process has the file open. Where nothing lists its descriptors, as in a chroot
    without /proc, the lowest are looked at: the system gives the lowest that is free."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return any(_identity(int(number)) == file for number in os.listdir(folder))
        except OSError:
            pass
    return any(_identity(number) == file for number in range(_DESCRIPTORS))


def _is_ours(file: File) -> bool:
    here = os.getpid()
    stores = _open.get(file, ())
    return any(not store.closed for store in stores if store.process == here)


def before(uri: str) -> None:
    """A store, or a file to import, is about to be opened."""
    if not two():
        return
    file = _file(uri)
    if file is None or _is_ours(file) or (file in _ever and file not in _theirs):
        return
    if _has_descriptor(file):
        raise Misuse(
            f"this process has {os.path.basename(uri)!r} open, and not by this package: {_WHY}."
            " Close it first, or open the store in another process."
        )


def after(uri: str, handle: Any) -> None:
    """A store was opened."""
    global _listening
    file = _file(uri)
    if file is None:
        return
    _ever.add(file)
    _open.setdefault(file, weakref.WeakSet()).add(handle)
    if not _listening:
        _listening = True
        sys.addaudithook(_listen)


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    """The interpreter announces what it does; an exception prevents it."""
    if event == "sqlite3.connect" and two():
        _connecting(os.fsdecode(arguments[0]))


def _connecting(path: str) -> None:
    """The sqlite3 module is about to open a file."""
    file = _file(path)
    if file is None:
        return
    if _is_ours(file):
        raise Misuse(
            f"{os.path.basename(path)!r} is open as a store of this process: {_WHY}."
            " Close the store first, or look at the file in another process."
        )
    _theirs.add(file)
