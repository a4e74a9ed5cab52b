"""The calls of a store, prepared: what each takes, and how its answer is read.

Each function is a method of `Store` and a coroutine of `AsyncStore`, with its docstring.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from uuid import UUID

from . import _call, _key, _one_sqlite, _results, _types
from ._ask import Asker, given_asker
from ._embed import Embedder, given_embedder
from ._fields import Memory, Session, SessionNew, SessionPatch
from ._messages import packed
from ._native import lib
from ._results import (
    Artifact,
    Context,
    Erasure,
    Factor,
    FeedPage,
    Imported,
    MemoryKind,
    MemoryRun,
    MemoryStatus,
    Priority,
    Recalled,
    SourceKind,
    StateEntry,
    Stats,
    Topic,
    Usage,
    UsageReport,
    Verified,
)
from ._shapes import (
    Given,
    Reader,
    bytes_of,
    int_of,
    json_of,
    milliseconds_of,
    several,
    text_of,
    uuid_of,
)
from ._types import Appended, History, Hits, Message, Page, Role, Window

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


@dataclass(slots=True)
class Request(Generic[T]):
    """A prepared call, and how to decode its result."""

    op: int
    given: Given
    read: Callable[[Reader], T]
    target: _call.Handle | None = None  # the other store of a copy
    kept: Any = None  # lives as long as the call...
    lasts: bool = False  # ...or as long as the worker that it starts


def _nothing(reader: Reader) -> None:
    return None


def _number(reader: Reader) -> int:
    return reader.number()


def create(
    key: str,
    *,
    ttl: float | None = None,
    exist_ok: bool = False,
    **values: Unpack[SessionNew],
) -> Request[Session]:
    """Create a session. With `exist_ok` an existing one is returned: of concurrent callers one
    creates it and all get the same. `ttl` is in seconds; None means the store's, math.inf never."""
    given = _new(key, ttl, values).number("exist_ok", exist_ok)
    return Request(lib.QPY_CREATE, given, _types.session_of)


def _new(key: str, ttl: float | None, values: SessionNew) -> Given:
    """The members of a new session."""
    given = Given().struct(lib.QPY_SESSION_NEW_MORE, key=key, ttl=ttl)
    return given.members(lib.QPY_SESSION_NEW, values)


def get(
    key: str,
    *,
    last: int | None = None,
    after: int = 0,
    before: int = 0,
    limit: int = 0,
    view: bool = False,
) -> Request[History]:
    """Return a session and its messages: all, the `last` n (0: none), or a page by numbers: after
    and before one, at most `limit`. With `view`, what a model should see: after a compaction the
    summary and what follows it."""
    given = (
        Given()
        .text("key", key)
        .struct(
            lib.QPY_RANGE,
            header=last == 0,
            newest=bool(last),
            view=view,
            after=after,
            before=before,
            limit=limit if last is None else last,
        )
    )
    return Request(lib.QPY_GET, given, _types.history_of)


def update(
    key: str,
    *,
    ttl: float | None = None,
    if_revision: int | None = None,
    **values: Unpack[SessionPatch],
) -> Request[int]:
    """Change settings of a session; None leaves a setting. `ttl` is in seconds, math.inf means
    never. Returns the new revision. With `if_revision`, only a session of that revision is changed;
    any other raises Conflict."""
    given = Given().text("key", key)
    given.struct(lib.QPY_SESSION_PATCH_MORE, ttl=ttl, if_revision=if_revision)
    return Request(lib.QPY_UPDATE, given.members(lib.QPY_SESSION_PATCH, values), _number)


def delete(key: str, *, forks: bool = False) -> Request[None]:
    """Delete a session with its messages, state and memories, with `forks` also its forks. A
    missing session is not an error."""
    return Request(lib.QPY_DELETE, Given().text("key", key).number("forks", forks), _nothing)


