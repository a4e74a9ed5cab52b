"""ADK's own Runner over the service: turns, tools, state, restart, rewind."""

from __future__ import annotations

import pathlib
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from quipu.adk import QuipuMemoryService, QuipuSessionService
from scripted import ScriptedLlm


def text(value: str) -> types.Part:
    return types.Part(text=value)


def roll(sides: int, tool_context: ToolContext) -> dict[str, Any]:
    """Roll a die."""
    tool_context.state["rolls"] = tool_context.state.get("rolls", 0) + 1
    tool_context.state["temp:last"] = sides
    return {"result": sides}


async def ask(runner: Runner, words: str, session_id: str = "s") -> list[Event]:
    message = types.Content(role="user", parts=[text(words)])
    return [
        event
        async for event in runner.run_async(user_id="u", session_id=session_id, new_message=message)
    ]


def make(service: QuipuSessionService, model: ScriptedLlm, **more: Any) -> Runner:
    agent = LlmAgent(
        name="bot",
        model=model,
        instruction="help",
        tools=[roll],
        output_key="answer",
    )
    return Runner(app_name="app", agent=agent, session_service=service, **more)


async def test_turns_and_tools_are_kept_across_a_restart(path: pathlib.Path) -> None:
    call = types.Part(function_call=types.FunctionCall(id="c1", name="roll", args={"sides": 6}))
    async with QuipuSessionService(path) as service:
        await service.create_session(app_name="app", user_id="u", session_id="s")
        runner = make(service, ScriptedLlm.of(call, text("you rolled a 6")))
        events = await ask(runner, "roll a die")
        assert [bool(event.get_function_calls()) for event in events] == [True, False, False]
        await runner.close()
    async with QuipuSessionService(path) as service:
        model = ScriptedLlm.of(text("as I said, 6"))
        runner = make(service, model)
        await ask(runner, "what was it?")
        assert "roll a die" in model.prompts[0] and "you rolled a 6" in model.prompts[0]
        session = await service.get_session(app_name="app", user_id="u", session_id="s")
        assert session is not None
        assert len(session.events) == 6
        assert session.state == {"answer": "as I said, 6", "rolls": 1}
        await runner.close()


async def test_a_rewind_hides_what_came_after(service: QuipuSessionService) -> None:
    await service.create_session(app_name="app", user_id="u", session_id="s", state={"k": 1})
    model = ScriptedLlm.of(text("one"), text("two"), text("three"))
    runner = make(service, model)
    first = await ask(runner, "first")
    second = await ask(runner, "second")
    await runner.rewind_async(
        user_id="u", session_id="s", rewind_before_invocation_id=second[0].invocation_id
    )
    await ask(runner, "third")
    prompt = model.prompts[-1]
    assert "first" in prompt and "second" not in prompt and "third" in prompt
    session = await service.get_session(app_name="app", user_id="u", session_id="s")
    assert session is not None
    assert first[0].id in [event.id for event in session.events]
    assert len(session.events) == 7  # nothing is removed: the rewind is an event
    await runner.close()


async def test_memory_answers_in_the_next_session(service: QuipuSessionService) -> None:
    memory = QuipuMemoryService(service.store)
    await service.create_session(app_name="app", user_id="u", session_id="s")
    model = ScriptedLlm.of(text("I will remember your teal bicycle"))
    runner = make(service, model, memory_service=memory)
    await ask(runner, "my bicycle is teal")
    found = await memory.search_memory(app_name="app", user_id="u", query="which bicycle colour?")
    words = {entry.content.parts[0].text for entry in found.memories if entry.content.parts}
    assert words == {"my bicycle is teal", "I will remember your teal bicycle"}
    await runner.close()
