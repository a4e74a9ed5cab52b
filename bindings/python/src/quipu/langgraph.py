"""Checkpoints and long-term memory of LangGraph on a quipu store."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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

from . import _pages, _requests
from . import _langgraph_rows as rows
from ._build import no_collection
from ._errors import Corrupt, NotFound
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
_REMOVED = "Earlier checkpoints were removed."
# What is removed stands before this. As a user's message it begins a turn, so that no tool call
# before it is answered behind it.
_BORDER: rows.Row = ROLES.index("user") + 1, _REMOVED.encode(), b"", b"", ()
_TAIL = 32  # rows that the first read of a thread asks for
_NEAR = 64  # rows; a list that is nearer is read in the same call as the checkpoint
_PAGE = 512  # rows of a page of a list
_ITEM_BYTES = 256  # that a message takes, about
_BATCH = 4000  # rows of one append
_LOCKS = 64  # of threads; two that share one wait for each other
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
    before: tuple[str, int] = "", 0  # a checkpoint before that one, and its row

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
    """A walk through the checkpoints of a session, by their ids, greatest first. It reads rows from
    the newest back: of a checkpoint that came in order all before it have smaller ids, so that what
    was read with a greater id than the last such one can be given away."""

    def __init__(self, session: _Session, bound: str | None = None) -> None:
        self.session = session
        self.bound = bound  # greater ids are not asked for
        self.start = 0  # the first row that counts
        self.before = 0  # rows from here on were read; 0: none
        self.page = _NEAR  # rows to read next
        self.done = False
        self.floor: str | None = None  # what was not read has no greater id
        self.found: list[tuple[Record, int]] = []  # smallest id first, taken from the end
        self.writes: dict[str, list[tuple[int, Writes]]] = {}
        self.seen: set[str] = set()

    @property
    def ready(self) -> bool:
        """Whether the greatest id is known, of those that were not given away."""
        if not self.found:
            return False
        return self.done or (self.floor is not None and self.found[-1][0].id >= self.floor)

    def take(self, lines: dict[int, bytes]) -> None:
        """Note rows, which come before those that were noted."""
        for seq in sorted(lines, reverse=True):
            line = lines[seq]
            if not rows.counts(line, self.start):
                continue
            if rows.is_writes(line):
                writes = rows.writes_of(line)
                self.writes.setdefault(writes.checkpoint, []).append((seq, writes))
                continue
            record = rows.record_of(line)
            if record.id not in self.seen:  # the newest of several counts
                self.seen.add(record.id)
                self.found.append((record, seq))
            if rows.in_order(seq, line, self.start):
                self.floor = record.id
        self.found.sort(key=lambda one: one[0].id)

    def writes_for(self, id: str) -> list[Writes]:
        """The writes of a checkpoint, oldest first."""
        return [writes for _, writes in sorted(self.writes.get(id, []), key=lambda one: one[0])]


class _Known:
    """What a saver and its clones know of their threads, and the locks of writers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # of the members; held for a moment
        self.heads: OrderedDict[str, _Head] = OrderedDict()
        self.lists: OrderedDict[str, tuple[tuple[int, int], dict[str, Prefix]]] = OrderedDict()
        self.items = 0  # messages in them
        self.turns: weakref.WeakValueDictionary[tuple[int, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def lock_of(self, key: str) -> threading.Lock:
        """Held by a thread that writes to a session, so that writers do not conflict."""
        return self._locks[hash(key) % _LOCKS]

    def keep(self, key: str, head: _Head) -> None:
        """Keep the newest rows of a session."""
        with self.lock:
            self.heads[key] = head
            self.heads.move_to_end(key)
            while len(self.heads) > _CACHED_THREADS:
                self.heads.popitem(last=False)

    def keep_lists(self, key: str, uid: tuple[int, int], lists: dict[str, Prefix]) -> None:
        """Keep what the lists of a session were, so that the next step can see what changed."""
        with self.lock:
            _, before = self.lists.pop(key, (uid, {}))
            self.items += _length(lists) - _length(before)
            self.lists[key] = uid, lists
            while len(self.lists) > 1 and (
                len(self.lists) > _CACHED_THREADS or self.items > _CACHED_ITEMS
            ):
                _, (_, gone) = self.lists.popitem(last=False)
                self.items -= _length(gone)

    def forget_head(self, key: str) -> None:
        """Read the newest rows of a session again."""
        with self.lock:
            self.heads.pop(key, None)

    def forget(self, key: str) -> None:
        """Know nothing of a session."""
        with self.lock:
            self.heads.pop(key, None)
            _, gone = self.lists.pop(key, ((0, 0), {}))
            self.items -= _length(gone)


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
        self._known = _Known()  # which clones share: see with_allowlist()
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

    def _write(self, key: str, step: Step[T]) -> T:
        with self._known.lock_of(key):
            return self._drive(step)

    async def _awrite(self, key: str, step: Step[T]) -> T:
        place = id(asyncio.get_running_loop()), key
        turn = self._known.turns.get(place)
        if turn is None:
            turn = self._known.turns[place] = asyncio.Lock()
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
        damaged: object = None
        while True:
            known = self._known.heads.get(key)
            if known is None:
                found = yield from self._read(key, last=_TAIL)
            else:
                found = yield from self._read(key, after=(back or known.next) - 1)
            if found is None:
                self._known.forget_head(key)
                return None
            if known is not None and known.uid != found.uid:
                self._known.forget_head(key)
                continue
            lines = {**known.lines, **found.lines} if known else found.lines
            if known is not None and known.revision == found.revision:
                return known, lines
            if known is None and not lines and found.next > 1:
                found = yield from self._read(key)  # none of the saver's rows among so many
                if found is None:
                    return None
                lines = found.lines
            if not lines:
                return _Head(found.uid, found.revision, found.next, _NEW.header, None, {}), {}
            header = rows.header_of(lines[max(lines)])._replace(earlier=0)
            begin = header.top or header.start
            if begin not in lines or begin < min(lines):
                more = yield from self._read(key, after=begin - 1)
                if more is None or more.uid != found.uid:
                    continue
                lines = {**more.lines, **lines}
            if header.top and header.top not in lines:  # it was pruned meanwhile
                self._known.forget_head(key)
                if damaged == (found.uid, found.revision):
                    raise Corrupt(
                        f"session {key!r}: message {header.top} is missing, its newest checkpoint"
                    )
                damaged = found.uid, found.revision
                continue
            head = self._head(found, header, lines, known)
            self._known.keep(key, head)
            return head, lines

    @staticmethod
    def _head(found: _Got, header: Header, lines: dict[int, bytes], known: _Head | None) -> _Head:
        begin = header.top or header.start
        kept = {
            seq: line
            for seq, line in lines.items()
            if seq >= begin and rows.counts(line, header.start)
        }
        if known is not None and known.header.top == header.top:
            record, before = known.record, known.before
        else:
            record = rows.record_of(kept[header.top]) if header.top else None
            before = (known.top_id, known.header.top) if known is not None else ("", 0)
        return _Head(found.uid, found.revision, found.next, header, record, kept, before)

    def _values(
        self,
        key: str,
        record: Record,
        lines: dict[int, bytes],
        lists: dict[str, Prefix] | None = None,
    ) -> Step[Checkpoint]:
        """A checkpoint with its values; rows of its lists that are not there are read. `lists` gets
        what the next step is compared with."""
        checkpoint: Checkpoint = self._codec.loads(record.body)
        for channel, link in record.links.items():
            if link.base not in lines or link.seq not in lines:
                found = yield from self._read(
                    key, after=link.base - 1, before=link.seq + 1, kinds=b"Dd"
                )
                if found is None or not {link.base, link.seq} <= found.lines.keys():
                    raise (yield from self._gone(key, record, link))
                lines = found.lines
            with no_collection(link.length * _ITEM_BYTES):
                pieces = rows.pieces_of(lines, channel, link)
                items = self._codec.items(pieces)
                if lists is not None:
                    lists[channel] = Prefix(link, items)
            checkpoint["channel_values"][channel] = items
        return checkpoint

    def _gone(self, key: str, record: Record, link: Link) -> Step[Exception]:
        """Why rows of a list are not there."""
        self._known.forget(key)
        fresh = yield from self._fresh(key)
        if fresh is None or fresh[0].header.start > link.base:
            return NotFound(f"the checkpoint {record.id!r} was pruned while it was read")
        return Corrupt(
            f"session {key!r}: messages from {link.base} to {link.seq} are missing, a list of the"
            f" checkpoint {record.id!r}; a cap or a prune of the store's has removed them"
        )

    def _tuple(
        self,
        session: _Session,
        record: Record,
        writes: Sequence[Writes],
        lines: dict[int, bytes],
        lists: dict[str, Prefix] | None = None,
    ) -> Step[CheckpointTuple]:
        codec = self._codec
        checkpoint = yield from self._values(session.key, record, lines, lists)
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
            record, own = head.record, head.lines
        else:
            record, own, lines = yield from self._find(key, head, wanted)
        if record is None:
            return None
        found = [rows.writes_of(own[seq]) for seq in sorted(own) if rows.is_writes(own[seq])]
        writes = [one for one in found if one.checkpoint == record.id]
        lists: dict[str, Prefix] = {}
        made = yield from self._tuple(session, record, writes, lines, lists)
        self._known.keep_lists(key, head.uid, lists)
        return made

    def _near(self, key: str) -> int:
        """From where to read so that one call brings the newest checkpoint and its lists; 0: from
        where it ended, since the lists are long."""
        known = self._known.heads.get(key)
        if known is None or known.record is None:
            return 0
        low = min((one.base for one in known.record.links.values()), default=known.next)
        return low if known.next - low <= _NEAR else 0

    def _find(
        self, key: str, head: _Head, wanted: str
    ) -> Step[tuple[Record | None, dict[int, bytes], dict[int, bytes]]]:
        """A checkpoint by its id, with rows that have all its writes, and all rows of a range."""
        low, high = head.header.start, head.next
        late: dict[int, bytes] = {}
        if wanted > head.top_id:
            return None, {}, {}
        if head.header.ordered:
            low, high = yield from self._halve(key, head, wanted)
            late = yield from self._late(key, head, high)
        found = yield from self._read(key, after=low - 1, before=high)
        if found is None:
            return None, {}, {}
        lines = {
            seq: line
            for seq, line in {**found.lines, **late}.items()
            if rows.counts(line, head.header.start)
        }
        for seq in sorted(lines, reverse=True):  # the newest of several counts
            if not rows.is_writes(lines[seq]):
                record = rows.record_of(lines[seq])
                if record.id == wanted:
                    return record, lines, found.lines  # late rows alone may lack pieces of a list
        return None, {}, {}

    def _halve(self, key: str, head: _Head, wanted: str) -> Step[tuple[int, int]]:
        """Between which rows a checkpoint and its writes are, but for those that came late: from
        the newest one in order whose id is not greater to some rows after one whose id is."""
        begin, low = head.header.start, head.header.start
        high = head.header.top or head.next
        if wanted >= head.top_id:
            return high, head.next
        while high - low > 2 * _NEAR:
            middle = (low + high) // 2
            seq, record = yield from self._before(key, head.header.start, middle, high)
            if record is None:
                high = middle
            elif record[0].id <= wanted:
                begin, low = record[1], seq + 1
            else:
                high = record[1]
        return begin, min(high + _NEAR, head.next)

    def _before(
        self, key: str, start: int, low: int, high: int
    ) -> Step[tuple[int, tuple[Record, int] | None]]:
        """The first of some rows that says which checkpoint was the newest then, and that one."""
        width = _NEAR
        while low < high:
            found = yield from self._read(
                key, after=low - 1, before=min(low + width, high), kinds=b"CDWcdw"
            )
            lines = found.lines if found else {}
            for seq in sorted(lines):
                header = rows.header_of(lines[seq])
                at = header.top
                if header.start < start:
                    at = 0 if rows.is_writes(lines[seq]) else seq
                if not at or not rows.counts(lines[seq], start):
                    continue
                if at not in lines:
                    one = yield from self._read(key, after=at - 1, before=at + 1)
                    lines = {**lines, **one.lines} if one else lines
                if at in lines:
                    return seq, (rows.record_of(lines[at]), at)
            low, width = low + width, 2 * width
        return high, None

    def _late(self, key: str, head: _Head, low: int) -> Step[dict[int, bytes]]:
        """The rows from a number on that came late."""
        made: dict[int, bytes] = {}
        lines = head.lines
        at = head.header.late
        while at >= low and at > 0:
            if at not in lines:
                found = yield from self._read(key, after=max(low, at - _NEAR) - 1, before=at + 1)
                lines = found.lines if found else {}
                if at not in lines:  # it was pruned meanwhile
                    break
            made[at] = lines[at]
            at = rows.header_of(lines[at]).earlier
        return made

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
            [head.revision, *head.uid],
        )
        revision, following, _, low, high = answer.numbers
        return head._replace(uid=(low, high), revision=revision, next=following)

    def _retry(self, session: _Session, change: Callable[[_Head], Step[T]]) -> Step[T]:
        """Make a change behind the newest rows, again when somebody else was first."""
        key = session.key
        while True:
            head = self._known.heads.get(key)
            try:
                if head is None:
                    fresh = yield from self._fresh(key)
                    head = fresh[0] if fresh else _NEW
                return (yield from change(head))
            except LOST:
                self._known.forget(key)
            except BaseException:
                self._known.forget(key)
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
            same = lists.get(channel) if type(value) is list else None
            alike = same.alike(value) if same else 0
            if rows.grows(value, alike):
                del inline[channel]
                kept = same.common(value, alike) if same else 0
                grown[channel] = same, kept, value
                new += value[kept:]
        new = new[-rows.SAID_MAX :] if codec.plain else []
        seq = head.next + max(0, len(new) - 1)
        links: dict[str, Link] = {}
        pieces: dict[str, list[Any]] = {}
        grown_lists: dict[str, Prefix] = {}
        for channel, (same, kept, value) in grown.items():
            if same and kept == len(value) == same.link.length:
                links[channel], grown_lists[channel] = same.link, same
                continue
            link, keep, previous = Link(seq, seq, len(value)), 0, 0
            if same and rows.goes_on(same.link, seq, kept, len(value)):
                link, keep, previous = Link(seq, same.link.base, len(value)), kept, same.link.seq
            pieces[channel] = [previous, keep, *codec.dumps(value[keep:])]
            links[channel] = link
            grown_lists[channel] = Prefix(link, value, same, kept)
        body = codec.dumps({**checkpoint, "channel_values": inline})
        id = checkpoint["id"]
        record = Record(id, parent, metadata, body, links)
        newest = id >= head.top_id
        header = head.header._replace(top=seq) if newest else _later(head.header, seq)
        line = rows.record_line(header, record, pieces)
        made = [rows.said(one) for one in new]
        role, text, _, event, calls = made.pop() if made else _silent(b"")
        made.append((role, text, rows.extra_of(line), event, calls))
        header = header._replace(earlier=0)
        after = head._replace(header=header, lines={**head.lines, seq: line})
        if newest:
            early = self._early(head, id)
            own = {seq: line}
            for earlier in early:
                own[head.next + len(made)] = rows.with_header(earlier, header)
                made.append(_silent(own[head.next + len(made)]))
            before = head.before if id == head.top_id else (head.top_id, head.header.top)
            after = after._replace(record=record, lines=own, before=before)
        return _Plan(made, after, grown_lists)

    @staticmethod
    def _early(head: _Head, id: str) -> list[bytes]:
        """Writes that were stored before the checkpoint that is now the newest one, to it or to a
        later one, oldest first; they follow it."""
        return [
            line
            for _, line in sorted(head.lines.items())
            if rows.is_writes(line) and rows.writes_of(line).checkpoint >= id
        ]

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
            uid, lists = self._known.lists.get(session.key, (head.uid, {}))
            start = head.header.start
            lists = {
                name: one
                for name, one in lists.items()
                if uid == head.uid and one.link.base >= start
            }
            plan = self._plan(session, head, checkpoint, given, parent, lists)
            after = yield from self._add(session, plan.head, plan.rows)
            self._known.keep(session.key, after)
            self._known.keep_lists(session.key, after.uid, plan.lists)
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
            header, (near, seq) = head.header, head.before
            if id < head.top_id and (id != near or head.next - seq >= _NEAR):
                header = _later(header, head.next)  # a reader does not find it beside the others
            line = rows.writes_line(header, given)
            after = yield from self._add(session, head, [_silent(line)])
            lines = {**head.lines, head.next: line}
            header = header._replace(earlier=0)
            self._known.keep(session.key, after._replace(header=header, lines=lines))

        yield from self._retry(session, change)

    # ---- lists -----------------------------------------------------------------------------------

    def _sessions(self, thread: str | None) -> Step[list[tuple[_Session, int]]]:
        """The sessions of a thread, or of all, with the number of their last message."""
        found: list[tuple[_Session, int]] = []
        sessions = yield from _pages.every(self._app, thread)
        for one in reversed(sessions):
            session = _Session(self._app, one.user_id, one.session_id[1:])
            if one.key == session.key:  # else it is another program's
                found.append((session, one.next_seq - 1))
        return found

    def _cursors(self, config: RunnableConfig | None, bound: str | None) -> Step[list[_Cursor]]:
        if config is None or "thread_id" not in _given(config):
            sessions = yield from self._sessions(None)
        elif "checkpoint_ns" not in _given(config):
            sessions = yield from self._sessions(str(_given(config)["thread_id"]))
        else:
            return [_Cursor(self._session(config), bound)]
        return [_Cursor(session, bound) for session, _ in sessions]

    def _fill(self, cursor: _Cursor) -> Step[None]:
        """Read until the cursor has a checkpoint or its session has no more."""
        key = cursor.session.key
        while not cursor.ready and not cursor.done:
            if not cursor.before:
                fresh = yield from self._fresh(key)
                if fresh is None:
                    cursor.done = True
                    return
                head = fresh[0]
                cursor.start = head.header.start
                cursor.before = head.next
                if cursor.bound is not None and head.header.ordered:
                    _, cursor.before = yield from self._halve(key, head, cursor.bound)
                    cursor.take((yield from self._late(key, head, cursor.before)))
            after = max(cursor.start, cursor.before - cursor.page)
            found = yield from self._read(key, after=after - 1, before=cursor.before)
            cursor.before = after
            cursor.page = min(2 * cursor.page, _PAGE)
            cursor.done = found is None or after <= cursor.start
            cursor.take(found.lines if found else {})

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
                (one for one in cursors if one.ready),
                key=lambda one: one.found[-1][0].id,
                default=None,
            )
            if best is None or (wanted is not None and best.found[-1][0].id < wanted):
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
            self._known.forget(session.key)
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

    def _everything(self, key: str) -> Step[tuple[_Head, dict[int, bytes]] | None]:
        """The newest rows of a session and all that count, as they were at one moment."""
        while True:
            fresh = yield from self._fresh(key)
            if fresh is None:
                return None
            head = fresh[0]
            found = yield from self._read(key, after=head.header.start - 1)
            if found is not None and (found.uid, found.revision) == (head.uid, head.revision):
                return head, found.lines

    def _rewrite(self, session: _Session, keep: Callable[[Record, _Head], bool]) -> Step[None]:
        """Keep some checkpoints of a session and remove the others from the file. Those that stay
        are appended again, as copies; a last row then says that what was before does not count, and
        that is removed. Until that row is stored, nothing is changed for a reader: copies count for
        nobody, and those of a rewrite that died go with the next one. When none stays, the session
        does, without any: a delete would also take what somebody else has just put there."""
        key = session.key

        def change(_: _Head) -> Step[int]:
            found = yield from self._everything(key)  # others may have written since the known head
            if found is None:
                return 0
            head, lines = found
            cursor = _Cursor(session)
            cursor.start = head.header.start
            cursor.take(lines)
            kept = [record for record, _ in cursor.found if keep(record, head)]
            if len(kept) == len(cursor.found):
                return head.header.start - 1  # what does not count may still be there
            made, last = yield from self._copies(session, head, lines, cursor, kept)
            nothing = Writes("", "", "", False, [])
            made.append(_silent(rows.writes_line(last, nothing)))
            at = head
            for first in range(0, len(made), _BATCH):
                at = yield from self._add(session, at, made[first : first + _BATCH])
            self._known.forget(key)
            return head.next - 1

        covered = yield from self._retry(session, change)
        if covered:
            yield from drop(key, _REMOVED, up_to=covered)
            self._known.forget(key)

    def _copies(
        self,
        session: _Session,
        head: _Head,
        lines: dict[int, bytes],
        cursor: _Cursor,
        kept: list[Record],
    ) -> Step[tuple[list[rows.Row], Header]]:
        """Rows of the checkpoints that stay, with their writes, and what the one behind them says
        of all."""
        begin = head.next
        virtual = head._replace(header=Header(0, begin, True), record=None, lines={})
        lists: dict[str, Prefix] = {}
        made: list[rows.Row] = [_BORDER]
        virtual = virtual._replace(next=begin + len(made))
        for record in kept:
            checkpoint = yield from self._values(session.key, record, lines)
            plan = self._plan(session, virtual, checkpoint, record.metadata, record.parent, lists)
            made += plan.rows
            lists = plan.lists
            for writes in cursor.writes_for(record.id):
                made.append(_silent(rows.writes_line(head.header, writes)))
            virtual = plan.head._replace(next=begin + len(made))
        for id in sorted(one for one in cursor.writes if one > head.top_id):
            for writes in cursor.writes_for(id):  # to a checkpoint that is still to come
                made.append(_silent(rows.writes_line(head.header, writes)))
        return [_copied(row, head.header) for row in made], virtual.header

    def _prunes(self, threads: Sequence[str], strategy: str) -> Step[list[tuple[str, Step[None]]]]:
        """What a prune does, by the key of each session."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is {strategy!r}; give 'keep_latest' or 'delete'")
        made: list[tuple[str, Step[None]]] = []
        for thread in threads:
            if strategy == "delete":
                made.append((thread, self._delete_thread(thread)))
                continue
            sessions = yield from self._sessions(thread)
            for session, _ in sessions:
                step = self._rewrite(session, lambda one, head: one.id == head.top_id)
                made.append((session.key, step))
        return made

    def _deletes(self, run_ids: Sequence[str]) -> Step[list[tuple[str, Step[None]]]]:
        """What removes the checkpoints of runs, by the key of each session."""
        gone = set(run_ids)
        if not gone:
            return []

        def stays(record: Record, head: _Head) -> bool:
            return self._codec.loads(record.metadata).get("run_id") not in gone

        sessions = yield from self._sessions(None)
        return [(session.key, self._rewrite(session, stays)) for session, _ in sessions]

    def _write_all(self, parts: Step[list[tuple[str, Step[None]]]]) -> None:
        for key, step in self._drive(parts):
            self._write(key, step)

    async def _awrite_all(self, parts: Step[list[tuple[str, Step[None]]]]) -> None:
        for key, step in await self._adrive(parts):
            await self._awrite(key, step)

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
        cursors = self._drive(self._cursors(config, wanted or bound))
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
        cursors = await self._adrive(self._cursors(config, wanted or bound))
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
        return self._write(session.key, self._put(session, config, checkpoint, metadata))

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
        step = self._put_writes(session, config, writes, task_id, task_path)
        self._write(session.key, step)

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
        self._drive(self._delete_thread(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """As delete_thread()."""
        await self._adrive(self._delete_thread(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, and their writes, in all threads."""
        self._write_all(self._deletes(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As delete_for_runs()."""
        await self._awrite_all(self._deletes(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread: forks of its sessions, which share what there is."""
        self._drive(self._copy_thread(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As copy_thread()."""
        await self._adrive(self._copy_thread(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace, or, with "delete", nothing."""
        self._write_all(self._prunes([str(one) for one in thread_ids], strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As prune()."""
        await self._awrite_all(self._prunes([str(one) for one in thread_ids], strategy))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return a version of a channel that sorts after another one: numbers stay numbers, and
        texts, which the savers of others have, stay texts."""
        if not isinstance(current, str):
            return 1 if current is None else current + 1
        head = current.partition(".")[0]
        stem = head.rstrip("0123456789")
        digits = head[len(stem) :]
        following = stem + str(int(digits or 0) + 1).zfill(len(digits))
        return following if following > current else f"{current}0"

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


def _later(header: Header, seq: int) -> Header:
    """The header of a row that came late."""
    return header._replace(late=seq, earlier=header.late)


def _copied(row: rows.Row, header: Header) -> rows.Row:
    """A row whose record, if it has one, counts for nobody yet."""
    role, text, extra, event, calls = row
    if not extra:
        return row
    line = extra[len(rows.BEFORE) : -len(rows.AFTER)]
    return role, text, rows.extra_of(rows.copied(line, header)), event, calls
