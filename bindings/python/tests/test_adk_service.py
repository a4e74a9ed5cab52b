"""What the service does beyond the shared contract: staleness, repeats, odd events, addresses."""

from __future__ import annotations

import asyncio
import copy
import datetime
import json
import pathlib

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

import quipu
from quipu._native import lib
from quipu.adk import QuipuSessionService
from test_adk_contract import APP, create, delta, get, read, says


async def test_a_stale_session_may_not_append(service: QuipuSessionService) -> None:
    first = await create(service, session_id="s")
    second = await read(service, "s")
    await service.append_event(first, says("a"))
    with pytest.raises(StaleSessionError, match="modified in storage"):
        await service.append_event(second, delta({"temp:t": 1, "k": 2}))
    assert second.events == [] and second.state == {"temp:t": 1}
    fresh = await read(service, "s")
    await service.append_event(fresh, says("b"))
    assert len((await read(service, "s")).events) == 2


async def test_equal_and_backward_times_hide_no_conflict(service: QuipuSessionService) -> None:
    first = await create(service, session_id="s")
    second = await read(service, "s")
    await service.append_event(first, says("a", timestamp=1.0))
    with pytest.raises(StaleSessionError):
        await service.append_event(second, says("b", timestamp=1.0))


async def test_of_two_copies_exactly_one_wins(service: QuipuSessionService) -> None:
    await create(service, session_id="s")
    for number in range(8):
        copies = [await read(service, "s") for _ in range(2)]
        results = await asyncio.gather(
            *(service.append_event(one, says(f"{number}")) for one in copies),
            return_exceptions=True,
        )
        assert sum(isinstance(result, StaleSessionError) for result in results) == 1
        assert sum(isinstance(result, Event) for result in results) == 1
    assert len((await read(service, "s")).events) == 8


