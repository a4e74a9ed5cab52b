"""A plugin for pytest that adds our service to the backends of ADK's own suite, from outside: the
suite gives a list of backends to a fixture, and this adds one to that list before the fixture is
made. Suites before mid-2026 have a list of names and a factory instead. Nothing of the suite is
changed or copied."""

import contextlib
import enum

import pytest

from quipu.adk import QuipuSessionService

NAME = "quipu"
FILE = "quipu.db"
FACTORY = "get_session_service"
_fixture = pytest.fixture


@contextlib.asynccontextmanager
async def make(folder):
    """A service over a new store, as the suite's factories make theirs."""
    async with QuipuSessionService(folder / FILE) as service:
        yield service


def _is_backend(value):
    return all(hasattr(value, name) for name in ("name", "make", "divergences"))


def _add_to_factory(module):
    """Let the factory of an older suite know our name."""
    original = module[FACTORY]

    def factory(service_type, tmp_path=None):
        if service_type == NAME:
            return QuipuSessionService(tmp_path / FILE)
        return original(service_type, tmp_path)

    module[FACTORY] = factory


def fixture(*args, **kwargs):
    """pytest.fixture, but for the list of backends."""
    params = kwargs.get("params")
    if not isinstance(params, list) or not params:
        return _fixture(*args, **kwargs)
    if all(map(_is_backend, params)):
        params.append(type(params[0])(NAME, make))
        return _fixture(*args, **kwargs)
    decorate = _fixture(*args, **{**kwargs, "params": [*params, NAME]})
    plain = _fixture(*args, **kwargs)

    def choose(function):
        if FACTORY not in function.__globals__ or not all(isinstance(p, enum.Enum) for p in params):
            return plain(function)
        _add_to_factory(function.__globals__)
        return decorate(function)

    return choose


pytest.fixture = fixture
