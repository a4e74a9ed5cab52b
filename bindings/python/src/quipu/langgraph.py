"""Checkpoints and long-term memory of LangGraph on a quipu store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ._requires import require

require(__name__, "langgraph-checkpoint", "4.3", "langgraph")

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from . import _requests
from . import _langgraph_rows as rows
from ._build import no_collection
from ._errors import NotFound
from ._langgraph_store import QuipuStore
from ._langgraph_rows import Codec, Header, Link, Prefix, Record, Writes
from ._native import lib
from ._rows import Rows
from ._steps import LOST, Ask, Step, adrive, drive, drop
from ._store import AsyncStore, Store
from ._types import ROLES

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions
    from langgraph.checkpoint.serde.base import SerializerProtocol

__all__ = ["QuipuSaver", "QuipuStore"]

T = TypeVar("T")

_SYSTEM = ROLES.index("system") + 1
_TAIL = 32  # rows that the first read of a thread asks for
_NEAR = 64  # rows; a list that is nearer is read in the same call as the checkpoint
_PAGE = 512  # rows of a page of a list
_BATCH = 4000  # rows of one append
_CACHED_THREADS = 128  # whose newest rows are kept...
_CACHED_ITEMS = 50_000  # ...and how many messages of their lists


class _Got(NamedTuple):
    """The rows that a read found."""

    uid: tuple[int, int]
    revision: int
    next: int
    lines: dict[int, bytes]


class _Head(NamedTuple):
    """The newest rows of a session: the checkpoint with the greatest id and what follows it."""

    uid: tuple[int, int]
    revision: int
    next: int
    header: Header
    record: Record | None  # the checkpoint `header.top`
    lines: dict[int, bytes]

    @property
    def top_id(self) -> str:
        """The greatest id."""
        return self.record.id if self.record else ""


_NEW = _Head((0, 0), -1, 1, Header(0, 1, True), None, {})


def _given(config: RunnableConfig) -> dict[str, Any]:
    """What a config has for savers."""
    return config.get("configurable") or {}


def _ids(config: RunnableConfig) -> tuple[str, str, str | None]:
    """The thread, the namespace and the checkpoint that a config names."""
    given = _given(config)
    return str(given["thread_id"]), given.get("checkpoint_ns", ""), given.get("checkpoint_id")


class _Session:
    """A thread's namespace, which is a session."""

    __slots__ = ("app", "thread", "ns", "key", "id")

    def __init__(self, app: str, thread: str, ns: str) -> None:
        self.app, self.thread, self.ns = app, thread, ns
        # Threads and namespaces of any name have keys of their own.
        quoted = thread.replace("%", "%25").replace("/", "%2F")
        self.key = f"{app}:{quoted}/{ns}" if ns else f"{app}:{quoted}"
        self.id = f"/{ns}"  # among the sessions of the thread; the store lists none without one

    def config(self, checkpoint: str) -> RunnableConfig:
        """The config of a checkpoint."""
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.ns,
                "checkpoint_id": checkpoint,
            }
        }


class _Cursor:
    """A walk through the checkpoints of a session, newest first."""

    def __init__(self, session: _Session) -> None:
        self.session = session
        self.start = 0  # the first row that counts
        self.before = 0  # rows from here on were read; 0: none
        self.done = False
        self.found: list[tuple[Record, int]] = []  # oldest first, taken from the end
        self.writes: dict[str, list[tuple[int, Writes]]] = {}
        self.lines: dict[int, bytes] = {}
        self.seen: set[str] = set()

    def take(self, lines: dict[int, bytes]) -> None:
        """Note a page of rows."""
        found: dict[str, tuple[Record, int]] = {}
        for seq in sorted(lines, reverse=True):
            line = lines[seq]
            if line[:1] == b"W":
                writes = rows.writes_of(line)
                self.writes.setdefault(writes.checkpoint, []).append((seq, writes))
                continue
            record = rows.record_of(line)
            if record.id not in self.seen:  # the newest of several counts
                self.seen.add(record.id)
                found[record.id] = record, seq
        self.found = sorted(found.values(), key=lambda one: one[0].id) + self.found

    def writes_for(self, id: str) -> list[Writes]:
        """The writes of a checkpoint, oldest first."""
        return [writes for _, writes in sorted(self.writes.get(id, []), key=lambda one: one[0])]


