"""The store, synchronous and asynchronous: the calls of _requests.py as methods, and what is more
than one call: iterators, files, copies."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import IO, Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar

from . import _call, _files, _key, _one_sqlite, _requests, _results, _types
from ._errors import Cancelled, Expired, Misuse, NotFound
from ._fields import Session, SessionNew, SessionPatch
from ._native import lib
from ._requests import Request, path_of
from ._results import Change, Compared, Copied, FeedPage, Transfer
from ._shapes import Given, Reader, milliseconds_of
from ._types import Message

P = ParamSpec("P")
T = TypeVar("T")

Durability = Literal["full", "relaxed"]
SearchMode = Literal["lazy", "inline", "off"]

_REQUEST = re.compile(r"Request\[(.*)\]")  # what _requests.py gives, around a call's result
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
_PIECE_S = 0.25  # how long one call waits for messages or changes: an iterator waits in such pieces


class _Patience:
    """How long an iterator waits for the next thing: None for ever, 0 not at all."""

    def __init__(self, timeout: float | None) -> None:
        if timeout:
            milliseconds_of("timeout", timeout)  # which checks it
        self._timeout = math.inf if timeout is None else timeout
        self.renew()

    def renew(self) -> None:
        """Something came: the time begins again."""
        self._end = time.monotonic() + self._timeout

    def piece(self) -> float:
        """Seconds to wait now."""
        return min(_PIECE_S, max(0.0, self._end - time.monotonic()))

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end


def _dress(method: Any, make: Callable[..., Any]) -> None:
    """Give a method the name, docstring and signature of its request, plus `self`. The request
    itself gets the name, too: Python names it when an argument is missing or unknown."""
    name = make.__name__.strip("_")
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
    method.__module__ = make.__module__ = "quipu"
    method.__doc__ = make.__doc__
    method.__signature__ = signature.replace(
        parameters=[own, *named], return_annotation=_public(signature.return_annotation)
    )


def _public(annotation: str) -> str:
    """Return an annotation's text as users know it: the result of a request."""
    return _REQUEST.sub(r"\1", annotation)


