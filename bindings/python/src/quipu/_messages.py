"""Messages in the forms in which programs have them: texts, dicts, objects of other packages."""

from __future__ import annotations

import array
import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from ._shapes import json_of
from ._types import ROLES, Message, ToolCall

_OWN = {one.name for one in dataclasses.fields(Message)} - {"role", "content", "tool_calls"}
_OWN_CALL = {one.name for one in dataclasses.fields(ToolCall)}
_ACCEPTED = "a Message or a dict with 'role' and 'content'"


def _text_of_parts(where: str, parts: list[Any]) -> str:
    """The texts of a content that is a list of parts, for readers and for search."""
    texts: list[str] = []
    for number, part in enumerate(parts):
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, Mapping):
            raise TypeError(
                f"{where}['content'][{number}] must be a dict or a str, not {type(part).__name__}"
            )
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "\n".join(texts)


def _call_of(where: str, found: Any) -> ToolCall:
    """A tool call: ours, or a dict in our form or in OpenAI's."""
    if isinstance(found, ToolCall):
        return found
    if not isinstance(found, Mapping):
        raise TypeError(f"{where} must be a ToolCall or a dict, not {type(found).__name__}")
    function = found.get("function", found.get("custom"))
    if isinstance(function, Mapping):
        given = function.get("arguments", function.get("input"))
        return ToolCall(
            name=function.get("name") or "", id=found.get("id") or "", input=_as_text(where, given)
        )
    unknown = found.keys() - _OWN_CALL
    if unknown:
        raise ValueError(f"{where} has no member {min(unknown)!r}; give 'id' and 'function'")
    return ToolCall(**found)


def _as_text(where: str, value: Any) -> str:
    """Arguments as the text that providers send; a dict becomes JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_of(where, value).decode()


def _calls_of(where: str, found: Mapping[str, Any], text: str) -> list[ToolCall]:
    """The tool calls of a dict, or the one that it answers."""
    given = found.get("tool_calls") or ()
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{where}['tool_calls'] must be a list, not {type(given).__name__}")
    calls = [_call_of(f"{where}['tool_calls'][{n}]", call) for n, call in enumerate(given)]
    if found.get("function_call"):
        calls.append(_call_of(f"{where}['function_call']", {"function": found["function_call"]}))
    if found["role"] in ("tool", "function") and not calls:
        name, id = found.get("name") or "", found.get("tool_call_id") or ""
        calls = [ToolCall(name=name, id=id, output=text)] if name or id else []
    return calls


def _from_dict(where: str, found: Mapping[str, Any]) -> Message:
    """A message out of a dict. What a message has no member for goes to `extra`, unchanged."""
    role, content = found.get("role"), found.get("content")
    if not isinstance(role, str):
        accepted = ", ".join(repr(one) for one in ROLES)
        raise TypeError(f"{where}['role'] must be one of {accepted}, not {type(role).__name__}")
    given = found.get("extra") or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{where}['extra'] must be a dict, not {type(given).__name__}")
    extra = dict(given)
    if isinstance(content, list):
        text = _text_of_parts(where, content)
        extra["content"] = content
    elif content is None or isinstance(content, str):
        text = content or ""
    else:
        raise TypeError(
            f"{where}['content'] must be a str or a list of parts, not {type(content).__name__}"
        )
    calls = _calls_of(where, found, text)
    own = {name: found[name] for name in _OWN & found.keys() if name != "extra"}
    used = _OWN | {"role", "content", "tool_calls", "function_call", "tool_call_id"}
    if role in ("tool", "function"):
        used |= {"name"}
    elif isinstance(found.get("name"), str) and "author" not in own:
        own["author"] = found["name"]
        used |= {"name"}
    extra.update({name: found[name] for name in found.keys() - used if found[name] is not None})
    if role == "developer":
        role, extra["role"] = "system", role
    known: Any = role  # the library checks it
    return Message(known, text, tool_calls=calls, extra=extra or None, **own)


def _message_of(where: str, value: Any) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, Mapping):
        return _from_dict(where, value)
    dump = getattr(value, "model_dump", None)  # pydantic's, such as openai's ChatCompletionMessage
    if callable(dump):
        found: Any = dump(exclude_none=True)
        return _from_dict(where, found)
    raise TypeError(f"{where} must be {_ACCEPTED}, not {type(value).__name__}")


def messages_of(value: object) -> list[Message]:
    """What `append` takes, as messages. A text is what the user said."""
    if isinstance(value, str):
        return [Message("user", value)]
    if isinstance(value, (Message, Mapping)) or hasattr(value, "model_dump"):
        return [_message_of("messages", value)]
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise TypeError(
            f"messages must be a str, {_ACCEPTED}, or an iterable of these two, "
            f"not {type(value).__name__}"
        )
    return [_message_of(f"messages[{number}]", one) for number, one in enumerate(value)]


def _time_text(where: str, value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).isoformat()
    if not isinstance(value, str):
        raise TypeError(f"{where}.timestamp must be a datetime, not {type(value).__name__}")
    return value  # RFC 3339, which the library reads


def _call_json(call: ToolCall) -> dict[str, Any]:
    made: dict[str, Any] = {"id": call.id, "name": call.name, "input": call.input}
    if call.output is not None:
        made["output"] = call.output
    if call.thought:
        made["thought"] = True
    if call.thought_signature is not None:
        made["thoughtSignature"] = call.thought_signature
    return made


def _json(where: str, message: Message) -> bytes:
    """A message as quipu_message_parse() reads it."""
    made: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.timestamp is not None:
        made["timestamp"] = _time_text(where, message.timestamp)
    if message.tool_calls:
        made["toolCalls"] = [
            _call_json(_call_of(f"{where}.tool_calls[{number}]", call))
            for number, call in enumerate(message.tool_calls)
        ]
    for name, value in (
        ("author", message.author),
        ("eventId", message.event_id),
        ("invocationId", message.invocation_id),
        ("branch", message.branch),
        ("mark", message.mark),
        ("model", message.model),
        ("promptTokens", message.prompt_tokens),
        ("cachedTokens", message.cached_tokens),
        ("answerTokens", message.answer_tokens),
    ):
        if value:
            made[name] = value
    if message.extra is not None:
        made["extra"] = message.extra
    return json_of(where, made)


def packed(value: object) -> tuple[bytes, bytes]:
    """Messages as the native layer takes them: their lengths, and their JSON end to end."""
    texts = [_json(f"messages[{number}]", one) for number, one in enumerate(messages_of(value))]
    return array.array("q", map(len, texts)).tobytes(), b"".join(texts)


def _openai_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.input or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages as dicts of OpenAI's chat API, such as `append` takes: for the next request.
    A message with answers to several tool calls becomes a dict for each."""
    made: list[dict[str, Any]] = []
    for message in messages:
        extra = message.extra or {}
        content = extra["content"] if isinstance(extra.get("content"), list) else message.content
        answers = [call for call in message.tool_calls if call.output is not None]
        calls = [_openai_call(call) for call in message.tool_calls if call.output is None]
        for call in answers:
            text = content if len(answers) == 1 and content else call.output
            made.append({"role": "tool", "tool_call_id": call.id, "content": text})
        if calls or not answers:
            role = {"model": "assistant", "function": "tool"}.get(message.role, message.role)
            one: dict[str, Any] = {"role": extra.get("role", role), "content": content}
            if calls:
                one["tool_calls"] = calls
            made.append(one)
    return made
