"""A plugin for pytest that adds our service to the backends of ADK's own suite, from outside: the
suite gives a list of backends to a fixture, and this adds one to that list before the fixture is
made. Nothing of the suite is changed or copied."""

import contextlib

import pytest

from quipu.adk import QuipuSessionService

NAME = "quipu"
_fixture = pytest.fixture


@contextlib.asynccontextmanager
async def make(folder):
    """A service over a new store, as the suite's factories make theirs."""
    async with QuipuSessionService(folder / "quipu.db") as service:
        yield service


def _is_backend(value):
    return all(hasattr(value, name) for name in ("name", "make", "divergences"))


def fixture(*args, **kwargs):
    """pytest.fixture, but for the list of backends."""
    params = kwargs.get("params")
    if isinstance(params, list) and params and all(map(_is_backend, params)):
        if NAME not in [backend.name for backend in params]:
            params.append(type(params[0])(NAME, make))
    return _fixture(*args, **kwargs)


pytest.fixture = fixture
