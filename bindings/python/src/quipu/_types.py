"""Arguments and results of a store."""

from __future__ import annotations

import datetime
import json
import struct
from dataclasses import dataclass, field
from typing import Any, Literal

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
class Session:
    """A session without its messages."""

    key: str
    uid: str
    agent_id: str
    channel_type: str
    channel_id: str
    model: str
    metadata: dict[str, Any]
    app_name: str
    user_id: str
    session_id: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    expires_at: datetime.datetime | None
    revision: int
    first_seq: int
    next_seq: int
    message_count: int
    token_count: int
    compacted_seq: int
    is_fork: bool
    fork_seq: int


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


_SESSION_TEXTS = 10
_SESSION_NUMBERS = 15


def session_of(texts: list[bytes | None], numbers: list[int]) -> Session:
    """Decode a session from its row, as native_store.c writes it."""
    words = [None if text is None else text.decode() for text in texts[:_SESSION_TEXTS]]
    return Session(
        key=words[0] or "",
        agent_id=words[1] or "",
        channel_type=words[2] or "",
        channel_id=words[3] or "",
        model=words[4] or "",
        metadata=json.loads(words[5]) if words[5] else {},
        app_name=words[6] or "",
        user_id=words[7] or "",
        session_id=words[8] or "",
        uid=words[9] or "",
        created_at=time_of(numbers[0], numbers[1]),
        updated_at=time_of(numbers[2], numbers[3]),
        expires_at=time_of(numbers[5], numbers[6]) if numbers[4] else None,
        revision=numbers[7],
        first_seq=numbers[8],
        next_seq=numbers[9],
        message_count=numbers[10],
        token_count=numbers[11],
        compacted_seq=numbers[12],
        is_fork=bool(numbers[13]),
        fork_seq=numbers[14],
    )


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
                rank=struct.unpack("d", struct.pack("q", rank))[0],
            )
        )
    return Hits(found, bool(numbers[-1]))
