"""What a conversation of 100,000 messages costs the page in a browser (tests/page/figures.py): CPU
time of the renderer's main thread, which does not depend on how busy the machine is, and nodes."""

import json
import os
import pathlib
import subprocess
import sys

from entgen_bench import line

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPTIONS = "100,000 messages, the renderer's main thread"


def measure(program, blocks):
    """All results as lines of quipu_bench's form; `program` is quipu in its build's bin folder."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests/page/figures.py", str(max(blocks // 3, 3))],
        env={**os.environ, "QUIPU_BINARY_DIR": str(program.resolve().parents[1])},
        stdout=subprocess.PIPE, check=True,
    )
    found = json.loads(done.stdout)
    return [
        line("page.open_100000_cpu_s", "s", found["open"], f"{OPTIONS}, the newest are shown"),
        line("page.jump_100000_cpu_s", "s", found["jump"], f"{OPTIONS}, then the middle"),
        line("page.nodes_100000", "nodes", found["nodes"], "of the document then"),
    ]
