"""The whole store over an address: the claims of test_whole.py that need no file."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

# Fixtures and claims, over the store below.
from test_remote import address  # noqa: F401
from test_whole import (  # noqa: F401
    talk,
    test_a_compaction_can_be_undone_or_made_final,
    test_a_fork_takes_settings_and_returns_the_session,
    test_a_memory_comes_back_as_it_was_saved,
    test_a_memory_is_corrected_retired_superseded_and_deleted,
    test_a_prompt_has_calls_and_responses_as_parts,
    test_a_rewind_is_a_fork_under_a_key_of_its_own,
    test_a_tail_ends_with_its_session,
    test_a_tail_gives_what_exists_and_what_follows,
    test_a_wrong_prompt_is_named,
    test_an_append_changes_settings_in_its_transaction,
    test_answers_say_what_they_used,
    test_artifacts_have_versions_and_belong_to_a_session_or_its_user,
    test_memories_count_in_all_sessions_of_a_user,
    test_state_has_the_scopes_of_its_names,
    test_state_of_a_plain_session_is_its_own,
    test_state_says_who_set_it_last,
    test_the_next_prompt_begins_with_the_one_before,
    test_wrong_memories_are_named,
)

import quipu
from quipu import Message, Store


@pytest.fixture
def store(address: str) -> Iterator[Store]:  # noqa: F811
    with Store(address) as opened:
        yield opened


def test_the_feed_that_a_program_records_is_read(
    store: Store,
    tmp_path: pathlib.Path,
) -> None:
    with Store(tmp_path / "store.db", feed=True) as beside:
        beside.create("k")
        beside.append("k", [Message("user", "hello")])
    assert [one.kind for one in store.feed(timeout=0)] == ["created", "appended"]
    assert list(store.feed(from_now=True, timeout=0)) == []


def test_figures_are_those_of_the_servers_store(talk: Store) -> None:  # noqa: F811
    figures = talk.stats()
    assert (figures.sessions, figures.messages) == (1, 2)
    assert figures.engine


def test_how_far_sessions_are_observed_is_read(talk: Store) -> None:  # noqa: F811
    known = talk.memory_status("talk").sessions
    assert [(one.session_key, one.last_seq) for one in known] == [("talk", 2)]


def test_a_worker_names_where_it_runs(talk: Store) -> None:  # noqa: F811
    with pytest.raises(quipu.Unsupported, match="works beside the data"):
        talk.memory_run()
