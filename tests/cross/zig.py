#!/usr/bin/env python3
"""The amalgamation and the program in places that this machine is not: macOS and musl, with the
compiler and the C libraries of `zig cc` (PyPI: ziglang).

    zig.py TARGET OURS

TARGET is one of the table below; OURS is a program `quipu` of this machine, to exchange stores
with. The amalgamation is compiled with the sqlite3.h of Debian. Where Go's module registry is at
hand the program is linked with SQLite's own source, from the module that bench/go/lango pins. musl
programs are run, those of another processor under qemu; macOS programs cannot be run here.
Exit code 77: something is missing, and the output says what."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "zig"
SKIP = 77
ZIG = "ziglang==0.17.0"
DRIVER = "github.com/mattn/go-sqlite3"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# What Debian builds its SQLite with, as far as the library needs it.
SQLITE = ("-DSQLITE_THREADSAFE=1", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_SECURE_DELETE", "-w")

# Target of zig: the processor when its programs can run on Linux, else None.
TARGETS = {
    "aarch64-macos": None,
    "x86_64-macos": None,
    "aarch64-linux-musl": "aarch64",
    "x86_64-linux-musl": "x86_64",
}


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(SKIP)


def claim(name):
    print(f"[       OK ] {name}", flush=True)


def must(command, **more):
    """Run a command; its failure is the test's."""
    words = list(map(str, command))
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more
    )
    if done.returncode != 0:
        print(done.stdout.decode(errors="replace"))
        raise SystemExit(f"[  FAILED  ] {' '.join(words[:6])}")
    return done.stdout


def zig():
    """The compiler, in an environment of its own that is made once."""
    folder = HOME / ZIG.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        HOME.mkdir(parents=True, exist_ok=True)
        for command in (
            [sys.executable, "-m", "venv", folder],
            [python, "-m", "pip", "install", "--quiet", ZIG],
        ):
            if subprocess.run(list(map(str, command)), check=False).returncode != 0:
                skip(f"pip cannot install {ZIG}: no registry")
        (folder / "ready").touch()
    return [python, "-m", "ziglang", "cc"]


def sqlite_source():
    """The folder of SQLite's source, or None where Go or its registry is absent."""
    go = subprocess.run(
        [ROOT / "tools/go.sh", ROOT / "build/go"], stdout=subprocess.PIPE, check=False, text=True
    )
    if go.returncode != 0:
        return None
    done = subprocess.run(
        [go.stdout.strip(), "mod", "download", "-json", DRIVER],
        cwd=ROOT / "bench/go/lango",
        env={**os.environ, "GOTOOLCHAIN": "local"},
        stdout=subprocess.PIPE,
        check=False,
    )
    return pathlib.Path(json.loads(done.stdout)["Dir"]) if done.returncode == 0 else None


def compile_library(compiler, target, folder):
    """quipu.c as one file, without a warning, with nothing but SQLite's header beside it."""
    sources = HOME / "amalgamation"
    must([sys.executable, ROOT / "tools/amalgamate.py", sources])
    headers = HOME / "include"
    headers.mkdir(parents=True, exist_ok=True)
    shutil.copy("/usr/include/sqlite3.h", headers)
    library = folder / "quipu.o"
    must([*compiler, *WARNINGS, "-I", headers, "-c", sources / "quipu.c", "-o", library])
    claim(f"amalgamation_compiles_for_{target}")
    return library


def compile_sqlite(compiler, source, folder):
    """SQLite's own source; it changes with the pinned version only."""
    done = folder / f"{source.name}.o"
    if not done.exists():
        must([*compiler, *SQLITE, "-c", source / "sqlite3-binding.c", "-o", done])
    return done


def link_program(compiler, target, objects, folder):
    """The program `quipu`: every name that the library uses exists in that C library."""
    program = folder / "quipu"
    defines = ["-D_POSIX_C_SOURCE=200809L", "-D_DEFAULT_SOURCE"]
    if target.endswith("macos"):
        defines.append("-D_DARWIN_C_SOURCE")
    else:
        defines.append("-static")
    sources = sorted((ROOT / "apps/quipu").glob("*.c"))
    must([*compiler, *WARNINGS, "-std=c11", *defines, "-I", ROOT / "include", *sources, *objects,
          "-o", program])
    claim(f"program_links_for_{target}")
    return program


def run_program(program, processor, ours):
    """Exchange stores with a program of this machine."""
    emulator = []
    if processor != platform.machine():
        found = shutil.which(f"qemu-{processor}-static")
        if found is None:
            skip(f"no qemu-{processor}-static: {program.parent.name} is linked and not run")
        emulator = [found]
    done = subprocess.run(
        [sys.executable, ROOT / "tests/cross/exchange.py", ours, program, *emulator], check=False
    )
    if done.returncode != 0:
        raise SystemExit(1)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        raise SystemExit(__doc__)
    target, ours = sys.argv[1:]
    folder = HOME / target
    folder.mkdir(parents=True, exist_ok=True)
    # Unoptimised, and with zig's own traps for undefined behaviour.
    compiler = [*zig(), "-target", target]
    library = compile_library(compiler, target, folder)
    source = sqlite_source()
    if source is None:
        skip(f"no Go module {DRIVER} for SQLite's source: {target} is compiled and not linked")
    program = link_program(compiler, target, [library, compile_sqlite(compiler, source, folder)],
                           folder)
    if TARGETS[target] is not None:
        run_program(program, TARGETS[target], ours)


if __name__ == "__main__":
    main()
