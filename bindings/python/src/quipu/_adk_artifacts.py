"""ADK's artifacts on a quipu store. Use it as quipu.adk.QuipuArtifactService."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from typing_extensions import override

from ._errors import NotFound
from ._results import Artifact
from ._store import AsyncStore

_USER = "user:"
_URI = "quipu://apps/{}/users/{}"


def _key(app_name: str, user_id: str, session_id: str) -> str:
    """The key that the session service gives a session."""
    names = (app_name, user_id, session_id)
    return "adk:" + "/".join(one.replace("%", "%25").replace("/", "%2F") for one in names)


class QuipuArtifactService(BaseArtifactService):
    """ADK's artifact service: versions of named blobs, beside the sessions in one store.

    An artifact goes with its session, one of the namespace "user:" with its user. What is the same
    for one user is stored once.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | AsyncStore | None = None,
        *,
        agents_dir: str | None = None,
        **options: Any,
    ) -> None:
        """Open the store at `uri`, or take one that is open, as QuipuSessionService does."""
        from .adk import _open  # which imports this module

        del agents_dir  # ADK's registry passes it
        self.store = _open(uri, options)
        self._owns = not isinstance(uri, AsyncStore)

    async def close(self) -> None:
        """Close the store, if this service opened it."""
        if self._owns:
            await self.store.close()

    async def __aenter__(self) -> QuipuArtifactService:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @staticmethod
    def _place(
        app_name: str, user_id: str, filename: str | None, session_id: str | None
    ) -> tuple[str | None, dict[str, str]]:
        """The key of the session, or None for the user's, and whose it is."""
        users = filename is not None and filename.startswith(_USER)
        if filename is not None and not users and session_id is None:
            raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
        key = None if users or session_id is None else _key(app_name, user_id, session_id)
        return key, {"app_name": app_name, "user_id": user_id}

    @override
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        key, whose = self._place(app_name, user_id, filename, session_id)
        part = ensure_part(artifact)
        if part.inline_data is not None:
            data: bytes | str = part.inline_data.data or b""
            mime, kind = part.inline_data.mime_type, "data"
        elif part.text is not None:
            data, mime, kind = part.text, "text/plain", "text"
        elif part.file_data is not None:
            data, mime, kind = part.file_data.file_uri or "", part.file_data.mime_type, "uri"
            if artifact_util.is_artifact_ref(part):
                self._check_reference(str(data), app_name, user_id, session_id)
        else:
            raise InputValidationError("Not supported artifact type.")
        saved = await self.store.artifact_save(
            key,
            filename,
            data,
            mime_type=mime,
            metadata=custom_metadata or None,
            kind=kind,  # type: ignore[arg-type]
            **whose,
        )
        return saved.version

    @staticmethod
    def _check_reference(uri: str, app_name: str, user_id: str, session_id: str | None) -> None:
        parsed = artifact_util.parse_artifact_uri(uri)
        if not parsed:
            raise InputValidationError(f"Invalid artifact reference URI: {uri}")
        artifact_util.validate_artifact_reference_scope(
            app_name=app_name, user_id=user_id, session_id=session_id, parsed_uri=parsed
        )

    async def _get(
        self,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None,
        version: int | None,
    ) -> Artifact | None:
        key, whose = self._place(app_name, user_id, filename, session_id)
        if version is not None and version < 0:
            return None
        try:
            return await self.store.artifact_get(key, filename, version=version, **whose)
        except NotFound:
            return None

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        for left in range(artifact_util._MAX_ARTIFACT_REFERENCE_DEPTH, -1, -1):
            found = await self._get(app_name, user_id, filename, session_id, version)
            if found is None:
                return None
            part = _part_of(found)
            if not artifact_util.is_artifact_ref(part):
                return None if artifact_util._is_rewind_tombstone(part) else part
            target = artifact_util.resolve_artifact_reference(
                file_uri=(found.data or b"").decode(),
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
            filename, version = target.filename, target.version
            session_id = target.session_id
        return None

    @override
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        key, _ = self._place(app_name, user_id, None, session_id)
        found = await self.store.artifacts(key, app_name=app_name, user_id=user_id)
        return [one.name for one in found]

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        key, whose = self._place(app_name, user_id, filename, session_id)
        await self.store.artifact_delete(key, filename, **whose)

    async def _versions(
        self, app_name: str, user_id: str, filename: str, session_id: str | None
    ) -> list[Artifact]:
        key, whose = self._place(app_name, user_id, filename, session_id)
        return await self.store.artifacts(key, name=filename, versions=True, **whose)

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        found = await self._versions(app_name, user_id, filename, session_id)
        return [one.version for one in found]

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        found = await self._versions(app_name, user_id, filename, session_id)
        return [_version_of(one, session_id) for one in found]

    @override
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        found = await self._versions(app_name, user_id, filename, session_id)
        wanted = [one for one in found if version is None or one.version == version]
        return _version_of(wanted[-1], session_id) if wanted else None


def _part_of(found: Artifact) -> types.Part:
    data = found.data or b""
    mime = found.mime_type or None
    if found.kind == "text":
        return types.Part(text=data.decode())
    if found.kind == "uri":
        return types.Part(file_data=types.FileData(file_uri=data.decode(), mime_type=mime))
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime))


def _version_of(found: Artifact, session_id: str | None) -> ArtifactVersion:
    place = _URI.format(found.app_name, found.user_id)
    if found.session_key:
        place += f"/sessions/{session_id}"
    return ArtifactVersion(
        version=found.version,
        canonical_uri=f"{place}/artifacts/{found.name}/versions/{found.version}",
        custom_metadata=found.metadata,
        create_time=found.created_at.timestamp(),
        mime_type=found.mime_type or None,
    )
