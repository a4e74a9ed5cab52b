"""Results of a store beside sessions and messages: memories, prompts, changes, maintenance."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any, Literal

from . import _fields
from ._fields import Memory
from ._native import lib
from ._shapes import Reader
from ._types import Role

MemoryKind = Literal["observation", "reflection"]
Priority = Literal["standing", "high", "medium", "low", "done"]
Topic = Literal[
    "instruction",
    "preference",
    "decision",
    "commitment",
    "question",
    "person",
    "quantity",
    "date",
    "outcome",
    "failure",
]
SourceKind = Literal[
    "auto",
    "adk-database",
    "adk-v0",
    "adk-sqlite",
    "adk-go",
    "lango",
    "llm",
    "openai-agents",
    "langgraph",
]


@dataclass(slots=True)
class MemoryRun:
    """What a run of the observer did; `more`: its time was up before everything was done."""

    more: bool
    sessions: int
    messages: int
    observations: int
    repeats: int
    lost: int
    failed: int
    reflections: int
    condensed: int
    model_calls: int
    embedded: int


@dataclass(slots=True)
class MemoryProgress:
    """How far a session is observed: up to the message `watermark`; the pending ones stand behind
    it, and are due when they have `observe_tokens`. `owner` is the worker that holds the lease.
    What models cost for it is in tokens, and `model_cost` in millionths of a US dollar, without the
    `model_unpriced` questions to models of no known price."""

    session_key: str
    scope: str
    watermark: int
    last_seq: int
    pending_messages: int
    pending_tokens: int
    observe_tokens: int
    generation: int
    observations: int
    reflections: int
    standing_tokens: int
    owner: str
    lease_until: datetime.datetime | None
    fence: int
    tries: int
    next_at: datetime.datetime | None
    last_error: str
    reflect_error: str
    model_calls: int
    model_input: int
    model_output: int
    model_cost: int
    model_unpriced: int


@dataclass(slots=True)
class MemoryStatus:
    """How far sessions are observed; `more`: there are sessions behind the limit."""

    sessions: list[MemoryProgress]
    more: bool


@dataclass(slots=True)
class UsageRow:
    """What answers used: of a session, a model and a day, as far as the call asked for each. Tokens
    are those that providers reported; `cost` is in millionths of a US dollar, without the
    `unpriced` answers of models of no known price."""

    session_key: str
    model: str
    day: datetime.date | None
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    answers: int
    cost: int
    unpriced: int


@dataclass(slots=True)
class UsageReport:
    """What the answers of `sessions` sessions used, and the cursor of the next ones; None at the
    end."""

    rows: list[UsageRow]
    sessions: int
    next: str | None


@dataclass(slots=True)
class StateEntry:
    """A name of state without its prefix, and who set it last: the author of an event, its message
    (0: it was none), and for the scopes "app" and "user" the session."""

    scope: Literal["app", "user", "session"]
    name: str
    value: Any
    set_at: datetime.datetime
    set_by: str
    set_seq: int
    set_in: str


@dataclass(slots=True)
class Artifact(_fields.Artifact):
    """One version of an artifact. `session_key` is "" for one of the user; `hash` is the SHA-256 of
    its bytes, which are in `data` where the call gets one."""

    data: bytes | None


@dataclass(slots=True)
class Part:
    """A part of a prompt: a text, a thought, a tool call with its arguments or a response with its
    result in `json`, or data."""

    kind: Literal["text", "thought", "call", "response", "data"]
    text: str
    id: str
    name: str
    json: Any
    mime: str
    data: bytes
    thought: bool
    redacted: bool
    signature: bytes


@dataclass(slots=True)
class Content:
    """What one side says in a prompt."""

    role: Role
    parts: list[Part]


@dataclass(slots=True)
class Usage:
    """Tokens that a provider reported; -1: it did not."""

    input: int = -1
    output: int = -1
    total: int = -1
    cached: int = -1
    cache_write: int = -1
    thoughts: int = -1


@dataclass(slots=True)
class Context:
    """A prompt. `reason` says why it does not begin with all of the one before, "" when it does;
    `block` is the memory block, the last part of `system`; `tail` new standing lines, the first
    part of the last content. Token counts are estimates, `expected_cached` is in the model's
    tokens."""

    system: list[Part]
    contents: list[Content]
    block: str
    tail: str
    tools: list[dict[str, Any]]
    model: str
    provider: str
    reason: Literal[
        "",
        "first",
        "model",
        "instructions",
        "memory",
        "idle",
        "compaction",
        "window",
        "history",
        "pays",
    ]
    more_before: bool
    exact: bool
    first_seq: int
    last_seq: int
    tokens: int
    block_tokens: int
    shared: int
    expected_cached: int
    reported_input: int
    reported_cached: int
    prefix_hash: bytes
    prompt_hash: bytes


@dataclass(slots=True)
class Change:
    """A change of a session, without any text of it. An append has the messages `first_seq` to
    `last_seq`."""

    kind: Literal["created", "appended", "updated", "deleted", "forked"]
    key: str
    uid: str
    at: datetime.datetime
    revision: int
    first_seq: int
    last_seq: int


@dataclass(slots=True)
class FeedPage:
    """Changes, and the cursor behind them."""

    changes: list[Change]
    next: str


@dataclass(slots=True)
class Transfer:
    """What an export wrote or an import read; `skipped`: sessions that existed already."""

    lines: int
    sessions: int
    messages: int
    states: int
    memories: int
    skipped: int


@dataclass(slots=True)
class Imported:
    """What an import of another program's file stored, or would store."""

    kind: SourceKind
    sessions: int
    messages: int
    states: int
    memories: int
    skipped: int
    orphans: int


