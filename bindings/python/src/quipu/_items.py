"""Items of other programs, each a message of a session: added, read back and taken away again."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pydantic_core import from_json

from . import _call, _requests, _rows
from ._build import no_collection
from ._native import lib
from ._rows import At, Rows
from ._steps import LOST, drive, drop
from ._store import AsyncStore, Store

POP = (6, b"(The message before this was removed.)", b'{"pop":true}')  # a mark: it takes one away
# A mark behind the others, of what is written anew: dropped is what stands before it. As a user's
# message it begins a turn, so that no tool call before it is answered behind it.
BORDER = (1, *POP[1:])
DEAD_MIN = 64  # fewer rows that marks have taken away, and marks, are not worth dropping
DROPPED = "Items before this were removed or written anew."

Texts = list["bytes | None"]
Make = Callable[[Any], Any]


class Found(NamedTuple):
    """What QPY_ITEMS_GET gives: items, or what they are made into, with None for each mark, and the
    numbers of native_items.c; without numbers the session does not exist."""

    items: list[Any]
    numbers: list[int]


def _decoded(text: bytes) -> list[Any]:
    try:
        found: list[Any] = from_json(text, cache_strings="keys")
    except ValueError:  # half of a pair, which only the slower reader takes
        found = json.loads(text)
    return found


def _found(job: Any, make: Make | None = None) -> Found:
    """Page by page, so that a page's text and dicts are in the memory of the page before."""
    numbers = _call.numbers_of(job)
    items: list[Any] = []
    with no_collection(_call.size_of(job)):
        for text in _call.texts_of(job):
            page = _decoded(text or b"[]")
            items += page if make is None else [None if one is None else make(one) for one in page]
    return Found(items, numbers)


def get(handle: _call.Handle, key: bytes, make: Make | None = None) -> Found:
    """The items of a session."""
    read = functools.partial(_found, make=make)
    return _call.run_as(read, lib.QPY_ITEMS_GET, handle, [key], [0, 0])


def aget(
    handle: _call.Handle, key: bytes, last: int = 0, before: int = 0, make: Make | None = None
) -> Awaitable[Found]:
    """The same, or the newest of them before a number."""
    read = functools.partial(_found, make=make)
    return _call.start_as(read, lib.QPY_ITEMS_GET, handle, [key], [last, before])


def without_marks(found: list[Any]) -> list[Any]:
    """The items that no mark has taken away."""
    left: list[Any] = []
    for item in found:
        if item is not None:
            left.append(item)
        elif left:
            left.pop()
    return left


class Items:
    """The sessions of an adapter, each with items."""

    def __init__(self, store: Store | AsyncStore, app: str) -> None:
        self.store = store
        self.app = app

    def key(self, name: str) -> str:
        """The key of a session."""
        return f"{self.app}:{name}"

    def read(self, name: str, make: Make | None = None) -> tuple[list[Any], int]:
        """The items of a session, or what each of them is made into, and the session's revision;
        -1 for one that does not exist."""
        return self._read(get(self.store._handle, self.key(name).encode(), make))

    async def aread(self, name: str, make: Make | None = None) -> tuple[list[Any], int]:
        """As read()."""
        key = self.key(name).encode()
        return self._read(await aget(self.store._handle, key, make=make))

    @staticmethod
    def _read(found: Found) -> tuple[list[Any], int]:
        if not found.numbers:
            return [], _rows.NEW
        return without_marks(found.items) if found.numbers[3] else found.items, found.numbers[0]

    def rows(self, name: str) -> tuple[list[Any], At | None]:
        """The items of a session with None for each mark, and the session as it was read."""
        items, numbers = get(self.store._handle, self.key(name).encode())
        return (items, At.read(numbers)) if numbers else ([], None)

    def _texts(self, name: str, made: Rows) -> Texts:
        names = [self.app.encode(), _rows.encoded(name), b"items"]
        return [self.key(name).encode(), *made.texts(), *names]

    def add(self, name: str, made: Rows) -> None:
        """Append messages; a session is made with its first ones."""
        while not self._put(name, made, [_rows.KEEP]) and not self._put(name, made, [_rows.NEW]):
            pass  # it was deleted or made in between

    async def aadd(self, name: str, made: Rows) -> None:
        """As add()."""
        given = self._texts(name, made)
        while True:
            for revision in (_rows.KEEP, _rows.NEW):
                try:
                    await _call.start(lib.QPY_ROWS_ADD, self.store._handle, given, [revision])
                    return
                except LOST:
                    pass  # it was deleted or made in between

    def replace(self, name: str, made: Rows, at: At | None) -> int:
        """Append messages to a session that is as it was read, None for one that must not exist.
        Returns the number of the next message; 0 when somebody else was first."""
        return self._put(name, made, [_rows.NEW] if at is None else [*at])

    def _put(self, name: str, made: Rows, numbers: list[int]) -> int:
        given = self._texts(name, made)
        try:
            return _call.run(lib.QPY_ROWS_ADD, self.store._handle, given, numbers).numbers[1]
        except LOST:
            return 0

    def drop(self, name: str, up_to: int) -> None:
        """Remove the messages up to a number, which no item is among."""
        drive(self.store, drop(self.key(name), DROPPED, up_to=up_to))

    def delete(self, name: str) -> None:
        """Delete a session."""
        self.store._run(_requests.delete(self.key(name)))

    async def adelete(self, name: str) -> None:
        """As delete()."""
        await self.store._start(_requests.delete(self.key(name)))
