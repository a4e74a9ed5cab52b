#!/usr/bin/env python3
"""Every exported function has a doc comment with Ownership, Threads, Errors and Since; Errors names
known statuses only; Since agrees with tools/symbols.txt; the programs have manual pages."""

import re

import qptools

LINES = ("Ownership", "Threads", "Errors", "Since")
DECLARATION = re.compile(r"^(?:QUIPU|ENT)_API\b[^;{]*?\b(\w+)\s*\(", re.M)


def statuses(root):
    """The codes of QUIPU_STATUS_MAP."""
    header = (root / "include/quipu/base.h").read_text(encoding="utf-8")
    return {f"QUIPU_{name}" for name in re.findall(r"\bX\((\w+), -?\d+,", header)}


def since_list(root):
    """tools/symbols.txt as {name: since}."""
    path = root / "tools/symbols.txt"
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


def main():
    args = qptools.parser(__doc__).parse_args()
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
    report.finish(f"{count} exported functions")


if __name__ == "__main__":
    main()
