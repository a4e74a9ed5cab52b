"""The rows of a LangGraph thread in a session of the store: how a checkpoint and its writes become
text, and how a list that grows is written as what it grew by.

    message 1   C  checkpoint: its values, and where its lists are
            2   W  writes of a task
            3   D  checkpoint with a piece of a list: keep 0, then 4 items
            4   W
            5   D  keep 4 items of message 3, then 2 more

Every row begins with what the newest one must say for a reader who saw nothing else: the number of
the checkpoint with the greatest id, the first message that counts, and the newest late row. Rows
lie in the order of their ids, a checkpoint's writes right behind it; a row that came late names the
late row before it:

    W top=1 ── D top=3 ── W late=5 ── D top=6 late=5 ── W late=7, earlier=5

A lower-case letter is a copy that a rewrite made: it counts when the first message that counts is
a later one than its own header says."""

from __future__ import annotations

import binascii
import copy
import itertools
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic_core import SchemaValidator, core_schema

from ._rows import Call, langchain_row

BEFORE = b'{"lg":"'  # how a record's `extra` begins
AFTER = b'"}'
SAID_MAX = 256  # messages that one step adds for readers and search; the newest ones
LIST_MIN = 4  # shorter lists are written whole
CUT_MIN = 64  # shorter lists are written whole when they lose an item
ROWS_AN_ITEM = 4  # a list is written anew when its pieces are spread over more rows than this for
ROWS_MORE = 32  # each of its items, and these: a read never costs more than the list

