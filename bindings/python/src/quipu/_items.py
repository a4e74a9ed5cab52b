"""Items of other programs, each a message of a session: added, read back and taken away again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from . import _call, _requests, _rows
from ._build import no_collection
from ._errors import Conflict, Exists, Expired, NotFound
from ._native import lib
from ._rows import Rows
from ._store import AsyncStore, Store

POP = (6, b"(The message before this was removed.)", b'{"pop":true}')  # a mark: it takes one away

_LOST = (Conflict, Exists, Expired, NotFound)  # somebody else was first

Texts = list["bytes | None"]
Make = Callable[[Any], Any]


def decoded(text: bytes | None) -> list[Any]:
    """Items out of the array that QPY_ITEMS_GET gives; None for each mark."""
    text = text or b"[]"
    with no_collection(len(text)):
        try:
            found: list[Any] = from_json(text, cache_strings="keys")
        except ValueError:  # half of a pair, which only the slower reader takes
            found = json.loads(text)
    return found


def without_marks(found: list[Any]) -> list[Any]:
    """The items that no mark has taken away."""
    if None not in found:
        return found
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

    def _given(self, name: str) -> Texts:
        return [self.key(name).encode()]

    def read(self, name: str, make: Make | None = None) -> tuple[list[Any], int]:
        """The items of a session, or what each of them is made into, and the session's revision;
        -1 for one that does not exist."""
        answer = _call.run(lib.QPY_ITEMS_GET, self.store._handle, self._given(name), [0, 0])
        return self._read(answer, make)

    async def aread(self, name: str, make: Make | None = None) -> tuple[list[Any], int]:
        """As read()."""
        answer = await _call.start(lib.QPY_ITEMS_GET, self.store._handle, self._given(name), [0, 0])
        return self._read(answer, make)

    @staticmethod
    def _read(answer: _call.Answer, make: Make | None) -> tuple[list[Any], int]:
        if not answer.texts:
            return [], _rows.NEW
        text = answer.texts[0]
        with no_collection(len(text or b"")):
            found = without_marks(decoded(text))
            return [make(one) for one in found] if make else found, answer.numbers[0]

    def _texts(self, name: str, made: Rows) -> Texts:
        names = [self.app.encode(), _rows.encoded(name), b"items"]
        return [*self._given(name), *made.texts(), *names]

    def add(self, name: str, made: Rows) -> None:
        """Append messages; a session is made with its first ones."""
        while not self.replace(name, made, _rows.KEEP) and not self.replace(name, made, _rows.NEW):
            pass  # it was deleted or made in between

    async def aadd(self, name: str, made: Rows) -> None:
        """As add()."""
        while not await self._areplace(name, made, _rows.KEEP) and not await self._areplace(
            name, made, _rows.NEW
        ):
            pass  # it was deleted or made in between

    def replace(self, name: str, made: Rows, revision: int) -> bool:
        """Append messages to a session of a revision; false when somebody else was first."""
        try:
            _call.run(lib.QPY_ROWS_ADD, self.store._handle, self._texts(name, made), [revision])
        except _LOST:
            return False
        return True

    async def _areplace(self, name: str, made: Rows, revision: int) -> bool:
        given = self._texts(name, made)
        try:
            await _call.start(lib.QPY_ROWS_ADD, self.store._handle, given, [revision])
        except _LOST:
            return False
        return True

    def delete(self, name: str) -> None:
        """Delete a session."""
        self.store._run(_requests.delete(self.key(name)))

    async def adelete(self, name: str) -> None:
        """As delete()."""
        await self.store._start(_requests.delete(self.key(name)))
