"""Where an export goes and an import comes from: a path, or a file object.

The library reads and writes a descriptor of its own, outside of the interpreter. A path is replaced
when the export is complete; a file object, which may compress or be no file at all, gets the bytes
from a temporary file.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, Union

Path = Union[str, "os.PathLike[str]"]


def _checked(name: str, file: object, method: str) -> None:
    """A file object that takes or gives bytes."""
    if isinstance(file, io.TextIOBase):
        raise TypeError(f"{name} must be open in binary mode, as in open(path, 'rb') or 'wb'")
    if not callable(getattr(file, method, None)):
        raise TypeError(f"{name} must be a path or a binary file, not {type(file).__name__}")


def _path(name: str, path: Path) -> Path:
    """A path that a system can have."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half of a surrogate pair at {error.start}") from None
    return path


@contextlib.contextmanager
def target(name: str, to: Path | IO[bytes]) -> Iterator[int]:
    """A descriptor to write to; what was written arrives when nothing failed."""
    if not isinstance(to, (str, os.PathLike)):
        _checked(name, to, "write")
        with tempfile.TemporaryFile() as spool:
            yield spool.fileno()
            spool.seek(0)
            shutil.copyfileobj(spool, to)
        return
    path = os.path.realpath(_path(name, to))  # a link stays one
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device is never replaced
        with open(path, "wb", buffering=0) as file:
            yield file.fileno()
        return
    part = tempfile.NamedTemporaryFile(  # noqa: SIM115
        dir=os.path.dirname(path), prefix=os.path.basename(path) + ".", delete=False
    )
    try:
        with part:
            yield part.fileno()
            os.fsync(part.fileno())
        os.replace(part.name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part.name)
        raise


@contextlib.contextmanager
def source(name: str, given: Path | IO[bytes]) -> Iterator[int]:
    """A descriptor to read from."""
    if isinstance(given, (str, os.PathLike)):
        with open(_path(name, given), "rb", buffering=0) as file:
            yield file.fileno()
        return
    _checked(name, given, "read")
    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(given, spool)
        spool.flush()
        spool.seek(0)
        yield spool.fileno()
