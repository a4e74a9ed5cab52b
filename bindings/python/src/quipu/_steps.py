"""A step is a generator of calls, which a synchronous and an asynchronous caller drive alike."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar, cast

from . import _call
from ._errors import Conflict, Exists, Expired, NotFound
from ._store import AsyncStore, Store

T = TypeVar("T")

Step = Generator[Any, Any, T]  # yields an Ask or a Request, gets an Answer or a result
LOST = (Conflict, Exists, NotFound, Expired)  # these come back into the step, which may go on


class Ask(NamedTuple):
    """A call of the native layer."""

    op: int
    texts: list[bytes | None]
    numbers: list[int]


def _on(step: Step[T], given: Any) -> Any:
    """What a step asks for next, after a result or an error."""
    return step.throw(given) if isinstance(given, LOST) else step.send(given)


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
        except LOST as problem:
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
        except LOST as problem:
            given = problem
