"""A store behind `quipu serve`: ADK's contract over an address, and what a server refuses."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from conftest import ROOT
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart
from test_adk_contract import *  # noqa: F403 - every claim of it, over the service below

import quipu
from quipu.adk import QuipuSessionService
from quipu.agents import QuipuSession
from quipu.claude import QuipuSessionStore
from quipu.pydantic_ai import QuipuConversationStore

PROGRAM = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug")) / "bin/quipu"


@pytest.fixture
def address(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of its own, and its token where quipu_open() looks for it."""
    if not PROGRAM.exists():
        pytest.skip("the program quipu is not built")
    tokens = tmp_path / "tokens"
    made = subprocess.run(
        [PROGRAM, "token", "new", "--tokens", tokens], capture_output=True, text=True, check=True
    )
    monkeypatch.setenv("QUIPU_TOKEN", made.stdout.strip())
    command: list[str | pathlib.Path] = [PROGRAM, "serve", "--store", tmp_path / "store.db"]
    command += ["--tokens", tokens, "--listen", "127.0.0.1:0", "--log", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert "http://" in line, line
        yield "http://" + line.partition("http://")[2].split()[0].rstrip("/")
        server.terminate()


@pytest.fixture
async def service(address: str) -> AsyncIterator[QuipuSessionService]:
    async with QuipuSessionService(address) as opened:
        yield opened


def test_a_store_behind_a_server_keeps_what_it_is_given(address: str) -> None:
    message = quipu.Message("user", "hello \x00 \U0001f600", event_id="e1")
    with quipu.Store(address) as store:
        store.create("k", metadata={"title": "Umlaut ü"})
        assert not store.append("k", [message]).repeated
        assert store.append("k", [message]).repeated
        assert [got.content for got in store.get("k").messages] == [message.content]
        assert [hit.seq for hit in store.search("hello").hits] == [1]
        store.fork("k", "f", at=1)
        assert store.get("f").session.parent_key == "k"


def test_what_a_server_does_not_have_names_itself(address: str, tmp_path: pathlib.Path) -> None:
    with quipu.Store(address) as store, pytest.raises(quipu.Unsupported, match="backup"):
        store.backup(tmp_path / "copy.db")


async def test_adapters_work_behind_a_server(address: str) -> None:
    """What they ask of the store beside plain calls: a session's uid, settings with an append, an
    expiry, and that dead rows are dropped."""
    async with quipu.AsyncStore(address) as store:
        session = QuipuSession("s", store)
        items: Any = [{"role": "user", "content": str(number)} for number in range(60)]
        await session.add_items(items)
        for item in reversed(items):
            assert await session.pop_item() == item
        assert len((await store.get("agents:s")).messages) < 60
        claude = QuipuSessionStore(store)
        key: Any = {"project_key": "p", "session_id": "s"}
        for uuid in ("a", "b", "a"):
            entry: Any = {"type": "user", "uuid": uuid, "customTitle": uuid}
            await claude.append(key, [entry])
        assert len(await claude.load(key) or []) == 2
        (summary,) = await claude.list_session_summaries("p")
        assert summary["data"]["custom_title"] == "b"
        talks = QuipuConversationStore(store)
        for text in ("one", "two"):
            said = [ModelRequest(parts=[UserPromptPart(text)])]
            await talks.save(Conversation(conversation_id="c", messages=[*said]))
            loaded = await talks.load("c")
            assert loaded is not None and loaded.messages == said
            await talks.delete("c")
            assert await talks.load("c") is None
            assert (await store.search(text)).hits == []
