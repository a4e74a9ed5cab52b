#!/usr/bin/env python3
"""The version matrix: every layout that earlier commits wrote, against today's program.

    run.py OURS [--list]

The rows come from the history of schema/quipu.ent: one for each layout (or min_writer) that differs
from today's, so that a change of the schema gets its row by itself. A row is the newest commit that
builds with that layout. For each the commit's library is built (kept in build/versions), and:

    its example writes a store             first_store, and `quipu demo` where the program exists
    OURS reads it as it is                 read-only, without changing a byte
    OURS upgrades it and goes on           verify is clean, the export is the same, search, append
    the old program gets the new file      it refuses, or reads; the file's bytes stay; again with
                                           checksums, which keep out all that write none

Exit code 77: there is no history here (a shallow clone, or none)."""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "versions"
SCHEMA = "schema/quipu.ent"
EXAMPLE = "examples/first_store/first_store.c"
SKIP = 77
TRIES = 12  # commits of one layout that are tried until one builds
JOBS = str(os.cpu_count() or 2)
WORD = "knot"
CHECKSUMS = 3  # the first version of the schema whose programs write page checksums


class Broken(Exception):
    """A claim that does not hold, and why."""


def git(*words, given=None):
    done = subprocess.run(["git", *words], cwd=ROOT, input=given, capture_output=True, check=False)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def layout(schema):
    """What a schema says about the file: names are columns; comments, the names and classes that
    programs see, and the keys of PostgreSQL are left out."""
    lines = []
    names = {}
    for line in schema.splitlines():
        line = line.split("#")[0].strip()
        line = re.sub(r"\s+class\s.*$|\s+local\b.*$|\s+show\s*\(.*$", "", line)
        if re.match(r"(view|classes|include|part|shard)\b|class\s", line) or not line:
            continue
        column = re.search(r'^(\w+)\s.*column "(\w+)"', line)
        if column and not line.startswith("edge"):
            names[column.group(1)] = column.group(2)
            line = line.replace(f'column "{column.group(2)}"', "")
        lines.append(" ".join(line.split()))
    text = "\n".join(lines)
    for name, column in names.items():
        text = re.sub(rf"\b{name}\b", column, text)
    return text


def history():
    """[(layout, schema, [commits, newest first])] of all layouts but today's, oldest first."""
    if git("rev-parse", "--is-shallow-repository") != "false\n":
        print("SKIP: the version matrix needs the repository's history: clone it whole")
        sys.exit(SKIP)
    commits = git("log", "--reverse", "--date-order", "--format=%H").split()
    asked = "".join(f"{commit}:{path}\n" for commit in commits for path in (SCHEMA, EXAMPLE))
    found = git("cat-file", "--batch-check=%(objectname)", given=asked.encode()).splitlines()
    schemas = {}
    rows = {}
    for commit, schema, example in zip(commits, found[::2], found[1::2]):
        if schema.endswith("missing") or example.endswith("missing"):
            continue
        if schema not in schemas:
            schemas[schema] = git("cat-file", "blob", schema)
        text = schemas[schema]
        rows.setdefault(layout(text), (text, []))[1].insert(0, commit)
    rows.pop(layout((ROOT / SCHEMA).read_text(encoding="utf-8")), None)
    return [(key, text, commits) for key, (text, commits) in rows.items()]


def quiet(command, log, **more):
    with open(log, "a", encoding="utf-8") as stream:
        done = subprocess.run(
            list(map(str, command)), stdout=stream, stderr=subprocess.STDOUT, check=False, **more
        )
    return done.returncode == 0


def build(commit):
    """A commit's folder with example, program and probe; None when it does not build."""
    folder = HOME / commit[:10]
    if (folder / "failed").exists():
        return None
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "src").mkdir(parents=True)
        log = folder / "log"
        source = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder / "src"], input=source, check=True)
        (folder / "ready" if compile_all(folder, log) else folder / "failed").touch()
        shutil.rmtree(folder / "out" / "CMakeFiles", ignore_errors=True)
    return folder if (folder / "ready").exists() else None


def compile_all(folder, log):
    """Only the library, the example and, where there is one, the program; unoptimised."""
    out = folder / "out"
    options = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0 -w"]
    options += [f"-DQUIPU_{name}=OFF" for name in ("TESTS", "NETWORK", "POSTGRES", "WERROR")]
    targets = ["first_store", "quipu_static"]
    if (folder / "src/apps/quipu/cmd_export.c").exists():
        targets.append("quipu_program")
    probe = ["cc", "-w", "-I", folder / "src/include", "-I", folder / "src/src"]
    probe += [ROOT / "tests/versions/probe.c", out / "libquipu.a"]
    probe += ["-lsqlite3", "-lm", "-pthread", "-o", out / "probe"]
    return (
        quiet(["cmake", "-S", folder / "src", "-B", out, "-G", "Ninja", *options], log)
        and quiet(["cmake", "--build", out, "-j", JOBS, "--target", *targets], log)
        and quiet(probe, log)
    )


