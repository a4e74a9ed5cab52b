"""One of three programs, in C, Go and Python, that use one session of one store at the same time:
each waits for its turn, appends a line, and exits when it has read everyone's lines.

    python together.py STORE NAME TURN TURNS
"""

from __future__ import annotations

import asyncio
import sys

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from quipu.adk import QuipuSessionService

APP, USER, SESSION = "together", "all", "one"


async def wait_for(service: QuipuSessionService, events: int) -> Session:
    """Read the session until it has `count` events."""
    while True:
        session = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        if session is not None and len(session.events) >= events:
            return session
        if session is None and events == 0:
            await service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
        await asyncio.sleep(0.005)


async def main(path: str, name: str, turn: str, turns: str) -> None:
    async with QuipuSessionService(path) as service:
        content = types.Content(role="model", parts=[types.Part(text=f"{name} was here")])
        event = Event(author=name, invocation_id="together", content=content)
        await service.append_event(await wait_for(service, int(turn)), event)
        for event in (await wait_for(service, int(turns))).events:
            for part in (event.content.parts if event.content else None) or []:
                print(part.text)


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:5]), 60))
