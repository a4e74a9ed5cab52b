"""What the tests share: stores and services in a folder of their own."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

import quipu
from quipu.adk import QuipuSessionService

LONG = os.environ.get("QUIPU_LONG") == "1"
ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(sys.prefix) / "bin" / "quipu"  # which the package brought
FIXTURES = ROOT / "tests" / "fixtures"


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: pathlib.Path) -> Iterator[quipu.Store]:
    with quipu.Store(path) as opened:
        yield opened


@pytest.fixture
async def service(path: pathlib.Path) -> AsyncIterator[QuipuSessionService]:
    async with QuipuSessionService(path) as opened:
        yield opened