def list_(
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    metadata: tuple[str, str | None] | None = None,
    after: str | None = None,
    limit: int = 0,
    oldest_first: bool = False,
    expired: bool = False,
    parent: str | None = None,
) -> Request[Page]:
    """Return a page of sessions by their last change, newest first; `after` is the cursor of the
    page before. `metadata` is a member's name and its text, or None for any; `parent` a key, for
    the forks of that session. Iterate over the store for all of them."""
    if metadata is not None and not (isinstance(metadata, (tuple, list)) and len(metadata) == 2):
        kind = type(metadata).__name__
        raise TypeError(f"metadata must be a name and its text or None, not {kind}")
    name, text = metadata if metadata is not None else (None, None)
    given = Given().struct(
        lib.QPY_LIST_OPTIONS,
        app_name=app_name,
        user_id=user_id,
        agent_id=agent_id,
        metadata_name=name,
        metadata_text=text,
        after=after,
        limit=limit,
        oldest_first=oldest_first,
        expired=expired,
        parent=parent,
    )
    return Request(lib.QPY_LIST, given, _types.page_of)


def append(
    key: str,
    messages: str | Message | Mapping[str, Any] | Iterable[Message | Mapping[str, Any]],
    *,
    if_revision: int | None = None,
    create: bool = False,
    settings: SessionPatch | None = None,
    ttl: float | None = None,
) -> Request[Appended]:
    """Append messages, all or none; they are durable when the call returns.

    `messages` is a str, which the user said; a Message; a dict with 'role' and 'content', also with
    the tool calls, tool results and content parts of OpenAI's chat API; or an iterable of messages
    and dicts. What a Message has no member for is kept in its `extra`.

    Messages whose event ids are stored already, with the same content, are not stored again. With
    `if_revision`, only a session of that revision gets them; any other raises Conflict. `create`
    makes a missing session, and `settings` and `ttl` change as update() changes them, in the same
    transaction."""
    lengths, texts = packed(messages)
    given = Given().text("key", key).bytes(lengths).bytes(texts)
    given.struct(
        lib.QPY_APPEND_OPTIONS,
        if_revision=-1 if if_revision is None else if_revision,
        create=create,
    )
    given.struct(lib.QPY_SESSION_PATCH_MORE, ttl=ttl)
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings must be a dict, not {type(settings).__name__}")
    given.members(lib.QPY_SESSION_PATCH, settings or {})
    return Request(lib.QPY_APPEND, given, _types.appended_of)


def window(key: str, token_budget: int, *, cut: bool = False) -> Request[Window]:
    """Return the newest whole turns within a token budget, for the next prompt. A newest turn that
    exceeds the budget alone is whole, or, with `cut`, without its beginning."""
    given = Given().text("key", key)
    given.struct(lib.QPY_WINDOW_OPTIONS, token_budget=token_budget, cut=cut)
    return Request(lib.QPY_WINDOW, given, _types.window_of)


def search(
    query: str,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    key: str | None = None,
    author: str | None = None,
    role: Role | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
    limit: int = 0,
    offset: int = 0,
    mark_before: str | None = None,
    mark_after: str | None = None,
) -> Request[Hits]:
    """Return messages that contain all words of a query, best first. Every message committed before
    the call is searched. `after` and `before` are times of messages; the marks stand around each
    word that was found, "[" and "]" when None."""
    given = Given().struct(
        lib.QPY_SEARCH_OPTIONS,
        query=_required("query", query),
        app_name=app_name,
        user_id=user_id,
        key=key,
        author=author,
        role=role,
        after=after,
        before=before,
        limit=limit,
        offset=offset,
        mark_before=mark_before,
        mark_after=mark_after,
    )
    return Request(lib.QPY_SEARCH, given, _types.hits_of)


def recall(
    question: str,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    key: str | None = None,
    everything: bool = False,
    memories: bool = False,
    since: int = 0,
    before: int = 0,
    limit: int = 0,
    budget: int = 0,
    embedder: Embedder | None = None,
    embed_model: str | None = None,
) -> Request[list[Recalled]]:
    """Return the messages that may answer a question, best first. Say where to look: in the session
    `key` (from the number `since` up to the number `before`), in the sessions of an app, of one of
    its users, or `everything`. `memories`: observations and reflections, too. `budget`: at most as
    many tokens together. With an `embedder`, a
    function from a list of texts to a list of vectors, meaning counts as well as words, where
    memory_run() has stored vectors of `embed_model`."""
    given = Given().struct(
        lib.QPY_RECALL_OPTIONS,
        question=_required("question", question),
        app_name=app_name,
        user_id=user_id,
        key=key,
        everything=everything,
        memories=memories,
        since=since,
        before=before,
        limit=limit,
        budget=budget,
        embed_model=embed_model,
    )
    kept = given_embedder(given, embedder)
    return Request(lib.QPY_RECALL, given, _results.recalled_of, kept=kept)


