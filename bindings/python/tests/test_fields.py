"""Every field of a session, by the generated lists: what the library shows is there, and what is
given comes out."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

import quipu
from quipu._fields import SessionNew, SessionPatch
from quipu._native import lib
from quipu._shapes import SHAPES


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[quipu.Store]:
    with quipu.Store(tmp_path / "s.db") as opened:
        yield opened


def _values(names: Any) -> dict[str, Any]:
    return {name: {"a": name} if name == "metadata" else f"the {name}" for name in names}


def _names(shape: int) -> set[str]:
    return {one.name for one in SHAPES[shape] if not one.by_hand}


def test_a_session_has_what_the_library_shows() -> None:
    names = {field.name for field in dataclasses.fields(quipu.Session)}
    assert names == {one.name for one in SHAPES[lib.QPY_SESSION_INFO]}


def test_what_may_be_given_is_what_the_library_takes() -> None:
    assert set(SessionNew.__annotations__) == _names(lib.QPY_SESSION_NEW)
    assert set(SessionPatch.__annotations__) == _names(lib.QPY_SESSION_PATCH)
    assert all(one.has for one in SHAPES[lib.QPY_SESSION_PATCH] if not one.by_hand)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (quipu.Appended, lib.QPY_APPENDED),
        (quipu.Hit, lib.QPY_SEARCH_HIT),
        (quipu.Recalled, lib.QPY_RECALL_HIT),
    ],
)
def test_a_result_has_the_members_of_its_struct(kind: Any, shape: int) -> None:
    assert {field.name for field in dataclasses.fields(kind)} == _names(shape)


def test_every_value_of_a_new_session_is_shown(store: quipu.Store) -> None:
    values = _values(SessionNew.__annotations__)
    made = store.create("s", **values)
    for session in (made, store.get("s").session, store.list().sessions[0]):
        assert {name: getattr(session, name) for name in values} == values


def test_every_value_of_a_change_is_shown(store: quipu.Store) -> None:
    store.create("s")
    for name, value in _values(SessionPatch.__annotations__).items():
        before = dataclasses.asdict(store.get("s").session)
        store.update("s", **{name: value})
        after = dataclasses.asdict(store.get("s").session)
        assert after[name] == value
        changed = {one for one in after if after[one] != before[one]}
        assert changed == {name, "revision", "updated_at"}


def test_what_the_store_counts_is_shown(store: quipu.Store) -> None:
    store.create("s", ttl=3600)
    store.append("s", quipu.Message("user", "one"))
    store.fork("s", "f", at=1)
    session = store.get("s").session
    assert session.message_count == 1 and session.next_seq == 2 and session.first_seq == 1
    assert session.expires_at is not None and session.token_count > 0
    assert not session.is_fork and session.fork_seq == 0
    assert store.get("f").session.is_fork and store.get("f").session.fork_seq == 1


def test_a_name_that_is_no_field_is_refused(store: quipu.Store) -> None:
    with pytest.raises(TypeError, match="colour"):
        store.create("s", colour="red")  # type: ignore[call-arg]
