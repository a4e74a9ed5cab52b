"""How data in a framework's own store moves to a store of quipu, as the guide says: the framework
writes and reads it, and the adapter keeps it."""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import Any

import agent_framework as af
import pytest
from agents.memory.sqlite_session import SQLiteSession
from claude_agent_sdk import (
    get_session_messages_from_store,
    import_session_to_store,
    project_key_for_directory,
)
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.test import TestModel

import quipu
from quipu.agent_framework import QuipuHistoryProvider
from quipu.agents import QuipuSession
from quipu.claude import QuipuSessionStore
from quipu.langchain import QuipuChatMessageHistory
from quipu.langgraph import QuipuSaver
from quipu.llama_index import QuipuChatStore
from quipu.pydantic_ai import QuipuConversationStore


def found_by_search(path: pathlib.Path, word: str) -> list[str]:
    with quipu.Store(path) as store:
        return [hit.session_key for hit in store.search(word).hits]


async def test_a_session_of_the_agents_sdk_moves(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    old = SQLiteSession("talk", tmp_path / "old.db")
    call: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    gave: Any = {"type": "function_call_output", "call_id": "c", "output": "a lighthouse"}
    await old.add_items([{"role": "user", "content": "where?"}, call, gave])
    old.close()
    async with QuipuSession("talk", path) as session:
        await session.add_items(await SQLiteSession("talk", tmp_path / "old.db").get_items())
        assert await session.get_items() == [{"role": "user", "content": "where?"}, call, gave]
    assert found_by_search(path, "lighthouse") == ["agents:talk"]


async def test_a_transcript_of_claude_moves(
    path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file as its program writes it, and that of an agent below it."""
    id, at = str(uuid.uuid4()), tmp_path / "work"
    at.mkdir()
    folder = tmp_path / "claude" / "projects" / project_key_for_directory(str(at))
    (folder / id / "subagents").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    entries: list[Any] = []
    for role, words in (("user", "where is the lighthouse?"), ("assistant", "by the sea")):
        entries.append(
            {
                "type": role,
                "uuid": str(uuid.uuid4()),
                "parentUuid": entries[-1]["uuid"] if entries else None,
                "sessionId": id,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": role, "content": words},
            }
        )
    text = "".join(json.dumps(one) + "\n" for one in entries)
    (folder / f"{id}.jsonl").write_text(text)
    (folder / id / "subagents" / "agent-1.jsonl").write_text(text.splitlines()[0] + "\n")
    async with QuipuSessionStore(path) as store:
        for _ in range(2):  # which stores nothing twice
            await import_session_to_store(id, store, directory=str(at))
        kept = await get_session_messages_from_store(store, id, directory=str(at))
        assert [one.uuid for one in kept] == [one["uuid"] for one in entries]
        key: Any = {"project_key": folder.name, "session_id": id}
        assert await store.load(key) == entries
        below: Any = {**key, "subpath": "subagents/agent-1"}
        assert await store.load(below) == entries[:1]
    assert len(found_by_search(path, "lighthouse")) == 2


async def test_files_of_the_agent_framework_move(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    said = [
        af.Message("user", ["where is the lighthouse?"], author_name="me"),
        af.Message("assistant", [af.Content.from_function_call("c", "f", arguments="{}")]),
        af.Message("tool", [af.Content.from_function_result("c", result="by the sea")]),
    ]
    await af.FileHistoryProvider(tmp_path / "old").save_messages("talk", said)
    other = af.FileHistoryProvider(tmp_path / "old")
    provider = QuipuHistoryProvider(path)
    await provider.save_messages("talk", await other.get_messages("talk"))
    found = await provider.get_messages("talk")
    assert [one.to_dict() for one in found] == [one.to_dict() for one in said]
    await provider.close()
    assert found_by_search(path, "lighthouse") == ["agent_framework:talk"]


async def test_messages_of_pydantic_ai_move(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A file as its guide has programs write it."""
    agent, old = Agent(TestModel()), tmp_path / "old.json"
    result = await agent.run("where is the lighthouse?")
    old.write_bytes(result.all_messages_json())
    messages = ModelMessagesTypeAdapter.validate_json(old.read_bytes())
    async with QuipuConversationStore(path) as store:
        await store.save(Conversation(conversation_id="talk", messages=messages))
        talk = await store.load("talk")
        assert talk is not None and talk.messages == result.all_messages()
        await store.save(await agent.run("and now?", conversation=talk))
        again = await store.load("talk")
        assert again is not None and len(again.messages) == 4
    assert found_by_search(path, "lighthouse") == ["pydantic_ai:talk"]


def test_a_history_of_langchain_moves(path: pathlib.Path) -> None:
    old = InMemoryChatMessageHistory()
    old.add_messages([HumanMessage("where is the lighthouse?", id="1"), AIMessage("by the sea")])
    history = QuipuChatMessageHistory("talk", path)
    assert history.import_from(old) == 2
    assert history.messages == old.messages
    history.close()
    assert found_by_search(path, "lighthouse") == ["langchain:talk"]


def test_a_chat_store_of_llama_index_moves(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """From its file; its own writer of that file fails with the pydantic that is pinned here."""
    at = tmp_path / "chat_store.json"
    said = {
        key: [ChatMessage(f"the lighthouse of {key}"), ChatMessage("yes")] for key in ("a", "b")
    }
    kept = {key: [one.model_dump(mode="json") for one in said[key]] for key in said}
    at.write_text(json.dumps({"store": kept}))
    old = SimpleChatStore.from_persist_path(str(at))
    chats = QuipuChatStore(path)
    assert chats.import_from(old) == 2
    assert sorted(chats.get_keys()) == ["a", "b"]
    assert all(chats.get_messages(key) == old.get_messages(key) for key in ("a", "b"))
    chats.close()
    assert sorted(found_by_search(path, "lighthouse")) == ["llama_index:a", "llama_index:b"]


async def test_a_database_of_llama_index_moves(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    uri = f"sqlite+aiosqlite:///{tmp_path / 'old.db'}"
    old = SQLAlchemyChatStore(table_name="chat", async_database_uri=uri)
    said = [ChatMessage("where is the lighthouse?"), ChatMessage(role="assistant", content="here")]
    await old.add_messages("talk", said)
    chats = QuipuChatStore(path)
    for key in await old.get_keys():
        await chats.aset_messages(key, await old.get_messages(key))
    assert chats.get_messages("talk") == said
    chats.close()
    assert found_by_search(path, "lighthouse") == ["llama_index:talk"]


def test_a_graph_of_langgraph_goes_on(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [AIMessage("by the sea")]})
    builder.add_edge(START, "answer")
    config: Any = {"configurable": {"thread_id": "talk"}}
    with SqliteSaver.from_conn_string(str(tmp_path / "old.db")) as old:
        graph: Any = builder.compile(checkpointer=old)
        graph.invoke({"messages": [("user", "where is the lighthouse?")]}, config)
        with QuipuSaver(path) as saver:
            assert saver.import_from(old) == len([*old.list(None)])
            assert [*saver.list(None)] == [*old.list(None)]
    with QuipuSaver(path) as saver:
        graph = builder.compile(checkpointer=saver)
        state = graph.invoke({"messages": [("user", "and now?")]}, config)
        assert [one.content for one in state["messages"]][::2] == [
            "where is the lighthouse?",
            "and now?",
        ]
    assert "langgraph:talk" in found_by_search(path, "lighthouse")
