"""Encrypted stores: a file that the program wrote opens with its key in every form, and one that
does not fit names itself."""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PROGRAM

import quipu
from quipu.adk import QuipuSessionService

KEY = secrets.token_bytes(32)
PHRASE = "correct horse, größer"
PLANTED = "a text that no file may show"
Made = Callable[[str, bytes], pathlib.Path]


@pytest.fixture
def secret(tmp_path: pathlib.Path) -> Made:
    """Make a file that only its owner reads."""

    def make(name: str, data: bytes) -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes(data)
        path.chmod(0o600)
        return path

    return make


def run(path: pathlib.Path, *arguments: str, **variables: pathlib.Path) -> str:
    """What the program says, with a key's file in its environment."""
    done = subprocess.run(
        [PROGRAM, *arguments, "--store", path],
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        input=json.dumps({"role": "user", "content": PLANTED}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def keyed(path: pathlib.Path, secret: Made) -> pathlib.Path:
    """A store that the program encrypted with a key."""
    key = secret("key", KEY)
    run(path, "init", "--encrypt", QUIPU_KEY_FILE=key)
    run(path, "append", "one", "-", "--create", QUIPU_KEY_FILE=key)
    assert PLANTED.encode() not in path.read_bytes()
    return path


def read(path: pathlib.Path, **options: Any) -> list[str]:
    with quipu.Store(path, must_exist=True, **options) as store:
        return [message.content for message in store.get("one").messages]


def test_a_key_opens_what_the_program_wrote_in_every_form(
    keyed: pathlib.Path, secret: Made
) -> None:
    assert read(keyed, key=KEY) == [PLANTED]
    assert read(keyed, key=bytearray(KEY)) == [PLANTED]
    assert read(keyed, key=lambda: KEY) == [PLANTED]
    assert read(keyed, key_file=secret("raw", KEY)) == [PLANTED]
    assert read(keyed, key_file=str(secret("hex", KEY.hex().encode() + b"\n"))) == [PLANTED]
    assert read(keyed, key_file=secret("HEX", KEY.hex().upper().encode())) == [PLANTED]
    assert read(keyed, read_only=True, key=KEY) == [PLANTED]


def test_a_passphrase_opens_what_the_program_wrote(path: pathlib.Path, secret: Made) -> None:
    phrase = secret("phrase", PHRASE.encode() + b"\r\n")
    run(path, "init", "--encrypt", QUIPU_PASSPHRASE_FILE=phrase)
    run(path, "append", "one", "-", "--create", QUIPU_PASSPHRASE_FILE=phrase)
    assert read(path, passphrase=PHRASE) == [PLANTED]
    assert read(path, passphrase=lambda: PHRASE.encode()) == [PLANTED]
    assert read(path, passphrase_file=phrase) == [PLANTED]
    with pytest.raises(quipu.Invalid, match="the key does not fit this file"):
        read(path, passphrase="wrong horse")


def test_the_program_reads_what_python_wrote(path: pathlib.Path, secret: Made) -> None:
    with quipu.Store(path, key=KEY) as store:
        store.append("one", PLANTED, create=True)
        assert all(PLANTED.encode() not in one.read_bytes() for one in path.parent.glob("store*"))
        store.backup(path.with_name("copy.db"))
    assert PLANTED in run(path, "show", "one", QUIPU_KEY_FILE=secret("key", KEY))
    assert read(path.with_name("copy.db"), key=KEY) == [PLANTED]


def test_a_passphrase_makes_a_store(path: pathlib.Path, secret: Made) -> None:
    with quipu.Store(path, passphrase="p" * 1024) as store:
        store.append("one", PLANTED, create=True)
    phrase = secret("phrase", b"p" * 1024)
    assert PLANTED in run(path, "show", "one", QUIPU_PASSPHRASE_FILE=phrase)
    with pytest.raises(quipu.Limit):
        quipu.Store(path, passphrase="p" * 1025)


async def test_an_async_store_takes_a_key(keyed: pathlib.Path) -> None:
    async with await quipu.AsyncStore.open(keyed, key=KEY) as store:
        await store.append("one", "more")
        assert [one.content for one in (await store.get("one")).messages] == [PLANTED, "more"]
    with pytest.raises(quipu.Misuse, match="no key was given"):
        await quipu.AsyncStore.open(keyed)


def test_a_key_that_does_not_fit_is_said_and_nothing_is_written(
    keyed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    before = keyed.read_bytes()
    with pytest.raises(quipu.Misuse, match="it is encrypted, and no key was given"):
        quipu.Store(keyed)
    with pytest.raises(quipu.Invalid, match="the key does not fit this file"):
        quipu.Store(keyed, key=bytes(32))
    with pytest.raises(quipu.Invalid, match="32 bytes"):
        quipu.Store(keyed, key=KEY[:31])
    with pytest.raises(quipu.Invalid, match="empty"):
        quipu.Store(keyed, key=b"")
    assert keyed.read_bytes() == before
    plain = tmp_path / "plain.db"
    quipu.Store(plain).close()
    with pytest.raises(quipu.Misuse, match="it is not encrypted"):
        quipu.Store(plain, key=KEY)
    with pytest.raises(quipu.Invalid, match="32 bytes"):
        quipu.Store(tmp_path / "new.db", key=KEY[:31])
    assert not (tmp_path / "new.db").exists()


def test_a_key_file_that_is_none_is_said(keyed: pathlib.Path, secret: Made) -> None:
    for data in (b"", b"12345", KEY + b"\n", b"g" * 64, b"0" * 64 + b"\n\n", b"w" * 31 + b"\n"):
        with pytest.raises(quipu.Invalid, match="holds no key"):
            quipu.Store(keyed, key_file=secret("bad", data))
    for data in (b"", b"\r\n", b"p" * 1025, b"p" * 1024 + b"\n\nmore"):
        with pytest.raises(quipu.Invalid, match="1 to 1024 bytes"):
            quipu.Store(keyed, passphrase_file=secret("bad", data))
    readable = secret("readable", KEY)
    readable.chmod(0o640)
    with pytest.raises(quipu.Misuse, match="chmod 600"):
        quipu.Store(keyed, key_file=readable)
    with pytest.raises(FileNotFoundError):
        quipu.Store(keyed, key_file=keyed.with_name("none"))


def test_a_key_of_a_wrong_type_names_its_parameter(keyed: pathlib.Path, secret: Made) -> None:
    wrong: list[dict[str, Any]] = [{"key": "text"}, {"key": lambda: None}, {"key_file": KEY}]
    wrong += [{"passphrase": 7}, {"passphrase_file": 7}]
    for options in wrong:
        with pytest.raises(TypeError, match=f"^{next(iter(options))} must be"):
            quipu.Store(keyed, **options)
    with pytest.raises(TypeError, match="key and passphrase_file are both given"):
        quipu.Store(keyed, key=KEY, passphrase_file=secret("phrase", b"p"))


async def test_a_uri_has_no_key_and_its_service_takes_the_variables(
    keyed: pathlib.Path, secret: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in ("key", "key_file", "passphrase", "passphrase_file"):
        with pytest.raises(ValueError, match=f"a URI has no {option}") as caught:
            QuipuSessionService(f"quipu:///{keyed}?{option}=hush")
        assert "hush" not in str(caught.value)
    with pytest.raises(quipu.Misuse, match="no key was given"):
        QuipuSessionService(f"quipu:///{keyed}")
    monkeypatch.setenv("QUIPU_KEY_FILE", str(secret("key", KEY)))
    async with QuipuSessionService(f"quipu:///{keyed}") as service:
        made = await service.create_session(app_name="a", user_id="u")
    async with QuipuSessionService(keyed, key=KEY) as service:
        assert await service.get_session(app_name="a", user_id="u", session_id=made.id)
    async with QuipuSessionService(f"quipu:///{keyed}", key=KEY) as service:
        assert await service.get_session(app_name="a", user_id="u", session_id=made.id)
    monkeypatch.setenv("QUIPU_PASSPHRASE_FILE", "other")
    with pytest.raises(quipu.Misuse, match="both set"):
        QuipuSessionService(f"quipu:///{keyed}")


def test_a_representation_does_not_show_a_key(keyed: pathlib.Path) -> None:
    with quipu.Store(keyed, key=KEY) as store:
        assert "key" not in repr(store)


def test_a_server_takes_no_key() -> None:
    for uri in ("postgresql://nowhere/none", ":memory:"):
        with pytest.raises((quipu.Unsupported, quipu.Misuse)):
            quipu.Store(uri, key=KEY)


def test_another_key_opens_the_store_and_the_old_one_does_not(
    keyed: pathlib.Path, secret: Made
) -> None:
    fresh = secrets.token_bytes(32)
    with quipu.Store(keyed, key=KEY) as store:
        store.rekey(key_file=secret("fresh", fresh.hex().encode() + b"\n"))
        store.append("one", "behind the change")
        with quipu.Store(keyed, key=fresh) as other:
            assert len(other.get("one").messages) == 2
        store.rekey(passphrase=PHRASE)
    for key in (KEY, fresh):
        with pytest.raises(quipu.Invalid, match="the key does not fit this file"):
            quipu.Store(keyed, key=key)
    phrase = secret("phrase", PHRASE.encode())
    assert "behind the change" in run(keyed, "show", "one", QUIPU_PASSPHRASE_FILE=phrase)


async def test_an_async_store_gets_another_key(keyed: pathlib.Path) -> None:
    fresh = secrets.token_bytes(32)
    async with await quipu.AsyncStore.open(keyed, key=KEY) as store:
        await store.rekey(key=lambda: fresh)
        with pytest.raises(quipu.Invalid, match="32 bytes"):
            await store.rekey(key=b"short")
    assert read(keyed, key=fresh) == [PLANTED]


def test_what_cannot_be_rekeyed_is_said_and_nothing_is_written(
    keyed: pathlib.Path, tmp_path: pathlib.Path, secret: Made
) -> None:
    before = keyed.read_bytes()
    with quipu.Store(keyed, key=KEY) as store:
        with pytest.raises(TypeError, match="rekey needs one of key, key_file, passphrase"):
            store.rekey()
        with pytest.raises(TypeError, match="key and passphrase are both given"):
            store.rekey(key=KEY, passphrase=PHRASE)
        with pytest.raises(quipu.Invalid, match="32 bytes"):
            store.rekey(key=KEY[:31])
        with pytest.raises(quipu.Invalid, match="empty"):
            store.rekey(key=b"")
        with pytest.raises(quipu.Limit):
            store.rekey(passphrase="p" * 1025)
    assert keyed.read_bytes() == before
    with quipu.Store(keyed, key=KEY, read_only=True) as store:
        with pytest.raises(quipu.Misuse):
            store.rekey(key=bytes(32))
    with quipu.Store(tmp_path / "plain.db") as store:
        with pytest.raises(quipu.Misuse, match="is not encrypted"):
            store.rekey(key=KEY)


def test_a_plain_store_becomes_an_encrypted_one(path: pathlib.Path, secret: Made) -> None:
    with quipu.Store(path) as store:
        store.append("one", PLANTED, create=True)
        with pytest.raises(quipu.Busy, match="a program has it open"):
            quipu.encrypt_store(path, key=KEY, deadline=0.001)
    with pytest.raises(TypeError, match="encrypt_store needs one of key"):
        quipu.encrypt_store(path)
    with pytest.raises(quipu.Invalid, match="32 bytes"):
        quipu.encrypt_store(path, key=KEY[:31])
    assert read(path) == [PLANTED]
    for _ in range(2):  # a repeat does nothing
        quipu.encrypt_store(path, key=KEY)
    assert all(PLANTED.encode() not in one.read_bytes() for one in path.parent.glob("store*"))
    assert PLANTED in run(path, "show", "one", QUIPU_KEY_FILE=secret("key", KEY))
    with pytest.raises(quipu.Invalid, match="the key does not fit this file"):
        quipu.encrypt_store(path, key=bytes(32))
    with pytest.raises(quipu.NotFound):
        quipu.encrypt_store(path.with_name("none.db"), key=KEY)
    with pytest.raises((quipu.Unsupported, quipu.Misuse)):
        quipu.encrypt_store("postgresql://nowhere/none", key=KEY)
