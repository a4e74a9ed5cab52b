"""The store: sessions, messages, windows, forks and search, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, TypeVar

from . import _call, _types
from ._errors import Expired, NotFound
from ._fields import Session, SessionNew, SessionPatch
from ._messages import packed
from ._native import lib
from ._shapes import Given, Reader
from ._types import Appended, History, Hits, Message, Page, Recalled, Role, Window

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
T = TypeVar("T")

Durability = Literal["full", "relaxed"]
SearchMode = Literal["lazy", "inline", "off"]

_REQUEST = re.compile(r"_Request\[(.*)\]")  # what the functions below give, around a call's result
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")


@dataclass(slots=True)
class _Request(Generic[T]):
    """A prepared call, and how to decode its result."""

    op: int
    given: Given
    read: Callable[[Reader], T]


def _nothing(reader: Reader) -> None:
    return None


def _create(
    key: str,
    *,
    ttl: float | None = None,
    exist_ok: bool = False,
    **values: Unpack[SessionNew],
) -> _Request[Session]:
    """Create a session. With `exist_ok` an existing one is returned: of concurrent callers one
    creates it and all get the same. `ttl` is in seconds; None means the store's, math.inf never."""
    given = _new(key, ttl, values).number("exist_ok", exist_ok)
    return _Request(lib.QPY_CREATE, given, _types.session_of)


def _new(key: str, ttl: float | None, values: SessionNew) -> Given:
    """The members of a new session."""
    given = Given().struct(lib.QPY_SESSION_NEW_MORE, key=key, ttl=ttl)
    return given.members(lib.QPY_SESSION_NEW, values)


def _get(
    key: str,
    *,
    last: int | None = None,
    after: int = 0,
    before: int = 0,
    limit: int = 0,
    view: bool = False,
) -> _Request[History]:
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
    return _Request(lib.QPY_GET, given, _types.history_of)


def _update(
    key: str,
    *,
    ttl: float | None = None,
    if_revision: int | None = None,
    **values: Unpack[SessionPatch],
) -> _Request[int]:
    """Change settings of a session; None leaves a setting. `ttl` is in seconds, math.inf means
    never. Returns the new revision. With `if_revision`, only a session of that revision is changed;
    any other raises Conflict."""
    given = Given().text("key", key)
    given.struct(lib.QPY_SESSION_PATCH_MORE, ttl=ttl, if_revision=if_revision)
    return _Request(
        lib.QPY_UPDATE, given.members(lib.QPY_SESSION_PATCH, values), lambda reader: reader.number()
    )


def _delete(key: str, *, forks: bool = False) -> _Request[None]:
    """Delete a session with its messages, state and memories, with `forks` also its forks. A
    missing session is not an error."""
    return _Request(lib.QPY_DELETE, Given().text("key", key).number("forks", forks), _nothing)


def _list(
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    metadata: tuple[str, str | None] | None = None,
    after: str | None = None,
    limit: int = 0,
    oldest_first: bool = False,
    expired: bool = False,
) -> _Request[Page]:
    """Return a page of sessions by their last change, newest first; `after` is the cursor of the
    page before. `metadata` is a member's name and its text, or None for any. Iterate over the store
    for all of them."""
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
    )
    return _Request(lib.QPY_LIST, given, _types.page_of)


def _append(
    key: str,
    messages: str | Message | Mapping[str, Any] | Iterable[Message | Mapping[str, Any]],
    *,
    if_revision: int | None = None,
    create: bool = False,
) -> _Request[Appended]:
    """Append messages, all or none; they are durable when the call returns.

    `messages` is a str, which the user said; a Message; a dict with 'role' and 'content', also with
    the tool calls, tool results and content parts of OpenAI's chat API; or an iterable of messages
    and dicts. What a Message has no member for is kept in its `extra`.

    Messages whose event ids are stored already, with the same content, are not stored again. With
    `if_revision`, only a session of that revision gets them; any other raises Conflict. `create`
    makes a missing session, in the same transaction."""
    lengths, texts = packed(messages)
    given = Given().text("key", key).bytes(lengths).bytes(texts)
    given.struct(
        lib.QPY_APPEND_OPTIONS,
        if_revision=-1 if if_revision is None else if_revision,
        create=create,
    )
    return _Request(lib.QPY_APPEND, given, _types.appended_of)


def _window(key: str, token_budget: int, *, cut: bool = False) -> _Request[Window]:
    """Return the newest whole turns within a token budget, for the next prompt. A newest turn that
    exceeds the budget alone is whole, or, with `cut`, without its beginning."""
    given = Given().text("key", key)
    given.struct(lib.QPY_WINDOW_OPTIONS, token_budget=token_budget, cut=cut)
    return _Request(lib.QPY_WINDOW, given, _types.window_of)


