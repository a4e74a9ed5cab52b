#!/usr/bin/env python3
"""The programs of docs/guide.md work as printed. Every `c block is a complete program of at most 40
lines; each is compiled against the staging install with every compiler at hand, run in a folder of
its own, and prints what the `text block behind it says. Where QUIPU_TEST_PG names a server, only
the programs that read QUIPU_STORE run, on that server. --fix writes what the programs print.

usage: guide.py [--fix] STAGE"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide.md"
COMPILERS = ("gcc", "clang-19", "clang")
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread")
LINES_MAX = 40
COLUMNS_MAX = 100
JOBS = 2
SKIP = 77
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclasses.dataclass
class Program:
    """One chapter's program and what it should print."""

    line: int
    text: str
    prints: str
    span: tuple  # of `prints` in the guide


def programs(guide):
    """All `c blocks, each with the `text block that must follow."""
    blocks = list(BLOCK.finditer(guide))
    found = []
    for block, following in zip(blocks, blocks[1:] + [None]):
        if block.group(1) != "c":
            continue
        line = guide.count("\n", 0, block.start()) + 1
        if following is None or following.group(1) != "text":
            sys.exit(f"docs/guide.md:{line}: no `text block follows")
        found.append(Program(line, block.group(2), following.group(2), following.span(2)))
    return found


def shape(program):
    """What is wrong with the text of a program, or None."""
    lines = program.text.splitlines()
    wide = [one for one in lines if len(one) > COLUMNS_MAX]
    headers = re.findall(r"#include <quipu/(.*)>", program.text)
    if "int main(void)" not in program.text:
        return "no main()"
    if len(lines) > LINES_MAX:
        return f"{len(lines)} lines, at most {LINES_MAX} are allowed"
    if wide:
        return f"more than {COLUMNS_MAX} columns: {wide[0].strip()}"
    if headers != ["quipu.h"]:
        return "the only header of quipu's is <quipu/quipu.h>"
    return None


def pkg_config(stage, *wanted):
    """The words that pkg-config answers about the staging install."""
    folder = next(stage.rglob("quipu.pc")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    command = ["pkg-config", *wanted, "quipu"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def attempt(program, compiler, flags, env):
    """Compile and run in a new folder: (what it printed, why it failed or None)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "chapter.c").write_text(program.text, encoding="utf-8")
        (path / "run").mkdir()
        command = [compiler, *FLAGS, "-o", "chapter", "chapter.c", *flags]
        built = subprocess.run(command, cwd=path, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            return "", built.stderr
        ran = subprocess.run(
            [path / "chapter"],
            cwd=path / "run",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        failed = ran.returncode != 0 or ran.stderr != ""
        return ran.stdout, f"exit {ran.returncode}\n{ran.stderr}" if failed else None


def own_schema(path):
    """A new schema on the server of the tests, as the URI of a store."""
    file = pathlib.Path(path)
    if not file.exists() or shutil.which("psql") is None:
        print("SKIP: no PostgreSQL server runs for the tests")
        sys.exit(SKIP)
    server = file.read_text(encoding="utf-8").strip()
    name = f"guide_{os.getpid()}"
    command = ["psql", "-q", "-X", server, "-c", f"CREATE SCHEMA {name}"]
    subprocess.run(command, check=True)
    return f"{server}&options=-csearch_path%3D{name}"


def judge(program, compiler, outcome, fix):
    """Print why a program fails; whether it passes."""
    printed, failure = outcome
    if failure is None and (fix or printed == program.prints):
        return True
    print(f"docs/guide.md:{program.line}: {compiler}")
    print(failure if failure is not None else f"it prints:\n{printed}not:\n{program.prints}")
    return False


def write(guide, found, outcomes):
    """The guide with what the programs printed."""
    for program, (printed, _) in reversed(list(zip(found, outcomes))):
        begin, end = program.span
        guide = guide[:begin] + printed + guide[end:]
    GUIDE.write_text(guide, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="write what the programs print")
    parser.add_argument("stage", type=pathlib.Path, help="the prefix of the staging install")
    args = parser.parse_args()
    stage = args.stage.resolve()
    guide = GUIDE.read_text(encoding="utf-8")
    found = programs(guide)
    wrong = [(one.line, shape(one)) for one in found if shape(one) is not None]
    for line, why in wrong:
        print(f"docs/guide.md:{line}: {why}")
    libraries = pkg_config(stage, "--variable=libdir").strip()
    flags = pkg_config(stage, "--cflags", "--libs").split()
    env = {**os.environ, "LD_LIBRARY_PATH": libraries}
    env.pop("QUIPU_STORE", None)
    compilers = [one for one in COMPILERS if shutil.which(one)][:2]
    server = os.environ.get("QUIPU_TEST_PG")
    if server:
        env["QUIPU_STORE"] = own_schema(server)
        found = [one for one in found if 'getenv("QUIPU_STORE")' in one.text]
        compilers = compilers[:1]
    runs = [(program, compiler) for compiler in compilers for program in found]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = list(pool.map(lambda run: attempt(*run, flags, env), runs))
    good = [judge(*run, outcome, args.fix) for run, outcome in zip(runs, outcomes)]
    if args.fix and all(good) and not server:
        write(guide, found, outcomes[: len(found)])
    print(f"{len(found)} programs, compiled with {' and '.join(compilers)}")
    sys.exit(0 if all(good) and found and not wrong else 1)


if __name__ == "__main__":
    main()