_NON_STR_KEYS = ormsgpack.OPT_NON_STR_KEYS
_EXACT = (
    _NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_PIECES = SchemaValidator(
    core_schema.list_schema(core_schema.bytes_schema()),
    config=core_schema.CoreConfig(val_json_bytes="base64"),
)
_PYDANTIC = 5  # the serializer's extension code of a pydantic model
_SIMPLE = {
    (one.__module__, one.__name__): one
    for one in (HumanMessage, AIMessage, SystemMessage, ToolMessage)
}

# A message: its role, its text, its extra, no event id, its tool calls.
Row = tuple[int, bytes, bytes, bytes, Sequence[Call]]


class Header(NamedTuple):
    """What the newest row says of all."""

    top: int  # the checkpoint with the greatest id; 0: there is none
    start: int  # the first message that counts
    ordered: bool  # false only in rows of an older version, which named no late ones
    late: int = 0  # the newest late row; 0: there is none
    earlier: int = 0  # of a late row: the one before it


class Link(NamedTuple):
    """Where a list is: the row of its newest piece, that of its oldest, and how long it is."""

    seq: int
    base: int
    length: int


class Record(NamedTuple):
    """A checkpoint as it is stored."""

    id: str
    parent: str | None
    metadata: tuple[str, bytes]
    body: tuple[str, bytes]
    links: dict[str, Link]


class Writes(NamedTuple):
    """What a task wrote to a checkpoint."""

    checkpoint: str
    task: str
    path: str
    replace: bool
    values: list[tuple[int, str, str, bytes]]


def _base64(data: bytes) -> bytes:
    return binascii.b2a_base64(data, newline=False)


def _head(header: Header) -> bytes:
    text = b"%d,%d,%d" % header[:3]
    return text + b",%d,%d" % header[3:] if header.late else text


def _line(kind: bytes, header: Header, *parts: bytes) -> bytes:
    return b".".join((kind + _head(header), *map(_base64, parts)))


def extra_of(line: bytes) -> bytes:
    """A row's text as the `extra` of a message."""
    return BEFORE + line + AFTER


def header_of(line: bytes) -> Header:
    """What a row says of all."""
    top, start, ordered, *late = line[1 : line.index(b".")].split(b",")
    return Header(int(top), int(start), ordered == b"1", *map(int, late))


def with_header(line: bytes, header: Header) -> bytes:
    """The same row with another header, one that counts."""
    return line[:1].upper() + _head(header) + line[line.index(b".") :]


def copied(line: bytes, header: Header) -> bytes:
    """The same row as a copy, which counts for nobody yet."""
    return line[:1].lower() + with_header(line, header)[1:]


def is_writes(line: bytes) -> bool:
    """Whether a row is what a task wrote."""
    return line[:1] in b"Ww"


def counts(line: bytes, start: int) -> bool:
    """Whether a row counts, other than a copy of a rewrite that was cut."""
    return line[:1].isupper() or header_of(line).start < start


def in_order(seq: int, line: bytes, start: int) -> bool:
    """Whether a checkpoint that counts had the greatest id of all before it."""
    header = header_of(line)
    return header.top == seq or header.start < start


def record_line(header: Header, record: Record, pieces: dict[str, list[Any]]) -> bytes:
    """A checkpoint as a row; `pieces` are (previous row, items kept, type, data) by channel."""
    links = {name: tuple(link) for name, link in record.links.items()}
    head = ormsgpack.packb((*record[:-1], links))
    return (
        _line(b"D", header, head, ormsgpack.packb(pieces)) if pieces else _line(b"C", header, head)
    )


def record_of(line: bytes) -> Record:
    """A checkpoint out of its row."""
    id, parent, metadata, body, links = ormsgpack.unpackb(binascii.a2b_base64(line.split(b".")[1]))
    found = {name: Link(*link) for name, link in links.items()}
    return Record(id, parent, tuple(metadata), tuple(body), found)


def writes_line(header: Header, writes: Writes) -> bytes:
    """Writes as a row."""
    return _line(b"W", header, ormsgpack.packb(tuple(writes)))


def writes_of(line: bytes) -> Writes:
    """Writes out of their row."""
    return Writes(*ormsgpack.unpackb(binascii.a2b_base64(line.split(b".")[1])))


def pending(
    rows: Iterable[Writes], load: Callable[[tuple[str, bytes]], Any]
) -> list[tuple[str, str, Any]]:
    """What is pending of a checkpoint's writes: a task's write of a number counts once, the first
    one, but the special ones replace."""
    found: dict[tuple[str, int], tuple[str, str, tuple[str, bytes]]] = {}
    for row in rows:
        for idx, channel, kind, data in row.values:
            if row.replace or (row.task, idx) not in found:
                found[row.task, idx] = row.path, channel, (kind, data)
    ordered = sorted(
        found.items(), key=lambda one: writes_sort_key(one[1][0], one[0][0], one[0][1])
    )
    return [(task, channel, load(data)) for (task, _), (_, channel, data) in ordered]


# ---- lists that grow -----------------------------------------------------------------------------


def grows(value: object, known: int) -> bool:
    """Whether a value is written by pieces: a list of messages, which the first `known` are."""
    if type(value) is not list or len(value) < LIST_MIN:
        return False
    return all(issubclass(kind, BaseMessage) for kind in {*map(type, value[known:])})


def goes_on(link: Link, seq: int, kept: int, count: int) -> bool:
    """Whether a list of `count` items, the first `kept` of them those of `link`, is written at
    `seq` as what it grew by."""
    if kept == 0 or (kept < link.length and count < CUT_MIN):
        return False
    return seq - link.base <= ROWS_AN_ITEM * count + ROWS_MORE


def _exactly(item: Any) -> bytes:
    """All that a message has, types included; b"": something that msgpack does not know, which
    equals nothing."""
    try:
        return ormsgpack.packb((item.__dict__, item.__pydantic_extra__), option=_EXACT)
    except (TypeError, ValueError):
        return b""


_EXTRA = operator.attrgetter("__pydantic_extra__")
_MEMBERS = operator.attrgetter("__dict__")
_flat = itertools.chain.from_iterable
_NONE: dict[type, Any] = {dict: {}, list: []}
_EMPTY: dict[type, Any] = {str: "", type(None): None, **_NONE}
_growing = threading.Lock()  # held while a list of states that others share grows


class Prefix:
    """What a list was when it was written or read. Messages can be changed in place, so that their
    members are compared and not the objects. Texts and nothing compare by themselves; of a message
    that has more, such as tool calls, all is also compared as bytes, since 1 equals True.

    To look at ten thousand messages costs more than to write one, and is done all the same: a
    checkpoint is what its state was, also when a node changed an old message in place. From step to
    step messages are the same objects, so that views of their members are kept: to find these took
    half of the time. Only what puts another dict in the place of a message's `__dict__` is unseen.

    The states of a list that only grew are shared with the shorter one: each knows how many are its
    own, and the one that comes second to grow makes a copy."""

    __slots__ = ("link", "_items", "_views", "_extras", "_ends", "_values", "_exact", "_steady")

    def __init__(self, link: Link, items: Sequence[Any], same: Prefix | None = None, n: int = 0):
        """The list `items` at `link`, of which the first `n` are those of `same`."""
        self.link = link
        self._items: list[Any] = []
        self._views: list[Any] = []  # of their members, as far as they were asked for
        self._extras: list[Any] = []  # members that their classes do not have
        self._ends: list[int] = []  # of an item's members among the values of all
        self._values: list[Any] = []
        self._exact: dict[int, bytes] = {}
        self._steady = True  # a message's dict is the same one when a member changes
        with _growing:
            if same is not None and n > 0:
                self._share(same, n)
            if not self._add_plain(items[n:]):
                for item in items[n:]:
                    self._add(item)

    def _share(self, same: Prefix, n: int) -> None:
        self._steady = same._steady
        whole = n == len(same._items)
        own = slice(None, n)
        self._items = same._items if whole else same._items[own]
        self._views = same._views if whole else []
        self._extras = same._extras if whole else same._extras[own]
        self._ends = same._ends if whole else same._ends[own]
        self._values = same._values if whole else same._values[: same._ends[n - 1]]
        self._exact = same._exact
        if not whole:
            self._exact = {at: data for at, data in same._exact.items() if at < n}

    def _add_plain(self, items: Sequence[Any]) -> bool:
        """Add many items at once; false when one has more than texts and what is empty."""
        members = [*map(_MEMBERS, items)]
        extras = [*map(_EXTRA, items)]
        values = [*_flat(map(dict.values, members))]
        if any(extras) or not {*map(type, filter(None, values))} <= {str}:
            return False
        try:
            values = [value or _EMPTY[type(value)] for value in values]
        except KeyError:  # such as False
            return False
        kinds: set[Any] = {*map(type, items)}
        for kind in kinds:
            self._steady = self._steady and not kind.model_config.get("validate_assignment")
        ends = itertools.accumulate(map(len, members), initial=len(self._values))
        self._ends += [*ends][1:]
        self._values += values
        self._extras += extras
        self._items += items
        return True

    def _add(self, item: Any) -> None:
        at = len(self._items)
        members, extra = item.__dict__, item.__pydantic_extra__
        add = self._values.append
        for value in members.values():
            kind = type(value)
            if kind is str or value is None:
                add(value)
            elif not value and kind in _NONE:
                add(_NONE[kind])
            else:
                add(copy.deepcopy(value))
                self._exact[at] = b""
        if at in self._exact or extra:
            self._exact[at] = _exactly(item)
        if item.model_config.get("validate_assignment"):
            self._steady = False
        self._ends.append(len(self._values))
        self._extras.append(extra)
        self._items.append(item)

    def alike(self, items: list[Any]) -> int:
        """How many of the messages that a list begins with are the same objects: all or none."""
        n = min(len(items), self.link.length)
        return n if all(map(operator.is_, items[:n], self._items)) else 0

    def common(self, items: list[Any], alike: int) -> int:
        """How many of the messages that a list begins with are still as they were; the first
        `alike` are the same objects."""
        n = min(len(items), self.link.length)
        same = self._steady and alike == n
        now, known = items[:n], self._items[:n]
        views = self._views_of(n) if same else map(dict.values, map(_MEMBERS, now))
        values = self._values
        if n < len(self._items):
            values = values[: self._ends[n - 1] if n else 0]
        if [*_flat(views)] != values or (not same and [*map(type, now)] != [*map(type, known)]):
            n = next((at for at in range(n) if self._differs(at, items[at])), n)
        for at, exact in self._exact.items():  # which is in the order of the items
            if at < n and (not exact or _exactly(items[at]) != exact):
                return at
        extras = self._extras[:n] if same else [*map(_EXTRA, now[:n])]
        if any(extras):  # of messages that had no more members than their class
            more = (at for at in range(n) if extras[at] and at not in self._exact)
            return next(more, n)
        return n

    def _views_of(self, n: int) -> list[Any]:
        with _growing:
            if len(self._views) < n:
                rest = self._items[len(self._views) : n]
                self._views += map(dict.values, map(_MEMBERS, rest))
            return self._views[:n]

    def _differs(self, at: int, item: Any) -> bool:
        known = self._values[self._ends[at - 1] if at else 0 : self._ends[at]]
        return type(item) is not type(self._items[at]) or [*item.__dict__.values()] != known


# ---- values --------------------------------------------------------------------------------------


_ONE = 0x91  # how an array of one item begins


def _array_items(data: bytes) -> tuple[int, bytes] | None:
    """The number of items of a msgpack array, and their bytes."""
    if data[0] & 0xF0 == 0x90:
        return data[0] & 0x0F, data[1:]
    size = {0xDC: 2, 0xDD: 4}.get(data[0])
    if size is None:
        return None
    return int.from_bytes(data[1 : 1 + size], "big"), data[1 + size :]


_new, _set = object.__new__, object.__setattr__


def _has_more(message: Any) -> bool:
    """Whether a message has more than the members of its class."""
    return bool(message.__pydantic_extra__ or message.__pydantic_private__)


class Codec:
    """Values as bytes and back: the saver's serializer, and a faster way to read messages.

    The serializer builds a message by its constructor, which validates what was valid when it was
    written. Here the first message of a kind is built so; later ones with the same members, and
    without tool calls and parts, get theirs as pydantic's model_construct() does. A serializer of
    the user's own, or one that encrypts, is called for everything."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.dumps: Callable[[Any], tuple[str, bytes]] = serde.dumps_typed
        self._loads: Callable[[tuple[str, bytes]], Any] = serde.loads_typed
        self.plain = type(serde) is JsonPlusSerializer
        self._slow: Callable[[int, bytes], Any] | None = (
            getattr(serde, "_unpack_ext_hook", None) if self.plain else None
        )
        self._names: dict[type, tuple[str, ...]] = {}  # members of the kinds that were built

    def loads(self, data: tuple[str, bytes]) -> Any:
        """A value."""
        if self._slow is None or data[0] != "msgpack":
            return self._loads(data)
        return ormsgpack.unpackb(data[1], ext_hook=self._extension, option=_NON_STR_KEYS)

    def _extension(self, code: int, data: bytes) -> Any:
        assert self._slow is not None
        if code != _PYDANTIC:
            return self._slow(code, data)
        module, name, members, _ = ormsgpack.unpackb(
            data, ext_hook=self._extension, option=_NON_STR_KEYS
        )
        kind = _SIMPLE.get((module, name))
        if kind is None or type(members.get("content")) is not str:
            return self._slow(code, data)
        for value in members.values():
            if value and type(value) is not str:
                return self._slow(code, data)
        names = tuple(members)
        if self._names.get(kind) != names:
            made = self._slow(code, data)
            if type(made) is kind and names == tuple(made.__dict__) and not _has_more(made):
                self._names[kind] = names
            return made
        made = _new(kind)
        _set(made, "__dict__", members)
        _set(made, "__pydantic_fields_set__", set(names))
        _set(made, "__pydantic_extra__", {})
        _set(made, "__pydantic_private__", None)
        return made

    def items(self, pieces: list[tuple[int, str, bytes]]) -> list[Any]:
        """A list out of its pieces, oldest first: how many items to keep, then more of them. Pieces
        in a row that cut nothing off are read as one."""
        found: list[Any] = []
        joined: list[bytes] = []
        begun = count = 0  # items that were read, and those of the pieces that are joined
        plain = self._slow is not None
        for keep, kind, data in pieces:
            if plain and keep == begun + count and data[0] == _ONE and kind == "msgpack":
                joined.append(data[1:])
                count += 1
                continue
            array = _array_items(data) if plain and kind == "msgpack" else None
            if array is None or keep != begun + count:
                found += self._joined(joined, count)
                joined, count = [], 0
                del found[keep:]
                begun = len(found)
            if array is None:
                found += self.loads((kind, data))
                begun = len(found)
            else:
                count += array[0]
                joined.append(array[1])
        return found + self._joined(joined, count)

    def _joined(self, joined: list[bytes], count: int) -> list[Any]:
        if not joined:
            return []
        data = b"".join((b"\xdd" + count.to_bytes(4, "big"), *joined))
        made: list[Any] = self.loads(("msgpack", data))
        return made


def pieces_of(lines: dict[int, bytes], channel: str, link: Link) -> list[tuple[int, str, bytes]]:
    """The pieces of a list, oldest first, out of rows that hold all of them."""
    seqs = [
        seq for seq, line in lines.items() if link.base <= seq <= link.seq and line[:1] in b"Dd"
    ]
    # All at once, by the base64 of pydantic's: a third of the time that binascii's takes.
    texts = b'","'.join([lines[seq].rpartition(b".")[2] for seq in seqs])
    packed = b"".join(_PIECES.validate_json(b'["' + texts + b'"]'))
    made: list[Any] = ormsgpack.unpackb(b"\xdd" + len(seqs).to_bytes(4, "big") + packed)
    by_seq = dict(zip(seqs, made, strict=True))
    found: list[tuple[int, str, bytes]] = []
    seq = link.seq
    while seq:
        seq, keep, kind, data = by_seq[seq][channel]
        found.append((keep, kind, data))
    return found[::-1]


def said(message: Any) -> Row:
    """A message as one of the session, for readers and for search."""
    role, text, calls = langchain_row(message)
    return role, text, b"", b"", calls