def _search(
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
) -> _Request[Hits]:
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
    return _Request(lib.QPY_SEARCH, given, _types.hits_of)


def _recall(
    question: str,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    key: str | None = None,
    everything: bool = False,
    since: int = 0,
    before: int = 0,
    limit: int = 0,
    budget: int = 0,
) -> _Request[list[Recalled]]:
    """Return the messages that may answer a question, best first. Say where to look: in the session
    `key` (from the number `since` up to the number `before`), in the sessions of an app, of one of
    its users, or `everything`. `budget`: at most as many tokens together."""
    given = Given().struct(
        lib.QPY_RECALL_OPTIONS,
        question=_required("question", question),
        app_name=app_name,
        user_id=user_id,
        key=key,
        everything=everything,
        since=since,
        before=before,
        limit=limit,
        budget=budget,
    )
    return _Request(lib.QPY_RECALL, given, _types.recalled_of)


def _required(name: str, value: str) -> str:
    if value is None:
        raise TypeError(f"{name} must be a str, not NoneType")
    return value


def _fork(
    key: str,
    new_key: str,
    *,
    at: int,
    ttl: float | None = None,
    **values: Unpack[SessionNew],
) -> _Request[Session]:
    """Create a session that shares the messages of another up to number `at`; nothing is copied.
    Settings that are not given are those of the other."""
    given = Given().text("key", key).number("at", at)
    given.struct(lib.QPY_SESSION_NEW_MORE, key=_required("new_key", new_key), ttl=ttl)
    given.members(lib.QPY_SESSION_NEW, values)
    return _Request(lib.QPY_FORK, given, _types.session_of)


def _compact(key: str, summary: str, *, up_to: int) -> _Request[int]:
    """Replace the messages up to number `up_to` by a summary; returns the summary's number."""
    given = Given().text("key", key).text("summary", summary).number("up_to", up_to)
    return _Request(lib.QPY_COMPACT, given, lambda reader: reader.number())


def _sweep() -> _Request[int]:
    """Delete expired sessions; returns how many."""
    return _Request(lib.QPY_SWEEP, Given(), lambda reader: reader.number())


def _backup(path: str | os.PathLike[str]) -> _Request[None]:
    """Write a copy of the store to a new file, while the store is in use."""
    return _Request(lib.QPY_BACKUP, Given().bytes(_path("path", path)), _nothing)


def _path(name: str, path: str | os.PathLike[str]) -> bytes:
    """A path or an address; an error names the parameter."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, not {type(path).__name__}")
    made = os.fsencode(path)
    if b"\0" in made:
        raise ValueError(f"{name} must not contain NUL")
    return made


def _dress(method: Any, make: Callable[..., Any]) -> None:
    """Give a method the name, docstring and signature of its request, plus `self`. The request
    itself gets the name, too: Python names it when an argument is missing or unknown."""
    name = make.__name__.lstrip("_")
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(make)
    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    given = {"create": SessionNew, "fork": SessionNew, "update": SessionPatch}.get(name)
    for member, kind in (given.__annotations__ if given else {}).items():
        named.append(
            inspect.Parameter(
                member,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=getattr(kind, "__forward_arg__", kind),
            )
        )
    method.__name__ = method.__qualname__ = make.__name__ = make.__qualname__ = name
    method.__module__ = make.__module__ = __package__
    method.__doc__ = make.__doc__
    method.__signature__ = signature.replace(
        parameters=[own, *named], return_annotation=_public(signature.return_annotation)
    )


def _public(annotation: str) -> str:
    """Return an annotation's text as users know it: the result of a request."""
    return _REQUEST.sub(r"\1", annotation)


