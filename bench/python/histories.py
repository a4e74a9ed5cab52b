"""The thin adapters against their frameworks' own stores: an append to a history of 10, 1,000 and
10,000 messages, and reading all of it, which is what these interfaces offer; reading the last 50,
too, where they can. Part of frameworks.py.

Peers that keep a history on the disk have a bar: never slower. Those that keep it in memory only,
of LangChain's core, of the Claude Agent SDK and of Pydantic AI, are shown without a bar: they do
not do the same work. Neither side waits for the disk: quipu is "relaxed", SQLite at NORMAL."""

from __future__ import annotations

import functools
import pathlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agent_framework import FileHistoryProvider, Message
from bench import SIZES, TEXT, Figures, Key, Side, set_mode, take_turns
from claude_agent_sdk import InMemorySessionStore
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

import quipu
from quipu.agent_framework import QuipuHistoryProvider
from quipu.claude import QuipuSessionStore
from quipu.langchain import QuipuChatMessageHistory
from quipu.llama_index import QuipuChatStore
from quipu.pydantic_ai import QuipuConversationStore

BLOCKS = {10: 15, 1_000: 7, 10_000: 3}
APPENDS = 6  # in a block
READS = {10: 5, 1_000: 2, 10_000: 1}
LAST = 50
BAR = 1.0
NAME = "talk"
CLAUDE: Any = {"project_key": "p", "session_id": NAME}


@dataclass(frozen=True)
class History:
    """How a framework's stores are used; each call is one through its interface."""

    name: str
    peer: str
    on_disk: bool
    make: Callable[[int], Any]  # a message
    ours: Callable[[pathlib.Path], Any]
    theirs: Callable[[pathlib.Path], Any]
    add: Callable[[Any, list[Any]], Awaitable[Any]]
    read: Callable[[Any], Awaitable[Any]]
    last: Callable[[Any], Awaitable[Any]] | None = None  # reads the last 50
    turn: int = 1  # messages of an append


def _role(number: int) -> str:
    return ("user", "assistant")[number & 1]


def _entry(number: int) -> dict[str, Any]:
    message = {"role": _role(number), "content": [{"type": "text", "text": TEXT}]}
    when = "2026-01-01T00:00:00.000Z"
    return {
        "type": _role(number), "uuid": str(uuid.uuid4()), "timestamp": when, "message": message
    }  # fmt: skip


async def _langchain_add(history: Any, messages: list[Any]) -> None:
    history.add_messages(messages)


async def _langchain_read(history: Any) -> Any:
    return history.messages


async def _llama_add(store: Any, messages: list[Any]) -> None:
    if isinstance(store, SQLAlchemyChatStore):
        await store.add_messages(NAME, messages)
    else:
        for message in messages:
            await store.async_add_message(NAME, message)


async def _llama_read(store: Any) -> Any:
    if isinstance(store, SQLAlchemyChatStore):
        return await store.get_messages(NAME)
    return await store.aget_messages(NAME)


async def _agent_add(provider: Any, messages: list[Any]) -> None:
    await provider.save_messages(NAME, messages)


async def _agent_read(provider: Any) -> Any:
    return await provider.get_messages(NAME)


async def _claude_add(store: Any, entries: list[Any]) -> None:
    await store.append(CLAUDE, entries)


async def _claude_read(store: Any) -> Any:
    return await store.load(CLAUDE)


