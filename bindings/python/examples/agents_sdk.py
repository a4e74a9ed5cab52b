"""A conversation of the OpenAI Agents SDK that survives a restart, without a model: run it twice
with the same file.

python agents_sdk.py conversation.db "hello"
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from quipu.agents import QuipuSession


class Echo(Model):
    """A model's place: it says what it heard."""

    async def get_response(
        self, system_instructions: str | None, input: Any, *more: Any, **named: Any
    ) -> Any:
        said = [item["content"] for item in input if item.get("role") == "user"]
        words = f"You said: {said[-1]}. I have heard {len(said)} messages of yours."
        message = ResponseOutputMessage(
            id="m",
            type="message",
            role="assistant",
            status="completed",
            content=[ResponseOutputText(type="output_text", text=words, annotations=[])],
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *more: Any, **named: Any) -> Any:
        raise NotImplementedError("this model does not stream")


async def main(path: str, words: str) -> None:
    set_tracing_disabled(True)
    agent = Agent(name="bot", model=Echo())
    async with QuipuSession("talk", path) as session:
        result = await Runner.run(agent, words, session=session)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