def _now(make: Callable[P, _Request[T]]) -> Callable[Concatenate[BaseStore, P], T]:
    """Make a method that runs the call and waits for it."""

    def method(self: BaseStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(make(*args, **kwargs))

    _dress(method, make)
    return method


def _later(
    make: Callable[P, _Request[T]],
) -> Callable[Concatenate[BaseStore, P], Coroutine[Any, Any, T]]:
    """Make a coroutine that runs the call outside of the event loop."""

    async def method(self: BaseStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._start(make(*args, **kwargs))

    _dress(method, make)
    return method


class BaseStore:
    """What both kinds of store share: how they are opened."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        read_only: bool = False,
        must_exist: bool = False,
        feed: bool = False,
        tenant: str = "",
        deadline: float | None = None,
        ttl: float | None = None,
        cap_messages: int = 0,
        cap_tokens: int = 0,
        search: SearchMode = "lazy",
        max_bytes: int = 0,
        adk_rebase: bool = False,
        adk_by_time: bool = False,
    ) -> None:
        """Open a store by its path, "file:path", ":memory:" or "postgresql://..."; a new file is
        created.

        durability    "full": an acknowledged write survives a power cut; "relaxed": a crash of the
                      process (WAL and NORMAL).
        read_only     write nothing; the file must exist
        must_exist    a missing file raises NotFound
        feed          record changes, which feed() reads
        tenant        the owner of the sessions that calls see
        deadline      seconds that a call waits for other writers; None: 30; math.inf: for ever
        ttl           seconds until a session that names none expires; None or math.inf: never
        cap_messages  the most messages that a session keeps; 0: all. Also cap_tokens
        search        when messages enter the search index: "lazy", "inline" or "off"
        max_bytes     writes above this size of the file raise Full; 0: none
        adk_rebase    ADK: a stale session appends behind the others' events instead of failing
        adk_by_time   ADK: events by their time stamps, not in the order of their appends
        """
        self._uri = os.fsdecode(_path("uri", uri))
        given = Given().bytes(os.fsencode(self._uri))
        given.struct(
            lib.QPY_OPEN_OPTIONS,
            durability=durability,
            read_only=read_only,
            must_exist=must_exist,
            feed=feed,
            tenant=tenant,
            deadline=deadline,
            ttl=None if ttl == math.inf else ttl,
            cap_messages=cap_messages,
            cap_tokens=cap_tokens,
            search=search,
            max_bytes=max_bytes,
        )
        given.struct(lib.QPY_SERVICE_OPTIONS, adk_rebase=adk_rebase, adk_by_time=adk_by_time)
        self._handle = _call.open_store(given.texts, given.numbers)

    def __repr__(self) -> str:
        where = _PASSWORD.sub(r"\1:***@", self._uri)
        return f"<quipu.{type(self).__name__} {where!r}{', closed' if self._handle.closed else ''}>"

    def _run(self, request: _Request[T]) -> T:
        given = request.given
        answer = _call.run(request.op, self._handle, given.texts, given.numbers)
        return request.read(Reader(answer.texts, answer.numbers))

    async def _start(self, request: _Request[T]) -> T:
        given = request.given
        answer = await _call.start(request.op, self._handle, given.texts, given.numbers)
        return request.read(Reader(answer.texts, answer.numbers))


class Store(BaseStore):
    """A synchronous store. Threads can share it, and processes can open the same file. A call
    releases the GIL."""

    def close(self) -> None:
        """Close the store after running calls have ended. A second call does nothing."""
        self._handle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __contains__(self, key: object) -> bool:
        """Whether there is a session of this key that has not expired."""
        return isinstance(key, str) and self.exists(key)

    def __iter__(self) -> Iterator[Session]:
        """All sessions, newest change first, read page by page."""
        page = self.list()
        yield from page.sessions
        while page.next is not None:
            page = self.list(after=page.next)
            yield from page.sessions

    def exists(self, key: str) -> bool:
        """Whether there is a session of this key that has not expired; `key in store` asks the
        same."""
        try:
            self._run(_get(key, last=0))
        except (NotFound, Expired):
            return False
        return True

    create = _now(_create)
    get = _now(_get)
    update = _now(_update)
    delete = _now(_delete)
    list = _now(_list)
    append = _now(_append)
    window = _now(_window)
    search = _now(_search)
    recall = _now(_recall)
    fork = _now(_fork)
    compact = _now(_compact)
    sweep = _now(_sweep)
    backup = _now(_backup)


class AsyncStore(BaseStore):
    """A store whose calls are awaited and run on threads of the library: no call blocks the event
    loop. The constructor opens at once, which is short; `open()` is for a file that must first be
    migrated."""

    @classmethod
    async def open(cls, uri: str | os.PathLike[str], **options: Any) -> AsyncStore:
        """Open a store outside of the event loop; options are those of the constructor."""
        return await asyncio.to_thread(cls, uri, **options)

    async def close(self) -> None:
        """Close the store after running calls have ended."""
        await asyncio.to_thread(self._handle.close)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __contains__(self, key: object) -> NoReturn:
        raise TypeError("an AsyncStore cannot answer `in`: use `await store.exists(key)`")

    async def __aiter__(self) -> AsyncIterator[Session]:
        """All sessions, newest change first, read page by page."""
        page = await self.list()
        for session in page.sessions:
            yield session
        while page.next is not None:
            page = await self.list(after=page.next)
            for session in page.sessions:
                yield session

    async def exists(self, key: str) -> bool:
        """Whether there is a session of this key that has not expired."""
        try:
            await self._start(_get(key, last=0))
        except (NotFound, Expired):
            return False
        return True

    create = _later(_create)
    get = _later(_get)
    update = _later(_update)
    delete = _later(_delete)
    list = _later(_list)
    append = _later(_append)
    window = _later(_window)
    search = _later(_search)
    recall = _later(_recall)
    fork = _later(_fork)
    compact = _later(_compact)
    sweep = _later(_sweep)
    backup = _later(_backup)