def _required(name: str, value: str) -> str:
    if value is None:
        raise TypeError(f"{name} must be a str, not NoneType")
    return value


def fork(
    key: str,
    new_key: str,
    *,
    at: int,
    ttl: float | None = None,
    **values: Unpack[SessionNew],
) -> Request[Session]:
    """Create a session that shares the messages of another up to number `at`; nothing is copied.
    Settings that are not given are those of the other."""
    given = Given().text("key", key).number("at", at)
    given.struct(lib.QPY_SESSION_NEW_MORE, key=_required("new_key", new_key), ttl=ttl)
    given.members(lib.QPY_SESSION_NEW, values)
    return Request(lib.QPY_FORK, given, _types.session_of)


def compact(key: str, summary: str, *, up_to: int) -> Request[int]:
    """Replace the messages up to number `up_to` by a summary; returns the summary's number."""
    given = Given().text("key", key).text("summary", summary).number("up_to", up_to)
    return Request(lib.QPY_COMPACT, given, _number)


def sweep() -> Request[int]:
    """Delete expired sessions; returns how many."""
    return Request(lib.QPY_SWEEP, Given(), _number)


def backup(path: str | os.PathLike[str]) -> Request[None]:
    """Write a copy of the store to a new file, while the store is in use."""
    return Request(lib.QPY_BACKUP, Given().bytes(path_of("path", path)), _nothing)


def rewind(key: str, to: int, new_key: str | None = None) -> Request[Session]:
    """Go back to message `to` of a session, under a new key, "KEY@TO" when it is None: a fork
    there. The session itself keeps what came after."""
    if new_key is None:
        new_key = f"{text_of('key', key).decode()}@{int_of('to', to)}"
    return fork(key, new_key, at=to)


def uncompact(key: str) -> Request[None]:
    """Undo the newest compaction: the view is what it was before. The summary stays among the
    messages."""
    return Request(lib.QPY_UNCOMPACT, Given().text("key", key), _nothing)


def prune(key: str) -> Request[int]:
    """Delete the messages that the newest compaction covers, for good; returns how many."""
    return Request(lib.QPY_PRUNE, Given().text("key", key), _number)


# ---- state ---------------------------------------------------------------------------------------


def _state_of(reader: Reader) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reader.bytes() or b"{}")
    return found


def state(key: str) -> Request[dict[str, Any]]:
    """Return the state of a session by name: its own names, "app:" ones of its app and "user:" ones
    of its user."""
    return Request(lib.QPY_STATE, Given().text("key", key), _state_of)


def user_state(app_name: str, user_id: str) -> Request[dict[str, Any]]:
    """Return the state of a user of an app, names without "user:"; {} when there is none."""
    given = Given().text("app_name", app_name).text("user_id", user_id)
    return Request(lib.QPY_ADK_USER_STATE, given, _state_of)


def set_state(key: str, name: str, value: Any) -> Request[None]:
    """Set one name of a session's state to a value that JSON can hold. "app:" and "user:" names
    belong to the session's app and user, and show in all their sessions."""
    given = Given().text("key", key).text("name", name).bytes(json_of("value", value))
    return Request(lib.QPY_STATE_SET, given, _nothing)


def delete_state(key: str, name: str) -> Request[None]:
    """Remove one name of a session's state; a missing name is not an error."""
    given = Given().text("key", key).text("name", name).bytes(None)
    return Request(lib.QPY_STATE_SET, given, _nothing)


def blame(key: str) -> Request[list[StateEntry]]:
    """Return the state that a session sees as entries, each with who set it last: the author of the
    event, its message, and the session for names of the app and the user."""
    return Request(lib.QPY_BLAME, Given().text("key", key), _results.blame_of)


