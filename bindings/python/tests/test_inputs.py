"""What programs give: texts, dicts, and values that are wrong. An error names the parameter and
what is accepted; nothing private is in it."""

from __future__ import annotations

import datetime
import pathlib
import pickle
import pydoc
import re
from collections.abc import Callable
from typing import Any

import pytest

import quipu
from quipu import AsyncStore, Message, Store, ToolCall, to_openai

TOOL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


@pytest.fixture
def talk(store: Store) -> Store:
    store.create("talk")
    return store


def only(store: Store) -> Message:
    (message,) = store.get("talk").messages
    return message


# ---- messages ------------------------------------------------------------------------------------


def test_a_text_is_what_the_user_said(talk: Store) -> None:
    assert talk.append("talk", "hi").first_seq == 1
    assert (only(talk).role, only(talk).content) == ("user", "hi")


def test_a_dict_is_a_message(talk: Store) -> None:
    talk.append("talk", {"role": "assistant", "content": "yes"})
    assert (only(talk).role, only(talk).content, only(talk).extra) == ("assistant", "yes", None)


def test_dicts_and_messages_mix_in_one_batch(talk: Store) -> None:
    batch: list[Any] = [{"role": "user", "content": "a"}, Message("assistant", "b")]
    talk.append("talk", iter(batch))
    assert [message.content for message in talk.get("talk").messages] == ["a", "b"]


def test_a_missing_session_is_created_when_asked_for(store: Store) -> None:
    with pytest.raises(quipu.NotFound):
        store.append("talk", "hi")
    store.append("talk", "hi", create=True)
    assert only(store).content == "hi"


def test_tool_calls_and_results_of_openai_are_tool_calls(talk: Store) -> None:
    sent: list[dict[str, Any]] = [
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": None, "tool_calls": [TOOL]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "content": "It is 2.", "refusal": None},
    ]
    talk.append("talk", sent)
    got = talk.get("talk").messages
    assert got[1].tool_calls == [ToolCall("add", "c1", '{"a":1}')]
    assert got[2].tool_calls == [ToolCall("", "c1", output="2")] and got[2].content == "2"
    assert to_openai(got) == [
        sent[0],
        {"role": "assistant", "content": "", "tool_calls": [TOOL]},
        sent[2],
        {"role": "assistant", "content": "It is 2."},
    ]


def test_a_call_and_its_result_stay_together_in_a_window(talk: Store) -> None:
    talk.append("talk", {"role": "user", "content": "word " * 400})
    talk.append("talk", {"role": "assistant", "content": None, "tool_calls": [TOOL]})
    talk.append("talk", {"role": "tool", "tool_call_id": "c1", "content": "2"})
    window = talk.window("talk", 60, cut=True)
    assert [message.seq for message in window.messages] == [2, 3]


def test_the_older_function_call_is_a_tool_call_too(talk: Store) -> None:
    call = {"name": "add", "arguments": "{}"}
    talk.append("talk", {"role": "assistant", "content": None, "function_call": call})
    assert only(talk).tool_calls == [ToolCall("add", "", "{}")]


def test_content_parts_are_kept_and_their_text_is_found(talk: Store) -> None:
    parts = [{"type": "text", "text": "what is this penguin"}, PICTURE]
    talk.append("talk", {"role": "user", "content": parts})
    assert only(talk).content == "what is this penguin"
    assert to_openai([only(talk)]) == [{"role": "user", "content": parts}]
    assert len(talk.search("penguin").hits) == 1


def test_what_a_message_has_no_member_for_is_kept(talk: Store) -> None:
    talk.append("talk", {"role": "developer", "content": "x", "name": "ana", "cache": {"n": 1}})
    message = only(talk)
    assert (message.role, message.author) == ("system", "ana")
    assert message.extra == {"role": "developer", "cache": {"n": 1}}
    assert to_openai([message])[0]["role"] == "developer"


