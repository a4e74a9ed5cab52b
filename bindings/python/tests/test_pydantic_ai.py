"""The conversation store for Pydantic AI: its own agents over it, and the same calls on its store
in memory."""

from __future__ import annotations

import asyncio
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
    ConversationEntry,
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
from quipu import _call, pydantic_ai
from quipu._native import lib
from quipu._rows import BATCH_MAX
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


async def test_what_an_interrupted_delete_left_blocks_nobody(path: pathlib.Path) -> None:
    """A delete is cancelled at each of its steps; another process goes on with the id."""
    async with quipu.AsyncStore(path, durability="relaxed") as one:
        async with quipu.AsyncStore(path, durability="relaxed") as two:
            ours, theirs = QuipuConversationStore(one), QuipuConversationStore(two)
            for step in range(40):
                await ours.save(Conversation(conversation_id="c", messages=turn(f"old {step}")))
                deleting = asyncio.ensure_future(ours.delete("c"))
                for _ in range(step % 20):
                    await asyncio.sleep(0)
                deleting.cancel()
                await asyncio.gather(deleting, return_exceptions=True)
                left = await theirs.load("c")
                assert left is None or left.messages == turn(f"old {step}")
                await theirs.delete("c")
                await theirs.save(Conversation(conversation_id="c", messages=turn("new")))
                found = await ours.load("c")
                assert found is not None and found.messages == turn("new")
                await ours.delete("c")
            # as versions before left it: a session without a record, which does not expire
            await ours.save(Conversation(conversation_id="c", messages=turn("x")))
            await one.update("pydantic_ai:c", metadata={})
            assert await theirs.load("c") is None
            await theirs.save(Conversation(conversation_id="c", messages=turn("y")))
            found = await ours.load("c")
            assert found is not None and found.messages == turn("y")


async def test_a_session_that_somebody_else_made_is_kept(store: QuipuConversationStore) -> None:
    await store.store.append("pydantic_ai:c", "mine", create=True)
    assert await store.load("c") is None
    with pytest.raises(ConversationConflict):
        await store.save(Conversation(conversation_id="c", messages=turn("x")))
    assert (await store.store.get("pydantic_ai:c")).messages[0].content == "mine"


async def test_a_delete_keeps_what_was_saved_meanwhile(path: pathlib.Path) -> None:
    """A conversation that was deleted and saved anew has another revision of its own, and the same
    one in the store."""
    async with quipu.AsyncStore(path, durability="relaxed") as one:
        async with quipu.AsyncStore(path, durability="relaxed") as two:
            ours, theirs = QuipuConversationStore(one), QuipuConversationStore(two)
            await ours.save(Conversation(conversation_id="c", messages=turn("x")))
            stored = await ours._look("c")
            assert stored is not None
            await theirs.delete("c")
            await theirs.save(Conversation(conversation_id="c", messages=turn("y")))
            with pytest.raises(quipu.Conflict):
                await ours._end("pydantic_ai:c", stored.at)
            found = await ours.load("c")
            assert found is not None and found.messages == turn("y")


async def test_deletes_and_saves_that_race_lose_no_save(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path, durability="relaxed") as one:
        async with quipu.AsyncStore(path, durability="relaxed") as two:
            ours, theirs = QuipuConversationStore(one), QuipuConversationStore(two)
            for number in range(20):
                await ours.save(Conversation(conversation_id="c", messages=turn("x")))

                async def save() -> None:
                    while True:
                        try:
                            new = Conversation(conversation_id="c", messages=turn("y"))
                            await theirs.save(new)
                            return
                        except ConversationConflict:
                            await asyncio.sleep(0)

                record = await ours.read_record("c")
                assert record is not None
                deleting = ours.delete_record("c", expected_revision=record.revision)
                await asyncio.gather(deleting, save())
                found = await ours.load("c")
                assert found is not None and found.messages == turn("y"), number
                await ours.delete("c")


