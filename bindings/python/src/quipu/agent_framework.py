"""Histories of the Microsoft Agent Framework on a quipu store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._requires import require

require(__name__, "agent-framework-core", "1.23", "agent-framework")

from agent_framework import HistoryProvider, Message

from . import _rows
from ._items import Items
from ._store import AsyncStore

__all__ = ["QuipuHistoryProvider"]

_NO_SESSION = "default"  # the history of runs without a session


def _add(made: _rows.Rows, item: dict[str, Any]) -> None:
    contents = item.get("contents") or []
    calls: list[_rows.Call] = []
    for one in contents:
        id = str(one.get("call_id") or "")
        if one.get("type") == "function_call":
            given = _rows.reading(one.get("arguments"))
            calls.append((id, str(one.get("name") or ""), given, None))
        elif one.get("type") == "function_result":
            calls.append((id, "", "", _rows.reading(one.get("result"))))
    role = _rows.number_of(item.get("role"))
    text = _rows.encoded(_rows.text_of(contents))
    made.add(role, text, _rows.item_extra(item), calls=calls)


class QuipuHistoryProvider(HistoryProvider):
    """A `HistoryProvider` whose sessions are those of a store: search and recall find what was
    said. Processes can share a file."""

    DEFAULT_SOURCE_ID = "quipu"

    def __init__(
        self,
        store: AsyncStore | str | os.PathLike[str],
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        app_name: str = "agent_framework",
        skip_excluded: bool = False,
        **options: Any,
    ) -> None:
        """On a store, or on the store at a path; `options` are those of HistoryProvider. Providers
        of different `source_id` keep histories of their own. With `skip_excluded`, messages that
        compaction has marked as excluded stay in the store and are not returned."""
        super().__init__(source_id, **options)
        self._owned = not isinstance(store, AsyncStore)
        self.store = store if isinstance(store, AsyncStore) else AsyncStore(store)
        self.skip_excluded = skip_excluded
        if source_id != self.DEFAULT_SOURCE_ID:
            app_name += "/" + source_id.replace("%", "%25").replace(":", "%3A")
        self._items = Items(self.store, app_name)

    async def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            await self.store.close()

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        found, _ = await self._items.aread(session_id or _NO_SESSION, Message.from_dict)
        if self.skip_excluded:
            return [one for one in found if not one.additional_properties.get("_excluded")]
        return found

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages to a session: all or none, unless there are more than 10,000, a call's
        limit."""
        for part in _rows.parts(messages):
            made = _rows.Rows()
            for message in part:
                _add(made, message.to_dict())
            await self._items.aadd(session_id or _NO_SESSION, made)

    async def clear(self, session_id: str | None) -> None:
        """Delete the history of a session."""
        await self._items.adelete(session_id or _NO_SESSION)
