"""A store in PostgreSQL: the URI decides, all else is the same."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

import pytest
from conftest import ROOT
from google.adk.events.event import Event
from google.genai import types

import quipu
from quipu.adk import QuipuSessionService

SCRIPT = ROOT / "tests" / "lib" / "pg.sh"


def script(verb: str, folder: pathlib.Path) -> int:
    return subprocess.run(["bash", SCRIPT, verb, folder], check=False).returncode


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own, where one is installed."""
    folder = tmp_path_factory.mktemp("server") / "pg"
    if not SCRIPT.exists() or script("start", folder) != 0:
        pytest.skip("no PostgreSQL server is installed (postgresql-15)")
    try:
        yield (folder / "uri").read_text(encoding="utf-8").strip()
    finally:
        script("stop", folder)


def test_a_store_in_a_server_keeps_what_it_is_given(uri: str) -> None:
    with quipu.Store(uri) as store:
        store.create("k", metadata={"title": "Umlaut ü"})
        message = quipu.Message("user", "hello \x00 \U0001f600", event_id="e1")
        assert not store.append("k", [message]).repeated
        assert store.append("k", [message]).repeated
    with quipu.Store(uri) as store:
        assert [got.content for got in store.get("k").messages] == [message.content]
        assert store.get("k").session.metadata == {"title": "Umlaut ü"}


async def test_sessions_of_adk_live_in_a_server(uri: str) -> None:
    async with QuipuSessionService(uri) as service:
        session = await service.create_session(app_name="a", user_id="u", state={"user:x": 1})
        event = Event(author="user", content=types.Content(parts=[types.Part(text="hi")]))
        await service.append_event(session, event)
        got = await service.get_session(app_name="a", user_id="u", session_id=session.id)
        assert got is not None
        assert [event.id for event in got.events] == [event.id]
        assert got.state == {"user:x": 1}


def test_what_a_server_cannot_do_is_unsupported(uri: str, tmp_path: pathlib.Path) -> None:
    with quipu.Store(uri) as store, pytest.raises(quipu.Unsupported, match="pg_dump"):
        store.backup(tmp_path / "copy.db")
