#!/usr/bin/env python3
"""Write the amalgamation: quipu.h, every public header in one, and quipu.c, every room of libquipu
in one file that needs SQLite and threads alone:

    cc -c quipu.c        then link with -lsqlite3 -lpthread -lm

Static functions carry their file's name and macros of a .c file end with it, so that the files do
not meet. Rooms of other libraries (providers, servers) and those that need one (PostgreSQL)
stay out."""

import argparse
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
APART = ("net", "provider", "remote", "ent_postgres", "http", "mcp", "server")
APART_HEADERS = ("include/quipu/provider.h", "include/quipu/server.h")

INCLUDE = re.compile(r'^#include\s+(?:"([^"]+)"|<((?:quipu|ent)/[^>]+)>)')
DEFINE = re.compile(r"^#\s*define\s+(\w+)")


class Writer:
    """Lines of one output file; a header is written where it is first asked for."""

    def __init__(self):
        self.lines = []
        self.seen = set()

    def file(self, path):
        """The file with our headers in place of their #include; gives the macros of its own."""
        name = path.relative_to(ROOT)
        self.seen.add(path)
        self.lines.append(f"/* ---- {name} ---- */")
        macros = []
        for line in path.read_text(encoding="utf-8").splitlines():
            found = INCLUDE.match(line)
            if found:
                self.header(resolve(found, path.parent))
                continue
            macro = DEFINE.match(line)
            if macro:
                macros.append(macro.group(1))
            self.lines.append(line)
        return macros

    def header(self, path):
        if path not in self.seen:
            self.file(path)

    def source(self, path):
        for macro in dict.fromkeys(self.file(path)):
            self.lines.append(f"#undef {macro}")

    def write(self, path):
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def resolve(found, beside):
    """The file behind an #include of our own; generated code names the header beside it."""
    own, public = found.groups()
    places = [ROOT / "include" / public] if public else [ROOT / "src" / own, beside / own]
    for path in places:
        if path.exists():
            return path
    raise SystemExit(f"amalgamate: no file for {found.group(0)}")


def public_headers():
    """Every public header, the vocabulary first."""
    first = ROOT / "include/quipu/base.h"
    others = sorted(ROOT.glob("include/*/*.h"))
    apart = {ROOT / name for name in APART_HEADERS}
    return [first] + [path for path in others if path != first and path not in apart]


def rooms():
    """The rooms of layers.txt, low to high, without those apart."""
    lines = (ROOT / "layers.txt").read_text(encoding="utf-8").splitlines()
    names = [line.split(":")[0] for line in lines if line and not line.startswith("#")]
    return [name for name in names if name not in APART]


def head(name):
    version = re.search(
        r'QUIPU_VERSION_TEXT "([^"]+)"', (ROOT / "include/quipu/base.h").read_text("utf-8")
    )
    return f"/* {name} of quipu {version.group(1)}, made by tools/amalgamate.py: do not edit. */"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="where quipu.c and quipu.h go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    header = Writer()
    guard = "QUIPU_AMALGAMATION_H"
    header.lines += [head("quipu.h"), f"#ifndef {guard}", f"#define {guard}"]
    for path in public_headers():
        header.header(path)
    header.lines.append("#endif")
    header.write(folder / "quipu.h")

    source = Writer()
    source.seen |= header.seen
    source.lines += [
        head("quipu.c"),
        "/* Strict ISO C hides POSIX. */",
        "#ifndef _POSIX_C_SOURCE",
        "#define _POSIX_C_SOURCE 200809L",
        "#endif",
        "#ifndef _DEFAULT_SOURCE",
        "#define _DEFAULT_SOURCE 1",
        "#endif",
        "#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)",
        "#define _DARWIN_C_SOURCE 1",
        "#endif",
        "/* Generated code offers more calls than the library needs. */",
        "#ifdef __clang__",
        '#pragma clang diagnostic ignored "-Wunused-function"',
        "#endif",
        '#include "quipu.h"',
    ]
    for room in rooms():
        for path in sorted((ROOT / "src" / room).glob("*.c")):
            source.source(path)
    source.write(folder / "quipu.c")
    print(f"{folder}/quipu.c: {len(source.lines)} lines, quipu.h: {len(header.lines)} lines")


if __name__ == "__main__":
    main()
