"""Chat histories of LlamaIndex on a quipu store."""

from __future__ import annotations

import os
from typing import Any

from ._requires import require

require(__name__, "llama-index-core", "0.14", "llama-index")

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore

from . import _pages, _rows
from ._errors import Limit
from ._items import BORDER, DEAD_MIN, POP, Items, without_marks
from ._rows import BATCH_MAX
from ._steps import drive
from ._store import AsyncStore, Store

__all__ = ["QuipuChatStore"]


def _add(made: _rows.Rows, item: dict[str, Any]) -> None:
    blocks = item.get("blocks") or []
    calls: list[_rows.Call] = []
    for block in blocks:
        if block.get("block_type") == "tool_call":
            given = _rows.reading(block.get("tool_kwargs"))
            calls.append(
                (block.get("tool_call_id") or "", block.get("tool_name") or "", given, None)
            )
    text = _rows.text_of(blocks)
    id = (item.get("additional_kwargs") or {}).get("tool_call_id")
    if item.get("role") == "tool" and isinstance(id, str):
        calls = [(id, "", "", text)]
    role = _rows.number_of(item.get("role"))
    made.add(role, _rows.encoded(text), _rows.item_extra(item), calls=calls)


class _Change:
    """The rows that make one list of another. When more rows than the list has are dead, which are
    marks and what they took away, all is written anew, and those before are dropped."""

    def __init__(self, found: list[Any], after: list[Any], dead: int) -> None:
        """From the list `found`, behind so many dead rows, to the list `after`."""
        same = 0
        while same < min(len(found), len(after)) and found[same] == after[same]:
            same += 1
        drops = dead + 2 * (len(found) - same) > max(len(after), DEAD_MIN)
        drops = drops and same < max(len(found), len(after))
        if drops and len(found) + len(after) < BATCH_MAX:
            same = 0
        marks = len(found) - same
        anew = drops and same == 0 and marks < BATCH_MAX
        self.made = _rows.Rows()
        for _ in range(min(marks, BATCH_MAX)):
            self.made.add(*POP)
        if anew:
            self.made.add(*BORDER)
        added = after[same : same + max(BATCH_MAX - marks - anew, 0)]
        for item in added:
            _add(self.made, item)
        self.count = marks + anew + len(after) - same
        self.live = len(added) if anew else None


class QuipuChatStore(BaseChatStore):
    """A `BaseChatStore` that appends: adding a message writes that message, and setting a list that
    begins like the stored one writes the rest. Processes can share a file."""

    _items: Items = PrivateAttr()
    _owned: bool = PrivateAttr()

    def __init__(
        self,
        store: Store | AsyncStore | str | os.PathLike[str],
        *,
        app_name: str = "llama_index",
    ) -> None:
        """On a store, or on the store at a path."""
        super().__init__()
        self._owned = not isinstance(store, (Store, AsyncStore))
        opened = store if isinstance(store, (Store, AsyncStore)) else Store(store)
        self._items = Items(opened, app_name)

    @classmethod
    def class_name(cls) -> str:
        """The name of the class."""
        return "QuipuChatStore"

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            self._items.store._handle.close()

    def _change(self, key: str, wanted: list[dict[str, Any]] | None, at: int | None) -> Any:
        """Make the list `wanted`, or the stored one without item `at`; return what was before. An
        append does it: a mark takes each item away that differs, and what follows is added. What is
        more than a call of the store takes is added by the next."""
        while True:
            rows, seen = self._items.rows(key)
            found = without_marks(rows)
            after = wanted
            if after is None:
                if at is None or not -len(found) <= at < len(found):
                    return None
                after = [*found]
                del after[at]
            change = _Change(found, after, len(rows) - len(found))
            if wanted is None and change.count > BATCH_MAX:
                raise Limit(
                    f"taking away message {at} of {len(found)} writes {change.count} messages; at"
                    f" most {BATCH_MAX} are written at once: use set_messages(), which writes parts"
                )
            following = self._items.replace(key, change.made, seen) if change.count else 0
            if following and change.live is not None:
                self._items.drop(key, following - 2 - change.live)
            if change.count == 0 or (following and change.count <= BATCH_MAX):
                return found if wanted is not None else found[at or 0]

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make these the messages of a key."""
        self._change(key, [one.model_dump(mode="json") for one in messages], None)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages of a key, oldest first."""
        return self._items.read(key, ChatMessage.model_validate)[0]

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message to a key."""
        made = _rows.Rows()
        _add(made, message.model_dump(mode="json"))
        self._items.add(key, made)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete a key; returns its messages, or None when there is no such key."""
        found, revision = self._items.read(key, ChatMessage.model_validate)
        if revision == _rows.NEW:
            return None
        self._items.delete(key)
        return found

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take one message out of a key, and return it."""
        found = self._change(key, None, idx)
        return None if found is None else ChatMessage.model_validate(found)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Take the newest message away, and return it."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """Return all keys."""
        step = _pages.every(self._items.app)
        return [one.user_id for one in drive(self._items.store, step)]

    def import_from(self, other: BaseChatStore) -> int:
        """Copy all keys of another store; returns how many."""
        keys = other.get_keys()
        for key in keys:
            self.set_messages(key, other.get_messages(key))
        return len(keys)