def change_wait(seen: int = 0, *, timeout: float = 1.0) -> Request[int]:
    """Wait until the store changes, in any session, by this process or another, at most `timeout`
    seconds; returns the number of the change, for the next call. `seen` 0 returns at once."""
    if not 0 <= timeout <= _CHANGE_WAIT_MAX_S:
        raise ValueError(f"option 'timeout' is {timeout}; give 0 to {_CHANGE_WAIT_MAX_S} seconds")
    given = Given().number("seen", seen).number("timeout", round(timeout * 1000))
    return Request(lib.QPY_CHANGE_WAIT, given, _number)


_CHANGE_WAIT_MAX_S = 3600


def artifact_save(
    key: str | None,
    name: str,
    data: bytes | str,
    *,
    mime_type: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    kind: Literal["data", "text", "uri"] | None = None,
    app_name: str | None = None,
    user_id: str | None = None,
) -> Request[Artifact]:
    """Save the next version of an artifact of a session: bytes, a text, or the URI of something
    elsewhere, which `kind` says where the type of `data` does not. A name that begins with
    "user:" belongs to the session's user and shows in all of the user's sessions. With an app or a
    user the session need not exist."""
    text = isinstance(data, str) and kind != "uri"
    given = Given().struct(
        lib.QPY_ARTIFACT_NEW,
        key=key,
        app_name=app_name,
        user_id=user_id,
        name=name,
        mime_type="text/plain" if text and mime_type is None else mime_type,
        metadata=metadata,
        kind=kind or ("text" if text else "data"),
    )
    return Request(
        lib.QPY_ARTIFACT_SAVE, given.bytes(bytes_of("data", data)), _results.artifact_of
    )


def artifact_get(
    key: str | None,
    name: str,
    *,
    version: int | None = None,
    app_name: str | None = None,
    user_id: str | None = None,
) -> Request[Artifact]:
    """Return a version of an artifact with its bytes; None: the newest. Raises NotFound."""
    given = _artifact_query(key, name, app_name, user_id, version=version)
    return Request(lib.QPY_ARTIFACT_GET, given, _results.artifact_of)


def artifacts(
    key: str | None = None,
    *,
    name: str | None = None,
    versions: bool = False,
    app_name: str | None = None,
    user_id: str | None = None,
) -> Request[list[Artifact]]:
    """List the artifacts of a session and of its user, without their bytes: the newest version of
    each name, or all `versions`."""
    given = _artifact_query(key, name, app_name, user_id, versions=versions)
    return Request(lib.QPY_ARTIFACT_FIND, given, _results.artifacts_of)


def artifact_delete(
    key: str | None, name: str, *, app_name: str | None = None, user_id: str | None = None
) -> Request[int]:
    """Delete all versions of an artifact; returns how many there were."""
    given = _artifact_query(key, name, app_name, user_id)
    return Request(lib.QPY_ARTIFACT_DELETE, given, _number)


def _artifact_query(
    key: str | None,
    name: str | None,
    app_name: str | None,
    user_id: str | None,
    version: int | None = None,
    versions: bool = False,
) -> Given:
    return Given().struct(
        lib.QPY_ARTIFACT_QUERY,
        key=key,
        name=name,
        app_name=app_name,
        user_id=user_id,
        version=-1 if version is None else version,
        versions=versions,
    )


def usage(
    key: str | None = None,
    *,
    by: str | Iterable[str] = "model",
    app_name: str | None = None,
    user_id: str | None = None,
    since: date | None = None,
    until: date | None = None,
    after: str | None = None,
    limit: int = 0,
) -> Request[UsageReport]:
    """Sum up what the answers of models used: tokens as providers reported them, and money. `by` is
    any of "day", "model" and "session"; an empty one gives one row. Of one session, or of `limit`
    sessions at a time (0: 1000); `after` is the cursor of the report before. Days are UTC."""
    parts = [by] if isinstance(by, str) else several("by", by, "a str or a list of them")
    for part in parts:
        if part not in ("day", "model", "session"):
            raise ValueError(f"option 'by' has {part!r}; give 'day', 'model' or 'session'")
    given = Given().struct(
        lib.QPY_USAGE_QUERY,
        session="session" in parts,
        model="model" in parts,
        day="day" in parts,
        key=key,
        app_name=app_name,
        user_id=user_id,
        since=_day_of("since", since),
        until=_day_of("until", until),
        after=after,
        limit=limit,
    )
    return Request(lib.QPY_USED, given, lambda reader: _results.used_of(reader, "day" in parts))


