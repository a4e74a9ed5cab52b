#!/usr/bin/env python3
"""Every exported function has a doc comment with Ownership, Threads, Errors and Since; Errors names
known statuses only; Since agrees with tools/symbols.txt; the programs have manual pages. Every file
under docs/ is listed in docs/README.md, each relative link of a page leads to a file, and each path
of the repository and each function of quipu, name(), that a page or a comment cites exists.
quipu(3) lists every exported quipu_ function, names no function that does not exist, explains every
status, and shows the first program of docs/guide.md. docs/logging.md has every event of the log."""

import posixpath
import re

import qptools
from check_symbols import LIBRARIES

LINES = ("Ownership", "Threads", "Errors", "Since")
DECLARATION = re.compile(r"^(?:QUIPU|ENT)_API\b[^;{]*?\b(\w+)\s*\(", re.M)
INLINE = re.compile(r"^(?:QUIPU_MUST_USE )?static inline\b[^;{]*?\b(quipu_\w+)\s*\(", re.M)
PAGE = "docs/man/quipu.3"

INDEX = "docs/README.md"
EVENTS = "docs/logging.md"
EVENT = re.compile(r'QP_LOG\([^;"]*?QUIPU_LOG_\w+,\s*"\w+",\s*"(\w+)"')
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```|^(?: {4}|\t)[^\n]*", re.M | re.S)
# A path below one of our folders; a pattern or a shell variable is no path.
CITED = re.compile(
    r"(?<![\w/.$<-])((?:apps|bench|bindings|cmake|docs|entgen|examples|include|schema|src|tests"
    r"|tools)/[\w./-]*\w)(?![\w*<$%{(]|/?[*<$%{])"
)
# The bare name of a C source or header, in comments of C and on the pages that lead to files.
NAMED = re.compile(r"(?<![\w/.$<*-])([a-z][a-z0-9]*(?:_[a-z0-9]+)*\.[ch])(?![\w*(-]|\.[\w*])")
NAMES_IN = re.compile(
    r"(?:src|include|apps|entgen|tests|bench)/.*\.[ch]|(?:ARCHITECTURE|CONTRIBUTING)\.md"
)
ELSEWHERE = {"sqlite3.h"}  # of a library
# A function of quipu in a comment or on a page.
FUNCTION = re.compile(r"(?<![\w*<$])((?:qp|quipu|ent)_[a-z0-9]\w*)\(\)")
PAST = {"CHANGELOG.md"}  # names what was there before
IDENTIFIER = re.compile(r"\b(?:qp|quipu|ent)_[a-z0-9]\w*")
# Folders of notes that were never part of the repository.
OUTSIDE = re.compile(r"(?<![\w/])(?:contracts|seeds|design)/[\w.-]*")


def statuses(root):
    """The codes of QUIPU_STATUS_MAP."""
    header = (root / "include/quipu/base.h").read_text(encoding="utf-8")
    return {f"QUIPU_{name}" for name in re.findall(r"\bX\((\w+), -?\d+,", header)}


def since_list(root, name="symbols.txt"):
    """tools/symbols.txt, or another list, as {name: since}."""
    path = root / "tools" / name
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def comment_before(text, position):
    """The doc comment that ends right before a declaration, or None."""
    before = text[:position].rstrip()
    if not before.endswith("*/"):
        return None
    start = before.rfind("/**")
    return before[start:] if start >= 0 and "*/" not in before[start:-2] else None


def check_comment(report, path, line, name, comment, known, since):
    """One exported function's comment."""
    if comment is None:
        report.bad(path, line, f"{name} has no doc comment")
        return
    fields = {}
    for field in LINES:
        match = re.search(rf"^ \* {field}:\s+(.*?)(?=^ \* \w+:|\*/)", comment, re.M | re.S)
        if match is None:
            report.bad(path, line, f"{name}: no {field} line")
        else:
            fields[field] = re.sub(r"\s+\*?\s*", " ", match.group(1)).strip()
    for code in re.findall(r"\bQUIPU_[A-Z_]+\b", fields.get("Errors", "")):
        if code not in known:
            report.bad(path, line, f"{name}: Errors names {code}, which is no status")
    if "Since" in fields and name in since and fields["Since"].rstrip(".") != since[name]:
        report.bad(path, line, f"{name}: Since differs from tools/symbols.txt ({since[name]})")


def exists(root, page, path):
    """Whether a cited path exists, from the root or from a folder above the page; a source may be
    cited without its suffix, a decision by its number."""
    for folder in (root, *(root / parent for parent in page.parents)):
        target = folder / path
        if target.exists() or any(target.parent.glob(target.name + "[.-]*")):
            return True
    return False


def titles(root):
    """The rows of the index for the decisions, from the pages themselves."""
    rows = []
    for path in sorted((root / "docs/decisions").glob("*.md")):
        number, title = re.match(r"# (\d+)\. (.+)", path.read_text(encoding="utf-8")).groups()
        rows.append(f"| {number} | [{title}](decisions/{path.name}) |\n")
    return rows


def check_index(root, report, fix):
    """docs/README.md links to every page under docs/, to decisions by their titles."""
    index = root / INDEX
    if not index.exists():
        return
    text = index.read_text(encoding="utf-8")
    rows = "".join(titles(root))
    if rows not in text and fix:
        text = re.sub(r"(?:^\| \d+ \| \[.*\n)+", lambda _: rows, text, count=1, flags=re.M)
        index.write_text(text, encoding="utf-8")
    if rows not in text:
        report.bad(INDEX, 0, "the decisions are not listed by their titles; run it with --fix")
    links = set(LINK.findall(text))
    for path in qptools.files(root, ("*.md", "*.1", "*.3"), ("docs",)):
        if str(path) != INDEX and posixpath.relpath(str(path), "docs") not in links:
            report.bad(path, 0, f"is not listed in {INDEX}")


def prose(text):
    """A page with its blocks of code blanked; positions stay the same."""
    return FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def check_links(root, path, text, report):
    """The relative links of one page, outside of code."""
    for match in LINK.finditer(prose(text)):
        target = match.group(1).split("#")[0]
        if re.match(r"\w+:", match.group(1)) or not target:
            continue
        if not (root / posixpath.normpath(posixpath.join(str(path.parent), target))).exists():
            line = text.count("\n", 0, match.start()) + 1
            report.bad(path, line, f"the link {match.group(1)} leads nowhere")


def comments(path, text):
    """(offset, text) of what people read in a file: a page as a whole, of code the comments."""
    if path.suffix in (".c", ".h", ".go"):
        found = re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.S)
        return [(match.start(), match.group()) for match in found]
    if path.suffix in (".py", ".sh", ".ent"):
        return [(m.start(), m.group()) for m in re.finditer(r"(?:^|(?<=\s))#[^\n]*", text, re.M)]
    return [(0, prose(text))]


def identifiers(root):
    """The names with our prefixes in C code, where what is called is declared, or does not compile,
    and the functions of CMake's files."""
    found = set()
    for path in qptools.files(root, ("*.cmake", "*.cmake.in", "CMakeLists.txt")):
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        found.update(re.findall(r"^\s*function\((\w+)", text, re.M))
    for path in qptools.c_files(root):
        code = qptools.code_only((root / path).read_text(encoding="utf-8", errors="replace"))
        found.update(IDENTIFIER.findall(code))
    return found


def check_cited(root, path, text, known, report):
    """Files and functions that a page or a comment cites; `known`: names of those that exist."""
    names, functions = known
    for start, part in comments(path, text):
        for match in FUNCTION.finditer(part) if str(path) not in PAST else ():
            if match.group(1) not in functions:
                line = text.count("\n", 0, start + match.start()) + 1
                report.bad(path, line, f"cites {match.group()}, which does not exist")
        for match in NAMED.finditer(part) if NAMES_IN.fullmatch(str(path)) else ():
            if match.group(1) not in names:
                line = text.count("\n", 0, start + match.start()) + 1
                report.bad(path, line, f"cites {match.group(1)}, which does not exist")
        for match in CITED.finditer(part):
            if not exists(root, path, match.group(1)):
                line = text.count("\n", 0, start + match.start()) + 1
                report.bad(path, line, f"cites {match.group(1)}, which does not exist")
        for match in OUTSIDE.finditer(part):
            line = text.count("\n", 0, start + match.start()) + 1
            report.bad(path, line, f"cites {match.group()}, which is not in the repository")


def check_pages(root, report, fix):
    """Index, links and cited paths; returns how many files were read."""
    check_index(root, report, fix)
    paths = qptools.files(root, ("*.md", "*.c", "*.h", "*.go", "*.py", "*.sh", "*.ent", "*.1"))
    known = ({path.name for path in paths} | ELSEWHERE, identifiers(root))
    for path in paths:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".md":
            check_links(root, path, text, report)
        check_cited(root, path, text, known, report)
    return len(paths)


def inline_functions(root):
    """The functions that the headers define themselves."""
    headers = qptools.files(root, ("*.h",), ("include",))
    texts = [(root / path).read_text(encoding="utf-8") for path in headers]
    return {name for text in texts for name in INLINE.findall(text)}


def check_example(report, root, page):
    """The example of quipu(3) is the first program of the guide."""
    guide = root / "docs/guide.md"
    text = guide.read_text(encoding="utf-8") if guide.exists() else ""
    program = re.search(r"^```c\n(.*?)^```$", text, re.M | re.S)
    shown = re.search(r"^\.Bd -literal\n(.*?)^\.Ed$", page, re.M | re.S)
    plain = shown.group(1).replace("\\-", "-").replace("\\e", "\\") if shown else None
    if plain != (program.group(1) if program else None):
        report.bad(PAGE, 0, "the example is not the first program of docs/guide.md")


def check_library_page(report, root, known):
    """quipu(3) against the export lists, the statuses and the guide."""
    lists = [since_list(root, name) for _, name in LIBRARIES]
    exported = {name for one in lists for name in one if name.startswith("quipu_")}
    path = root / PAGE
    if not path.exists():
        if exported:
            report.bad(PAGE, 0, "the library has no manual page")
        return
    page = path.read_text(encoding="utf-8")
    for name in sorted(exported - set(re.findall(r"^\.It Fn (quipu_\w+)", page, re.M))):
        report.bad(PAGE, 0, f"{name} is exported and not listed")
    real = exported | inline_functions(root)
    for number, line in enumerate(page.splitlines(), 1):
        for name in re.findall(r"\bFn (quipu_\w+)", line):
            if name not in real:
                report.bad(PAGE, number, f"there is no function {name}")
    for status in sorted(known - set(re.findall(r"\bQUIPU_[A-Z_]+\b", page))):
        report.bad(PAGE, 0, f"{status} is not explained")
    check_example(report, root, page)


def check_events(report, root):
    """The events that the library logs are in the guide."""
    path = root / EVENTS
    known = set(re.findall(r"`(\w+)`", path.read_text(encoding="utf-8"))) if path.exists() else ()
    for source in qptools.files(root, ("*.c",), ("src",)):
        text = (root / source).read_text(encoding="utf-8")
        for match in EVENT.finditer(text):
            if match.group(1) not in known:
                line = text.count("\n", 0, match.start()) + 1
                report.bad(source, line, f"the event {match.group(1)} is not in {EVENTS}")


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--fix", action="store_true", help="write the titles of decisions")
    args = parser.parse_args()
    report = qptools.Report("docs")
    known = statuses(args.root)
    since = since_list(args.root)
    count = 0
    for path in qptools.files(args.root, ("*.h",), ("include",)):
        text = (args.root / path).read_text(encoding="utf-8")
        for match in DECLARATION.finditer(text):
            count += 1
            line = text.count("\n", 0, match.start()) + 1
            comment = comment_before(text, match.start())
            check_comment(report, path, line, match.group(1), comment, known, since)
    for folder, page in (("entgen", "entgen.1"), ("apps/quipu", "quipu.1")):
        if any((args.root / folder).glob("*.c")) and not (args.root / "docs/man" / page).exists():
            report.bad(f"docs/man/{page}", 0, f"{folder} has no manual page")
    check_library_page(report, args.root, known)
    check_events(report, args.root)
    pages = check_pages(args.root, report, args.fix)
    report.finish(f"{count} exported functions, {pages} files")


if __name__ == "__main__":
    main()
