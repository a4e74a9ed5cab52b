"""The saver for LangGraph: its public conformance suite whole, LangGraph's own graphs over it, and
what the suite does not ask."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import pathlib
import random
import sqlite3
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import quipu
from conftest import LONG
from quipu._langgraph_rows import ROWS_AN_ITEM, ROWS_MORE, Codec, Link, Prefix
from quipu.langgraph import QuipuSaver

SUITE_TESTS = 81  # of langgraph-checkpoint-conformance 0.0.2


@pytest.fixture
def saver(path: pathlib.Path) -> Iterator[QuipuSaver]:
    with quipu.Store(path, durability="relaxed") as store:
        yield QuipuSaver(store)


def config(thread: str = "t", ns: str = "", id: str | None = None) -> Any:
    given = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": {**given, "checkpoint_id": id} if id else given}


def put(saver: Any, values: dict[str, Any], parent: Any = None, **metadata: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = {name: 1 for name in values}
    return saver.put(parent or config(), checkpoint, {"source": "loop", **metadata}, {})


def talk(count: int, begin: int = 0) -> list[BaseMessage]:
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"word {n}", id=str(n)) for n in range(begin, begin + count)]


def values(saver: Any, at: Any = None) -> dict[str, Any]:
    found = saver.get_tuple(at or config())
    assert found is not None
    return dict(found.checkpoint["channel_values"])


async def test_the_public_conformance_suite_passes_whole(tmp_path: pathlib.Path) -> None:
    made = iter(range(100))

    @checkpointer_test(name="QuipuSaver")
    async def fresh() -> AsyncIterator[QuipuSaver]:
        async with QuipuSaver(tmp_path / f"{next(made)}.db") as opened:
            yield opened

    report = await validate(fresh)
    results = report.results.values()
    assert [failure for one in results for failure in one.failures] == []
    assert sum(one.tests_passed for one in results) == SUITE_TESTS
    assert all(one.detected for one in results)


def test_a_growing_list_writes_what_it_grew(saver: QuipuSaver) -> None:
    """Rows of a step do not grow with the list; nor does a step that changes nothing of it."""
    sizes: list[int] = []
    at, messages = None, talk(4)
    for step in range(400):
        messages = [*messages, *talk(1, len(messages))]
        at = put(saver, {"messages": messages, "step": step}, at)
        line = next(iter(saver._known.heads["langgraph:t"].lines.values())) if step else b""
        sizes.append(len(line))
    assert values(saver)["messages"] == messages
    assert max(sizes[10:]) < 1.2 * min(sizes[10:])


def test_a_file_grows_by_a_tenth_of_what_the_sqlite_saver_s_does(tmp_path: pathlib.Path) -> None:
    """1,000 steps that add a message each."""
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    with contextlib.closing(sqlite3.connect(theirs)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        with quipu.Store(ours, durability="relaxed") as store:
            for saver in (QuipuSaver(store), SqliteSaver(connection)):
                at, messages = None, talk(4)
                for step in range(1000):
                    messages = [*messages, *talk(1, len(messages))]
                    at = put(saver, {"messages": messages, "step": step}, at)
    assert ours.stat().st_size * 10 < theirs.stat().st_size


def test_every_step_is_found_by_its_id(saver: QuipuSaver) -> None:
    said: list[tuple[Any, list[BaseMessage]]] = []
    at, messages = None, talk(4)
    for step in range(300):
        messages = [*messages, *talk(1, len(messages))]
        at = put(saver, {"messages": messages}, at)
        saver.put_writes(at, [("messages", step)], "task")
        said.append((at, messages))
    fresh = QuipuSaver(saver.store)
    for step in random.sample(range(300), 40):
        found = fresh.get_tuple(said[step][0])
        assert found is not None and found.checkpoint["channel_values"]["messages"] == said[step][1]
        assert found.pending_writes == [("task", "messages", step)]
        if step:
            assert found.parent_config == said[step - 1][0]


def test_lists_change_in_every_way(saver: QuipuSaver) -> None:
    """Cut, replaced, reordered, changed in place, back and forth: what was put comes back."""
    draw = random.Random(7)
    said: list[tuple[Any, str]] = []
    messages = talk(6)
    at = None
    for step in range(300 if LONG else 120):
        way = draw.randrange(7)
        if way == 0:
            messages = messages[: draw.randrange(len(messages) + 1)]
        elif way == 1 and messages:
            messages = [*messages[:-1], AIMessage("changed", id=messages[-1].id)]
        elif way == 2 and messages:
            messages[draw.randrange(len(messages))].content = f"in place {step}"
        elif way == 3 and messages:
            one = messages[draw.randrange(len(messages))]
            one.additional_kwargs["n"] = draw.choice([1, True, 1.0, None])
        elif way == 4:
            draw.shuffle(messages)
        else:
            call = {"name": "f", "args": {"x": step}, "id": f"c{step}", "type": "tool_call"}
            messages = [*messages, AIMessage("", tool_calls=[call], id=f"a{step}")]
            messages.append(ToolMessage(str(step), tool_call_id=f"c{step}", id=f"r{step}"))
            messages += talk(2, step)
        at = put(saver, {"messages": messages, "other": [step] * 5}, at)
        said.append((at, repr(messages)))
        if draw.randrange(4) == 0:
            saver = QuipuSaver(saver.store)
        if draw.randrange(9) == 0:
            at, _ = draw.choice(said)
            messages = values(saver, at)["messages"]
        assert repr(values(saver)["messages"]) == said[-1][1]
    for at, words in said:
        assert repr(values(saver, at)["messages"]) == words


def test_an_old_message_changed_in_place_is_written_with_the_next_step(
    saver: QuipuSaver,
) -> None:
    said = talk(2000)
    first = put(saver, {"messages": list(said)})
    said[700].content = "taken back"
    said.append(HumanMessage("next", id="next"))
    second = put(saver, {"messages": list(said)}, first)
    other = QuipuSaver(saver.store)
    assert values(other, second)["messages"] == said
    assert values(other, first)["messages"][700].content == "word 700"


def test_one_is_not_true() -> None:
    """Python's == says so; a list that was changed from one to the other is another list."""
    items = [HumanMessage("x", additional_kwargs={"n": value}) for value in (1, 1, 1, 1)]
    prefix = Prefix(Link(1, 1, 4), items)
    assert prefix.common(items, prefix.alike(items)) == 4
    items[2].additional_kwargs["n"] = True
    assert prefix.common(items, prefix.alike(items)) == 2
    items[2].additional_kwargs["n"] = 1
    items[1] = HumanMessage("x", additional_kwargs={"n": 1}, more=2)
    assert prefix.common(items, prefix.alike(items)) == 1


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("x"),
        HumanMessage([{"type": "text", "text": "x"}], name="n", id="1"),
        HumanMessage("x", more="extra"),
        AIMessage("x", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": [1]}, "id": "c"}]),
        AIMessage("x", response_metadata={"a": 1}),
        SystemMessage("x"),
        ToolMessage("x", tool_call_id="c", artifact={"a": 1}, status="error"),
        ToolMessage("x", tool_call_id="c"),
        RemoveMessage(id="1"),
    ],
)
def test_messages_are_read_as_the_serializer_reads_them(message: BaseMessage) -> None:
    serde = JsonPlusSerializer()
    codec = Codec(serde)
    for _ in range(2):  # the second is a copy of the first
        written = codec.dumps([message])
        ours, theirs = codec.loads(written)[0], serde.loads_typed(written)[0]
        assert ours == theirs and repr(ours) == repr(theirs) and type(ours) is type(theirs)
        assert ours.__dict__ == theirs.__dict__ and list(ours.__dict__) == list(theirs.__dict__)
        assert ours.model_fields_set == theirs.model_fields_set
        ours.additional_kwargs["changed"] = True
        ours.response_metadata["changed"] = True


