#!/usr/bin/env python3
"""Counts the functions and the files that one warm append passes, so that the length of the write
path is a figure that anybody can repeat. Compiles src/ without optimisation and with entry hooks
(tools/trace_append.c), appends to a session that is in all caches, and prints the functions by
file in the order of their first entry.

  tools/trace_append.py                    SQLite, a file in a temporary folder
  tools/trace_append.py postgresql://...   a server (an empty database)
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = "-std=c11 -O0 -g -no-pie -finstrument-functions -D_DEFAULT_SOURCE".split()
FLAGS += ["-D_POSIX_C_SOURCE=200809L", "-Iinclude", "-Isrc"]
FLAGS += [f"-fdebug-prefix-map={ROOT}=."]  # places without the folder
LEFT_OUT = {"net", "remote", "provider", "http", "mcp", "server"}  # no part of an append to a file
PAGES = "src/ent_sqlite/page_"  # the page layer, which SQLite calls


def sources(postgres):
    rooms = [path for path in sorted((ROOT / "src").iterdir()) if path.is_dir()]
    for room in rooms:
        if room.name in LEFT_OUT or (room.name == "ent_postgres" and not postgres):
            continue
        yield from sorted(room.glob("*.c"))


def build(folder, postgres):
    """Compile every source and link the tracer; returns its path."""
    flags = list(FLAGS)
    libraries = ["-lsqlite3", "-lpthread", "-lm"]
    if postgres:
        flags += ["-DQUIPU_POSTGRES", "-I/usr/include/postgresql"]
        libraries.append("-ldl")
    objects = []
    jobs = []
    for number, source in enumerate([*sources(postgres), ROOT / "tools" / "trace_append.c"]):
        objects.append(folder / f"{number}.o")
        jobs.append(
            ["gcc", *flags, "-c", str(source.relative_to(ROOT)), "-o", str(objects[-1])]
        )
    for at in range(0, len(jobs), 8):
        running = [subprocess.Popen(job, cwd=ROOT) for job in jobs[at : at + 8]]
        if any([process.wait() != 0 for process in running]):
            sys.exit("trace_append: a source does not compile")
    program = folder / "trace_append"
    subprocess.run(["gcc", "-no-pie", "-o", program, *objects, *libraries], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("uri", nargs="?", help="a server's URI; a file of SQLite without it")
    parser.add_argument("--short", action="store_true", help="print the counts only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = build(folder, options.uri is not None)
        uri = options.uri or str(folder / "trace.db")
        out = subprocess.run([program, uri], check=True, capture_output=True, text=True).stdout
        found = subprocess.run(
            ["addr2line", "-f", "-e", program],
            input=out,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
    files = {}
    seen = set()  # an inline function of a header has a copy in every source
    for function, place in zip(found[::2], found[1::2]):
        path = (ROOT / place.split(":")[0]).resolve()
        name = str(path.relative_to(ROOT))
        if name.startswith("tools/"):  # the tracer's own copies of inline functions
            continue
        names = files.setdefault(name, [])
        if function not in seen:
            names.append(function)
        seen.add(function)
    files = {path: functions for path, functions in files.items() if functions}
    if not options.short:
        for path, functions in files.items():
            print(f"{path}: {' '.join(functions)}")
    pages = {path: names for path, names in files.items() if path.startswith(PAGES)}
    print(
        f"trace_append: {sum(map(len, files.values()))} functions in {len(files)} files, "
        f"{sum(map(len, pages.values()))} in {len(pages)} of them called by SQLite"
    )


if __name__ == "__main__":
    main()
