"""The store: sessions, messages, windows, forks and search, synchronous and asynchronous."""

from __future__ import annotations

import array
import asyncio
import inspect
import math
import os
import re
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from . import _call, _types
from ._call import Answer
from ._fields import Session, SessionNew, SessionPatch
from ._native import lib

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
T = TypeVar("T")

Durability = Literal["full", "relaxed"]
SearchMode = Literal["lazy", "inline", "off"]

_DURABILITY = {"full": 0, "relaxed": 1}
_SEARCH = {"lazy": 0, "inline": 1, "off": 2}
_READ_ONLY, _MUST_EXIST, _FEED = 1, 2, 4
_HEADER, _LAST, _VIEW = 1, 2, 4
_OLDEST_FIRST, _EXPIRED = 1, 2
_SET_TTL, _SET_IF_REVISION = 32, 64
_NEVER = -1
_DEADLINE_MAX = 2**31 - 1  # milliseconds: 24 days
_REQUEST = re.compile(r"_Request\[(.*)\]")  # what the functions below give, around a call's result


@dataclass(slots=True)
class _Request(Generic[T]):
    """A prepared call, and how to decode its result."""

    op: int
    texts: list[bytes | None]
    numbers: list[int]
    read: Callable[[Answer], T]


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _milliseconds(name: str, seconds: float | None) -> int:
    """Seconds as the library's milliseconds; None: 0, the default; infinity: -1, never."""
    if seconds is None:
        return 0
    if not seconds > 0:
        raise ValueError(
            f"option {name!r} is {seconds}; give seconds above 0, None for the default or math.inf"
        )
    return _NEVER if math.isinf(seconds) else max(1, round(seconds * 1000))


def _choice(name: str, given: str, known: dict[str, int]) -> int:
    if given not in known:
        raise ValueError(f"option {name!r} is {given!r}; give one of {', '.join(known)}")
    return known[given]


def _nothing(answer: Answer) -> None:
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
    return _Request(
        lib.QPY_CREATE,
        [key.encode(), *_types.new_of(values)],
        [_milliseconds("ttl", ttl), exist_ok],
        lambda answer: _types.session_of(answer.texts, answer.numbers),
    )


def _get(
    key: str,
    *,
    last: int | None = None,
    after: int = 0,
    before: int = 0,
    limit: int = 0,
    view: bool = False,
) -> _Request[_types.History]:
    """Return a session and its messages: all, the `last` n (0: none), or a page by numbers. With
    `view`, what a model should see: after a compaction the summary and what follows it."""
    flags = _VIEW if view else 0
    if last is not None:
        flags |= _LAST if last > 0 else _HEADER
        limit = last
    return _Request(
        lib.QPY_GET,
        [key.encode()],
        [flags, after, before, limit],
        lambda answer: _types.history_of(answer.texts, answer.numbers),
    )


def _update(
    key: str,
    *,
    ttl: float | None = None,
    if_revision: int | None = None,
    **values: Unpack[SessionPatch],
) -> _Request[int]:
    """Change settings of a session; None leaves a setting. `ttl` is in seconds, math.inf means
    never. Returns the new revision."""
    texts, bits = _types.patch_of(values)
    bits |= 0 if ttl is None else _SET_TTL
    bits |= 0 if if_revision is None else _SET_IF_REVISION
    return _Request(
        lib.QPY_UPDATE,
        [key.encode(), *texts],
        [bits, _milliseconds("ttl", ttl), if_revision or 0],
        lambda answer: answer.numbers[0],
    )


def _delete(key: str, *, forks: bool = False) -> _Request[None]:
    """Delete a session with its messages, state and memories, with `forks` also its forks. A
    missing session is not an error."""
    return _Request(lib.QPY_DELETE, [key.encode()], [forks], _nothing)


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
) -> _Request[_types.Page]:
    """Return a page of sessions by their last change, newest first. `metadata` is a member's name
    and its text, or None for any."""
    name, text = metadata if metadata is not None else (None, None)
    words = (app_name, user_id, agent_id, name, text, after)
    return _Request(
        lib.QPY_LIST,
        [_text(word) for word in words],
        [(_OLDEST_FIRST if oldest_first else 0) | (_EXPIRED if expired else 0), limit],
        lambda answer: _types.page_of(answer.texts, answer.numbers),
    )


def _append(
    key: str,
    messages: _types.Message | Iterable[_types.Message],
    *,
    if_revision: int | None = None,
) -> _Request[_types.Appended]:
    """Append messages, all or none; they are durable when the call returns. Messages whose event
    ids are stored already, with the same content, are not stored again."""
    batch = [messages] if isinstance(messages, _types.Message) else messages
    texts = [message._json() for message in batch]
    return _Request(
        lib.QPY_APPEND,
        [key.encode(), array.array("q", map(len, texts)).tobytes(), b"".join(texts)],
        [-1 if if_revision is None else if_revision],
        lambda answer: _types.Appended(
            answer.numbers[0], answer.numbers[1], bool(answer.numbers[2])
        ),
    )


def _window(key: str, token_budget: int, *, cut: bool = False) -> _Request[_types.Window]:
    """Return the newest whole turns within a token budget, for the next prompt."""
    return _Request(
        lib.QPY_WINDOW,
        [key.encode()],
        [token_budget, cut],
        lambda answer: _types.window_of(answer.texts, answer.numbers),
    )


