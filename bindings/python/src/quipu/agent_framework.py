"""Histories of the Microsoft Agent Framework on a quipu store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._requires import require

require(__name__, "agent-framework-core", "1.23", "agent-framework")

from agent_framework import Content, HistoryProvider, Message

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


class _Builder:
    """Messages out of their dicts, as Message.from_dict() makes them. The first one of a kind is
    made so. A later one whose members are plain values gets the attributes of the first one and its
    own members: the framework's constructors check what was checked before it was stored, and cost
    several times as much as the rest of a read."""

    _PLAIN = frozenset((str, bool, int, float))

    def __init__(self) -> None:
        # By type and names of members: the attributes, where they are the members and plain values.
        self._contents: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._messages: dict[tuple[Any, ...], dict[str, Any]] = {}

    def message(self, item: dict[str, Any]) -> Message:
        """A message of a stored item."""
        said = self._messages.get((item.get("type"), *item))
        if said is None or item["additional_properties"]:
            return self._first(item)
        contents: list[Content] = []
        for one in item["contents"]:
            known = self._contents.get((one.get("type"), *one))
            if known is None or not self._is_plain(one):
                return self._first(item)
            content = Content.__new__(Content)
            content.__dict__ = {**known, **one}
            contents.append(content)
        made = Message.__new__(Message)
        made.__dict__ = {**said, **item, "contents": contents}
        del made.__dict__["type"]
        return made

    def _is_plain(self, members: dict[str, Any]) -> bool:
        """Whether a constructor keeps members as they are: values that are no containers, and
        additional properties that are empty."""
        for value in members.values():
            if type(value) not in self._PLAIN and value != {}:
                return False
        return True

    def _first(self, item: dict[str, Any]) -> Message:
        made = Message.from_dict(item)
        members = {name: value for name, value in item.items() if name not in ("type", "contents")}
        self._learn(self._messages, item, made, {**members, "contents": made.contents})
        if len(made.contents) == len(item["contents"]):
            for one, content in zip(item["contents"], made.contents, strict=True):
                if isinstance(one, dict) and self._is_plain(one):
                    self._learn(self._contents, one, content, one)
        return made

    def _learn(self, kinds: Any, item: dict[str, Any], made: object, members: Any) -> None:
        """Know a kind, unless its attributes are more than its members and plain values."""
        rest = {name: value for name, value in vars(made).items() if name not in members}
        plain = all(value is None or type(value) in self._PLAIN for value in rest.values())
        if "additional_properties" in members and plain and vars(made) == {**rest, **members}:
            kinds[item.get("type"), *item] = vars(made).copy()


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
        self._builder = _Builder()

    async def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            await self.store.close()

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        found, _ = await self._items.aread(session_id or _NO_SESSION, self._builder.message)
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
