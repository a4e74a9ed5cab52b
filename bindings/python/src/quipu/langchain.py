"""A conversation of LangChain on a quipu store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._requires import require

require(__name__, "langchain-core", "1.7", "langchain")

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

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


_KINDS: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}
_set = object.__setattr__


class _Builder:
    """Messages out of their dicts. The first one of a kind is made by its constructor, which
    validates what was valid when it was stored. Later ones with the same members, all of them texts
    or empty, get them as pydantic's model_construct() gives them."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}  # of members, by type

    def message(self, item: dict[str, Any]) -> BaseMessage:
        """A message of a stored item."""
        kind, members = item["type"], item["data"]
        names = tuple(members)
        if self._names.get(kind) != names or not self._is_plain(members):
            return self._first(item)
        made = _KINDS[kind].__new__(_KINDS[kind])
        _set(made, "__dict__", members)
        _set(made, "__pydantic_fields_set__", {*names})
        _set(made, "__pydantic_extra__", {})
        _set(made, "__pydantic_private__", None)
        return made

    @staticmethod
    def _is_plain(members: dict[str, Any]) -> bool:
        for value in members.values():
            if value and type(value) is not str:
                return False
        return True

    def _first(self, item: dict[str, Any]) -> BaseMessage:
        kind, members = item["type"], item["data"]
        (made,) = messages_from_dict([item])
        if (
            kind in _KINDS
            and self._is_plain(members)
            and list(made.__dict__.items()) == list(members.items())
            and made.__pydantic_fields_set__ == {*members}
            and not made.__pydantic_extra__
            and not made.__pydantic_private__
        ):
            self._names[kind] = tuple(members)
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
        self._builder = _Builder()

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            self.store._handle.close()

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """All messages, oldest first."""
        return self._items.read(self.session_id, self._builder.message)[0]

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        return (await self._items.aread(self.session_id, self._builder.message))[0]

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
