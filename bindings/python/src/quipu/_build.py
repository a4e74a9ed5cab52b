"""Building many objects at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager

_MANY = 1 << 15  # bytes; what fewer make is not worth the trouble
_nothing: AbstractContextManager[None] = contextlib.nullcontext()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def no_collection(size: int) -> AbstractContextManager[None]:
    """Pause garbage collection while many objects are built out of `size` bytes: all of
    them are kept, and repeated collections can cost as much as building them."""
    return _no_collection() if size > _MANY and gc.isenabled() else _nothing
