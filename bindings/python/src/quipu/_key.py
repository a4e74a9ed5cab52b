"""The key of an encrypted store, in the forms that the program `quipu` takes: a file, which names
itself, or bytes. A URI never has one: addresses are logged."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from ._errors import Invalid, Misuse

KEY_BYTES = 32
PASSPHRASE_BYTES_MAX = 1024
_LINE_END = 2  # bytes of the longest one
_TEXT = frozenset(b"\t\n\r") | frozenset(range(0x20, 0x7F))
PLACES = ("key", "key_file", "passphrase", "passphrase_file")
_VARIABLES = {"QUIPU_KEY_FILE": "key_file", "QUIPU_PASSPHRASE_FILE": "passphrase_file"}


class Secret(NamedTuple):
    """What the library takes; without bytes the store is a plain one."""

    data: bytes | None
    is_passphrase: bool = False


def secret_of(
    key: bytes | Callable[[], bytes] | None,
    key_file: str | os.PathLike[str] | None,
    passphrase: str | bytes | Callable[[], str | bytes] | None,
    passphrase_file: str | os.PathLike[str] | None,
) -> Secret:
    """Return the secret of a store, of which one form may be given."""
    values = (key, key_file, passphrase, passphrase_file)
    given = [name for name, value in zip(PLACES, values, strict=True) if value is not None]
    if len(given) > 1:
        raise TypeError(f"{given[0]} and {given[1]} are both given: one of them opens the store")
    if key is not None:
        return Secret(_bytes_of("key", key() if callable(key) else key, "bytes"))
    if key_file is not None:
        return Secret(_key_in(key_file))
    if passphrase is not None:
        return Secret(_phrase_of(passphrase), True)
    if passphrase_file is not None:
        return Secret(_phrase_in(passphrase_file), True)
    return Secret(None)


def needed(what: str, **options: Any) -> Secret:
    """Return the secret that a call cannot do without."""
    secret = secret_of(**{name: options.get(name) for name in PLACES})
    if secret.data is None:
        raise TypeError(f"{what} needs one of {', '.join(PLACES)}")
    return secret


def of_environment(options: dict[str, Any]) -> dict[str, str]:
    """Return the file that the program's variables name, for a service that has an address alone;
    nothing where the options have a key."""
    named = {option: os.environ[name] for name, option in _VARIABLES.items() if name in os.environ}
    if len(named) > 1:
        raise Misuse(f"{' and '.join(_VARIABLES)} are both set: unset one")
    return {} if any(options.get(name) is not None for name in PLACES) else named


def _bytes_of(name: str, value: object, accepted: str) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} must be {accepted}, not {type(value).__name__}")
    return bytes(value)


def _phrase_of(passphrase: str | bytes | Callable[[], str | bytes]) -> bytes:
    value = passphrase() if callable(passphrase) else passphrase
    data = value.encode() if isinstance(value, str) else value
    return _bytes_of("passphrase", data, "str or bytes")


def _read(name: str, path: str | os.PathLike[str], most: int) -> bytes:
    """Return what the file begins with, `most` bytes and one more; a key that others can read is no
    secret."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, not {type(path).__name__}")
    with open(path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise Misuse(f"{name}: other users may read {os.fspath(path)}: chmod 600 it")
        return file.read(most + 1) or b""


def _key_in(path: str | os.PathLike[str]) -> bytes:
    """32 bytes as they are, or 64 digits and a line end. 32 characters are a passphrase in the
    wrong place, which scrypt would not protect."""
    data = _read("key_file", path, 2 * KEY_BYTES + 1)
    if len(data) == KEY_BYTES and not _TEXT.issuperset(data):
        return data
    digits = data.removesuffix(b"\n")
    try:
        found = bytes.fromhex(digits.decode("ascii")) if len(digits) == 2 * KEY_BYTES else b""
    except ValueError:
        found = b""
    if len(found) != KEY_BYTES:
        raise Invalid(
            f"key_file: {os.fspath(path)} holds no key: {KEY_BYTES} random bytes, or "
            f"{2 * KEY_BYTES} hexadecimal digits"
        )
    return found


def _phrase_in(path: str | os.PathLike[str]) -> bytes:
    """The file without the line end that editors write. Of a longer file only the begin was read:
    it would be another passphrase."""
    file = _read("passphrase_file", path, PASSPHRASE_BYTES_MAX + _LINE_END)
    data = file.rstrip(b"\r\n")
    if len(file) > PASSPHRASE_BYTES_MAX + _LINE_END or not 1 <= len(data) <= PASSPHRASE_BYTES_MAX:
        raise Invalid(
            f"passphrase_file: the passphrase in {os.fspath(path)} must have 1 to "
            f"{PASSPHRASE_BYTES_MAX} bytes"
        )
    return data
