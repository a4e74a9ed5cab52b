"""Structs of the library as rows of texts and numbers, by the tables of native_shapes.c.

Both sides walk the same table: members go by name, and nothing here repeats an order.
"""

from __future__ import annotations

import datetime
import json
import math
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ._native import ffi, lib

_INT, _FLOAT, _BOOL, _TEXT, _BYTES, _TIME, _UUID, _JSON = 1, 2, 3, 4, 5, 6, 7, 9
_NEVER = -1
_INT_MAX = 2**63 - 1
_SECONDS_MAX = 10**12  # more than the years that times have
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Field(NamedTuple):
    """A member of a struct."""

    name: str
    type: int
    has: bool
    by_hand: bool
    choices: tuple[str, ...]


def _fields(which: int) -> tuple[Field, ...]:
    found: list[Field] = []
    one = ffi.new("qpy_field *")
    while lib.qpy_field_at(which, len(found), one):
        name: str = ffi.string(one.name).decode()
        choices = () if one.choices == ffi.NULL else ffi.string(one.choices).decode().split("|")
        found.append(Field(name, one.type, bool(one.has), bool(one.by_hand), tuple(choices)))
    return tuple(found)


SHAPES = tuple(_fields(which) for which in range(lib.QPY_SHAPES))


def time_of(seconds: int, nanoseconds: int) -> datetime.datetime:
    """Return a time of the library, to the microsecond."""
    return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def _wrong(name: str, value: object, accepted: str) -> TypeError:
    return TypeError(f"{name} must be {accepted}, not {type(value).__name__}")


def text_of(name: str, value: object) -> bytes:
    """A text as the library takes it; an error names the parameter."""
    if not isinstance(value, str):
        raise _wrong(name, value, "a str")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half of a surrogate pair at {error.start}") from None


def bytes_of(name: str, value: object) -> bytes:
    """Bytes as the library takes them; a text is UTF-8."""
    if isinstance(value, str):
        return text_of(name, value)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _wrong(name, value, "bytes or a str")
    return bytes(value)


def int_of(name: str, value: object) -> int:
    """An integer as the library takes it."""
    if not isinstance(value, int):
        raise _wrong(name, value, "an int")
    if not -_INT_MAX <= value <= _INT_MAX:
        raise ValueError(f"{name} is {value}; give a number of at most 63 bits")
    return int(value)


def json_of(name: str, value: object) -> bytes:
    """A value as JSON."""
    try:
        return text_of(name, json.dumps(value, ensure_ascii=False, allow_nan=False))
    except TypeError as error:
        raise TypeError(f"{name} must be a value that JSON can hold: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name} must be a value that JSON can hold: {error}") from None
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None


def milliseconds_of(name: str, seconds: object) -> int:
    """Seconds as the library's milliseconds; infinity: -1, never."""
    if not isinstance(seconds, (int, float)):
        raise _wrong(name, seconds, "a number of seconds")
    if not seconds > 0:
        raise ValueError(
            f"option {name!r} is {seconds}; give seconds above 0, None for the default or math.inf"
        )
    if seconds == math.inf:
        return _NEVER
    if seconds > _SECONDS_MAX:
        raise ValueError(f"option {name!r} is {seconds}; give at most {_SECONDS_MAX} or math.inf")
    return max(1, round(seconds * 1000))


def several(name: str, values: object, accepted: str) -> list[Any]:
    """The values of an argument that is a list or another iterable."""
    if not isinstance(values, Iterable) or isinstance(values, type):
        raise _wrong(name, values, accepted)
    return list(values)


def _choice_of(name: str, value: object, choices: tuple[str, ...]) -> int:
    accepted = ", ".join(repr(choice) for choice in choices if choice)
    if not isinstance(value, str):
        raise _wrong(name, value, f"one of {accepted}")
    if value not in choices or not value:
        raise ValueError(f"option {name!r} is {value!r}; give one of {accepted}")
    return choices.index(value)


def _time_numbers(name: str, value: object) -> tuple[int, int]:
    if not isinstance(value, datetime.datetime):
        raise _wrong(name, value, "a datetime")
    seconds, rest = divmod(value.astimezone(datetime.timezone.utc) - _EPOCH, _SECOND)
    return seconds, rest.microseconds * 1000


_SECOND = datetime.timedelta(seconds=1)