async def test_tasks_that_share_a_session_take_turns(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    await asyncio.gather(*(service.append_event(session, says(str(n))) for n in range(32)))
    found = await read(service, "s")
    assert found == session
    assert len(found.events) == 32
    assert service._turns == {}


async def test_copies_of_a_session_carry_its_revision(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    await service.append_event(session, says("a"))
    twin = copy.deepcopy(session)
    await service.append_event(twin, says("b"))
    with pytest.raises(StaleSessionError):
        await service.append_event(session, says("c"))


async def test_a_session_without_a_marker_appends_unless_it_is_older(
    service: QuipuSessionService,
) -> None:
    session = await create(service, session_id="s")
    await service.append_event(session, says("a", timestamp=100.0))
    known = Session.model_validate_json(session.model_dump_json())
    blank = Session(id="s", app_name=APP, user_id="u")
    await service.append_event(known, says("b", timestamp=200.0))
    with pytest.raises(StaleSessionError):
        await service.append_event(blank, says("c", timestamp=300.0))
    known._storage_update_marker = "2026-01-01T00:00:00.000000"  # of ADK's database service
    await service.append_event(known, says("e", timestamp=400.0))
    missing = Session(id="none", app_name=APP, user_id="u")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(missing, says("d"))


async def test_appending_to_a_deleted_session_is_not_found(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    await service.delete_session(app_name=APP, user_id="u", session_id="s")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, says("a"))
    await create(service, session_id="s")
    with pytest.raises(StaleSessionError):  # another life of the same name
        await service.append_event(session, says("a"))


async def test_a_repeated_event_is_stored_once(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    event = says("a")
    await service.append_event(session, event)
    await service.append_event(session, event)
    assert len(session.events) == 1
    await service.append_event(session, says("b"))
    assert len((await read(service, "s")).events) == 2
    with pytest.raises(AlreadyExistsError):
        await service.append_event(session, says("other", id=event.id))


async def test_a_repeat_after_an_unknown_outcome_settles_it(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    before = copy.deepcopy(session)
    event = says("a")
    await service.append_event(session, event)
    await service.append_event(before, event)  # as if the first answer had been lost
    assert before == session
    await service.append_event(before, says("b"))


async def test_racing_creates_have_one_winner(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as one, QuipuSessionService(path) as two:
        for number in range(8):
            results = await asyncio.gather(
                *(create(s, session_id=f"s{number}", state={"app:a": 1}) for s in (one, two)),
                return_exceptions=True,
            )
            assert sum(isinstance(result, AlreadyExistsError) for result in results) == 1
            assert sum(isinstance(result, Session) for result in results) == 1


async def test_a_rebasing_service_appends_behind_the_others(path: pathlib.Path) -> None:
    async with QuipuSessionService(path, adk_rebase=True) as service:
        first = await create(service, session_id="s")
        second = await read(service, "s")
        await service.append_event(first, says("a"))
        await service.append_event(second, says("b"))
        await service.append_event(second, says("c"))
        events = (await read(service, "s")).events
        texts = [event.content.parts[0].text for event in events]  # type: ignore
        assert texts == ["a", "b", "c"]


async def test_order_is_that_of_the_appends_or_by_time(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as service:
        session = await create(service, session_id="s")
        for when in (3.0, 1.0, 2.0):
            await service.append_event(session, says("x", timestamp=when))
        assert [e.timestamp for e in (await read(service, "s")).events] == [3.0, 1.0, 2.0]
    async with QuipuSessionService(path, adk_by_time=True) as service:
        assert [e.timestamp for e in (await read(service, "s")).events] == [1.0, 2.0, 3.0]
        newest = await read(service, "s", num_recent_events=2)
        assert [e.timestamp for e in newest.events] == [2.0, 3.0]


async def test_values_that_are_no_json_become_their_words(service: QuipuSessionService) -> None:
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

    def function() -> None: ...

    session = await create(service, session_id="s", state={"f": function, "t": when})
    await service.append_event(session, delta({"g": function, "part": types.Part(text="x")}))
    state = (await read(service, "s")).state
    assert "function" in state["f"] and "function" in state["g"]
    assert state["t"] == "2026-01-01T00:00:00Z"
    assert state["part"]["text"] == "x"


async def test_members_that_this_adk_refuses_are_left_out(service: QuipuSessionService) -> None:
    """Written by another program: a member of the actions that ADK for Python does not know."""
    session = await create(service, session_id="s")
    await service.append_event(session, says("a"))
    foreign = {
        "id": "e2",
        "author": "go",
        "timestamp": "2026-01-01T00:00:01.5Z",
        "actions": {"stateDelta": {"k": 1}, "brandNew": {"x": 1}},
        "content": {
            "role": "model",
            "parts": [
                {"text": "hi", "novel": 1},
                {"inlineData": {"data": "+/8=", "mimeType": "x"}},
            ],
        },
        "unknown": True,
    }
    _, uid, revision = (session._storage_update_marker or "").split(":")
    texts: list[bytes | None] = [b"app", b"u", b"s", uid.encode(), json.dumps(foreign).encode()]
    await service._start(lib.QPY_ADK_APPEND, texts, [int(revision)])
    first, second = (await read(service, "s")).events
    assert first.content is not None
    assert (second.id, second.timestamp, second.author) == ("e2", 1767225601.5, "go")
    assert second.actions.state_delta == {"k": 1}
    assert second.content is not None and second.content.parts is not None
    assert second.content.parts[0].text == "hi"
    assert second.content.parts[1].inline_data == types.Blob(data=b"\xfb\xff", mime_type="x")


async def test_events_of_any_shape_are_taken(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    events = [
        Event(author="", invocation_id=""),
        Event(author="a", content=types.Content(parts=[])),
        Event(
            author="a",
            content=types.Content(role="model", parts=[types.Part(text="\x00\U0001f600")]),
        ),
        Event(author="a", timestamp=-62135596800.0),
        Event(author="a", timestamp=0.0),
        Event(author="a", timestamp=253402300799.0),
        Event(author="a" * 500, branch="b" * 500, error_message="m" * 100_000),
    ]
    for event in events:
        await service.append_event(session, event)
    assert (await read(service, "s")).events == events


async def test_a_failed_append_leaves_the_session_alone(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as service:
        session = await create(service, session_id="s", state={"k": 1})
    async with QuipuSessionService(path, read_only=True) as service:
        with pytest.raises(quipu.QuipuError):
            await service.append_event(session, delta({"k": 2}))
    assert session.events == [] and session.state == {"k": 1}


async def test_returned_sessions_are_snapshots(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s", state={"k": [1]})
    session.state["k"].append(2)
    session.state["new"] = 1
    assert (await read(service, "s")).state == {"k": [1]}


@pytest.mark.parametrize("absolute", [True, False])
async def test_uris_name_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, absolute: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    where = f"quipu:///{tmp_path}/a%20b.db" if absolute else "quipu:///a%20b.db"
    async with QuipuSessionService(uri=where + "?durability=relaxed", agents_dir=".") as service:
        await create(service, session_id="s")
    assert (tmp_path / "a b.db").exists()


async def test_uris_carry_options(tmp_path: pathlib.Path) -> None:
    where = f"quipu:///{tmp_path}/o.db?tenant=t&adk_rebase=true&ttl=60&cap_messages=3"
    async with QuipuSessionService(where) as service:
        session = await create(service, session_id="s")
        for number in range(5):
            await service.append_event(session, says(str(number)))
        assert len((await read(service, "s")).events) == 3
        listed = await service.store.list()
        assert listed.sessions[0].expires_at is not None
    with pytest.raises(ValueError, match="slashes"):
        QuipuSessionService("quipu://host/file.db")
    with pytest.raises(ValueError):
        QuipuSessionService()
    with pytest.raises(ValueError, match="no option 'colour'"):
        QuipuSessionService(f"quipu:///{tmp_path}/o.db?colour=red")
    with pytest.raises(ValueError, match="'ttl' is given more than once"):
        QuipuSessionService(f"quipu:///{tmp_path}/o.db?ttl=1&ttl=2")


async def test_services_can_share_a_store(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path) as store:
        service = QuipuSessionService(store)
        await create(service, session_id="s")
        await service.close()  # not ours to close
        assert (await store.list()).sessions[0].session_id == "s"


async def test_flush_is_there(service: QuipuSessionService) -> None:
    await service.flush()
    assert await get(service, "none") is None


async def test_large_histories_come_whole(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    for number in range(300):
        await service.append_event(session, says(f"message {number} " * 50))
    assert (await read(service, "s")).events == session.events
    assert (await read(service, "s", num_recent_events=50)).events == session.events[-50:]


async def test_every_method_of_the_base_class_is_there() -> None:
    from google.adk.sessions.base_session_service import BaseSessionService

    names = {name for name in vars(BaseSessionService) if not name.startswith("_")}
    assert names - {"flush"} <= set(vars(QuipuSessionService))