def test_steps_that_leave_a_list_alone_do_not_make_it_dear(saver: QuipuSaver) -> None:
    """A list whose pieces are spread over many rows is written anew."""
    at, messages = None, talk(8)
    for step in range(300):
        if step % 60 == 0:
            messages = [*messages, *talk(1, len(messages))]
        at = put(saver, {"messages": messages, "step": step}, at)
    head = saver._known.heads["langgraph:t"]
    link = quipu._langgraph_rows.record_of(head.lines[head.header.top]).links["messages"]
    assert link.seq - link.base <= ROWS_AN_ITEM * len(messages) + ROWS_MORE
    assert values(saver)["messages"] == messages


def test_a_conversation_can_be_searched(saver: QuipuSaver) -> None:
    put(saver, {"messages": [*talk(4), HumanMessage("where is the lighthouse?")]})
    assert isinstance(saver.store, quipu.Store)
    hits = saver.store.search("lighthouse").hits
    assert [hit.session_key for hit in hits] == ["langgraph:t"]
    recalled = saver.store.recall("Which lighthouses?", app_name="langgraph", user_id="t")
    assert "lighthouse" in recalled[0].content


def test_an_encrypting_serializer_leaves_no_plain_text(path: pathlib.Path) -> None:
    class Turned:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "turned", bytes(byte ^ 0x5A for byte in plaintext)

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return bytes(byte ^ 0x5A for byte in ciphertext)

    with QuipuSaver(path, serde=EncryptedSerializer(Turned())) as saver:
        messages = [*talk(5), HumanMessage("lighthouse")]
        at = put(saver, {"messages": messages, "note": "lighthouse"})
        saver.put_writes(at, [("messages", HumanMessage("lighthouse"))], "task")
        assert values(saver)["messages"] == messages
        assert isinstance(saver.store, quipu.Store)
        assert not saver.store.search("lighthouse").hits
    assert b"lighthouse" not in path.read_bytes()


