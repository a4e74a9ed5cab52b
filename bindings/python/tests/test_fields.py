"""Every field of every view of the schema: what the library shows is there, and what is given comes
out."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT

import quipu
from quipu import _results
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


def _shown(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


# A message goes as its JSON (quipu_message_json()), in which its calls have another name, and which
# has no sum over the session.
IN_MESSAGE = {"calls": "tool_calls", "tokens_total": None}
VIEWS = {
    "quipu_session_info": (lib.QPY_SESSION_INFO, _shown(quipu.Session)),
    "quipu_session_new": (lib.QPY_SESSION_NEW, {*SessionNew.__annotations__, "key", "ttl_ms"}),
    "quipu_session_patch": (lib.QPY_SESSION_PATCH, {*SessionPatch.__annotations__, "ttl_ms"}),
    "quipu_message": (lib.QPY_MESSAGE, _shown(quipu.Message)),
    "quipu_memory": (lib.QPY_MEMORY, _shown(quipu.Memory)),
    "quipu_artifact": (lib.QPY_ARTIFACT, _shown(quipu.Artifact) - {"data"}),
}


def test_every_field_of_every_view_is_in_python() -> None:
    text = (ROOT / "schema" / "quipu.ent").read_text(encoding="utf-8")
    views = re.findall(r'^  view \w+ +"(\w+)"', text, flags=re.M)
    assert set(views) == VIEWS.keys()
    for name, (shape, fields) in VIEWS.items():
        renamed = IN_MESSAGE if name == "quipu_message" else {}
        wanted = {renamed.get(one.name, one.name) for one in SHAPES[shape]} - {None}
        assert fields == wanted, name


def test_every_value_of_a_message_that_is_given_is_shown(store: quipu.Store) -> None:
    set_by_store = {"seq", "tokens", "tokens_total", "covers_from", "covers_to", "replaces"}
    values: dict[str, Any] = {
        "role": "assistant",
        "timestamp": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),
        "tool_calls": [quipu.ToolCall("look", "1", '{"a":1}', output="[]")],
        "extra": {"a": "b"},
        "mark": "timeout",
    }
    for one in SHAPES[lib.QPY_MESSAGE]:
        if one.name not in set_by_store and IN_MESSAGE.get(one.name, one.name) not in values:
            values[one.name] = 3 if one.type == 1 else f"the {one.name}"
    store.append("s", quipu.Message(**values), create=True)
    (message,) = store.get("s").messages
    assert {name: getattr(message, name) for name in values} == values
    assert message.seq == 1 and message.tokens > 0


def test_what_may_be_given_is_what_the_library_takes() -> None:
    assert set(SessionNew.__annotations__) == _names(lib.QPY_SESSION_NEW)
    assert set(SessionPatch.__annotations__) == _names(lib.QPY_SESSION_PATCH)
    assert all(one.has for one in SHAPES[lib.QPY_SESSION_PATCH] if not one.by_hand)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (quipu.Appended, lib.QPY_APPENDED),
        (quipu.Hit, lib.QPY_SEARCH_HIT),
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


@pytest.mark.parametrize(
    ("shape", "type_", "header", "prefix"),
    [
        (lib.QPY_CONTEXT_RESULT, quipu.Context, "agent.h", "quipu_context_reason"),
        (lib.QPY_SOURCE_REPORT, quipu.Imported, "import.h", "quipu_source_kind"),
        (lib.QPY_PROBLEM, quipu.Problem, "maintain.h", "quipu_problem_kind"),
        (lib.QPY_CHANGE, quipu.Change, "tail.h", "quipu_change_kind"),
    ],
)
def test_a_choice_of_the_library_has_its_name(
    shape: int, type_: type, header: str, prefix: str
) -> None:
    """A value without a name would be read as an IndexError after the call has done its work."""
    text = (ROOT / "include" / "quipu" / header).read_text(encoding="utf-8")
    body = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    if prefix == "quipu_source_kind":
        count = len(re.findall(r"\bX\((\w+), \d+, ", body))
    else:
        found = re.search(rf"typedef enum {prefix} {{([^}}]*)}}", body)
        assert found is not None
        count = len([one for one in found[1].split(",") if one.strip()])
        count += "= 1," in found[1]
    name = "reason" if type_ is quipu.Context else "kind"
    (choices,) = (one.choices for one in SHAPES[shape] if one.name == name)
    assert len(choices) == count
    named = typing.get_args(typing.get_type_hints(type_, vars(_results))[name])
    assert not named or set(named) >= {one for one in choices if one}
