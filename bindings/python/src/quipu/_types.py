"""Arguments and results of a store."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ._fields import Session, SessionNew, SessionPatch
from ._native import ffi, lib

Role = Literal["user", "assistant", "tool", "function", "model", "system"]

ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "function", "model", "system")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def time_of(seconds: int, nanoseconds: int) -> datetime.datetime:
    """Return a time of the library, to the microsecond."""
    return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def _read_time(text: str) -> datetime.datetime:
    head, dot, rest = text.removesuffix("Z").partition(".")
    micros = int((rest + "000000")[:6]) if dot else 0
    return datetime.datetime.fromisoformat(head + "+00:00").replace(microsecond=micros)


@dataclass(slots=True)
class ToolCall:
    """A tool call, or its response when `output` is set. Input and output are JSON texts."""

    name: str = ""
    id: str = ""
    input: str = ""
    output: str | None = None
    thought: bool = False
    thought_signature: str | None = None  # base64

    @classmethod
    def _of(cls, found: dict[str, Any]) -> ToolCall:
        return cls(
            name=found.get("name", ""),
            id=found.get("id", ""),
            input=found.get("input", ""),
            output=found.get("output"),
            thought=found.get("thought", False),
            thought_signature=found.get("thoughtSignature"),
        )

    def _as(self) -> dict[str, Any]:
        made: dict[str, Any] = {"id": self.id, "name": self.name, "input": self.input}
        if self.output is not None:
            made["output"] = self.output
        if self.thought:
            made["thought"] = True
        if self.thought_signature is not None:
            made["thoughtSignature"] = self.thought_signature
        return made


@dataclass(slots=True)
class Message:
    """A message. The store fills in a missing time and id when it is appended."""

    role: Role
    content: str = ""
    author: str = ""
    timestamp: datetime.datetime | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    event_id: str = ""
    invocation_id: str = ""
    branch: str = ""
    extra: dict[str, Any] | None = None
    seq: int = 0
    tokens: int = 0
    mark: Literal["", "compaction", "timeout"] = ""
    covers_from: int = 0
    covers_to: int = 0
    replaces: int = 0

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Message:
        return cls(
            role=found["role"],
            content=found["content"],
            author=found.get("author", ""),
            timestamp=_read_time(found["timestamp"]),
            tool_calls=[ToolCall._of(call) for call in found.get("toolCalls", ())],
            event_id=found.get("eventId", ""),
            invocation_id=found.get("invocationId", ""),
            branch=found.get("branch", ""),
            extra=found.get("extra"),
            seq=found.get("seq", 0),
            tokens=found.get("tokens", 0),
            mark=found.get("mark", ""),
            covers_from=found.get("coversFrom", 0),
            covers_to=found.get("coversTo", 0),
            replaces=found.get("replaces", 0),
        )

    def _json(self) -> bytes:
        made: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.timestamp is not None:
            made["timestamp"] = self.timestamp.astimezone(datetime.timezone.utc).isoformat()
        if self.tool_calls:
            made["toolCalls"] = [call._as() for call in self.tool_calls]
        for name, value in (
            ("author", self.author),
            ("eventId", self.event_id),
            ("invocationId", self.invocation_id),
            ("branch", self.branch),
            ("mark", self.mark),
        ):
            if value:
                made[name] = value
        if self.extra is not None:
            made["extra"] = self.extra
        return json.dumps(made, ensure_ascii=False).encode()


@dataclass(slots=True)
class History:
    """A session and some of its messages, oldest first."""

    session: Session
    messages: list[Message]
    more_before: bool
    more_after: bool


@dataclass(slots=True)
class Window(History):
    """The newest turns within a token budget."""

    tokens: int
    over_budget: bool
    cut: bool


@dataclass(slots=True)
class Page:
    """Sessions, and the cursor of the next page; None at the end."""

    sessions: list[Session]
    next: str | None


@dataclass(slots=True)
class Appended:
    """The result of an append; `repeated`: the messages were stored before, nothing was written."""

    first_seq: int
    revision: int
    repeated: bool


@dataclass(slots=True)
class Hit:
    """A message found by a search; a higher rank is better."""

    session_key: str
    seq: int
    role: Role
    author: str
    timestamp: datetime.datetime
    snippet: str
    rank: float


@dataclass(slots=True)
class Hits:
    """Hits, best first."""

    hits: list[Hit]
    more: bool


@dataclass(slots=True)
class Recalled:
    """A message that may answer a question. A higher score is better; it is the sum of what the
    message's own words, its neighbours and its session are worth."""

    session_key: str
    seq: int
    role: Role
    author: str
    timestamp: datetime.datetime
    content: str
    event_id: str
    tokens: int
    score: float
    from_words: float
    from_neighbours: float
    from_session: float


class _Field(NamedTuple):
    """A member of a struct of the library, as the library lists it."""

    name: str
    type: int
    has: bool
    by_hand: bool
    bit: int


_INT, _BOOL, _TEXT, _BYTES, _TIME, _UUID, _JSON = 1, 3, 4, 5, 6, 7, 9


def _fields(which: int) -> tuple[_Field, ...]:
    """The members of a struct, in the order in which their values come and go."""
    found: list[_Field] = []
    one = ffi.new("qpy_field *")
    while lib.qpy_field_at(which, len(found), one):
        name: str = ffi.string(one.name).decode()
        found.append(_Field(name, one.type, bool(one.has), bool(one.by_hand), one.bit))
    return tuple(found)


