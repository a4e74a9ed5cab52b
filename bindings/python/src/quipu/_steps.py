"""A step is a generator of calls, which a synchronous and an asynchronous caller drive alike."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar, cast

from . import _call, _requests
from ._errors import Conflict, Exists, Expired, Invalid, NotFound, QuipuError
from ._store import AsyncStore, Store

T = TypeVar("T")

Step = Generator[Any, Any, T]  # yields an Ask or a Request, gets an Answer or a result
LOST = (Conflict, Exists, NotFound, Expired)  # somebody else was first


class Ask(NamedTuple):
    """A call of the native layer."""

    op: int
    texts: list[bytes | None]
    numbers: list[int]


def _on(step: Step[T], given: Any) -> Any:
    """What a step asks for next, after a result or an error, which comes back into the step."""
    return step.throw(given) if isinstance(given, QuipuError) else step.send(given)


def drive(store: Store | AsyncStore, step: Step[T]) -> T:
    """Run a step on this thread."""
    given: Any = None
    while True:
        try:
            asked = _on(step, given)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            if isinstance(asked, Ask):
                given = _call.run(asked.op, store._handle, asked.texts, asked.numbers)
            else:
                given = store._run(asked)
        except QuipuError as problem:
            given = problem


async def adrive(store: Store | AsyncStore, step: Step[T]) -> T:
    """Run a step outside of the event loop."""
    given: Any = None
    while True:
        try:
            asked = _on(step, given)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            if isinstance(asked, Ask):
                given = await _call.start(asked.op, store._handle, asked.texts, asked.numbers)
            else:
                given = await store._start(asked)
        except QuipuError as problem:
            given = problem


def drop(key: str, summary: str, *, up_to: int) -> Step[None]:
    """Replace the messages up to a number by a summary and remove them. Another caller may have
    done it already, and further, or have died before it removed them."""
    try:
        try:
            yield _requests.compact(key, summary, up_to=up_to)
        except Invalid:  # nothing is left to cover
            at = (yield _requests.get(key, last=0)).session.compacted_seq
            if not at:
                return
            newest = (yield _requests.get(key, after=at - 1, before=at + 1)).messages
            if [one.content for one in newest] != [summary]:
                return  # the user's own compaction covers messages that are not to go
        yield _requests.prune(key)
    except (*LOST, Invalid):
        pass