@dataclass(slots=True)
class Copied:
    """What a copy holds: lines, size in bytes and hash of the export of either store, counts of
    both, and what this call added."""

    lines: int
    size: int
    sha256: bytes
    sessions: int
    messages: int
    states: int
    memories: int
    added_sessions: int
    added_messages: int
    added_states: int
    added_memories: int
    skipped: int


@dataclass(slots=True)
class Stats:
    """Counts and sizes of a store. `upgrade` says what an upgrade would add to a file that is open
    read-only; "" when nothing."""

    sessions: int
    forks: int
    messages: int
    tokens: int
    largest_messages: int
    largest_key: str
    file_bytes: int
    free_bytes: int
    log_bytes: int
    readers: int
    commits: int
    writes: int
    largest_commit: int
    unindexed: int
    expired: int
    durability_level: int
    engine: str
    checksums: Literal["off", "on", "stale"]
    syncs: int
    jobs_pending: int
    jobs_leased: int
    jobs_failed: int
    upgrade: str


@dataclass(slots=True)
class Problem:
    """Something that is wrong in a store, as a sentence."""

    kind: str
    tenant: str
    session_key: str
    seq: int
    text: str
    repaired: bool


@dataclass(slots=True)
class Verified:
    """What a verification examined, and the problems that it found; `unhashed`: messages that no
    hash chain covers."""

    sessions: int
    messages: int
    repaired: int
    unhashed: int
    problems: list[Problem]


@dataclass(slots=True)
class Compared:
    """What a comparison with earlier heads found. Each session that was known is in one of the
    counts or is a problem."""

    sessions: int
    proved: int
    pruned: int
    unhashed: int
    removed: int
    problems: list[Problem]


@dataclass(slots=True)
class Erasure:
    """A receipt: what was erased, the backups beside the file that may still hold it, and in `kept`
    what else keeps it for a while."""

    sessions: list[str]
    forks: list[str]
    backups: list[str]
    kept: list[str]
    hidden: int
    messages: int
    states: int
    memories: int


@dataclass(slots=True)
class Factor:
    """How many of a model's tokens one estimated token is, in millionths, and from how many reports
    that was learned."""

    ppm: int
    samples: int


@dataclass(slots=True)
class Recalled:
    """A message that may answer a question, or with `memories=True` a memory: then `memory` has
    what it is, its sources and the time that it is about, and number, role, author and event id
    are empty. A higher score is better; it is the sum of what its own words, its neighbours, its
    session and, with an embedder, its meaning are worth."""

    session_key: str
    seq: int
    role: Role | Literal[""]
    author: str
    timestamp: datetime.datetime
    content: str
    event_id: str
    tokens: int
    score: float
    from_words: float
    from_neighbours: float
    from_session: float
    from_vector: float
    memory: Memory | None = None


