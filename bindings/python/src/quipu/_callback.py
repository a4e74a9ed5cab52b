"""Functions of the program that the library calls back, on any thread."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from ._native import ffi
from ._shapes import Given

_numbers = itertools.count(1)
_living: weakref.WeakValueDictionary[int, Registered] = weakref.WeakValueDictionary()


class Registered:
    """A function that a call uses, found by its number as long as somebody holds this."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"{name} must be a function, not {type(function).__name__}")
        self.function = function
        self.number = next(_numbers)
        _living[self.number] = self


def give(given: Given, name: str, function: Callable[..., Any] | None, callback: Any) -> Any:
    """Add a function to what a call is given, and the callback that finds it. The call keeps what
    is returned."""
    if function is None:
        given.number(name, 0).number(name, 0)
        return None
    registered = Registered(name, function)
    given.number(name, int(ffi.cast("intptr_t", callback)))
    given.number(name, registered.number)
    return registered


def find(number: int) -> Callable[..., Any]:
    """The function of a number."""
    registered = _living.get(number)
    if registered is None:
        raise RuntimeError("its call has ended")
    return registered.function


def texts_of(blob: Any, lengths: Any, count: int) -> list[str]:
    """Texts that lie end to end."""
    data = ffi.buffer(blob, sum(lengths[at] for at in range(count)))[:]
    texts, first = [], 0
    for at in range(count):
        texts.append(data[first : first + lengths[at]].decode())
        first += lengths[at]
    return texts


def why(error: BaseException) -> bytes:
    """An exception as the reason of a failure."""
    return f"{type(error).__name__}: {error}".encode(errors="replace")