def test_what_is_pruned_leaves_the_file(saver: QuipuSaver) -> None:
    assert isinstance(saver.store, quipu.Store)
    at = None
    messages = talk(6)
    for step in range(20):
        messages = [*messages, HumanMessage(f"step {step}")]
        at = put(saver, {"messages": messages, "secret": f"hidden {step}"}, at)
        saver.put_writes(at, [("x", step), ("y", None)], "task")
    saver.prune(["t"])
    assert len([*saver.list(config())]) == 1
    found = saver.get_tuple(config())
    assert found is not None and found.checkpoint["channel_values"]["messages"] == messages
    assert found.pending_writes == [("task", "x", 19), ("task", "y", None)]
    assert found.parent_config is not None
    assert saver.store.get("langgraph:t", last=0).session.message_count < 60
    at = put(saver, {"messages": [*messages, *talk(1)]}, at)
    assert values(QuipuSaver(saver.store))["messages"] == [*messages, *talk(1)]
    saver.prune(["t"], strategy="delete")
    assert saver.get_tuple(config()) is None and saver.store.list().sessions == []
    with pytest.raises(ValueError, match="strategy is 'all'"):
        saver.prune(["t"], strategy="all")


def test_runs_are_deleted_out_of_the_middle(saver: QuipuSaver) -> None:
    at, said, messages = None, {}, talk(5)
    for step in range(12):
        messages = [*messages, *talk(1, 100 + step)]
        at = put(saver, {"messages": messages}, at, run_id=f"run{step % 3}")
        saver.put_writes(at, [("x", step)], "task")
        said[at["configurable"]["checkpoint_id"]] = step, messages
    saver.delete_for_runs(["run1", "none"])
    for one in (saver, QuipuSaver(saver.store)):
        found = [*one.list(None)]
        assert len(found) == 8
        for each in found:
            step, messages = said[each.checkpoint["id"]]
            assert step % 3 != 1
            assert each.checkpoint["channel_values"]["messages"] == messages
            assert each.pending_writes == [("task", "x", step)]
            assert one.get_tuple(each.config) == each


def test_late_and_early_writes_reach_their_checkpoint(saver: QuipuSaver) -> None:
    first = put(saver, {"a": 1})
    second = put(saver, {"a": 2}, first)
    saver.put_writes(first, [("late", 1)], "task")
    third = empty_checkpoint()
    third["id"] = str(uuid6())
    early = config(id=third["id"])
    saver.put_writes(early, [("early", 2)], "task")
    saver.put(second, third, {}, {})
    saver.put_writes(second, [("late", 3), ("late", 4)], "task")
    for one in (saver, QuipuSaver(saver.store)):
        found = [one.get_tuple(at) for at in (first, second, early)]
        pending = [each.pending_writes for each in found if each]
        assert pending == [
            [("task", "late", 1)],
            [("task", "late", 3), ("task", "late", 4)],
            [("task", "early", 2)],
        ]
        assert [each.pending_writes for each in one.list(config())] == pending[::-1]


