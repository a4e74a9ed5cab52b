"""ADK's events out of JSON, quicker than one by one and equal to what ADK itself would make.

Two thirds of the time that pydantic needs for an event goes into validators in Python that can find
nothing in JSON: one looks for objects of a wrong model, and a text has none; one rewrites the names
`message`, `state`, `route` and `node_path`, which hardly any event has. So they are left out of a
validator of our own where they do nothing. Whatever it refuses goes the ordinary way.
"""

from __future__ import annotations

import json
from typing import Any

from google.adk.events.event import Event
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from ._build import no_collection

_EVENT = TypeAdapter(Event)
_EVENTS = TypeAdapter(list[Event])
_MISMATCH = "_check_field_type_mismatches"  # of google.genai's models: only warns about objects
_SHORTHAND = "_accept_convenience_kwargs"  # of Event: rewrites the names below
_SHORTHANDS = (b'"message":', b'"state":', b'"route":', b'"node_path":')
_FORBIDDEN = "extra_forbidden"


def _without(schema: Any, names: frozenset[str]) -> Any:
    """A core schema without the "before" validators of these names."""
    if isinstance(schema, dict):
        function = schema.get("function")
        if schema.get("type") == "function-before" and isinstance(function, dict):
            if getattr(function.get("function"), "__name__", "") in names:
                return _without(schema["schema"], names)
        return {name: _without(value, names) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_without(value, names) for value in schema]
    return schema


def _make_validator(*names: str) -> Any:
    """A validator of a list of events; ADK's own where this pydantic has other insides."""
    try:
        schema = _without(Event.__pydantic_core_schema__, frozenset(names))
        definitions = schema["definitions"] if schema["type"] == "definitions" else []
        event = schema["schema"] if schema["type"] == "definitions" else schema
        events = {"type": "list", "items_schema": event}
        return SchemaValidator(
            {"type": "definitions", "schema": events, "definitions": definitions},
            None,
            _use_prebuilt=False,  # the models' own validators are those with the functions
        )
    except Exception:
        return _EVENTS


_plain = _make_validator(_MISMATCH, _SHORTHAND)
_shorthand = _make_validator(_MISMATCH)


def read_one(event: Any) -> Event:
    """An event that has members which this version of ADK refuses: they stay in the store, and out
    of the object."""
    while True:
        try:
            return _EVENT.validate_json(json.dumps(event))
        except ValidationError as error:
            refused = [found["loc"] for found in error.errors() if found["type"] == _FORBIDDEN]
            if not refused:
                raise
            for place in refused:
                holder = event
                for step in place[:-1]:
                    holder = holder[step]
                del holder[place[-1]]


def read_events(text: bytes) -> list[Event]:
    """The events of a JSON array, as the library writes it: without space between its tokens."""
    validator = _shorthand if any(name in text for name in _SHORTHANDS) else _plain
    with no_collection(text):
        try:
            events: list[Event] = validator.validate_json(text)
            return events
        except ValidationError:
            return [read_one(event) for event in json.loads(text)]
