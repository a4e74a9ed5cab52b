"""The store: what a Python program does with sessions and messages."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import pathlib
import threading

import pytest

import quipu
from quipu import AsyncStore, Limit, Message, Misuse, Store, ToolCall


def test_a_session_comes_back_as_it_was_made(store: Store) -> None:
    made = store.create("k", agent_id="bot", model="m", metadata={"title": "Umlaut ü"}, ttl=3600)
    got = store.get("k").session
    assert got == made
    assert (got.key, got.agent_id, got.model) == ("k", "bot", "m")
    assert got.metadata == {"title": "Umlaut ü"}
    assert got.expires_at is not None
    assert got.expires_at - got.created_at == datetime.timedelta(hours=1)


def test_messages_come_back_with_every_member(store: Store) -> None:
    store.create("k")
    time = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
    call = ToolCall(name="f", id="c1", input='{"a":1}', thought=True, thought_signature="//79")
    sent = [
        Message("user", 'hello\n"you" \x00 \U0001f600', author="u", timestamp=time, event_id="e1"),
        Message("assistant", tool_calls=[call], invocation_id="i", branch="a.b", extra={"x": [1]}),
        Message("tool", tool_calls=[ToolCall(name="f", id="c1", output='{"ok":true}')]),
    ]
    done = store.append("k", sent)
    assert (done.first_seq, done.revision, done.repeated) == (1, 1, False)
    first, second, third = store.get("k").messages
    assert (first.content, first.author, first.timestamp) == (sent[0].content, "u", time)
    assert (first.event_id, first.seq) == ("e1", 1)
    assert second.tool_calls == [call]
    assert (second.invocation_id, second.branch, second.extra) == ("i", "a.b", {"x": [1]})
    assert third.tool_calls[0].output == '{"ok":true}'


def test_an_append_with_the_same_ids_writes_once(store: Store) -> None:
    store.create("k")
    message = Message("user", "once", event_id="e")
    assert not store.append("k", message).repeated
    assert store.append("k", message).repeated
    assert len(store.get("k").messages) == 1
    with pytest.raises(quipu.Exists):
        store.append("k", Message("user", "other", event_id="e"))


def test_reads_take_what_is_asked_for(store: Store) -> None:
    store.create("k")
    store.append("k", [Message("user", str(number)) for number in range(10)])
    last = store.get("k", last=3)
    assert [message.content for message in last.messages] == ["7", "8", "9"]
    assert last.more_before and not last.more_after
    page = store.get("k", after=2, limit=2)
    assert [message.seq for message in page.messages] == [3, 4]
    assert page.more_after
    assert store.get("k", last=0).messages == []
    assert store.get("k").session.message_count == 10


def test_a_window_holds_the_newest_turns(store: Store) -> None:
    store.create("k")
    for number in range(20):
        store.append(
            "k", [Message("user", f"question {number} " * 20), Message("assistant", "yes")]
        )
    window = store.window("k", 300)
    assert 0 < window.tokens <= 300
    assert window.messages[0].role == "user"
    assert window.messages[-1].seq == 40
    assert window.more_before and not window.over_budget


def test_a_fork_shares_the_past_and_goes_its_way(store: Store) -> None:
    store.create("k")
    store.append("k", [Message("user", "a"), Message("assistant", "b"), Message("user", "c")])
    store.fork("k", "f", at=2)
    store.append("f", Message("user", "d"))
    assert [message.content for message in store.get("f").messages] == ["a", "b", "d"]
    assert [message.content for message in store.get("k").messages] == ["a", "b", "c"]
    assert store.get("f").session.is_fork
    assert store.get("f").session.parent_key == "k"
    assert store.get("k").session.parent_key == ""
    assert [session.key for session in store.list(parent="k").sessions] == ["f"]


def test_a_compaction_changes_the_view_only(store: Store) -> None:
    store.create("k")
    store.append("k", [Message("user", "a"), Message("assistant", "b"), Message("user", "c")])
    assert store.compact("k", "they met", up_to=2) == 4
    view = store.get("k", view=True).messages
    assert [message.content for message in view] == ["they met", "c"]
    assert len(store.get("k").messages) == 4


def test_search_finds_what_was_said(store: Store) -> None:
    store.create("k")
    store.append("k", [Message("user", "The quick brown fox"), Message("assistant", "jumps")])
    hits = store.search("fox")
    assert [(hit.session_key, hit.seq, hit.role) for hit in hits.hits] == [("k", 1, "user")]
    assert "[fox]" in hits.hits[0].snippet
    assert hits.hits[0].rank != 0
    assert not hits.more
    assert store.search("fox", role="assistant").hits == []


def test_recall_finds_what_is_known_when_it_is_asked_for(store: Store) -> None:
    about = datetime.datetime(2023, 5, 9, tzinfo=datetime.timezone.utc)
    said = about - datetime.timedelta(days=1)
    store.create("k", app_name="app", user_id="ana")
    store.create("other", app_name="app", user_id="eve")
    store.append("k", [Message("user", "Shall we take the train?")])
    text = "The train leaves at nine."
    known = store.memory_save(
        "k", text, source_start=1, source_end=1, said_at=said, about_from=about
    )
    store.memory_save("other", "The train of Eve is late.")
    question = "When does the train leave?"
    assert [hit.memory for hit in store.recall(question, key="k")] == [None]
    hits = store.recall(question, app_name="app", user_id="ana", memories=True)
    assert [hit.seq for hit in hits] == [0, 1]
    first = hits[0]
    assert first.memory == known and first.memory.about_from == about
    assert (first.memory.kind, first.memory.source_end) == ("observation", 1)
    assert (first.role, first.author, first.event_id) == ("", "", "")
    assert (first.content, first.timestamp) == (text, said)
    store.memory_delete(ids=[known.id])
    assert [hit.seq for hit in store.recall(question, key="k", memories=True)] == [1]


def test_recall_finds_what_answers_a_question(store: Store) -> None:
    store.create("k", app_name="app", user_id="ana")
    store.append("k", [Message("user", "I redeemed a coupon at Target"), Message("model", "Fine")])
    question = "Where did I redeem the coupons?"
    hits = store.recall(question, app_name="app", user_id="ana")
    assert [(hit.session_key, hit.seq, hit.role) for hit in hits] == [
        ("k", 1, "user"),
        ("k", 2, "model"),
    ]
    first = hits[0]
    assert first.content == "I redeemed a coupon at Target" and first.tokens > 0
    assert first.score == first.from_words + first.from_neighbours + first.from_session
    assert store.recall(question, key="k", limit=1) == [first]
    assert store.recall(question, key="k", before=1) == []
    assert store.recall(question, everything=True) == hits
    assert store.recall(question, app_name="app", user_id="eve") == []
    with pytest.raises(Misuse, match="scope"):
        store.recall(question)
    with pytest.raises(Limit):
        store.recall("x" * 65537, everything=True)


def test_lists_come_in_pages(store: Store) -> None:
    for number in range(5):
        store.create(f"k{number}", metadata={"kind": "odd" if number % 2 else "even"})
    first = store.list(limit=2)
    assert [session.key for session in first.sessions] == ["k4", "k3"]
    second = store.list(limit=2, after=first.next)
    assert [session.key for session in second.sessions] == ["k2", "k1"]
    odd = store.list(metadata=("kind", "odd"), oldest_first=True)
    assert [session.key for session in odd.sessions] == ["k1", "k3"]
    assert odd.next is None


def test_settings_change_under_a_revision(store: Store) -> None:
    store.create("k", model="a", metadata={"x": 1})
    revision = store.update("k", model="b")
    session = store.get("k").session
    assert (session.model, session.metadata, session.revision) == ("b", {"x": 1}, revision)
    with pytest.raises(quipu.Conflict):
        store.update("k", model="c", if_revision=revision - 1)
    store.update("k", metadata={}, if_revision=revision)
    assert store.get("k").session.metadata == {}


def test_get_or_create_is_one_call(store: Store) -> None:
    with pytest.raises(quipu.NotFound):
        store.get("k")
    first = store.create("k", exist_ok=True)
    assert store.create("k", exist_ok=True).uid == first.uid
    with pytest.raises(quipu.Exists):
        store.create("k")


def test_deleted_is_gone_and_a_missing_one_is_fine(store: Store) -> None:
    store.create("k")
    store.fork("k", "f", at=0)
    store.delete("k")
    store.delete("k")
    assert [session.key for session in store.list().sessions] == ["f"]
    store.delete("f", forks=True)
    assert store.list().sessions == []


def test_a_backup_is_a_store(store: Store, tmp_path: pathlib.Path) -> None:
    store.create("k")
    store.append("k", Message("user", "kept"))
    store.backup(tmp_path / "copy.db")
    with Store(tmp_path / "copy.db", read_only=True) as copy:
        assert copy.get("k").messages[0].content == "kept"
        with pytest.raises(quipu.QuipuError):
            copy.create("no")


def test_expired_sessions_are_swept(store: Store) -> None:
    store.create("k", ttl=0.001)
    threading.Event().wait(0.02)
    with pytest.raises(quipu.Expired):
        store.append("k", Message("user", "late"))
    assert store.sweep() == 1


def test_the_history_cap_holds(tmp_path: pathlib.Path) -> None:
    with Store(tmp_path / "cap.db", cap_messages=4) as store:
        store.create("k")
        for number in range(10):
            store.append("k", Message("user", str(number)))
        assert [message.content for message in store.get("k").messages] == ["6", "7", "8", "9"]


def test_tenants_do_not_see_each_other(path: pathlib.Path) -> None:
    with Store(path, tenant="a") as one, Store(path, tenant="b") as other:
        one.create("k")
        assert other.list().sessions == []


def test_a_closed_store_says_so(path: pathlib.Path) -> None:
    store = Store(path)
    store.close()
    store.close()
    with pytest.raises(quipu.Misuse, match="closed"):
        store.list()


def test_a_path_with_nul_is_refused() -> None:
    with pytest.raises(ValueError):
        Store("a\0b")


def test_methods_have_names_words_and_signatures() -> None:
    for kind in (Store, AsyncStore):
        assert kind.append.__name__ == "append"
        assert kind.append.__doc__
        assert list(inspect.signature(kind.append).parameters)[:3] == ["self", "key", "messages"]


def test_threads_share_a_store(store: Store) -> None:
    store.create("k")
    threads = [
        threading.Thread(
            target=lambda: [store.append("k", Message("user", "x")) for _ in range(25)]
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [message.seq for message in store.get("k").messages] == list(range(1, 201))


async def test_an_async_store_does_the_same(path: pathlib.Path) -> None:
    async with AsyncStore(path) as store:
        await store.create("k")
        await asyncio.gather(*(store.append("k", Message("user", str(n))) for n in range(32)))
        messages = (await store.get("k")).messages
        assert sorted(int(message.content) for message in messages) == list(range(32))
        with pytest.raises(quipu.NotFound, match="missing"):
            await store.get("missing")
        assert (await store.search("31")).hits[0].session_key == "k"


async def test_a_store_can_be_opened_beside_the_loop(path: pathlib.Path) -> None:
    async with await AsyncStore.open(path, tenant="t") as store:
        assert (await store.create("k")).key == "k"
    with pytest.raises(quipu.NotFound):
        await AsyncStore.open(path.with_name("none.db"), must_exist=True)


async def test_the_event_loop_goes_on_while_another_process_writes(path: pathlib.Path) -> None:
    import sqlite3

    async with AsyncStore(path) as store:
        await store.create("k")
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        append = asyncio.ensure_future(store.append("k", Message("user", "late")))
        for _ in range(20):  # the loop turns while the append waits for the lock
            await asyncio.sleep(0.001)
        assert not append.done()
        blocker.execute("ROLLBACK")
        blocker.close()
        assert (await append).first_seq == 1


async def test_a_deadline_is_busy_and_never_locked(path: pathlib.Path) -> None:
    import sqlite3

    async with AsyncStore(path, deadline=0.05) as store:
        await store.create("k")
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(quipu.Busy) as caught:
            await store.append("k", Message("user", "never"))
        assert "locked" not in str(caught.value)
        blocker.execute("ROLLBACK")
        blocker.close()


async def test_a_cancelled_caller_does_not_stop_the_call(path: pathlib.Path) -> None:
    import sqlite3

    async with AsyncStore(path) as store:
        await store.create("k")
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(store.append("k", Message("user", "x")))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        blocker.execute("ROLLBACK")
        blocker.close()
        assert (await store.append("k", Message("user", "y"))).revision > 0
        contents = {message.content for message in (await store.get("k")).messages}
        assert contents in ({"x", "y"}, {"y"})


async def test_a_task_with_quick_calls_lets_others_go_on(path: pathlib.Path) -> None:
    async with AsyncStore(path, durability="relaxed") as store:
        await store.create("k")
        others_done = False

        async def busy() -> int:
            calls = 0
            while not others_done:  # for ever, if the loop never turned
                await store.get("k", last=0)
                calls += 1
            return calls

        task = asyncio.ensure_future(busy())
        for _ in range(50):
            await asyncio.sleep(0)
        others_done = True
        assert await task > 0


def test_each_event_loop_has_threads_of_its_own(path: pathlib.Path) -> None:
    store = AsyncStore(path)

    async def work() -> int:
        await store.create("k", exist_ok=True)
        return (await store.append("k", Message("user", "x"))).first_seq

    assert [asyncio.run(work()) for _ in range(5)] == [1, 2, 3, 4, 5]
    store._handle.close()
