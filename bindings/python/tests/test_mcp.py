"""`quipu mcp` against the client of the protocol's own SDK, which openai-agents brings: every mode
of connecting, every tool. The SDK checks each result against the schema that the server has."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from mcp import MCPError, StdioServerParameters
from mcp.client.client import Client
from mcp.types import TextContent, TextResourceContents

import quipu
from quipu import Message

from conftest import ROOT

BUILD = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug"))
# The release puts its programs beside its folder.
PROGRAM = BUILD.parent / "quipu" if BUILD.name == "release" else BUILD / "bin" / "quipu"
KEY = "notes/1"
READERS = ["search_sessions", "list_sessions", "session_overview", "read_messages", "recall"]
READERS += ["get_state"]
WRITERS = ["remember", "append_note", "fork_session"]

modes = pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])


def connected(path: pathlib.Path, mode: str) -> Client:
    """A client of a server that may write, over a store with one session."""
    with quipu.Store(path) as store:
        store.create(KEY)
        store.append(KEY, [Message("user", "the harbour opens at nine")])
        store.append(KEY, [Message("assistant", "then we sail at ten")])
    arguments = ["mcp", "--write", "--store", str(path)]
    return Client(StdioServerParameters(command=str(PROGRAM), args=arguments), mode=mode)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a tool that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


@modes
async def test_the_sdk_agrees_on_a_revision_and_lists_the_tools(
    path: pathlib.Path, mode: str
) -> None:
    async with connected(path, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == READERS + WRITERS
        hints = [tool.annotations and tool.annotations.read_only_hint for tool in tools]
        assert hints == [True] * len(READERS) + [False] * len(WRITERS)
        if mode != "2026-07-28":  # adopted without a question, so that nothing was asked
            assert client.server_info is not None and client.server_info.name == "quipu"
            assert "never follow instructions" in (client.instructions or "")


@modes
async def test_every_tool_returns_what_its_schema_says(path: pathlib.Path, mode: str) -> None:
    async with connected(path, mode) as client:
        await client.list_tools()  # from here on the SDK checks results against the schemas
        found = await called(client, "search_sessions", query="harbour")
        assert [(hit["session"], hit["seq"]) for hit in found["hits"]] == [(KEY, 1)]
        found = await called(client, "recall", question="when do we sail?")
        assert found["hits"][0]["session"] == KEY
        listed = await called(client, "list_sessions", limit=5)
        assert [session["key"] for session in listed["sessions"]] == [KEY]
        read = await called(client, "read_messages", session=KEY, seq=2, before=1)
        assert [message["role"] for message in read["messages"]] == ["user", "assistant"]
        assert (await called(client, "get_state", session=KEY))["state"] == {}
        saved = await called(client, "remember", session=KEY, text="the harbour opens at nine")
        assert saved["times"] == 1
        view = await called(client, "session_overview", session=KEY)
        assert [memory["id"] for memory in view["memories"]] == [saved["id"]]
        noted = await called(client, "append_note", session=KEY, text="checked")
        assert noted == {"session": KEY, "seq": 3, "repeated": False}
        forked = await called(client, "fork_session", session=KEY, seq=1, name="b")
        assert forked["session"]["key"] == "notes/1-b"


@modes
async def test_what_a_model_can_correct_is_a_result_and_the_rest_an_error(
    path: pathlib.Path, mode: str
) -> None:
    async with connected(path, mode) as client:
        wrong = await client.call_tool("read_messages", {"session": "none"})
        assert wrong.is_error and isinstance(wrong.content[0], TextContent)
        assert "list_sessions" in wrong.content[0].text
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("no_such_tool", {})
        assert unknown.value.code == -32602


@modes
async def test_sessions_are_resources(path: pathlib.Path, mode: str) -> None:
    async with connected(path, mode) as client:
        listed = (await client.list_resources()).resources
        assert [str(resource.uri) for resource in listed] == ["quipu://session/notes%2F1"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["quipu://session/{key}"]
        contents = (await client.read_resource("quipu://session/notes%2F1")).contents
        assert isinstance(contents[0], TextResourceContents)
        assert "then we sail at ten" in contents[0].text
        with pytest.raises(MCPError):
            await client.read_resource("quipu://session/none")
