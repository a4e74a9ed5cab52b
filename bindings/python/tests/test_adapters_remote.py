"""The adapters on stores that are no file: behind `quipu serve`, and in PostgreSQL. What is
appended is read back, by another object as well, and what is deleted is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agent_framework as af
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.llms import ChatMessage
from pydantic_ai.conversation import Conversation

import quipu
from quipu.agent_framework import QuipuHistoryProvider
from quipu.agents import QuipuSession
from quipu.claude import QuipuSessionStore
from quipu.langchain import QuipuChatMessageHistory
from quipu.langgraph import QuipuSaver, QuipuStore
from quipu.llama_index import QuipuChatStore
from quipu.pydantic_ai import QuipuConversationStore
from test_docs import langgraph_names
from test_postgres import uri  # noqa: F401
from test_pydantic_ai import turn
from test_remote import address  # noqa: F401

MANY = 700  # more than a page of native_items.c


@pytest.fixture(params=["http", "postgresql"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    found: str = request.getfixturevalue({"http": "address", "postgresql": "uri"}[request.param])
    assert found.startswith(request.param)
    yield found


async def test_the_agents_sdk(place: str) -> None:
    items: list[Any] = [{"role": "user", "content": str(number)} for number in range(MANY)]
    call: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    async with QuipuSession("talk", place) as session:
        await session.add_items(items)
        await session.add_items([call])
        assert await session.pop_item() == call
    async with QuipuSession("talk", place) as session:
        assert await session.get_items() == items
        assert await session.get_items(2) == items[-2:]
        await session.clear_session()
        assert await session.get_items() == []


def test_langgraph(place: str) -> None:
    config: Any = {"configurable": {"thread_id": "talk"}}
    with QuipuSaver(place) as saver:
        langgraph_names()["builder"].compile(checkpointer=saver).invoke(
            {"messages": [("user", "hello")]}, config
        )
    with QuipuSaver(place) as saver:
        graph = langgraph_names()["builder"].compile(checkpointer=saver)
        said = graph.invoke({"messages": [("user", "again")]}, config)["messages"]
        assert [one.content for one in said] == ["hello", "heard 1", "again", "heard 3"]
        assert len([*saver.list(config)]) == 6
        saver.delete_thread("talk")
        assert saver.get_tuple(config) is None


def test_the_store_of_langgraph(place: str) -> None:
    with quipu.Store(place) as opened:
        QuipuStore(opened).put(("users", "ana"), "likes", {"text": "penguins"})
        store = QuipuStore(opened)
        found = store.get(("users", "ana"), "likes")
        assert found is not None and found.value == {"text": "penguins"}
        assert [one.key for one in store.search(("users",), query="penguins")] == ["likes"]
        store.delete(("users", "ana"), "likes")
        assert store.get(("users", "ana"), "likes") is None


async def test_the_claude_sdk(place: str) -> None:
    key: Any = {"project_key": "p", "session_id": "s"}
    entries: list[Any] = [
        {"type": "user", "uuid": str(number), "message": {"role": "user", "content": "hello"}}
        for number in range(3)
    ]
    async with QuipuSessionStore(place) as store:
        await store.append(key, entries[:2])
        await store.append(key, entries[1:])
    async with QuipuSessionStore(place) as store:
        assert await store.load(key) == entries
        await store.delete(key)
        assert await store.load(key) is None


async def test_pydantic_ai(place: str) -> None:
    async with QuipuConversationStore(place) as store:
        talk = Conversation(conversation_id="talk", messages=turn("one"))
        await store.save(talk)
        talk.messages.extend(turn("two"))
        await store.save(talk)
        await store.fork("talk", new_conversation_id="other")
    async with QuipuConversationStore(place) as store:
        for name in ("talk", "other"):
            found = await store.load(name)
            assert found is not None and found.messages == [*turn("one"), *turn("two")]
        await store.delete("talk")
        assert await store.load("talk") is None


def test_langchain(place: str) -> None:
    said = [HumanMessage(str(number)) for number in range(MANY)]
    history = QuipuChatMessageHistory("talk", place)
    history.add_messages(said)
    history.add_message(AIMessage("the last"))
    history.close()
    history = QuipuChatMessageHistory("talk", place)
    assert history.messages == [*said, AIMessage("the last")]
    history.clear()
    assert history.messages == []
    history.close()


def test_llama_index(place: str) -> None:
    said = [ChatMessage(str(number)) for number in range(5)]
    with quipu.Store(place) as store:
        chats = QuipuChatStore(store)
        chats.set_messages("talk", said)
        chats.add_message("talk", ChatMessage("the last"))
        assert chats.delete_message("talk", 0) == said[0]
        assert QuipuChatStore(store).get_messages("talk") == [*said[1:], ChatMessage("the last")]
        assert chats.get_keys() == ["talk"]
        chats.delete_messages("talk")
        assert chats.get_messages("talk") == [] and chats.get_keys() == []


async def test_the_agent_framework(place: str) -> None:
    said = [af.Message("user", ["hello"]), af.Message("assistant", ["hi"])]
    async with quipu.AsyncStore(place) as store:
        provider = QuipuHistoryProvider(store)
        await provider.save_messages("talk", said)
        found = await QuipuHistoryProvider(store).get_messages("talk")
        assert [one.to_dict() for one in found] == [one.to_dict() for one in said]
        await provider.clear("talk")
        assert await provider.get_messages("talk") == []