_INFO = _fields(lib.QPY_SESSION_INFO)
_NEW = tuple(one for one in _fields(lib.QPY_SESSION_NEW) if not one.by_hand)
_PATCH = tuple(one for one in _fields(lib.QPY_SESSION_PATCH) if not one.by_hand)
_NUMBERS_OF = {_INT: 1, _BOOL: 1, _TIME: 2}
_SESSION_TEXTS = sum(one.type not in _NUMBERS_OF for one in _INFO)
_SESSION_NUMBERS = sum(one.has + _NUMBERS_OF.get(one.type, 0) for one in _INFO)


def _value(one: _Field, texts: Iterator[bytes | None], numbers: Iterator[int]) -> Any:
    """The next value of a row."""
    there = next(numbers) if one.has else True
    if one.type == _TIME:
        found: Any = time_of(next(numbers), next(numbers))
    elif one.type == _INT:
        found = next(numbers)
    elif one.type == _BOOL:
        found = bool(next(numbers))
    elif one.type == _BYTES:
        found = next(texts) or b""
    else:
        text = next(texts)
        words = "" if text is None else text.decode()
        found = words if one.type != _JSON else json.loads(words) if words else {}
    return found if there else None


def session_of(texts: list[bytes | None], numbers: list[int]) -> Session:
    """A session out of its row, by the names of its members."""
    words, values = iter(texts), iter(numbers)
    return Session(**{one.name: _value(one, words, values) for one in _INFO})


def _given(fields: tuple[_Field, ...], values: dict[str, Any]) -> list[bytes | None]:
    """A row of texts out of what a caller gives; None is not given."""
    unknown = values.keys() - {one.name for one in fields}
    if unknown:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    row: list[bytes | None] = []
    for one in fields:
        value = values.get(one.name)
        if value is not None and one.type == _JSON:
            value = json.dumps(value)
        row.append(None if value is None else value.encode())
    return row


def new_of(values: SessionNew) -> list[bytes | None]:
    """The row of a new session's settings."""
    return _given(_NEW, dict(values))


def patch_of(values: SessionPatch) -> tuple[list[bytes | None], int]:
    """The row of a change, and the bits of what is given."""
    given = dict(values)
    bits = sum(one.bit for one in _PATCH if given.get(one.name) is not None)
    return _given(_PATCH, given), bits


def history_of(texts: list[bytes | None], numbers: list[int]) -> History:
    """Decode a session's row, then its messages."""
    return History(
        session=session_of(texts, numbers),
        messages=[Message._of(found) for found in json.loads(texts[_SESSION_TEXTS] or b"[]")],
        more_before=bool(numbers[_SESSION_NUMBERS]),
        more_after=bool(numbers[_SESSION_NUMBERS + 1]),
    )


def window_of(texts: list[bytes | None], numbers: list[int]) -> Window:
    """Decode tokens and flags, then a history."""
    history = history_of(texts, numbers[3:])
    return Window(
        session=history.session,
        messages=history.messages,
        more_before=history.more_before,
        more_after=history.more_after,
        tokens=numbers[0],
        over_budget=bool(numbers[1]),
        cut=bool(numbers[2]),
    )


def page_of(texts: list[bytes | None], numbers: list[int]) -> Page:
    """Decode rows of sessions, then the cursor."""
    after = texts[-1]
    return Page(
        sessions=[
            session_of(texts[row * _SESSION_TEXTS :], numbers[row * _SESSION_NUMBERS :])
            for row in range(len(numbers) // _SESSION_NUMBERS)
        ],
        next=None if after is None else after.decode(),
    )


def _double(bits: int) -> float:
    """Decode a float that came as its bits."""
    value: float = struct.unpack("d", struct.pack("q", bits))[0]
    return value


def recalled_of(texts: list[bytes | None], numbers: list[int]) -> list[Recalled]:
    """Decode four texts and nine numbers for each hit."""
    found = []
    for row in range(len(texts) // 4):
        own = [(text or b"").decode() for text in texts[4 * row : 4 * row + 4]]
        key, author, content, event_id = own
        seq, role, seconds, nanoseconds, tokens, *scores = numbers[9 * row : 9 * row + 9]
        score, words, neighbours, session = map(_double, scores)
        found.append(
            Recalled(
                session_key=key,
                seq=seq,
                role=ROLES[role - 1],
                author=author,
                timestamp=time_of(seconds, nanoseconds),
                content=content,
                event_id=event_id,
                tokens=tokens,
                score=score,
                from_words=words,
                from_neighbours=neighbours,
                from_session=session,
            )
        )
    return found


def hits_of(texts: list[bytes | None], numbers: list[int]) -> Hits:
    """Decode three texts and five numbers for each hit, then whether there are more."""
    found = []
    for row in range(len(texts) // 3):
        key, author, snippet = ((text or b"").decode() for text in texts[3 * row : 3 * row + 3])
        seq, role, seconds, nanoseconds, rank = numbers[5 * row : 5 * row + 5]
        found.append(
            Hit(
                session_key=key,
                seq=seq,
                role=ROLES[role - 1],
                author=author,
                timestamp=time_of(seconds, nanoseconds),
                snippet=snippet,
                rank=_double(rank),
            )
        )
    return Hits(found, bool(numbers[-1]))
