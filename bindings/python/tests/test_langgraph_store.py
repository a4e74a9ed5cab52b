"""LangGraph's long-term memory: the same calls as on its own store in memory, and searches."""

from __future__ import annotations

import asyncio
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import BaseStore, InvalidNamespaceError
from langgraph.store.memory import InMemoryStore

import quipu
from quipu._native import lib
from quipu.langgraph import QuipuStore


@pytest.fixture
def store(path: pathlib.Path) -> Iterator[QuipuStore]:
    with quipu.Store(path, durability="relaxed") as opened:
        yield QuipuStore(opened)


def seen(found: Any) -> Any:
    return found and (found.namespace, found.key, found.value)


def test_it_does_what_the_store_in_memory_does(store: QuipuStore) -> None:
    both: list[BaseStore] = [store, InMemoryStore()]
    draw = random.Random(2)
    places = [("a",), ("a", "b"), ("a", "b/c"), ("b", "a"), ("b%2F", "x", "a")]
    for step in range(120):
        place, key = draw.choice(places), draw.choice(["k", "k/2", "%"])
        value = {"n": step, "text": f"word {step}", "deep": {"list": [step, None, True]}}
        for one in both:
            if step % 4 == 3:
                one.delete(place, key)
            else:
                one.put(place, key, value, index=draw.choice([None, False]))
        assert seen(both[0].get(place, key)) == seen(both[1].get(place, key))
    for prefix in ((), ("a",), ("a", "b"), ("none",)):
        for filter in (None, {"n": {"$gt": 60}}, {"n": {"$lte": 100, "$ne": 90}}, {"n": 77}):
            ours, theirs = [
                sorted(
                    (seen(item) for item in one.search(prefix, filter=filter, limit=99)), key=repr
                )
                for one in both
            ]
            assert ours == theirs
    for options in (
        {},
        {"prefix": ("a",)},
        {"suffix": ("a",)},
        {"max_depth": 1},
        {"prefix": ("*", "b")},
    ):
        ours_, theirs_ = [[*one.list_namespaces(**options)] for one in both]
        kept = {item.namespace for item in both[1].search((), limit=99)}
        assert set(ours_) == {ns for ns in theirs_ if any(k[: len(ns)] == ns for k in kept)}


def test_a_query_is_a_recall(store: QuipuStore) -> None:
    store.put(("me", "facts"), "1", {"text": "the lighthouses are by the sea", "kind": "place"})
    store.put(("me", "facts"), "2", {"text": "bread needs yeast", "kind": "food"})
    store.put(("you",), "1", {"text": "a lighthouse of yours"})
    store.put(("me", "facts"), "3", {"text": "a hidden lighthouse", "kind": "place"}, index=False)
    found = store.search(("me",), query="which lighthouse?")
    assert [item.key for item in found] == ["1"] and found[0].score is not None
    assert store.search(("me",), query="lighthouse", filter={"kind": "food"}) == []
    store.put(("me", "facts"), "1", {"text": "nothing", "other": "harbour"}, index=["other"])
    assert store.search(("me",), query="lighthouse") == []
    assert [item.key for item in store.search(("me",), query="harbours")] == ["1"]


def test_what_was_replaced_leaves_the_store(store: QuipuStore) -> None:
    for number in range(5):
        store.put(("me",), "k", {"text": f"secret {number}"})
    assert isinstance(store.store, quipu.Store)
    kept = store.store.get("langgraph_store:me//k").messages
    assert [one.content for one in kept if "secret" in one.content] == ['{"text": "secret 4"}']
    created = store.get(("me",), "k")
    assert created is not None and created.created_at <= created.updated_at


def test_a_put_that_another_one_overtakes_is_kept_and_raises_nothing(store: QuipuStore) -> None:
    store.put(("me",), "k", {"n": 0})
    assert isinstance(store.store, quipu.Store)
    overtook: list[str] = []
    run = store.store._run

    def overtaken(asked: Any) -> Any:  # the first put has stored, and not yet removed what was
        if asked.op == lib.QPY_COMPACT and not overtook:
            overtook.append("k")
            store.put(("me",), "k", {"n": 2})
        return run(asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.store, "_run", overtaken)
        store.put(("me",), "k", {"n": 1})
    assert overtook, "no put was overtaken"
    found = store.get(("me",), "k")
    assert found is not None and found.value == {"n": 2}


def made_up(draw: random.Random, depth: int) -> Any:
    kinds = 5 if depth else 3
    kind = draw.randrange(kinds)
    if kind == 3:
        return [made_up(draw, depth - 1) for _ in range(draw.randrange(3))]
    if kind == 4:
        names = draw.sample(["x", "y", "z"], draw.randrange(1, 4))
        return {name: made_up(draw, depth - 1) for name in names}
    return [draw.randrange(3), draw.choice(["x", "y"]), None][kind]


