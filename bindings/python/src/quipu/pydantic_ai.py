"""Conversations of Pydantic AI on a quipu store."""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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

from . import _call, _pages, _rows
from ._errors import Exists, Expired, Limit, NotFound, Unsupported
from ._items import POP, aget
from ._native import lib
from ._rows import BATCH_MAX, At
from ._steps import LOST, adrive
from ._store import AsyncStore

if TYPE_CHECKING:
    from ._fields import Session

__all__ = ["QuipuConversationStore"]

_RECORD = "record"  # the member of a session's metadata that has its record
_USER = "conversations"  # the user of all of them: a scope can change, a session's user cannot
_NEAR = 64  # entries that a read of the newest ones asks for beyond the limit
_HOMES_MAX = 10_000  # entries whose sessions are kept
_EXPIRES_MS = 1  # until what is deleted is gone
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


def _ends(session: Session) -> Iterable[str]:
    """The entries that the record of a session names: its head and its branches."""
    record = (session.metadata or {}).get(_RECORD) or {}
    return [one for one in (record.get("head_id"), *record.get("branches", ())) if one is not None]


class _Stored(NamedTuple):
    """What there is of a conversation; no record: what a delete left that was interrupted, or a
    session that somebody else made."""

    record: ConversationRecord | None
    at: At
    foreign: bool


