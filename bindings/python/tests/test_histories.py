"""The histories for LangChain, LlamaIndex and the Microsoft Agent Framework, with the frameworks'
own classes and against their own stores."""

from __future__ import annotations

import asyncio
import pathlib
import pickle
import random
from typing import Any

import agent_framework as af
import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    ChatMessage as RoleMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore

import quipu
from quipu._items import DEAD_MIN
from quipu._rows import BATCH_MAX
from quipu.agent_framework import QuipuHistoryProvider
from quipu.langchain import QuipuChatMessageHistory
from quipu.llama_index import QuipuChatStore

CALL: Any = {"name": "f", "args": {"a": [1]}, "id": "c", "type": "tool_call"}
SAID: list[Any] = [
    SystemMessage("be brief"),
    HumanMessage([{"type": "text", "text": "where is the lighthouse?"}], name="me", id="1"),
    AIMessage("", tool_calls=[CALL], response_metadata={"model": "m"}),
    ToolMessage("there", tool_call_id="c", artifact={"x": 1}),
    AIMessage("half \ud83d and \u0000"),
]


def test_a_history_of_langchain_is_kept(path: pathlib.Path) -> None:
    with quipu.Store(path) as store:
        history = QuipuChatMessageHistory("talk", store)
        assert history.messages == []
        history.add_messages([])
        history.add_messages(SAID[:2])
        for message in SAID[2:]:
            history.add_message(message)
        assert QuipuChatMessageHistory("talk", store).messages == SAID
        assert QuipuChatMessageHistory("other", store).messages == []
        kept = store.get("langchain:talk").messages
        assert kept[2].tool_calls == [quipu.ToolCall("f", "c", '{"a": [1]}')]
        assert kept[3].role == "tool" and kept[3].tool_calls[0].output == "there"
        assert [hit.session_key for hit in store.search("lighthouse").hits] == ["langchain:talk"]
        history.clear()
        assert history.messages == [] and store.list().sessions == []


async def test_a_history_of_langchain_is_asynchronous(path: pathlib.Path) -> None:
    history = QuipuChatMessageHistory("talk", path)
    await asyncio.gather(*(history.aadd_messages([HumanMessage(str(n))] * 2) for n in range(20)))
    words = [one.content for one in await history.aget_messages()]
    assert len(words) == 40 and all(words[at] == words[at + 1] for at in range(0, 40, 2))
    old = InMemoryChatMessageHistory()
    old.add_user_message("from before")
    assert history.import_from(old) == 1
    assert (await history.aget_messages())[-1] == old.messages[0]
    await history.aclear()
    assert await history.aget_messages() == []
    history.close()


def test_a_chat_store_of_llama_index_does_what_theirs_does(path: pathlib.Path) -> None:
    """The same calls on both, in any order: the same answers."""
    ours, theirs = QuipuChatStore(path), SimpleChatStore()
    draw = random.Random(5)
    for step in range(150):
        key = draw.choice(["a", "b/c"])
        message = ChatMessage(role=draw.choice(["user", "assistant"]), content=f"word {step}")
        count = len(theirs.get_messages(key))
        way = draw.randrange(6)
        if way == 0 and count:
            kept = theirs.get_messages(key)[: draw.randrange(count)]
            for one in (ours, theirs):
                one.set_messages(key, [*kept, message])
        elif way == 1:
            at = draw.randrange(count + 2)
            assert ours.delete_message(key, at) == theirs.delete_message(key, at)
        elif way == 2 and count:
            assert ours.delete_last_message(key) == theirs.delete_last_message(key)
        elif way == 3 and step % 10 == 0:
            assert (ours.delete_messages(key) or []) == (theirs.delete_messages(key) or [])
        else:
            for one in (ours, theirs):
                one.add_message(key, message)
        for name in ("a", "b/c"):
            assert ours.get_messages(name) == theirs.get_messages(name)
    assert set(ours.get_keys()) >= {key for key in theirs.get_keys() if theirs.get_messages(key)}
    assert ours.delete_last_message("none") is None and ours.delete_messages("none") is None
    ours.close()


