"""The behaviours that ADK owes the callers of its session services, one claim a test, in our own
words; `make test-adk-upstream` runs ADK's own suite."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from quipu.adk import QuipuSessionService

APP = "app"


def delta(changes: dict[str, Any], **more: Any) -> Event:
    return Event(author="agent", actions=EventActions(state_delta=changes), **more)


def says(text: str, **more: Any) -> Event:
    return Event(
        author="user",
        invocation_id="i",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        **more,
    )


async def create(service: QuipuSessionService, user: str = "u", **more: Any) -> Session:
    return await service.create_session(app_name=APP, user_id=user, **more)


async def get(
    service: QuipuSessionService, session: str, user: str = "u", **config: Any
) -> Session | None:
    return await service.get_session(
        app_name=APP,
        user_id=user,
        session_id=session,
        config=GetSessionConfig(**config) if config else None,
    )


async def read(
    service: QuipuSessionService, session: str, user: str = "u", **config: Any
) -> Session:
    found = await get(service, session, user, **config)
    assert found is not None
    return found


async def test_a_missing_session_is_none(service: QuipuSessionService) -> None:
    assert await get(service, "none") is None
    assert await get(service, "   ") is None


async def test_created_and_fetched_sessions_are_equal(service: QuipuSessionService) -> None:
    made = await create(service, state={"key": "value", "n": [1, {"x": None}]})
    assert made.id and made.events == []
    assert made.last_update_time <= time.time()
    assert await get(service, made.id) == made
    await service.delete_session(app_name=APP, user_id="u", session_id=made.id)
    assert await get(service, made.id) is None


async def test_lists_have_state_and_no_events(service: QuipuSessionService) -> None:
    for number in range(5):
        session = await create(service, session_id=f"s{number}", state={"key": number})
        await service.append_event(session, says("x"))
    listed = (await service.list_sessions(app_name=APP, user_id="u")).sessions
    assert {session.id: session.state for session in listed} == {
        f"s{number}": {"key": number} for number in range(5)
    }
    assert all(session.events == [] for session in listed)


async def test_lists_come_oldest_update_first(service: QuipuSessionService) -> None:
    for name, when in (("b", 30.0), ("a", 20.0), ("d", 10.0), ("c", 20.0)):
        session = await create(service, session_id=name)
        await service.append_event(session, says("x", timestamp=when))
    listed = (await service.list_sessions(app_name=APP, user_id="u")).sessions
    assert [session.id for session in listed] == ["d", "a", "c", "b"]


async def test_a_list_without_a_user_has_all_users(service: QuipuSessionService) -> None:
    await create(service, "one", session_id="s1", state={"user:n": 1})
    await create(service, "two", session_id="s2", state={"user:n": 2})
    listed = (await service.list_sessions(app_name=APP)).sessions
    assert {(s.user_id, s.id): s.state for s in listed} == {
        ("one", "s1"): {"user:n": 1},
        ("two", "s2"): {"user:n": 2},
    }
    assert (await service.list_sessions(app_name=APP, user_id="")).sessions == []
    assert (await service.list_sessions(app_name="other")).sessions == []


async def test_app_state_is_shared_by_all_users(service: QuipuSessionService) -> None:
    session = await create(service, "one", session_id="s1", state={"app:k": 1})
    await service.append_event(session, delta({"app:k": 2, "app:more": 3}))
    other = await create(service, "two", session_id="s2")
    assert other.state == {"app:k": 2, "app:more": 3}


async def test_user_state_is_shared_by_sessions_of_the_user(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s1", state={"user:k": 1})
    await service.append_event(session, delta({"user:k": "new"}))
    assert (await create(service, session_id="s2")).state == {"user:k": "new"}
    assert (await create(service, "other", session_id="s3")).state == {}


async def test_session_state_is_not_shared(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s1", state={"k": 1})
    await service.append_event(session, delta({"k": 2}))
    assert (await create(service, session_id="s2")).state == {}
    assert (await read(service, "s1")).state == {"k": 2}


@pytest.mark.parametrize("scope", ["", "app:", "user:"])
async def test_a_dict_replaces_the_stored_one(service: QuipuSessionService, scope: str) -> None:
    session = await create(service, session_id="s", state={scope + "d": {"a": 1, "b": 2}})
    await service.append_event(session, delta({scope + "d": {"c": 3}}))
    assert (await read(service, "s")).state == {scope + "d": {"c": 3}}


@pytest.mark.parametrize("scope", ["", "app:", "user:"])
async def test_none_is_a_value(service: QuipuSessionService, scope: str) -> None:
    session = await create(service, session_id="s", state={scope + "k": 1})
    await service.append_event(session, delta({scope + "k": None}))
    assert (await read(service, "s")).state == {scope + "k": None}


async def test_types_survive_unrelated_deltas(service: QuipuSessionService) -> None:
    state = {"t": True, "f": False, "x": 0.1 + 0.2, "big": 2**70, "i": 9007199254740993, "z": 1.0}
    session = await create(service, session_id="s", state=state)
    await service.append_event(session, delta({"other": 1}))
    found = (await read(service, "s")).state
    assert found == {**state, "other": 1}
    assert found["t"] is True and found["f"] is False
    assert isinstance(found["z"], float) and isinstance(found["i"], int)


async def test_temp_names_are_never_stored(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s", state={"temp:first": 1, "k": 0})
    assert session.state == {"k": 0}
    event = delta({"temp:t": 1, "k": 2})
    assert await service.append_event(session, event) is event
    assert session.state == {"k": 2, "temp:t": 1}
    assert event.actions.state_delta == {"k": 2}
    found = await read(service, "s")
    assert found.state == {"k": 2}
    assert found.events[0].actions.state_delta == {"k": 2}


async def test_temp_names_are_seen_by_the_next_event(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    await service.append_event(session, delta({"temp:a": 1}))
    await service.append_event(session, delta({"temp:b": session.state["temp:a"] + 1}))
    assert session.state == {"temp:a": 1, "temp:b": 2}
    assert (await read(service, "s")).state == {}
    assert len((await read(service, "s")).events) == 2


async def test_sessions_of_users_are_apart(service: QuipuSessionService) -> None:
    one = await create(service, "one", session_id="s")
    await service.append_event(one, says("of one"))
    assert await get(service, "s", "two") is None
    two = await create(service, "two", session_id="s")
    assert two.events == []
    await service.delete_session(app_name=APP, user_id="two", session_id="s")
    assert len((await read(service, "s", "one")).events) == 1


async def test_an_id_is_taken_once(service: QuipuSessionService) -> None:
    await create(service, session_id="s")
    with pytest.raises(AlreadyExistsError, match="s already exists"):
        await create(service, session_id="s")


async def test_padded_ids_are_stripped(service: QuipuSessionService) -> None:
    made = await create(service, session_id="  s  ")
    assert made.id == "s"
    assert await get(service, " s ") == made
    await service.delete_session(app_name=APP, user_id="u", session_id=" s\t")
    assert await get(service, "s") is None
    assert (await create(service, session_id="   ")).id.strip()


async def test_bytes_come_back(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    event = Event(
        author="user",
        content=types.Content(
            role="user",
            parts=[types.Part.from_bytes(data=b"\xff\xfe\xfb\x00 test", mime_type="image/png")],
        ),
        grounding_metadata=types.GroundingMetadata(
            search_entry_point=types.SearchEntryPoint(sdk_blob=b"\xfb\xff blob")
        ),
    )
    await service.append_event(session, event)
    assert (await read(service, "s")).events == [event]


async def test_a_complete_event_comes_back(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s", state={"k": 1})
    event = Event(
        invocation_id="invocation",
        author="user",
        content=types.Content(role="user", parts=[types.Part(text="text")]),
        turn_complete=True,
        partial=False,
        actions=EventActions(
            artifact_delta={"file": 0},
            transfer_to_agent="agent",
            escalate=True,
            state_delta={"k": 2},
        ),
        long_running_tool_ids={"tool1", "tool2"},
        error_code="code",
        error_message="message",
        interrupted=True,
        branch="root.sub",
        custom_metadata={"custom": {"deep": [None, 1.5]}},
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1, candidates_token_count=1, total_token_count=2
        ),
        citation_metadata=types.CitationMetadata(),
        grounding_metadata=types.GroundingMetadata(web_search_queries=["query1"]),
        input_transcription=types.Transcription(text="in", finished=True),
        output_transcription=types.Transcription(text="out", finished=False),
        output={"node": 1},
    )
    await service.append_event(session, event)
    assert await get(service, "s") == session


async def test_tool_confirmations_come_back(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    confirmation = ToolConfirmation(hint="sure?", confirmed=False, payload={"a": [1]})
    event = Event(
        author="agent", actions=EventActions(requested_tool_confirmations={"call": confirmation})
    )
    await service.append_event(session, event)
    found = (await read(service, "s")).events[0]
    assert found.actions.requested_tool_confirmations == {"call": confirmation}


async def test_the_update_time_is_the_event_s(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    for when in (time.time() + 1, 1767225603.000001, 12345.0):
        await service.append_event(session, says("x", timestamp=when))
        assert session.last_update_time == when
        assert (await read(service, "s")).last_update_time == when


async def test_a_config_selects_events(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s", state={"k": 1})
    for number in range(1, 6):
        await service.append_event(session, says(str(number), timestamp=float(number)))

    async def times(**config: Any) -> list[float]:
        found = await read(service, "s", **config)
        assert found.state == {"k": 1}
        return [event.timestamp for event in found.events]

    assert await times() == [1, 2, 3, 4, 5]
    assert await times(num_recent_events=3) == [3, 4, 5]
    assert await times(num_recent_events=0) == []
    assert await times(num_recent_events=9) == [1, 2, 3, 4, 5]
    assert await times(after_timestamp=4.0) == [4, 5]
    assert await times(after_timestamp=5.5) == []
    assert await times(after_timestamp=0.0) == [1, 2, 3, 4, 5]
    assert await times(after_timestamp=2.0, num_recent_events=2) == [4, 5]
    assert await times(after_timestamp=5.0, num_recent_events=4) == [5]


async def test_partial_events_are_not_stored(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    event = says("part", partial=True)
    assert await service.append_event(session, event) is event
    assert session.events == []
    assert (await read(service, "s")).events == []


async def test_user_state_can_be_read_without_a_session(service: QuipuSessionService) -> None:
    async def state(user: str = "u", app: str = APP) -> dict[str, Any]:
        return await service.get_user_state(app_name=app, user_id=user)

    assert await state() == {}
    session = await create(service, session_id="s", state={"user:first": 1, "own": 2, "app:a": 3})
    assert await state() == {"first": 1}
    await service.append_event(session, delta({"user:lang": "de", "user:first": None}))
    await service.append_event(session, delta({"user:lang": "fr"}))
    assert await state() == {"first": None, "lang": "fr"}
    assert await state("other") == {}
    assert await state(app="other") == {}
    await service.delete_session(app_name=APP, user_id="u", session_id="s")
    assert await state() == {"first": None, "lang": "fr"}


@pytest.fixture
def berlin() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("berlin")
async def test_a_repeated_hour_keeps_its_epoch(service: QuipuSessionService) -> None:
    session = await create(service, session_id="s")
    twice = [1792884600.25, 1792888200.25]  # 02:30 in summer and an hour later, 02:30 in winter
    for when in twice:
        await service.append_event(session, says("x", timestamp=when))
    found = await read(service, "s")
    assert [event.timestamp for event in found.events] == twice
    assert found.last_update_time == twice[-1]
    later = await read(service, "s", after_timestamp=twice[1])
    assert [event.timestamp for event in later.events] == twice[1:]
