#!/usr/bin/env python3
"""The adapters against their frameworks' own stores, through the frameworks' interfaces, in one
run: QuipuSaver against LangGraph's SqliteSaver here, the thin ones by histories.py.

    make bench-python            or, in the tests' environment: python bench/python/frameworks.py

A conversation of 10, 1,000 and 10,000 messages gets one message more with each put; then its
newest checkpoint is read, by a saver that knows it and by a new one; also of a conversation whose
10,000 messages were put one by one, and of a state of one size at step 10 and at step 10,000. Sides
take turns in blocks; a ratio is the median over the blocks, as in bench.py. "normal" and "default"
are bench.py's, too.
Ends with 1 when a bar is not held."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import pathlib
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from bench import SIZES, TEXT, Figures, Side, set_mode, take_turns
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

import histories
import quipu
from quipu.langgraph import QuipuSaver

BLOCKS = {10: 25, 1_000: 9, 10_000: 5}
CALLS = {10: 8, 1_000: 4, 10_000: 3}
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

GROWN = 10_000  # messages that are put one by one, and steps of a state of one size
EARLY = 10  # a step of these
FLAT_MAX = 1.5  # a get at the last step against one at that step

# (what, mode, messages) -> the least ratio of SqliteSaver's time to ours. A put by defaults into a
# short conversation costs what a commit costs; it waits for the same disk on both sides.
BARS = {
    ("put", "normal", 10): 1.0,
    ("get", "normal", 10): 1.0,
    ("get, grown", "normal", GROWN): 1.0,
    ("get, grown, new saver", "normal", GROWN): 1.0,
    ("put", "normal", 1_000): 5.0,
    ("put", "normal", 10_000): 20.0,
    ("put", "default", 1_000): 1.0,
    ("put", "default", 10_000): 5.0,
    ("get", "normal", 1_000): 1.0,
    ("get", "normal", 10_000): 1.0,
    ("get, new saver", "normal", 1_000): 1.0,
    ("get, new saver", "normal", 10_000): 1.0,
}


def message(number: int) -> Any:
    kind = (HumanMessage, AIMessage)[number & 1]
    return kind(TEXT, id=str(uuid.uuid4()))


class Talk:
    """A saver with a conversation that grows."""

    def __init__(self, saver: Any, messages: list[Any]) -> None:
        self.saver = saver
        self._messages = messages
        self._step = 0

    def grown(self) -> Any:
        """The next checkpoint; made outside of what is measured."""
        self._step += 1
        self._messages = [*self._messages, message(self._step)]
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": self._messages, "step": self._step}
        checkpoint["channel_versions"] = {"messages": self._step, "step": self._step}
        return checkpoint

    async def put(self, checkpoint: Any) -> None:
        metadata: Any = {"source": "loop", "step": self._step, "parents": {}}
        self.saver.put(CONFIG, checkpoint, metadata, checkpoint["channel_versions"])

    async def get(self, saver: Any) -> None:
        assert saver.get_tuple(CONFIG) is not None


def put(talk: Talk, number: int) -> Callable[[], Awaitable[Any]]:
    return functools.partial(talk.put, talk.grown())


def get(talk: Talk, new: bool, number: int) -> Callable[[], Awaitable[Any]]:
    fresh = new and isinstance(talk.saver, QuipuSaver)
    return functools.partial(talk.get, QuipuSaver(talk.saver.store) if fresh else talk.saver)


async def part(folder: pathlib.Path, mode: str, size: int, figures: Figures) -> None:
    set_mode(mode)
    name = f"{mode}-{size}"
    connection = sqlite3.connect(str(folder / f"theirs-{name}.db"), check_same_thread=False)
    durability: Any = "relaxed" if mode == "normal" else "full"
    messages = [message(number) for number in range(size)]
    with quipu.Store(folder / f"ours-{name}.db", durability=durability) as store:
        talks = {
            "sqlitesaver": Talk(SqliteSaver(connection), messages),
            "quipu": Talk(QuipuSaver(store), messages),
        }
        for talk in talks.values():
            await talk.put(talk.grown())
        makers: list[tuple[str, Callable[..., Any]]] = [("put", put)]
        if mode == "normal":
            makers.append(("get", lambda talk, number: get(talk, False, number)))
            makers.append(("get, new saver", lambda talk, number: get(talk, True, number)))
        for what, make in makers:
            turns: list[Side] = [
                ((what, side, mode, size), functools.partial(make, talk))
                for side, talk in talks.items()
            ]
            await take_turns(figures, turns, BLOCKS[size], CALLS[size])
    connection.close()


async def grown(folder: pathlib.Path, figures: Figures) -> None:
    """A conversation that was put message by message; its peer, which stores it whole with each
    step, has the last step only: a get costs it the same."""
    set_mode("normal")
    connection = sqlite3.connect(str(folder / "theirs-grown.db"), check_same_thread=False)
    with quipu.Store(folder / "ours-grown.db", durability="relaxed") as store:
        talk = Talk(QuipuSaver(store), [])
        for _ in range(GROWN):
            last = talk.grown()
            await talk.put(last)
        peer = Talk(SqliteSaver(connection), [])
        await peer.put(last)
        for what, new in (("get, grown", False), ("get, grown, new saver", True)):
            turns: list[Side] = [
                ((what, "sqlitesaver", "normal", GROWN), functools.partial(get, peer, new)),
                ((what, "quipu", "normal", GROWN), functools.partial(get, talk, new)),
            ]
            await take_turns(figures, turns, BLOCKS[GROWN], CALLS[GROWN])
    connection.close()


async def flat(folder: pathlib.Path, figures: Figures) -> None:
    """A state of one size, read when its thread is young and when it is old."""
    turns: list[Side] = []
    with contextlib.ExitStack() as stack:
        for steps in (EARLY, GROWN):
            path = folder / f"ours-flat-{steps}.db"
            store = stack.enter_context(quipu.Store(path, durability="relaxed"))
            talk = Talk(QuipuSaver(store), [])
            for _ in range(steps):
                checkpoint = talk.grown()
                checkpoint["channel_values"] = {"text": TEXT}
                await talk.put(checkpoint)
            key = ("get, one size", f"step {steps}", "normal", GROWN)
            turns.append((key, functools.partial(get, talk, True)))
        await take_turns(figures, turns, BLOCKS[10], CALLS[10])


async def measure(folder: pathlib.Path) -> Figures:
    figures = Figures()
    await grown(folder, figures)
    await flat(folder, figures)
    for mode in ("normal", "default"):
        for size in SIZES:
            await part(folder, mode, size, figures)
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory(prefix=f"quipu-{uuid.uuid4().hex[:8]}-") as folder:
        figures = asyncio.run(measure(pathlib.Path(folder)))
        thin = asyncio.run(histories.measure(pathlib.Path(folder)))
    missed = 0
    for what, side, mode, size in figures.keys():
        if side == "quipu":
            ours, theirs = (what, side, mode, size), (what, "sqlitesaver", mode, size)
            ratio, bar = figures.ratio(theirs, ours, 0), BARS.get((what, mode, size))
            held = "" if bar is None else "held" if ratio >= bar else "MISSED"
            missed += held == "MISSED"
            print(
                f"{held:7} {ratio:8.2f} (bar {bar})  {what}, {mode}, {size}: quipu"
                f" {figures.median(ours, 0):.0f} us, SqliteSaver {figures.median(theirs, 0):.0f} us"
            )
    late, early = (("get, one size", f"step {at}", "normal", GROWN) for at in (GROWN, EARLY))
    times = figures.ratio(late, early, 0)
    missed += times > FLAT_MAX
    print(
        f"{'held' if times <= FLAT_MAX else 'MISSED':7} {times:8.2f} (at most {FLAT_MAX})  get of a"
        f" state of one size, step {GROWN} against step {EARLY}:"
        f" {figures.median(late, 0):.0f} us, {figures.median(early, 0):.0f} us"
    )
    missed += histories.judge(thin)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
