"""Queries and questions that nobody should ask: each gets hits, none, or an error that names what
is wrong; never a syntax error of the engine, and never another scope's text."""

from __future__ import annotations

import pathlib

import pytest

from quipu import AsyncStore, Invalid, Limit, Message, Misuse, NotFound, Store

TEXT = "Figs from Paracas, NEAR the sea"

# Each has the word of TEXT that a recall looks for.
FIGS = [
    '"figs',
    "figs*",
    '"figs"*"',
    "^figs",
    "-figs",
    "NEAR(figs)",
    "NEAR(figs sea, 2)",
    "content:figs",
    "{content}: figs",
    "figs AND",
    "AND OR NOT figs",
    "NOT NOT figs",
    "figs OR",
    "((((figs",
    "figs'; DROP TABLE messages; --",
    "figs%_\\",
    "figs\x00and dates",
    "figs\x01\x1b[31m\x7f\ufeff\ufffe",
    "figs 無花果 инжир تين ཤིང 🍇",
    "f\u0301igs figs",
    "\u202efigs",
    "figs\n\r\t\v\f",
]

# None of them has a word.
NOTHING = [
    "",
    " ",
    "\x00",
    "\n\t",
    '"',
    '""',
    "*",
    "***",
    "(",
    "()",
    "AND",
    "?!",
    "--",
    "\\",
    "🍇",
    "\u200d",
]


@pytest.fixture
def fruit(store: Store) -> Store:
    store.create("k", app_name="market", user_id="ana")
    store.append("k", [Message("user", TEXT), Message("model", "What was it to you?")])
    store.create("other", app_name="market", user_id="eve")
    store.append("other", Message("user", "figs of eve"))
    return store


@pytest.mark.parametrize("text", FIGS)
def test_signs_of_a_query_language_are_no_syntax_errors(fruit: Store, text: str) -> None:
    for hit in fruit.search(text, key="k").hits:
        assert hit.session_key == "k"
    hits = fruit.recall(text, app_name="market", user_id="ana")
    assert [hit.session_key for hit in hits][:1] == ["k"] and hits[0].content == TEXT
    assert {hit.session_key for hit in hits} == {"k"}


@pytest.mark.parametrize("text", NOTHING)
def test_what_has_no_word_finds_nothing(fruit: Store, text: str) -> None:
    if text != "AND":  # an operator of a query is a word of a question
        assert fruit.recall(text, everything=True) == []
    hits = fruit.search(text)
    assert hits.hits == [] and not hits.more


def test_stop_words_alone_are_looked_for(fruit: Store) -> None:
    assert [hit.seq for hit in fruit.search("what was it").hits] == [2]
    assert fruit.recall("What was it?", key="k")[0].seq == 2


def test_long_texts_are_refused_with_their_limit(fruit: Store) -> None:
    for long in ("figs " * 200_000, "x" * 1_000_000, "無" * 350_000):
        with pytest.raises(Limit, match="4096"):
            fruit.search(long)
        with pytest.raises(Limit, match="65536"):
            fruit.recall(long, everything=True)
    assert fruit.search("figs " * 819, key="k").hits[0].seq == 1
    assert fruit.recall("figs " * 13_107, key="k")[0].seq == 1


def test_half_of_a_character_is_named_with_its_place(fruit: Store) -> None:
    with pytest.raises(ValueError, match="query has half of a surrogate pair at 5"):
        fruit.search("figs \ud83c")
    with pytest.raises(ValueError, match="question has half of a surrogate pair at 0"):
        fruit.recall("\udf47figs", everything=True)
    with pytest.raises(ValueError, match="app_name has half of a surrogate pair at 1"):
        fruit.recall("figs", app_name="a\ud83c")


def test_a_scope_that_nobody_has_is_empty_and_a_session_is_not_found(fruit: Store) -> None:
    for name in ("nobody", "' OR 1=1 --", "無", "*", "%"):
        assert fruit.search("figs", app_name=name).hits == []
        assert fruit.search("figs", user_id=name).hits == []
        assert fruit.recall("figs", app_name=name) == []
        assert fruit.recall("figs", app_name="market", user_id=name) == []
        with pytest.raises(NotFound):
            fruit.search("figs", key=name)
        with pytest.raises(NotFound):
            fruit.recall("figs", key=name)
    with pytest.raises(Invalid, match="without NUL"):
        fruit.recall("figs", app_name="m\x00arket")


def test_a_scope_is_asked_for_by_one_name(fruit: Store) -> None:
    with pytest.raises(Misuse, match="scope"):
        fruit.recall("figs")
    with pytest.raises(Misuse):
        fruit.recall("figs", user_id="ana")
    with pytest.raises(Misuse):
        fruit.recall("figs", key="k", everything=True)
    with pytest.raises(Misuse):
        fruit.recall("figs", key="k", limit=-1)
    with pytest.raises(Limit):
        fruit.recall("figs", key="k", limit=1001)


@pytest.mark.parametrize("text", ["role:nobody figs", "after:yesterday figs", "before: figs"])
def test_a_filter_that_is_wrong_is_named(fruit: Store, text: str) -> None:
    with pytest.raises(Invalid, match=text.split(":", maxsplit=1)[0]):
        fruit.search(text)


def test_values_of_other_types_are_named(fruit: Store) -> None:
    for wrong in (None, 5, b"figs", ["figs"]):
        with pytest.raises(TypeError, match="query must be a str"):
            fruit.search(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="question must be a str"):
            fruit.recall(wrong, everything=True)  # type: ignore[arg-type]


async def test_an_event_loop_gets_the_same_answers(fruit: Store, path: pathlib.Path) -> None:
    async with await AsyncStore.open(path) as store:
        assert (await store.recall('"figs* AND', key="k"))[0].content == TEXT
        assert (await store.search("((")).hits == []
        with pytest.raises(Limit):
            await store.recall("x" * 1_000_000, everything=True)
        with pytest.raises(ValueError, match="surrogate"):
            await store.search("\ud800")
