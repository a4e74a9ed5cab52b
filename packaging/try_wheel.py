"""Tries the installed package where nothing else is: try_wheel.py FOLDER. Prints what holds.

packaging/wheels.py runs it in a Debian with Python alone. What it says of SQLite is true of wheels
only: they carry one of their own beside that of Python's sqlite3 module."""

import asyncio
import importlib.metadata
import pathlib
import platform
import sqlite3
import sys

import quipu
from quipu import _one_sqlite


def claim(name):
    print(f"[       OK ] {name}_on_{platform.machine()}", flush=True)


def refused(call, words):
    try:
        call()
    except quipu.QuipuError as error:
        assert words in str(error), error
        return
    raise AssertionError(f"no error with {words!r}")


async def awaited(path):
    async with quipu.AsyncStore(path) as store:
        await store.append("chat", [{"role": "user", "content": f"{n}"} for n in range(100)])
        tail = [one.content async for one in store.tail("chat", after=2, timeout=0)]
        assert tail == [str(n) for n in range(100)]


def main(folder):
    path = folder / "store.db"
    with quipu.Store(path) as store:
        store.append("chat", "hello penguin", create=True)
        store.append("chat", {"role": "assistant", "content": "hi"})
        texts = [one.content for one in store.window("chat", 1000).messages]
        assert texts == ["hello penguin", "hi"]
        claim("a_store_works_with_nothing_installed")
        assert [hit.seq for hit in store.search("penguin").hits] == [1]
        assert store.recall("which penguins?", key="chat")[0].seq == 1
        claim("search_and_recall_find")
        store.fork("chat", "other", at=1)
        assert store.verify().problems == []
        asyncio.run(awaited(path))
        claim("an_async_store_works")
        assert _one_sqlite.two()
        refused(lambda: sqlite3.connect(path), "is open as a store")
        refused(lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True), "is open as a store")
        claim("the_sqlite3_module_is_kept_from_a_store_that_is_open")
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    refused(lambda: quipu.Store(path), "and not by this package")
    other.close()
    with quipu.Store(path) as store:
        assert store.get("chat", last=0).session.message_count == 102
    claim("a_store_is_kept_from_a_file_that_the_sqlite3_module_has_open")
    refused(lambda: quipu.Store("postgresql://nobody@localhost/x"), "libpq5")
    refused(lambda: quipu.Store("http://localhost:1/"), "libcurl4")
    claim("libraries_that_are_missing_are_named")
    files = {pathlib.PurePath(str(one)).name for one in importlib.metadata.files("quipu-store")}
    assert {"LICENSE", "NOTICE", "py.typed", "quipu"} <= files, files
    claim("licence_notice_types_and_program_are_in_the_wheel")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