def test_writes_that_are_earlier_than_several_checkpoints_reach_theirs(saver: QuipuSaver) -> None:
    made = [empty_checkpoint() for _ in range(3)]
    at = [config(id=one["id"]) for one in made]
    for index in (2, 1, 0):  # as LangGraph's threads may call, which store what comes first
        saver.put_writes(at[index], [("__interrupt__", index)], "task")
        saver.put_writes(at[index], [("x", index), ("y", index)], "other")
    for index, one in enumerate(made):
        saver.put(at[index - 1] if index else config(), one, {}, {})
        for each in (saver, QuipuSaver(saver.store)):
            found = each.get_tuple(config())
            assert found and found.checkpoint["id"] == one["id"]
            assert found.pending_writes == [
                ("other", "x", index),
                ("other", "y", index),
                ("task", "__interrupt__", index),
            ]
            assert [len(past.pending_writes or []) for past in each.list(config())] == [3] * (
                index + 1
            )


def test_a_prune_keeps_the_writes_of_a_checkpoint_to_come(saver: QuipuSaver) -> None:
    put(saver, {"a": 1})
    last = put(saver, {"a": 2})
    early = empty_checkpoint()
    saver.put_writes(config(id=early["id"]), [("x", 1)], "task")
    saver.prune(["t"])
    saver.put(last, early, {}, {})
    for one in (saver, QuipuSaver(saver.store)):
        found = one.get_tuple(config())
        assert found and found.pending_writes == [("task", "x", 1)]


def test_a_checkpoint_put_again_replaces_and_keeps_its_writes(saver: QuipuSaver) -> None:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"a": 1}
    at = saver.put(config(), checkpoint, {"step": 1}, {})
    saver.put_writes(at, [("x", 1)], "task")
    checkpoint["channel_values"] = {"a": 2}
    saver.put(config(), checkpoint, {"step": 2}, {})
    for one in (saver, QuipuSaver(saver.store)):
        found = [*one.list(config())]
        assert len(found) == 1 and found[0].metadata["step"] == 2
        assert one.get_tuple(at) == found[0]
        assert found[0].pending_writes == [("task", "x", 1)]


def test_older_ids_may_come_late(saver: QuipuSaver) -> None:
    ids = [str(uuid6()) for _ in range(30)]
    random.Random(3).shuffle(ids)
    for number, id in enumerate(ids):
        checkpoint = empty_checkpoint()
        checkpoint["id"] = id
        checkpoint["channel_values"] = {"n": number, "messages": talk(5 + number)}
        at = saver.put(config(), checkpoint, {}, {})
        saver.put_writes(at, [("x", number)], "task")
    for one in (saver, QuipuSaver(saver.store)):
        assert [found.checkpoint["id"] for found in one.list(config())] == sorted(ids)[::-1]
        for number, id in enumerate(ids):
            assert values(one, config(id=id))["n"] == number
            assert values(one, config(id=id))["messages"] == talk(5 + number)
        assert values(one)["n"] == ids.index(max(ids))


def test_two_savers_take_turns(path: pathlib.Path) -> None:
    """Each sees at once what the other stored, whatever it knew before."""
    with quipu.Store(path) as one, quipu.Store(path) as two:
        savers = QuipuSaver(one), QuipuSaver(two)
        at, messages = None, talk(4)
        for step in range(60):
            messages = [*messages, *talk(1, len(messages))]
            at = put(savers[step % 2], {"messages": messages}, at)
            savers[step % 3 % 2].put_writes(at, [("x", step)], "task")
            for saver in savers:
                found = saver.get_tuple(config())
                assert found is not None and found.config == at
                assert found.checkpoint["channel_values"]["messages"] == messages
                assert found.pending_writes == [("task", "x", step)]
        savers[0].delete_thread("t")
        assert savers[1].get_tuple(config()) is None
        put(savers[1], {"messages": talk(9)})
        assert values(savers[0])["messages"] == talk(9)


async def test_writers_that_race_lose_nothing(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path, durability="relaxed") as store:
        savers = [QuipuSaver(store) for _ in range(3)]
        at = await asyncio.to_thread(put, savers[0], {"messages": talk(9)})
        await asyncio.gather(
            *(
                savers[n % 3].aput_writes(at, [("x", n)], f"task{n:02}", f"{n:02}")
                for n in range(30)
            ),
            *(asyncio.to_thread(savers[0].put_writes, at, [("y", n)], f"u{n}") for n in range(5)),
        )
        found = await savers[1].aget_tuple(config())
        assert found is not None and found.pending_writes is not None
        assert sorted(value for _, channel, value in found.pending_writes if channel == "x") == [
            *range(30)
        ]
        assert len(found.pending_writes) == 35


