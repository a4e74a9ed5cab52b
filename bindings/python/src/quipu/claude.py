"""Session transcripts of the Claude Agent SDK on a quipu store."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ._requires import require

require(__name__, "claude-agent-sdk", "0.2", "claude")

from claude_agent_sdk import SessionStore, fold_session_summary

from . import _call, _pages, _rows
from ._errors import Conflict, Exists, Expired, NotFound
from ._items import aget
from ._native import lib
from ._rows import Call, Rows
from ._steps import adrive
from ._store import AsyncStore

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from ._fields import Session

__all__ = ["QuipuSessionStore"]

_CACHED = 256  # sessions whose revision and summary are kept
_SUMMARY = "claude"  # the member of a session's metadata that has its summary


class _Known(NamedTuple):
    """A session as it was last seen, and its summary."""

    at: _rows.At
    summary: dict[str, Any] | None


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def _blocks(entry: dict[str, Any]) -> tuple[str, list[Call], bool]:
    """The text of an entry, its tool calls, and whether they are answers."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else entry.get("content")
    calls: list[Call] = []
    answers = False
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            given = _rows.reading(block.get("input"))
            calls.append((str(block.get("id") or ""), str(block.get("name") or ""), given, None))
        elif kind == "tool_result":
            answers = True
            found = block.get("content")
            text = _rows.text_of(found) if isinstance(found, list) else _rows.reading(found)
            calls.append((str(block.get("tool_use_id") or ""), "", "", text))
    return _rows.text_of(content), calls, answers


def _event(entry: dict[str, Any]) -> bytes:
    """The event id of an entry: its uuid; none for one with half of a surrogate pair, which only
    JSON can say: a character in its place would make two uuids equal."""
    uuid = entry.get("uuid")
    try:
        return uuid.encode() if isinstance(uuid, str) else b""
    except UnicodeEncodeError:
        return b""


def _without(entries: list[Any], stored: set[bytes]) -> list[Any]:
    """The entries that are not stored, each once, and those without a uuid."""
    left: list[Any] = []
    for entry in entries:
        event = _event(entry)
        if not event or event not in stored:
            left.append(entry)
            stored.add(event)
    return left


def _add(made: Rows, entry: dict[str, Any]) -> None:
    """Add an entry as a message: what was said and which tools were called, and all of it."""
    text, calls, answers = _blocks(entry)
    kind = entry.get("type")
    role = "tool" if answers else kind if kind in ("user", "assistant") else "system"
    extra = _rows.item_extra(entry)
    made.add(_rows.number_of(role), _rows.encoded(text), extra, _event(entry), calls)


