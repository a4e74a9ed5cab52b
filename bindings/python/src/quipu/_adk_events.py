"""ADK's events from JSON, faster than one by one and equal to what ADK itself would build.

Most of the time that pydantic needs for an event goes into functions in Python that can find
nothing to do in ordinary JSON: one looks for objects of a wrong model, and a text has none; one
rewrites the names `message`, `state`, `route` and `node_path`, which hardly any event has; and a
constructor takes members that are null for members that are not there. So they are left out of a
validator of our own where they do nothing. Whatever it refuses goes the ordinary way.
"""

from __future__ import annotations

import json
import re
from typing import Any

from google.adk.events.event import Event
from google.genai.types import Part
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from ._build import no_collection

_EVENT = TypeAdapter(Event)
_EVENTS = TypeAdapter(list[Event])
_MISMATCH = "_check_field_type_mismatches"  # of google.genai's models: only warns about objects
_SHORTHAND = "_accept_convenience_kwargs"  # of Event: rewrites some names
_FORBIDDEN = "extra_forbidden"
# Those names, and members that are null.
_SPECIAL = re.compile(rb'"(?::null|(?:message|state|route|node_path)":)')


def _without(schema: Any, names: frozenset[str], made_by: frozenset[type]) -> Any:
    """Return a core schema without the "before" validators of these names and without the custom
    constructors of these models."""
    if isinstance(schema, dict):
        function = schema.get("function")
        if schema.get("type") == "function-before" and isinstance(function, dict):
            if getattr(function.get("function"), "__name__", "") in names:
                return _without(schema["schema"], names, made_by)
        made = {name: _without(value, names, made_by) for name, value in schema.items()}
        if schema.get("type") == "model" and schema.get("cls") in made_by:
            made["custom_init"] = False
        return made
    if isinstance(schema, list):
        return [_without(value, names, made_by) for value in schema]
    return schema


def _make_validator(names: set[str], made_by: set[type]) -> Any:
    """Return a validator for a list of events; ADK's own when this pydantic differs."""
    try:
        schema = _without(Event.__pydantic_core_schema__, frozenset(names), frozenset(made_by))
        definitions = schema["definitions"] if schema["type"] == "definitions" else []
        event = schema["schema"] if schema["type"] == "definitions" else schema
        events = {"type": "list", "items_schema": event}
        made: Any = {"type": "definitions", "schema": events, "definitions": definitions}
        return SchemaValidator(
            made,
            None,
            _use_prebuilt=False,  # the models' own validators are those with the functions
        )
    except Exception:
        return _EVENTS


_plain = _make_validator({_MISMATCH, _SHORTHAND}, {Part})
_special = _make_validator({_MISMATCH}, set())


def read_one(event: Any) -> Event:
    """Build an event with members that this version of ADK rejects: they stay in the store and are
    left out of the object."""
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
    """Build the events of a JSON array as the library writes it, without white space."""
    validator = _special if _SPECIAL.search(text) else _plain
    with no_collection(len(text)):
        try:
            events: list[Event] = validator.validate_json(text)
            return events
        except ValidationError:
            return [read_one(event) for event in json.loads(text)]
