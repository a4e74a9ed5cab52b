"""The memory service: what ADK's in-memory one promises, over the store's search."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from quipu.adk import QuipuMemoryService, QuipuSessionService
from test_adk_contract import says


@pytest.fixture
async def memory(path: pathlib.Path) -> AsyncIterator[QuipuMemoryService]:
    opened = QuipuMemoryService(path)
    yield opened
    await opened.close()


def foreign(*events: Event, user: str = "u", name: str = "s") -> Session:
    """A session of another service."""
    return Session(id=name, app_name="app", user_id=user, events=list(events))


async def texts(memory: QuipuMemoryService, query: str, user: str = "u", app: str = "app") -> Any:
    found = await memory.search_memory(app_name=app, user_id=user, query=query)
    return [entry.content.parts[0].text for entry in found.memories if entry.content.parts]


async def test_added_sessions_are_found_by_any_word(memory: QuipuMemoryService) -> None:
    await memory.add_session_to_memory(
        foreign(says("The ADK is a great toolkit"), says("Bananas are yellow"))
    )
    assert await texts(memory, "which toolkit?") == ["The ADK is a great toolkit"]
    assert await texts(memory, "yellow TOOLKIT") != []
    assert await texts(memory, "nothing here fits") == []
    assert await texts(memory, "") == []
    assert await texts(memory, '"*?!') == []


def embed(given: list[str]) -> list[list[float]]:
    """Two words that mean the same have one place."""
    words = (("puppy", "hound"), ("railway", "locomotive"))
    return [[float(any(word in text for word in some)) for some in words] for text in given]


async def test_with_an_embedder_other_words_are_found(path: pathlib.Path) -> None:
    async with QuipuMemoryService(path, embedder=embed, embed_model="m") as memory:
        await memory.add_session_to_memory(
            foreign(says("my puppy chewed the sofa"), says("the railway is slow"))
        )
        await memory.add_session_to_memory(foreign(says("a locomotive of v"), user="v"))
        assert await texts(memory, "locomotives") == []
        await memory.store.memory_run(embedder=embed, embed_model="m", embed_only=True)
        assert (await texts(memory, "locomotives"))[0] == "the railway is slow"
        assert "a locomotive of v" not in await texts(memory, "locomotives")
        assert (await texts(memory, "the\0locomotive\ud800"))[0] == "the railway is slow"
    async with QuipuMemoryService(path) as plain:
        assert await texts(plain, "locomotives") == []
    with pytest.raises(ValueError, match="belong together"):
        QuipuMemoryService(path, embedder=embed)


@pytest.mark.parametrize(
    "query",
    ["", "a\0b", "\ud800", "a\udfff toolkit", "toolkit NEAR(", '"', "^x:*", "\u3000", "x" * 2**20],
    ids=lambda query: repr(query[:20]),
)
async def test_any_text_is_a_query(memory: QuipuMemoryService, query: str) -> None:
    await memory.add_session_to_memory(foreign(says("The ADK is a great toolkit")))
    found = await texts(memory, query)
    assert found == (["The ADK is a great toolkit"] if "toolkit" in query else [])


async def test_a_question_finds_its_answer(memory: QuipuMemoryService) -> None:
    await memory.add_session_to_memory(
        foreign(
            says("The weather was fine and I walked home"),
            says("I redeemed a $5 coupon for coffee creamer at Target"),
            says("What did you buy?"),
        )
    )
    found = await texts(memory, "Where did I redeem the coupons for creamer?")
    assert found == ["I redeemed a $5 coupon for coffee creamer at Target"]
    assert len(await texts(memory, "coupon " * 20000)) == 1  # the beginning of it is asked


async def test_what_another_process_wrote_a_moment_ago_is_found(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as writer:
        memory = QuipuMemoryService(path)
        session = await writer.create_session(app_name="app", user_id="u", session_id="s")
        for number in range(3):
            await writer.append_event(session, says(f"walnut number {number}"))
            assert len(await texts(memory, "how many walnuts?")) == number + 1
        await memory.close()


async def test_more_words_come_first(memory: QuipuMemoryService) -> None:
    await memory.add_session_to_memory(
        foreign(says("red car"), says("red fast car of mine"), says("a blue bike"))
    )
    assert (await texts(memory, "fast red car"))[0] == "red fast car of mine"


async def test_users_and_apps_are_apart(memory: QuipuMemoryService) -> None:
    await memory.add_session_to_memory(foreign(says("secret of one"), user="one"))
    assert await texts(memory, "secret", "two") == []
    assert await texts(memory, "secret", "one", "other") == []
    assert await texts(memory, "secret", "one") == ["secret of one"]


async def test_no_app_has_the_name_of_anothers_memory(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as sessions:
        with pytest.raises(ValueError, match="the memory's own"):
            await sessions.create_session(app_name="quipu-memory:app", user_id="u")
        await sessions.create_session(app_name="quipu-memory", user_id="u")
    memory = QuipuMemoryService(path)
    await memory.add_session_to_memory(foreign(says("The ADK is a great toolkit")))
    assert await texts(memory, "toolkit") == ["The ADK is a great toolkit"]
    await memory.close()


async def test_a_session_may_be_added_again(memory: QuipuMemoryService) -> None:
    first, second = says("first apple"), says("second apple")
    await memory.add_session_to_memory(foreign(first))
    await memory.add_session_to_memory(foreign(first, second))
    assert sorted(await texts(memory, "apple")) == ["first apple", "second apple"]


async def test_events_are_added_once_each(memory: QuipuMemoryService) -> None:
    events = [says("pear one"), says("pear two"), Event(author="a")]
    for _ in range(2):
        await memory.add_events_to_memory(app_name="app", user_id="u", events=events)
    assert sorted(await texts(memory, "pear")) == ["pear one", "pear two"]


async def test_adders_that_race_lose_nothing(path: pathlib.Path) -> None:
    services = [QuipuMemoryService(path) for _ in range(4)]
    await asyncio.gather(
        *(
            memory.add_events_to_memory(
                app_name="app", user_id="u", session_id="s", events=[says(f"plum {n} {k}")]
            )
            for k, memory in enumerate(services)
            for n in range(2)
        )
    )
    assert len(await texts(services[0], "plum")) == 8
    for memory in services:
        await memory.close()


async def test_at_most_ten_come_back(memory: QuipuMemoryService) -> None:
    await memory.add_session_to_memory(foreign(*(says(f"grape {n}") for n in range(25))))
    assert len(await texts(memory, "grape")) == 10


async def test_sessions_of_the_same_store_need_no_adding(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as service:
        memory = QuipuMemoryService(service.store)
        session = await service.create_session(app_name="app", user_id="u", session_id="s")
        event = says("cherries in june")
        await service.append_event(session, event)
        await memory.add_session_to_memory(session)
        found = await memory.search_memory(app_name="app", user_id="u", query="cherries")
        (entry,) = found.memories
        assert (entry.id, entry.author) == (event.id, "user")
        assert entry.content == event.content
        assert entry.timestamp and entry.custom_metadata == {"session_id": "s"}
        listed = await service.list_sessions(app_name="app", user_id="u")
        assert [session.id for session in listed.sessions] == ["s"]
        assert len((await service.store.list()).sessions) == 1  # nothing was copied


async def test_sessions_of_other_services_are_copied(memory: QuipuMemoryService) -> None:
    other = InMemorySessionService()
    session = await other.create_session(app_name="app", user_id="u")
    await other.append_event(session, says("figs and dates"))
    await memory.add_session_to_memory(session)
    assert await texts(memory, "figs") == ["figs and dates"]
    assert session.events[0].content is not None


async def test_scripts_without_spaces_are_found(memory: QuipuMemoryService) -> None:
    await memory.add_session_to_memory(foreign(says("私はPythonを使う"), says("Größe und Maß")))
    assert await texts(memory, "Python") == ["私はPythonを使う"]
    assert await texts(memory, "使う") == ["私はPythonを使う"]
    assert await texts(memory, "GRÖSSE größe") == ["Größe und Maß"]


async def test_the_content_is_whole(memory: QuipuMemoryService) -> None:
    parts = [
        types.Part(text="melon"),
        types.Part(inline_data=types.Blob(data=b"\xff", mime_type="x")),
    ]
    await memory.add_session_to_memory(
        foreign(Event(author="a", content=types.Content(role="model", parts=parts)))
    )
    found = await memory.search_memory(app_name="app", user_id="u", query="melon")
    assert found.memories[0].content.parts == parts


async def test_every_method_of_adk_s_memory_is_there() -> None:
    for name in vars(BaseMemoryService):
        if not name.startswith("_"):
            assert name in vars(QuipuMemoryService), name


async def test_memories_are_added_as_they_are(memory: QuipuMemoryService) -> None:
    content = types.Content(role="user", parts=[types.Part(text="likes quinces")])
    full = MemoryEntry(
        id="m1",
        content=content,
        author="ada",
        timestamp="some day in May",
        custom_metadata={"weight": 2, "tags": ["fruit"]},
    )
    bare = MemoryEntry(content=types.Content(parts=[types.Part(text="hates quinces")]))
    for _ in range(2):
        await memory.add_memory(app_name="app", user_id="u", memories=[full])
    await memory.add_memory(app_name="app", user_id="u", memories=[bare])
    found = await memory.search_memory(app_name="app", user_id="u", query="likes quinces")
    assert found.memories[0] == full
    assert len(found.memories) == 2
    assert found.memories[1].id and found.memories[1].author is None
    assert found.memories[1].content == bare.content
    assert await texts(memory, "quinces", "other") == []


async def test_deleted_memories_do_not_come_back(memory: QuipuMemoryService) -> None:
    kept, gone = says("a medlar to keep"), says("a medlar to lose")
    session = foreign(kept, gone)
    await memory.add_session_to_memory(session)
    await memory.delete_memory(app_name="app", user_id="other", memory_id=gone.id)
    assert len(await texts(memory, "medlar")) == 2
    await memory.delete_memory(app_name="app", user_id="u", memory_id=gone.id)
    assert await texts(memory, "medlar") == ["a medlar to keep"]
    await memory.add_session_to_memory(session)
    await memory.add_events_to_memory(
        app_name="app", user_id="u", events=[gone], session_id="elsewhere"
    )
    entry = MemoryEntry(id=gone.id, content=gone.content or types.Content())
    await memory.add_memory(app_name="app", user_id="u", memories=[entry])
    assert await texts(memory, "medlar") == ["a medlar to keep"]
    for nothing in (None, "", "never seen", gone.id):
        await memory.delete_memory(app_name="app", user_id="u", memory_id=nothing)
    assert await texts(memory, "medlar") == ["a medlar to keep"]


async def test_a_deleted_memory_stays_in_its_conversation(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as service:
        memory = QuipuMemoryService(service.store)
        session = await service.create_session(app_name="app", user_id="u", session_id="s")
        event = says("sorrel soup")
        await service.append_event(session, event)
        await memory.delete_memory(app_name="app", user_id="u", memory_id=event.id)
        assert await texts(memory, "sorrel") == []
        stored = await service.get_session(app_name="app", user_id="u", session_id="s")
        assert stored is not None and [kept.id for kept in stored.events] == [event.id]
        assert stored.state == {}
