"""Services for Google's Agent Development Kit, on a quipu store.

`QuipuSessionService` keeps every event as it was appended and detects stale sessions by a revision
counter, not by clocks. `QuipuMemoryService` finds what answers a question, by the store's recall.
`QuipuArtifactService` keeps files with versions beside them.
For `adk web --session_service_uri quipu:///agents.db` a services.yaml in the agents' folder names
them; see docs/python.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ._requires import require

require(__name__, "google-adk", "2.13", "adk")

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory import _utils as memory_utils
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import _session_util
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic_core import to_json
from typing_extensions import override

from . import _call, _errors, _key
from ._adk_artifacts import QuipuArtifactService
from ._adk_events import read_events, read_one
from ._embed import Embedder
from ._native import lib
from ._store import AsyncStore

__all__ = ["QuipuArtifactService", "QuipuMemoryService", "QuipuSessionService"]

_MARKER = "quipu:"
_MEMORY_APP = "quipu-memory:"  # what other session services hand over stands under such an app
_MEMORY_UNKNOWN = "unknown-session"
_MEMORY_ADDED = "added-memories"  # the session of what add_memory() is given
_MEMORY_DELETED = "deleted-memories"  # the session that records what delete_memory() was given
_MEMORY_GONE = "gone:"  # before the id of a deleted memory, in the state of its user
_MEMORY_ENTRY = "quipu_memory"  # among an event's metadata: what an entry has beside its content
_MEMORY_QUERY_MAX = 65536  # bytes of a query that are read
_MEMORY_HITS = 100  # messages that are looked at: some of them were deleted or have no content
_MEMORY_RESULTS = 10  # as many as ADK's own service gives
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


# The options of a URI: how each is read, and what it should be.
_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(("ttl", "deadline"), (float, "seconds")),
    **dict.fromkeys(("max_bytes", "cap_messages", "cap_tokens"), (int, "a whole number")),
    **dict.fromkeys(
        ("read_only", "must_exist", "feed", "adk_rebase", "adk_by_time"),
        (_boolean, "true or false"),
    ),
    **dict.fromkeys(("durability", "search", "tenant"), (str, "a word")),
}


# ---- where a store is ----------------------------------------------------------------------------


def _open(where: str | os.PathLike[str] | AsyncStore | None, options: dict[str, Any]) -> AsyncStore:
    """Return a store by its path, by a URI such as quipu:///agents.db?durability=relaxed, or one
    that is open. As in SQLAlchemy, a URI with three slashes is relative, with four absolute."""
    if isinstance(where, AsyncStore):
        return where
    if where is None:
        raise ValueError("a service needs a path, a quipu:// URI or an open AsyncStore")
    path = os.fspath(where)
    if not path.startswith("quipu:"):
        return AsyncStore(path, **options)
    parts = urlsplit(path)
    name = unquote(parts.path)[1:]
    if not path.startswith("quipu:///") or not name or parts.fragment:
        raise ValueError(
            f"{path}: a file has three slashes (relative) or four (absolute) before its name; "
            "a # in the name is %23"
        )
    given = parse_qsl(parts.query, keep_blank_values=True)
    options.update(_key.of_environment(options))  # an address is logged: it has no key
    for option, value in given:
        if [name for name, _ in given].count(option) > 1:
            raise ValueError(f"{path}: option {option!r} is given more than once")
        options[option] = _read_option(path, option, value)
    return AsyncStore(name, **options)


def _read_option(uri: str, name: str, value: str) -> Any:
    """Return the value of a URI's option. Of a key, not even an error repeats the URI."""
    if name in _key.PLACES:
        raise ValueError(
            f"a URI has no {name}, it is logged: name the key's file in QUIPU_KEY_FILE or "
            "QUIPU_PASSPHRASE_FILE"
        )
    if name not in _OPTIONS:
        raise ValueError(f"{uri}: there is no option {name!r}; those are {', '.join(_OPTIONS)}")
    read, wanted = _OPTIONS[name]
    try:
        return read(value)
    except (KeyError, ValueError):
        raise ValueError(f"{uri}: option {name!r} is {value!r}; give {wanted}") from None


# ---- events and times ----------------------------------------------------------------------------


def _seconds(seconds: int, nanoseconds: int) -> float:
    """Return the float nearest to a time stamp's decimal digits: the one that was stored."""
    if seconds < 0:
        return seconds + nanoseconds / 1e9
    return float(f"{seconds}.{nanoseconds:09d}")


def _instant(timestamp: float) -> tuple[int, int]:
    exact = Decimal(repr(timestamp))
    seconds = int(exact.to_integral_value(rounding="ROUND_FLOOR"))
    return seconds, int((exact - seconds) * 1_000_000_000)


def _write_event(event: Event) -> bytes:
    return event.model_dump_json(exclude_none=True).encode()