_Entries = dict[str, dict[str, Any]]  # by their ids


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
        self._homes: OrderedDict[str, str] = OrderedDict()  # the session that has an entry

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

    def _remember(self, key: str, entries: Iterable[str]) -> None:
        for one in entries:
            self._homes[one] = key
            self._homes.move_to_end(one)
        while len(self._homes) > _HOMES_MAX:
            self._homes.popitem(last=False)

    async def _look(self, conversation_id: str) -> _Stored | None:
        key = self._key(conversation_id)
        try:
            session = (await self.store.get(key, last=0)).session
        except (NotFound, Expired):
            return None
        found = (session.metadata or {}).get(_RECORD)
        self._remember(key, _ends(session))
        record = None if found is None else _records.validate_python(found)
        return _Stored(record, At.of(session), session.user_id != _USER)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None."""
        found = await self._look(conversation_id)
        return None if found is None else found.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, the one that was saved last first."""
        most = _pages.PAGE if limit is None else min(limit + _NEAR, _pages.PAGE)
        page = await self.store.list(app_name=self._app, limit=most)
        found = _records_of(page.sessions, scope)
        enough = limit is not None and len(found) >= limit
        if enough and limit:  # a session changes after its record was made
            enough = found[limit - 1].updated_at >= page.sessions[-1].updated_at
        if page.next and not enough:
            found = _records_of(await adrive(self.store, _pages.every(self._app)), scope)
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
        if len(new_entries) > BATCH_MAX:
            raise Limit(
                f"{len(new_entries)} new messages in one save; at most {BATCH_MAX} are stored"
                " together: save the conversation with the first ones, then with all"
            )
        stored = await self._look(id)
        while stored is not None and stored.record is None:
            if stored.foreign:
                raise ConversationConflict(id)
            try:
                await self._end(self._key(id), stored.at)
            except LOST:
                pass  # somebody else was first
            stored = await self._look(id)
        before = stored and stored.record
        if (before.revision if before else None) != expected_revision:
            raise ConversationConflict(id)
        metadata = {_RECORD: _records.dump_python(record, mode="json")}
        try:
            if new_entries or record.head_id is None or before is not None:
                if before is not None and not new_entries:
                    await self._head_exists(record, before)
                await self._append(record, new_entries, metadata, stored and stored.at)
            else:
                await self._fork(record, metadata)
        except LOST:
            raise ConversationConflict(id) from None
        self._remember(self._key(id), [one.id for one in new_entries])
        if record.head_id is not None:
            self._remember(self._key(id), [record.head_id])

    async def _append(
        self,
        record: ConversationRecord,
        entries: Sequence[ConversationEntry],
        metadata: dict[str, Any],
        at: At | None,
    ) -> None:
        key = self._key(record.conversation_id)
        if not entries and at is not None:
            await self.store.update(key, metadata=metadata, if_revision=at.revision)
            return
        made = _rows.Rows()
        for entry in entries:
            _add(made, entry)
        names = [one.encode() for one in (self._app, _USER, record.conversation_id)]
        texts: list[bytes | None] = [key.encode(), *made.texts(), *names]
        texts.append(json.dumps(metadata).encode())
        numbers = [_rows.NEW] if at is None else [*at]
        answer = await _call.start(lib.QPY_ROWS_ADD, self.store._handle, texts, numbers)
        if _rows.repeated(answer.numbers):  # the entries were stored already, the record was not
            revision = answer.numbers[0]
            await self.store.update(key, metadata=metadata, if_revision=revision)

    async def _head_exists(self, record: ConversationRecord, before: ConversationRecord) -> None:
        """Raise unless the newest entry of a record is stored."""
        head = record.head_id
        if head is None or head in (before.head_id, *before.branches):
            return
        if await self._find(head, record.conversation_id) is None:
            raise ConversationConflict(record.conversation_id)

    async def _fork(self, record: ConversationRecord, metadata: dict[str, Any]) -> None:
        """A conversation that begins as another one: what it has in common is shared."""
        assert record.head_id is not None
        found = await self._find(record.head_id, record.forked_from)
        if found is None:
            raise ConversationConflict(record.conversation_id)
        messages = (await self.store.get(found[0])).messages
        at = next((one.seq for one in messages if one.event_id == record.head_id), None)
        if at is None:
            raise ConversationConflict(record.conversation_id)
        await self.store.fork(
            found[0],
            self._key(record.conversation_id),
            at=at,
            app_name=self._app,
            user_id=_USER,
            session_id=record.conversation_id,
            metadata=metadata,
        )

    async def _end(self, key: str, at: At) -> None:
        """Let a session expire that is as it was read, and remove it. What a writer creates in its
        place meanwhile stays: only what has expired is removed."""
        mark = _rows.Rows()
        mark.add(*POP)
        texts: list[bytes | None] = [key.encode(), *mark.texts(), None, None, None, b"{}"]
        numbers = [*at, _EXPIRES_MS]
        await _call.start(lib.QPY_ROWS_ADD, self.store._handle, texts, numbers)
        await _call.in_thread(time.sleep, 2 * _EXPIRES_MS / 1000)
        try:
            await self.store.sweep()
        except Unsupported:  # behind a server: what replaces an expired session removes it
            try:
                ttl = _EXPIRES_MS / 1000
                await self.store.create(key, ttl=ttl, app_name=self._app, user_id=_USER)
            except Exists:
                pass

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its entries, but for those that forks share."""
        stored = await self._look(conversation_id)
        if stored is None or not stored.record or stored.record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        try:
            await self._end(self._key(conversation_id), stored.at)
        except LOST:
            raise ConversationConflict(conversation_id) from None

    # ---- entries ---------------------------------------------------------------------------------

    async def _entries(self, key: str, last: int = 0) -> _Entries:
        """The entries of a session, or the newest of them; none when it does not exist."""
        found = await aget(self.store._handle, key.encode(), last)
        return {one["id"]: one for one in found.items if one is not None and "id" in one}

    async def _find(self, entry_id: str, of: str | None = None) -> tuple[str, _Entries] | None:
        """The session that has an entry, and its entries. Looked at are the one that is known, that
        of the conversation `of`, those whose record names the entry, and then all."""
        known, hint = self._homes.get(entry_id), None if of is None else self._key(of)
        found = await self._among([one for one in (known, hint) if one is not None], entry_id)
        if found is None:
            sessions = await adrive(self.store, _pages.every(self._app))
            sessions.sort(key=lambda one: entry_id not in _ends(one))
            found = await self._among([one.key for one in sessions], entry_id)
        return found

    async def _among(self, keys: list[str], entry_id: str) -> tuple[str, _Entries] | None:
        for key in keys:
            found = await self._entries(key)
            if entry_id in found:
                self._remember(key, found)
                return key, found
        return None

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, oldest first, or the last ones of them."""
        if head_id is None or limit == 0:
            return []
        key = self._homes.get(head_id)
        found: _Entries = {}
        if key is not None and limit is not None:
            found = await self._entries(key, limit + _NEAR)
            if not _reaches(found, head_id, limit):
                found = {}
        history: list[ConversationEntry] = []
        at: str | None = head_id
        while at is not None and (limit is None or len(history) < limit):
            if at not in found:  # the first one, or one whose parent is in another conversation
                more = await self._find(at)
                if more is None:
                    raise LookupError(f"the entry {at!r} is not in the store")
                found = more[1]
            history.append(_entry_of(found[at]))
            at = found[at]["parent"]
        return history[::-1]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry."""
        found = await self._find(entry_id)
        if found is None:
            raise LookupError(f"the entry {entry_id!r} is not in the store")
        return _entry_of(found[1][entry_id])


def _records_of(sessions: list[Session], scope: str | None) -> list[ConversationRecord]:
    """The records of sessions, the one that was saved last first."""
    kept = [(one.metadata or {}).get(_RECORD) for one in sessions]
    found = [
        _records.validate_python(one)
        for one in kept
        if one is not None and (scope is None or one.get("scope") == scope)
    ]
    return sorted(found, key=lambda one: one.updated_at, reverse=True)


def _reaches(found: _Entries, head_id: str, limit: int) -> bool:
    """Whether the last `limit` entries up to a head are among those that were read."""
    at: str | None = head_id
    for _ in range(limit):
        if at is None:
            return True
        if at not in found:
            return False
        at = found[at]["parent"]
    return True