class QuipuSessionStore(SessionStore):
    """A `SessionStore` with all six methods. A transcript is a session, its entries are messages:
    search and recall find what was said. Entries whose uuid is stored already are not stored again,
    and the summary changes in the transaction of the append. Processes can share a file."""

    def __init__(
        self, store: AsyncStore | str | os.PathLike[str], *, app_name: str = "claude"
    ) -> None:
        """On a store, or on the store at a path. Transcripts are sessions of the app `app_name`;
        their projects are its users."""
        self._owned = not isinstance(store, AsyncStore)
        self.store = store if isinstance(store, AsyncStore) else AsyncStore(store)
        self._app = app_name
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            await self.store.close()

    async def __aenter__(self) -> QuipuSessionStore:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _key(self, key: SessionKey) -> str:
        sub = key.get("subpath")
        head = f"{self._app}:{_quoted(key['project_key'])}/{_quoted(key['session_id'])}"
        return head if sub is None else f"{head}/{sub}"

    # ---- writing ---------------------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries; they are durable when the call returns: all or none, unless there are
        more than 10,000, a call's limit."""
        for part in _rows.parts(_without(list(entries), set())):
            await self._append(key, list(part))

    async def _append(self, key: SessionKey, left: list[Any]) -> None:
        name = self._key(key)
        while left:
            known = self._known.get(name) or await self._look(name)
            try:
                await self._write(key, name, known, left)
                return
            except Exists:
                self._known.pop(name, None)
                if known is not None:  # else somebody else created it
                    left = await self._without_stored(name, left)
            except (Conflict, NotFound, Expired):
                self._known.pop(name, None)  # somebody else was first: look again

    async def _look(self, name: str) -> _Known | None:
        try:
            session = (await self.store.get(name, last=0)).session
        except (NotFound, Expired):
            return None
        return _Known(_rows.At.of(session), (session.metadata or {}).get(_SUMMARY))

    async def _write(
        self, key: SessionKey, name: str, known: _Known | None, entries: list[Any]
    ) -> None:
        summary = known.summary if known is not None else None
        made = Rows()
        for entry in entries:
            _add(made, entry)
        metadata: bytes | None = None
        if key.get("subpath") is None:
            session, project = key["session_id"], key["project_key"]
            previous = {"session_id": session, "mtime": 0, "data": summary} if summary else None
            folded = fold_session_summary(cast("Any", previous), key, entries)
            if folded["data"] != summary:
                metadata = json.dumps({_SUMMARY: folded["data"]}).encode()
            summary = folded["data"]
        texts: list[bytes | None] = [name.encode(), *made.texts(), self._app.encode()]
        texts += [key["project_key"].encode(), self._id(key).encode(), metadata]
        at = [_rows.NEW] if known is None else [*known.at]
        answer = await _call.start(lib.QPY_ROWS_ADD, self.store._handle, texts, at)
        if _rows.repeated(answer.numbers):  # others may have appended since: `summary` lacks that
            self._known.pop(name, None)
            return
        self._known[name] = _Known(_rows.At.written(answer.numbers), summary)
        self._known.move_to_end(name)
        if len(self._known) > _CACHED:
            self._known.popitem(last=False)

    @staticmethod
    def _id(key: SessionKey) -> str:
        sub = key.get("subpath")
        return _quoted(key["session_id"]) + ("" if sub is None else f"/{sub}")

    async def _without_stored(self, name: str, entries: list[Any]) -> list[Any]:
        """The entries that are not stored, by their uuids, and those without one."""
        try:
            messages = (await self.store.get(name)).messages
        except (NotFound, Expired):
            return entries
        return _without(entries, {one.event_id.encode() for one in messages})

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript, and with a session those of its agents."""
        names = [self._key(key)]
        if key.get("subpath") is None:
            names += [one.key for one, id, sub in await self._of(key) if sub is not None]
        for name in reversed(names):
            self._known.pop(name, None)
            await self.store.delete(name)

    # ---- reading ---------------------------------------------------------------------------------

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries, oldest first; None when there is no such transcript."""
        found = await aget(self.store._handle, self._key(key).encode())
        return cast("list[SessionStoreEntry]", found.items) if found.numbers else None

    async def _sessions(self, project: str) -> list[tuple[Session, str, str | None]]:
        """The sessions of a project, each with its id and its path below that, or None."""
        found: list[tuple[Session, str, str | None]] = []
        for one in await adrive(self.store, _pages.every(self._app, project)):
            id, slash, sub = one.session_id.partition("/")
            id = id.replace("%2F", "/").replace("%25", "%")
            found.append((one, id, sub if slash else None))
        return found

    async def _of(
        self, key: SessionKey | SessionListSubkeysKey
    ) -> list[tuple[Session, str, str | None]]:
        found = await self._sessions(key["project_key"])
        return [one for one in found if one[1] == key["session_id"]]

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project and when they changed."""
        return [
            {"session_id": id, "mtime": _milliseconds(one)}
            for one, id, sub in await self._sessions(project_key)
            if sub is None
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions."""
        return [
            {"session_id": id, "mtime": _milliseconds(one), "data": one.metadata[_SUMMARY]}
            for one, id, sub in await self._sessions(project_key)
            if sub is None and _SUMMARY in (one.metadata or {})
        ]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the paths of a session's other transcripts."""
        return [sub for _, _, sub in await self._of(key) if sub is not None]


def _milliseconds(session: Session) -> int:
    return int(session.updated_at.timestamp() * 1000)