def _name(text: str) -> bytes:
    """Return the bytes of an app, a user or a session. Half of a surrogate pair becomes bytes that
    the library refuses: no session has such a name."""
    return text.encode(errors="surrogatepass")


def _check_finite(value: Any, place: str) -> None:
    """Raise for a number that JSON lacks: nan or an infinity, which would come back as None."""
    if isinstance(value, float) and not math.isfinite(value):
        raise _errors.Invalid(
            f"the state's {place} is {value}, and JSON has no such number; store None or a text"
        )
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _check_finite(inner, f"{place}[{name!r}]")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            _check_finite(inner, f"{place}[{index}]")


def _check_state(state: Mapping[str, Any]) -> None:
    for name, value in state.items():
        if not name.startswith(State.TEMP_PREFIX):
            _check_finite(value, repr(name))


# ---- sessions ------------------------------------------------------------------------------------


class QuipuSessionService(BaseSessionService):
    """ADK's sessions in a quipu store."""

    def __init__(
        self,
        uri: str | os.PathLike[str] | AsyncStore | None = None,
        *,
        agents_dir: str | None = None,
        **options: Any,
    ) -> None:
        """Open the store at `uri`, or take one that is open. Options are those of quipu.AsyncStore.

        `agents_dir` is passed by ADK's command line. Its server answers 500 to a stale session, so
        `adk_rebase` is then true unless the options or the URI say otherwise.
        """
        self._owned = not isinstance(uri, AsyncStore)
        if agents_dir is not None and self._owned:
            options.setdefault("adk_rebase", True)
        self.store = _open(uri, options)
        self._handle = self.store._handle
        self._turns: dict[int, tuple[asyncio.Lock, int]] = {}
        self._shelves = False  # whether its sessions are a memory service's own

    async def close(self) -> None:
        """Close the store, if this service opened it."""
        if self._owned:
            await self.store.close()

    async def __aenter__(self) -> QuipuSessionService:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _start(
        self, op: int, texts: list[bytes | None], numbers: list[int] | None = None
    ) -> Awaitable[_call.Answer]:
        return _call.start(op, self._handle, texts, numbers)

    @staticmethod
    def _session(app_name: str, user_id: str, answer: _call.Answer) -> Session:
        """Decode a snapshot: texts uid, id, state, events; numbers revision and time."""
        uid, session_id, state, events = answer.texts
        session = Session(
            id=(session_id or b"").decode(),
            app_name=app_name,
            user_id=user_id,
            state=json.loads(state or b"{}"),
            last_update_time=_seconds(answer.numbers[1], answer.numbers[2]),
        )
        if answer.numbers[3] > 0:
            session.events = read_events(events or b"[]")
        session._storage_update_marker = _marker(uid, answer.numbers[0])
        return session

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        kept = {
            name: value
            for name, value in (state or {}).items()
            if not name.startswith(State.TEMP_PREFIX)
        }
        _check_state(kept)
        if app_name.startswith(_MEMORY_APP) and not self._shelves:
            # Its sessions would be the memory of the app whose name follows.
            raise ValueError(f"an app whose name begins with {_MEMORY_APP!r} is the memory's own")
        session_id = (session_id or "").strip() or platform_uuid.new_uuid()
        texts = [_name(app_name), _name(user_id), _name(session_id)]
        first = to_json(_session_util.make_json_safe_state(kept)) if kept else None
        try:
            answer = await self._start(lib.QPY_ADK_CREATE, [*texts, first])
        except _errors.Exists as error:
            raise AlreadyExistsError(f"Session with id {session_id} already exists.") from error
        return self._session(app_name, user_id, answer)

    @override
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        if not session_id.strip():
            return None
        recent, after = None, None
        if config is not None:
            recent, after = config.num_recent_events, config.after_timestamp
        answer = await self._start(
            lib.QPY_ADK_GET,
            [_name(app_name), _name(user_id), _name(session_id)],
            [-1 if recent is None else recent, bool(after), *(_instant(after) if after else ())],
        )
        return self._session(app_name, user_id, answer) if answer.texts else None

    @override
    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        user = None if user_id is None else _name(user_id)
        answer = await self._start(lib.QPY_ADK_LIST, [_name(app_name), user])
        sessions = []
        for row in range(len(answer.texts) // 3):
            owner, session_id, state = answer.texts[3 * row : 3 * row + 3]
            seconds, nanoseconds = answer.numbers[2 * row : 2 * row + 2]
            sessions.append(
                Session(
                    id=(session_id or b"").decode(),
                    app_name=app_name,
                    user_id=(owner or b"").decode(),
                    state=json.loads(state or b"{}"),
                    last_update_time=_seconds(seconds, nanoseconds),
                )
            )
        return ListSessionsResponse(sessions=sessions)

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        if session_id.strip():
            await self._start(
                lib.QPY_ADK_DELETE, [_name(app_name), _name(user_id), _name(session_id)]
            )

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        answer = await self._start(lib.QPY_ADK_USER_STATE, [_name(app_name), _name(user_id)])
        state: dict[str, Any] = json.loads(answer.texts[0] or b"{}")
        return state

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        _check_state(event.actions.state_delta or {})
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        text = _write_event(event)
        async with self._turn(session):
            await self._append(session, event, text)
        return event

    async def _append(self, session: Session, event: Event, text: bytes) -> None:
        """Append while holding the session's lock; the object changes only when the store did."""
        names: list[bytes | None] = [
            _name(session.app_name),
            _name(session.user_id),
            _name(session.id),
        ]
        uid, revision = await self._moment(session, names)
        try:
            answer = await self._start(lib.QPY_ADK_APPEND, [*names, uid.encode(), text], [revision])
        except (_errors.NotFound, _errors.Expired) as error:
            raise SessionNotFoundError(f"Session {session.id} not found.") from error
        except _errors.Conflict as error:
            raise _stale(session) from error
        except _errors.Exists as error:
            raise AlreadyExistsError(
                f"Session {session.id} has an event {event.id} that says something else."
            ) from error
        now, seconds, nanoseconds, repeated = answer.numbers
        if not repeated or now == revision + 1:
            session._storage_update_marker = _marker(answer.texts[0], now)
        if repeated and any(known.id == event.id for known in session.events):
            return
        session.last_update_time = event.timestamp if repeated else _seconds(seconds, nanoseconds)
        self._commit_event_to_session(session, event)

    async def _moment(self, session: Session, names: list[bytes | None]) -> tuple[str, int]:
        """Return the uid and revision of a session object. An object made by hand has the store's,
        unless it is visibly older."""
        moment = _read_marker(session)
        if moment is not None:
            return moment
        answer = await self._start(lib.QPY_ADK_GET, names, [1, 0])
        if not answer.texts:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        stored = self._session(session.app_name, session.user_id, answer)
        newest = stored.events[-1].id if stored.events else None
        known = session.events[-1].id if session.events else None
        if stored.last_update_time > session.last_update_time and newest != known:
            raise _stale(session)
        return (answer.texts[0] or b"").decode(), answer.numbers[0]

    @contextlib.asynccontextmanager
    async def _turn(self, session: Session) -> AsyncIterator[None]:
        """Serialize tasks that share one session object."""
        key = id(session)
        lock, waiting = self._turns.get(key) or (asyncio.Lock(), 0)
        self._turns[key] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns[key]
            if waiting == 1:
                del self._turns[key]
            else:
                self._turns[key] = (lock, waiting - 1)


def _marker(uid: bytes | None, revision: int) -> str:
    """Store uid and revision where ADK's own services store their marker."""
    return f"{_MARKER}{(uid or b'').decode()}:{revision}"


def _read_marker(session: Session) -> tuple[str, int] | None:
    """Return uid and revision of a session object; None when another service made it."""
    marker = session._storage_update_marker or ""
    if not marker.startswith(_MARKER):
        return None
    uid, _, revision = marker.removeprefix(_MARKER).partition(":")
    return uid, int(revision)


def _stale(session: Session) -> StaleSessionError:
    return StaleSessionError(
        f"The session {session.id} has been modified in storage since it was loaded. "
        "Please reload the session before appending more events."
    )


# ---- memory --------------------------------------------------------------------------------------


class QuipuMemoryService(BaseMemoryService):
    """ADK's memory: recall over the messages of a user's sessions.

    Sessions of a QuipuSessionService on the same store are found as they are, at once; nothing is
    copied. Sessions of other services are copied in when they are added.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | AsyncStore | None = None,
        *,
        agents_dir: str | None = None,
        embedder: Embedder | None = None,
        embed_model: str | None = None,
        **options: Any,
    ) -> None:
        """Open the store at `uri`, or take one that is open, as QuipuSessionService does.

        With an embedder queries find what is said in other words, too, as in `store.recall()`. The
        vectors are made by a worker: `store.memory_run(embedder=..., embed_model=...)`.
        """
        if (embedder is None) != (embed_model is None):
            raise ValueError("embedder and embed_model belong together: give both or none")
        self._sessions = QuipuSessionService(uri, agents_dir=agents_dir, **options)
        self._sessions._shelves = True
        self.store = self._sessions.store
        self._meaning: dict[str, Any] = {}
        if embedder is not None:
            self._meaning = {"embedder": embedder, "embed_model": embed_model}

    async def close(self) -> None:
        """Close the store, if this service opened it."""
        await self._sessions.close()

    async def __aenter__(self) -> QuipuMemoryService:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        stored = await self._sessions.get_session(
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.id,
            config=GetSessionConfig(num_recent_events=0),
        )
        given, found = _read_marker(session), _read_marker(stored) if stored else None
        if given is not None and found is not None and given[0] == found[0]:
            return
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        gone = await self._gone(app_name, user_id)
        kept = [
            # A copy: appending removes temp: names from an event's delta.
            event.model_copy(deep=True)
            for event in events
            if event.content and event.content.parts and event.id not in gone
        ]
        await self._put(app_name, user_id, session_id or _MEMORY_UNKNOWN, kept)

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        gone = await self._gone(app_name, user_id)
        events = []
        for memory in memories:
            beside = memory.model_dump(mode="json", exclude={"content", "id"})
            event = Event(
                id=memory.id or "",
                author=memory.author or _MEMORY_ENTRY,
                content=memory.content.model_copy(deep=True),
                custom_metadata={_MEMORY_ENTRY: beside},
            )
            if event.id not in gone:
                events.append(event)
        await self._put(app_name, user_id, _MEMORY_ADDED, events)

    @override
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Remove a memory from every search permanently, and prevent adding it again. The message
        stays in its conversation."""
        if memory_id:
            delta = {State.USER_PREFIX + _MEMORY_GONE + memory_id: True}
            event = Event(author=_MEMORY_ENTRY, actions=EventActions(state_delta=delta))
            await self._put(app_name, user_id, _MEMORY_DELETED, [event])

    async def _gone(self, app_name: str, user_id: str) -> set[str]:
        """Return the ids of deleted memories."""
        state = await self._sessions.get_user_state(
            app_name=_MEMORY_APP + app_name, user_id=user_id
        )
        return {
            name.removeprefix(_MEMORY_GONE) for name in state if name.startswith(_MEMORY_GONE)
        }

    async def _put(
        self, app_name: str, user_id: str, session_id: str, events: list[Event]
    ) -> None:
        """Append events to a session of the memory's own."""
        session = None
        while events:
            if session is None:
                session = await self._shelf(_MEMORY_APP + app_name, user_id, session_id)
            try:
                await self._sessions.append_event(session, events[0])
            except StaleSessionError:
                session = None  # somebody else adds too: read again and go on
                continue
            except AlreadyExistsError:
                pass  # the first word stands
            events.pop(0)

    async def _shelf(self, app_name: str, user_id: str, session_id: str) -> Session:
        """Return the memory's session for the events of another one, created when it is missing."""
        service = self._sessions
        none = GetSessionConfig(num_recent_events=0)
        while True:
            session = await service.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=none
            )
            if session is not None:
                return session
            with contextlib.suppress(AlreadyExistsError):
                return await service.create_session(
                    app_name=app_name, user_id=user_id, session_id=session_id
                )

    @override
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        # Any text is a question: half of a surrogate pair and NUL, which an embedder does not take,
        # stand between words, like a sign.
        words = query.replace("\0", " ").encode(errors="replace")[:_MEMORY_QUERY_MAX]
        question = words.decode(errors="ignore")
        # What other services hand over is a scope of its own; scores of both have one scale. A
        # message is a memory by its own words or meaning, not by those of its neighbours.
        found = [
            hit
            for app in (app_name, _MEMORY_APP + app_name)
            for hit in await self.store.recall(
                question, app_name=app, user_id=user_id, limit=_MEMORY_HITS, **self._meaning
            )
            if hit.from_words > 0 or hit.from_vector > 0
        ]
        found.sort(key=lambda hit: hit.score, reverse=True)
        gone = await self._gone(app_name, user_id) if found else set()
        memories: dict[str, MemoryEntry] = {}
        for hit in found:
            if len(memories) == _MEMORY_RESULTS:
                break
            entry = await self._entry(hit.session_key, hit.seq)
            if entry is not None and entry.id not in gone:
                memories.setdefault(entry.id or "", entry)
        return SearchMemoryResponse(memories=list(memories.values()))

    async def _entry(self, key: str, seq: int) -> MemoryEntry | None:
        """Return the event of a hit; None when it was deleted, or is not an event."""
        try:
            answer = await _call.start(lib.QPY_ADK_EVENT, self.store._handle, [key.encode()], [seq])
        except (_errors.NotFound, _errors.Expired):
            return None
        if not answer.texts:
            return None
        event = read_one(json.loads(answer.texts[0] or b"{}"))
        if not event.content or not event.content.parts:
            return None
        beside = (event.custom_metadata or {}).get(_MEMORY_ENTRY)
        if beside is not None:
            return MemoryEntry(id=event.id, content=event.content, **beside)
        return MemoryEntry(
            id=event.id,
            content=event.content,
            author=event.author,
            timestamp=memory_utils.format_timestamp(event.timestamp),
            custom_metadata={"session_id": answer.text(1)},
        )
