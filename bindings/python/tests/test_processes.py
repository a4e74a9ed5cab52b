"""Many tasks, many processes, fork, and memory that stays flat."""

from __future__ import annotations

import asyncio
import gc
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

import quipu
from conftest import LONG
from quipu import AsyncStore, Message, Store
from quipu.adk import QuipuSessionService
from quipu.agents import QuipuSession
from test_adk_contract import create, read, says

TASKS = 32
PROCESSES = 8
FORKS = 50 if LONG else 8
ADK_PROCESSES = 8 if LONG else 2
EACH = 200 if LONG else 20
CALLS = 1_000_000 if LONG else 6_000
GROWTH_MAX = 8 * 1024 * 1024  # bytes; a leak of a call's answer would be larger

# Without ADK, whose import costs seconds: the calls are the same ones.
WORKER = """
    import asyncio, sys
    from quipu import AsyncStore, Message

    async def main(path, name, each):
        async with AsyncStore(path) as store:
            await store.create(name)
            for number in range(each):
                for key in (name, "shared"):
                    await store.append(key, Message("user", f"{name} {number}"))

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

ADK_WORKER = """
    import asyncio, sys
    from google.adk.events.event import Event
    from google.genai import types
    from quipu.adk import QuipuSessionService

    async def main(path, name, each):
        async with QuipuSessionService(path, adk_rebase=True) as service:
            session = await service.get_session(app_name="app", user_id="u", session_id="s")
            for number in range(each):
                await service.append_event(session, Event(
                    author=name, content=types.Content(
                        role="user", parts=[types.Part(text=f"{name} {number}")])))

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def run_workers(worker: str, path: pathlib.Path, count: int) -> list[list[str]]:
    """Processes that write at once; what each of them should have written."""
    code = textwrap.dedent(worker)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, path, f"p{number}", str(EACH)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    errors = [process.communicate()[1] for process in workers]
    assert [process.returncode for process in workers] == [0] * count, "\n".join(errors)
    return [[f"p{number} {turn}" for turn in range(EACH)] for number in range(count)]


def check(texts: list[str], wanted: list[list[str]]) -> None:
    """Nothing is lost, and what one process wrote stands in its order."""
    assert len(texts) == sum(map(len, wanted))
    for number, own in enumerate(wanted):
        assert [text for text in texts if text.split()[0] == f"p{number}"] == own


async def test_tasks_lose_no_event(path: pathlib.Path) -> None:
    async with QuipuSessionService(path, adk_rebase=True) as service:
        await create(service, session_id="shared")

        async def work(name: str) -> None:
            session = await read(service, "shared")
            own = await create(service, session_id=name)
            for number in range(EACH):
                await service.append_event(session, says(f"{name} {number}"))
                await service.append_event(own, says(f"{name} {number}"))

        await asyncio.gather(*(work(f"t{number}") for number in range(TASKS)))
        assert len((await read(service, "shared")).events) == TASKS * EACH
        for number in range(TASKS):
            assert len((await read(service, f"t{number}")).events) == EACH


def test_processes_lose_no_message(store: Store, path: pathlib.Path) -> None:
    store.create("shared")
    wanted = run_workers(WORKER, path, PROCESSES)
    check([message.content for message in store.get("shared").messages], wanted)
    for number, own in enumerate(wanted):
        assert [message.content for message in store.get(f"p{number}").messages] == own


async def test_processes_of_adk_lose_no_event(path: pathlib.Path) -> None:
    async with QuipuSessionService(path) as service:
        await create(service, session_id="s")
        wanted = await asyncio.to_thread(run_workers, ADK_WORKER, path, ADK_PROCESSES)
        events = (await read(service, "s")).events
        check([event.content.parts[0].text for event in events], wanted)  # type: ignore


