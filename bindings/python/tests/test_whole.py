"""The whole store from Python: memories, prompts, state, tails, the feed, files, maintenance."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import gzip
import io
import os
import pathlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import quipu
from conftest import FIXTURES
from quipu import AsyncStore, Message, Store
from quipu._native import lib
from quipu._shapes import SHAPES

NOW = datetime.datetime(2026, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}},
}


@pytest.fixture
def talk(store: Store) -> Store:
    store.create("talk", app_name="app", user_id="ana", session_id="s1", title="Penguins")
    store.append("talk", [Message("user", "I like penguins"), Message("assistant", "Noted.")])
    return store


@pytest.fixture
def other(tmp_path: pathlib.Path) -> Iterator[Store]:
    with Store(tmp_path / "other.db") as opened:
        yield opened


# ---- the lists of members ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shapes", "more"),
    [
        (quipu.Memory, [lib.QPY_MEMORY, lib.QPY_MEMORY_KIND], set()),
        (quipu.Recalled, [lib.QPY_RECALL_HIT], {"memory"}),
        (quipu.MemoryRun, [lib.QPY_MEMORY_RAN], set()),
        (quipu.MemoryProgress, [lib.QPY_MEMORY_PROGRESS], set()),
        (quipu.Context, [lib.QPY_CONTEXT_RESULT], {"system", "contents"}),
        (quipu.Content, [lib.QPY_CONTENT], {"parts"}),
        (quipu.Part, [lib.QPY_PART], set()),
        (quipu.Usage, [lib.QPY_USAGE], set()),
        (quipu.Change, [lib.QPY_CHANGE], set()),
        (quipu.Artifact, [lib.QPY_ARTIFACT], {"data"}),
        (quipu.UsageRow, [lib.QPY_USAGE_ROW], set()),
        (quipu.StateEntry, [lib.QPY_STATE_ENTRY], {"value"}),
        (quipu.Transfer, [lib.QPY_TRANSFER], set()),
        (quipu.Imported, [lib.QPY_SOURCE_REPORT], set()),
        (quipu.Copied, [lib.QPY_COPIED], set()),
        (quipu.Stats, [lib.QPY_STATS_RESULT], {"upgrade"}),
        (quipu.Problem, [lib.QPY_PROBLEM], set()),
        (quipu.Verified, [lib.QPY_VERIFIED], {"problems"}),
        (quipu.Compared, [lib.QPY_COMPARED], {"problems"}),
        (
            quipu.Erasure,
            [lib.QPY_ERASURE],
            {"sessions", "forks", "backups", "kept"},
        ),
        (quipu.Factor, [lib.QPY_FACTOR_RESULT], set()),
    ],
)
def test_a_result_has_the_members_of_its_struct(
    kind: Any, shapes: list[int], more: set[str]
) -> None:
    names = {one.name for shape in shapes for one in SHAPES[shape]}
    assert {field.name for field in dataclasses.fields(kind)} == names | more


def test_both_stores_have_the_same_methods() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert methods(AsyncStore) - methods(Store) == {"open"}
    assert methods(Store) <= methods(AsyncStore)
    for kind in (Store, AsyncStore):
        assert all(getattr(kind, name).__doc__ for name in methods(kind))


# ---- forks and compactions -----------------------------------------------------------------------


def test_a_fork_takes_settings_and_returns_the_session(talk: Store) -> None:
    fork = talk.fork("talk", "side", at=1, title="Side")
    assert (fork.key, fork.title, fork.app_name, fork.fork_seq) == ("side", "Side", "app", 1)


def test_a_rewind_is_a_fork_under_a_key_of_its_own(talk: Store) -> None:
    assert talk.rewind("talk", 1).key == "talk@1"
    assert [m.content for m in talk.get("talk@1").messages] == ["I like penguins"]
    assert talk.rewind("talk", 1, "again").key == "again"
    assert len(talk.get("talk").messages) == 2


def test_a_compaction_can_be_undone_or_made_final(talk: Store) -> None:
    talk.append("talk", "more")
    talk.compact("talk", "they met", up_to=2)
    talk.uncompact("talk")
    assert len(talk.get("talk", view=True).messages) == 3
    with pytest.raises(quipu.NotFound):
        talk.uncompact("talk")
    talk.compact("talk", "they met", up_to=2)
    assert talk.prune("talk") == 2
    assert talk.get("talk").session.first_seq == 3


def test_an_append_changes_settings_in_its_transaction(talk: Store) -> None:
    before = talk.get("talk", last=0).session
    done = talk.append("talk", "More.", settings={"title": "Whales", "model": "m"}, ttl=60)
    after = talk.get("talk", last=0).session
    assert (after.title, after.model, after.revision) == ("Whales", "m", before.revision + 1)
    assert after.expires_at is not None and done.revision == after.revision
    with pytest.raises(TypeError, match="'nonsense'"):
        talk.append("talk", "x", settings={"nonsense": 1})  # type: ignore[arg-type]


def test_one_wait_hears_of_every_change(talk: Store) -> None:
    seen = talk.change_wait()
    assert talk.change_wait(seen, timeout=0) == seen
    talk.append("talk", "More.")
    assert talk.change_wait(seen, timeout=60) > seen
    with pytest.raises(ValueError, match="timeout"):
        talk.change_wait(seen, timeout=-1)


# ---- artifacts -----------------------------------------------------------------------------------


def test_artifacts_have_versions_and_belong_to_a_session_or_its_user(talk: Store) -> None:
    made = talk.artifact_save("talk", "a.bin", b"\x00\xff", metadata={"x": 1})
    assert (made.version, made.size, made.data, made.metadata) == (0, 2, None, {"x": 1})
    assert talk.artifact_save("talk", "a.bin", b"").version == 1
    assert talk.artifact_save("talk", "user:b", "tüxt").kind == "text"
    assert talk.artifact_get("talk", "a.bin").data == b""
    assert talk.artifact_get("talk", "a.bin", version=0).data == b"\x00\xff"
    found = talk.artifact_get(None, "user:b", app_name="app", user_id="ana")
    assert (found.data, found.mime_type, found.session_key) == ("tüxt".encode(), "text/plain", "")
    assert [(one.name, one.version) for one in talk.artifacts("talk")] == [
        ("a.bin", 1),
        ("user:b", 0),
    ]
    assert len(talk.artifacts("talk", name="a.bin", versions=True)) == 2
    assert talk.artifact_delete("talk", "a.bin") == 2
    assert talk.artifact_delete("talk", "a.bin") == 0
    with pytest.raises(quipu.NotFound):
        talk.artifact_get("talk", "a.bin")
    with pytest.raises(quipu.NotFound):
        talk.artifact_save("nobody's", "a", b"")
    with pytest.raises(TypeError, match="data must be bytes or a str"):
        talk.artifact_save("talk", "a", 3)  # type: ignore[arg-type]


# ---- what answers used ---------------------------------------------------------------------------


def test_answers_say_what_they_used(talk: Store) -> None:
    answer = Message(
        "assistant", "Hi.", model="m", prompt_tokens=9, cached_tokens=4, answer_tokens=2
    )
    answer.timestamp = NOW
    talk.append("talk", [answer, {"role": "assistant", "content": "Ho.", "answer_tokens": 5}])
    found = talk.get("talk")
    assert (found.session.prompt_total, found.session.cached_total) == (9, 4)
    assert (found.session.answer_total, found.session.answer_count) == (7, 2)
    assert found.messages[2].model == "m" and found.messages[2].prompt_tokens == 9
    report = talk.usage("talk", by=("day", "model"), until=NOW.date())
    assert (report.sessions, report.next) == (1, None)
    assert [(one.day, one.model, one.prompt_tokens) for one in report.rows] == [
        (NOW.date(), "m", 9)
    ]
    assert talk.usage(by=()).rows[0].answers == 2
    assert talk.usage(by="session").rows[0].session_key == "talk"
    assert talk.usage(app_name="nobody's").rows == []
    with pytest.raises(ValueError, match="'week'"):
        talk.usage(by="week")
    with pytest.raises(TypeError, match="since must be a date"):
        talk.usage(since=3)  # type: ignore[arg-type]


# ---- state ---------------------------------------------------------------------------------------


def test_state_says_who_set_it_last(talk: Store) -> None:
    talk.set_state("talk", "step", None)
    talk.set_state("talk", "user:lang", "de")
    found = {one.name: one for one in talk.blame("talk")}
    assert found["step"].value is None and found["step"].scope == "session"
    assert (found["lang"].scope, found["lang"].set_in) == ("user", found["lang"].set_in)
    assert found["lang"].set_at.tzinfo is not None
    with pytest.raises(quipu.NotFound):
        talk.blame("nobody's")


def test_state_has_the_scopes_of_its_names(talk: Store) -> None:
    talk.set_state("talk", "step", {"n": 1, "ü": [None, True]})
    talk.set_state("talk", "user:lang", "de")
    talk.set_state("talk", "app:mode", 2)
    assert talk.state("talk") == {
        "step": {"n": 1, "ü": [None, True]},
        "user:lang": "de",
        "app:mode": 2,
    }
    assert talk.user_state("app", "ana") == {"lang": "de"}
    assert talk.user_state("app", "eve") == {}
    talk.create("next", app_name="app", user_id="ana")
    assert talk.state("next") == {"user:lang": "de", "app:mode": 2}
    assert len(talk.get("talk").messages) == 2  # a name that is set is no message


def test_state_of_a_plain_session_is_its_own(store: Store) -> None:
    store.create(" spaces around ")
    store.set_state(" spaces around ", "a", None)
    assert store.state(" spaces around ") == {"a": None}
    store.delete_state(" spaces around ", "a")
    store.delete_state(" spaces around ", "a")
    assert store.state(" spaces around ") == {}
    with pytest.raises(quipu.NotFound):
        store.state("none")
    with pytest.raises(TypeError, match="value must be a value that JSON can hold"):
        store.set_state(" spaces around ", "a", object())


def test_threads_that_set_state_do_not_conflict(talk: Store) -> None:
    def work(name: str) -> None:
        for number in range(10):
            talk.set_state("talk", name, number)

    threads = [threading.Thread(target=work, args=(f"n{one}",)) for one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert talk.state("talk") == {f"n{one}": 9 for one in range(4)}


# ---- memories ------------------------------------------------------------------------------------


def test_a_memory_comes_back_as_it_was_saved(talk: Store) -> None:
    saved = talk.memory_save(
        "talk",
        "Ana likes penguins.",
        priority="standing",
        topic="preference",
        subject="Ana",
        said_at=NOW,
        about_from=NOW - datetime.timedelta(days=1),
        source_start=1,
        source_end=1,
        origin="me",
    )
    assert (saved.kind, saved.content, saved.session_key) == (
        "observation",
        "Ana likes penguins.",
        "talk",
    )
    assert (saved.priority, saved.topic, saved.subject) == ("standing", "preference", "Ana")
    assert (saved.said_at, saved.about_to) == (NOW, None)
    assert saved.about_from == NOW - datetime.timedelta(days=1)
    assert (saved.source_start, saved.source_end, saved.origin) == (1, 1, "me")
    assert saved.retired_at is None and saved.supersedes is None and saved.token_count > 0
    assert talk.memory_find("talk") == [saved]
    assert talk.memory_find(ids=[saved.id]) == [saved]
    assert talk.memory_find("talk", kind="reflection") == []


def test_a_memory_is_corrected_retired_superseded_and_deleted(talk: Store) -> None:
    first = talk.memory_save("talk", "one")
    edited = talk.memory_update(first.id, content="two", priority="high", why="typo", who="ana")
    assert (edited.content, edited.edited_why, edited.edited_by) == ("two", "typo", "ana")
    assert edited.edited_at is not None and edited.condensed_into is None
    retired = talk.memory_update(first.id, retire=True, why="wrong")
    assert retired.retired_at is not None and retired.retired_why == "wrong"
    assert talk.memory_find("talk") == []
    assert talk.memory_find("talk", retired=True) == [retired]
    second = talk.memory_save("talk", "three", kind="reflection")
    third = talk.memory_save("talk", "four", kind="reflection", supersedes=second.id)
    assert third.supersedes == second.id and third.generation == 1
    assert talk.memory_find("talk", kind="reflection") == [third]
    assert talk.memory_delete(ids=[first.id]) == 1
    assert talk.memory_delete("talk", kind="reflection") == 2


def test_memories_count_in_all_sessions_of_a_user(talk: Store) -> None:
    talk.memory_save("talk", "Ana likes penguins.")
    talk.create("next", app_name="app", user_id="ana")
    assert talk.memory_find("next") == []
    assert [one.content for one in talk.memory_find("next", scope=True)] == ["Ana likes penguins."]


def test_wrong_memories_are_named(talk: Store) -> None:
    with pytest.raises(TypeError, match="either key"):
        talk.memory_find()
    with pytest.raises(ValueError, match=r"ids\[0\] is 'x'; give a UUID"):
        talk.memory_find(ids=["x"])
    with pytest.raises(ValueError, match="'priority' is 'urgent'; give one of 'standing'"):
        talk.memory_save("talk", "x", priority="urgent")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="said_at must be a datetime"):
        talk.memory_save("talk", "x", said_at="now")  # type: ignore[arg-type]
    assert talk.memory_find("talk") == []


def test_the_observer_runs_from_python(talk: Store) -> None:
    talk.append("talk", "Always answer in German. My name is Ana.")
    before = talk.memory_status("talk").sessions[0]
    assert (before.watermark, before.last_seq, before.pending_messages) == (0, 3, 3)
    ran = talk.memory_run("talk", worker="test", timeout=60)
    assert (ran.messages, ran.more) == (3, False) and ran.observations > 0
    status = talk.memory_status()
    assert status.sessions[0].watermark == 3 and not status.more
    assert any("German" in one.content for one in talk.memory_find("talk"))


def _wait_known(store: Store, key: str, count: int) -> None:
    """Until so much is known of a session."""
    end = time.monotonic() + 60
    while len(store.memory_find(key)) < count:
        assert time.monotonic() < end, "nothing was observed"
        time.sleep(0.01)


def test_a_worker_observes_beside_the_program(talk: Store, path: pathlib.Path) -> None:
    with talk.memory_worker(worker="test"):
        talk.append("talk", "Always answer in German.")
        _wait_known(talk, "talk", 1)
        with pytest.raises(quipu.Exists):
            talk.memory_start()
        talk.append("talk", "I prefer trains.")
        _wait_known(talk, "talk", 2)
    assert not any(dataclasses.astuple(talk.memory_stop()))  # there is none any more
    talk.memory_start("talk")
    talk.append("talk", "I prefer tea.")
    _wait_known(talk, "talk", 3)
    ran = talk.memory_stop()
    assert (ran.observations, ran.failed) == (1, 0)
    with pytest.raises(quipu.Misuse, match="app_name"):
        talk.memory_start(user_id="ana")
    with talk.memory_worker():  # closing stops it, and the block ends without a word
        talk.close()


# ---- the next prompt -----------------------------------------------------------------------------


def test_the_next_prompt_begins_with_the_one_before(talk: Store) -> None:
    talk.memory_save("talk", "Answer in German.", priority="standing")
    options: dict[str, Any] = {"system": "Be kind.", "tools": [TOOL], "model": "m", "provider": "p"}
    talk.append("talk", "go on")
    first = talk.context("talk", log=True, **options)
    assert first.reason == "first" and "Answer in German." in first.tail
    assert [part.text for part in first.system][0] == "Be kind."
    assert first.contents[0].role == "user"
    assert first.contents[0].parts[0].text == "I like penguins"
    assert first.tools[0]["name"] == "add" and first.tools[0]["description"] == "adds"
    assert (first.first_seq, first.last_seq) == (1, 3) and first.tokens > 0
    talk.append("talk", {"role": "assistant", "content": "Gern."})
    talk.append("talk", "thanks")
    usage = quipu.Usage(input=first.tokens, output=3, cached=0)
    second = talk.context("talk", log=True, usage=usage, **options)
    assert second.reason == "" and second.shared >= first.block_tokens
    assert second.prefix_hash == first.prompt_hash and len(second.prompt_hash) == 32
    again = talk.context("talk", at=3)
    assert again.exact and again.prompt_hash == first.prompt_hash
    assert again.reported_input == first.tokens
    looked = talk.context("talk", as_before=True)
    assert (looked.model, looked.provider) == ("m", "p")


def test_a_prompt_has_calls_and_responses_as_parts(talk: Store) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    talk.append("talk", "add")
    talk.append("talk", {"role": "assistant", "content": None, "tool_calls": [call]})
    talk.append("talk", {"role": "tool", "tool_call_id": "c1", "content": "2"})
    parts = [part for content in talk.context("talk").contents for part in content.parts]
    (made,) = [part for part in parts if part.kind == "call"]
    (answer,) = [part for part in parts if part.kind == "response"]
    assert (made.name, made.id, made.json) == ("add", "c1", {"a": 1})
    assert answer.id == "c1" and "2" in str(answer.json)


def test_a_wrong_prompt_is_named(talk: Store) -> None:
    with pytest.raises(TypeError, match=r"tools\[0\]\['name'\] must be a str"):
        talk.context("talk", tools=[{}])
    with pytest.raises(TypeError, match="system must be a str, not int"):
        talk.context("talk", system=5)  # type: ignore[arg-type]
    with pytest.raises(quipu.NotFound):
        talk.context("talk", at=1)


def test_factors_of_models_are_learned(talk: Store) -> None:
    assert talk.model_factor("m") == quipu.Factor(1_000_000, 0)
    assert talk.model_factor_learn("m", estimated=1000, reported=2000) == quipu.Factor(2_000_000, 1)
    assert talk.model_factor("m").samples == 1


# ---- tails and the feed --------------------------------------------------------------------------


def test_a_tail_gives_what_exists_and_what_follows(talk: Store) -> None:
    assert [m.seq for m in talk.tail("talk", timeout=0)] == [1, 2]
    tail = talk.tail("talk", after=1, timeout=60)
    assert next(tail).content == "Noted."
    writer = threading.Thread(target=lambda: talk.append("talk", "late"))
    writer.start()
    assert next(tail).content == "late"
    writer.join()
    tail.close()  # type: ignore[attr-defined]


def test_a_tail_ends_with_its_session(talk: Store) -> None:
    tail = talk.tail("talk", after=2, timeout=60)
    deleter = threading.Timer(0.05, talk.delete, ("talk",))
    deleter.start()
    with pytest.raises(quipu.NotFound):
        next(tail)
    deleter.join()
    with pytest.raises(TypeError, match="key must be a str"):
        talk.tail(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        talk.tail("talk", timeout=-1)


def test_closing_a_store_ends_a_tail_that_waits(path: pathlib.Path) -> None:
    store = Store(path)
    store.create("talk")
    said: list[str] = []
    begun = threading.Event()

    def follow() -> None:
        tail = store.tail("talk")
        begun.set()
        try:
            next(tail)
        except quipu.Misuse as error:
            said.append(str(error))

    thread = threading.Thread(target=follow)
    thread.start()
    begun.wait(60)
    store.close()
    thread.join(60)
    assert said == ["the store is closed"]


def test_an_abandoned_tail_does_not_keep_a_store_open(path: pathlib.Path) -> None:
    with Store(path) as store:
        store.append("talk", "a", create=True)
        tails = [store.tail("talk") for _ in range(3)]
        assert [next(tail).content for tail in tails] == ["a"] * 3
    with pytest.raises(quipu.Misuse):
        next(tails[0])


async def test_many_tails_wait_while_other_calls_go_on(path: pathlib.Path) -> None:
    async with AsyncStore(path) as store:
        await store.create("talk")

        async def first() -> str:
            async for message in store.tail("talk", timeout=60):
                return message.content
            return ""

        tasks = [asyncio.ensure_future(first()) for _ in range(40)]  # more than there are threads
        for _ in range(5):
            await store.get("talk")
        await store.append("talk", "to all")
        assert await asyncio.gather(*tasks) == ["to all"] * 40


async def test_a_cancelled_tail_lets_go(path: pathlib.Path) -> None:
    async with AsyncStore(path) as store:
        await store.create("talk")

        async def follow() -> None:
            async for _ in store.tail("talk"):
                pass

        task = asyncio.ensure_future(follow())
        await store.append("talk", "a")
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [m.content async for m in store.tail("talk", timeout=0)] == ["a"]


def test_the_feed_reports_what_changed(tmp_path: pathlib.Path) -> None:
    with Store(tmp_path / "feed.db", feed=True) as store:
        session = store.create("talk")
        store.append("talk", [Message("user", "a"), Message("user", "b")])
        store.rewind("talk", 1)
        store.delete("talk")
        changes = list(store.feed(timeout=0))
        assert [(one.kind, one.key) for one in changes] == [
            ("created", "talk"),
            ("appended", "talk"),
            ("forked", "talk@1"),
            ("deleted", "talk"),
        ]
        assert (changes[1].first_seq, changes[1].last_seq) == (1, 2)
        assert changes[0].uid == session.uid
        page = store.feed_read(limit=3)
        assert len(page.changes) == 3
        assert [one.kind for one in store.feed(after=page.next, timeout=0)] == ["deleted"]
        now = store.feed_read(from_now=True)
        assert now.changes == []
        store.create("later")
        assert [one.key for one in store.feed_read(after=now.next, timeout=60).changes] == ["later"]
        with pytest.raises(quipu.Invalid):
            store.feed_read(after="nonsense")


async def test_the_feed_is_followed_in_a_loop(path: pathlib.Path) -> None:
    async with AsyncStore(path, feed=True) as store:
        seen: list[str] = []

        async def follow() -> None:
            async for change in store.feed(timeout=60):
                seen.append(change.key)
                if len(seen) == 3:
                    return

        task = asyncio.ensure_future(follow())
        for number in range(3):
            await store.create(f"k{number}")
        await task
        assert seen == ["k0", "k1", "k2"]


# ---- files ---------------------------------------------------------------------------------------


def test_an_export_goes_to_a_path_and_comes_back(
    talk: Store, other: Store, tmp_path: pathlib.Path
) -> None:
    talk.set_state("talk", "a", 1)
    talk.memory_save("talk", "x")
    path = tmp_path / "all.jsonl"
    path.write_text("old")
    done = talk.export_to(path)
    assert (done.sessions, done.messages, done.states, done.memories) == (1, 2, 1, 1)
    assert len(path.read_bytes().splitlines()) == done.lines
    assert other.import_from(path).sessions == 1
    assert other.get("talk") == talk.get("talk") and other.state("talk") == {"a": 1}
    assert other.import_from(str(path)).skipped == 1
    with pytest.raises(quipu.Exists):
        other.import_from(path, must_be_new=True)


def test_exports_go_through_file_objects(talk: Store, other: Store, tmp_path: pathlib.Path) -> None:
    memory = io.BytesIO()
    talk.export_to(memory, key="talk")
    with gzip.open(tmp_path / "all.gz", "wb") as packed:
        talk.export_to(packed)  # type: ignore[arg-type]
    with gzip.open(tmp_path / "all.gz", "rb") as packed:
        assert other.import_from(packed).messages == 2  # type: ignore[arg-type]
    assert other.import_from(io.BytesIO(memory.getvalue())).skipped == 1


def test_a_failed_export_leaves_what_was_there(talk: Store, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("old")
    with pytest.raises(quipu.NotFound):
        talk.export_to(path, key="none")
    assert path.read_text() == "old"
    assert not [name for name in os.listdir(tmp_path) if name.startswith("all.jsonl.")]


def test_an_export_keeps_links_and_devices(talk: Store, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    done = talk.export_to(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "real").read_bytes().splitlines()) == done.lines
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    talk.export_to(tmp_path / "pipe")
    reader.join()
    assert read == [(tmp_path / "real").read_bytes()] and (tmp_path / "pipe").is_fifo()


def test_a_wrong_file_is_named(talk: Store, tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match="to must be open in binary mode"):
        talk.export_to(io.StringIO())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="source must be a path or a binary file, not int"):
        talk.import_from(5)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        talk.import_from(tmp_path / "none")
    with pytest.raises(quipu.Invalid, match="line 1|export"):
        talk.import_from(io.BytesIO(b"not an export\n"))


def test_a_store_is_copied_whole(talk: Store, other: Store) -> None:
    copied = talk.copy(other)
    assert (copied.sessions, copied.messages, copied.added_messages) == (1, 2, 2)
    assert len(copied.sha256) == 32 and copied.size > 0
    assert other.get("talk") == talk.get("talk")
    assert talk.copy(other).skipped == 1
    other.create("more")
    with pytest.raises(quipu.Exists, match="more"):
        talk.copy(other)
    with pytest.raises(TypeError, match="target must be a Store or an AsyncStore, not str"):
        talk.copy("path")  # type: ignore[arg-type]
    other.close()
    with pytest.raises(quipu.Misuse, match="closed"):
        talk.copy(other)


def test_another_program_s_file_is_imported(store: Store) -> None:
    found = next(iter(sorted(FIXTURES.glob("**/*adk*sqlite*.db"))), None)
    assert found is not None
    dry = store.import_source(found, dry_run=True)
    assert dry.sessions > 0 and list(store) == []
    assert store.import_source(found) == dry
    assert len(list(store)) == dry.sessions
    with pytest.raises(quipu.NotFound):
        store.import_source("none.db")
    with pytest.raises(ValueError, match="'kind' is 'x'; give one of 'auto'"):
        store.import_source(found, kind="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("llm-both", "llm"), ("openai-agents", "openai-agents"), ("langgraph", "langgraph")],
)
def test_a_chat_program_s_file_is_imported(store: Store, name: str, kind: str) -> None:
    found = FIXTURES / f"{name}.db"
    done = store.import_source(found, prefix="mine:")
    assert done.kind == kind and done.sessions > 0
    keys = [one.key for one in store]
    assert all(key.startswith("mine:") for key in keys)
    store.delete(keys[0])
    store.append(keys[0], "somebody else's", create=True)
    with pytest.raises(quipu.Exists):
        store.import_source(found, prefix="mine:")
    again = store.import_source(found, prefix="mine:", on_conflict="rename")
    assert again.sessions == 1 and f"{keys[0]}-2" in store


# ---- maintenance ---------------------------------------------------------------------------------


def test_statistics_count_and_measure(talk: Store) -> None:
    stats = talk.stats()
    assert (stats.sessions, stats.messages, stats.largest_key) == (1, 2, "talk")
    assert stats.engine.startswith("SQLite") and stats.checksums == "on" and stats.upgrade == ""
    assert talk.index() == stats.unindexed == 2
    talk.upgrade()


def test_a_verification_names_problems(talk: Store, path: pathlib.Path) -> None:
    assert talk.verify() == quipu.Verified(1, 2, 0, 0, [])
    talk.close()
    another = sqlite3.connect(path)
    another.execute("UPDATE sessions SET message_count = 7")
    another.commit()
    another.close()
    with Store(path) as damaged:
        found = {one.kind: one for one in damaged.verify().problems}
        assert found["count"].session_key == "talk" and not found["count"].repaired
        assert "7" in found["count"].text
        assert damaged.verify(repair=True).repaired >= 1
        assert damaged.get("talk").session.message_count == 2


def test_heads_prove_later_that_nothing_is_lost(
    talk: Store, other: Store, tmp_path: pathlib.Path
) -> None:
    heads = tmp_path / "heads"
    assert talk.heads(heads).lines == 1
    talk.append("talk", "more")
    compared = talk.verify_against(heads)
    assert (compared.sessions, compared.proved, compared.problems) == (1, 1, [])
    with open(heads, "rb") as file:
        (problem,) = other.verify_against(file).problems
    assert (problem.kind, problem.session_key) == ("lost", "talk")


def test_an_erasure_has_a_receipt_and_leaves_no_byte(talk: Store, path: pathlib.Path) -> None:
    talk.rewind("talk", 1)
    talk.backup(path.with_name("store.db.bak"))
    receipt = talk.erase("talk")
    assert (receipt.sessions, receipt.forks) == (["talk"], ["talk@1"])
    assert receipt.messages >= 2 and receipt.kept == []
    assert b"penguins" not in path.read_bytes()
    talk.create("next", app_name="app", user_id="ana")
    assert talk.erase(user_id="ana", app_name="app", quick=True).sessions == ["next"]
    with pytest.raises(quipu.Misuse):
        talk.erase()


async def test_the_async_store_has_all_of_it(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    async with AsyncStore(path) as store, AsyncStore(tmp_path / "copy.db") as copy:
        await store.append("talk", "Always answer in German.", create=True)
        assert (await store.memory_run("talk")).messages == 1
        async with store.memory_worker():
            with pytest.raises(quipu.Exists):
                await store.memory_start()
        assert (await store.memory_stop()).failed == 0
        assert (await store.context("talk")).last_seq == 1
        await store.set_state("talk", "a", 1)
        assert await store.state("talk") == {"a": 1}
        assert (await store.export_to(tmp_path / "all.jsonl")).sessions == 1
        assert (await store.heads(tmp_path / "heads")).lines == 1
        assert (await store.copy(copy)).sessions == 1
        assert (await copy.import_from(tmp_path / "all.jsonl")).skipped == 1
        assert (await store.verify_against(tmp_path / "heads")).proved == 1
        assert (await store.verify()).problems == []
        assert (await store.stats()).sessions == 1
        assert (await store.rewind("talk", 1)).key == "talk@1"
        assert (await store.erase("talk")).forks == ["talk@1"]
        assert repr(store) == f"<quipu.AsyncStore {str(path)!r}>"
