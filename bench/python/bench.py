#!/usr/bin/env python3
"""The Python package against what people would otherwise use: ADK's DatabaseSessionService and
SqliteSessionService, and the OpenAI Agents SDK's SQLiteSession, in one run.

    make bench-python            or, in the tests' environment: python bench/python/bench.py

Sides take turns in blocks, so that a busy machine is busy for all; figures are medians of single
calls, in microseconds, by the clock and by the processor: the second tells what a quiet machine
would, but for waits. Bars are by the clock.

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
BLOCKS = 10
APPENDS = 20  # in a block
READS = 10  # the same, of short ones
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


Figures = dict[tuple[str, str, str, int], list[tuple[float, float]]]
Medians = dict[tuple[str, str, str, int], float]


async def timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """By the clock, and by the processor over all threads."""
    cpu = time.process_time_ns()
    began = time.perf_counter_ns()
    await call()
    took = time.perf_counter_ns() - began
    return took / 1e3, (time.process_time_ns() - cpu) / 1e3


def note(
    figures: Figures, what: str, side: str, mode: str, size: int, value: tuple[float, float]
) -> None:
    figures.setdefault((what, side, mode, size), []).append(value)


async def adk_appends(sides: list[AdkSide], mode: str, figures: Figures) -> None:
    for size in SIZES:
        names = keys(size)
        for block in range(BLOCKS):
            for turn in range(len(sides)):
                side = sides[(block + turn) % len(sides)]
                for number in range(APPENDS):
                    key = names[number % len(names)]
                    made = event(number)
                    took = await timed(functools.partial(side.append, key, made))
                    note(figures, "adk append", side.name, mode, size, took)


async def floor(texts: list[str]) -> list[Event]:
    return [Event.model_validate_json(text) for text in texts]


async def adk_reads(sides: list[AdkSide], mode: str, figures: Figures) -> None:
    for size in SIZES:
        key = keys(size)[0]
        for what, recent in (("adk last 50", LAST), ("adk all", None)):
            handle = sides[0].service.store._handle
            wanted = [-1 if recent is None else recent, 0]
            names = [APP.encode(), USER.encode(), key.encode()]
            raw = _call.run(lib.QPY_ADK_GET, handle, names, wanted).texts[3] or b"[]"
            texts = [json.dumps(one) for one in json.loads(raw)]
            rounds = 3 if recent is None and size > 1_000 else 9
            turns: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
                (side.name, functools.partial(side.get, key, recent)) for side in sides
            ]
            turns.append(("floor", functools.partial(floor, texts)))
            for block in range(rounds):
                for turn in range(len(turns)):
                    name, call = turns[(block + turn) % len(turns)]
                    for _ in range(READS if recent is not None or size == SIZES[0] else 1):
                        note(figures, what, name, mode, size, await timed(call))


async def items_part(folder: pathlib.Path, mode: str, figures: Figures) -> None:
    durability: Any = "relaxed" if mode == "normal" else "full"
    store = quipu.AsyncStore(folder / f"items-{mode}.db", durability=durability)
    peer = folder / f"sqlitesession-{mode}.db"
    for size in SIZES:
        names = keys(size)
        pairs = {key: (QuipuSession(key, store), SQLiteSession(key, peer)) for key in names}
        for mine, theirs in pairs.values():
            batch = [items(number)[0] for number in range(size)]
            await mine.add_items(batch)
            await theirs.add_items(batch)
        for block in range(BLOCKS):
            for turn in range(2):
                side = (block + turn) % 2
                name = ("quipu", "sqlitesession")[side]
                for number in range(APPENDS):
                    session: Any = pairs[names[number % len(names)]][side]
                    made = items(number)
                    took = await timed(functools.partial(session.add_items, made))
                    note(figures, "items append", name, mode, size, took)
        both: Any = pairs[names[0]]
        for what, limit in (("items last 50", LAST), ("items all", None)):
            for block in range(9):
                for turn in range(2):
                    side = (block + turn) % 2
                    name = ("quipu", "sqlitesession")[side]
                    for _ in range(READS if limit is not None or size == SIZES[0] else 1):
                        took = await timed(functools.partial(both[side].get_items, limit))
                        note(figures, what, name, mode, size, took)
        for _, theirs in pairs.values():
            theirs.close()
    await store.close()


def judge(medians: Medians) -> list[tuple[str, float, float, bool]]:
    """Rows of (what, ratio, bar, whether it is held)."""
    rows = []

    def add(what: str, ratio: float, bar: float, held: bool) -> None:
        rows.append((what, ratio, bar, held))

    for bars, sizes in ((FASTER, SIZES), (FASTER_LARGE, SIZES[-1:])):
        for (what, peer, mode), bar in bars.items():
            for size in sizes:
                mine = medians[what, "quipu", mode, size]
                ratio = medians[what, peer, mode, size] / mine
                add(f"{what}, {mode}, {size}: times {peer}'s speed", ratio, bar, ratio >= bar)
    for what in ("adk last 50", "adk all"):
        for size in SIZES:
            mine = medians[what, "quipu", "normal", size]
            ratio = mine / medians[what, "floor", "normal", size]
            add(f"{what}, {size}: times the floor", ratio, FLOOR_MAX, ratio <= FLOOR_MAX)
    for what in ("adk last 50", "items last 50"):
        large = medians[what, "quipu", "normal", SIZES[2]]
        ratio = large / medians[what, "quipu", "normal", SIZES[1]]
        add(f"{what}: 10,000 against 1,000", ratio, FLAT_MAX, ratio <= FLAT_MAX)
    return rows


async def measure(folder: pathlib.Path) -> Figures:
    figures: Figures = {}
    for mode in ("normal", "default"):
        set_mode("fill")
        sides = await adk_sides(folder, mode)
        set_mode(mode)
        if mode == "normal":
            await adk_reads(sides, mode, figures)
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
    clock: Medians = {}
    cpu: Medians = {}
    for key, values in figures.items():
        clock[key] = statistics.median(value[0] for value in values)
        cpu[key] = statistics.median(value[1] for value in values)
    print(f"{'what':16} {'mode':8} {'events':>7}  median of one call, us (of the processor)")
    shown: dict[tuple[str, str, int], list[str]] = {}
    for (what, side, mode, size), value in clock.items():
        text = f"{side} {value:.0f} ({cpu[what, side, mode, size]:.0f})"
        shown.setdefault((what, mode, size), []).append(text)
    for (what, mode, size), cells in shown.items():
        print(f"{what:16} {mode:8} {size:7}  {', '.join(cells)}")
    print("\n           clock processor")
    rows = judge(clock)
    for (text, ratio, bar, held), (_, by_cpu, _, _) in zip(rows, judge(cpu), strict=True):
        print(f"{'held' if held else 'MISSED':7} {ratio:8.2f} {by_cpu:8.2f} (bar {bar})  {text}")
    if args.json is not None:
        kept = [[*key, value, cpu[key]] for key, value in clock.items()]
        args.json.write_text(json.dumps({"medians": kept, "bars": rows}, indent=1))
    missed = sum(not held for *_, held in rows)
    print(f"\n{len(rows) - missed} bars held, {missed} missed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
