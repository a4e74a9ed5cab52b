"""A conversation of LangChain on a quipu store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._requires import require

require(__name__, "langchain-core", "1.7", "langchain")

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from . import _rows
from ._items import Items
from ._store import AsyncStore, Store

__all__ = ["QuipuChatMessageHistory"]


def _packed(messages: Sequence[BaseMessage]) -> _rows.Rows:
    made = _rows.Rows()
    for message in messages:
        role, text, calls = _rows.langchain_row(message)
        made.add(role, text, _rows.item_extra(message_to_dict(message)), calls=calls)
    return made


class QuipuChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation. Conversations can share a store, and processes its file."""

    def __init__(
        self,
        session_id: str,
        store: Store | AsyncStore | str | os.PathLike[str],
        *,
        app_name: str = "langchain",
    ) -> None:
        """The conversation `session_id` of a store, or of the store at a path."""
        self.session_id = session_id
        self._owned = not isinstance(store, (Store, AsyncStore))
        self.store = store if isinstance(store, (Store, AsyncStore)) else Store(store)
        self._items = Items(self.store, app_name)

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            self.store._handle.close()

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """All messages, oldest first."""
        return messages_from_dict(self._items.read(self.session_id)[0])

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        return messages_from_dict((await self._items.aread(self.session_id))[0])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages: all or none, unless there are more than 10,000, a call's limit."""
        for part in _rows.parts(messages):
            self._items.add(self.session_id, _packed(part))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As add_messages()."""
        for part in _rows.parts(messages):
            await self._items.aadd(self.session_id, _packed(part))

    def clear(self) -> None:
        """Delete the conversation."""
        self._items.delete(self.session_id)

    async def aclear(self) -> None:
        """As clear()."""
        await self._items.adelete(self.session_id)

    def import_from(self, other: Any) -> int:
        """Add the messages of another history; returns how many."""
        found = list(other.messages)
        self.add_messages(found)
        return len(found)
