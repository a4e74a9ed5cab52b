"""The session store for the Claude Agent SDK: the SDK's own 14 contracts, its readers of a store,
and what the contracts do not ask."""

from __future__ import annotations

import asyncio
import itertools
import json
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from claude_agent_sdk import (
    fold_session_summary,
    fork_session_via_store,
    get_session_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    project_key_for_directory,
    rename_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

import quipu
from quipu import _pages
from quipu._rows import BATCH_MAX
from quipu.claude import QuipuSessionStore

KEY: Any = {"project_key": "proj", "session_id": "sess"}


@pytest.fixture
async def store(path: pathlib.Path) -> AsyncIterator[QuipuSessionStore]:
    async with quipu.AsyncStore(path, durability="relaxed") as opened:
        yield QuipuSessionStore(opened)


def entry(n: int, **more: Any) -> Any:
    stamp = f"2026-01-01T00:00:{n % 60:02}.000Z"
    return {"type": "user", "uuid": f"u{n}", "timestamp": stamp, "n": n, **more}


async def test_the_sdk_s_contracts_hold(tmp_path: pathlib.Path) -> None:
    names = itertools.count()
    await run_session_store_conformance(lambda: QuipuSessionStore(tmp_path / f"{next(names)}.db"))
    assert next(names) == 15  # one for each of 14, and one that is asked what it has


async def test_entries_come_back_as_they_were(store: QuipuSessionStore) -> None:
    entries: list[Any] = [
        {
            "type": "x",
            "text": 'quote " \\ \n\x01 \u0000 half \ud83d',
            "n": [2**60, 1.5, None, True],
        },
        {"type": "user", "message": {"role": "user", "content": "hello"}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}, {"a": 1}]}},
        {"type": "summary", "summary": "s", "quipu": 1, "extra": {}},
        {"type": "user", "uuid": "", "message": None},
    ]
    await store.append(KEY, entries)
    assert await store.load(KEY) == entries


async def test_a_batch_that_is_sent_again_is_stored_once(store: QuipuSessionStore) -> None:
    await store.append(KEY, [entry(1), entry(2)])
    await store.append(KEY, [entry(1), entry(2)])
    await store.append(KEY, [entry(2), entry(3), {"type": "title"}])
    await store.append(KEY, [entry(3, changed=True), entry(3)])
    await store.append(KEY, [entry(4), entry(4)])
    found = await store.load(KEY)
    assert found == [entry(1), entry(2), entry(3), {"type": "title"}, entry(4)]


async def test_a_first_batch_with_a_repeat_is_stored_once(store: QuipuSessionStore) -> None:
    halves = [entry(5, uuid="\ud800"), entry(6, uuid="\ud801")]  # ids that only JSON can say
    await asyncio.wait_for(store.append(KEY, [entry(4), entry(4), *halves]), 20)
    assert await store.load(KEY) == [entry(4), *halves]


