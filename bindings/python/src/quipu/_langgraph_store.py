"""LangGraph's long-term memory: an item is a session, its value the session's metadata, and what
can be searched of it the session's message."""

from __future__ import annotations

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

from . import _requests, _rows
from ._native import lib
from ._steps import LOST, Ask, Step, adrive, drive, drop
from ._store import AsyncStore, Store

if TYPE_CHECKING:
    from langgraph.store.base import Op, Result

    from ._fields import Session

_PAGE = 1000
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


def _fits(value: dict[str, Any], filter: dict[str, Any] | None) -> bool:
    for name, wanted in (filter or {}).items():
        found = value.get(name)
        orders = isinstance(wanted, dict) and any(key.startswith("$") for key in wanted)
        for sign, one in wanted.items() if orders else (("$eq", wanted),):
            if sign not in _ORDER:
                raise ValueError(f"unsupported operator {sign!r} in the filter of {name!r}")
            if found is None and sign not in ("$eq", "$ne") or not _ORDER[sign](found, one):
                return False
    return True


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
            try:
                texts: list[bytes | None] = [key.encode(), *made.texts(), *names, metadata]
                answer = yield Ask(lib.QPY_ROWS_ADD, texts, [revision])
            except LOST:
                continue  # somebody else was first
            break
        if revision != _rows.NEW:  # what was said before leaves the file
            yield from drop(key, "(replaced)", up_to=answer.numbers[1] - 2)

    def _all(self) -> Step[dict[str, Item]]:
        """All items, by the keys of their sessions, the one that changed last first."""
        found: dict[str, Item] = {}
        after: str | None = None
        while True:
            page = yield _requests.list_(app_name=self._app, after=after, limit=_PAGE)
            for one in page.sessions:
                item = self._item(one)
                if item is not None:
                    found[one.key] = item
            after = page.next
            if not after:
                return found

    def _search(self, op: SearchOp) -> Step[list[SearchItem]]:
        prefix = tuple(op.namespace_prefix)
        items = yield from self._all()
        fitting = {
            key: item
            for key, item in items.items()
            if item.namespace[: len(prefix)] == prefix and _fits(item.value, op.filter)
        }
        scores: dict[str, float | None] = dict.fromkeys(fitting)
        if op.query:
            hits = yield _requests.recall(op.query, app_name=self._app, limit=_HITS)
            scores = {}
            for hit in hits:
                if hit.session_key in fitting and hit.content != "(replaced)":
                    scores.setdefault(hit.session_key, hit.score)
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

    def _namespaces(self, op: ListNamespacesOp) -> Step[list[tuple[str, ...]]]:
        items = yield from self._all()
        found = {
            item.namespace
            for item in items.values()
            if all(_matches(item.namespace, one) for one in op.match_conditions or ())
        }
        if op.max_depth is not None:
            found = {one[: op.max_depth] for one in found}
        return sorted(found)[op.offset : op.offset + op.limit]
