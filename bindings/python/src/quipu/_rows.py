"""Messages of adapters, as native_rows.c takes them."""

from __future__ import annotations

import array
import json
import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ._types import ROLES

if TYPE_CHECKING:
    from ._fields import Session

T = TypeVar("T")

ANY = -2  # the revision of a session that may have any, and is made if it is missing
NEW = -1  # of one that must not exist
KEEP = -3  # of one that must exist

BATCH_MAX = 10_000  # messages that one call appends: QUIPU_BATCH_MAX

_NUMBER = {name: number for number, name in enumerate(ROLES, 1)}
_CALL = 0  # in the place of a role: a tool call of the message before
_ALIASES = {"developer": "system", "human": "user", "ai": "assistant"}

Call = tuple[str, str, str, str | None]  # id, name, input, output


def number_of(role: object) -> int:
    """A role's number; what no role is called is the assistant's."""
    known = _ALIASES.get(role, role) if isinstance(role, str) else role
    return _NUMBER.get(known, _NUMBER["assistant"])  # type: ignore[call-overload, no-any-return]


def text_of(content: object) -> str:
    """The text of a message, for readers and for search: a text, or those of its parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "\n".join(part for part in parts if isinstance(part, str))


def item_extra(item: object) -> bytes:
    """The `extra` of a message that is an item of another program: what QPY_ITEMS_GET gives back.
    ASCII, since only so JSON has half of a surrogate pair."""
    return b'{"item":' + json.dumps(item).encode() + b"}"


class At(NamedTuple):
    """A session as it was read: its revision, and its uid as two numbers. One that was deleted and
    made again has another uid, and may have the same revision."""

    revision: int
    uid: int
    uid_rest: int

    @classmethod
    def of(cls, session: Session) -> At:
        """That of a session."""
        return cls(session.revision, *struct.unpack("=qq", uuid.UUID(session.uid).bytes))

    @classmethod
    def read(cls, numbers: list[int]) -> At:
        """That in the numbers of QPY_ITEMS_GET."""
        return cls(numbers[0], numbers[4], numbers[5])

    @classmethod
    def written(cls, numbers: list[int]) -> At:
        """That in the numbers of QPY_ROWS_ADD."""
        return cls(numbers[0], numbers[3], numbers[4])


def repeated(numbers: list[int]) -> bool:
    """Whether QPY_ROWS_ADD found all rows stored, so that it wrote nothing."""
    return numbers[2] != 0


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Items as one call takes them."""
    for at in range(0, len(items), BATCH_MAX):
        yield items[at : at + BATCH_MAX]


class Rows:
    """Messages that one call appends."""

    __slots__ = ("_shape", "_texts", "count")

    def __init__(self) -> None:
        self._shape = array.array("q")
        self._texts: list[bytes] = []
        self.count = 0

    def add(
        self,
        role: int,
        content: bytes,
        extra: bytes = b"",
        event: bytes = b"",
        calls: Iterable[Call] = (),
    ) -> None:
        """Add a message."""
        self._shape.extend((role, len(content), len(extra), len(event), 0))
        self._texts += (content, extra, event)
        self.count += 1
        for id, name, given, output in calls:
            parts = [one.encode(errors="replace") for one in (id, name, given, output or "")]
            last = -1 if output is None else len(parts[3])
            self._shape.extend((_CALL, *map(len, parts[:3]), last))
            self._texts += parts

    def texts(self) -> list[bytes]:
        """The rows and their texts."""
        return [self._shape.tobytes(), b"".join(self._texts)]


def encoded(text: str) -> bytes:
    """A text as UTF-8; half of a surrogate pair becomes a question mark."""
    return text.encode(errors="replace")


def reading(given: Any) -> str:
    """What a tool was given or gave, as a text for readers: what JSON does not have is said in
    Python's words."""
    if given is None or isinstance(given, str):
        return given or ""
    try:
        return json.dumps(given, default=str)
    except (TypeError, ValueError):  # names that are no texts
        return str(given)


def langchain_row(message: Any) -> tuple[int, bytes, list[Call]]:
    """A message of LangChain: its role, its text, its tool calls."""
    text = text_of(message.content)
    calls: list[Call] = [
        (call.get("id") or "", call["name"], reading(call["args"]), None)
        for call in getattr(message, "tool_calls", ())
    ]
    if message.type == "tool":
        calls = [(message.tool_call_id, message.name or "", "", text)]
    return number_of(message.type), encoded(text), calls