def test_a_copied_thread_goes_its_own_way(saver: QuipuSaver) -> None:
    first = put(saver, {"messages": talk(6)})
    put(saver, {"messages": talk(7)}, first)
    saver.copy_thread("t", "u")
    put(saver, {"messages": talk(9)}, config("u"))
    assert values(saver)["messages"] == talk(7) and values(saver, config("u"))["messages"] == talk(
        9
    )
    saver.delete_thread("t")
    assert [
        len(one.checkpoint["channel_values"]["messages"]) for one in saver.list(config("u"))
    ] == [
        9,
        7,
        6,
    ]
    with pytest.raises(quipu.Exists):
        put(saver, {"a": 1}, config("v"))
        saver.copy_thread("u", "v")


def test_names_of_threads_never_meet(saver: QuipuSaver) -> None:
    places = [("a", ""), ("a/b", ""), ("a", "b"), ("a%2Fb", ""), ("a", "/b"), ("1", "a|b:c")]
    for thread, ns in places:
        put(saver, {"n": [thread, ns]}, config(thread, ns))
    for thread, ns in places:
        assert values(saver, config(thread, ns))["n"] == [thread, ns]
        assert [
            one.config["configurable"]["checkpoint_ns"]
            for one in saver.list({"configurable": {"thread_id": thread}})
        ] == [found for name, found in reversed(places) if name == thread]


def test_values_of_every_kind_come_back(saver: QuipuSaver) -> None:
    kinds = {
        "none": None,
        "bytes": b"\x00\xff",
        "set": {1},
        "text": "half \u00e9",
        "deep": [{"a": [1]}],
    }
    at = put(saver, kinds)
    saver.put_writes(at, [*kinds.items()], "task")
    found = saver.get_tuple(config())
    assert found is not None and found.checkpoint["channel_values"] == kinds
    assert [(name, value) for _, name, value in found.pending_writes or ()] == [*kinds.items()]


def test_checkpoints_of_other_savers_are_imported(
    saver: QuipuSaver, tmp_path: pathlib.Path
) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "old.db")) as old:
        at, messages = None, talk(4)
        for step in range(10):
            messages = [*messages, *talk(1, len(messages))]
            at = put(old, {"messages": messages}, at, step=step)
            old.put_writes(at, [("x", step)], "task")
        assert saver.import_from(old) == 10
        assert [*saver.list(None)] == [*old.list(None)]


class Adding(TypedDict):
    total: Annotated[int, operator.add]
    trace: Annotated[list[str], operator.add]


def test_a_graph_stops_and_goes_on_in_another_process(path: pathlib.Path) -> None:
    """LangGraph itself: an interrupt, a new saver on the same file, time travel, a branch."""

    def ask(state: Adding) -> dict[str, Any]:
        return {"total": interrupt("how much?"), "trace": ["asked"]}

    def build(saver: QuipuSaver) -> Any:
        graph = StateGraph(Adding)
        graph.add_node("ask", ask)
        graph.add_node("twice", lambda state: {"total": state["total"], "trace": ["twice"]})
        graph.add_edge(START, "ask")
        graph.add_edge("ask", "twice")
        return graph.compile(checkpointer=saver)

    with QuipuSaver(path) as saver:
        stopped = build(saver).invoke({"total": 1, "trace": []}, config())
        assert stopped["__interrupt__"][0].value == "how much?"
    with QuipuSaver(path) as saver:
        graph = build(saver)
        assert graph.invoke(Command(resume=4), config()) == {
            "total": 10,
            "trace": ["asked", "twice"],
        }
        history = [*graph.get_state_history(config())]
        before = next(one for one in history if one.next == ("twice",))
        branch = graph.update_state(before.config, {"total": 100, "trace": ["changed"]})
        assert graph.invoke(None, branch)["total"] == 210
        assert len([*graph.get_state_history(config())]) == len(history) + 2


async def test_a_conversation_of_a_graph_is_kept(path: pathlib.Path) -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    for turn in range(5):
        async with QuipuSaver(path) as saver:
            made = await graph.compile(checkpointer=saver).ainvoke(
                {"messages": [HumanMessage(f"turn {turn}")]}, config()
            )
            assert len(made["messages"]) == 2 * turn + 2
    with quipu.Store(path) as store:
        words = [one.content for one in store.get("langgraph:t").messages if one.content]
        assert [one for one in words if one.startswith("answer")] == [
            f"answer {n}" for n in (1, 3, 5, 7, 9)
        ]