def recalled_of(reader: Reader) -> list[Recalled]:
    """Decode what was recalled: each hit is followed by a list of the memory that it is."""
    return [
        Recalled(**found, memory=next(iter(memories_of(reader)), None))
        for found in reader.items(lib.QPY_RECALL_HIT)
    ]


def memories_of(reader: Reader) -> list[Memory]:
    """Decode memories."""
    return [Memory(**found) for found in reader.items(lib.QPY_MEMORY)]


def memory_of(reader: Reader) -> Memory:
    """Decode a list of one memory."""
    (memory,) = memories_of(reader)
    return memory


def status_of(reader: Reader) -> MemoryStatus:
    """Decode the progress of sessions, then whether there are more."""
    found = [MemoryProgress(**one) for one in reader.items(lib.QPY_MEMORY_PROGRESS)]
    return MemoryStatus(found, bool(reader.number()))


def _parts(reader: Reader) -> list[Part]:
    return [Part(**part) for part in reader.items(lib.QPY_PART)]


def context_of(reader: Reader) -> Context:
    """Decode a prompt: its members, the system instruction, the contents with their parts."""
    found = reader.struct(lib.QPY_CONTEXT_RESULT)
    found["tools"] = found["tools"] or []
    found["system"] = _parts(reader)
    found["contents"] = [
        Content(parts=_parts(reader), **one) for one in reader.items(lib.QPY_CONTENT)
    ]
    return Context(**found)


def feed_of(reader: Reader) -> FeedPage:
    """Decode changes, then the cursor."""
    changes = [Change(**one) for one in reader.items(lib.QPY_CHANGE)]
    return FeedPage(changes, reader.text() or "")


def used_of(reader: Reader, by_day: bool) -> UsageReport:
    """Read what answers used."""
    rows: list[UsageRow] = []
    for found in reader.items(lib.QPY_USAGE_ROW):
        number = found.pop("day")
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=number) if by_day else None
        rows.append(UsageRow(day=day, **found))
    return UsageReport(rows, reader.number(), reader.text())


def blame_of(reader: Reader) -> list[StateEntry]:
    """Read names of state, each with its value behind it."""
    return [
        StateEntry(value=json.loads(reader.text() or "null"), **found)
        for found in reader.items(lib.QPY_STATE_ENTRY)
    ]


def artifacts_of(reader: Reader) -> list[Artifact]:
    """Read artifacts, each with its bytes behind it."""
    return [Artifact(data=reader.bytes(), **found) for found in reader.items(lib.QPY_ARTIFACT)]


def artifact_of(reader: Reader) -> Artifact:
    """Read a list of one artifact."""
    (found,) = artifacts_of(reader)
    return found


def stats_of(reader: Reader) -> Stats:
    """Decode statistics, then what an upgrade would add."""
    return Stats(**reader.struct(lib.QPY_STATS_RESULT), upgrade=reader.text() or "")


def _problems(reader: Reader) -> list[Problem]:
    return [Problem(**one) for one in reader.items(lib.QPY_PROBLEM)]


def verified_of(reader: Reader) -> Verified:
    """Decode problems, then the counts."""
    problems = _problems(reader)
    return Verified(problems=problems, **reader.struct(lib.QPY_VERIFIED))


def compared_of(reader: Reader) -> Compared:
    """Decode problems, then the counts."""
    problems = _problems(reader)
    return Compared(problems=problems, **reader.struct(lib.QPY_COMPARED))


def erasure_of(reader: Reader) -> Erasure:
    """Decode four lists of texts, then the counts."""
    sessions, forks, backups, kept = (reader.texts() for _ in range(4))
    counts = reader.struct(lib.QPY_ERASURE)
    return Erasure(sessions, forks, backups, kept, **counts)


def transfer_of(reader: Reader) -> Transfer:
    """Decode what an export or an import did."""
    return Transfer(**reader.struct(lib.QPY_TRANSFER))


def copied_of(reader: Reader) -> Copied:
    """Decode what a copy did."""
    return Copied(**reader.struct(lib.QPY_COPIED))
