"""A transcript of the Claude Agent SDK in a store, read back by the SDK, without a model: run it
twice.

python claude_transcript.py transcripts.db "hello"

An agent takes the same store: ClaudeAgentOptions(session_store=store).
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

from claude_agent_sdk import (
    SessionKey,
    get_session_messages_from_store,
    project_key_for_directory,
)

from quipu.claude import QuipuSessionStore

SESSION = str(uuid.uuid5(uuid.NAMESPACE_URL, "quipu:example"))


def entry(role: str, words: str, parent: str | None) -> Any:
    """An entry as the SDK's program writes it."""
    made: Any = {
        "type": role,
        "uuid": str(uuid.uuid4()),
        "parentUuid": parent,
        "sessionId": SESSION,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": role, "content": words},
    }
    return made


async def main(path: str, words: str) -> None:
    async with QuipuSessionStore(path) as store:
        before = await get_session_messages_from_store(store, SESSION)
        number = len(before) // 2 + 1
        answer = f"You said: {words}. I have heard {number} messages of yours."
        said = entry("user", words, before[-1].uuid if before else None)
        key = SessionKey(project_key=project_key_for_directory(), session_id=SESSION)
        await store.append(key, [said, entry("assistant", answer, said.get("uuid"))])
    print(answer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
