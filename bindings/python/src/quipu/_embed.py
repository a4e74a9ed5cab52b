"""Embedders: functions that turn texts into vectors."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from . import _callback
from ._native import ffi, lib
from ._shapes import Given

Embedder = Callable[[list[str]], Sequence[Sequence[float]]]


def given_embedder(given: Given, embedder: Embedder | None) -> Any:
    """Add an embedder to what a call is given. The call keeps what is returned."""
    return _callback.give(given, "embedder", embedder, lib.qpy_embed)


def _vectors(embed: Embedder, texts: list[str]) -> tuple[array[float], int]:
    """The vectors end to end, and their dimensions."""
    made = [array("f", vector) for vector in embed(texts)]
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
        texts = _callback.texts_of(blob, lengths, count)
        values, dimensions = _vectors(_callback.find(number), texts)
        pointer = ffi.from_buffer("float[]", values)
        return int(lib.qpy_vectors_put(vectors, pointer, count, dimensions))
    except BaseException as error:
        lib.qpy_vectors_fail(vectors, _callback.why(error))
        return 1
