"""Three frameworks keep a conversation in one file, without a model: run it twice.

python histories.py conversations.db
"""

from __future__ import annotations

import asyncio
import sys

from agent_framework import Message
from langchain_core.messages import HumanMessage
from llama_index.core.llms import ChatMessage

import quipu
from quipu.agent_framework import QuipuHistoryProvider
from quipu.langchain import QuipuChatMessageHistory
from quipu.llama_index import QuipuChatStore


async def main(path: str) -> None:
    async with quipu.AsyncStore(path) as store:
        history = QuipuChatMessageHistory("talk", store)
        await history.aadd_messages([HumanMessage("hello LangChain")])
        print("LangChain:", len(await history.aget_messages()))

        chats = QuipuChatStore(store)
        chats.add_message("talk", ChatMessage("hello LlamaIndex"))
        print("LlamaIndex:", len(chats.get_messages("talk")))

        provider = QuipuHistoryProvider(store)
        await provider.save_messages("talk", [Message("user", ["hello Agent Framework"])])
        print("Agent Framework:", len(await provider.get_messages("talk")))
        print("found:", sorted({hit.session_key for hit in (await store.search("hello")).hits}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