def test_members_of_a_message_can_be_given_in_a_dict(talk: Store) -> None:
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    given = {"role": "user", "content": "x", "event_id": "e", "timestamp": when, "author": "ana"}
    talk.append("talk", given)
    talk.append("talk", {**given, "timestamp": "2026-01-02T00:00:00Z"})
    assert (only(talk).event_id, only(talk).timestamp, only(talk).author) == ("e", when, "ana")


def test_an_object_of_a_client_library_is_its_dict(talk: Store) -> None:
    from openai.types.chat import ChatCompletionMessage

    given = {"role": "assistant", "content": "yes", "tool_calls": [TOOL]}
    talk.append("talk", ChatCompletionMessage.model_validate(given))  # type: ignore[arg-type]
    assert only(talk).tool_calls[0].name == "add" and only(talk).content == "yes"


# ---- errors --------------------------------------------------------------------------------------

WRONG: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("number", lambda s: s.append("talk", 5), TypeError, "messages must be a str, a Message or"),
    ("bytes", lambda s: s.append("talk", b"hi"), TypeError, "messages must be .* not bytes"),
    ("none", lambda s: s.append("talk", None), TypeError, "messages must be .* not NoneType"),
    ("texts", lambda s: s.append("talk", ["a"]), TypeError, r"messages\[0\] must be a Message or"),
    ("role", lambda s: s.append("talk", {"content": "x"}), TypeError, r"\['role'\] must be one of"),
    ("other role", lambda s: s.append("talk", {"role": "x"}), quipu.Invalid, "role"),
    (
        "content",
        lambda s: s.append("talk", {"role": "user", "content": 5}),
        TypeError,
        r"messages\['content'\] must be a str or a list of parts, not int",
    ),
    (
        "call",
        lambda s: s.append("talk", Message("tool", tool_calls=["f"])),  # type: ignore[list-item]
        TypeError,
        r"messages\[0\].tool_calls\[0\] must be a ToolCall or a dict",
    ),
    (
        "extra",
        lambda s: s.append("talk", Message("user", "x", extra={"a": object()})),
        TypeError,
        r"messages\[0\] must be a value that JSON can hold",
    ),
    ("key", lambda s: s.get(5), TypeError, "key must be a str, not int"),
    ("no key", lambda s: s.get(None), TypeError, "key must be a str, not NoneType"),
    ("half", lambda s: s.get("a\ud800"), ValueError, "key has half of a surrogate pair at 1"),
    ("limit", lambda s: s.list(limit="5"), TypeError, "limit must be an int, not str"),
    ("large", lambda s: s.list(limit=2**70), ValueError, "limit is .* 63 bits"),
    ("budget", lambda s: s.window("talk", "5"), TypeError, "token_budget must be an int, not str"),
    ("ttl", lambda s: s.create("k", ttl="1"), TypeError, "ttl must be a number of seconds"),
    ("title", lambda s: s.create("k", title=5), TypeError, "title must be a str, not int"),
    ("metadata", lambda s: s.create("k", metadata={1, 2}), TypeError, "metadata must be a value"),
    ("colour", lambda s: s.create("k", colour="red"), TypeError, "argument 'colour'"),
    ("missing", lambda s: s.append("talk"), TypeError, r"append\(\) missing .* 'messages'"),
    ("unknown", lambda s: s.get("talk", first=1), TypeError, r"get\(\) got .* 'first'"),
    ("query", lambda s: s.search(None), TypeError, "query must be a str"),
    ("of role", lambda s: s.search("x", role="nobody"), ValueError, "'role' is 'nobody'; give"),
    ("time", lambda s: s.search("x", after="today"), TypeError, "after must be a datetime"),
    ("settings", lambda s: s.append("talk", "x", settings=5), TypeError, "settings must be a dict"),
    ("long", lambda s: s.update("talk", ttl=2**70), ValueError, "option 'ttl' is .* at most"),
    ("ids", lambda s: s.memory_find(ids=5), TypeError, "ids must be a list of ids, not int"),
    ("by", lambda s: s.usage(by=None), TypeError, "by must be a str or a list of them, not None"),
    ("by what", lambda s: s.usage(by=["x", 5]), ValueError, "option 'by' has 'x'"),
    ("tools", lambda s: s.context("talk", tools=5), TypeError, "tools must be a list of dicts"),
    ("odd path", lambda s: s.backup("\ud800"), ValueError, "path has half of a surrogate pair"),
    ("odd file", lambda s: s.export_to("\ud800"), ValueError, "to has half of a surrogate pair"),
    ("path", lambda s: s.backup(5), TypeError, "path must be a str or a path, not int"),
]


