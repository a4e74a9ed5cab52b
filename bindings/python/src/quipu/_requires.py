"""Says which other package is missing or too old, and how to get it."""

from __future__ import annotations

import importlib.metadata
import re


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def require(module: str, distribution: str, oldest: str, extra: str) -> None:
    """Raise ImportError unless a distribution is there, at `oldest` or newer."""
    needs = f"{module} needs {distribution} {oldest} or newer"
    how = f'pip install "quipu-store[{extra}]"'
    try:
        found = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(f"{needs}, which is not installed: {how}") from None
    if _number(found) < _number(oldest):
        raise ImportError(f"{needs}; {distribution} {found} is installed: {how}")
