"""A session for the OpenAI Agents SDK, on a quipu store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from ._requires import require

require(__name__, "openai-agents", "0.24", "agents")

from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit
from . import _call, _errors, _rows
from ._items import POP, Found, aget
from ._native import lib
from ._store import AsyncStore

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["QuipuSession"]

_PREFIX = "agents:"  # before the session's id, so that it never meets another kind of session
_PLAIN = {"user": 1, "assistant": 2, "system": 6}
_TOOL = 3
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "computer_call_output")


def _output(item: dict[str, Any]) -> str:
    """What a tool gave: a text, or parts of which some are texts."""
    found = item.get("output")
    return _rows.text_of(found) if isinstance(found, list) else _rows.reading(found)


def _add(made: _rows.Rows, item: dict[str, Any]) -> None:
    """Add an item as a message: its role, its text, its tool call, and all of it as `extra`."""
    content = item.get("content")
    role, kind = item.get("role"), item.get("type")
    if len(item) == 2 and role in _PLAIN and isinstance(content, str):
        try:
            made.add(_PLAIN[role], content.encode())
            return
        except UnicodeEncodeError:
            pass  # half of a pair: only JSON can say it
    extra, id = _rows.item_extra(item), item.get("call_id")
    if kind in _CALLS and isinstance(id, str):
        given = _rows.reading(item.get("arguments", item.get("input")))
        call = id, _rows.reading(item.get("name")), given, None
        made.add(_PLAIN["assistant"], b"", extra, calls=[call])
    elif kind in _OUTPUTS and isinstance(id, str):
        text = _output(item)
        made.add(_TOOL, _rows.encoded(text), extra, calls=[(id, "", "", text)])
    else:
        made.add(_rows.number_of(role), _rows.encoded(_rows.text_of(content)), extra)


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

    async def _read(self, limit: int, before: int = 0) -> Found:
        """Return items, with None for each mark, and the numbers of native_items.c."""
        found = await aget(self.store._handle, self._key, limit, before)
        return found if found.numbers else Found([], [0, 0, 0, 0])

    async def _write(self, made: _rows.Rows, revision: int = _rows.ANY) -> None:
        texts: list[bytes | None] = [self._key, *made.texts()]
        await _call.start(lib.QPY_ROWS_ADD, self.store._handle, texts, [revision])

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
            made = _rows.Rows()
            for item in items:
                _add(made, cast("dict[str, Any]", item))
            await self._write(made)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None when there is none."""
        mark = _rows.Rows()
        mark.add(*POP)
        while True:
            _, numbers = await self._read(1)
            newest = await self.get_items(1)
            if not newest:
                return None
            try:
                await self._write(mark, numbers[0])
            except (_errors.Conflict, _errors.NotFound):
                continue  # somebody else was first: look again
            return newest[0]

    async def clear_session(self) -> None:
        """Delete the session with its items."""
        await self.store.delete(self._key.decode())
