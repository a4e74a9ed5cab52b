"""The conversation store for Pydantic AI: its own agents over it, and the same calls on its store
in memory."""

from __future__ import annotations

import datetime
import pathlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

import quipu
from quipu.pydantic_ai import QuipuConversationStore


@pytest.fixture
async def store(path: pathlib.Path) -> AsyncIterator[QuipuConversationStore]:
    async with quipu.AsyncStore(path, durability="relaxed") as opened:
        yield QuipuConversationStore(opened)


WHEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def turn(text: Any) -> list[Any]:
    return [
        ModelRequest(parts=[UserPromptPart(text, timestamp=WHEN)]),
        ModelResponse(parts=[TextPart(f"answer to {text!r}")], timestamp=WHEN),
    ]


async def test_an_agent_goes_on_after_a_restart(path: pathlib.Path) -> None:
    agent = Agent(TestModel())

    @agent.tool_plain
    def lighthouse(name: str) -> str:
        return f"{name} is by the sea"

    for number in range(3):
        async with QuipuConversationStore(path) as store:
            talk = await store.load("talk") or Conversation(conversation_id="talk")
            before = len(talk.messages)
            assert before == (0, 4, 6)[number]
            result = await agent.run(f"prompt {number}", conversation=talk)
            stored = await store.save(result, scope="me")  # the model calls its tool once
            assert len(stored) == (2 if number else 4)
    with quipu.Store(path) as opened:
        kept = opened.get("pydantic_ai:talk").messages
        assert [one.role for one in kept][:4] == ["user", "assistant", "tool", "assistant"]
        call, answer = kept[1].tool_calls[0], kept[2].tool_calls[0]
        assert (call.name, call.id) == ("lighthouse", answer.id)
        assert answer.output == "a is by the sea"
        assert len(opened.window("pydantic_ai:talk", token_budget=1).messages) == 2
        assert opened.search("prompt 1").hits[0].session_key == "pydantic_ai:talk"


async def test_messages_come_back_equal(store: QuipuConversationStore) -> None:
    parts: list[Any] = ["look", BinaryContent(b"\x00\xff", media_type="image/png")]
    said = [*turn(parts), *turn("half \u00e9 \u0000")]
    said = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(said))
    await store.save(Conversation(conversation_id="c", messages=[*said]))
    loaded = await store.load("c")
    assert loaded is not None and loaded.messages == said
    window = await store.load("c", limit=2)
    assert window is not None and window.messages == said[-2:]
    assert await store.load("none") is None


async def test_it_does_what_the_store_in_memory_does(store: QuipuConversationStore) -> None:
    """The same calls on both, in any order: the same histories, branches, lists and errors."""
    draw = random.Random(11)
    both: list[Any] = [store, InMemoryConversationStore()]
    held: list[dict[str, Conversation]] = [{}, {}]

    async def each(call: Any) -> list[Any]:
        found: list[Any] = []
        for at in (0, 1):
            try:
                found.append(await call(both[at], held[at]))
            except (ConversationConflict, UserError) as error:
                found.append(type(error).__name__)
        return found

    for step in range(120):
        name, other = draw.choice("abc"), draw.choice("abcd")
        way, at, limit = draw.randrange(8), draw.randrange(6), draw.choice([None, 0, 1, 3])

        async def call(one: Any, held: dict[str, Conversation]) -> Any:
            if way == 0:
                found = await one.load(name, limit=limit)
                if found is not None:
                    held[name] = found
                return found and found.messages
            if way == 1:
                await one.delete(name)
                return None
            if way == 2:
                return (await one.fork(name, at=at, new_conversation_id=other)).messages
            if way == 3:
                revision = (await one.load(name) or Conversation()).revision
                held[name] = await one.branch(name, at=at, expected_revision=revision)
                return held[name].messages
            talk = held.get(name) or Conversation(conversation_id=name)
            if way == 4 and talk.messages:
                talk = Conversation(
                    conversation_id=name, messages=talk.messages[:at], revision=talk.revision
                )
            talk.messages = [*talk.messages, *turn(f"{name} {step}")]
            held[name] = talk
            return len(await one.save(talk, scope=draw_scope))

        draw_scope = draw.choice([None, None, "me"])
        ours, theirs = await each(call)
        assert ours == theirs, (step, way)
        for key in "abcd":
            ours, theirs = [await one.load_entries(key) for one in both]
            assert [e.message for e in ours or ()] == [e.message for e in theirs or ()]
            records = [await one.read_record(key) for one in both]
            left = [len(one.branches) if one else -1 for one in records]
            assert left[0] == left[1]
        listed = [await one.list_conversations() for one in both]
        assert sorted(one.conversation_id for one in listed[0]) == sorted(
            one.conversation_id for one in listed[1]
        )


async def test_a_fork_outlives_what_it_was_forked_from(store: QuipuConversationStore) -> None:
    await store.save(Conversation(conversation_id="a", messages=[*turn("x"), *turn("y")]))
    forked = await store.fork("a", at=2, new_conversation_id="b")
    entries = await store.load_entries("b")
    await store.delete("a")
    fresh = QuipuConversationStore(store.store)
    assert await fresh.load("a") is None
    loaded = await fresh.load("b")
    assert loaded is not None and loaded.messages == forked.messages == turn("x")
    assert entries is not None and await fresh.read_entry(entries[0].id) == entries[0]
    with pytest.raises(LookupError, match="is not in the store"):
        await fresh.read_entry("none")


async def test_a_save_of_an_old_copy_is_a_conflict(path: pathlib.Path) -> None:
    async with QuipuConversationStore(path) as one, QuipuConversationStore(path) as two:
        await one.save(Conversation(conversation_id="c", messages=turn("x")))
        mine, theirs = await one.load("c"), await two.load("c")
        assert mine is not None and theirs is not None
        theirs.messages += turn("theirs")
        await two.save(theirs)
        mine.messages += turn("mine")
        with pytest.raises(ConversationConflict):
            await one.save(mine)
        record = await one.read_record("c")
        assert record is not None
        lost = ConversationRecord(conversation_id="d", head_id="nowhere")
        with pytest.raises(ConversationConflict):
            await one.write_record(lost, expected_revision=None)
        await one.delete("c", scope="not mine")
        assert await one.load("c") is not None