def _day_of(name: str, day: date | None) -> int | None:
    if day is None:
        return None
    if not isinstance(day, date):
        raise TypeError(f"{name} must be a date, not {type(day).__name__}")
    return day.toordinal() - _EPOCH_DAY


_EPOCH_DAY = date(1970, 1, 1).toordinal()


# ---- memories and prompts ------------------------------------------------------------------------


def memory_save(
    key: str,
    content: str,
    *,
    kind: MemoryKind = "observation",
    id: str | UUID | None = None,
    priority: Priority | None = None,
    topic: Topic | None = None,
    subject: str | None = None,
    said_at: datetime | None = None,
    about_from: datetime | None = None,
    about_to: datetime | None = None,
    source_start: int = 0,
    source_end: int = 0,
    generation: int | None = None,
    supersedes: str | UUID | None = None,
    origin: str | None = None,
) -> Request[Memory]:
    """Save an observation or a reflection about a session; the session need not exist. A "standing"
    one is in every prompt until it is retired. One that supersedes another retires that one. One
    with an origin is known by its content: saving it again counts it again."""
    given = Given().struct(lib.QPY_MEMORY_KIND, kind=kind)
    given.struct(
        lib.QPY_MEMORY,
        session_key=_required("key", key),
        content=_required("content", content),
        id=id,
        priority=priority,
        topic=topic,
        subject=subject,
        said_at=said_at,
        about_from=about_from,
        about_to=about_to,
        source_start=source_start,
        source_end=source_end,
        generation=int(kind == "reflection") if generation is None else generation,
        supersedes=supersedes,
        origin=origin,
    )
    return Request(lib.QPY_MEMORY_SAVE, given, _results.memory_of)


def _query(
    key: str | None,
    ids: Iterable[str | UUID] | None,
    kind: MemoryKind,
    **more: Any,
) -> Given:
    """Which memories: of a session, or by ids."""
    if (key is None) == (ids is None):
        raise TypeError("give either key, the memories of a session, or ids")
    given = Given().struct(lib.QPY_MEMORY_QUERY, kind=kind, key=key, **more)
    if ids is None:
        return given.bytes(None)
    some = [ids] if isinstance(ids, (str, UUID)) else several("ids", ids, "a list of ids")
    return given.bytes(b"".join(uuid_of(f"ids[{n}]", one).bytes for n, one in enumerate(some)))


def memory_find(
    key: str | None = None,
    *,
    ids: Iterable[str | UUID] | None = None,
    kind: MemoryKind = "observation",
    recent: int = 0,
    retired: bool = False,
    scope: bool = False,
) -> Request[list[Memory]]:
    """Return the observations or reflections of a session, or those of a list of ids, in the order
    of their creation: all, or the `recent` newest. `retired` also returns retired ones; `scope`
    also what was observed in other sessions of the session's user."""
    given = _query(key, ids, kind, recent=recent, retired=retired, scope=scope)
    return Request(lib.QPY_MEMORY_FIND, given, _results.memories_of)


def memory_update(
    id: str | UUID,
    *,
    kind: MemoryKind = "observation",
    content: str | None = None,
    priority: Priority | None = None,
    subject: str | None = None,
    retire: bool = False,
    why: str | None = None,
    who: str | None = None,
) -> Request[Memory]:
    """Correct an observation or a reflection, or retire it: it stays in the history and leaves
    every prompt. `why` and `who` say why, and who did it. None leaves a member as it is."""
    given = Given().struct(
        lib.QPY_MEMORY_PATCH,
        kind=kind,
        id=uuid_of("id", id),
        content=content,
        priority=priority,
        subject=subject,
        retire=retire,
        why=why,
        who=who,
    )
    return Request(lib.QPY_MEMORY_UPDATE, given, _results.memory_of)


