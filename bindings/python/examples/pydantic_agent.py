"""A Pydantic AI conversation that survives a restart, without a model: run it twice.

python pydantic_agent.py conversation.db "hello"
"""

from __future__ import annotations

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

from quipu.pydantic_ai import QuipuConversationStore


async def main(path: str, words: str) -> None:
    async with QuipuConversationStore(path) as store:
        talk = await store.load("talk") or Conversation(conversation_id="talk")
        number = len(talk.messages) // 2 + 1
        model = TestModel(
            custom_output_text=f"You said: {words}. I have heard {number} messages of yours."
        )
        result = await Agent(model).run(words, conversation=talk)
        await store.save(result)
    print(result.output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
