#!/usr/bin/env python3
"""Includes obey layers.txt: a room includes only the rooms it may, written "room/file.h"; nobody
includes another room's *_internal.h; sqlite3.h, libpq-fe.h and SQL text stay in their rooms; the
SQL of ent_postgres keeps to what other servers of its protocol have, too."""

import re

import qptools

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^">]+)[">]', re.M)
HOMES = {
    "sqlite3.h": ("src/ent_sqlite/", "entgen/", "tests/", "bench/"),
    "libpq-fe.h": ("src/ent_postgres/", "tests/", "bench/"),
}
# Outside of the portable subset: docs/scale.md says why.
SERVER_ONLY = re.compile(
    r"\b(sequence|(big|small)?serial|nextval|trigger|listen|notify|pg_(try_)?advisory\w*|temp"
    r"|temporary|deferrable|prepare\s+transaction|tsvector|tsquery|ts_\w+|gin|gist"
    r"|policy|row\s+level\s+security|set_config|current_setting"
    r"|create\s+(or\s+replace\s+)?(function|procedure|extension))\b"
    r"|(^|;)\s*set\s+(?!local\b|null\b)",
    re.I,
)
# What is a capability of PostgreSQL and no part of the subset: full text, row security, Citus.
CAPABILITIES = (
    "src/ent_postgres/search.c",
    "src/ent_postgres/row_security.c",
    "src/ent_postgres/citus.c",
)
SQL = re.compile(
    r"\bselect\b.+\bfrom\b|\binsert\s+(or\s+\w+\s+)?into\b|\bupdate\s+\S+\s+set\b|\bdelete\s+from\b"
    r"|\b(create|alter|drop)\s+((unique|temp|temporary|virtual)\s+)?(table|index|trigger|view)\b"
    r"|^\s*pragma\s+\w|\bbegin\s+(immediate|exclusive|deferred|transaction)\b"
    r"|^\s*(release\s+)?savepoint\s+\w",
    re.I | re.S,
)


def read_layers(path):
    """{room: set of rooms it may include, itself too}, checked to be acyclic by order."""
    layers = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        room, _, allowed = line.partition(":")
        names = set(layers) if allowed.strip() == "(all)" else set(allowed.split())
        unknown = names - set(layers)
        if unknown:
            raise SystemExit(f"layers.txt: {room} names {sorted(unknown)}, not above it")
        layers[room] = names | {room}
    return layers


def allowed_rooms(path, layers):
    """The rooms a file may include, or None for "all of them"."""
    top, second = path.parts[0], path.parts[1] if len(path.parts) > 2 else ""
    if top == "src":
        return layers.get(second, set())
    if top == "entgen" or (top == "tests" and second == "entgen"):
        return {"base", "ent", "ent_sqlite"}
    if top == "tests" and second in layers:
        return layers[second]
    if top in ("tests", "bench"):
        return None
    return set()  # include, apps, examples: public headers only


def check_include(report, path, line, quote, name, layers):
    """One include directive."""
    room, _, rest = name.partition("/")
    if name in HOMES:
        if not str(path).startswith(HOMES[name]):
            report.bad(path, line, f"{name} stays in {', '.join(HOMES[name])}")
        return
    if path.parts[:2] == ("src", "gen") and quote == '"' and not rest:
        return  # generated code includes its own header, wherever it is put
    if path.parts[0] == "src" and quote == '"' and (not rest or ".." in name or room not in layers):
        report.bad(path, line, f'"{name}": write the include as "room/file.h"')
        return
    if quote != '"' or room not in layers or not rest:
        return
    allowed = allowed_rooms(path, layers)
    if allowed is not None and room not in allowed:
        report.bad(path, line, f'"{name}": layers.txt does not allow {path.parent} to use {room}')
    home = path.parts[1] if path.parts[0] in ("src", "tests") and len(path.parts) > 2 else ""
    if name.endswith("_internal.h") and home != room:
        report.bad(path, line, f'"{name}" is internal to the room {room}')


def check_sql(report, path, text):
    """SQL text lives in src/ent* (and in tools, tests and bench, which are not the library)."""
    in_library = path.parts[0] in ("src", "include", "apps", "examples")
    if not in_library or (path.parts[0] == "src" and path.parts[1].startswith("ent")):
        return
    for line, inside in qptools.strings(text):
        if SQL.search(inside):
            report.bad(path, line, f'SQL text outside src/ent*: "{inside[:40]}"')


def check_portable(report, path, text):
    """SQL for the server engine: tables, btree indexes, upserts, RETURNING, CTEs and no more."""
    if path.parts[:2] != ("src", "ent_postgres") or str(path) in CAPABILITIES:
        return
    for line, inside in qptools.strings(text):
        found = SERVER_ONLY.search(inside)
        if found:
            report.bad(path, line, f'"{found.group(0)}" is outside of the portable SQL subset')


def main():
    args = qptools.parser(__doc__).parse_args()
    layers = read_layers(args.root / "layers.txt")
    report = qptools.Report("layers")
    paths = qptools.c_files(args.root)
    for path in paths:
        if path.parts[0] == "src" and (len(path.parts) < 3 or path.parts[1] not in layers):
            report.bad(path, 1, "not in a room of layers.txt")
            continue
        text = (args.root / path).read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            check_include(report, path, line, match.group(1), match.group(2), layers)
        check_sql(report, path, text)
        check_portable(report, path, text)
    report.finish(f"{len(paths)} files, {len(layers)} rooms")


if __name__ == "__main__":
    main()
