#!/usr/bin/env python3
"""The tables of docs/traceability name tests that exist, or say "open". requirements.md has the 48
scenarios that the project was asked for, 27 rows of Lango's tests and 21 of its faults;
lango-tests.md covers Lango's model adapter, adk-rules.md the session service, integrity.md what
verify promises, recall.md search, python.md the Python package, memory.md workers and prompts,
server.md rights, attacks and limits, scale.md distributed stores, api.md the public headers.
Rows are `| scenario | tests/x/test_y.c:name, ... |`; tests of the bindings are named with their
folders, figures as bench/bars.txt:name."""

import re

import qptools

SCENARIOS = 107
PAGE = "docs/traceability/requirements.md"
MORE = ("docs/traceability/lango-tests.md", "docs/traceability/adk-rules.md",
        "docs/traceability/integrity.md", "docs/traceability/recall.md",
        "docs/traceability/encryption.md",
        "docs/traceability/python.md", "docs/traceability/memory.md",
        "docs/traceability/go-node.md", "docs/traceability/server.md",
        "docs/traceability/cli.md", "docs/traceability/scale.md",
        "docs/traceability/api.md")
WHERE = "tests|bindings/python/tests|bindings/go|bindings/node|bench"
TEST = re.compile(rf"^`?((?:{WHERE})/[\w./-]+):([\w.]+)`?$")


def rows(text):
    """(line, scenario, tests) of every two-cell table row that is not a head or a rule."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.strip().startswith("|") or len(cells) != 2:
            continue
        if set(cells[0]) <= set("-: ") or cells[0].lower() in ("scenario", "rule"):
            continue
        found.append((number, cells[0], cells[1]))
    return found


def defines(path, name):
    """Whether the file defines the named test."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".c":
        return re.search(rf"^(static )?\w+ {name}\(", text, re.M) is not None
    if path.suffix == ".py":
        return re.search(rf"^\s*(async )?def {name}\(", text, re.M) is not None
    if path.suffix in (".js", ".mjs"):  # a title, or how it begins; a bar of a bench
        title = f"test\\(['\"]{re.escape(name.replace('_', ' '))}"
        return re.search(rf"{title}|^const {name} = \d", text, re.M) is not None
    if path.name == "bars.txt":
        return re.search(rf"^{re.escape(name)} +(max|min) ", text, re.M) is not None
    return re.search(rf"\b{name}\b", text) is not None


def check_page(root, page, report):
    """Check the rows of one page; (their names, how many are open)."""
    table = rows((root / page).read_text(encoding="utf-8"))
    is_open = 0
    for line, _, tests in table:
        if tests.strip("`* ").lower() == "open":
            is_open += 1
            continue
        for entry in tests.split(","):
            match = TEST.match(entry.strip())
            if match is None:
                report.bad(page, line, f'"{entry.strip()}" is not tests/file:name')
            elif not (root / match.group(1)).is_file():
                report.bad(page, line, f"{match.group(1)} does not exist")
            elif not defines(root / match.group(1), match.group(2)):
                report.bad(page, line, f"{match.group(0)}: no such test")
    names = [scenario for _, scenario, _ in table]
    for name in sorted({n for n in names if names.count(n) > 1}):
        report.bad(page, 0, f'"{name}" is listed twice')
    return names, is_open


def main():
    args = qptools.parser(__doc__).parse_args()
    report = qptools.Report("requirements")
    if not (args.root / PAGE).exists():
        report.bad(PAGE, 0, "does not exist")
        report.finish("0 scenarios")
    names, is_open = check_page(args.root, PAGE, report)
    if len(names) != SCENARIOS:
        report.bad(PAGE, 0, f"{len(names)} scenarios, expected {SCENARIOS}")
    for page in MORE:
        if (args.root / page).exists():
            more, waiting = check_page(args.root, page, report)
            names, is_open = names + more, is_open + waiting
    report.finish(f"{len(names)} scenarios, {is_open} open")


if __name__ == "__main__":
    main()
