"""Embedders: functions of Python that the library calls, on its own threads too."""

import asyncio
import pathlib
from typing import Any

import pytest
import quipu
from quipu import AsyncStore, Store

WORDS = (("puppy", "hound"), ("railway", "locomotive"), ("coffee", "espresso"))
TEXTS = ("my puppy chewed the sofa", "the railway is slow", "coffee is ready")


def embed(texts: list[str]) -> list[list[float]]:
    """Two words that mean the same have one place."""
    return [[float(any(word in text for word in some)) for some in WORDS] for text in texts]


@pytest.fixture
def filled(store: Store) -> Store:
    """A session with three messages."""
    for text in TEXTS:
        store.append("k", text, create=True)
    return store


def test_a_question_in_other_words_finds_its_answer(filled: Store) -> None:
    assert filled.recall("locomotives", everything=True) == []
    ran = filled.memory_run(embedder=embed, embed_model="m", embed_only=True)
    assert (ran.embedded, ran.failed, ran.observations) == (3, 0, 0)
    first = filled.recall("locomotives", everything=True, embedder=embed, embed_model="m")[0]
    assert first.content == "the railway is slow"
    assert first.from_words == 0
    assert first.from_vector == pytest.approx(0.4)
    assert filled.recall("locomotives", everything=True) == []
    assert filled.memory_run(embedder=embed, embed_model="m", embed_only=True).embedded == 0


def test_another_model_replaces_the_earlier_one(filled: Store) -> None:
    filled.memory_run(embedder=embed, embed_model="m", embed_only=True)
    ran = filled.memory_run(embedder=embed, embed_model="n", embed_replace=True)
    assert ran.embedded == 3
    assert filled.recall("locomotives", everything=True, embedder=embed, embed_model="m") == []


def test_async_calls_embed_on_threads_of_the_library(tmp_path: pathlib.Path) -> None:
    async def talk() -> None:
        async with AsyncStore(tmp_path / "s.db") as store:
            for text in TEXTS:
                await store.append("k", text, create=True)
            await store.memory_run(embedder=embed, embed_model="m")
            asked = (
                store.recall(question, key="k", limit=1, embedder=embed, embed_model="m")
                for question in ("hound", "locomotive", "espresso")
            )
            found = [hits[0].seq for hits in await asyncio.gather(*asked)]
            assert found == [1, 2, 3]

    asyncio.run(talk())


def test_an_exception_is_the_reason_of_a_failure(filled: Store) -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        raise ConnectionError("the endpoint is gone")

    with pytest.raises(quipu.QuipuError, match="ConnectionError: the endpoint is gone"):
        filled.recall("x", everything=True, embedder=broken, embed_model="m")
    ran = filled.memory_run(embedder=broken, embed_model="m", embed_only=True)
    assert (ran.embedded, ran.failed) == (0, 1)


@pytest.mark.parametrize(
    "made",
    [[], [[1.0]], [[1.0], [1.0, 2.0], [3.0]], [["a"], ["b"], ["c"]], [[], [], []], None],
)
def test_vectors_that_cannot_be_are_refused(filled: Store, made: object) -> None:
    def odd(texts: list[str]) -> Any:
        return made

    ran = filled.memory_run(embedder=odd, embed_model="m", embed_only=True)
    assert (ran.embedded, ran.failed) == (0, 1)


def test_an_embedder_needs_a_model_and_is_a_function(filled: Store) -> None:
    with pytest.raises(quipu.Misuse):
        filled.recall("x", everything=True, embedder=embed)
    with pytest.raises(quipu.Misuse):
        filled.memory_run(embed_model="m")
    with pytest.raises(TypeError, match="embedder must be a function"):
        filled.recall("x", everything=True, embedder="m")  # type: ignore[arg-type]
