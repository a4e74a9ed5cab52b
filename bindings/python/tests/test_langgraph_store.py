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
