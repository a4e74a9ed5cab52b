"""LangGraph's long-term memory: an item is a session, its value the session's metadata, and what
can be searched of it the session's message. The item's namespace is the session's user. Sessions of
another app say which namespaces there are: one without messages for each namespace under each of
its prefixes, which is the user, so that a search reads what its prefix has and nothing else:

    app              user     id
    langgraph_store  me/a     k      the item ("me", "a") k
    ....namespaces   me       me/a   below ("me",) is ("me", "a")
    ....namespaces   me/a     me/a   below ("me", "a") is itself; made last, so that it says all
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from . import _pages, _requests, _rows
from ._native import lib
from ._steps import LOST, Ask, Step, adrive, drive, drop
from ._store import AsyncStore, Store

if TYPE_CHECKING:
    from langgraph.store.base import Op, Result

    from ._fields import Session

_LISTED_MAX = 10_000  # namespaces that are remembered
_HITS = 1000  # messages that a question is answered with, before they are filtered
_SYSTEM = 6
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda one, other: float(one) > float(other),
    "$gte": lambda one, other: float(one) >= float(other),
    "$lt": lambda one, other: float(one) < float(other),
    "$lte": lambda one, other: float(one) <= float(other),
    "$eq": lambda one, other: one == other,
    "$ne": lambda one, other: one != other,
}


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def _plain(text: str) -> str:
    return text.replace("%2F", "/").replace("%25", "%")


def _texts(value: Mapping[str, Any], index: Any) -> str:
    """What of a value can be searched: everything, some fields, or with False nothing."""
    if index is False:
        return ""
    paths = ["$"] if index is None else index
    found = [
        text
        for path in paths
        for text in get_text_at_path(value, path if path == "$" else tokenize_path(path))
    ]
    return "\n".join(found)


def _fits(found: Any, wanted: Any) -> bool:
    """Whether a value is what a filter wants: of an object the members that the filter names."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_in_order(found, sign, one) for sign, one in wanted.items())
        return isinstance(found, dict) and all(
            _fits(found.get(name), one) for name, one in wanted.items()
        )
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(found, (list, tuple))
            and len(found) == len(wanted)
            and all(map(_fits, found, wanted))
        )
    return bool(found == wanted)


def _in_order(found: Any, sign: str, other: Any) -> bool:
    if sign not in _ORDER:
        raise ValueError(f"unsupported operator {sign!r} in a filter; give one of {[*_ORDER]}")
    return not (found is None and sign not in ("$eq", "$ne")) and _ORDER[sign](found, other)


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    part = namespace[: len(path)]
    if condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    return len(namespace) >= len(path) and all(
        wanted in ("*", found) for found, wanted in zip(part, path, strict=True)
    )