@pytest.mark.parametrize(
    ("call", "kind", "words"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG]
)
def test_a_wrong_value_is_named_with_what_is_accepted(
    talk: Store, call: Callable[[Any], Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        call(talk)
    assert not re.search(r"(^|[^\w\['])_[a-z]", str(caught.value)), str(caught.value)
    assert talk.get("talk").messages == []


@pytest.mark.parametrize("metadata", [0, "", "ab", ("a",), ["a", "b", "c"], object()])
def test_metadata_of_a_list_is_a_pair(talk: Store, metadata: Any) -> None:
    with pytest.raises(TypeError, match="metadata must be a name and its text or None, not"):
        talk.list(metadata=metadata)


def test_what_is_nested_too_deeply_is_named(talk: Store) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="value is nested too deeply"):
        talk.set_state("talk", "name", deep)
    with pytest.raises(ValueError, match=r"messages\[0\] is nested too deeply"):
        talk.append("talk", {"role": "user", "content": "x", "extra": deep})


def test_a_part_of_a_message_that_is_wrong_is_named(talk: Store) -> None:
    with pytest.raises(TypeError, match=r"messages\['extra'\] must be a dict, not int"):
        talk.append("talk", {"role": "user", "content": "x", "extra": 7})
    with pytest.raises(TypeError, match="to must be an int"):
        talk.rewind("talk", "x")  # type: ignore[arg-type]


def test_opening_names_what_is_wrong(path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match="uri must be a str or a path, not int"):
        Store(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'durability' is 'safe'; give one of 'full', 'relaxed'"):
        Store(path, durability="safe")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tenant must be a str"):
        Store(path, tenant=5)  # type: ignore[arg-type]
    assert not path.exists()


# ---- what Python shows ---------------------------------------------------------------------------


def test_in_and_iteration_are_about_sessions(store: Store) -> None:
    for number in range(120):  # more than a page
        store.create(f"k{number}")
    assert "k7" in store and "none" not in store and 5 not in store
    assert [session.key for session in store] == [f"k{n}" for n in reversed(range(120))]


async def test_an_async_store_iterates_and_explains_in(path: pathlib.Path) -> None:
    async with AsyncStore(path) as store:
        for number in range(60):
            await store.create(f"k{number}")
        assert len([session async for session in store]) == 60
        assert await store.exists("k7") and not await store.exists("none")
        with pytest.raises(TypeError, match="await store.exists"):
            "k7" in store  # noqa: B015


def test_a_store_shows_where_it_is(path: pathlib.Path) -> None:
    store = Store(path)
    assert repr(store) == f"<quipu.Store {str(path)!r}>"
    store.close()
    assert repr(store) == f"<quipu.Store {str(path)!r}, closed>"


def test_a_password_is_not_shown(store: Store) -> None:
    store._uri = "postgresql://ana:secret@host/db"
    assert repr(store) == "<quipu.Store 'postgresql://ana:***@host/db'>"


@pytest.mark.parametrize("name", quipu.__all__)
def test_help_has_no_private_names(name: str) -> None:
    thing = getattr(quipu, name)
    if name == "__version__":
        return
    shown = pydoc.plain(pydoc.render_doc(thing))
    private = re.findall(r"(?<![\w.])_[a-z]\w*|quipu\._\w+", shown)
    assert private == [], shown


def test_results_can_be_pickled(talk: Store) -> None:
    talk.append("talk", Message("assistant", tool_calls=[ToolCall("f")]))
    history = talk.get("talk")
    assert pickle.loads(pickle.dumps(history)) == history