def memory_delete(
    key: str | None = None,
    *,
    ids: Iterable[str | UUID] | None = None,
    kind: MemoryKind = "observation",
) -> Request[int]:
    """Delete the observations or reflections of a session, or those of a list of ids; returns how
    many. Unknown ids are not an error."""
    return Request(lib.QPY_MEMORY_DELETE, _query(key, ids, kind), _number)


def _ran(reader: Reader) -> MemoryRun:
    """What a worker did."""
    return MemoryRun(**reader.struct(lib.QPY_MEMORY_RAN))


def _worker(given: Given, ask: Asker | None, embedder: Embedder | None) -> Any:
    """The functions of a worker, behind its options."""
    return given_asker(given, ask), given_embedder(given, embedder)


def memory_run(
    key: str | None = None,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    changed_after: datetime | None = None,
    observe_tokens: int = 0,
    lease: float | None = None,
    worker: str | None = None,
    timeout: float | None = None,
    ask: Asker | None = None,
    model: str | None = None,
    reflect_tokens: int = 0,
    ask_tokens: int = 0,
    observe_prompt: str | None = None,
    reflect_prompt: str | None = None,
    embedder: Embedder | None = None,
    embed_model: str | None = None,
    embed_only: bool = False,
    embed_replace: bool = False,
) -> Request[MemoryRun]:
    """Observe what was said since the last run, by rules and without a model, in one session, in
    those of an app or of one of its users, or in all. Any number of threads and processes may run.
    Returns when nothing is due, or after `timeout` seconds, the store's deadline when None.

    `ask`, a function from a Question to the text of an answer, asks `model` instead of the rules,
    which also condenses what is known from `reflect_tokens` on (-1: never); `observe_prompt` and
    `reflect_prompt` say in the program's own words what to write down, and how to condense it. An
    `embedder`, a function from a list of texts to a list of vectors, makes vectors for recall() of
    what `embed_model` has none of yet; `embed_only` observes nothing, and `embed_replace` removes
    the vectors of other models."""
    given = Given().struct(
        lib.QPY_MEMORY_OPTIONS,
        key=key,
        app_name=app_name,
        user_id=user_id,
        changed_after=changed_after,
        observe_tokens=observe_tokens,
        lease=lease,
        worker=worker,
        model=model,
        reflect_tokens=reflect_tokens,
        ask_tokens=ask_tokens,
        observe_prompt=observe_prompt,
        reflect_prompt=reflect_prompt,
        embed_model=embed_model,
        embed_only=embed_only,
        embed_replace=embed_replace,
    )
    kept = _worker(given, ask, embedder)
    given.number("timeout", 0 if timeout is None else milliseconds_of("timeout", timeout))
    return Request(lib.QPY_MEMORY_RUN, given, _ran, kept=kept)


def memory_start(
    key: str | None = None,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    observe_tokens: int = 0,
    lease: float | None = None,
    worker: str | None = None,
    ask: Asker | None = None,
    model: str | None = None,
    reflect_tokens: int = 0,
    ask_tokens: int = 0,
    observe_prompt: str | None = None,
    reflect_prompt: str | None = None,
    embedder: Embedder | None = None,
    embed_model: str | None = None,
) -> Request[None]:
    """Start a worker beside the program: a thread of the library that observes what is said, as
    memory_run() does, until memory_stop() or the store is closed. No call waits for it, but these
    two wait for a function that it is calling. A store has one such worker at a time; Exists when
    it runs already."""
    given = Given().struct(
        lib.QPY_MEMORY_OPTIONS,
        key=key,
        app_name=app_name,
        user_id=user_id,
        observe_tokens=observe_tokens,
        lease=lease,
        worker=worker,
        model=model,
        reflect_tokens=reflect_tokens,
        ask_tokens=ask_tokens,
        observe_prompt=observe_prompt,
        reflect_prompt=reflect_prompt,
        embed_model=embed_model,
    )
    kept = _worker(given, ask, embedder)
    return Request(lib.QPY_MEMORY_START, given, _nothing, kept=kept, lasts=True)


def memory_stop() -> Request[MemoryRun]:
    """Stop the worker and return what it did in all. Without a worker it does nothing."""
    return Request(lib.QPY_MEMORY_STOP, Given(), _ran)