def child(work: Callable[[], None]) -> int:
    """Run something in a forked child; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_has_to_open_anew(path: pathlib.Path) -> None:
    store = Store(path)
    store.create("k")
    twin = AsyncStore(path)
    asyncio.run(twin.get("k"))

    def work() -> None:
        with pytest.raises(quipu.Misuse, match="before os.fork"):
            store.append("k", Message("user", "from the child"))
        with pytest.raises(quipu.Misuse, match="before os.fork"):
            asyncio.run(twin.append("k", Message("user", "from the child")))
        store.close()
        with Store(path) as anew:
            anew.append("k", Message("user", "from the child, properly"))

    assert child(work) == 0
    assert [message.content for message in store.get("k").messages] == ["from the child, properly"]
    store.append("k", Message("user", "from the parent"))
    store.close()
    asyncio.run(twin.close())


def test_a_child_of_a_writing_parent_has_a_store_of_its_own(path: pathlib.Path) -> None:
    over = threading.Event()
    written = []
    with Store(path) as store:
        store.create("k")

        def write() -> None:
            while not over.is_set():
                written.append(store.append("parent", "still here", create=True))

        async def work() -> None:
            async with AsyncStore(path) as anew:
                await anew.append("k", "from a child")
            with Store(path) as anew:
                anew.append("k", "from a child")

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        codes = [child(lambda: asyncio.run(work())) for _ in range(FORKS)]
        over.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * FORKS
    with Store(path) as store:
        assert len(store.get("k").messages) == 2 * FORKS
        assert len(store.get("parent").messages) == len(written)


def test_what_a_child_wrote_stays_when_its_parent_closes(path: pathlib.Path) -> None:
    store = Store(path)
    store.create("k")
    opened, closed = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        anew = Store(path)
        os.write(opened[1], b"x")
        os.read(closed[0], 1)
        anew.append("k", "from the child")
        os._exit(0)
    assert os.read(opened[0], 1) == b"x"
    store.close()
    os.write(closed[1], b"x")
    assert os.waitpid(pid, 0)[1] == 0
    with Store(path) as store:
        assert [message.content for message in store.get("k").messages] == ["from the child"]
    for end in (*opened, *closed):
        os.close(end)


def resident() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_memory_stays_flat(path: pathlib.Path) -> None:
    if not pathlib.Path("/proc/self/statm").exists():
        pytest.skip("no /proc to read the resident size from")
    async with AsyncStore(path, durability="relaxed") as store:
        service = QuipuSessionService(store)
        items = QuipuSession("s", store)
        await store.create("k")
        await store.append("k", [Message("user", "x" * 300) for _ in range(20)])
        await items.add_items([{"role": "user", "content": "y" * 300}] * 20)
        session = await create(service, session_id="s")
        for _ in range(20):
            await service.append_event(session, says("z" * 300))
        repeated = Message("user", "once", event_id="e")

        async def calls(count: int) -> None:
            for _ in range(count // 6):
                await store.get("k", last=10)
                await store.append("k", repeated)
                await service.append_event(session, session.events[-1])
                await read(service, "s", num_recent_events=5)
                await items.get_items(10)
                with pytest.raises(quipu.NotFound):
                    await store.get("missing")

        await calls(CALLS // 4)
        before = resident()
        await calls(CALLS)
        assert resident() - before < GROWTH_MAX


async def test_stores_that_are_dropped_are_closed(path: pathlib.Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not pathlib.Path("/proc/self/fd").exists():
        pytest.skip("no /proc to count descriptors in")
    Store(path).create("k")
    before = count()
    for _ in range(50):
        Store(path).get("k")
        async with AsyncStore(path) as store:
            await store.get("k")
    assert count() <= before + 4  # the port of this loop


def test_event_loops_with_cancelled_calls_leave_no_descriptors(path: pathlib.Path) -> None:
    """A call that is cancelled goes on for a while, and its loop is gone before it ends."""

    def count() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    if not pathlib.Path("/proc/self/fd").exists():
        pytest.skip("no /proc to count descriptors in")
    store = AsyncStore(path)

    async def cancelled() -> None:
        waiting = asyncio.ensure_future(anext(store.tail("k", timeout=0.2)))
        await asyncio.sleep(0.01)  # its call has begun
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async def nothing() -> None:
        await store.exists("k")

    asyncio.run(store.create("k"))
    asyncio.run(cancelled())
    before = count()
    for _ in range(20):
        asyncio.run(cancelled())
    for _ in range(100):
        asyncio.run(nothing())
        if count() <= before:
            break
        time.sleep(0.01)
    assert count() <= before


def test_event_loops_that_are_dropped_leave_no_threads(path: pathlib.Path) -> None:
    if not pathlib.Path("/proc/self/task").exists():
        pytest.skip("no /proc to count threads in")
    store = AsyncStore(path)
    asyncio.run(store.create("k"))

    async def many() -> None:
        await asyncio.gather(*(store.get("k") for _ in range(8)))

    def settled(most: int) -> bool:
        for _ in range(500):
            if len(os.listdir("/proc/self/task")) <= most:
                return True
            time.sleep(0.005)
        return False

    before = len(os.listdir("/proc/self/task"))
    for _ in range(10):
        asyncio.run(many())
    assert settled(before + 2)
    store._handle.close()
