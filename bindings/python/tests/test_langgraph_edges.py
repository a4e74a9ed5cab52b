"""What happens to a thread of LangGraph that others change, that dies in the middle, that rows come
late to, and what its reads cost."""

from __future__ import annotations

import contextlib
import datetime
import functools
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

import quipu
from quipu import _call, _pages, _steps, langgraph
from quipu import _langgraph_rows as rows_of
from quipu._native import lib
from quipu.langgraph import QuipuSaver
from test_langgraph import config, put, talk, values

WAIT_S = 20  # for what must not take for ever
STEPS = 400
LONG_TALK = 1000


@pytest.fixture
def saver(path: pathlib.Path) -> Iterator[QuipuSaver]:
    with quipu.Store(path, durability="relaxed") as store:
        yield QuipuSaver(store)


def put_id(saver: Any, id: str, values: dict[str, Any], parent: Any = None, **more: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = id
    checkpoint["channel_values"] = values
    return saver.put(parent or config(), checkpoint, {"source": "loop", **more}, {})


def in_time(call: Callable[[], Any]) -> Any:
    """What a call returns or raises; it fails the test when it takes for ever."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as problem:
            found.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert found, "it does not end"
    return found[0]


def append(saver: QuipuSaver, line: bytes) -> None:
    """Append a row as another version of the saver would."""
    other = QuipuSaver(saver.store)
    session = other._session(config())
    fresh = _steps.drive(saver.store, other._fresh(session.key))
    assert fresh
    _steps.drive(saver.store, other._add(session, fresh[0], [langgraph._silent(line)]))


class Counted:
    """Reads of rows, through the calls that the saver makes."""

    def __init__(self) -> None:
        self.calls = self.rows = 0

    def note(self, op: int, answer: _call.Answer) -> None:
        if op == lib.QPY_ROWS_GET and answer.texts:
            self.calls += 1
            self.rows += (answer.texts[0] or b"").count(b"\n")

    def of(self, call: Callable[[], Any]) -> tuple[int, int]:
        """How many reads a call makes, and of how many rows."""
        self.calls = self.rows = 0
        call()
        return self.calls, self.rows


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made, run = Counted(), _call.run

    def counting(op: int, *given: Any) -> _call.Answer:
        answer = run(op, *given)
        made.note(op, answer)
        return answer

    monkeypatch.setattr(_call, "run", counting)
    return made


# ---- from other savers ---------------------------------------------------------------------------


class Talk(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def talking(saver: BaseCheckpointSaver[Any]) -> Any:
    def answer(state: Talk) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    graph = StateGraph(Talk)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_an_imported_thread_goes_on(saver: QuipuSaver, kind: str) -> None:
    with contextlib.ExitStack() as stack:
        old: Any = InMemorySaver()
        if kind == "sqlite":
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            old = SqliteSaver(stack.enter_context(contextlib.closing(connection)))
        for turn in range(3):
            talking(old).invoke({"messages": [HumanMessage(f"turn {turn}")]}, config())
        saver.import_from(old)
        for turn in range(3, 6):
            ours = talking(saver).invoke({"messages": [HumanMessage(f"turn {turn}")]}, config())
            theirs = talking(old).invoke({"messages": [HumanMessage(f"turn {turn}")]}, config())
            words = [one.content for one in ours["messages"]]
            assert words == [one.content for one in theirs["messages"]]
            assert len(words) == 2 * turn + 2


@pytest.mark.parametrize(
    "version", [None, 1, 7, 1.5, "0000000000000000000000000004.0.59", "9", "0099", "a", "", "z9"]
)
def test_a_version_is_followed_by_one_that_sorts_after_it(saver: QuipuSaver, version: Any) -> None:
    for _ in range(120):
        following: Any = saver.get_next_version(version, None)
        if version is None:
            assert following == 1
        else:
            assert following > version and isinstance(following, type(version))
        version = following
    assert len(str(version)) < 80


# ---- other lives of a session --------------------------------------------------------------------


def test_a_write_never_lands_in_another_life_of_its_thread(saver: QuipuSaver) -> None:
    at = put(saver, {"messages": talk(5)})
    saver.get_tuple(config())
    other = QuipuSaver(saver.store)
    other.delete_thread("t")
    put(other, {"a": 1})
    put(saver, {"messages": talk(6)}, at)
    found = in_time(lambda: QuipuSaver(saver.store).get_tuple(config()))
    assert found.checkpoint["channel_values"]["messages"] == talk(6)
    assert len([*QuipuSaver(saver.store).list(config())]) == 2


def test_what_a_cap_removed_is_an_error_and_no_loop(path: pathlib.Path) -> None:
    with quipu.Store(path, durability="relaxed", cap_messages=4) as store:
        saver = QuipuSaver(store)
        at, messages = put(saver, {"messages": talk(8)}), talk(8)
        for _ in range(6):
            messages = [*messages, *talk(2, len(messages))]
            at = put(saver, {"messages": messages}, at)
        for one in (saver, QuipuSaver(store)):
            assert isinstance(in_time(functools.partial(one.get_tuple, config())), quipu.Corrupt)


def test_a_top_that_is_missing_is_an_error_and_no_loop(saver: QuipuSaver) -> None:
    put(saver, {"messages": talk(5)})
    line = rows_of.writes_line(
        rows_of.Header(90, 1, True), rows_of.Writes("x", "t", "", False, [])
    )
    append(saver, line)
    found = in_time(lambda: QuipuSaver(saver.store).get_tuple(config()))
    assert isinstance(found, quipu.Corrupt)


# ---- what messages may have ----------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"deep": {(1, 2): "x"}}])
def test_arguments_that_are_no_json_are_kept(saver: QuipuSaver, more: dict[str, Any]) -> None:
    args = {"when": datetime.date(2026, 1, 2), "set": {1}, "raw": b"\xff", **more}
    call = {"name": "f", "args": args, "id": "c", "type": "tool_call"}
    put(saver, {"messages": [*talk(4), AIMessage("", tool_calls=[call])]})
    assert values(saver)["messages"][-1].tool_calls[0]["args"] == args
    assert isinstance(saver.store, quipu.Store)
    said = saver.store.get("langgraph:t").messages[-1].tool_calls[0]
    assert said.name == "f" and "2026" in said.input


# ---- rows that come late -------------------------------------------------------------------------


def grown(saver: QuipuSaver, steps: int) -> list[Any]:
    at, made = None, []
    for step in range(steps):
        at = put(saver, {"step": step}, at)
        saver.put_writes(at, [("x", step)], "task")
        made.append(at)
    return made


def test_late_rows_do_not_make_a_thread_s_reads_dear(saver: QuipuSaver, counted: Counted) -> None:
    made = grown(saver, LONG_TALK)
    late = made[LONG_TALK // 2]
    saver.put_writes(late, [("late", 1)], "other")
    early = str(uuid6())
    made += grown(saver, 30)
    put_id(saver, early, {"step": "late"})  # a checkpoint between the two
    made += grown(saver, 30)
    for one in (saver, QuipuSaver(saver.store)):
        found = one.get_tuple(late)
        assert found and found.pending_writes == [
            ("other", "late", 1),
            ("task", "x", LONG_TALK // 2),
        ]
        assert values(one, config(id=early))["step"] == "late"
        ids = [each.checkpoint["id"] for each in one.list(config())]
        assert ids == sorted(ids, reverse=True) and len(ids) == LONG_TALK + 61
        for call in (
            lambda one=one: next(iter(one.list(config(), limit=1))),
            lambda one=one: one.get_tuple(made[20]),
            lambda one=one: one.get_tuple(late),
            lambda one=one: [*one.list(config(), before=made[20], limit=1)],
            lambda one=one: [*one.list(made[20])],
        ):
            calls, rows = counted.of(call)
            assert rows < LONG_TALK and calls < 16, (calls, rows)


def test_a_late_checkpoint_is_read_whose_list_has_pieces_before_it(saver: QuipuSaver) -> None:
    steps = 4 * langgraph._NEAR
    ids = [str(uuid6()) for _ in range(steps)]
    said = talk(steps + 8)
    for step in (0, *range(2, steps)):
        put_id(saver, ids[step], {"messages": said[: step + 4]})
    put_id(saver, ids[1], {"messages": said})
    for one in (saver, QuipuSaver(saver.store)):
        assert values(one, config(id=ids[1])) == {"messages": said}
        assert values(one, config(id=ids[9])) == {"messages": said[:13]}


def test_many_late_writes_and_checkpoints_are_found_in_order(saver: QuipuSaver) -> None:
    """Checkpoints and writes as threads may send them: each may be a few places late."""
    ids = [str(uuid6()) for _ in range(200)]
    order = [at + (-3 if at % 7 == 3 else 0) + (5 if at % 11 == 5 else 0) for at in range(200)]
    for at in sorted(range(200), key=lambda at: order[at]):
        put_id(saver, ids[at], {"n": at})
        saver.put_writes(config(id=ids[max(0, at - at % 5)]), [("x", at)], f"task{at:03}")
    for one in (saver, QuipuSaver(saver.store)):
        listed = [*one.list(config())]
        assert [each.checkpoint["id"] for each in listed] == ids[::-1]
        for at, each in zip(reversed(range(200)), listed, strict=True):
            sent = [n for n in range(200) if max(0, n - n % 5) == at]
            assert [value for _, _, value in each.pending_writes or ()] == sent
            assert one.get_tuple(config(id=ids[at])) == each
            if at % 20 == 0:
                before = [*one.list(config(), before=config(id=ids[at]), limit=2)]
                assert before == listed[200 - at : 202 - at]
                assert [*one.list(config(id=ids[at]))] == [each]


def test_a_thread_that_an_older_version_called_unordered_is_read(saver: QuipuSaver) -> None:
    rows = rows_of
    made = grown(saver, 30)
    late = rows.Writes(made[3]["configurable"]["checkpoint_id"], "old", "", False, [])
    late.values.append((0, "late", *saver.serde.dumps_typed(1)))
    header = saver._known.heads["langgraph:t"].header
    line = rows.writes_line(header._replace(ordered=False), late)
    append(saver, line)
    made += grown(saver, 30)
    for one in (saver, QuipuSaver(saver.store)):
        found = one.get_tuple(made[3])
        assert found and found.pending_writes == [("old", "late", 1), ("task", "x", 3)]
        assert [each.config for each in one.list(config())] == made[::-1]


@pytest.mark.parametrize("size", [10, 2000])
def test_a_get_reads_the_same_at_every_step(
    saver: QuipuSaver, counted: Counted, size: int
) -> None:
    """For a state of constant size, by a saver that knows the thread and by a new one."""
    at, read = None, []
    for step in range(STEPS):
        at = put(saver, {"step": step, "messages": talk(size)[:8], "text": "x" * size}, at)
        if step in (10, STEPS - 1):
            read.append(
                [
                    counted.of(lambda: saver.get_tuple(config())),
                    counted.of(lambda: QuipuSaver(saver.store).get_tuple(config())),
                ]
            )
    for (calls, few), (calls_late, rows) in zip(*read, strict=True):
        assert calls_late <= max(calls, 2)
        assert rows <= few + 2 * langgraph._TAIL + rows_of.ROWS_MORE


# ---- what dies in the middle ---------------------------------------------------------------------


class Died(Exception):
    """The process is gone."""


@contextlib.contextmanager
def dying(patch: pytest.MonkeyPatch, op: int, after: int) -> Iterator[None]:
    """Within, all calls fail from the call of a kind with number `after` on."""
    run, counts = _call.run, [0]

    def counting(asked: int, *given: Any, **more: Any) -> Any:
        counts[0] += asked == op or counts[0] > after
        if counts[0] > after:
            raise Died
        return run(asked, *given, **more)

    with patch.context() as inner:
        inner.setattr(_call, "run", counting)
        with pytest.raises(Died):
            yield


def listed(saver: QuipuSaver) -> list[Any]:
    return [*QuipuSaver(saver.store).list(config())]


@pytest.mark.parametrize("op", ["QPY_COMPACT", "QPY_PRUNE"])
def test_what_a_prune_that_died_has_left_goes_with_the_next_one(
    saver: QuipuSaver, op: str
) -> None:
    at = None
    for step in range(20):
        at = put(saver, {"secret": f"hidden {step}"}, at)
    with dying(pytest.MonkeyPatch(), getattr(lib, op), 0):
        saver.prune(["t"])
    fresh = QuipuSaver(saver.store)
    assert len(listed(saver)) == 1
    assert isinstance(saver.store, quipu.Store)
    assert saver.store.get("langgraph:t", last=0).session.message_count > 20
    fresh.prune(["t"])
    assert saver.store.get("langgraph:t", last=0).session.message_count < 6
    assert values(fresh) == {"secret": "hidden 19"}


def test_a_prune_leaves_what_a_user_s_own_compaction_covers(saver: QuipuSaver) -> None:
    at = put(saver, {"a": 1})
    put(saver, {"a": 2}, at)
    saver.prune(["t"])
    put(saver, {"a": 3}, at)
    assert isinstance(saver.store, quipu.Store)
    upto = saver.store.get("langgraph:t", last=0).session.next_seq - 1
    saver.store.compact("langgraph:t", "so far", up_to=upto)
    before = listed(saver)
    saver.delete_for_runs(["none"])
    assert listed(saver) == before and len(before) == 2


def test_a_prune_by_a_saver_that_missed_another_s_prune_keeps_the_newest(
    saver: QuipuSaver,
) -> None:
    other = QuipuSaver(saver.store)
    at = put(saver, {"a": 1})
    assert values(other) == {"a": 1}
    at = put(saver, {"a": 2}, at)
    saver.prune(["t"])
    put(saver, {"a": 3}, at)
    other.prune(["t"])
    assert [one.checkpoint["channel_values"] for one in listed(saver)] == [{"a": 3}]


def test_a_run_is_deleted_by_a_saver_that_missed_another_s_prune(saver: QuipuSaver) -> None:
    other = QuipuSaver(saver.store)
    at = put(saver, {"a": 1}, run_id="run1")
    assert values(other) == {"a": 1}
    at = put(saver, {"a": 2}, at, run_id="run2")
    saver.prune(["t"])
    put(saver, {"a": 3}, at, run_id="run3")
    other.delete_for_runs(["run2"])
    assert [one.checkpoint["channel_values"] for one in listed(saver)] == [{"a": 3}]


@pytest.mark.parametrize("reads", [1, 2])
def test_a_step_beside_the_deletion_of_all_runs_is_kept(
    saver: QuipuSaver, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    at = put(saver, {"secret": "hidden"}, run_id="run1")
    saver.put_writes(at, [("x", 1)], "task")
    other, read = QuipuSaver(saver.store), QuipuSaver._read

    def reading(self: QuipuSaver, key: str, **more: Any) -> Any:
        found = yield from read(self, key, **more)
        if self is saver:
            seen.append(key)
            if len(seen) == reads:
                put(other, {"a": 2}, at, run_id="run2")
        return found

    seen: list[str] = []
    monkeypatch.setattr(QuipuSaver, "_read", reading)
    saver.delete_for_runs(["run1"])
    assert [one.checkpoint["channel_values"] for one in listed(saver)] == [{"a": 2}]
    saver.delete_for_runs(["run2"])
    assert listed(saver) == [] and saver.get_tuple(config()) is None
    put(saver, {"a": 3}, run_id="run3")
    assert [one.checkpoint["channel_values"] for one in listed(saver)] == [{"a": 3}]


def test_a_prune_removes_calls_of_tools_that_are_answered_in_what_stays(
    saver: QuipuSaver,
) -> None:
    """The rows that a prune appends show the newest messages, the first of which is an answer."""
    said: list[BaseMessage] = [HumanMessage("go")]
    for n in range(160):
        call = {"name": "f", "args": {}, "id": f"c{n}"}
        said.append(AIMessage(f"hidden {n}", tool_calls=[call]))
        said.append(ToolMessage("r", tool_call_id=f"c{n}"))
    at = None
    said.append(AIMessage("done"))
    said.insert(0, HumanMessage("hello"))
    for count in (4, 250, len(said) - 1, len(said)):
        at = put(saver, {"messages": said[:count]}, at)
    saver.prune(["t"])
    assert values(QuipuSaver(saver.store)) == {"messages": said}
    assert isinstance(saver.store, quipu.Store)
    assert not saver.store.search("hidden 9").hits
    session = saver.store.get("langgraph:t", last=0).session
    assert session.message_count < len(said)


def test_a_rewrite_that_is_cut_changes_nothing(
    saver: QuipuSaver, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langgraph, "_BATCH", 16)
    at, messages = None, talk(5)
    for step in range(60):
        messages = [*messages, *talk(1, 100 + step)]
        at = put(saver, {"messages": messages}, at, run_id=f"run{step % 3}")
        saver.put_writes(at, [("x", step)], "task")
    before = listed(saver)
    for cut in (1, 2, 5):
        with dying(monkeypatch, lib.QPY_ROWS_ADD, cut):
            QuipuSaver(saver.store).delete_for_runs(["run1"])
        assert listed(saver) == before
        last = put(QuipuSaver(saver.store), {"messages": messages}, at, run_id="run0")
        saver.put_writes(last, [("x", 1)], "task")
        for one in (saver, QuipuSaver(saver.store)):
            now = [*one.list(config())]
            assert now[1:] == before
            assert all(one.get_tuple(each.config) == each for each in now)
        before = now
    saver.delete_for_runs(["run1"])
    stays = [each for each in before if each.metadata["run_id"] != "run1"]
    for one in (saver, QuipuSaver(saver.store)):
        assert [*one.list(config())] == stays
        assert all(one.get_tuple(each.config) == each for each in stays)
    calls, rows = counted.of(lambda: saver.get_tuple(stays[-1].config))
    assert calls < 12, (calls, rows)


# ---- savers of one process -----------------------------------------------------------------------


def test_clones_of_a_saver_share_its_bound(
    saver: QuipuSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langgraph, "_CACHED_ITEMS", 100)
    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=[("a", "A")])
    clones = [saver, *(saver.with_allowlist([("a", f"B{n}")]) for n in range(3))]
    assert len({id(one) for one in clones}) == 4
    for number in range(40):
        put(clones[number % 4], {"messages": talk(9)}, config(f"t{number}"))
    known = saver._known
    assert sum(langgraph._length(lists) for _, lists in known.lists.values()) <= 100
    assert known.items == sum(langgraph._length(lists) for _, lists in known.lists.values())


def test_threads_do_not_wait_for_one_another(path: pathlib.Path) -> None:
    began, other_is_done = threading.Event(), threading.Event()

    class Waiting(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            if isinstance(obj, dict) and obj.get("channel_values") == {"slow": True}:
                began.set()
                assert other_is_done.wait(WAIT_S)
            return super().dumps_typed(obj)

    with quipu.Store(path, durability="relaxed") as store:
        saver = QuipuSaver(store, serde=Waiting())
        waits = threading.Thread(target=put, args=(saver, {"slow": True}, config("a")))
        waits.start()
        assert began.wait(WAIT_S)
        names = [f"b{number}" for number in range(4 * langgraph._LOCKS)]
        free = next(one for one in names if not saver._known.lock_of(f"langgraph:{one}").locked())
        in_time(lambda: put(saver, {"a": 1}, config(free)))
        other_is_done.set()
        waits.join(WAIT_S)
        assert values(saver, config("a")) == {"slow": True}


def test_threads_of_one_conversation_lose_nothing(saver: QuipuSaver) -> None:
    at = put(saver, {"messages": talk(9)})
    threads = [
        threading.Thread(target=saver.put_writes, args=(at, [("x", n)], f"task{n:02}"))
        for n in range(16)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = saver.get_tuple(config())
    assert found and [value for *_, value in found.pending_writes or ()] == [*range(16)]


def test_a_thread_with_more_namespaces_than_a_page_is_deleted_whole(
    saver: QuipuSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when one changes while they are listed."""
    monkeypatch.setattr(_pages, "PAGE", 4)
    for number in range(10):
        put(saver, {"n": number}, config("t", f"ns{number}"))
    moved: list[int] = []
    run = _call.run

    def moving(op: int, *given: Any, **more: Any) -> Any:
        answer = run(op, *given, **more)
        if op == lib.QPY_LIST and not moved:
            moved.append(op)
            for number in (0, 5, 9):
                put(QuipuSaver(saver.store), {"n": -1}, config("t", f"ns{number}"))
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(_call, "run", moving)
        sessions = _steps.drive(saver.store, saver._sessions("t"))
    assert moved and sorted(session.ns for session, _ in sessions) == [
        f"ns{number}" for number in range(10)
    ]


# ---- lists of messages ---------------------------------------------------------------------------


def changed(messages: list[BaseMessage], at: int, how: str) -> None:
    one = messages[at]
    if how == "content":
        one.content = "new"
    elif how == "into an empty dict":
        one.additional_kwargs["n"] = 1
    elif how == "another dict":
        one.additional_kwargs = {"n": 1}
    elif how == "extra":
        one.more = 1  # type: ignore[attr-defined]
    elif how == "another message":
        messages[at] = HumanMessage("another", id="new")
    elif how == "its members":
        one.__dict__["content"] = "new"


@pytest.mark.parametrize(
    "how",
    [
        "content", "into an empty dict", "another dict", "extra", "another message", "its members"
    ],
)  # fmt: skip
@pytest.mark.parametrize("read", [False, True])
def test_every_change_of_an_old_message_is_seen(saver: QuipuSaver, how: str, read: bool) -> None:
    messages = talk(300)
    at = put(saver, {"messages": messages})
    messages = values(saver)["messages"] if read else messages
    changed(messages, 120, how)
    put(saver, {"messages": [*messages]}, at)
    assert values(QuipuSaver(saver.store))["messages"] == messages
    assert values(QuipuSaver(saver.store), at)["messages"] == talk(300)


@pytest.mark.parametrize("steps", (700, 1024 + 256, 2600))
def test_a_conversation_that_grew_by_steps_comes_back(saver: QuipuSaver, steps: int) -> None:
    """Also where two threads read it (native_rows.c, ROWS_SPLIT_MIN)."""
    at, messages = None, talk(4)
    for step in range(steps):
        messages = [*messages, *talk(1, 4 + step)]
        at = put(saver, {"messages": messages}, at)
    found = values(QuipuSaver(saver.store))["messages"]
    assert found == messages