def uuid_of(name: str, value: object) -> uuid.UUID:
    """A UUID, or its text."""
    if isinstance(value, uuid.UUID):
        return value
    if not isinstance(value, str):
        raise _wrong(name, value, "a UUID or its text")
    try:
        return uuid.UUID(value)
    except ValueError:
        raise ValueError(f"{name} is {value!r}; give a UUID of 36 characters") from None


class Given:
    """The texts and numbers of a call, in the order in which the native layer takes them."""

    __slots__ = ("texts", "numbers")

    def __init__(self) -> None:
        self.texts: list[bytes | None] = []
        self.numbers: list[int] = []

    def text(self, name: str, value: str) -> Given:
        """Add a required text."""
        self.texts.append(text_of(name, value))
        return self

    def bytes(self, value: bytes | None) -> Given:
        """Add bytes as they are."""
        self.texts.append(value)
        return self

    def number(self, name: str, value: int) -> Given:
        """Add an integer or a truth."""
        self.numbers.append(int_of(name, value))
        return self

    def struct(self, which: int, **values: Any) -> Given:
        """Add the members of a struct; None leaves one at its default."""
        return self.members(which, values)

    def members(self, which: int, values: Mapping[str, Any]) -> Given:
        """As struct(); a name that is no member is a TypeError, as for any unknown argument."""
        fields = SHAPES[which]
        unknown = values.keys() - {one.name for one in fields if not one.by_hand}
        if unknown:
            raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
        for one in fields:
            if not one.by_hand:
                self._member(one, values.get(one.name))
        return self

    def _member(self, one: Field, value: Any) -> None:
        if one.type == lib.QPY_TYPE_FLAG:
            self.numbers.append(bool(value))
            return
        if one.has:
            self.numbers.append(value is not None)
            if value is None:
                return
        self._value(one, value)

    def _value(self, one: Field, value: Any) -> None:
        name = one.name
        if one.type == _TEXT:
            self.texts.append(None if value is None else text_of(name, value))
        elif one.type == _JSON:
            self.texts.append(None if value is None else json_of(name, value))
        elif one.type == _UUID:
            self.texts.append(None if value is None else str(uuid_of(name, value)).encode())
        elif one.type == _TIME:
            self.numbers += (0, 0) if value is None else _time_numbers(name, value)
        elif value is None:
            self.numbers.append(0)
        elif one.choices:
            self.numbers.append(_choice_of(name, value, one.choices))
        elif one.type == lib.QPY_TYPE_SECONDS:
            self.numbers.append(milliseconds_of(name, value))
        elif one.type == _BOOL:
            self.numbers.append(bool(value))
        else:
            self.numbers.append(int_of(name, value))


class Reader:
    """The texts and numbers of an answer, in order."""

    __slots__ = ("_texts", "_numbers")

    def __init__(self, texts: list[bytes | None], numbers: list[int]) -> None:
        self._texts: Iterator[bytes | None] = iter(texts)
        self._numbers: Iterator[int] = iter(numbers)

    def bytes(self) -> bytes | None:
        """The next text as bytes."""
        return next(self._texts)

    def text(self) -> str | None:
        """The next text."""
        found = next(self._texts)
        return None if found is None else found.decode()

    def texts(self) -> list[str]:
        """The texts of a list."""
        found: list[str] = []
        while next(self._numbers):
            found.append(self.text() or "")
        return found

    def number(self) -> int:
        """The next number."""
        return next(self._numbers)

    def struct(self, which: int) -> dict[str, Any]:
        """The members of the next struct by name; None for one that is not there."""
        return {
            one.name: None if one.has and not next(self._numbers) else self._value(one)
            for one in SHAPES[which]
        }

    def items(self, which: int) -> Iterator[dict[str, Any]]:
        """The members of each struct of a list."""
        while next(self._numbers):
            yield self.struct(which)

    def _value(self, one: Field) -> Any:
        if one.type == _TIME:
            return time_of(next(self._numbers), next(self._numbers))
        if one.type == _FLOAT:
            return struct.unpack("d", struct.pack("q", next(self._numbers)))[0]
        if one.type in (_INT, _BOOL):
            number = next(self._numbers)
            if one.choices:
                return one.choices[number]
            return number if one.type == _INT else bool(number)
        found = next(self._texts)
        if one.type == _BYTES:
            return found or b""
        words = "" if found is None else found.decode()
        return words if one.type != _JSON else json.loads(words) if words else {}
