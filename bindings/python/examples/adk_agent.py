"""An ADK agent whose conversation survives a restart: run it twice with the same file.

python adk_agent.py conversation.db "hello"
"""

from __future__ import annotations

import asyncio
import pathlib
import sys

from google.adk.runners import Runner
from google.genai import types

from quipu.adk import QuipuSessionService

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "adk_web"))
from scripted_agent.agent import root_agent  # noqa: E402  (it lies in the folder named above)

APP, USER, SESSION = "example", "me", "talk"


async def main(path: str, words: str) -> None:
    async with QuipuSessionService(path) as service:
        session = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        if session is None:
            await service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
        runner = Runner(app_name=APP, agent=root_agent, session_service=service)
        message = types.Content(role="user", parts=[types.Part(text=words)])
        async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
            for part in (event.content.parts if event.content else None) or []:
                print(part.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
