"""What the documents and examples show works."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import agent_framework as af
import pytest
from agents import Agent, Runner
from claude_agent_sdk import ClaudeAgentOptions
from google.adk.agents import LlmAgent
from google.adk.runners import Runner as AdkRunner
from google.genai import types
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

import quipu
from conftest import ROOT
from scripted import ScriptedLlm
from test_agents import ScriptedModel
from test_histories import Echo

EXAMPLES = ROOT / "bindings" / "python" / "examples"


def python(arguments: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_begins_with_five_lines_that_work(tmp_path: pathlib.Path) -> None:
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", guide, re.S)
    assert found is not None
    code = found.group(1)
    assert len(code.splitlines()) == 5
    assert guide.index("```python") < 30
    said = python(["-c", code], tmp_path)
    assert said == "['hello', 'hi, how can I help?']\n"
    assert python(["-c", code], tmp_path).count("hello") == 2  # the first run was kept


def test_the_guide_shows_the_services_file_that_is_shipped() -> None:
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(.*?)```", guide, re.S)
    assert found is not None
    shipped = (EXAMPLES / "adk_web" / "services.yaml").read_text(encoding="utf-8")
    assert found.group(1) == re.sub(r"^#.*\n", "", shipped)


# ---- the blocks of the guide: each runs as it stands, with the names that its text speaks of -----


Names = dict[str, Any]


def graph_of(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"heard {len(state['messages'])}")]}


def langgraph_names() -> Names:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", graph_of)
    builder.add_edge(START, "answer")
    return {"builder": builder}


def tail_names() -> Names:
    with quipu.Store("chat.db") as store:
        store.append("chat", "one", create=True)
        last_seen = 1
        store.append("chat", "two")

    class Ending:
        """Its tail ends, where that of the guide waits for the next message."""

        def tail(self, key: str, after: int) -> Any:
            return quipu.AsyncStore("chat.db").tail(key, after=after, timeout=0)

    return {"store": Ending(), "last_seen": last_seen}


def adk_names() -> Names:
    model = ScriptedLlm.of(types.Part(text="hi"))
    return {"Runner": AdkRunner, "agent": LlmAgent(name="bot", model=model)}


async def adk_after(names: Names) -> None:
    runner, user = names["runner"], {"app_name": "app", "user_id": "u", "session_id": "s"}
    await names["service"].create_session(**user)
    said = types.Content(role="user", parts=[types.Part(text="hello")])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=said):
        pass
    assert len((await names["service"].get_session(**user)).events) == 2


async def agents_after(names: Names) -> None:
    assert names["result"].final_output == "answer 1"
    assert len(await names["QuipuSession"]("talk", "agents.db").get_items()) == 2


async def langgraph_after(names: Names) -> None:
    state = names["graph"].get_state({"configurable": {"thread_id": "talk"}})
    assert [one.content for one in state.values["messages"]] == ["hello", "heard 1"]


async def claude_after(names: Names) -> None:
    store, key = names["options"].session_store, {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "user", "uuid": "1"}])
    assert len(await store.load(key)) == 1


async def pydantic_after(names: Names) -> None:
    assert len((await names["store"].load("talk")).messages) == 2


async def histories_after(names: Names) -> None:
    names["history"].add_user_message("hello")
    assert [one.content for one in names["history"].messages] == ["hello"]
    names["memory"].put(ChatMessage("hello"))
    assert [one.content for one in names["memory"].get()] == ["hello"]
    session = names["agent"].create_session(session_id="talk")
    assert (await names["agent"].run("hello", session=session)).text == "heard 1"
    assert (await names["agent"].run("hello", session=session)).text == "heard 3"


async def nothing(names: Names) -> None:
    """Of a block that prints what it has."""


SAID = {  # what blocks print
    "from quipu import Store": "['hello', 'hi, how can I help?']\n",
    "async for message in store.tail": "user two\n",
}

# By how a block begins: the names that it takes as given, and what holds when it has run. A key of
# a provider is needed by none.
BLOCKS: dict[str, tuple[Callable[[], Names], Callable[[Names], Awaitable[None]]]] = {
    "from quipu import Store": (dict, nothing),
    "async for message in store.tail": (tail_names, nothing),
    "from quipu.adk": (adk_names, adk_after),
    "from quipu.agents": (
        lambda: {"Runner": Runner, "agent": Agent(name="bot", model=ScriptedModel())},
        agents_after,
    ),
    "from quipu.langgraph": (langgraph_names, langgraph_after),
    "from quipu.claude": (lambda: {"ClaudeAgentOptions": ClaudeAgentOptions}, claude_after),
    "from quipu.pydantic_ai": (
        lambda: {"Conversation": Conversation, "agent": PydanticAgent(TestModel())},
        pydantic_after,
    ),
    "from quipu.langchain": (
        lambda: {"ChatMemoryBuffer": ChatMemoryBuffer, "Agent": af.Agent, "client": Echo()},
        histories_after,
    ),
}


def blocks() -> list[str]:
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", guide, re.S | re.M)


@pytest.mark.parametrize("code", blocks(), ids=lambda code: code.split("\n")[0][:40])
async def test_every_block_of_the_guide_runs(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
) -> None:
    (begin,) = [begin for begin in BLOCKS if code.startswith(begin)]
    make, after = BLOCKS[begin]
    monkeypatch.chdir(tmp_path)
    names = make()
    block = compile(code, begin, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(block, names)
    if inspect.isawaitable(running):
        await running
    assert capsys.readouterr().out == SAID.get(begin, "")
    await after(names)
    assert [*tmp_path.glob("*.db")]  # in the folder that it names


def test_every_block_of_the_guide_is_known() -> None:
    assert len(blocks()) == len(BLOCKS)
    fences = re.findall(r"^```(\w+)$", (ROOT / "docs/python.md").read_text("utf-8"), re.M)
    assert sorted(fences) == ["python"] * len(BLOCKS) + ["yaml"]


TALKS = [
    "adk_agent.py",
    "agents_sdk.py",
    "claude_transcript.py",
    "langgraph_agent.py",
    "pydantic_agent.py",
]


@pytest.mark.parametrize("name", TALKS)
def test_a_conversation_survives_a_restart(tmp_path: pathlib.Path, name: str) -> None:
    for number, words in enumerate(("hello", "and again", "once more"), 1):
        said = python([str(EXAMPLES / name), "talk.db", words], tmp_path)
        assert said == f"You said: {words}. I have heard {number} messages of yours.\n"


def test_three_frameworks_share_a_file(tmp_path: pathlib.Path) -> None:
    for number in (1, 2):
        said = python([str(EXAMPLES / "histories.py"), "talks.db"], tmp_path).splitlines()
        assert said[:3] == [
            f"{name}: {number}" for name in ("LangChain", "LlamaIndex", "Agent Framework")
        ]
        assert said[3] == "found: ['agent_framework:talk', 'langchain:talk', 'llama_index:talk']"