class QuipuStore(BaseStore):
    """A `BaseStore`. A search with a query is a recall: the items that answer it, best first; any
    words in any form, without an embedding. Processes can share a file."""

    def __init__(
        self,
        store: Store | AsyncStore | str | os.PathLike[str],
        *,
        app_name: str = "langgraph_store",
    ) -> None:
        """On a store, or on the store at a path."""
        self._owned = not isinstance(store, (Store, AsyncStore))
        self.store = store if isinstance(store, (Store, AsyncStore)) else Store(store)
        self._app = app_name
        self._names_app = f"{app_name}.namespaces"
        self._listed: dict[str, None] = {}  # namespaces that are known to be listed, by their users
        self._is_listed = False  # that all of them are

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._owned:
            self.store._handle.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: those that read see what was before those that write."""
        return drive(self.store, self._batch([*ops]))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As batch()."""
        return await adrive(self.store, self._batch([*ops]))

    def _batch(self, ops: list[Op]) -> Step[list[Result]]:
        results: list[Result] = []
        for op in ops:
            if isinstance(op, GetOp):
                results.append((yield from self._get(op.namespace, op.key)))
            elif isinstance(op, SearchOp):
                results.append((yield from self._search(op)))
            elif isinstance(op, ListNamespacesOp):
                results.append((yield from self._namespaces(op)))
            elif isinstance(op, PutOp):
                results.append(None)
            else:
                raise ValueError(f"unknown operation {type(op).__name__}")
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for op in last.values():
            yield from self._put(op)
        return results

    def _names(self, namespace: tuple[str, ...], key: str) -> tuple[str, str]:
        """The key of an item's session, and its user: the namespace."""
        user = "/".join(map(_quoted, namespace))
        return f"{self._app}:{user}//{_quoted(key)}", user

    @staticmethod
    def _item(session: Session) -> Item | None:
        found = session.metadata or {}
        if "value" not in found:
            return None
        return Item(
            value=found["value"],
            key=session.session_id,
            namespace=tuple(map(_plain, session.user_id.split("/"))),
            created_at=session.created_at,
            updated_at=session.updated_at,
        )

    def _get(self, namespace: tuple[str, ...], key: str) -> Step[Item | None]:
        try:
            found = yield _requests.get(self._names(namespace, key)[0], last=0)
        except LOST:
            return None
        return self._item(found.session)

    def _put(self, op: PutOp) -> Step[None]:
        key, user = self._names(op.namespace, op.key)
        if op.value is None:
            yield _requests.delete(key)
            return
        made = _rows.Rows()
        made.add(_SYSTEM, _rows.encoded(_texts(op.value, op.index)))
        metadata = json.dumps({"value": op.value, "index": op.index}).encode()
        names = [one.encode() for one in (self._app, user, op.key)]
        while True:
            try:
                revision = (yield _requests.get(key, last=0)).session.revision
            except LOST:
                revision = _rows.NEW
            if revision == _rows.NEW:
                yield from self._list(user)
            try:
                texts: list[bytes | None] = [key.encode(), *made.texts(), *names, metadata]
                answer = yield Ask(lib.QPY_ROWS_ADD, texts, [revision, 0, 0])
            except LOST:
                continue  # somebody else was first
            break
        if revision != _rows.NEW:  # what was said before leaves the file
            yield from drop(key, "(replaced)", up_to=answer.numbers[1] - 2)

    def _list(self, user: str) -> Step[None]:
        """List a namespace under each of its prefixes."""
        if user in self._listed:
            return
        parts = user.split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            yield _requests.create(
                f"{self._names_app}:{above}//{_quoted(user)}",
                exist_ok=True,
                app_name=self._names_app,
                user_id=above,
                session_id=user,
            )
        if len(self._listed) >= _LISTED_MAX:
            self._listed.clear()
        self._listed[user] = None

    def _list_all(self) -> Step[None]:
        """List the namespaces of a store that was written before there were lists."""
        mark = f"{self._names_app}:"
        try:
            yield _requests.get(mark, last=0)
        except LOST:
            sessions = yield from _pages.every(self._app)
            for user in {one.user_id for one in sessions}:
                yield from self._list(user)
            yield _requests.create(mark, exist_ok=True, app_name=self._names_app, user_id="")
        self._is_listed = True

    def _users(self, prefix: tuple[str, ...]) -> Step[list[str | None]]:
        """The namespaces that begin with a prefix, as users; None for all."""
        if not prefix:
            return [None]
        if not self._is_listed:
            yield from self._list_all()
        found = yield from _pages.every(self._names_app, "/".join(map(_quoted, prefix)))
        return [one.session_id for one in found]

    def _items(self, users: list[str | None]) -> Step[dict[str, Item]]:
        """The items of namespaces, by the keys of their sessions, the one that changed last
        first."""
        found: dict[str, Item] = {}
        for user in users:
            sessions = yield from _pages.every(self._app, user)
            for one in sessions:
                item = self._item(one)
                if item is not None:
                    found[one.key] = item
        if len(users) > 1:
            found = dict(sorted(found.items(), key=lambda one: one[1].updated_at, reverse=True))
        return found

    def _search(self, op: SearchOp) -> Step[list[SearchItem]]:
        users = yield from self._users(tuple(op.namespace_prefix))
        items = yield from self._items(users)
        fitting = {
            key: item for key, item in items.items() if _fits(item.value, op.filter or {})
        }
        scores: dict[str, float | None] = dict.fromkeys(fitting)
        if op.query:
            scores = yield from self._scores(op.query, users, fitting)
        return [
            SearchItem(
                namespace=fitting[key].namespace,
                key=fitting[key].key,
                value=fitting[key].value,
                created_at=fitting[key].created_at,
                updated_at=fitting[key].updated_at,
                score=score,
            )
            for key, score in [*scores.items()][op.offset : op.offset + op.limit]
        ]

    def _scores(
        self, query: str, users: list[str | None], fitting: dict[str, Item]
    ) -> Step[dict[str, float | None]]:
        """The items that answer a question, best first."""
        hits: list[Any] = []
        for user in users:
            hits += yield _requests.recall(query, app_name=self._app, user_id=user, limit=_HITS)
        scores: dict[str, float | None] = {}
        for hit in sorted(hits, key=lambda one: one.score, reverse=True):
            if hit.session_key in fitting and hit.content != "(replaced)":
                scores.setdefault(hit.session_key, hit.score)
        return scores

    def _namespaces(self, op: ListNamespacesOp) -> Step[list[tuple[str, ...]]]:
        conditions = op.match_conditions or ()
        begins: list[tuple[str, ...]] = [
            tuple(itertools.takewhile(lambda one: one != "*", one.path))
            for one in conditions
            if one.match_type == "prefix"
        ]
        users = yield from self._users(max(begins, key=len, default=()))
        items = yield from self._items(users)
        found = {
            item.namespace
            for item in items.values()
            if all(_matches(item.namespace, one) for one in conditions)
        }
        if op.max_depth is not None:
            found = {one[: op.max_depth] for one in found}
        return sorted(found)[op.offset : op.offset + op.limit]
