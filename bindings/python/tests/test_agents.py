"""The session for the OpenAI Agents SDK, and the SDK's own Runner over it."""

from __future__ import annotations

import asyncio
import pathlib
import re
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, ModelResponse, Runner, Usage
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import quipu
from conftest import LONG, PROGRAM
from quipu import _call
from quipu._items import DEAD_MIN, POP
from quipu._rows import ANY, BATCH_MAX, Rows, item_extra
from quipu.agents import QuipuSession

Item = dict[str, Any]
PAGE = 256  # as many as native_items.c reads at once
MANY = 12 * PAGE
SPLIT = 2048  # more than so many behind the first page are read by two threads


@pytest.fixture
async def session(path: pathlib.Path) -> AsyncIterator[QuipuSession]:
    opened = QuipuSession("s", path)
    yield opened
    await opened.close()


def user(text: str) -> Any:
    return {"role": "user", "content": text}


ITEMS: list[Any] = [
    {"role": "user", "content": 'hello "you"\n\x01 \U0001f600 \u0000'},
    {"role": "assistant", "content": "hi"},
    {"role": "system", "content": ""},
    {"content": "the other way round", "role": "user"},
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "input_text", "text": "look"}, {"type": "input_image"}]},
    {"type": "message", "role": "assistant", "id": "m1", "status": "completed", "content": []},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1.50}'},
    {"type": "function_call_output", "call_id": "c", "output": '{"r": 9007199254740993}'},
    {"type": "reasoning", "id": "r", "summary": [], "n": [2**60, 1e300, None, True]},
    {"role": "user", "content": None},
    {"role": "user", "content": "half \ud83d"},
    {"role": "nobody", "content": "x", "pop": True},
]


async def test_it_is_a_session_of_the_sdk(session: QuipuSession) -> None:
    assert isinstance(session, Session)
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([])
    assert (await session.store.list()).sessions == []


async def test_items_come_back_as_they_were(session: QuipuSession) -> None:
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS
    assert [list(item) for item in await session.get_items()][:2] == [["role", "content"]] * 2


COUNTS = [1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 1]
COUNTS += [PAGE + SPLIT - 1, PAGE + SPLIT, PAGE + SPLIT + 1, 5000]


@pytest.mark.parametrize("count", COUNTS)
async def test_long_sessions_come_back_whole(session: QuipuSession, count: int) -> None:
    await session.add_items([user(str(number)) for number in range(count)])
    assert await session.get_items() == [user(str(number)) for number in range(count)]
    await session.pop_item()
    assert await session.get_items() == [user(str(number)) for number in range(count - 1)]


async def test_a_session_that_changes_while_it_is_read_is_read_whole(path: pathlib.Path) -> None:
    """What comes back is what was there at some moment: clearing and adding are all or nothing."""
    async with quipu.AsyncStore(path, durability="relaxed") as store:
        session, again = QuipuSession("s", store), 40 if LONG else 8

        async def change() -> None:
            for number in range(again):
                await session.add_items([user(str(number))] * MANY)
                await session.clear_session()

        async def look() -> list[list[Any]]:
            found: list[list[Any]] = []
            while not changing.done():
                found.append(list(await session.get_items()))
                await asyncio.sleep(0)
            return found

        changing = asyncio.ensure_future(change())
        for found in await asyncio.gather(look(), look()):
            assert {len(items) for items in found} <= {0, MANY}
            assert all(items.count(items[0]) == MANY for items in found if items)
        await changing


async def test_texts_are_escaped_wherever_they_need_it(session: QuipuSession) -> None:
    items = [
        user("x" * before + special + "\u00ff" * after)
        for special in ('"', "\\", "\n", "\x1f", "\x20", "\x7f", "!", "\u0000", '""', "\U0001f600")
        for before in range(18)
        for after in (0, 1, 9)
    ]
    await session.add_items(items)
    assert await session.get_items() == items