def _search(
    query: str,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    key: str | None = None,
    author: str | None = None,
    role: _types.Role | None = None,
    limit: int = 0,
    offset: int = 0,
) -> _Request[_types.Hits]:
    """Return messages that contain all words of a query, best first. Every message committed before
    the call is searched."""
    return _Request(
        lib.QPY_SEARCH,
        [query.encode(), _text(app_name), _text(user_id), _text(key), _text(author)],
        [0 if role is None else _types.ROLES.index(role) + 1, limit, offset],
        lambda answer: _types.hits_of(answer.texts, answer.numbers),
    )


def _recall(
    question: str,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    key: str | None = None,
    everything: bool = False,
    before: int = 0,
    limit: int = 0,
    budget: int = 0,
) -> _Request[list[_types.Recalled]]:
    """Return the messages that may answer a question, best first. Say where to look: in the session
    `key` (up to the number `before`), in the sessions of an app, of one of its users, or
    `everything`. `budget`: at most as many tokens together."""
    return _Request(
        lib.QPY_RECALL,
        [question.encode(), _text(app_name), _text(user_id), _text(key)],
        [everything, before, limit, budget],
        lambda answer: _types.recalled_of(answer.texts, answer.numbers),
    )


def _fork(key: str, new_key: str, *, at: int) -> _Request[None]:
    """Create a session that shares the messages of another up to number `at`; nothing is copied."""
    return _Request(lib.QPY_FORK, [key.encode(), new_key.encode()], [at], _nothing)


def _compact(key: str, summary: str, *, up_to: int) -> _Request[int]:
    """Replace the messages up to number `up_to` by a summary; returns the summary's number."""
    return _Request(
        lib.QPY_COMPACT,
        [key.encode(), summary.encode()],
        [up_to],
        lambda answer: answer.numbers[0],
    )


def _sweep() -> _Request[int]:
    """Delete expired sessions; returns how many."""
    return _Request(lib.QPY_SWEEP, [], [], lambda answer: answer.numbers[0])


def _backup(path: str | os.PathLike[str]) -> _Request[None]:
    """Write a copy of the store while it is in use."""
    return _Request(lib.QPY_BACKUP, [os.fsencode(path)], [], _nothing)


def _dress(method: Any, make: Callable[..., Any]) -> None:
    """Give a method the name, docstring and signature of its request, plus `self`."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(make)
    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    given = {"_create": SessionNew, "_update": SessionPatch}.get(make.__name__)
    for name, kind in (given.__annotations__ if given else {}).items():
        named.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=getattr(kind, "__forward_arg__", kind),
            )
        )
    method.__name__ = method.__qualname__ = make.__name__.lstrip("_")
    method.__doc__ = make.__doc__
    method.__signature__ = signature.replace(
        parameters=[own, *(one.replace(annotation=_public(one.annotation)) for one in named)],
        return_annotation=_public(signature.return_annotation),
    )


def _public(annotation: Any) -> Any:
    """Return an annotation's text as users know it: the result of a request, without modules."""
    if not isinstance(annotation, str):
        return annotation
    return _REQUEST.sub(r"\1", annotation).replace("_types.", "")


def _now(make: Callable[P, _Request[T]]) -> Callable[Concatenate[_Base, P], T]:
    """Make a method that runs the call and waits for it."""

    def method(self: _Base, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = make(*args, **kwargs)
        return request.read(_call.run(request.op, self._handle, request.texts, request.numbers))

    _dress(method, make)
    return method


def _later(
    make: Callable[P, _Request[T]],
) -> Callable[Concatenate[_Base, P], Coroutine[Any, Any, T]]:
    """Make a coroutine that runs the call outside of the event loop."""

    async def method(self: _Base, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = make(*args, **kwargs)
        return request.read(
            await _call.start(request.op, self._handle, request.texts, request.numbers)
        )

    _dress(method, make)
    return method


class _Base:
    """Opening, common to both kinds of store."""

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
        """Open a store by its path, "file:path" or ":memory:"; a new file is created.

        durability    "full": an acknowledged write survives a power cut; "relaxed": a crash of the
                      process (WAL and NORMAL).
        deadline      seconds that a call waits for other writers; None: 30; math.inf: for ever
        ttl           seconds until a session that names none expires; None or math.inf: never
        feed          record changes in the store's feed
        adk_rebase    ADK: a stale session appends behind the others' events instead of failing
        adk_by_time   ADK: events by their time stamps, not in the order of their appends
        """
        flags = _READ_ONLY * read_only | _MUST_EXIST * must_exist | _FEED * feed
        path = os.fspath(uri)
        if "\0" in path:
            raise ValueError("a path must not contain NUL")
        self._handle = _call.open_store(
            [os.fsencode(path), tenant.encode()],
            [
                flags,
                _choice("durability", durability, _DURABILITY),
                min(_milliseconds("deadline", deadline), _DEADLINE_MAX),
                0,
                max(_milliseconds("ttl", ttl), 0),
                cap_messages,
                cap_tokens,
                _choice("search", search, _SEARCH),
                max_bytes,
                adk_rebase,
                adk_by_time,
            ],
        )


class Store(_Base):
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


class AsyncStore(_Base):
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