class _Plan(NamedTuple):
    """A checkpoint that is to be written."""

    rows: list[rows.Row]
    head: _Head  # as it is afterwards, but for the revision
    lists: dict[str, Prefix]


class QuipuSaver(BaseCheckpointSaver[Any]):
    """Checkpoints of LangGraph in a store: each thread a session, each step what it changed.

    A list of messages is written by what it grew; everything else with each checkpoint. Messages
    are also messages of the session, which search, recall and `quipu show` find, unless the
    serializer is one of your own. Threads, event loops and processes can share a store."""

    def __init__(
        self,
        store: Store | AsyncStore | str | os.PathLike[str],
        *,
        serde: SerializerProtocol | None = None,
        app_name: str = "langgraph",
    ) -> None:
        """A saver on a store, or on the store at a path. Threads are sessions of the app
        `app_name`, and their ids are its users."""
        super().__init__(serde=serde)
        self._owned = not isinstance(store, (Store, AsyncStore))
        self.store = store if isinstance(store, (Store, AsyncStore)) else Store(store)
        self._app = app_name
        self._lock = threading.RLock()
        self._heads: OrderedDict[str, _Head] = OrderedDict()
        self._lists: OrderedDict[str, tuple[tuple[int, int], dict[str, Prefix]]] = OrderedDict()
        self._items = 0  # messages in them
        self._turns: weakref.WeakValueDictionary[tuple[int, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        self._made: tuple[Any, Codec] | None = None

    def close(self) -> None:
        """Close the store, if this saver opened it."""
        if self._owned:
            self.store._handle.close()

    def __enter__(self) -> QuipuSaver:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> QuipuSaver:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def _codec(self) -> Codec:
        if self._made is None or self._made[0] is not self.serde:
            self._made = self.serde, Codec(self.serde)
        return self._made[1]

    # ---- calls -----------------------------------------------------------------------------------

    def _drive(self, step: Step[T]) -> T:
        return drive(self.store, step)

    async def _adrive(self, step: Step[T]) -> T:
        return await adrive(self.store, step)

    def _write(self, step: Step[T]) -> T:
        with self._lock:  # so that writers of one process do not conflict
            return self._drive(step)

    async def _awrite(self, key: str, step: Step[T]) -> T:
        place = id(asyncio.get_running_loop()), key
        turn = self._turns.get(place)
        if turn is None:
            turn = self._turns[place] = asyncio.Lock()
        async with turn:
            return await self._adrive(step)

    def _session(self, config: RunnableConfig) -> _Session:
        thread, ns, _ = _ids(config)
        return _Session(self._app, thread, ns)

    # ---- reading ---------------------------------------------------------------------------------

    def _read(
        self, key: str, after: int = 0, before: int = 0, last: int = 0, kinds: bytes | None = None
    ) -> Step[_Got | None]:
        """Rows of a session by their numbers; None when there is no such session."""
        answer = yield Ask(
            lib.QPY_ROWS_GET, [key.encode(), rows.BEFORE, kinds], [after, before, last]
        )
        if not answer.texts:
            return None
        low, high, revision, following, first = answer.numbers
        split = (answer.texts[0] or b"").split(b"\n")
        lines = {first + at: line for at, line in enumerate(split) if line}
        return _Got((low, high), revision, following, lines)

    def _fresh(self, key: str, back: int = 0) -> Step[tuple[_Head, dict[int, bytes]] | None]:
        """The newest rows of a session, and all those from number `back` on that were read."""
        while True:
            known = self._heads.get(key)
            if known is None:
                found = yield from self._read(key, last=_TAIL)
            else:
                found = yield from self._read(key, after=(back or known.next) - 1)
            if found is None:
                self._heads.pop(key, None)
                return None
            if known is not None and known.uid != found.uid:
                self._heads.pop(key, None)
                continue
            lines = {**known.lines, **found.lines} if known else found.lines
            newest = max((seq for seq in lines), default=0)
            if known is None and newest == 0 and found.next > 1:
                found = yield from self._read(key)  # none of the saver's rows among so many
                if found is None:
                    return None
                lines, newest = found.lines, max(found.lines, default=0)
            if newest == 0:
                head = _Head(found.uid, found.revision, found.next, _NEW.header, None, {})
                return head, lines
            header = rows.header_of(lines[newest])
            start = header.top or header.start
            if start not in lines or start < min(lines):
                more = yield from self._read(key, after=start - 1)
                if more is None or more.uid != found.uid:
                    continue
                lines = {**more.lines, **lines}
            if header.top and header.top not in lines:
                self._heads.pop(key, None)  # it was pruned meanwhile
                continue
            kept = {seq: line for seq, line in lines.items() if seq >= start}
            if known is not None and known.header.top == header.top:
                record = known.record
            else:
                record = rows.record_of(kept[header.top]) if header.top else None
            head = _Head(found.uid, found.revision, found.next, header, record, kept)
            self._keep(key, head)
            return head, lines

    def _keep(self, key: str, head: _Head) -> None:
        with self._lock:
            self._heads[key] = head
            self._heads.move_to_end(key)
            while len(self._heads) > _CACHED_THREADS:
                self._heads.popitem(last=False)

    def _keep_lists(self, key: str, uid: tuple[int, int], lists: dict[str, Prefix]) -> None:
        """Keep what the lists of a session were, so that the next step can see what changed."""
        with self._lock:
            _, before = self._lists.pop(key, (uid, {}))
            self._items += _length(lists) - _length(before)
            self._lists[key] = uid, lists
            while len(self._lists) > 1 and (
                len(self._lists) > _CACHED_THREADS or self._items > _CACHED_ITEMS
            ):
                _, (_, gone) = self._lists.popitem(last=False)
                self._items -= _length(gone)

    def _forget(self, key: str) -> None:
        with self._lock:
            self._heads.pop(key, None)
            _, gone = self._lists.pop(key, ((0, 0), {}))
            self._items -= _length(gone)

    def _values(self, key: str, record: Record, lines: dict[int, bytes]) -> Step[Checkpoint]:
        """A checkpoint with its values; rows of its lists that are not there are read."""
        checkpoint: Checkpoint = self._codec.loads(record.body)
        for channel, link in record.links.items():
            if link.base not in lines or link.seq not in lines:
                found = yield from self._read(
                    key, after=link.base - 1, before=link.seq + 1, kinds=b"D"
                )
                if found is None or not {link.base, link.seq} <= found.lines.keys():
                    raise NotFound(f"the checkpoint {record.id!r} was pruned while it was read")
                lines = found.lines
            pieces = rows.pieces_of(lines, channel, link)
            with no_collection(sum(len(data) for _, _, data in pieces)):
                checkpoint["channel_values"][channel] = self._codec.items(pieces)
        return checkpoint

    def _tuple(
        self, session: _Session, record: Record, writes: Sequence[Writes], lines: dict[int, bytes]
    ) -> Step[CheckpointTuple]:
        codec = self._codec
        checkpoint = yield from self._values(session.key, record, lines)
        metadata: CheckpointMetadata = codec.loads(record.metadata)
        return CheckpointTuple(
            session.config(record.id),
            checkpoint,
            metadata,
            session.config(record.parent) if record.parent else None,
            rows.pending(writes, codec.loads),
        )

    def _get(self, config: RunnableConfig) -> Step[CheckpointTuple | None]:
        session, wanted = self._session(config), _ids(config)[2]
        key = session.key
        fresh = yield from self._fresh(key, self._near(key))
        if fresh is None:
            return None
        head, lines = fresh
        if wanted is None or wanted == head.top_id:
            if head.record is None:
                return None
            record = head.record
        else:
            found = yield from self._find(key, head, wanted)
            if found is None:
                return None
            record, lines = found
        writes = [
            one
            for one in (
                rows.writes_of(lines[seq]) for seq in sorted(lines) if _is_writes(lines[seq])
            )
            if one.checkpoint == record.id
        ]
        made = yield from self._tuple(session, record, writes, lines)
        self._keep_lists(
            key,
            head.uid,
            {
                channel: Prefix(link, cast("Any", made.checkpoint["channel_values"][channel]))
                for channel, link in record.links.items()
            },
        )
        return made

    def _near(self, key: str) -> int:
        """From where to read so that one call brings the newest checkpoint and its lists; 0: from
        where it ended, since the lists are long."""
        known = self._heads.get(key)
        if known is None or known.record is None:
            return 0
        low = min((one.base for one in known.record.links.values()), default=known.next)
        return low if known.next - low <= _NEAR else 0

    def _find(
        self, key: str, head: _Head, wanted: str
    ) -> Step[tuple[Record, dict[int, bytes]] | None]:
        """A checkpoint by its id, with the rows around it that have its writes."""
        low, high = head.header.start, head.next
        if head.header.ordered and wanted < head.top_id:
            low, high = yield from self._halve(key, low, head.header.top + 1, wanted)
        found = yield from self._read(key, after=low - 1, before=high)
        if found is None:
            return None
        lines = found.lines
        seqs = [seq for seq in sorted(lines) if not _is_writes(lines[seq])]
        records = {seq: rows.record_of(lines[seq]) for seq in seqs}
        at = max((seq for seq in seqs if records[seq].id == wanted), default=0)
        if not at:
            return None
        while head.header.ordered and at == seqs[-1] and high <= head.header.top:
            more = yield from self._read(key, after=high - 1, before=high + _NEAR)
            if more is None:
                return None
            lines = {**lines, **more.lines}
            high += _NEAR
            seqs += [seq for seq in sorted(more.lines) if not _is_writes(more.lines[seq])]
        return records[at], lines

    def _halve(self, key: str, low: int, high: int, wanted: str) -> Step[tuple[int, int]]:
        """Narrow down, by the order of ids, between which rows a checkpoint is."""
        while high - low > 2 * _NEAR:
            middle = (low + high) // 2
            found = yield from self._read(key, middle - 1, middle + _NEAR, kinds=b"CD")
            if found is None or not found.lines:
                break  # only writes there: all of it is read
            at = min(found.lines)
            if rows.record_of(found.lines[at]).id <= wanted:
                low = at
            else:
                high = middle
        return low, high

    # ---- writing ---------------------------------------------------------------------------------

    def _add(self, session: _Session, head: _Head, made: list[rows.Row]) -> Step[_Head]:
        """Append rows behind those of a head; a head that is no longer the newest raises."""
        given = Rows()
        for row in made:
            given.add(*row)
        answer = yield Ask(
            lib.QPY_ROWS_ADD,
            [
                session.key.encode(),
                *given.texts(),
                session.app.encode(),
                session.thread.encode(),
                session.id.encode(),
            ],
            [head.revision],
        )
        revision, following, *_ = answer.numbers
        return _Head(head.uid, revision, following, *head[3:])

    def _retry(self, session: _Session, change: Callable[[_Head], Step[T]]) -> Step[T]:
        """Make a change behind the newest rows, again when somebody else was first."""
        key = session.key
        while True:
            head = self._heads.get(key)
            try:
                if head is None:
                    fresh = yield from self._fresh(key)
                    head = fresh[0] if fresh else _NEW
                return (yield from change(head))
            except LOST:
                self._forget(key)
            except BaseException:
                self._forget(key)
                raise

    def _plan(
        self,
        session: _Session,
        head: _Head,
        checkpoint: Checkpoint,
        metadata: tuple[str, bytes],
        parent: str | None,
        lists: dict[str, Prefix],
    ) -> _Plan:
        """The rows of a checkpoint: the messages that are new, the last of them with the record,
        and then the writes to it that were stored before it was. LangGraph stores from several
        threads: writes to later checkpoints may be there, too, and follow the newest one."""
        codec = self._codec
        inline = dict(checkpoint["channel_values"])
        new: list[Any] = []
        grown: dict[str, tuple[Prefix | None, int, list[Any]]] = {}
        for channel, value in checkpoint["channel_values"].items():
            if rows.grows(value):
                del inline[channel]
                same = lists.get(channel)
                kept = same.common(value) if same else 0
                grown[channel] = same, kept, value
                new += value[kept:]
        new = new[-rows.SAID_MAX :] if codec.plain else []
        seq = head.next + max(0, len(new) - 1)
        links: dict[str, Link] = {}
        pieces: dict[str, list[Any]] = {}
        after: dict[str, Prefix] = {}
        for channel, (same, kept, value) in grown.items():
            if same and kept == len(value) == same.link.length:
                links[channel], after[channel] = same.link, same
                continue
            link, keep, previous = Link(seq, seq, len(value)), 0, 0
            if same and rows.goes_on(same.link, seq, kept, len(value)):
                link, keep, previous = Link(seq, same.link.base, len(value)), kept, same.link.seq
            pieces[channel] = [previous, keep, *codec.dumps(value[keep:])]
            links[channel] = link
            after[channel] = Prefix(link, value, same, kept)
        body = codec.dumps({**checkpoint, "channel_values": inline})
        id = checkpoint["id"]
        header = head.header
        newest = id >= head.top_id
        if newest:
            header = Header(seq, header.start, header.ordered)
        else:
            header = header._replace(ordered=False)
        record: Record | None = Record(id, parent, metadata, body, links)
        line = rows.record_line(header, cast("Record", record), pieces)
        made = [rows.said(one) for one in new]
        role, text, _, event, calls = made.pop() if made else _silent(b"")
        made.append((role, text, rows.extra_of(line), event, calls))
        own = {seq: line}
        for _, earlier in sorted(head.lines.items()):
            to = rows.writes_of(earlier).checkpoint if _is_writes(earlier) else ""
            if to == id or (newest and to > id):
                line = rows.with_header(earlier, header)
                own[head.next + len(made)] = line
                made.append(_silent(line))
        if not newest:
            record, own = head.record, {**head.lines, **own}
        return _Plan(made, _Head(head.uid, head.revision, head.next, header, record, own), after)

    def _put(
        self,
        session: _Session,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
    ) -> Step[RunnableConfig]:
        given = self._codec.dumps(get_checkpoint_metadata(config, metadata))
        parent = _given(config).get("checkpoint_id")

        def change(head: _Head) -> Step[RunnableConfig]:
            uid, lists = self._lists.get(session.key, (head.uid, {}))
            if lists:
                start = head.header.start if uid == head.uid else head.next
                lists = {name: one for name, one in lists.items() if one.link.base >= start}
            plan = self._plan(session, head, checkpoint, given, parent, lists)
            after = yield from self._add(session, plan.head, plan.rows)
            if head.revision < 0:
                self._forget(session.key)  # its uid is not known yet
            else:
                self._keep(session.key, after)
                self._keep_lists(session.key, head.uid, plan.lists)
            return session.config(checkpoint["id"])

        return (yield from self._retry(session, change))

    def _put_writes(
        self,
        session: _Session,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
    ) -> Step[None]:
        dumps = self._codec.dumps
        id = str(_ids(config)[2])
        given = Writes(
            id,
            task,
            path,
            all(channel in WRITES_IDX_MAP for channel, _ in writes),
            [
                (WRITES_IDX_MAP.get(channel, at), channel, *dumps(value))
                for at, (channel, value) in enumerate(writes)
            ],
        )

        def change(head: _Head) -> Step[None]:
            header = head.header
            if id < head.top_id:  # behind others' rows: it is no longer beside its checkpoint
                header = header._replace(ordered=False)
            line = rows.writes_line(header, given)
            after = yield from self._add(session, head, [_silent(line)])
            if head.revision < 0:
                self._forget(session.key)
            else:
                lines = {**head.lines, head.next: line}
                self._keep(session.key, after._replace(header=header, lines=lines))

        yield from self._retry(session, change)

    # ---- lists -----------------------------------------------------------------------------------

    def _sessions(self, thread: str | None) -> Step[list[tuple[_Session, int]]]:
        """The sessions of a thread, or of all, with the number of their last message."""
        found: list[tuple[_Session, int]] = []
        after: str | None = None
        while True:
            page = yield _requests.list_(
                app_name=self._app, user_id=thread, after=after, limit=1000
            )
            for one in page.sessions:
                session = _Session(self._app, one.user_id, one.session_id[1:])
                if one.key == session.key:  # else it is another program's
                    found.append((session, one.next_seq - 1))
            after = page.next
            if not after:
                return found

    def _cursors(self, config: RunnableConfig | None) -> Step[list[_Cursor]]:
        if config is None or "thread_id" not in _given(config):
            sessions = yield from self._sessions(None)
        elif "checkpoint_ns" not in _given(config):
            sessions = yield from self._sessions(str(_given(config)["thread_id"]))
        else:
            return [_Cursor(self._session(config))]
        return [_Cursor(session) for session, _ in sessions]

    def _fill(self, cursor: _Cursor) -> Step[None]:
        """Read until the cursor has a checkpoint or its session has no more."""
        key = cursor.session.key
        while not cursor.found and not cursor.done:
            if not cursor.before:
                fresh = yield from self._fresh(key)
                if fresh is None:
                    cursor.done = True
                    return
                head = fresh[0]
                cursor.start = head.header.start
                cursor.before = head.next
                if not head.header.ordered:
                    everything = yield from self._read(key, after=cursor.start - 1)
                    cursor.take(everything.lines if everything else {})
                    cursor.done = True
                    return
            after = max(cursor.start, cursor.before - _PAGE)
            found = yield from self._read(key, after=after - 1, before=cursor.before)
            cursor.take(found.lines if found else {})
            cursor.before = after
            cursor.done = found is None or after <= cursor.start

    def _following(
        self,
        cursors: list[_Cursor],
        wanted: str | None,
        before: str | None,
        filter: dict[str, Any] | None,
    ) -> Step[CheckpointTuple | None]:
        """The next checkpoint of a list, by its id."""
        given = [*filter.items()] if filter else []
        while True:
            for cursor in cursors:
                yield from self._fill(cursor)
            best = max(
                (one for one in cursors if one.found),
                key=lambda one: one.found[-1][0].id,
                default=None,
            )
            if best is None:
                return None
            record, _ = best.found.pop()
            writes = best.writes_for(record.id)
            best.writes.pop(record.id, None)
            if (before is not None and record.id >= before) or wanted not in (None, record.id):
                continue
            metadata = self._codec.loads(record.metadata) if filter else {}
            if all(name in metadata and metadata[name] == value for name, value in given):
                return (yield from self._tuple(best.session, record, writes, {}))

    # ---- maintenance -----------------------------------------------------------------------------

    def _delete_thread(self, thread: str) -> Step[None]:
        sessions = yield from self._sessions(thread)
        for session, _ in sessions:
            self._forget(session.key)
            yield _requests.delete(session.key)

    def _copy_thread(self, source: str, target: str) -> Step[None]:
        sessions = yield from self._sessions(source)
        for session, last in sessions:
            other = _Session(self._app, target, session.ns)
            yield _requests.fork(
                session.key,
                other.key,
                at=last,
                app_name=other.app,
                user_id=other.thread,
                session_id=other.id,
            )

    def _rewrite(self, session: _Session, keep: Callable[[Record, _Head], bool]) -> Step[None]:
        """Keep some checkpoints of a session and remove the others from the file. Those that stay
        are appended again; a last row then says that what was before does not count, and that is
        removed. Until that row is stored, nothing is changed for a reader."""
        key = session.key

        def change(head: _Head) -> Step[int]:
            found = yield from self._read(key, after=head.header.start - 1)
            cursor = _Cursor(session)
            cursor.take(found.lines if found else {})
            kept = [record for record, _ in cursor.found if keep(record, head)]
            if not found or len(kept) == len(cursor.found):
                return 0
            if not kept:
                yield _requests.delete(key)
                self._forget(key)
                return 0
            begin = head.next
            virtual = head._replace(header=Header(0, begin, True), record=None, lines={})
            lists: dict[str, Prefix] = {}
            made: list[rows.Row] = []
            for record in kept:
                checkpoint = yield from self._values(key, record, found.lines)
                plan = self._plan(
                    session, virtual, checkpoint, record.metadata, record.parent, lists
                )
                made += plan.rows
                lists = plan.lists
                virtual = plan.head._replace(next=begin + len(made))
                for writes in cursor.writes_for(record.id):
                    line = rows.writes_line(virtual.header, writes)
                    made.append(_silent(line))
                virtual = virtual._replace(next=begin + len(made))
            for id in sorted(one for one in cursor.writes if one > head.top_id):
                for writes in cursor.writes_for(id):  # to a checkpoint that is still to come
                    made.append(_silent(rows.writes_line(virtual.header, writes)))
            made = [_with_header(row, head.header) for row in made]
            nothing = Writes("", "", "", False, [])
            made.append(_silent(rows.writes_line(virtual.header, nothing)))
            at = head
            for first in range(0, len(made), _BATCH):
                at = yield from self._add(session, at, made[first : first + _BATCH])
            self._forget(key)
            return begin - 1

        covered = yield from self._retry(session, change)
        if covered:
            yield from drop(key, "Earlier checkpoints were removed.", up_to=covered)
            self._forget(key)

    def _prune(self, threads: Sequence[str], strategy: str) -> Step[None]:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is {strategy!r}; give 'keep_latest' or 'delete'")
        for thread in threads:
            if strategy == "delete":
                yield from self._delete_thread(thread)
                continue
            sessions = yield from self._sessions(thread)
            for session, _ in sessions:
                yield from self._rewrite(session, lambda one, head: one.id == head.top_id)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Step[None]:
        gone = set(run_ids)
        if not gone:
            return

        def stays(record: Record, head: _Head) -> bool:
            return self._codec.loads(record.metadata).get("run_id") not in gone

        sessions = yield from self._sessions(None)
        for session, _ in sessions:
            yield from self._rewrite(session, stays)

    # ---- BaseCheckpointSaver ---------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, the newest one unless the config names another; None: there is
        none."""
        return self._drive(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As get_tuple()."""
        return await self._adrive(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over checkpoints, those with the greatest ids first."""
        wanted = _given(config).get("checkpoint_id") if config else None
        bound = _given(before).get("checkpoint_id") if before else None
        cursors = self._drive(self._cursors(config))
        while limit is None or limit > 0:
            found = self._drive(self._following(cursors, wanted, bound, filter))
            if found is None:
                return
            yield found
            limit = None if limit is None else limit - 1

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As list()."""
        wanted = _given(config).get("checkpoint_id") if config else None
        bound = _given(before).get("checkpoint_id") if before else None
        cursors = await self._adrive(self._cursors(config))
        while limit is None or limit > 0:
            found = await self._adrive(self._following(cursors, wanted, bound, filter))
            if found is None:
                return
            yield found
            limit = None if limit is None else limit - 1

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; it is durable when the call returns."""
        session = self._session(config)
        return self._write(self._put(session, config, checkpoint, metadata))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As put()."""
        session = self._session(config)
        return await self._awrite(session.key, self._put(session, config, checkpoint, metadata))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote to a checkpoint."""
        session = self._session(config)
        self._write(self._put_writes(session, config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As put_writes()."""
        session = self._session(config)
        step = self._put_writes(session, config, writes, task_id, task_path)
        await self._awrite(session.key, step)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its checkpoints."""
        self._write(self._delete_thread(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """As delete_thread()."""
        await self._adrive(self._delete_thread(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, and their writes, in all threads."""
        self._write(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As delete_for_runs()."""
        await self._adrive(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread: forks of its sessions, which share what there is."""
        self._write(self._copy_thread(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As copy_thread()."""
        await self._adrive(self._copy_thread(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace, or, with "delete", nothing."""
        self._write(self._prune([str(one) for one in thread_ids], strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As prune()."""
        await self._adrive(self._prune([str(one) for one in thread_ids], strategy))

    def import_from(self, other: BaseCheckpointSaver[Any]) -> int:
        """Copy all checkpoints of another saver, with their writes; returns how many."""
        count = 0
        for one in reversed([*other.list(None)]):
            given = {**_given(one.config)}
            parent = _given(one.parent_config) if one.parent_config else {}
            given["checkpoint_id"] = parent.get("checkpoint_id")
            self.put({"configurable": given}, one.checkpoint, one.metadata, {})
            tasks: dict[str, list[tuple[str, Any]]] = {}
            for task, channel, value in one.pending_writes or ():
                tasks.setdefault(task, []).append((channel, value))
            for task, writes in tasks.items():
                self.put_writes(one.config, writes, task)
            count += 1
        return count


def _silent(line: bytes) -> rows.Row:
    """A row that says nothing to readers."""
    return _SYSTEM, b"", rows.extra_of(line), b"", ()


def _length(lists: dict[str, Prefix]) -> int:
    return sum([one.link.length for one in lists.values()])


def _is_writes(line: bytes) -> bool:
    return line[:1] == b"W"


def _with_header(row: rows.Row, header: Header) -> rows.Row:
    """A row whose record, if it has one, says what the newest row before it says."""
    role, text, extra, event, calls = row
    if not extra:
        return row
    line = extra[len(rows.BEFORE) : -len(rows.AFTER)]
    return role, text, rows.extra_of(rows.with_header(line, header)), event, calls
