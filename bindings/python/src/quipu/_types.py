"""Arguments and results of a store."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from ._fields import Session
from ._native import lib
from ._shapes import Reader

Role = Literal["user", "assistant", "tool", "function", "model", "system"]

ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "function", "model", "system")


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
    model: str = ""  # that answered; the tokens are what its provider reported
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0

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
            model=found.get("model", ""),
            prompt_tokens=found.get("promptTokens", 0),
            cached_tokens=found.get("cachedTokens", 0),
            answer_tokens=found.get("answerTokens", 0),
        )


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


def session_of(reader: Reader) -> Session:
    """Decode a session."""
    return Session(**reader.struct(lib.QPY_SESSION_INFO))


def _messages(reader: Reader) -> list[Message]:
    return [Message._of(found) for found in json.loads(reader.bytes() or b"[]")]


def history_of(reader: Reader) -> History:
    """Decode a session and its messages."""
    session, messages = session_of(reader), _messages(reader)
    return History(session, messages, **reader.struct(lib.QPY_HISTORY))


def window_of(reader: Reader) -> Window:
    """Decode a session, the messages of a window and its counts. Nothing is newer than a window."""
    session, messages = session_of(reader), _messages(reader)
    return Window(session, messages, more_after=False, **reader.struct(lib.QPY_WINDOW_RESULT))


def page_of(reader: Reader) -> Page:
    """Decode sessions and the cursor behind them."""
    sessions = [Session(**found) for found in reader.items(lib.QPY_SESSION_INFO)]
    return Page(sessions, reader.text())


def appended_of(reader: Reader) -> Appended:
    """Decode the result of an append."""
    return Appended(**reader.struct(lib.QPY_APPENDED))


def hits_of(reader: Reader) -> Hits:
    """Decode hits, then whether there are more."""
    hits = [Hit(**found) for found in reader.items(lib.QPY_SEARCH_HIT)]
    return Hits(hits, bool(reader.number()))


Batch = list[Message]


def batch_of(reader: Reader) -> Batch:
    """Decode what came from a tail: whether there are messages, then the session and these."""
    if not reader.number():
        return []
    session_of(reader)
    return _messages(reader)