async def test_what_is_read_does_not_grow_with_the_other_conversations(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted are the histories that are read, by a process that has seen none of them."""
    reads = 0
    start = _call.start_as

    def counted(read: Any, op: int, *rest: Any) -> Any:
        nonlocal reads
        reads += op == lib.QPY_ITEMS_GET
        return start(read, op, *rest)

    monkeypatch.setattr(_call, "start_as", counted)
    async with quipu.AsyncStore(path, durability="relaxed") as opened:
        first = QuipuConversationStore(opened)
        for number in range(30):
            talk = Conversation(conversation_id=f"c{number}", messages=[*turn("x"), *turn("y")])
            await first.save(talk)

        async def count(call: Any) -> int:
            nonlocal reads
            reads = 0
            await call
            return reads

        store = QuipuConversationStore(opened)
        assert await count(store.load("c3")) == 1
        assert await count(store.fork("c7", at=2, new_conversation_id="f")) <= 2
        entries = await store.load_entries("c3") or []
        assert await count(store.read_entry(entries[0].id)) == 1
        loaded = await store.load("c3")
        assert loaded is not None
        loaded.usage.requests += 1
        assert await count(store.save(loaded)) == 0
        fresh = QuipuConversationStore(opened)
        assert await count(fresh.read_history(entries[-1].id)) == 1


async def test_a_store_remembers_a_bounded_number_of_entries(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pydantic_ai, "_HOMES_MAX", 10)
    async with quipu.AsyncStore(path, durability="relaxed") as opened:
        store = QuipuConversationStore(opened)
        for number in range(11):
            said = turn(str(number))
            await store.save(Conversation(conversation_id=f"c{number}", messages=said))
            assert len(store._homes) <= 10
        for number in range(11):
            found = await store.load(f"c{number}", limit=1)
            assert found is not None and found.messages == turn(str(number))[-1:]


async def test_a_list_with_a_limit_has_those_that_were_saved_last(
    store: QuipuConversationStore,
) -> None:
    for number in range(200):
        talk = Conversation(conversation_id=f"c{number:03}", messages=turn("x"))
        await store.save(talk, scope="few" if number < 3 else "many")
    asked: list[Any] = [("few", 2), ("many", 5), (None, 100), (None, 0), (None, None)]
    for scope, limit in asked:
        every = [one for one in await store.read_records() if scope in (None, one.scope)]
        found = await store.list_conversations(scope=scope, limit=limit)
        assert [one.conversation_id for one in found] == [
            one.conversation_id for one in every[:limit]
        ]


async def test_a_save_takes_as_many_messages_as_a_call(store: QuipuConversationStore) -> None:
    said = turn("x")[:1] * (BATCH_MAX + 1)
    await store.save(Conversation(conversation_id="c", messages=said[:-1]))
    talk = Conversation(conversation_id="d", messages=said)
    with pytest.raises(quipu.Limit, match="at most 10000 .* with the first ones, then with all"):
        await store.save(talk)
    talk.messages = said[:5]
    await store.save(talk)
    talk.messages = said
    assert len(await store.save(talk)) == BATCH_MAX - 4
    loaded = await store.load("d")
    assert loaded is not None and loaded.messages == said


async def test_entries_may_follow_those_of_another_conversation(
    store: QuipuConversationStore,
) -> None:
    """No method of the class writes such a record; write_record() is open to callers."""
    await store.save(Conversation(conversation_id="a", messages=turn("x")))
    record = await store.read_record("a")
    assert record is not None and record.head_id is not None
    entry = ConversationEntry(parent_id=record.head_id, message=turn("y")[0])
    other = ConversationRecord(conversation_id="b", head_id=entry.id)
    await store.write_record(other, new_entries=[entry], expected_revision=None)
    for one in (store, QuipuConversationStore(store.store)):
        found = await one.load("b")
        assert found is not None and found.messages == [*turn("x"), turn("y")[0]]
        window = await one.load("b", limit=2)
        assert window is not None and window.messages == found.messages[-2:]
