"""Types are complete: mypy, strict, over the package, its tests and its examples; pyright over what
users see."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import quipu

HERE = pathlib.Path(__file__).resolve().parent.parent


def test_mypy_is_content(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "src", "tests", "examples"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_is_content() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "src", "examples"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    if "0 errors" not in done.stdout and "npm" in done.stderr:
        pytest.skip("pyright cannot fetch its program: no registry")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (pathlib.Path(quipu.__file__).parent / "py.typed").exists()
