"""Calls of the library as jobs: run here, or on threads that never need the interpreter.

An awaited call takes no lock of Python's: the job goes to a C thread, and a byte in a pipe wakes
the event loop when it is done. A call that is done within a moment, while nothing else is, is
answered without that pipe; the loop still turns once in a while. Under trio a call runs on a thread
of trio's instead.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ._errors import Misuse, NoMemory, QuipuError, error_of
from ._native import ffi, lib

_FORKED = (
    "this store was opened before os.fork(): its locks and threads are the parent's. "
    "Open the file again in the child."
)
P = ParamSpec("P")
T = TypeVar("T")

_TURN_S = 0.001  # that a task may go on with calls that are done at once, before others have a turn


class Answer(NamedTuple):
    """The result of a call."""

    texts: list[bytes | None]
    numbers: list[int]

    def text(self, index: int) -> str | None:
        """Return a text, decoded."""
        found = self.texts[index]
        return None if found is None else found.decode()


class Handle:
    """An open store of the C library."""

    __slots__ = ("pointer", "process", "functions", "lock", "__weakref__")

    def __init__(self, pointer: Any) -> None:
        self.pointer = ffi.gc(pointer, lib.qpy_store_free)
        self.process = os.getpid()
        self.functions: Any = None  # that the worker of memory calls back
        self.lock = threading.Lock()  # held while a worker starts

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return bool(lib.qpy_store_is_closed(self.pointer))

    def close(self) -> None:
        """Close it after running calls have ended; a second call does nothing."""
        lib.qpy_store_close(self.pointer)

    def keep(self, functions: Any) -> None:
        """A worker with these functions runs; the one before has ended."""
        self.functions = functions
        if functions is not None:
            _called_back.add(self)


_called_back: weakref.WeakSet[Handle] = weakref.WeakSet()


@atexit.register
def _close_called_back() -> None:
    """A worker that calls back while the interpreter goes away would never come back from it, and
    its store would wait for it."""
    for handle in list(_called_back):
        if handle.process == os.getpid():
            handle.close()


def _make(op: int, handle: Handle | None, texts: Sequence[bytes | None], numbers: list[int]) -> Any:
    lengths = [-1 if text is None else len(text) for text in texts]
    job = lib.qpy_job_new(
        op,
        ffi.NULL if handle is None else handle.pointer,
        b"".join([text for text in texts if text]),
        lengths,
        len(lengths),
        numbers,
        len(numbers),
    )
    if job == ffi.NULL:
        raise NoMemory("out of memory for a call")
    return job


def _failure(job: Any, handle: Handle | None) -> QuipuError:
    message: str = ffi.string(job.why).decode(errors="replace")
    if handle is not None and handle.process != os.getpid() and job.status == Misuse.status:
        message = _FORKED
    return error_of(job.status, message)


def texts_of(job: Any) -> Iterator[bytes | None]:
    """The texts of a finished job, each copied when it is asked for."""
    texts = job.texts
    for index in range(job.text_count):
        text = texts[index]
        yield None if text.p == ffi.NULL else ffi.unpack(text.p, text.n)


def size_of(job: Any) -> int:
    """The bytes of the texts of a finished job."""
    return sum(job.texts[index].n for index in range(job.text_count))


def numbers_of(job: Any) -> list[int]:
    """The numbers of a finished job."""
    found: list[int] = ffi.unpack(job.numbers, job.number_count) if job.number_count else []
    return found


def _read(job: Any) -> Answer:
    return Answer([*texts_of(job)], numbers_of(job))


def open_store(texts: Sequence[bytes | None], numbers: list[int]) -> Handle:
    """Open a store, on this thread."""
    job = _make(lib.QPY_OPEN, None, texts, numbers)
    try:
        lib.qpy_job_run(job)
        if job.status != 0:
            raise _failure(job, None)
        return Handle(job.store)
    finally:
        lib.qpy_job_free(job)


def run_alone(op: int, texts: Sequence[bytes | None], numbers: list[int]) -> None:
    """Run a call that has no store, on this thread."""
    job = _make(op, None, texts, numbers)
    try:
        lib.qpy_job_run(job)
        if job.status != 0:
            raise _failure(job, None)
    finally:
        lib.qpy_job_free(job)


def run(
    op: int,
    handle: Handle,
    texts: Sequence[bytes | None],
    numbers: list[int] | None = None,
    target: Handle | None = None,
) -> Answer:
    """Run a call on this thread, without the GIL. Ctrl-C ends a call that waits; when Python's
    handler for it returns instead of raising, the call begins again."""
    return run_as(_read, op, handle, texts, numbers, target)


def run_as(
    read: Callable[[Any], T],
    op: int,
    handle: Handle,
    texts: Sequence[bytes | None],
    numbers: list[int] | None = None,
    target: Handle | None = None,
) -> T:
    """As run(); returns what `read` makes of the finished job."""
    while True:
        job = _make(op, handle, texts, numbers or [])
        if target is not None:
            lib.qpy_job_set_target(job, target.pointer)
        try:
            if lib.qpy_job_run_here(job):
                continue
            if job.status != 0:
                raise _failure(job, handle)
            return read(job)
        finally:
            lib.qpy_job_end(job)


class _Port:
    """The worker threads of one event loop, and the futures of their calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        pointer = lib.qpy_port_new()
        if pointer == ffi.NULL:
            raise NoMemory("no memory or no file descriptor for the calls of an event loop")
        self._pointer = ffi.gc(pointer, lib.qpy_port_free)
        self._fd: int = lib.qpy_port_fd(pointer)
        # A future keeps its loop alive, which the loop's port must not do. A call that nobody waits
        # for any more keeps its store alone, until it has run.
        self._waiting: dict[
            int, tuple[asyncio.Future[Any] | None, Handle, Callable[[Any], Any]]
        ] = {}
        self._ids = itertools.count(1)
        self._turned = 0.0  # when the loop had its last turn that we know of
        loop.add_reader(self._fd, self._drain)

    def submit(
        self, job: Any, handle: Handle, future: asyncio.Future[T], read: Callable[[Any], T]
    ) -> None:
        job.id = number = next(self._ids)
        self._waiting[number] = (future, handle, read)
        future.add_done_callback(lambda _: self._forget(number))
        taken = lib.qpy_port_submit(self._pointer, job)
        if taken < 0:
            lib.qpy_job_run(job)  # the system has no thread to give
        if taken != 0:
            if time.monotonic() - self._turned < _TURN_S:
                self._finish(job)
            else:
                future.get_loop().call_soon(self._finish_later, job)

    def _forget(self, number: int) -> None:
        """The future of a call is done; when it was cancelled the call goes on."""
        if number in self._waiting:
            self._waiting[number] = (None, *self._waiting[number][1:])

    def _finish_later(self, job: Any) -> None:
        self._turned = time.monotonic()
        self._finish(job)

    def _drain(self) -> None:
        self._turned = time.monotonic()
        job = lib.qpy_port_take(self._pointer)
        while job:
            following = lib.qpy_job_next(job)
            self._finish(job)
            job = following

    def ended(self) -> bool:
        """Whether all calls have run, of a port whose loop is gone."""
        self._drain()
        return not self._waiting

    def _finish(self, job: Any) -> None:
        future, handle, read = self._waiting.pop(job.id)
        try:
            if future is not None and not future.done():
                if job.status == 0:
                    future.set_result(read(job))
                else:
                    future.set_exception(_failure(job, handle))
        except Exception as error:  # of read(), whose caller awaits the future
            if future is not None:
                future.set_exception(error)
        finally:
            lib.qpy_job_end(job)