class _Talk:
    """A conversation of Pydantic AI that goes on, as a program has it between two runs."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.conversation = Conversation(conversation_id=NAME)


async def _pydantic_add(talk: _Talk, messages: list[Any]) -> None:
    talk.conversation.messages.extend(messages)
    await talk.store.save(talk.conversation)


async def _pydantic_read(talk: _Talk, limit: int | None = None) -> Any:
    return (await talk.store.load(NAME, limit=limit)).messages


def _pydantic_message(number: int) -> Any:
    if number & 1:
        return ModelResponse(parts=[TextPart(TEXT)])
    return ModelRequest(parts=[UserPromptPart(TEXT)])


def _store(path: pathlib.Path) -> quipu.Store:
    return quipu.Store(path / "ours.db", durability="relaxed")


def _async_store(path: pathlib.Path) -> quipu.AsyncStore:
    return quipu.AsyncStore(path / "ours.db", durability="relaxed")


HISTORIES = [
    History(
        "agent framework", "FileHistoryProvider", True,
        lambda number: Message(_role(number), [TEXT]),
        lambda path: QuipuHistoryProvider(_async_store(path)),
        lambda path: FileHistoryProvider(path / "theirs"),
        _agent_add, _agent_read,
    ),
    History(
        "llama index", "SQLAlchemyChatStore", True,
        lambda number: ChatMessage(role=_role(number), content=TEXT),
        lambda path: QuipuChatStore(_store(path)),
        lambda path: SQLAlchemyChatStore(
            table_name="chat", async_database_uri=f"sqlite+aiosqlite:///{path / 'theirs.db'}"
        ),
        _llama_add, _llama_read,
    ),
    History(
        "langchain", "InMemoryChatMessageHistory", False,
        lambda number: (HumanMessage, AIMessage)[number & 1](TEXT),
        lambda path: QuipuChatMessageHistory(NAME, _store(path)),
        lambda path: InMemoryChatMessageHistory(),
        _langchain_add, _langchain_read,
    ),
    History(
        "claude", "InMemorySessionStore", False, _entry,
        lambda path: QuipuSessionStore(_async_store(path)),
        lambda path: InMemorySessionStore(),
        _claude_add, _claude_read,
    ),
    History(
        "pydantic ai", "InMemoryConversationStore", False, _pydantic_message,
        lambda path: _Talk(QuipuConversationStore(_async_store(path))),
        lambda path: _Talk(InMemoryConversationStore()),
        _pydantic_add, _pydantic_read, functools.partial(_pydantic_read, limit=LAST), 2,
    ),
]  # fmt: skip


async def _part(history: History, folder: pathlib.Path, size: int, figures: Figures) -> None:
    sides = {"quipu": history.ours(folder), history.peer: history.theirs(folder)}
    for side in sides.values():
        await history.add(side, [history.make(number) for number in range(size)])
        assert len(await history.read(side)) == size

    def append(side: Any, number: int) -> Callable[[], Awaitable[Any]]:
        return functools.partial(history.add, side, [*map(history.make, range(history.turn))])

    def read(side: Any, number: int) -> Callable[[], Awaitable[Any]]:
        return functools.partial(history.read, side)

    def last(side: Any, number: int) -> Callable[[], Awaitable[Any]]:
        assert history.last is not None
        return functools.partial(history.last, side)

    calls = [("read all", read, READS[size]), ("append", append, APPENDS)]
    if history.last is not None:
        calls.append(("read last 50", last, READS[10]))
    for what, make, count in calls:
        turns: list[Side] = [
            ((f"{history.name} {what}", name, "normal", size), functools.partial(make, side))
            for name, side in sides.items()
        ]
        await take_turns(figures, turns, BLOCKS[size], count)


async def measure(folder: pathlib.Path) -> Figures:
    """Measure all histories, each in a folder of its own."""
    figures = Figures()
    set_mode("normal")
    for history in HISTORIES:
        for size in SIZES:
            place = folder / f"{history.name}-{size}".replace(" ", "-")
            place.mkdir()
            await _part(history, place, size, figures)
    return figures


def judge(figures: Figures) -> int:
    """Print a line for each figure; return how many bars are not held."""
    peers = {history.name: history for history in HISTORIES}
    missed = 0
    for key in figures.keys():
        what, side, mode, size = key
        if side != "quipu":
            continue
        name = next(name for name in peers if what.startswith(name))
        theirs: Key = (what, peers[name].peer, mode, size)
        ratio = figures.ratio(theirs, key, 0)
        word = ""
        if peers[name].on_disk:
            word = "held" if ratio >= BAR else "MISSED"
            missed += ratio < BAR
        print(
            f"{word:7} {ratio:8.2f} (bar {BAR if peers[name].on_disk else None})  {what}, {size}:"
            f" quipu {figures.median(key, 0):.0f} us, {peers[name].peer}"
            f" {figures.median(theirs, 0):.0f} us"
        )
    return missed