def wanted(draw: random.Random, value: Any) -> Any:
    """A filter that a value may fit: a part of it, or something else."""
    if isinstance(value, dict):
        kept = {name: wanted(draw, one) for name, one in value.items() if draw.randrange(3)}
        return kept if draw.randrange(5) else {**kept, "more": None}
    if isinstance(value, list):
        return [wanted(draw, one) for one in value]
    if isinstance(value, int) and draw.randrange(2):
        return {draw.choice(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]): draw.randrange(3)}
    return value if draw.randrange(5) else made_up(draw, 1)


def test_filters_find_what_the_store_in_memory_finds(store: QuipuStore) -> None:
    draw = random.Random(5)
    both: list[BaseStore] = [store, InMemoryStore()]
    values = [{"a": made_up(draw, 3), "b": made_up(draw, 2)} for _ in range(60)]
    values.append({"meta": {"kind": "x", "y": 1}})
    for number, value in enumerate(values):
        for one in both:
            one.put(("n",), str(number), value, index=False)
    filters = [wanted(draw, draw.choice(values)) for _ in range(300)]
    hits = 0
    for filter in [*filters, {"meta": {"kind": "x"}}]:
        found: list[Any] = []
        for one in both:
            try:
                items = one.search(("n",), filter=filter, limit=99)
                found.append(sorted(item.key for item in items))
            except (TypeError, ValueError):  # an order of what has none
                found.append(None)
        if found[1] is not None:
            assert found[0] == found[1], filter
            hits += len(found[1])
    assert hits > 100


def test_other_namespaces_hide_nothing_and_are_not_read(
    store: QuipuStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,100 namespaces say the same with fewer words."""
    for number in range(1100):
        store.put(("others", str(number)), "k", {"text": "lighthouse"})
    store.put(("me",), "k", {"text": "the lighthouse by the sea " * 5})
    store.put(("me", "more"), "k", {"text": "one more lighthouse"})
    assert isinstance(store.store, quipu.Store)
    run, listed = store.store._run, [0]

    def counting(asked: Any) -> Any:
        found = run(asked)
        if asked.op == lib.QPY_LIST:
            listed[0] += len(found.sessions)
        return found

    for one in (store, QuipuStore(store.store)):
        one.search(("none",))
        with monkeypatch.context() as patch:
            patch.setattr(store.store, "_run", counting)
            listed[0] = 0
            found = one.search(("me",), query="lighthouse")
            assert sorted(item.namespace for item in found) == [("me",), ("me", "more")]
            assert [item.key for item in one.search(("others", "7"), query="lighthouse")] == ["k"]
            assert one.list_namespaces(prefix=("me",)) == [("me",), ("me", "more")]
            assert listed[0] < 20
    assert len(store.search((), limit=2000)) == 1102


def test_namespaces_that_were_written_without_lists_are_found(store: QuipuStore) -> None:
    store.put(("a", "b"), "k", {"n": 1})
    assert isinstance(store.store, quipu.Store)
    for session in store.store.list(app_name=store._names_app).sessions:
        store.store.delete(session.key)
    other = QuipuStore(store.store)
    other.put(("a", "c"), "k", {"n": 2})
    assert {item.namespace for item in other.search(("a",))} == {("a", "b"), ("a", "c")}


def test_items_that_change_while_they_are_listed_are_found(
    store: QuipuStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quipu._pages.PAGE", 4)
    for number in range(10):
        store.put(("n",), str(number), {"n": number})
    assert isinstance(store.store, quipu.Store)
    run, pages = store.store._run, [0]

    def changing(asked: Any) -> Any:
        found = run(asked)
        if asked.op == lib.QPY_LIST:
            pages[0] += 1
            if pages[0] == 2:
                for number in ("0", "5", "9"):
                    QuipuStore(store.store).put(("n",), number, {"n": -1})
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store.store, "_run", changing)
        found = store.search(("n",), limit=99)
    assert sorted(item.key for item in found) == [str(number) for number in range(10)]


async def test_it_is_asynchronous_and_loses_nothing(path: pathlib.Path) -> None:
    async with quipu.AsyncStore(path, durability="relaxed") as opened:
        store = QuipuStore(opened)
        await asyncio.gather(*(store.aput(("n",), str(n % 7), {"n": n}) for n in range(35)))
        assert len(await store.asearch(("n",), limit=50)) == 7
        assert await store.aget(("n",), "none") is None
        with pytest.raises(InvalidNamespaceError):
            await store.aput((), "k", {})
        with pytest.raises(TypeError, match="not JSON serializable"):
            await store.aput(("n",), "k", {"x": object()})
