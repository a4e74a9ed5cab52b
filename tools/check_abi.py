#!/usr/bin/env python3
"""The ABI that the public headers state against the one kept in abi/*.abi, by libabigail.

For each library a stub is compiled from the headers alone: every listed export with its prototype,
and a function for every public struct, so that the items of slices are seen too. What is inside of
the library does not count. A change is either compatible (new functions, new enumerators, members
at the end of a struct that may grow) and wants --update, or a break, which needs a new soname and
a line in CHANGELOG.md that names it (CONTRIBUTING.md)."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import qptools
from check_symbols import LIBRARIES, read_list

# Layouts that may be members of others and never change (docs/decisions/0023-sized-slices.md).
FINAL = {"quipu_str", "quipu_bytes", "quipu_json", "quipu_time", "quipu_uuid", "quipu_session_ref"}
FINAL |= {"quipu_error", "quipu_arena", "quipu_allocator", "quipu_sink"}
# Descriptors: static constants of generated code, whose padding is zero. A member may take it.
PADDED = {"ent_shown"}
HEADERS = {
    "libquipu": ("quipu/*.h", "ent/*.h"),
    "libquipu-provider": ("quipu/provider.h",),
    "libquipu-server": ("quipu/server.h",),
}
DUMP = ["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs"]
DUMP += ["--type-id-style", "hash"]


def soname(root, library):
    """The soname as CMakeLists.txt makes it: major.minor before 1.0, else major."""
    header = (root / "include/quipu/base.h").read_text(encoding="utf-8")
    version = re.search(r'QUIPU_VERSION_TEXT "(\d+)\.(\d+)', header).groups()
    return f"{library}.so." + (".".join(version) if version[0] == "0" else version[0])


def headers_of(root, library):
    """The public headers of a library, and their text as one."""
    include = root / "include"
    wanted = [p for pattern in HEADERS[library] for p in sorted(include.glob(pattern))]
    if library == "libquipu":
        wanted = [p for p in wanted if p.name not in ("provider.h", "server.h")]
    text = "\n".join(qptools.code_only(p.read_text(encoding="utf-8")) for p in wanted)
    return [p.relative_to(include) for p in wanted], text


def stub(root, library, names):
    """C text that defines every listed function and touches every struct of the headers."""
    headers, text = headers_of(root, library)
    lines = [f"#include <{header}>\n" for header in headers]
    for name in sorted(names):
        pattern = rf"QUIPU_API\s+((?:QUIPU_MUST_USE\s+)?[^;{{}}]*?\b{name}\([^;]*\))\s*;"
        found = re.search(pattern, text)
        if found is not None:
            lines.append(f"{found.group(1)} {{ __builtin_trap(); }}\n")
    structs = set(re.findall(r"^\} ((?:quipu|ent)_\w+);", text, re.M))
    structs |= set(re.findall(r"^QUIPU_SLICE\((\w+),", text, re.M))
    lines += [f"void abi_{name}(const {name} *of) {{ (void)of; }}\n" for name in sorted(structs)]
    return "".join(lines)


def dump(root, library, names, folder):
    """The path of the dump of the headers as they are."""
    source, shared, path = (folder / f"{library}{end}" for end in (".c", ".so", ".abi"))
    source.write_text(stub(root, library, names), encoding="utf-8")
    command = ["gcc", "-std=c11", "-g", "-shared", "-fPIC", "-w", "-I", str(root / "include")]
    command += [str(source), "-o", str(shared), f"-Wl,-soname,{soname(root, library)}"]
    command += [f"-ffile-prefix-map={folder}/="]  # a dump names no folder of the machine
    subprocess.run(command, check=True)
    subprocess.run([*DUMP, "--out-file", str(path), str(shared)], check=True)
    return path


def growth(block, size):
    """Whether a changed struct only got members behind its old end."""
    offsets = re.findall(r"^ +'.*', at offset (\d+) \(in bits\)$", block, re.M)
    size_line = r"type size (?:changed|hasn't changed).*"
    rest = re.sub(rf"^ *({size_line}|\d+ data member insertions?:|'.*', at offset .*)$", "", block,
                  flags=re.M)
    return offsets and all(int(o) >= size for o in offsets) and not rest.strip()


def split_types(report):
    """The leaf changes of abidiff as (kind and name, block of lines)."""
    kinds = "struct|enum|union|class|typedef"
    parts = re.split(rf"^'((?:{kinds}) \w+).*' changed:$", report, flags=re.M)
    return parts[0], list(zip(parts[1::2], parts[2::2]))


def judge(report):
    """Breaks and compatible changes of a leaf report, as two lists of sentences."""
    breaks, changes = [], []
    head, types = split_types(report)
    changes += [f"{name} was added" for name in re.findall(r"^  \[A\] '.*?(\w+)\(.*'", head, re.M)]
    breaks += [f"{name} was removed" for name in re.findall(r"^  \[D\] '.*?(\w+)\(.*'", head, re.M)]
    for name in re.findall(r"^  \[C\] 'function .*?(\w+)\(", head, re.M):
        breaks.append(f"the prototype of {name} changed")
    for name, block in types:
        size = re.search(r"type size changed from (\d+)", block)
        plain = name.split()[1]
        only_new = name.startswith("enum ") and "enumerator deletion" not in block
        only_new = only_new and "enumerator change" not in block
        old_size = int(size.group(1)) if size else 0 if plain in PADDED else None
        if only_new or (old_size is not None and plain not in FINAL and growth(block, old_size)):
            changes.append(f"{name} grew")
        else:
            breaks.append(f"{name} changed: {' '.join(block.split())[:200]}")
    if "SONAME changed" in head or "ELF SONAME" in head:
        changes.append("the soname changed")
    return breaks, changes


def compare(report, root, library, kept, made, update):
    """One library against its dump; --update writes it unless a break lacks its soname."""
    command = ["abidiff", "--leaf-changes-only", "--no-show-locs", str(kept), str(made)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    breaks, changes = judge(result.stdout) if result.returncode != 0 else ([], [])
    if result.returncode & 3:
        report.bad(f"abi/{kept.name}", 0, f"abidiff failed: {result.stderr.strip()}")
        return
    if result.returncode != 0 and not breaks and not changes:
        breaks = [" ".join(result.stdout.split())[:400]]
    now = soname(root, library)
    named = now in (root / "CHANGELOG.md").read_text(encoding="utf-8")
    excused = f"soname='{now}'" not in kept.read_text(encoding="utf-8") and named
    for sentence in [] if excused else breaks:
        report.bad(f"abi/{kept.name}", 0, f"an ABI break: {sentence}; it needs a new soname, and a "
                   "line in CHANGELOG.md that names it")
    if update and (excused or not breaks):
        shutil.copyfile(made, kept)
    elif not breaks or excused:
        for sentence in breaks + changes:
            report.bad(f"abi/{kept.name}", 0, f"{sentence}: run tools/check_abi.py --update")


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--update", action="store_true", help="rewrite the dumps")
    args = parser.parse_args()
    for tool in ("abidw", "abidiff", "gcc"):
        if shutil.which(tool) is None:
            qptools.skip("abi", f"{tool} is not installed")
    report = qptools.Report("abi")
    functions = 0
    with tempfile.TemporaryDirectory() as folder:
        for library, list_name in LIBRARIES:
            names = read_list(args.root / "tools" / list_name)
            if not names:
                continue
            functions += len(names)
            kept = args.root / "abi" / f"{library}.abi"
            made = dump(args.root, library, names, pathlib.Path(folder))
            if kept.exists():
                compare(report, args.root, library, kept, made, args.update)
            elif args.update:
                kept.parent.mkdir(exist_ok=True)
                shutil.copyfile(made, kept)
            else:
                why = "there is no dump: run tools/check_abi.py --update"
                report.bad(f"abi/{library}.abi", 0, why)
    report.finish(f"{functions} functions")


if __name__ == "__main__":
    main()
