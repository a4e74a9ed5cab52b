"""A session for the OpenAI Agents SDK, on a quipu store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from ._requires import require

require(__name__, "openai-agents", "0.24", "agents")

from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit
from . import _call, _rows
from ._items import BORDER, DEAD_MIN, DROPPED, POP, Found, aget, without_marks
from ._native import lib
from ._rows import At
from ._steps import LOST, adrive, drop
from ._store import AsyncStore

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["QuipuSession"]

_PREFIX = "agents:"  # before the session's id, so that it never meets another kind of session
_PLAIN = {"user": 1, "assistant": 2, "system": 6}
_TOOL = 3
_CALLS = ("function_call", "custom_tool_call")
_PAGE = 64  # rows that a read behind the first takes at least; each further one takes twice as many
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
        return found if found.numbers else Found([], [0, 0, 0, 0, 0, 0])

    async def _newest(
        self, wanted: int, *, page: int = 0, dead: bool = False
    ) -> tuple[list[Any], int, bool, At]:
        """The newest items, at least so many if there are (0: all), from a first read of `page`
        rows; with `dead`, as far back as most rows are dead. Then how many rows were read, whether
        these are all, and the session."""
        page = max(wanted, page)
        rows, numbers = await self._read(page)
        at, found = At.read(numbers), without_marks(rows)
        while numbers[2] and (len(found) < wanted or (dead and len(rows) > 2 * len(found))):
            page = max(2 * page, _PAGE)
            older, numbers = await self._read(page, numbers[1])
            if At.read(numbers) != at:  # somebody wrote: what is older may be gone
                return await self._newest(0)
            rows = older + rows
            found = without_marks(rows)
        return found, len(rows), not numbers[2], at

    async def _write(self, made: _rows.Rows, at: list[int]) -> int:
        """Append rows; return the number of the next one."""
        texts: list[bytes | None] = [self._key, *made.texts()]
        return (await _call.start(lib.QPY_ROWS_ADD, self.store._handle, texts, at)).numbers[1]

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit the newest ones."""
        wanted = resolve_session_limit(limit, self.session_settings)
        if wanted == 0:
            return []
        wanted = 0 if wanted is None or wanted < 0 else wanted
        found, _, _, _ = await self._newest(wanted)
        return cast("list[TResponseInputItem]", found[-wanted:])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items: all or none, unless there are more than 10,000, a call's limit."""
        for part in _rows.parts(items):
            made = _rows.Rows()
            for item in part:
                _add(made, cast("dict[str, Any]", item))
            await self._write(made, [_rows.ANY])

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None when there is none."""
        while True:
            found, rows, all, at = await self._newest(1, page=_PAGE, dead=True)
            if not found:
                return None
            dead = rows - len(found)  # marks, and what they took away
            anew = all and dead > max(len(found), DEAD_MIN)
            anew = anew and 2 * len(found) <= _rows.BATCH_MAX
            made = _rows.Rows()
            for _ in found if anew else [None]:
                made.add(*POP)
            if anew:
                made.add(*BORDER)
            left = found[:-1] if anew else []
            for item in left:
                _add(made, item)
            try:
                following = await self._write(made, [*at])
            except LOST:
                continue  # somebody else was first: look again
            if anew:  # nothing that is left stands before these
                up_to = following - 2 - len(left)
                await adrive(self.store, drop(self._key.decode(), DROPPED, up_to=up_to))
            return cast("TResponseInputItem", found[-1])

    async def clear_session(self) -> None:
        """Delete the session with its items."""
        await self.store.delete(self._key.decode())