def test_a_list_that_is_set_again_and_again_keeps_few_rows(path: pathlib.Path) -> None:
    """A window of the newest messages, which shares no beginning with the one before."""
    with quipu.Store(path) as store:
        ours, theirs = QuipuChatStore(store), SimpleChatStore()
        for turn in range(120):
            window = [
                ChatMessage(role=("user", "assistant")[n % 2], content=f"word {n}")
                for n in range(turn, turn + 20)
            ]
            for one in (ours, theirs):
                one.set_messages("talk", window)
            assert ours.get_messages("talk") == theirs.get_messages("talk")
            rows = store.get("llama_index:talk").messages
            assert len(rows) <= 20 + 2 * DEAD_MIN
        ours.set_messages("talk", [])
        assert ours.get_messages("talk") == []


def test_a_list_that_begins_with_an_answer_without_a_call_keeps_few_rows(
    path: pathlib.Path,
) -> None:
    with quipu.Store(path) as store:
        ours = QuipuChatStore(store)
        said = [ChatMessage(role="tool", content=f"{n}") for n in range(200)]
        for turn in range(100):
            ours.set_messages("talk", said[turn : turn + 20])
            assert ours.get_messages("talk") == said[turn : turn + 20]
        while ours.delete_message("talk", 0):
            pass
        ours.add_message("talk", said[0])
        assert ours.get_messages("talk") == said[:1]
        assert len(store.get("llama_index:talk").messages) <= 20 + 4 * DEAD_MIN


def test_a_window_that_begins_with_an_answer_keeps_few_rows(path: pathlib.Path) -> None:
    """Each message but the newest is an answer of a tool: no border parts it from its call."""
    with quipu.Store(path) as store:
        ours = QuipuChatStore(store)
        said = [
            ChatMessage(role="tool", content=f"{n}", additional_kwargs={"tool_call_id": f"c{n}"})
            for n in range(200)
        ]
        for turn in range(100):
            ours.set_messages("talk", said[turn : turn + 20])
            assert ours.get_messages("talk") == said[turn : turn + 20]
        assert len(store.get("llama_index:talk").messages) <= 20 + 4 * DEAD_MIN


def test_lists_of_any_length_are_set_and_added(path: pathlib.Path) -> None:
    """A call of the store takes 10,000 messages; what is more is written by the next."""
    with quipu.Store(path) as store:
        ours, simple = QuipuChatStore(store), SimpleChatStore()
        for count in (BATCH_MAX, BATCH_MAX + 1):
            said = [ChatMessage(f"{count} {n}") for n in range(count)]
            ours.set_messages("set", said)
            assert ours.get_messages("set") == said
            simple.set_messages("imported", said)
            assert ours.import_from(simple) == 1 and ours.get_messages("imported") == said
            talk = QuipuChatMessageHistory(f"talk {count}", store)
            talk.add_messages([HumanMessage(str(n)) for n in range(count)])
            assert [one.content for one in talk.messages] == [str(n) for n in range(count)]


