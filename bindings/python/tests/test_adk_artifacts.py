"""ADK's artifact service: ours does what ADK's own in memory does, request by request."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from quipu import AsyncStore
from quipu.adk import QuipuArtifactService, QuipuSessionService

WHOSE = {"app_name": "app", "user_id": "u"}
REFERENCE = "artifact://apps/app/users/u/sessions/s/artifacts/a.bin/versions/0"


@pytest.fixture
async def service(tmp_path: pathlib.Path) -> AsyncIterator[QuipuArtifactService]:
    async with QuipuArtifactService(tmp_path / "artifacts.db") as made:
        yield made


def blob(data: bytes, mime: str | None = "a/b") -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime))


async def asked(service: BaseArtifactService, name: str, **more: Any) -> Any:
    """The answer of a method, comparable: an error by its type, versions without time and place."""
    try:
        got = await getattr(service, name)(**WHOSE, **more)
    except (InputValidationError, ValueError) as error:
        return type(error)
    found = got if isinstance(got, list) else [got]
    plain = [
        (one.version, one.custom_metadata, one.mime_type) if hasattr(one, "canonical_uri") else one
        for one in found
    ]
    return plain if isinstance(got, list) else plain[0]


async def test_it_answers_as_adks_own(service: QuipuArtifactService) -> None:
    other = InMemoryArtifactService()
    steps: list[tuple[str, dict[str, Any]]] = []
    for name, part, metadata in (
        ("a.bin", blob(b"\x00\xff"), None),
        ("a.bin", blob(b"", "x/y"), {"n": [1]}),
        ("z", types.Part(text="t\u00fcxt"), {}),
        ("user:mine", types.Part(text=""), None),
        ("uri", types.Part(file_data=types.FileData(file_uri="gs://b/x", mime_type="a/b")), None),
        ("gone", blob(b"", "application/octet-stream"), None),
        ("ref", types.Part(file_data=types.FileData(file_uri=REFERENCE)), None),
        ("dict", {"inlineData": {"data": "aGk=", "mimeType": "a/b"}}, None),
        ("none", types.Part(), None),
    ):
        for session in ("s", None):
            more = {"filename": name, "artifact": part, "custom_metadata": metadata}
            steps.append(("save_artifact", {**more, "session_id": session}))
    for session in ("s", "t", None):
        steps.append(("list_artifact_keys", {"session_id": session}))
        for name in ("a.bin", "z", "user:mine", "uri", "gone", "ref", "dict", "missing"):
            more = {"filename": name, "session_id": session}
            for version in (None, 0, 1, 7, -1):
                steps.append(("load_artifact", {**more, "version": version}))
                steps.append(("get_artifact_version", {**more, "version": version}))
            steps += [("list_versions", more), ("list_artifact_versions", more)]
    for name in ("a.bin", "a.bin", "user:mine"):
        steps.append(("delete_artifact", {"filename": name, "session_id": "s"}))
    steps.append(("list_artifact_keys", {"session_id": "s"}))
    for method, more in steps:
        assert await asked(service, method, **more) == await asked(other, method, **more), (
            method,
            more,
        )


async def test_artifacts_go_with_their_session(tmp_path: pathlib.Path) -> None:
    async with AsyncStore(tmp_path / "both.db") as store:
        sessions, artifacts = QuipuSessionService(store), QuipuArtifactService(store)
        await sessions.create_session(app_name="app", user_id="u", session_id="a/b")
        for name in ("own", "user:mine"):
            await artifacts.save_artifact(
                app_name="app",
                user_id="u",
                session_id="a/b",
                filename=name,
                artifact=types.Part(text="x"),
            )
        assert len(await store.artifacts("adk:app/u/a%2Fb")) == 2
        await sessions.delete_session(**WHOSE, session_id="a/b")
        assert await artifacts.list_artifact_keys(**WHOSE, session_id="a/b") == ["user:mine"]