def memory_status(
    key: str | None = None, *, app_name: str | None = None, user_id: str | None = None
) -> Request[MemoryStatus]:
    """Return how far sessions are observed: one, those of an app or of one of its users, or all."""
    given = Given().struct(lib.QPY_MEMORY_OPTIONS, key=key, app_name=app_name, user_id=user_id)
    return Request(lib.QPY_MEMORY_STATUS, given, _results.status_of)


def _tool(given: Given, where: str, tool: Any) -> None:
    """A tool: its name, description and schema, or a dict of OpenAI's chat API."""
    if not isinstance(tool, Mapping):
        raise TypeError(
            f"{where} must be a dict with 'name' and 'schema', not {type(tool).__name__}"
        )
    found = tool.get("function", tool)
    if not isinstance(found, Mapping) or not isinstance(found.get("name"), str):
        raise TypeError(f"{where}['name'] must be a str")
    given.number(where, 1).struct(
        lib.QPY_TOOL,
        name=found["name"],
        description=found.get("description"),
        schema=found.get("schema", found.get("parameters", found.get("input_schema"))),
        strict=found.get("strict"),
    )


def context(
    key: str,
    *,
    system: str | None = None,
    tools: Iterable[Mapping[str, Any]] = (),
    model: str | None = None,
    provider: str | None = None,
    token_budget: int = 0,
    memory_tokens: int = 0,
    at: int = 0,
    log: bool = False,
    as_before: bool = False,
    usage: Usage | None = None,
) -> Request[Context]:
    """Return the next prompt of a session: system instruction, what is known of the session or its
    user, and the newest turns within the budget, so that it begins with the bytes of the prompt
    before it, which the provider has cached.

    `tools` are dicts with 'name', 'description' and 'schema', or those of OpenAI's chat API. `log`
    records that the prompt is sent now: pass it once for each request, after the input is appended,
    with the `usage` that the provider reported for the one before. `as_before` takes system
    instruction, tools, model and provider from the prompt that was logged last. `at` builds the
    prompt of a past turn again, by the number of its last message or of its answer."""
    given = Given().struct(
        lib.QPY_CONTEXT_OPTIONS,
        key=_required("key", key),
        model=model,
        provider=provider,
        token_budget=token_budget,
        memory_tokens=memory_tokens,
        at=at,
        log=log,
        as_before=as_before,
    )
    given.bytes(None) if system is None else given.text("system", system)
    for number, tool in enumerate(several("tools", tools, "a list of dicts")):
        _tool(given, f"tools[{number}]", tool)
    given.number("tools", 0).number("usage", usage is not None)
    if usage is not None:
        given.members(lib.QPY_USAGE, asdict(usage))
    return Request(lib.QPY_CONTEXT, given, _results.context_of)


# ---- tails and the feed -------------------------------------------------------------------------


def tail_open(key: str, after: int) -> Request[int]:
    """Open a tail behind a message; returns its number in the store."""
    return Request(lib.QPY_TAIL_OPEN, Given().text("key", key).number("after", after), _number)


def feed_read(
    *,
    after: str | None = None,
    limit: int = 0,
    timeout: float = 0,
    from_now: bool = False,
) -> Request[FeedPage]:
    """Return a page of the changes of all sessions, behind the cursor `after` or from the oldest
    that is kept, and the cursor for the next page. Waits up to `timeout` seconds for a change; with
    `from_now`, returns an empty page with the cursor of this moment. Stores that were opened with
    `feed=True` record their changes. A reader that fell too far behind gets Expired."""
    given = Given().struct(
        lib.QPY_FEED_OPTIONS,
        after=after,
        limit=limit,
        timeout_ms=milliseconds_of("timeout", timeout) if timeout else 0,
        from_now=from_now,
    )
    return Request(lib.QPY_FEED, given, _results.feed_of)


# ---- maintenance ---------------------------------------------------------------------------------


def index() -> Request[int]:
    """Index all messages that are not indexed yet, which the next search would do; returns how
    many."""
    return Request(lib.QPY_INDEX, Given(), _number)


def stats() -> Request[Stats]:
    """Count and measure the store."""
    return Request(lib.QPY_STATS, Given(), _results.stats_of)


