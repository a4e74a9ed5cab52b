"""Event loops: trio's, and anyio over either; without one an error names what to use."""

from __future__ import annotations

import pathlib

import anyio
import pytest
import trio

import quipu
from quipu import AsyncStore


async def talk(path: pathlib.Path) -> list[str]:
    async with AsyncStore(path) as store:
        await store.append("talk", "a", create=True)
        await store.append("talk", {"role": "assistant", "content": "b"})
        await store.export_to(path.with_suffix(".jsonl"))
        assert await store.exists("talk")
        assert [session.key async for session in store] == ["talk"]
        with pytest.raises(quipu.NotFound):
            await store.get("none")
        return [message.content async for message in store.tail("talk", timeout=0)]


def test_trio_runs_the_same_calls(path: pathlib.Path) -> None:
    assert trio.run(talk, path) == ["a", "b"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio_runs_the_same_calls(path: pathlib.Path, backend: str) -> None:
    assert anyio.run(talk, path, backend=backend) == ["a", "b"]


def test_a_tail_of_trio_is_left_when_its_time_is_up(path: pathlib.Path) -> None:
    async def main() -> int:
        found = 0
        async with AsyncStore(path) as store:
            await store.append("talk", "a", create=True)
            with trio.move_on_after(0.5):
                async for _ in store.tail("talk"):
                    found += 1
            await store.append("talk", "b")  # the store is as good as before
        return found

    assert trio.run(main) == 1


def test_tasks_of_trio_share_a_store(path: pathlib.Path) -> None:
    async def main() -> int:
        async with AsyncStore(path) as store:
            await store.create("talk")
            async with trio.open_nursery() as nursery:
                for number in range(32):
                    nursery.start_soon(store.append, "talk", f"{number}")
            return len((await store.get("talk")).messages)

    assert trio.run(main) == 32


def test_without_an_event_loop_the_error_names_what_to_use(path: pathlib.Path) -> None:
    store = AsyncStore(path)
    call = store.get("talk")
    with pytest.raises(RuntimeError, match="asyncio or trio.*quipu.Store needs none"):
        call.send(None)