_ports: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Port] = weakref.WeakKeyDictionary()
_abandoned: list[_Port] = []  # whose loops are gone, maybe before their last calls
_lost: list[_Port] = []


def _port_of(loop: asyncio.AbstractEventLoop) -> _Port:
    """A port for a loop that has none."""
    for one in [*_abandoned]:
        _abandon(one)
    port = _ports[loop] = _Port(loop)
    weakref.finalize(loop, _abandon, port).atexit = False
    return port


def _abandon(port: _Port) -> None:
    """Drop the port of a loop that is gone, or keep it until its last call has run. Any thread may
    collect a loop: ports come and go one by one."""
    with contextlib.suppress(ValueError):
        _abandoned.remove(port)
    if not port.ended():
        _abandoned.append(port)


def _after_fork() -> None:
    """After fork the threads of its parent are missing in the child: forget the old ports."""
    _lost.extend([*_ports.values(), *_abandoned])
    _ports.clear()
    _abandoned.clear()


os.register_at_fork(after_in_child=_after_fork)


def _trio() -> Any:
    """The package trio, when its loop runs the caller; else None."""
    trio: Any = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_run() else None


def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
    """Run a function on a thread, beside the event loop that runs the caller."""
    trio = _trio()
    if trio is None:
        return asyncio.to_thread(call, *args, **kwargs)
    found: Awaitable[T] = trio.to_thread.run_sync(functools.partial(call, *args, **kwargs))
    return found


def start(
    op: int, handle: Handle, texts: Sequence[bytes | None], numbers: list[int] | None = None
) -> Awaitable[Answer]:
    """Run a call outside of the event loop. Cancelling the caller does not stop it."""
    return start_as(_read, op, handle, texts, numbers)


def start_as(
    read: Callable[[Any], T],
    op: int,
    handle: Handle,
    texts: Sequence[bytes | None],
    numbers: list[int] | None = None,
) -> Awaitable[T]:
    """As start(); returns what `read`, called in the event loop, makes of the finished job."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if _trio() is not None:
            return in_thread(run_as, read, op, handle, texts, numbers)
        raise RuntimeError(
            "an AsyncStore is awaited in an event loop of asyncio or trio, and none runs here;"
            " quipu.Store needs none"
        ) from None
    port = _ports.get(loop) or _port_of(loop)
    future: asyncio.Future[T] = loop.create_future()
    port.submit(_make(op, handle, texts, numbers or []), handle, future, read)
    return future