def upgrade() -> Request[None]:
    """Verify the store and rewrite its file so that every page has a checksum, unless it has them.
    Raises Invalid when the verification finds problems; nothing is changed then."""
    return Request(lib.QPY_UPGRADE, Given(), _nothing)


def rekey(
    *,
    key: bytes | Callable[[], bytes] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    passphrase: str | bytes | Callable[[], str | bytes] | None = None,
    passphrase_file: str | os.PathLike[str] | None = None,
) -> Request[None]:
    """Give an encrypted store another key, in one of the forms that opening it takes: who opens it
    from now on needs the new one. It takes milliseconds, and programs that have the store open go
    on. Raises Misuse for a store that is not encrypted, Unsupported for a server's, Conflict when
    another program has changed the key. After Unknown keep both keys and repeat the call."""
    secret = _key.needed(
        "rekey",
        key=key,
        key_file=key_file,
        passphrase=passphrase,
        passphrase_file=passphrase_file,
    )
    given = Given().bytes(secret.data).number("passphrase", secret.is_passphrase)
    return Request(lib.QPY_REKEY, given, _nothing)


def verify(*, repair: bool = False) -> Request[Verified]:
    """Check everything in the store, and with `repair` mend what follows from the messages that
    exist. Problems are part of the result, not exceptions."""
    return Request(lib.QPY_VERIFY, Given().number("repair", repair), _results.verified_of)


def erase(
    key: str | None = None,
    *,
    user_id: str | None = None,
    app_name: str | None = None,
    quick: bool = False,
) -> Request[Erasure]:
    """Delete a session with its forks, or all sessions of a user (in one app, or in all) with the
    user's state, and leave no byte of their text in the file, its log and its index. Returns a
    receipt. `quick` does not rewrite the file, which is enough for one that this library has always
    written."""
    given = Given().struct(
        lib.QPY_ERASE_OPTIONS, key=key, user_id=user_id, app_name=app_name, quick=quick
    )
    return Request(lib.QPY_ERASE, given, _results.erasure_of)


def import_source(
    path: str | os.PathLike[str],
    *,
    kind: SourceKind = "auto",
    dry_run: bool = False,
    on_conflict: Literal["fail", "skip", "rename"] = "fail",
    prefix: str | None = None,
) -> Request[Imported]:
    """Import the sessions of another program's SQLite file, which is only read: ADK's, Lango's, or
    one of llm, OpenAI's Agents SDK or LangGraph. The whole file is checked first; an import that
    failed can be repeated. `dry_run` writes nothing. `on_conflict` says what happens to a session
    whose key another session of the store has: nothing is imported ("fail"), it is left out
    ("skip"), or, of chat programs, its key gets a number ("rename"); `prefix` is what keys of chat
    programs begin with, the program's name when None."""
    given = Given().bytes(path_of("path", path))
    _one_sqlite.before(os.fsdecode(path))
    given.struct(
        lib.QPY_SOURCE_OPTIONS,
        kind=kind,
        dry_run=dry_run,
        on_conflict=on_conflict,
        prefix=prefix,
    )
    return Request(
        lib.QPY_SOURCE, given, lambda reader: Imported(**reader.struct(lib.QPY_SOURCE_REPORT))
    )


def _factor_of(reader: Reader) -> Factor:
    return Factor(**reader.struct(lib.QPY_FACTOR_RESULT))


def model_factor(model: str) -> Request[Factor]:
    """Return how many of a model's tokens one estimated token is, as learned so far."""
    return Request(lib.QPY_FACTOR, Given().text("model", model), _factor_of)


def model_factor_learn(model: str, *, estimated: int, reported: int) -> Request[Factor]:
    """Learn from a prompt: tokens as this store estimates them, and as the provider reported
    them."""
    given = Given().text("model", model).number("estimated", estimated)
    return Request(lib.QPY_FACTOR_LEARN, given.number("reported", reported), _factor_of)


def path_of(name: str, path: str | os.PathLike[str]) -> bytes:
    """A path or an address; an error names the parameter."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, not {type(path).__name__}")
    try:
        made = os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half of a surrogate pair at {error.start}") from None
    if b"\0" in made:
        raise ValueError(f"{name} must not contain NUL")
    return made
