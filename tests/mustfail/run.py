#!/usr/bin/env python3
"""Must-not-compile tests: each case holds one mistake and, under FIXED, its corrected twin.

usage: run.py [compiler...]        (default: gcc clang-19)

entgen ($QUIPU_ENTGEN, else build/debug/bin/entgen) generates chat.h from chat.ent. Then, for each
case and compiler: with `-std=c11` and no warning flags the plain file must fail with an error that
contains the text of the case's `gcc:` or `clang:` line; with -DFIXED it must compile
without a word under -Wall -Wextra -Werror. A file with a `hole:` line holds a mistake that C cannot
see: it must compile, so that the list of holes in README.md stays true.

Exits 1 when a case fails, 77 (skip) when a compiler is absent."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIP = 77
JOBS = 2
STRICT = ["-Wall", "-Wextra", "-Werror"]


def family(compiler):
    """Which line of a case holds this compiler's message."""
    return "clang" if "clang" in pathlib.Path(compiler).name else "gcc"


def marker(text, key):
    """The rest of the ` * key: ...` line of a head comment, or None."""
    match = re.search(rf"^ \* {key}: (.+?)(?: \*/)?$", text, re.M)
    return match.group(1) if match else None


def generate(folder):
    """Run entgen over chat.ent."""
    entgen = os.environ.get("QUIPU_ENTGEN") or str(ROOT / "build/debug/bin/entgen")
    if not shutil.which(entgen):
        sys.exit(f"mustfail: no generator at {entgen}: build it or set QUIPU_ENTGEN")
    subprocess.run([entgen, "-o", str(folder), str(HERE / "chat.ent")], check=True)


def compile_file(compiler, folder, path, flags):
    """Exit code and messages of one compilation."""
    command = [compiler, "-std=c11", *flags, f"-I{folder}", f"-I{HERE}", f"-I{ROOT / 'include'}"]
    command += ["-c", str(path), "-o", os.devnull]
    # Plain quotes in the messages, whatever the user's language is.
    result = subprocess.run(
        command, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout + result.stderr


def judge_mistake(compiler, folder, path, text):
    """What is wrong with the plain form of a case, or None."""
    code, messages = compile_file(compiler, folder, path, [])
    if marker(text, "hole"):
        return f"a hole no more: it is rejected\n{messages}" if code != 0 else None
    expected = marker(text, family(compiler))
    if expected is None:
        return f"no `{family(compiler)}:` line"
    if code == 0:
        return "it compiles"
    # GCC places an error inside a macro at the macro; its notes then lead to the case.
    errors = [line for line in messages.splitlines() if " error: " in line]
    if str(path) not in messages or not any(expected in error for error in errors):
        return f"expected an error with: {expected}\n{messages}"
    return None


def judge(compiler, folder, path):
    """Both forms of one case: the fault found, or None."""
    text = path.read_text(encoding="utf-8")
    fault = judge_mistake(compiler, folder, path, text)
    if fault is None:
        _, messages = compile_file(compiler, folder, path, [*STRICT, "-DFIXED"])
        if messages:
            fault = f"the corrected twin does not compile silently\n{messages}"
    return fault


def main():
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__)
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    compilers = sys.argv[1:] or ["gcc", "clang-19"]
    for compiler in compilers:
        if not shutil.which(compiler):
            print(f"SKIP: {compiler} is not installed")
            sys.exit(SKIP)
    cases = sorted(HERE.glob("*.c"))
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        folder = pathlib.Path(name)
        generate(folder)
        for compiler in compilers:
            faults = pool.map(lambda path, cc=compiler: judge(cc, folder, path), cases)
            for path, fault in zip(cases, faults):
                print(f"{'FAIL' if fault else 'ok  '} {compiler} {path.stem}")
                if fault:
                    print("     " + fault.replace("\n", "\n     "))
                passed, failed = passed + (not fault), failed + bool(fault)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
