#!/usr/bin/env python3
"""Stores travel between places: what the program of another place writes, ours reads, verifies,
continues and exports to the same bytes; and the reverse.

    exchange.py OURS THEIRS [EMULATOR]

OURS and THEIRS are programs `quipu`; EMULATOR runs THEIRS where this machine cannot."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

KEY = "trip-to-cusco/by-bus"  # of the demo


def run(program, *words):
    """A verb's output; its failure ends the test."""
    done = subprocess.run([*program, *map(str, words)], capture_output=True, check=False)
    if done.returncode != 0:
        sys.stdout.write(done.stdout.decode(errors="replace"))
        sys.stdout.write(done.stderr.decode(errors="replace"))
        raise SystemExit(f"[  FAILED  ] {' '.join(map(str, words))}: exit {done.returncode}")
    return done.stdout


def same(what, ours, theirs):
    if ours != theirs:
        raise SystemExit(f"[  FAILED  ] {what} differs:\n{ours[:600]!r}\n{theirs[:600]!r}")


def exchange(writer, reader, folder):
    """`writer` makes a store and `reader` goes on with it; both read the same from it."""
    run(writer, "demo", folder)
    store = ("--store", folder / "store.db")
    run(reader, "verify", *store)
    run(reader, "append", KEY, "--text", "a knot from another place: käse 結び", *store)
    run(writer, "append", KEY, "--text", "and one from here", *store)
    run(writer, "verify", *store)
    verbs = (("export",), ("show", KEY), ("ls", "--json"), ("search", "knot"), ("search", "結"))
    for words in verbs:
        same(" ".join(words), run(writer, *words, *store), run(reader, *words, *store))
    found = run(reader, "search", "knot", "--json", *store)
    if b"another place" not in found:
        raise SystemExit("[  FAILED  ] the reader's own message is not found")
    run(reader, "backup", *store, folder / "backup.db")
    copied = ("--store", folder / "backup.db")
    run(writer, "verify", *copied)
    same("export of the backup", run(writer, "export", *copied), run(writer, "export", *store))


def crash(writer, reader, folder):
    """A log that `writer` left behind, as after a crash: `reader` recovers it. The copy is made
    while a tail keeps the store open, so that nothing has moved the log into the file."""
    run(writer, "demo", folder)
    store = ("--store", folder / "store.db")
    words = [*writer, "tail", "-f", KEY, *store]
    copy = folder / "copy"
    copy.mkdir()
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE) as tail:
        tail.stdout.readline()
        run(writer, "append", KEY, "--text", "a knot in the log", *store)
        for name in ("store.db", "store.db-wal"):
            shutil.copy(folder / name, copy)
        tail.kill()
    if (copy / "store.db-wal").stat().st_size == 0:
        raise SystemExit("[  FAILED  ] the log is empty: nothing was tested")
    recovered = ("--store", copy / "store.db")
    if b"in the log" not in run(reader, "show", KEY, *recovered):
        raise SystemExit("[  FAILED  ] the message in the log is lost")
    run(reader, "append", KEY, "--text", "and one behind it", *recovered)
    run(reader, "verify", *recovered)
    run(writer, "verify", *recovered)


def main():
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    ours = [sys.argv[1]]
    theirs = [*sys.argv[3:], sys.argv[2]]
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        run(theirs, "version")
        print("[       OK ] program_runs", flush=True)
        exchange(theirs, ours, place / "theirs")
        print("[       OK ] store_written_there_is_continued_here", flush=True)
        exchange(ours, theirs, place / "ours")
        print("[       OK ] store_written_here_is_continued_there", flush=True)
        crash(theirs, ours, place / "their log")
        print("[       OK ] log_left_there_is_recovered_here", flush=True)
        crash(ours, theirs, place / "our log")
        print("[       OK ] log_left_here_is_recovered_there", flush=True)


if __name__ == "__main__":
    main()
