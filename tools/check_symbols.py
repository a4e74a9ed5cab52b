#!/usr/bin/env python3
"""Each library exports exactly its list (tools/symbols*.txt), all of it quipu_* or ent_*, and every
other global of the static library is qp_*. Each quipu_* export is called by a user, among the
programs, the bindings, the examples and the README, and there are at most QUIPU_MAX of them. With
--update the lists are rewritten from what the libraries define."""

import re
import subprocess

import qptools

PUBLIC = ("quipu_", "ent_")
QUIPU_MAX = 95  # quipu_* exports of all libraries
USERS = ("apps", "bindings", "examples", "src/base/shared", "src/mcp", "src/provider", "README.md")
LIBRARIES = (
    ("libquipu", "symbols.txt"),
    ("libquipu-provider", "symbols_provider.txt"),
    ("libquipu-server", "symbols_server.txt"),
)
C_BLOCK = re.compile(r"^```c\n(.*?)^```", re.M | re.S)
LOADED = re.compile(r'"(quipu_\w+)"\s*[,:]\s*&(?:\w+\.)?(\w+)')  # a name, and where it is put
HEAD = """\
# Every exported function and the minor version it came with ("name since"); the linker map is
# made from it. tools/check_symbols.py --update rewrites it; a removed line is an ABI break.
"""


def read_elf(path, dynamic):
    """Defined global symbols as {name: visibility}."""
    table = "--dyn-syms" if dynamic else "--syms"
    output = subprocess.run(
        ["readelf", table, "-W", str(path)], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in output.splitlines():
        cells = line.split()
        if len(cells) < 8 or not re.fullmatch(r"\d+:", cells[0]):
            continue
        kind, bind, visibility, section, name = cells[3:8]
        if bind not in ("GLOBAL", "WEAK") or section in ("UND", "ABS"):
            continue
        if kind in ("FUNC", "OBJECT", "TLS", "IFUNC", "NOTYPE"):
            found[name.split("@")[0]] = visibility
    return found


def read_list(path):
    """tools/symbols.txt as {name: since}."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def user_code(root):
    """What the library's users are made of: C and Go without their tests, C of pages' examples."""
    for user in USERS:
        path = root / user
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            is_test = {"test", "tests"} & set(file.relative_to(root).parts)
            is_test = is_test or file.name.endswith("_test.go")
            if file.suffix in (".c", ".h", ".go") and not is_test:
                yield file.read_text(encoding="utf-8")
            elif file.suffix == ".md":
                yield "\n".join(C_BLOCK.findall(file.read_text(encoding="utf-8")))


def used_names(root):
    """Every quipu_* that a user calls. Comments and texts are no calls; a function that is loaded
    by its name counts when what it was loaded into is called."""
    texts = list(user_code(root))
    code = [qptools.code_only(text) for text in texts]
    found = set(re.findall(r"\b(quipu_\w+)\s*\(", "\n".join(code)))
    called = set(re.findall(r"\b(\w+)\s*\(|(?<!&)\bCall\.(\w+)", "\n".join(code)))
    called = {name for pair in called for name in pair if name}
    for text in texts:
        found.update(name for name, into in LOADED.findall(text) if into in called)
    return found


def check_users(report, root):
    """No quipu_* export without a user, and not too many of them; gives how many there are."""
    used = used_names(root)
    names = []
    for _, list_name in LIBRARIES:
        listed = read_list(root / "tools" / list_name)
        names += [name for name in listed if name.startswith("quipu_")]
        for name in sorted(set(names) & set(listed) - used):
            report.bad(f"tools/{list_name}", 0, f"{name} is called by none of {', '.join(USERS)}")
    if len(names) > QUIPU_MAX:
        report.bad("tools/symbols.txt", 0, f"{len(names)} quipu_* exports; at most {QUIPU_MAX}")
    return len(names)


def version_minor(root):
    """The version a new symbol comes with."""
    header = (root / "include/quipu/base.h").read_text(encoding="utf-8")
    return re.search(r'QUIPU_VERSION_TEXT "(\d+\.\d+)', header).group(1)


def check_library(report, root, build, library, list_path, update):
    """One library against its list; gives (exports, internal globals)."""
    static = read_elf(build / f"{library}.a", dynamic=False)
    visible = {name for name, visibility in static.items() if visibility == "DEFAULT"}
    listed = read_list(list_path)
    where = f"tools/{list_path.name}"
    if update:
        since = version_minor(root)
        lines = [f"{name} {listed.get(name, since)}\n" for name in sorted(visible)]
        list_path.write_text(HEAD + "".join(lines), encoding="utf-8")
        listed = read_list(list_path)
        print(f"symbols: wrote {len(lines)} names of {library}; configure and build again")
    for name in sorted(static):
        if name in visible and not name.startswith(PUBLIC):
            report.bad(f"{library}.a", 0, f"{name} is visible but is neither quipu_* nor ent_*")
        if name not in visible and not name.startswith("qp_"):
            report.bad(f"{library}.a", 0, f"{name} is a hidden global but not qp_*")
    for name in sorted(visible - set(listed)):
        report.bad(where, 0, f"{name} is exported but not listed: run --update")
    for name in sorted(set(listed) - visible):
        report.bad(where, 0, f"{name} is listed but the library does not define it")
    if not update:
        exports = read_elf(build / f"{library}.so", dynamic=True)
        for name in sorted(set(exports) ^ set(listed)):
            report.bad(f"{library}.so", 0, f"{name} is exported or listed, but not both")
    return len(visible), len(static) - len(visible)


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--build", default="build/debug", help="where the libraries were built")
    parser.add_argument("--update", action="store_true", help="rewrite the lists")
    args = parser.parse_args()
    build = args.root / args.build
    if not (build / "libquipu.a").exists():
        if not any((args.root / "src").glob("*/*.c")):
            qptools.nothing("symbols", "no sources")
        qptools.skip("symbols", f"build {args.build} first")
    report = qptools.Report("symbols")
    counts = [
        check_library(report, args.root, build, library, args.root / "tools" / name, args.update)
        for library, name in LIBRARIES
        if (build / f"{library}.a").exists()
    ]
    exports, internal = (sum(column) for column in zip(*counts))
    quipu = check_users(report, args.root)
    report.finish(f"{exports} exports ({quipu} quipu_*), {internal} internal globals")


if __name__ == "__main__":
    main()
