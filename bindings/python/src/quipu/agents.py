"""A session for the OpenAI Agents SDK, on a quipu store."""

from __future__ import annotations

import array
import json
import os
from typing import TYPE_CHECKING, Any, cast

from ._requires import require

require(__name__, "openai-agents", "0.24", "agents")

from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit
from pydantic_core import from_json

from . import _call, _errors
from ._build import no_collection
from ._native import lib
from ._store import AsyncStore
from ._types import ROLES

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["QuipuSession"]

_PREFIX = "agents:"  # before the session's id, so that it never meets another kind of session
_PLAIN = {"user": 1, "assistant": 2, "system": 6}
_POP = (ROLES.index("system") + 1, b"", b'{"pop":true}')
_Row = tuple[int, bytes, bytes]


def _content(item: dict[str, Any]) -> str:
    """Return the text of an item, for readers and for search."""
    content = item.get("content", item.get("output"))
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _role(item: dict[str, Any]) -> int:
    role = item.get("role")
    if role == "developer":
        role = "system"
    elif item.get("type") in ("function_call_output", "computer_call_output"):
        role = "tool"
    return ROLES.index(role) + 1 if role in ROLES else ROLES.index("assistant") + 1


def _row(item: dict[str, Any]) -> _Row:
    """Return an item as a message: its role, its text, and the rest as `extra`."""
    content = item.get("content")
    role = item.get("role")
    if len(item) == 2 and role in _PLAIN and isinstance(content, str):
        try:
            return _PLAIN[role], content.encode(), b""
        except UnicodeEncodeError:
            pass  # half of a pair: only JSON can say it
    text = _content(item).encode(errors="replace")
    return _role(item), text, b'{"item":' + json.dumps(item).encode() + b"}"


class QuipuSession(SessionABC):
    """The items of one conversation. Sessions can share a store, and processes its file."""

    def __init__(
        self,
        session_id: str,
        store: AsyncStore | str | os.PathLike[str],
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """The session `session_id` of a store, or of the store at a path."""
        self.session_id = session_id
        self.session_settings = session_settings
        self._owned = not isinstance(store, AsyncStore)
        self.store = store if isinstance(store, AsyncStore) else AsyncStore(store)
        self._key = (_PREFIX + session_id).encode()

    async def close(self) -> None:
        """Close the store, if this session opened it."""
        if self._owned:
            await self.store.close()

    async def __aenter__(self) -> QuipuSession:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _read(self, limit: int, before: int = 0) -> tuple[list[Any], list[int]]:
        """Return items, with None for each mark, and the numbers of native_items.c."""
        answer = await _call.start(
            lib.QPY_ITEMS_GET, self.store._handle, [self._key], [limit, before]
        )
        if not answer.texts:
            return [], [0, 0, 0, 0]
        text = answer.texts[0] or b"[]"
        with no_collection(len(text)):
            try:
                return from_json(text, cache_strings="keys"), answer.numbers
            except ValueError:  # half of a pair, which only the slower reader takes
                return json.loads(text), answer.numbers

    async def _write(self, rows: list[_Row], revision: int = -1) -> None:
        shape = array.array("q")
        texts: list[bytes] = []
        for role, content, extra in rows:
            shape.extend((role, len(content), len(extra)))
            texts += (content, extra)
        await _call.start(
            lib.QPY_ITEMS_ADD,
            self.store._handle,
            [self._key, shape.tobytes(), b"".join(texts)],
            [revision],
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit the newest ones."""
        wanted = resolve_session_limit(limit, self.session_settings)
        if wanted == 0:
            return []
        wanted = None if wanted is None or wanted < 0 else wanted
        found, numbers = await self._read(wanted or 0)
        if not numbers[3]:
            return cast("list[TResponseInputItem]", found)
        newest: list[Any] = []  # backwards: a mark takes the next item away
        taken = 0
        while True:
            for item in reversed(found):
                if item is None:
                    taken += 1
                elif taken > 0:
                    taken -= 1
                else:
                    newest.append(item)
            if not numbers[2] or (wanted is not None and len(newest) >= wanted):
                break
            found, numbers = await self._read(wanted or 0, numbers[1])
        return cast("list[TResponseInputItem]", newest[:wanted][::-1])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all or none."""
        if items:
            await self._write([_row(cast("dict[str, Any]", item)) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None when there is none."""
        while True:
            _, numbers = await self._read(1)
            newest = await self.get_items(1)
            if not newest:
                return None
            try:
                await self._write([_POP], numbers[0])
            except (_errors.Conflict, _errors.NotFound):
                continue  # somebody else was first: look again
            return newest[0]

    async def clear_session(self) -> None:
        """Delete the session with its items."""
        await self.store.delete(self._key.decode())
