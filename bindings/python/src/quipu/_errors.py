"""One class for each status of the library; the message is the library's."""

from __future__ import annotations


class QuipuError(Exception):
    """An error of the library; `status` is its number."""

    status = 0


class NotFound(QuipuError):
    """It does not exist."""

    status = -1


class Exists(QuipuError):
    """It exists already."""

    status = -2


class Expired(QuipuError):
    """Its time to live has passed."""

    status = -3


class Conflict(QuipuError):
    """Another writer changed it first: reload and try again."""

    status = -4


class Busy(QuipuError):
    """Another writer held the store until the deadline: try again."""

    status = -5


class Full(QuipuError):
    """The disk or the store's size cap is full."""

    status = -6


class Unknown(QuipuError):
    """The outcome is unknown: repeat with the same id."""

    status = -7


class Invalid(QuipuError, ValueError):
    """The data violates a rule of the schema."""

    status = -8


class Misuse(QuipuError):
    """The call itself is wrong."""

    status = -9


class Limit(QuipuError, ValueError):
    """A named limit was exceeded."""

    status = -10


class NoMemory(QuipuError, MemoryError):
    """Out of memory."""

    status = -11


class InputOutput(QuipuError, OSError):
    """The operating system failed to read or write."""

    status = -12


class Corrupt(QuipuError):
    """The stored data is damaged."""

    status = -13


class Cancelled(QuipuError):
    """The caller cancelled the call."""

    status = -14


class Unsupported(QuipuError):
    """This build or this file does not support it."""

    status = -15


class Newer(QuipuError):
    """The file was written by a newer program: upgrade this one."""

    status = -16


_BY_STATUS: dict[int, type[QuipuError]] = {
    error.status: error
    for error in (
        NotFound,
        Exists,
        Expired,
        Conflict,
        Busy,
        Full,
        Unknown,
        Invalid,
        Misuse,
        Limit,
        NoMemory,
        InputOutput,
        Corrupt,
        Cancelled,
        Unsupported,
        Newer,
    )
}


def error_of(status: int, message: str) -> QuipuError:
    """Return the exception for a status; an unknown number keeps its message."""
    error = _BY_STATUS.get(status, QuipuError)(message)
    error.status = status
    return error
