#!/usr/bin/env python3
"""The Python package against what people would otherwise use: ADK's DatabaseSessionService and
SqliteSessionService, and the OpenAI Agents SDK's SQLiteSession, in one run.

    make bench-python            or, in the tests' environment: python bench/python/bench.py

Sides take turns in short blocks, so that a busy machine is busy for all: a ratio is the median,
over the blocks, of the ratio of the sides' medians in a block. Times are medians of single calls,
in microseconds, in wall time and CPU time: the second is what a quiet machine would show, but
for waits. Bars are by the clock.

"normal": both sides at WAL and synchronous=NORMAL. "default": each as it ships; ADK has a rollback
journal and FULL, SQLiteSession and quipu have WAL and FULL. The floor of a read is a list of
pydantic's own Event.model_validate_json over the same bytes. Ends with 1 when a bar is not held;
--json FILE keeps the figures."""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import json
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from agents.memory.sqlite_session import SQLiteSession
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import quipu
from quipu import _call
from quipu._native import lib
from quipu.adk import QuipuSessionService
from quipu.agents import QuipuSession

SIZES = (10, 1_000, 10_000)
BLOCKS = 25
APPENDS = 8  # in a block
READS = 5  # the same, of short ones
READS_LONG = {1_000: 3, 10_000: 1}  # the same, of everything
BLOCKS_LONG = 9  # of reads of everything
BLOCKS_LONGEST = 3  # of such with ADK and 10,000 events
SESSIONS = {10: 20}  # of a size; appends go round
TEXT = ("xxxxxxx " * 38)[:300]
TOOL_OUT = "r" * 480
APP, USER = "app", "user"
LAST = 50
FLAT_MAX = 1.5  # the last 50 of 10,000 against those of 1,000

# (what, of which peer, mode) -> the least ratio of the peer's time to ours.
FASTER = {
    ("adk append", "database", "normal"): 10.0,
    ("adk append", "sqlite", "normal"): 10.0,
    ("adk append", "database", "default"): 4.0,
    ("adk append", "sqlite", "default"): 4.0,
    ("items append", "sqlitesession", "normal"): 2.0,
    ("items append", "sqlitesession", "default"): 1.1,
    ("items last 50", "sqlitesession", "normal"): 2.0,
    ("items all", "sqlitesession", "normal"): 2.0,
}
# Only for 10,000 events.
FASTER_LARGE = {
    ("adk last 50", "database", "normal"): 2.0,
    ("adk last 50", "sqlite", "normal"): 8.0,
}
FLOOR_MAX = 1.3  # our reads against the floor

_connect = sqlite3.connect
_level: str | None = None


def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    """What peers open their files with: at the level that the mode wants."""
    connection = _connect(*args, **kwargs)
    if _level is not None:
        connection.execute(f"PRAGMA synchronous={_level}")
    return connection


sqlite3.connect = connect  # type: ignore[assignment]
sqlite3.dbapi2.connect = connect  # type: ignore[attr-defined]


def set_mode(mode: str) -> None:
    global _level
    _level = {"normal": "NORMAL", "default": None, "fill": "OFF"}[mode]


def event(number: int) -> Event:
    """One event in four carries a tool's answer."""
    parts = [types.Part(text=TEXT)]
    if number & 3 == 3:
        response = types.FunctionResponse(id="call_1", name="search", response={"result": TOOL_OUT})
        parts.append(types.Part(function_response=response))
    return Event(
        author="agent",
        invocation_id="inv",
        content=types.Content(role=("user", "model")[number & 1], parts=parts),
        timestamp=time.time(),
    )


def items(number: int) -> list[Any]:
    role = ("user", "assistant")[number & 1]
    made: list[Any] = [{"role": role, "content": TEXT}]
    if number & 3 == 3:
        output = json.dumps({"result": TOOL_OUT})
        made.append({"type": "function_call_output", "call_id": "call_1", "output": output})
    return made


def keys(size: int) -> list[str]:
    return [f"s{size}-{number}" for number in range(SESSIONS.get(size, 1))]


