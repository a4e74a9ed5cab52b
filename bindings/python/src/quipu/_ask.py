"""Models that observe: functions that answer a question by asking one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _callback
from ._native import ffi, lib
from ._shapes import Given

_TEXTS = 4  # of a question


@dataclass(slots=True)
class Question:
    """What a worker of memory asks a model: to follow `instructions` about `text`, and to answer
    with JSON of the form `schema`, within `timeout` seconds."""

    model: str
    instructions: str
    text: str
    schema: str
    timeout: float


Asker = Callable[[Question], str]


def given_asker(given: Given, ask: Asker | None) -> Any:
    """Add a function to what a call is given. The call keeps what is returned."""
    return _callback.give(given, "ask", ask, lib.qpy_ask)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def qpy_ask(number: int, blob: Any, lengths: Any, timeout_ms: int, answer: Any) -> int:
    """The library's callback: an exception becomes the reason of a failure."""
    try:
        model, instructions, text, schema = _callback.texts_of(blob, lengths, _TEXTS)
        question = Question(model, instructions, text, schema, timeout_ms / 1000)
        said = _callback.find(number)(question)
        if not isinstance(said, str):
            raise TypeError(f"ask must return a str, not {type(said).__name__}")
        data = said.encode()
        return int(lib.qpy_answer_put(answer, data, len(data)))
    except BaseException as error:
        lib.qpy_answer_fail(answer, _callback.why(error))
        return 1