async def test_a_file_of_the_sdk_s_own_is_imported(
    store: QuipuSessionStore, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed session has lines twice, in the first batch and across batches."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    session = "6f1c2f4e-2f5b-4a52-9f0e-3a1f4f8f0a11"
    folder = tmp_path / "projects" / project_key_for_directory(str(tmp_path))
    folder.mkdir(parents=True)
    lines = [entry(n, sessionId=session) for n in (1, 2, 2, 3, 1, 4, 5, 4)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"{session}.jsonl").write_text(text)
    key: Any = {"project_key": folder.name, "session_id": session}
    for _ in range(2):
        imported = import_session_to_store(session, store, directory=str(tmp_path), batch_size=4)
        await asyncio.wait_for(imported, 20)
        assert [one["n"] for one in await store.load(key) or []] == [1, 2, 3, 4, 5]  # type: ignore


async def test_more_entries_than_a_call_takes_are_stored(store: QuipuSessionStore) -> None:
    for count in (BATCH_MAX, BATCH_MAX + 1):
        key: Any = {"project_key": "proj", "session_id": str(count)}
        entries = [entry(n) for n in range(count)]
        await store.append(key, entries)
        assert await store.load(key) == entries


async def test_a_batch_that_is_sent_again_leaves_the_summary_whole(path: pathlib.Path) -> None:
    """The SDK sends a batch again whose answer it did not get; others have appended meanwhile."""
    async with quipu.AsyncStore(path) as first, quipu.AsyncStore(path) as second:
        one, two = QuipuSessionStore(first), QuipuSessionStore(second)
        await one.append(KEY, [entry(1)])
        await two.append(KEY, [entry(2, customTitle="b")])
        await one.append(KEY, [entry(1)])
        await one.append(KEY, [entry(3, gitBranch="g")])
        (summary,) = await two.list_session_summaries("proj")
        entries = await two.load(KEY)
        assert entries is not None and len(entries) == 3
        assert summary["data"] == fold_session_summary(None, KEY, entries)["data"]
        assert summary["data"]["custom_title"] == "b"


async def test_a_summary_is_not_that_of_a_session_before(path: pathlib.Path) -> None:
    """A session that was deleted and made again has the same revision."""
    async with quipu.AsyncStore(path) as first, quipu.AsyncStore(path) as second:
        one, two = QuipuSessionStore(first), QuipuSessionStore(second)
        await one.append(KEY, [entry(1, customTitle="old")])
        await two.delete(KEY)
        await two.append(KEY, [entry(2)])
        await one.append(KEY, [entry(3, gitBranch="g")])
        entries = await two.load(KEY)
        (summary,) = await two.list_session_summaries("proj")
        assert summary["data"] == fold_session_summary(None, KEY, entries or [])["data"]


async def test_a_session_that_changes_while_it_is_listed_is_listed(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pages, "PAGE", 2)
    async with quipu.AsyncStore(path, durability="relaxed") as opened:
        store = QuipuSessionStore(opened)
        for n in range(5):
            await store.append({"project_key": "proj", "session_id": f"s{n}"}, [entry(n)])
        step = _pages.every("claude", "proj")
        page = await opened._start(next(step))
        for n in range(5):  # whatever comes in the next pages
            await store.append({"project_key": "proj", "session_id": f"s{n}"}, [entry(n + 10)])
        with pytest.raises(StopIteration) as end:
            while True:
                page = await opened._start(step.send(page))
        assert sorted(one.session_id for one in end.value.value) == [f"s{n}" for n in range(5)]
        assert len(await store.list_sessions("proj")) == 5


async def test_a_summary_is_that_of_all_entries(path: pathlib.Path) -> None:
    """Two processes append at the same time: no fold is lost."""
    async with quipu.AsyncStore(path) as one, quipu.AsyncStore(path) as two:
        stores = QuipuSessionStore(one), QuipuSessionStore(two)
        await asyncio.gather(
            *(
                stores[n % 2].append(KEY, [entry(n, **{f"customTitle{n}": 1}, customTitle=f"t{n}")])
                for n in range(30)
            )
        )
        entries = await stores[0].load(KEY)
        assert entries is not None and len(entries) == 30
        expected = fold_session_summary(None, KEY, entries)
        for store in stores:
            (summary,) = await store.list_session_summaries("proj")
            assert summary["data"] == expected["data"]


async def test_tools_are_real_calls(store: QuipuSessionStore) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "A"}],
    }
    entries: list[Any] = [
        {"type": "user", "message": {"content": "where is the lighthouse?"}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "So"}, use]}},
        {"type": "user", "message": {"content": [result]}},
    ]
    await store.append(KEY, entries)
    messages = (await store.store.get("claude:proj/sess")).messages
    assert [one.role for one in messages] == ["user", "assistant", "tool"]
    assert messages[1].tool_calls == [quipu.ToolCall("Read", "t1", '{"path": "a"}')]
    assert messages[2].tool_calls == [quipu.ToolCall(id="t1", output="A")]
    hits = (await store.store.search("lighthouse")).hits
    assert [hit.session_key for hit in hits] == ["claude:proj/sess"]


async def test_the_sdk_reads_lists_renames_and_forks(
    store: QuipuSessionStore, tmp_path: pathlib.Path
) -> None:
    project = project_key_for_directory(str(tmp_path))
    session = "6f1c2f4e-2f5b-4a52-9f0e-3a1f4f8f0a11"
    key: Any = {"project_key": project, "session_id": session}
    ids = [f"00000000-0000-4000-8000-{n:012}" for n in range(4)]
    turns = [
        {
            "type": ("user", "assistant")[n % 2],
            "uuid": ids[n],
            "parentUuid": ids[n - 1] if n else None,
            "sessionId": session,
            "timestamp": f"2026-01-01T00:00:0{n}.000Z",
            "message": {"role": ("user", "assistant")[n % 2], "content": f"turn {n}"},
        }
        for n in range(4)
    ]
    await store.append(key, turns)  # type: ignore[arg-type]
    found = await get_session_messages_from_store(store, session, directory=str(tmp_path))
    assert [one.uuid for one in found] == ids
    await rename_session_via_store(store, session, "a name", directory=str(tmp_path))
    forked = await fork_session_via_store(store, session, directory=str(tmp_path))
    listed = await list_sessions_from_store(store, directory=str(tmp_path))
    assert {one.session_id for one in listed} == {session, forked.session_id}
    assert next(one for one in listed if one.session_id == session).custom_title == "a name"


async def test_names_never_meet(store: QuipuSessionStore) -> None:
    keys: list[Any] = [
        {"project_key": project, "session_id": session, **sub}
        for project in ("a", "a/b", "a%2Fb")
        for session in ("s", "b/s", "s%2F")
        for sub in ({}, {"subpath": "x/y"}, {"subpath": "x"})
    ]
    for n, key in enumerate(keys):
        await store.append(key, [entry(n)])
    for n, key in enumerate(keys):
        assert await store.load(key) == [entry(n)]
    assert {one["session_id"] for one in await store.list_sessions("a")} == {"s", "b/s", "s%2F"}
    assert sorted(await store.list_subkeys(keys[0])) == ["x", "x/y"]
    await store.delete(keys[0])
    assert [n for n, key in enumerate(keys) if await store.load(key) is None] == [0, 1, 2]