class AdkSide:
    """A session service under measurement."""

    def __init__(self, name: str, service: Any) -> None:
        self.name = name
        self.service = service
        self.sessions: dict[str, Any] = {}

    async def attach(self, key: str) -> None:
        self.sessions[key] = await self.get(key)

    async def get(self, key: str, recent: int | None = None) -> Any:
        config = None if recent is None else GetSessionConfig(num_recent_events=recent)
        return await self.service.get_session(
            app_name=APP, user_id=USER, session_id=key, config=config
        )

    async def append(self, key: str, made: Event) -> None:
        await self.service.append_event(self.sessions[key], made)

    async def reopen(self) -> None:
        """Let go of connections that were opened to fill the file, at another level."""
        if hasattr(self.service, "db_engine"):
            await self.service.db_engine.dispose()

    async def close(self) -> None:
        if hasattr(self.service, "close"):
            await self.service.close()


def fill_rows(path: pathlib.Path, key: str, events: list[Event], as_text: bool) -> None:
    """Rows as ADK's services write them, at once: appending 10,000 would take minutes."""
    rows = []
    for made in events:
        when: Any = made.timestamp
        if as_text:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(when)) + f".{when % 1:.6f}"[2:]
        data = made.model_dump(mode="json", exclude_none=True)
        rows.append((made.id, APP, USER, key, made.invocation_id, when, json.dumps(data)))
    with _connect(path) as database:
        database.executemany(
            "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp,"
            " event_data) VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    database.close()


async def adk_sides(folder: pathlib.Path, mode: str) -> list[AdkSide]:
    """Three services with the same sessions."""
    files = {name: folder / f"{name}-{mode}.db" for name in ("quipu", "database", "sqlite")}
    durability: Any = "relaxed" if mode == "normal" else "full"
    if mode == "normal":
        for name in ("database", "sqlite"):
            with _connect(files[name]) as database:
                database.execute("PRAGMA journal_mode=WAL")
            database.close()
    sides = [
        AdkSide("quipu", QuipuSessionService(files["quipu"], durability=durability)),
        AdkSide("database", DatabaseSessionService(f"sqlite+aiosqlite:///{files['database']}")),
        AdkSide("sqlite", SqliteSessionService(str(files["sqlite"]))),
    ]
    for size in SIZES:
        for key in keys(size):
            events = [event(number) for number in range(size)]
            for side in sides:
                session = await side.service.create_session(
                    app_name=APP, user_id=USER, session_id=key
                )
                if side.name == "quipu":
                    for made in events:
                        await side.service.append_event(session, made)
                else:
                    fill_rows(files[side.name], key, events, side.name == "database")
            for side in sides:
                await side.attach(key)
                assert len(side.sessions[key].events) == size, side.name
    return sides


Key = tuple[str, str, str, int]  # what, side, mode, events


class Figures:
    """Times of single calls, in blocks."""

    def __init__(self) -> None:
        self._blocks: dict[Key, list[list[tuple[float, float]]]] = {}

    def note(self, key: Key, block: int, value: tuple[float, float]) -> None:
        blocks = self._blocks.setdefault(key, [])
        if len(blocks) <= block:
            blocks.append([])
        blocks[block].append(value)

    def keys(self) -> list[Key]:
        return list(self._blocks)

    def median(self, key: Key, column: int) -> float:
        return statistics.median(value[column] for block in self._blocks[key] for value in block)

    def ratio(self, above: Key, below: Key, column: int) -> float:
        """The median over blocks that were measured one beside the other."""
        return statistics.median(
            statistics.median(value[column] for value in one)
            / statistics.median(value[column] for value in other)
            for one, other in zip(self._blocks[above], self._blocks[below], strict=True)
        )


async def timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """By the clock, and by the processor over all threads."""
    cpu = time.process_time_ns()
    began = time.perf_counter_ns()
    await call()
    took = time.perf_counter_ns() - began
    return took / 1e3, (time.process_time_ns() - cpu) / 1e3


# A side of a comparison: makes the call with a number, which is then measured.
Side = tuple[Key, Callable[[int], Callable[[], Awaitable[Any]]]]


async def take_turns(figures: Figures, sides: list[Side], blocks: int, calls: int) -> None:
    """Measure sides in blocks, each of them first as often as any other."""
    for block in range(blocks):
        for turn in range(len(sides)):
            key, make = sides[(block + turn) % len(sides)]
            for number in range(calls):
                figures.note(key, block, await timed(make(number)))


def again(call: Callable[[], Awaitable[Any]]) -> Callable[[int], Callable[[], Awaitable[Any]]]:
    """The same call for every number."""
    return lambda number: call


async def adk_appends(sides: list[AdkSide], mode: str, figures: Figures) -> None:
    for size in SIZES:
        names = keys(size)

        def make(side: AdkSide, number: int) -> Callable[[], Awaitable[Any]]:
            return functools.partial(side.append, names[number % len(names)], event(number))

        turns: list[Side] = [
            (("adk append", side.name, mode, size), functools.partial(make, side))
            for side in sides
        ]
        await take_turns(figures, turns, BLOCKS, APPENDS)


async def floor(texts: list[str]) -> list[Event]:
    return [Event.model_validate_json(text) for text in texts]


def adk_readers(sides: list[AdkSide], what: str, size: int, recent: int | None) -> list[Side]:
    """All services, and the floor over the bytes that ours has."""
    key = keys(size)[0]
    names = [APP.encode(), USER.encode(), key.encode()]
    wanted = [-1 if recent is None else recent, 0]
    raw = _call.run(lib.QPY_ADK_GET, sides[0].service.store._handle, names, wanted).texts[3]
    texts = [json.dumps(one) for one in json.loads(raw or b"[]")]
    made: list[Side] = [
        ((what, side.name, "normal", size), again(functools.partial(side.get, key, recent)))
        for side in sides
    ]
    made.append(((what, "floor", "normal", size), again(functools.partial(floor, texts))))
    return made


async def adk_reads(sides: list[AdkSide], figures: Figures) -> None:
    for size in SIZES:
        last = adk_readers(sides, "adk last 50", size, LAST)
        await take_turns(figures, last, BLOCKS, READS)
        blocks = {SIZES[0]: BLOCKS, SIZES[-1]: BLOCKS_LONGEST}.get(size, BLOCKS_LONG)
        calls = READS_LONG.get(size, READS)
        await take_turns(figures, adk_readers(sides, "adk all", size, None), blocks, calls)
    flat = [turn for size in SIZES[1:] for turn in adk_readers(sides[:1], "adk flat", size, LAST)]
    await take_turns(figures, flat[::2], BLOCKS, READS)  # without the floors


Pairs = dict[str, dict[str, Any]]  # of a session's key: its two sides, by their names


def items_turns(
    pairs: Pairs, what: str, mode: str, size: int, call: Callable[[Any, int], Any]
) -> list[Side]:
    """Both sides; `call` makes a call of a session."""
    names = keys(size)

    def make(side: str, number: int) -> Callable[[], Awaitable[Any]]:
        made: Callable[[], Awaitable[Any]] = call(pairs[names[number % len(names)]][side], number)
        return made

    return [
        ((what, side, mode, size), functools.partial(make, side))
        for side in ("quipu", "sqlitesession")
    ]


def items_get(limit: int | None, session: Any, number: int) -> Callable[[], Awaitable[Any]]:
    return functools.partial(session.get_items, limit)


def items_add(session: Any, number: int) -> Callable[[], Awaitable[Any]]:
    return functools.partial(session.add_items, items(number))


async def items_part(folder: pathlib.Path, mode: str, figures: Figures) -> None:
    durability: Any = "relaxed" if mode == "normal" else "full"
    store = quipu.AsyncStore(folder / f"items-{mode}.db", durability=durability)
    peer = folder / f"sqlitesession-{mode}.db"
    pairs: Pairs = {}
    for size in SIZES:
        batch = [items(number)[0] for number in range(size)]
        for key in keys(size):
            pairs[key] = {
                "quipu": QuipuSession(key, store),
                "sqlitesession": SQLiteSession(key, peer),
            }
            for session in pairs[key].values():
                await session.add_items(batch)
    if mode == "normal":
        last = functools.partial(items_get, LAST)
        for size in SIZES:
            turns = items_turns(pairs, "items last 50", mode, size, last)
            await take_turns(figures, turns, BLOCKS, READS)
            turns = items_turns(pairs, "items all", mode, size, functools.partial(items_get, None))
            blocks = BLOCKS if size == SIZES[0] else BLOCKS_LONG
            await take_turns(figures, turns, blocks, READS_LONG.get(size, READS))
        flat = [items_turns(pairs, "items flat", mode, size, last)[0] for size in SIZES[1:]]
        await take_turns(figures, flat, BLOCKS, READS)
    for size in SIZES:
        turns = items_turns(pairs, "items append", mode, size, items_add)
        await take_turns(figures, turns, BLOCKS, APPENDS)
    for both in pairs.values():
        both["sqlitesession"].close()
    await store.close()


def judge(figures: Figures, column: int) -> list[tuple[str, float, float, bool]]:
    """Rows of (what, ratio, bar, whether it is held)."""
    rows = []
    for bars, sizes in ((FASTER, SIZES), (FASTER_LARGE, SIZES[-1:])):
        for (what, peer, mode), bar in bars.items():
            for size in sizes:
                ratio = figures.ratio(
                    (what, peer, mode, size), (what, "quipu", mode, size), column
                )
                text = f"{what}, {mode}, {size}: times {peer}'s speed"
                rows.append((text, ratio, bar, ratio >= bar))
    for what in ("adk last 50", "adk all"):
        for size in SIZES:
            ratio = figures.ratio(
                (what, "quipu", "normal", size), (what, "floor", "normal", size), column
            )
            rows.append((f"{what}, {size}: times the floor", ratio, FLOOR_MAX, ratio <= FLOOR_MAX))
    for what in ("adk flat", "items flat"):
        ratio = figures.ratio(
            (what, "quipu", "normal", SIZES[2]), (what, "quipu", "normal", SIZES[1]), column
        )
        text = f"{what}: the last 50 of 10,000 against those of 1,000"
        rows.append((text, ratio, FLAT_MAX, ratio <= FLAT_MAX))
    return rows


async def measure(folder: pathlib.Path) -> Figures:
    figures = Figures()
    for mode in ("normal", "default"):
        set_mode("fill")
        sides = await adk_sides(folder, mode)
        set_mode(mode)
        for side in sides:
            await side.reopen()
        if mode == "normal":
            await adk_reads(sides, figures)
        await adk_appends(sides, mode, figures)
        for side in sides:
            await side.close()
        del sides
        gc.collect()
        await items_part(folder, mode, figures)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=f"quipu-{uuid.uuid4().hex[:8]}-") as folder:
        figures = asyncio.run(measure(pathlib.Path(folder)))
    print(f"{'what':16} {'mode':8} {'events':>7}  median of one call, us (of the processor)")
    shown: dict[tuple[str, str, int], list[str]] = {}
    for key in figures.keys():
        what, side, mode, size = key
        text = f"{side} {figures.median(key, 0):.0f} ({figures.median(key, 1):.0f})"
        shown.setdefault((what, mode, size), []).append(text)
    for (what, mode, size), cells in shown.items():
        print(f"{what:16} {mode:8} {size:7}  {', '.join(cells)}")
    print("\n           clock processor")
    rows = judge(figures, 0)
    for (text, ratio, bar, held), (_, by_cpu, _, _) in zip(rows, judge(figures, 1), strict=True):
        print(f"{'held' if held else 'MISSED':7} {ratio:8.2f} {by_cpu:8.2f} (bar {bar})  {text}")
    if args.json is not None:
        kept = [[*key, figures.median(key, 0), figures.median(key, 1)] for key in figures.keys()]
        args.json.write_text(json.dumps({"medians": kept, "bars": rows}, indent=1))
    missed = sum(not held for *_, held in rows)
    print(f"\n{len(rows) - missed} bars held, {missed} missed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