def run(*command):
    """A program's output; its failure breaks the claim."""
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    if done.returncode != 0:
        text = (done.stdout + done.stderr).decode(errors="replace")
        raise Broken(f"{' '.join(map(str, command[1:]))}: exit {done.returncode}\n{text}")
    return done.stdout.decode(errors="replace")


def digest(store):
    return hashlib.sha256(store.read_bytes()).hexdigest()


def number(schema, word):
    return int(re.search(rf"^\s*{word} (\d+)", schema, re.M).group(1))


def upgrade(ours, store):
    """Today's program reads an old store as it is, upgrades it, and loses nothing."""
    at = ("--store", store)
    before = digest(store)
    read = run(ours, "export", "--read-only", *at)
    run(ours, "ls", "--read-only", *at)
    if digest(store) != before:
        raise Broken("reading changed the file")
    run(ours, "doctor", "--migrate", *at)
    run(ours, "verify", *at)
    if run(ours, "export", *at) != read:
        raise Broken("the export differs after the upgrade")
    keys = re.findall(r'^{"type":"session".*?"key":"([^"]*)"', read, re.M)
    if not keys or '"type":"message"' not in read:
        raise Broken("the old program wrote no messages")
    for key in keys:
        run(ours, "show", key, *at)
        run(ours, "append", key, "--text", f"a {WORD} of today", *at)
    for word in (WORD, "Cusco"):  # of today, and of the old program
        if f"[{word}]" not in run(ours, "search", word, *at):
            raise Broken(f"search does not find {word}")
    run(ours, "fork", keys[0], keys[0] + "/forked", *at)
    run(ours, "verify", *at)


def refuse(ours, store):
    """Today's program reads a layout that it cannot upgrade, refuses to write, changes nothing."""
    before = digest(store)
    if '"type":"message"' not in run(ours, "export", "--read-only", "--store", store):
        raise Broken("the messages cannot be read")
    words = [ours, "append", "any", "--create", "--text", WORD, "--store", store]
    done = subprocess.run(words, capture_output=True, check=False, text=True)
    if done.returncode == 0 or "a named migration step is needed" not in done.stderr:
        raise Broken(f"no refusal: exit {done.returncode}, {done.stderr}")
    if digest(store) != before:
        raise Broken("the refusal changed the file")


def reverse(ours, probe, store, writes):
    """The old program gets the new file: it refuses to write where min_writer says so, and what it
    does changes no byte."""
    before = digest(store)
    text = run(ours, "export", "--store", store)
    said = {mode: run(probe, mode, store).strip() for mode in ("read", "write")}
    if said["write"].startswith("OK") != writes:
        raise Broken(f"the old program, asked to write, says: {said['write']}")
    if not writes and digest(store) != before:
        raise Broken("the old program changed the file")
    run(ours, "verify", "--store", store)
    if run(ours, "export", "--store", store) != text:
        raise Broken("the export differs after the old program")
    return said


def row(ours, folder, schema, place):
    """Every claim about one layout: [lines of what the programs said about each other's files]."""
    today = (ROOT / SCHEMA).read_text(encoding="utf-8")
    writes = number(schema, "version") >= number(today, "min_writer")
    said = {}
    writers = [[folder / "out/bin/first_store"]]
    if (folder / "out/bin/quipu").exists():
        writers.append([folder / "out/bin/quipu", "demo"])
    for i, writer in enumerate(writers):
        store = place / str(i) / "store.db"
        run(*writer, store.parent)
        if not (folder / "src/src/front").exists():
            refuse(ours, store)  # entities alone wrote it, before there was a store
            return ["is from before there was a store: read, and not written to"]
        upgrade(ours, store)
        said = reverse(ours, folder / "out/probe", store, writes)
        run(ours, "upgrade", "--checksums", "--store", store)
        seals = writes and number(schema, "version") >= CHECKSUMS
        said["write"] = reverse(ours, folder / "out/probe", store, seals)["write"]
    return [f"to {mode} today's file: {words}" for mode, words in said.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("ours", type=pathlib.Path, help="today's program quipu")
    parser.add_argument("--list", action="store_true", help="show the rows and stop")
    args = parser.parse_args()
    failed = 0
    for _, schema, commits in history():
        name = commits[0][:7]
        if args.list:
            print(git("log", "-1", "--format=%h %s", commits[0]).strip())
            continue
        folder = next(filter(None, map(build, commits[:TRIES])), None)
        try:
            if folder is None:
                raise Broken(f"none of the last {TRIES} commits builds; see {HOME}")
            with tempfile.TemporaryDirectory() as place:
                said = row(args.ours.resolve(), folder, schema, pathlib.Path(place))
            print("\n".join(f"{folder.name[:7]} {line}" for line in said))
            print(f"[       OK ] layout_of_{name}", flush=True)
        except Broken as why:
            failed += 1
            print(f"{why}\n[  FAILED  ] layout_of_{name}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
