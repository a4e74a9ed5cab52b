"""What the documents and examples show works."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT

EXAMPLES = ROOT / "bindings" / "python" / "examples"


def python(arguments: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_begins_with_five_lines_that_work(tmp_path: pathlib.Path) -> None:
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", guide, re.S)
    assert found is not None
    code = found.group(1)
    assert len(code.splitlines()) == 5
    assert guide.index("```python") < 30
    said = python(["-c", code], tmp_path)
    assert said == "['hello', 'hi, how can I help?']\n"
    assert python(["-c", code], tmp_path).count("hello") == 2  # the first run was kept


def test_the_guide_shows_the_services_file_that_is_shipped() -> None:
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(.*?)```", guide, re.S)
    assert found is not None
    shipped = (EXAMPLES / "adk_web" / "services.yaml").read_text(encoding="utf-8")
    assert found.group(1) == re.sub(r"^#.*\n", "", shipped)


TALKS = ["adk_agent.py", "claude_transcript.py", "langgraph_agent.py", "pydantic_agent.py"]


@pytest.mark.parametrize("name", TALKS)
def test_a_conversation_survives_a_restart(tmp_path: pathlib.Path, name: str) -> None:
    for number, words in enumerate(("hello", "and again", "once more"), 1):
        said = python([str(EXAMPLES / name), "talk.db", words], tmp_path)
        assert said == f"You said: {words}. I have heard {number} messages of yours.\n"


def test_three_frameworks_share_a_file(tmp_path: pathlib.Path) -> None:
    for number in (1, 2):
        said = python([str(EXAMPLES / "histories.py"), "talks.db"], tmp_path).splitlines()
        assert said[:3] == [
            f"{name}: {number}" for name in ("LangChain", "LlamaIndex", "Agent Framework")
        ]
        assert said[3] == "found: ['agent_framework:talk', 'langchain:talk', 'llama_index:talk']"
