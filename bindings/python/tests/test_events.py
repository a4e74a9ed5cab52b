"""Events keep everything: what is read is the tree that was appended, number spellings included."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import shutil
import sqlite3
import tempfile
from typing import Any

import pytest
from google.adk.events.event import Event
from google.genai.types import Part
from pydantic import ValidationError

import quipu
from conftest import FIXTURES, LONG
from event_gen import Generator, Number
from quipu import _adk_events, _call
from quipu._adk_events import read_events
from quipu.adk import QuipuSessionService
from quipu._native import lib
from test_adk_contract import create, read

SHORTHANDS = {
    "message": "hello",
    "state": {"k": 1},
    "route": "next",
    "node_path": "a/b",
}
EVENTS = 1_000_000 if LONG else 2_000
BATCH = 500


class _Encoder(json.JSONEncoder):
    """Numbers of event_gen as they are spelled."""

    def encode(self, o: Any) -> str:
        if isinstance(o, Number):
            return o.text
        if isinstance(o, dict):
            return "{" + ",".join(f"{json.dumps(k)}:{self.encode(v)}" for k, v in o.items()) + "}"
        if isinstance(o, list):
            return "[" + ",".join(map(self.encode, o)) + "]"
        return super().encode(o)


def tree(text: bytes | str) -> Any:
    """A JSON tree in which numbers are their texts."""
    return json.loads(text, parse_int=lambda n: ("n", n), parse_float=lambda n: ("n", n))


def round_trip(store: quipu.Store, name: bytes, events: list[bytes]) -> list[Any]:
    """Append events to a new session and read it."""
    names: list[bytes | None] = [b"app", b"u", name]
    made = _call.run(lib.QPY_ADK_CREATE, store._handle, names)
    uid, revision = made.texts[0], made.numbers[0]
    for event in events:
        done = _call.run(lib.QPY_ADK_APPEND, store._handle, [*names, uid, event], [revision])
        revision = done.numbers[0]
    text = _call.run(lib.QPY_ADK_GET, store._handle, names, [-1, 0]).texts[3]
    _call.run(lib.QPY_ADK_DELETE, store._handle, names)
    found: list[Any] = tree(text or b"")
    return found


def test_random_events_come_back_as_they_were() -> None:
    seed = int(os.environ.get("QUIPU_SEED", random.randrange(2**32)))
    print(f"QUIPU_SEED={seed}")
    generator, encoder = Generator(seed), _Encoder()
    with quipu.Store(":memory:", durability="relaxed", search="off") as store:
        for batch in range(EVENTS // BATCH):
            events = [encoder.encode(generator.event()).encode() for _ in range(BATCH)]
            found = round_trip(store, b"s%d" % batch, events)
            for number, (event, got) in enumerate(zip(events, found, strict=True)):
                assert got == tree(event), f"seed {seed}, event {batch * BATCH + number}"


def fixture_events(name: str) -> list[str]:
    """The events of a copy: SQLite may create files beside a database that it opens."""
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copyfile(FIXTURES / name, pathlib.Path(folder) / name)
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT event_data FROM events ORDER BY rowid").fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("name", ["adk-python-sqlite.db", "adk-python-database.db"])
def test_events_of_adk_s_own_files_come_back(name: str) -> None:
    events = fixture_events(name)
    assert len(events) == 12
    with quipu.Store(":memory:") as store:
        found = round_trip(store, b"s", [event.encode() for event in events])
    assert found == [tree(event) for event in events]


@pytest.mark.parametrize("name", ["adk-python-sqlite.db", "adk-python-database.db"])
async def test_events_of_adk_s_own_files_are_equal_objects(name: str, path: pathlib.Path) -> None:
    events = [Event.model_validate_json(event) for event in fixture_events(name)]
    async with QuipuSessionService(path) as service:
        session = await create(service, session_id="s")
        for event in events:
            await service.append_event(session, event.model_copy(deep=True))
        assert (await read(service, "s")).events == events


def same(text: str) -> None:
    """Our reader makes what ADK makes: the same values, and the same members set."""
    wanted = Event.model_validate_json(text)
    (found,) = read_events(f"[{text}]".encode())
    assert found == wanted
    assert type(found) is Event
    assert found.model_fields_set == wanted.model_fields_set
    assert found.model_dump(exclude_unset=True) == wanted.model_dump(exclude_unset=True)


@pytest.mark.parametrize("name", ["adk-python-sqlite.db", "adk-python-database.db"])
def test_our_reader_makes_what_adk_makes(name: str) -> None:
    for text in fixture_events(name):
        same(text)
        same(Event.model_validate_json(text).model_dump_json(by_alias=True, exclude_none=True))
        same(Event.model_validate_json(text).model_dump_json())


def _with_nulls(generator: Generator, event: dict[str, Any]) -> None:
    """Members that are there and null, some of them."""
    names = ("text", "thought", "functionCall", "inline_data", "thoughtSignature", "videoMetadata")
    for part in event.get("content", {}).get("parts", ()):
        if generator.chance(0.3):
            part.setdefault(generator.random.choice(names), None)
    if generator.chance(0.3):
        event[generator.random.choice(("branch", "partial", "errorCode", "actions"))] = None


def test_our_reader_makes_what_adk_makes_of_random_events() -> None:
    seed = int(os.environ.get("QUIPU_SEED", random.randrange(2**32)))
    print(f"QUIPU_SEED={seed}")
    generator, encoder = Generator(seed), _Encoder()
    taken = 0
    for number in range(20 * BATCH if LONG else 2 * BATCH):
        event = generator.event()
        if number & 1:
            _with_nulls(generator, event)
        text = encoder.encode(event)
        try:
            Event.model_validate_json(text)
        except ValidationError:
            continue
        same(text)
        taken += 1
    assert taken > BATCH // 4


@pytest.mark.parametrize(
    "part",
    [
        {"text": ""},
        {"text": None},
        {"text": "a", "thought": True, "thoughtSignature": "-_8="},
        {"thought_signature": "+/8="},
        {"inlineData": {"mimeType": "image/png", "data": "AAEC", "displayName": "x"}},
        {"fileData": {"fileUri": "gs://x", "mimeType": "a/b"}, "videoMetadata": {"fps": 2}},
        {"executableCode": {"code": "1", "language": "python"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"functionCall": {"id": "c", "name": "f", "args": {"x": [1, 2.5, None, {"y": "z"}]}}},
        {"functionCall": {"name": "f", "args": {"n": 1e400}}},
        {"functionResponse": {"name": "f", "response": {"a": 1}, "scheduling": "SILENT"}},
        {"functionResponse": {"name": "f", "parts": [{"inlineData": {"data": "AA=="}}]}},
        {"partMetadata": {"k": [True, 18446744073709551616]}},
    ],
)
def test_parts_are_what_adk_makes_of_them(part: dict[str, Any]) -> None:
    event = {"id": "e", "timestamp": 1, "content": {"role": "model", "parts": [part, part]}}
    same(json.dumps(event, separators=(",", ":")))


@pytest.mark.parametrize("name", SHORTHANDS)
def test_shorthands_are_read_as_adk_reads_them(name: str) -> None:
    same(json.dumps({"id": "e", "timestamp": 1, name: SHORTHANDS[name]}, separators=(",", ":")))


def test_our_reader_does_not_run_what_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a new pydantic made it fall back, which is right but slow."""
    assert _adk_events._plain is not _adk_events._EVENTS
    assert _adk_events._special is not _adk_events._EVENTS

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the constructor ran")

    monkeypatch.setattr(Part, "__init__", refuse)
    (found,) = read_events(b'[{"id":"e","content":{"parts":[{"text":"hello"}]}}]')
    assert found.content is not None and found.content.parts is not None
    assert found.content.parts[0].text == "hello"


def test_what_adk_refuses_is_refused() -> None:
    for text in (
        '[{"timestamp":"soon"}]',
        '[{"actions":{"stateDelta":3}}]',
        '[{"author":5}]',
        "[7]",
    ):
        with pytest.raises(ValidationError):
            read_events(text.encode())