def test_what_one_call_cannot_take_away_names_the_way_out(path: pathlib.Path) -> None:
    with quipu.Store(path) as store:
        ours = QuipuChatStore(store)
        said = [ChatMessage(str(n)) for n in range(BATCH_MAX // 2 + 1)]
        ours.set_messages("talk", said[:-1])
        assert ours.delete_message("talk", 0) == said[0]
        ours.set_messages("talk", said)
        with pytest.raises(quipu.Limit, match=r"at most 10000 .* use set_messages\(\)"):
            ours.delete_message("talk", 0)
        assert ours.get_messages("talk") == said
        ours.set_messages("talk", said[1:])
        assert ours.get_messages("talk") == said[1:]


async def test_a_memory_of_llama_index_uses_it(path: pathlib.Path) -> None:
    with quipu.Store(path) as store:
        chats = QuipuChatStore(store)
        said = [
            ChatMessage(
                role="user", blocks=[TextBlock(text="look"), ImageBlock(url="http://x/y.png")]
            ),
            ChatMessage(role="tool", content="found", additional_kwargs={"tool_call_id": "c"}),
        ]
        await chats.aset_messages("talk", said)
        await chats.async_add_message("talk", ChatMessage("more"))
        assert await QuipuChatStore(store).aget_messages("talk") == [*said, ChatMessage("more")]
        assert store.get("llama_index:talk").messages[1].tool_calls[0].output == "found"
        simple = SimpleChatStore()
        simple.set_messages("old", [ChatMessage("from before")])
        assert chats.import_from(simple) == 1
        assert sorted(chats.get_keys()) == ["old", "talk"]
        memory = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key="talk")
        memory.put(ChatMessage("and more"))
        assert [one.content for one in memory.get()][-1] == "and more"


class Echo(af.BaseChatClient):
    """A model's place: says how many messages it was given."""

    def _inner_get_response(self, *, messages: Any, stream: bool = False, **kwargs: Any) -> Any:
        async def answer() -> af.ChatResponse[Any]:
            words = f"heard {len(messages)}"
            return af.ChatResponse(messages=[af.Message("assistant", [words])])

        return answer()


async def test_an_agent_of_the_agent_framework_remembers(path: pathlib.Path) -> None:
    for turn in range(3):
        provider = QuipuHistoryProvider(path)
        agent = af.Agent(client=Echo(), context_providers=[provider])
        session = agent.create_session(session_id="talk")
        answer = await agent.run(f"turn {turn}", session=session)
        assert answer.text == f"heard {2 * turn + 1}"
        await provider.close()


async def test_excluded_messages_are_left_out_when_asked_for(path: pathlib.Path) -> None:
    """As FileHistoryProvider does; `_excluded` is compaction's mark."""
    said = [af.Message("user", ["one"]), af.Message("user", ["two"])]
    said[0].additional_properties["_excluded"] = True
    for skips in (False, True):
        provider = QuipuHistoryProvider(path, skip_excluded=skips)
        if not skips:
            await provider.save_messages("talk", said)
        found = await provider.get_messages("talk")
        assert [one.text for one in found] == ["one", "two"][skips:]
        await provider.close()


async def test_providers_with_sources_of_their_own_have_histories_of_their_own(
    path: pathlib.Path,
) -> None:
    async with quipu.AsyncStore(path) as store:
        memory, audit = QuipuHistoryProvider(store), QuipuHistoryProvider(store, source_id="a:b")
        agent = af.Agent(client=Echo(), context_providers=[memory, audit])
        await agent.run("hello", session=agent.create_session(session_id="talk"))
        for provider in (memory, audit):
            found = await provider.get_messages("talk")
            assert [one.role for one in found] == ["user", "assistant"]
        other = QuipuHistoryProvider(store, source_id="a")
        assert await other.get_messages("b:talk") == []


async def test_the_agent_framework_saves_any_number_of_messages(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path) as store:
        provider = QuipuHistoryProvider(store)
        for count in (BATCH_MAX, BATCH_MAX + 1):
            said = [af.Message("user", [str(n)]) for n in range(count)]
            await provider.save_messages(str(count), said)
            found = await provider.get_messages(str(count))
            assert [one.text for one in found] == [str(n) for n in range(count)]


async def test_messages_of_the_agent_framework_come_back(path: pathlib.Path) -> None:
    provider = QuipuHistoryProvider(path)
    call = af.Content.from_function_call("c", "f", arguments='{"a": 1}')
    result = af.Content.from_function_result("c", result="done")
    said = [
        af.Message("user", ["hello"], author_name="me"),
        af.Message("assistant", [call]),
        af.Message("tool", [result]),
    ]
    await provider.save_messages("talk", said)
    await provider.save_messages("talk", [])
    await provider.save_messages(None, said[:1])
    found = await provider.get_messages("talk")
    assert [one.to_dict() for one in found] == [one.to_dict() for one in said]
    assert len(await provider.get_messages(None)) == 1
    kept = (await provider.store.get("agent_framework:talk")).messages
    assert kept[1].tool_calls == [quipu.ToolCall("f", "c", '{"a": 1}')]
    assert kept[2].tool_calls[0].output == "done"
    await provider.clear("talk")
    assert await provider.get_messages("talk") == []
    await provider.close()


@pytest.mark.parametrize("make", [QuipuChatStore, QuipuHistoryProvider])
def test_a_store_of_the_user_s_stays_open(path: pathlib.Path, make: Any) -> None:
    with quipu.Store(path) as store:
        if make is QuipuChatStore:
            make(store).close()
        store.append("a", "b", create=True)


LATER: list[Any] = [  # what of a kind that is known must go by the constructor again
    HumanMessage("a"), HumanMessage("b", id="x", name="n"), HumanMessage(["c"]), HumanMessage(""),
    AIMessage("d"), AIMessage("e", additional_kwargs={"k": [1]}), AIMessage("f", tool_calls=[CALL]),
    ToolMessage("g", tool_call_id="c"), ToolMessage("h", tool_call_id="d", status="error"),
    HumanMessage("i", more=1), RoleMessage(content="j", role="me"), SystemMessage("k"),
]  # fmt: skip


def test_messages_of_langchain_are_what_the_constructor_makes(path: pathlib.Path) -> None:
    history = QuipuChatMessageHistory("talk", path)
    said = LATER * 3
    random.Random(7).shuffle(said)
    history.add_messages(said)
    for _ in range(2):  # also when all kinds are known from the beginning
        found = history.messages
        made = messages_from_dict([message_to_dict(one) for one in said])
        for one, other in zip(found, made, strict=True):
            assert type(one) is type(other) and list(one.__dict__) == list(other.__dict__)
            assert pickle.dumps(one.__getstate__()) and one.__getstate__() == other.__getstate__()
    plain = [one for one in found if type(one) is HumanMessage]
    plain[0].additional_kwargs["only"] = "here"
    plain[0].name = "only here"
    assert sum("only" in one.additional_kwargs for one in plain) == 1
    assert sum(one.name == "only here" for one in plain) == 1
    history.close()


def _contents() -> list[Any]:
    make = af.Content
    return [
        make.from_text("a"), make.from_text(""),
        make.from_text("b", additional_properties={"x": 1}),
        make.from_function_call("c", "f", arguments='{"a": 1}'),
        make.from_function_call("c", "f", arguments={"a": 1}),
        make.from_function_result("c", result="done"), make.from_error(message="went wrong"),
        make.from_uri("https://example.com/x.png", media_type="image/png"),
        make.from_text_reasoning(text="so"),
    ]  # fmt: skip


async def test_messages_of_the_agent_framework_are_what_the_constructor_makes(
    path: pathlib.Path,
) -> None:
    provider = QuipuHistoryProvider(path)
    draw = random.Random(3)
    said = [
        af.Message(
            draw.choice(["user", "assistant", "tool"]),
            draw.sample(_contents(), draw.randrange(4)),
            author_name=draw.choice([None, "me"]),
            additional_properties=draw.choice([None, {"x": {"y": 1}}]),
        )
        for _ in range(200)
    ]
    await provider.save_messages("talk", said)
    for _ in range(2):
        found = await provider.get_messages("talk")
        for one, before in zip(found, said, strict=True):
            made = af.Message.from_dict(before.to_dict())
            assert {**vars(one), "contents": 0} == {**vars(made), "contents": 0}
            assert [vars(part) for part in one.contents] == [vars(part) for part in made.contents]
    parts = [part for one in found for part in one.contents if part.type == "text"]
    parts[0].additional_properties["only"] = "here"
    assert sum("only" in part.additional_properties for part in parts) == 1
    found[0].additional_properties["only"] = "here"
    assert sum("only" in one.additional_properties for one in found) == 1
    await provider.close()