async def test_function_calls_are_tool_calls(session: QuipuSession) -> None:
    """Windows keep them with their outputs, and readers see them."""
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "f",
        "arguments": '{"a": 1}',
        "id": "x",
    }
    parts = [{"type": "input_text", "text": "one"}, {"type": "input_image"}, {"text": "two"}]
    items: list[Any] = [
        user("go"),
        call,
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {**call, "call_id": "d"},
        {"type": "function_call_output", "call_id": "d", "output": parts},
    ]
    await session.add_items(items)
    assert await session.get_items() == items
    messages = (await session.store.get("agents:s")).messages
    assert [one.role for one in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert messages[1].tool_calls == [quipu.ToolCall("f", "c", '{"a": 1}')]
    assert messages[2].tool_calls == [quipu.ToolCall(id="c", output="done")]
    assert [messages[2].content, messages[4].content] == ["done", "one\ntwo"]
    window = await session.store.window("agents:s", token_budget=1)
    assert len(window.messages) == 5


async def test_items_of_an_older_version_come_back(session: QuipuSession) -> None:
    """It kept every item that was no plain message in `extra` alone, and marks without a text."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    rows = Rows()
    rows.add(1, b"go")
    rows.add(2, b"", item_extra(call))
    rows.add(2, b"gone")
    rows.add(6, b"", b'{"pop":true}')
    await session._write(rows, [ANY])
    assert await session.get_items() == [user("go"), call]
    assert await session.pop_item() == call
    assert await session.get_items() == [user("go")]


async def test_a_limit_takes_the_newest(session: QuipuSession) -> None:
    await session.add_items([user(str(number)) for number in range(20)])
    assert await session.get_items(3) == [user("17"), user("18"), user("19")]
    assert await session.get_items(0) == []
    assert len(await session.get_items(-1)) == 20
    assert len(await session.get_items(100)) == 20
    limited = QuipuSession("s", session.store, session_settings=SessionSettings(limit=2))
    assert await limited.get_items() == [user("18"), user("19")]


async def test_popped_items_are_gone(session: QuipuSession) -> None:
    await session.add_items([user(str(number)) for number in range(5)])
    assert await session.pop_item() == user("4")
    assert await session.pop_item() == user("3")
    assert await session.get_items() == [user("0"), user("1"), user("2")]
    assert await session.get_items(2) == [user("1"), user("2")]
    await session.add_items([user("5")])
    assert await session.get_items(2) == [user("2"), user("5")]
    for wanted in ("5", "2", "1", "0"):
        assert await session.pop_item() == user(wanted)
    assert await session.pop_item() is None
    assert await session.get_items() == []


def shown(path: pathlib.Path, key: str) -> list[str]:
    """The lines that `quipu show` prints of messages."""
    command = [str(PROGRAM), "show", "--store", str(path), key]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.strip() for line in done.stdout.splitlines() if re.match(r"^ +\S", line)]


async def test_popped_items_are_not_shown(path: pathlib.Path) -> None:
    call: Any = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    gone: Any = {"type": "function_call_output", "call_id": "c", "output": "wrong"}
    right: Any = {**gone, "output": "right"}
    async with QuipuSession("talk", path) as session:
        await session.add_items([user("one"), user("two"), call, gone])
        assert await session.pop_item() == gone
        await session.add_items([right])
        await session.add_items([user("three"), user("four")])
        assert (await session.pop_item(), await session.pop_item()) == (user("four"), user("three"))
        text = "\n".join(shown(path, "agents:talk"))
        assert "one" in text and "two" in text and "right" in text
        assert not re.search("three|four|wrong|removed", text), text


async def test_what_was_popped_is_not_shown_where_a_page_ends(path: pathlib.Path) -> None:
    async with QuipuSession("talk", path) as session:
        await session.add_items([user(f"word{number}") for number in range(100)])
        assert await session.pop_item() == user("word99")
        await session.add_items([user(f"more{number}") for number in range(1200)])
        assert await session.pop_item() == user("more1199")
        text = "\n".join(shown(path, "agents:talk"))
        assert "word98" in text and "word99" not in text and "removed" not in text
        assert "more1198" in text and "more1199" not in text
        assert [text.count(f"more{number}\n") for number in range(1198)] == [1] * 1198


async def test_draining_a_session_takes_few_calls_and_rows(
    session: QuipuSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken away is dropped when it is more than what is left."""
    calls: list[int] = []
    start = _call.start

    def counted(op: int, *rest: Any) -> Any:
        calls.append(op)
        return start(op, *rest)

    monkeypatch.setattr(_call, "start", counted)
    await session.add_items([user(str(number)) for number in range(600)])
    for number in reversed(range(600)):
        assert await session.pop_item() == user(str(number))
        if number % 50 == 0:
            assert await session.get_items() == [user(str(left)) for left in range(number)]
    assert await session.pop_item() is None
    assert len(calls) < 8 * 600
    assert len((await session.store.get("agents:s")).messages) < 3 * DEAD_MIN


@pytest.mark.parametrize("known", [True, False])
async def test_dead_rows_leave_a_session_that_begins_with_an_answer(
    session: QuipuSession, known: bool
) -> None:
    """No border parts an answer from the message before it."""
    answer: Any = {"type": "function_call_output", "call_id": "c", "output": "1"}
    call: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    kept: list[Any] = [answer if known else {"role": "tool", "content": "1"}, user("kept")]
    await session.add_items([*kept, *map(user, map(str, range(200))), call])
    for _ in range(201):
        assert await session.pop_item() is not None
    assert await session.get_items() == kept
    assert len((await session.store.get("agents:s")).messages) < 3 * DEAD_MIN
    assert await session.pop_item() == kept[1] and await session.get_items() == kept[:1]


async def test_a_session_that_lives_long_keeps_few_dead_rows(session: QuipuSession) -> None:
    """A turn that is taken back and done again, as the SDK does it."""
    kept = [user(f"kept {number}") for number in range(10)]
    await session.add_items(kept)
    for number in range(300):
        await session.add_items([user(f"wrong {number}")])
        assert await session.pop_item() == user(f"wrong {number}")
        assert await QuipuSession("s", session.store).get_items(3) == kept[-3:]
    assert await session.get_items() == kept
    assert len((await session.store.get("agents:s")).messages) < 4 * DEAD_MIN
    assert await session.pop_item() == kept[-1]


async def test_a_compacted_session_has_all_its_items(session: QuipuSession) -> None:
    """A summary is for models; also where two threads read, and where it alone is their part."""
    for count in (1, PAGE + SPLIT + 2):
        await session.clear_session()
        await session.add_items([user(str(number)) for number in range(count)])
        await session.store.compact("agents:s", "what was said", up_to=count)
        assert await session.get_items() == [user(str(number)) for number in range(count)]
        await session.add_items([user("more")])
        assert await session.get_items(2) == [user(str(count - 1)), user("more")]


async def test_more_items_than_a_call_takes_are_added(session: QuipuSession) -> None:
    for count in (BATCH_MAX, BATCH_MAX + 1):
        await session.clear_session()
        items = [user(str(number)) for number in range(count)]
        await session.add_items(items)
        assert await session.get_items() == items


async def test_an_item_of_a_session_made_anew_is_not_popped(path: pathlib.Path) -> None:
    """Between the look and the mark the session was deleted and made again, with its revision."""
    async with quipu.AsyncStore(path) as store:
        session, other = QuipuSession("s", store), QuipuSession("s", store)
        await session.add_items([user("old")])
        _, _, _, at = await session._newest(1)
        await other.clear_session()
        await other.add_items([user("new")])
        assert (await session._newest(1))[3].revision == at.revision
        made = Rows()
        made.add(*POP)
        with pytest.raises(quipu.Conflict):
            await session._write(made, [*at])
        assert await session.get_items() == [user("new")]


async def test_poppers_that_race_get_different_items(session: QuipuSession) -> None:
    await session.add_items([user(str(number)) for number in range(16)])
    popped = await asyncio.gather(*(session.pop_item() for _ in range(20)))
    found = sorted(int(item["content"]) for item in popped if item is not None)  # type: ignore
    assert found == list(range(16))


async def test_a_cleared_session_begins_anew(session: QuipuSession) -> None:
    await session.clear_session()
    await session.add_items([user("a")])
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([user("b")])
    assert await session.get_items() == [user("b")]


async def test_sessions_share_a_store(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path) as store:
        one, two = QuipuSession("one", store), QuipuSession("two", store)
        await one.add_items([user("1")])
        await two.add_items([user("2")])
        await one.close()  # not its to close
        assert await two.get_items() == [user("2")]
        assert [hit.session_key for hit in (await store.search("1")).hits] == ["agents:one"]


async def test_ids_never_meet_other_sessions(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path) as store:
        await store.create("adk:app/u/s")
        session = QuipuSession("adk:app/u/s", store)
        await session.add_items([user("x")])
        assert (await store.get("adk:app/u/s")).messages == []


async def test_adders_that_race_lose_nothing(session: QuipuSession) -> None:
    await asyncio.gather(*(session.add_items([user(f"{n}"), user(f"{n}")]) for n in range(32)))
    items = [int(item["content"]) for item in await session.get_items()]  # type: ignore
    assert len(items) == 64
    assert all(items[at] == items[at + 1] for at in range(0, 64, 2))  # each pair is together


class ScriptedModel(Model):
    """Answers with how many items it was given."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *a: Any, **k: Any) -> Any:
        self.inputs.append(input)
        text = ResponseOutputText(
            type="output_text", text=f"answer {len(self.inputs)}", annotations=[]
        )
        message = ResponseOutputMessage(
            id=f"m{len(self.inputs)}",
            type="message",
            role="assistant",
            status="completed",
            content=[text],
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no streams here")


async def test_the_sdk_s_runner_remembers_across_a_restart(path: pathlib.Path) -> None:
    model = ScriptedModel()
    agent = Agent(name="bot", model=model)
    for words in ("first", "second"):
        session = QuipuSession("talk", path)
        result = await Runner.run(agent, words, session=session)
        assert result.final_output.startswith("answer")
        await session.close()
    assert [item.get("content") for item in model.inputs[1]][0] == "first"
    assert len(model.inputs[1]) == 3
    session = QuipuSession("talk", path)
    assert len(await session.get_items()) == 4
    await session.close()
