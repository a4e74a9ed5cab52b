"""The calls of tests/vectors/calls.json, which other languages make as well."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
from typing import Any

import pytest

import quipu
from conftest import ROOT

VECTORS = json.loads((ROOT / "tests" / "vectors" / "calls.json").read_text(encoding="utf-8"))
TIMES = {"after", "before"}  # of a search


def spelled(value: Any) -> Any:
    """A value of the file: {"repeat": [what, n]} stands for a long text or list."""
    if isinstance(value, dict) and value.keys() == {"repeat"}:
        what, times = value["repeat"]
        return what * times if isinstance(what, str) else [what] * times
    if isinstance(value, dict):
        return {name: spelled(one) for name, one in value.items()}
    return [spelled(one) for one in value] if isinstance(value, list) else value


def snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)


def camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def time_of(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def message(given: dict[str, Any]) -> quipu.Message:
    made = {snake(name): value for name, value in given.items()}
    if "timestamp" in made:
        made["timestamp"] = time_of(made["timestamp"])
    made["tool_calls"] = [
        quipu.ToolCall(**{snake(name): value for name, value in call.items()})
        for call in made.get("tool_calls", ())
    ]
    return quipu.Message(**made)


def call(store: quipu.Store, step: dict[str, Any]) -> Any:
    """One step, by the method and the names that a user of Python has."""
    positional = VECTORS["parameters"][step["call"]]
    options = {
        snake(name): value
        for name, value in step.items()
        if name not in ("call", "returns", "is", "fails", *positional)
    }
    given = [step[name] for name in positional]
    if step["call"] == "append":
        given[1] = [message(one) for one in given[1]]
    if step["call"] == "search":
        for name in TIMES & options.keys():
            options[name] = time_of(options[name])
    if "settings" in options:
        options["settings"] = {snake(name): one for name, one in options["settings"].items()}
    return getattr(store, snake(step["call"]))(*given, **options)


def plain(value: Any) -> Any:
    """A result with the names of the file. What is in `extra` and state is as it is."""
    if isinstance(value, quipu.Page):
        return {"sessions": plain(value.sessions), "more": value.next is not None}
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
        return {camel(name): plain(getattr(value, name)) for name in names}
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return [plain(one) for one in value] if isinstance(value, list) else value


def number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def compare(where: str, got: Any, want: Any, *, whole: bool) -> None:
    """The members that the file names have its values; `whole`: there are no others."""
    if isinstance(want, dict):
        assert isinstance(got, dict), where
        inner = whole or where.endswith((".extra", ".metadata"))
        assert not inner or got.keys() == want.keys(), where
        for name, one in want.items():
            compare(f"{where}.{name}", got.get(name), one, whole=inner)
    elif isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{where}: {got}"
        for index, one in enumerate(want):
            compare(f"{where}[{index}]", got[index], one, whole=whole)
    elif number(want):
        same_sign = math.copysign(1, got) == math.copysign(1, want) if number(got) else False
        assert got == want and same_sign, f"{where} is {got!r}, not {want!r}"
    else:
        assert got is want if want is None else (type(got), got) == (type(want), want), (
            f"{where} is {got!r}, not {want!r}"
        )


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_calls_do_what_they_do_in_other_languages(store: quipu.Store, case: dict[str, Any]) -> None:
    for index, written in enumerate(case["steps"]):
        step = spelled(written)
        where = f"step {index}, {step['call']}"
        if "fails" not in step:
            got = plain(call(store, step))
            if "returns" in step:
                compare(where, got, step["returns"], whole=False)
            if "is" in step:
                compare(where, got, step["is"], whole=True)
            continue
        with pytest.raises(quipu.QuipuError) as raised:
            call(store, step)
        name = {"InputOutput": "Io"}.get(raised.type.__name__, raised.type.__name__)
        assert snake(name)[1:].upper() == step["fails"]["code"], f"{where}: {raised.value}"
        assert str(raised.value) == step["fails"].get("message", str(raised.value)), where
