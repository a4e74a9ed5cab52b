"""Conversations of Pydantic AI on a quipu store."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pydantic

from ._requires import require

require(__name__, "pydantic-ai-slim", "2.66", "pydantic-ai")

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from . import _call, _rows
from ._errors import Conflict, Exists, Expired, NotFound
from ._items import aget
from ._native import lib
from ._store import AsyncStore

__all__ = ["QuipuConversationStore"]

_RECORD = "record"  # the member of a session's metadata that has its record
_USER = "conversations"  # the user of all of them: a scope can change, a session's user cannot
_PAGE = 1000
_NEAR = 64  # entries that a read of the newest ones asks for beyond the limit
_LOST = (Conflict, Exists, NotFound, Expired)
_records = pydantic.TypeAdapter(ConversationRecord)


def _add(made: _rows.Rows, entry: ConversationEntry) -> None:
    """Add an entry as a message: what was said and which tools were called, and all of it."""
    (message,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    texts: list[str] = []
    calls: list[_rows.Call] = []
    role = "assistant" if message["kind"] == "response" else "user"
    for part in message["parts"]:
        kind, content = part.get("part_kind"), part.get("content")
        id, name = part.get("tool_call_id") or "", part.get("tool_name") or ""
        if kind == "tool-call":
            calls.append((id, name, _rows.reading(part.get("args")), None))
        elif kind == "tool-return":
            role = "tool"
            calls.append((id, name, "", _rows.reading(content)))
        elif kind in ("user-prompt", "text", "system-prompt"):
            texts.append(_rows.text_of(content))
    item = {"id": entry.id, "parent": entry.parent_id, "message": message}
    text = _rows.encoded("\n".join(texts))
    event = _rows.encoded(entry.id)
    made.add(_rows.number_of(role), text, _rows.item_extra(item), event, calls)


def _entry_of(item: dict[str, Any]) -> ConversationEntry:
    (message,) = ModelMessagesTypeAdapter.validate_python([item["message"]])
    return ConversationEntry(id=item["id"], parent_id=item["parent"], message=message)


class QuipuConversationStore(ConversationStore):
    """A `ConversationStore`: a conversation is a session, its entries are messages. A save appends
    the new entries and changes the record in one transaction; a fork shares what it has in common,
    and keeps it when the other is deleted. Deleting a conversation deletes its entries, but for
    those that forks share. Processes can share a file."""

    def __init__(
        self, store: AsyncStore | str | os.PathLike[str], *, app_name: str = "pydantic_ai"
    ) -> None:
        """On a store, or on the store at a path."""
        self._owned = not isinstance(store, AsyncStore)
        self.store = store if isinstance(store, AsyncStore) else AsyncStore(store)
        self._app = app_name
        self._homes: dict[str, str] = {}  # the session of an entry that was a head

    async def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            await self.store.close()

    async def __aenter__(self) -> QuipuConversationStore:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _key(self, conversation_id: str) -> str:
        return f"{self._app}:{conversation_id}"

    async def _look(self, conversation_id: str) -> tuple[ConversationRecord, int] | None:
        """A record and the revision of its session."""
        key = self._key(conversation_id)
        try:
            session = (await self.store.get(key, last=0)).session
        except (NotFound, Expired):
            return None
        found = (session.metadata or {}).get(_RECORD)
        if found is None:
            return None
        record = _records.validate_python(found)
        if record.head_id is not None:
            self._homes[record.head_id] = key
        return record, session.revision

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None."""
        found = await self._look(conversation_id)
        return None if found is None else found[0]

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, the one that was saved last first."""
        found: list[ConversationRecord] = []
        after: str | None = None
        while True:
            page = await self.store.list(app_name=self._app, after=after, limit=_PAGE)
            for one in page.sessions:
                kept = (one.metadata or {}).get(_RECORD)
                if kept is not None and (scope is None or kept.get("scope") == scope):
                    found.append(_records.validate_python(kept))
            after = page.next
            if not after:
                found.sort(key=lambda one: one.updated_at, reverse=True)
                return found[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and what is new of its history, all or nothing."""
        id = record.conversation_id
        stored = await self._look(id)
        if (stored[0].revision if stored else None) != expected_revision:
            raise ConversationConflict(id)
        metadata = {_RECORD: _records.dump_python(record, mode="json")}
        if not new_entries and record.head_id is not None:
            await self._head_exists(record, stored is not None)
        try:
            if stored is None and not new_entries and record.head_id is not None:
                await self._fork(record, metadata)
            else:
                await self._append(record, new_entries, metadata, stored[1] if stored else None)
        except _LOST:
            raise ConversationConflict(id) from None
        if record.head_id is not None:
            self._homes[record.head_id] = self._key(id)

    async def _append(
        self,
        record: ConversationRecord,
        entries: Sequence[ConversationEntry],
        metadata: dict[str, Any],
        revision: int | None,
    ) -> None:
        key = self._key(record.conversation_id)
        if not entries and revision is not None:
            await self.store.update(key, metadata=metadata, if_revision=revision)
            return
        made = _rows.Rows()
        for entry in entries:
            _add(made, entry)
        names = [one.encode() for one in (self._app, _USER, record.conversation_id)]
        texts: list[bytes | None] = [key.encode(), *made.texts(), *names]
        texts.append(json.dumps(metadata).encode())
        numbers = [_rows.NEW if revision is None else revision]
        await _call.start(lib.QPY_ROWS_ADD, self.store._handle, texts, numbers)

    async def _head_exists(self, record: ConversationRecord, known: bool) -> None:
        """Raise unless the newest entry of a record is stored."""
        assert record.head_id is not None
        key = self._key(record.conversation_id) if known else self._homes.get(record.head_id)
        found = await self._entries(key) if key else None
        if found is None or record.head_id not in found:
            if await self._home(record.head_id) is None:
                raise ConversationConflict(record.conversation_id)

    async def _fork(self, record: ConversationRecord, metadata: dict[str, Any]) -> None:
        """A conversation that begins as another one: what it has in common is shared."""
        assert record.head_id is not None
        source = await self._home(record.head_id)
        if source is None:
            raise ConversationConflict(record.conversation_id)
        messages = (await self.store.get(source)).messages
        at = next(one.seq for one in messages if one.event_id == record.head_id)
        await self.store.fork(
            source,
            self._key(record.conversation_id),
            at=at,
            app_name=self._app,
            user_id=_USER,
            session_id=record.conversation_id,
            metadata=metadata,
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its entries, but for those that forks share."""
        stored = await self._look(conversation_id)
        if stored is None or stored[0].revision != expected_revision:
            raise ConversationConflict(conversation_id)
        key = self._key(conversation_id)
        try:  # a session without a record is none, so that nobody saves to it in between
            await self.store.update(key, metadata={}, if_revision=stored[1])
        except _LOST:
            raise ConversationConflict(conversation_id) from None
        await self.store.delete(key)

    # ---- entries ---------------------------------------------------------------------------------

    async def _entries(self, key: str, last: int = 0) -> dict[str, dict[str, Any]] | None:
        """The entries of a session by their ids, or the newest of them."""
        found = await aget(self.store._handle, key.encode(), last)
        if not found.numbers:
            return None
        return {one["id"]: one for one in found.items if one is not None}

    async def _home(self, entry_id: str) -> str | None:
        """The session that has an entry: the one that is known, else all are searched."""
        key = self._homes.get(entry_id)
        if key is not None and entry_id in (await self._entries(key) or {}):
            return key
        after: str | None = None
        while True:
            page = await self.store.list(app_name=self._app, after=after, limit=_PAGE)
            for one in page.sessions:
                if entry_id in (await self._entries(one.key) or {}):
                    self._homes[entry_id] = one.key
                    return one.key
            after = page.next
            if not after:
                return None

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, oldest first, or the last ones of them."""
        if head_id is None or limit == 0:
            return []
        key = self._homes.get(head_id)
        found: dict[str, dict[str, Any]] = {}
        if key is not None and limit is not None:
            found = await self._entries(key, limit + _NEAR) or {}
            if not _reaches(found, head_id, limit):
                found = {}
        if not found:
            key = await self._home(head_id)
            found = (await self._entries(key) if key else None) or {}
        history: list[ConversationEntry] = []
        at: str | None = head_id
        while at is not None and (limit is None or len(history) < limit):
            if at not in found:
                raise LookupError(f"the entry {at!r} is not in the store")
            history.append(_entry_of(found[at]))
            at = found[at]["parent"]
        return history[::-1]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry."""
        key = await self._home(entry_id)
        if key is None:
            raise LookupError(f"the entry {entry_id!r} is not in the store")
        return _entry_of((await self._entries(key) or {})[entry_id])


def _reaches(found: dict[str, dict[str, Any]], head_id: str, limit: int) -> bool:
    """Whether the last `limit` entries up to a head are among those that were read."""
    at: str | None = head_id
    for _ in range(limit):
        if at is None:
            return True
        if at not in found:
            return False
        at = found[at]["parent"]
    return True
