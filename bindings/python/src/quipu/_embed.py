"""Embedders: functions that turn texts into vectors, called by the library on any thread."""

from __future__ import annotations

import itertools
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from ._native import ffi, lib
from ._shapes import Given

Embedder = Callable[[list[str]], Sequence[Sequence[float]]]

_numbers = itertools.count(1)
_living: weakref.WeakValueDictionary[int, _Registered] = weakref.WeakValueDictionary()


class _Registered:
    """An embedder that a call uses, found by its number as long as the call lives."""

    def __init__(self, embed: Embedder) -> None:
        if not callable(embed):
            raise TypeError(f"embedder must be a function, not {type(embed).__name__}")
        self.embed = embed
        self.number = next(_numbers)
        _living[self.number] = self


def given_embedder(given: Given, embedder: Embedder | None) -> Any:
    """Add an embedder to what a call is given. The call keeps what is returned."""
    if embedder is None:
        given.number("embedder", 0).number("embedder", 0)
        return None
    registered = _Registered(embedder)
    given.number("embedder", int(ffi.cast("intptr_t", lib.qpy_embed)))
    given.number("embedder", registered.number)
    return registered


def _vectors(registered: _Registered | None, texts: list[str]) -> tuple[array[float], int]:
    """The vectors end to end, and their dimensions."""
    if registered is None:
        raise RuntimeError("its call was given up")
    made = [array("f", vector) for vector in registered.embed(texts)]
    if len(made) != len(texts):
        raise ValueError(f"{len(made)} vectors came back for {len(texts)} texts")
    dimensions = len(made[0])
    if any(len(vector) != dimensions for vector in made):
        raise ValueError("the vectors have different lengths")
    values = array("f")
    for vector in made:
        values.extend(vector)
    return values, dimensions


@ffi.def_extern()  # type: ignore[untyped-decorator]
def qpy_embed(number: int, blob: Any, lengths: Any, count: int, vectors: Any) -> int:
    """The library's callback: an exception becomes the reason of a failure."""
    try:
        data = ffi.buffer(blob, sum(lengths[at] for at in range(count)))[:]
        texts, first = [], 0
        for at in range(count):
            texts.append(data[first : first + lengths[at]].decode())
            first += lengths[at]
        values, dimensions = _vectors(_living.get(number), texts)
        pointer = ffi.from_buffer("float[]", values)
        return int(lib.qpy_vectors_put(vectors, pointer, count, dimensions))
    except BaseException as error:
        lib.qpy_vectors_fail(vectors, f"{type(error).__name__}: {error}".encode())
        return 1