def _now(make: Callable[P, Request[T]]) -> Callable[Concatenate[BaseStore, P], T]:
    """Make a method that runs the call and waits for it."""

    def method(self: BaseStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(make(*args, **kwargs))

    _dress(method, make)
    return method


def _later(
    make: Callable[P, Request[T]],
) -> Callable[Concatenate[BaseStore, P], Coroutine[Any, Any, T]]:
    """Make a coroutine that runs the call outside of the event loop."""

    async def method(self: BaseStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._start(make(*args, **kwargs))

    _dress(method, make)
    return method


def encrypt_store(
    uri: str | os.PathLike[str],
    *,
    key: bytes | Callable[[], bytes] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    passphrase: str | bytes | Callable[[], str | bytes] | None = None,
    passphrase_file: str | os.PathLike[str] | None = None,
    deadline: float | None = None,
) -> None:
    """Encrypt an existing store in a file, with a key in one of the forms that opening it takes. A
    copy takes the file's place in one step; what was plain is overwritten with zeros and deleted.
    No program may have the store open: the call waits for `deadline` seconds, and raises Busy.
    Nothing happens when the store is encrypted with this key; another key raises Invalid."""
    secret = _key.needed(
        "encrypt_store",
        key=key,
        key_file=key_file,
        passphrase=passphrase,
        passphrase_file=passphrase_file,
    )
    given = Given().bytes(os.fsencode(path_of("uri", uri))).bytes(secret.data)
    given.number("passphrase", secret.is_passphrase)
    given.struct(lib.QPY_OPEN_OPTIONS, deadline=deadline)
    _one_sqlite.before(os.fsdecode(path_of("uri", uri)))
    _call.run_alone(lib.QPY_ENCRYPT, given.texts, given.numbers)


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
        key: bytes | Callable[[], bytes] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        passphrase: str | bytes | Callable[[], str | bytes] | None = None,
        passphrase_file: str | os.PathLike[str] | None = None,
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
        key           of an encrypted store, which a new file becomes: 32 bytes, or a function that
                      returns them. Or key_file: a file with them, or with 64 hexadecimal digits,
                      that nobody else may read
        passphrase    from which scrypt derives the key, or a function that returns it. Or
                      passphrase_file
        adk_rebase    ADK: a stale session appends behind the others' events instead of failing
        adk_by_time   ADK: events by their time stamps, not in the order of their appends
        """
        self._uri = os.fsdecode(path_of("uri", uri))
        secret = _key.secret_of(key, key_file, passphrase, passphrase_file)
        given = Given().bytes(os.fsencode(self._uri)).bytes(secret.data)
        given.number("passphrase", secret.is_passphrase)
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
        _one_sqlite.before(self._uri)
        self._handle = _call.open_store(given.texts, given.numbers)
        _one_sqlite.after(self._uri, self._handle)

    def __repr__(self) -> str:
        where = _PASSWORD.sub(r"\1:***@", self._uri)
        return f"<quipu.{type(self).__name__} {where!r}{', closed' if self._handle.closed else ''}>"

    def _run(self, request: Request[T]) -> T:
        given = request.given
        with self._handle.lock if request.lasts else contextlib.nullcontext():
            answer = _call.run(request.op, self._handle, given.texts, given.numbers, request.target)
            if request.lasts:
                self._handle.keep(request.kept)
        return request.read(Reader(answer.texts, answer.numbers))

    async def _start(self, request: Request[T]) -> T:
        if request.lasts:
            return self._run(request)  # it starts a thread and does not wait
        given = request.given
        answer = await _call.start(request.op, self._handle, given.texts, given.numbers)
        return request.read(Reader(answer.texts, answer.numbers))

    # ---- what takes files and other stores -------------------------------------------------------

    def _export(self, to: _files.Path | IO[bytes], **options: Any) -> Transfer:
        with _files.target("to", to) as fd:
            given = Given().number("to", fd).struct(lib.QPY_EXPORT_OPTIONS, **options)
            return self._run(Request(lib.QPY_EXPORT, given, _results.transfer_of))

    def _import(self, source: _files.Path | IO[bytes], must_be_new: bool) -> Transfer:
        with _files.source("source", source) as fd:
            given = Given().number("source", fd)
            given.struct(lib.QPY_IMPORT_OPTIONS, must_be_new=must_be_new)
            return self._run(Request(lib.QPY_IMPORT, given, _results.transfer_of))

    def _compare(self, known: _files.Path | IO[bytes]) -> Compared:
        with _files.source("known", known) as fd:
            given = Given().number("known", fd)
            return self._run(Request(lib.QPY_VERIFY_AGAINST, given, _results.compared_of))

    def _copy(self, target: BaseStore) -> Copied:
        if not isinstance(target, BaseStore):
            raise TypeError(f"target must be a Store or an AsyncStore, not {type(target).__name__}")
        return self._run(Request(lib.QPY_COPY, Given(), _results.copied_of, target._handle))

    # ---- tails -----------------------------------------------------------------------------------

    def _tail_next(self, tail: int, seconds: float) -> Request[_types.Batch]:
        given = Given().number("tail", tail).number("timeout", round(seconds * 1000))
        return Request(lib.QPY_TAIL_NEXT, given, _types.batch_of)

    def _tail_close(self, tail: int) -> None:
        with contextlib.suppress(Misuse):  # the store is closed, and with it its tails
            given = Given().number("tail", tail)
            self._run(Request(lib.QPY_TAIL_CLOSE, given, lambda reader: None))

    def _closed(self, error: Cancelled) -> Exception:
        """A wait that was cancelled because the store was closed."""
        return Misuse("the store is closed") if self._handle.closed else error


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
            self._run(_requests.get(key, last=0))
        except (NotFound, Expired):
            return False
        return True

    def export_to(
        self, to: str | os.PathLike[str] | IO[bytes], *, key: str | None = None, flat: bool = False
    ) -> Transfer:
        """Write sessions, state and memories as JSON Lines to a path or a binary file: of the whole
        store, or of session `key` and those that it was forked from. The same store always gives
        the same bytes. A file at the path is replaced when the export is complete. `flat` writes a
        fork with the messages that it shares, as a session of its own."""
        return self._export(to, key=key, flat=flat)

    def heads(self, to: str | os.PathLike[str] | IO[bytes], *, key: str | None = None) -> Transfer:
        """Write the head of each session, a line each, to a path or a binary file. Kept elsewhere,
        verify_against() proves by it later that nothing is lost."""
        return self._export(to, key=key, heads=True)

    def import_from(
        self, source: str | os.PathLike[str] | IO[bytes], *, must_be_new: bool = False
    ) -> Transfer:
        """Read an export from a path or a binary file, one transaction per session. Sessions that
        exist are skipped, so that an import can be repeated; with `must_be_new` they raise
        Exists."""
        return self._import(source, must_be_new)

    def verify_against(self, known: str | os.PathLike[str] | IO[bytes]) -> Compared:
        """Compare the store with what was known of it earlier: a file of heads() or of export_to().
        Problems are part of the result, not exceptions."""
        return self._compare(known)

    def copy(self, target: BaseStore) -> Copied:
        """Copy everything to another store, which must be new or hold the rest of an earlier copy.
        When the call returns, the exports of both stores are equal byte for byte."""
        return self._copy(target)

    def tail(self, key: str, *, after: int = 0, timeout: float | None = None) -> Iterator[Message]:
        """Iterate over the messages of a session from the one behind number `after` on: first those
        that exist, then new ones as they are appended, by this process or another. Ends when none
        came for `timeout` seconds (0: when all that exist were read), else never; raises NotFound
        or Expired when the session goes."""
        return self._messages(_requests.tail_open(key, after), _Patience(timeout))

    def _messages(self, opening: Request[int], patience: _Patience) -> Iterator[Message]:
        tail = self._run(opening)
        try:
            while True:
                batch = self._run(self._tail_next(tail, patience.piece()))
                yield from batch
                if batch:
                    patience.renew()
                elif patience.over():
                    return
        except Cancelled as error:
            raise self._closed(error) from None
        finally:
            self._tail_close(tail)

    def feed(
        self, *, after: str | None = None, from_now: bool = False, timeout: float | None = None
    ) -> Iterator[Change]:
        """Iterate over the changes of all sessions behind the cursor `after`: first those that are
        kept (with `from_now`, none of them), then new ones as they happen. Ends when none came for
        `timeout` seconds, else never. feed_read() has the cursors to continue from later."""
        first = _requests.feed_read(after=after, from_now=from_now)
        return self._changes(first, _Patience(timeout))

    def _changes(self, first: Request[FeedPage], patience: _Patience) -> Iterator[Change]:
        try:
            page = self._run(first)
            while page.changes or not patience.over():
                yield from page.changes
                if page.changes:
                    patience.renew()
                page = self._run(_requests.feed_read(after=page.next, timeout=patience.piece()))
        except Cancelled as error:
            raise self._closed(error) from None

    @contextlib.contextmanager
    def memory_worker(self, key: str | None = None, **options: Any) -> Iterator[None]:
        """Observe what is said while the block runs: memory_start() with these options, and
        memory_stop() at its end."""
        self.memory_start(key, **options)
        try:
            yield
        finally:
            with contextlib.suppress(Misuse):  # the store is closed, which stopped it
                self.memory_stop()

    create = _now(_requests.create)
    get = _now(_requests.get)
    update = _now(_requests.update)
    delete = _now(_requests.delete)
    list = _now(_requests.list_)
    append = _now(_requests.append)
    window = _now(_requests.window)
    search = _now(_requests.search)
    recall = _now(_requests.recall)
    fork = _now(_requests.fork)
    compact = _now(_requests.compact)
    sweep = _now(_requests.sweep)
    backup = _now(_requests.backup)
    rewind = _now(_requests.rewind)
    uncompact = _now(_requests.uncompact)
    prune = _now(_requests.prune)
    state = _now(_requests.state)
    user_state = _now(_requests.user_state)
    set_state = _now(_requests.set_state)
    delete_state = _now(_requests.delete_state)
    memory_save = _now(_requests.memory_save)
    memory_find = _now(_requests.memory_find)
    memory_update = _now(_requests.memory_update)
    memory_delete = _now(_requests.memory_delete)
    memory_run = _now(_requests.memory_run)
    memory_start = _now(_requests.memory_start)
    memory_stop = _now(_requests.memory_stop)
    memory_status = _now(_requests.memory_status)
    change_wait = _now(_requests.change_wait)
    artifact_save = _now(_requests.artifact_save)
    artifact_get = _now(_requests.artifact_get)
    artifacts = _now(_requests.artifacts)
    artifact_delete = _now(_requests.artifact_delete)
    blame = _now(_requests.blame)
    usage = _now(_requests.usage)
    context = _now(_requests.context)
    feed_read = _now(_requests.feed_read)
    index = _now(_requests.index)
    stats = _now(_requests.stats)
    upgrade = _now(_requests.upgrade)
    rekey = _now(_requests.rekey)
    verify = _now(_requests.verify)
    erase = _now(_requests.erase)
    import_source = _now(_requests.import_source)
    model_factor = _now(_requests.model_factor)
    model_factor_learn = _now(_requests.model_factor_learn)


class AsyncStore(BaseStore):
    """A store whose calls are awaited and run on threads of the library: no call blocks the event
    loop. The constructor opens at once, which is short; `open()` is for a file that must first be
    migrated."""

    @classmethod
    async def open(cls, uri: str | os.PathLike[str], **options: Any) -> AsyncStore:
        """Open a store outside of the event loop; options are those of the constructor."""
        return await _call.in_thread(cls, uri, **options)

    async def close(self) -> None:
        """Close the store after running calls have ended."""
        await _call.in_thread(self._handle.close)

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
            await self._start(_requests.get(key, last=0))
        except (NotFound, Expired):
            return False
        return True

    async def export_to(
        self, to: str | os.PathLike[str] | IO[bytes], *, key: str | None = None, flat: bool = False
    ) -> Transfer:
        """Write sessions, state and memories as JSON Lines to a path or a binary file: of the whole
        store, or of session `key` and those that it was forked from. The same store always gives
        the same bytes. A file at the path is replaced when the export is complete. `flat` writes a
        fork with the messages that it shares, as a session of its own."""
        return await _call.in_thread(self._export, to, key=key, flat=flat)

    async def heads(
        self, to: str | os.PathLike[str] | IO[bytes], *, key: str | None = None
    ) -> Transfer:
        """Write the head of each session, a line each, to a path or a binary file. Kept elsewhere,
        verify_against() proves by it later that nothing is lost."""
        return await _call.in_thread(self._export, to, key=key, heads=True)

    async def import_from(
        self, source: str | os.PathLike[str] | IO[bytes], *, must_be_new: bool = False
    ) -> Transfer:
        """Read an export from a path or a binary file, one transaction per session. Sessions that
        exist are skipped, so that an import can be repeated; with `must_be_new` they raise
        Exists."""
        return await _call.in_thread(self._import, source, must_be_new)

    async def verify_against(self, known: str | os.PathLike[str] | IO[bytes]) -> Compared:
        """Compare the store with what was known of it earlier: a file of heads() or of export_to().
        Problems are part of the result, not exceptions."""
        return await _call.in_thread(self._compare, known)

    async def copy(self, target: BaseStore) -> Copied:
        """Copy everything to another store, which must be new or hold the rest of an earlier copy.
        When the call returns, the exports of both stores are equal byte for byte."""
        return await _call.in_thread(self._copy, target)

    def tail(
        self, key: str, *, after: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Message]:
        """Iterate over the messages of a session from the one behind number `after` on: first those
        that exist, then new ones as they are appended, by this process or another. Ends when none
        came for `timeout` seconds (0: when all that exist were read), else never; raises NotFound
        or Expired when the session goes."""
        return self._messages(_requests.tail_open(key, after), _Patience(timeout))

    async def _messages(self, opening: Request[int], patience: _Patience) -> AsyncIterator[Message]:
        tail = await self._start(opening)
        try:
            while True:
                batch = await self._start(self._tail_next(tail, patience.piece()))
                for message in batch:
                    yield message
                if batch:
                    patience.renew()
                elif patience.over():
                    return
        except Cancelled as error:
            raise self._closed(error) from None
        finally:
            self._tail_close(tail)

    def feed(
        self, *, after: str | None = None, from_now: bool = False, timeout: float | None = None
    ) -> AsyncIterator[Change]:
        """Iterate over the changes of all sessions behind the cursor `after`: first those that are
        kept (with `from_now`, none of them), then new ones as they happen. Ends when none came for
        `timeout` seconds, else never. feed_read() has the cursors to continue from later."""
        first = _requests.feed_read(after=after, from_now=from_now)
        return self._changes(first, _Patience(timeout))

    async def _changes(
        self, first: Request[FeedPage], patience: _Patience
    ) -> AsyncIterator[Change]:
        try:
            page = await self._start(first)
            while page.changes or not patience.over():
                for change in page.changes:
                    yield change
                if page.changes:
                    patience.renew()
                page = await self._start(
                    _requests.feed_read(after=page.next, timeout=patience.piece())
                )
        except Cancelled as error:
            raise self._closed(error) from None

    @contextlib.asynccontextmanager
    async def memory_worker(self, key: str | None = None, **options: Any) -> AsyncIterator[None]:
        """Observe what is said while the block runs: memory_start() with these options, and
        memory_stop() at its end."""
        await self.memory_start(key, **options)
        try:
            yield
        finally:
            with contextlib.suppress(Misuse):  # the store is closed, which stopped it
                await self.memory_stop()

    create = _later(_requests.create)
    get = _later(_requests.get)
    update = _later(_requests.update)
    delete = _later(_requests.delete)
    list = _later(_requests.list_)
    append = _later(_requests.append)
    window = _later(_requests.window)
    search = _later(_requests.search)
    recall = _later(_requests.recall)
    fork = _later(_requests.fork)
    compact = _later(_requests.compact)
    sweep = _later(_requests.sweep)
    backup = _later(_requests.backup)
    rewind = _later(_requests.rewind)
    uncompact = _later(_requests.uncompact)
    prune = _later(_requests.prune)
    state = _later(_requests.state)
    user_state = _later(_requests.user_state)
    set_state = _later(_requests.set_state)
    delete_state = _later(_requests.delete_state)
    memory_save = _later(_requests.memory_save)
    memory_find = _later(_requests.memory_find)
    memory_update = _later(_requests.memory_update)
    memory_delete = _later(_requests.memory_delete)
    memory_run = _later(_requests.memory_run)
    memory_start = _later(_requests.memory_start)
    memory_stop = _later(_requests.memory_stop)
    memory_status = _later(_requests.memory_status)
    change_wait = _later(_requests.change_wait)
    artifact_save = _later(_requests.artifact_save)
    artifact_get = _later(_requests.artifact_get)
    artifacts = _later(_requests.artifacts)
    artifact_delete = _later(_requests.artifact_delete)
    blame = _later(_requests.blame)
    usage = _later(_requests.usage)
    context = _later(_requests.context)
    feed_read = _later(_requests.feed_read)
    index = _later(_requests.index)
    stats = _later(_requests.stats)
    upgrade = _later(_requests.upgrade)
    rekey = _later(_requests.rekey)
    verify = _later(_requests.verify)
    erase = _later(_requests.erase)
    import_source = _later(_requests.import_source)
    model_factor = _later(_requests.model_factor)
    model_factor_learn = _later(_requests.model_factor_learn)
