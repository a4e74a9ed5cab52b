"""The plugin of `make test-adk-upstream` adds our service to suites shaped like ADK's."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from conftest import ROOT

PLUGIN = ROOT / "tests" / "python"
CONFORMANCE = """
import contextlib, dataclasses
import pytest
from google.adk.sessions.in_memory_session_service import InMemorySessionService

@dataclasses.dataclass(frozen=True)
class Backend:
    name: str
    make: object
    divergences: dict = dataclasses.field(default_factory=dict)

@contextlib.asynccontextmanager
async def memory(folder):
    yield InMemorySessionService()

BACKENDS = [Backend("memory", memory)]

@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
async def session_service(request, tmp_path):
    async with request.param.make(tmp_path) as service:
        yield service
"""
SUITE = """
from ._conformance import BACKENDS, session_service

async def test_a_session_is_found(session_service):
    made = await session_service.create_session(app_name="a", user_id="u")
    found = await session_service.get_session(app_name="a", user_id="u", session_id=made.id)
    assert found == made

def test_the_list_has_it():
    assert [backend.name for backend in BACKENDS] == ["memory", "quipu"]
"""


OLDER = """
import enum
import pytest
from google.adk.sessions.in_memory_session_service import InMemorySessionService

class Kind(enum.Enum):
    MEMORY = "MEMORY"

def get_session_service(service_type=Kind.MEMORY, tmp_path=None):
    return InMemorySessionService()

@pytest.fixture(params=[Kind.MEMORY])
async def session_service(request, tmp_path):
    yield get_session_service(request.param, tmp_path)

async def test_a_session_is_found(session_service):
    made = await session_service.create_session(app_name="a", user_id="u")
    found = await session_service.get_session(app_name="a", user_id="u", session_id=made.id)
    assert found == made
"""


def run(suite: pathlib.Path) -> str:
    command = [sys.executable, "-m", "pytest", "-v", "-p", "upstream", "-c", "upstream.ini"]
    done = subprocess.run(
        [*command, f"--rootdir={suite.parent}", str(suite)],
        cwd=PLUGIN,
        env={**os.environ, "PYTHONPATH": str(PLUGIN)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_our_service_joins_the_list(tmp_path: pathlib.Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "__init__.py").write_text("")
    (suite / "_conformance.py").write_text(CONFORMANCE)
    (suite / "test_suite.py").write_text(SUITE)
    said = run(suite)
    assert "test_a_session_is_found[memory] PASSED" in said
    assert "test_a_session_is_found[quipu] PASSED" in said


def test_our_service_joins_an_older_factory(tmp_path: pathlib.Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_suite.py").write_text(OLDER)
    said = run(suite)
    assert "test_a_session_is_found[Kind.MEMORY] PASSED" in said
    assert "test_a_session_is_found[quipu] PASSED" in said
