#!/usr/bin/env python3
"""Figures of the source under src/, one row a room and one for all: files, lines, comment share,
functions, assertions a function, the longest function and the 95th percentile of their lengths.

Comment share ("comments") = lines that hold a comment, alone or behind code / lines that are not
blank. "alone" counts only the lines without code, as cloc does. A function is what
tools/check_style.py calls one: its length runs from the first line of its signature to the closing
brace. Assertions are calls of assert() and static_assert() in code. Generated files and src/gen are
left out; the limits stand in tools/check_measures.py."""

import math
import re

import check_style
import qptools

ASSERT = re.compile(r"\b(?:static_)?assert\s*\(")
COMMENT = "\x01"  # stands for a character of a comment
LEFT_OUT = "gen"
ALL = "src"


def mark_comment(match):
    """For TOKEN.sub(): comments become marks, literals stay."""
    token = match.group(0)
    return token if token[0] in "\"'" else re.sub(r"[^\n]", COMMENT, token)


class Figures:
    """What was counted in some files."""

    def __init__(self):
        self.files = 0
        self.lines = 0
        self.comments = 0
        self.alone = 0
        self.filled = 0
        self.asserts = 0
        self.lengths = []

    def add(self, text):
        """Count one file."""
        code = qptools.code_only(text).split("\n")
        marked = qptools.TOKEN.sub(mark_comment, text).split("\n")
        self.files += 1
        for line in marked:
            self.filled += bool(line.strip())
            self.comments += COMMENT in line
            self.alone += COMMENT in line and not line.replace(COMMENT, "").strip()
        self.lines += text.count("\n")
        self.asserts += sum(len(ASSERT.findall(line)) for line in code)
        self.lengths += [length for _, _, length, _ in check_style.functions(text)]

    def merge(self, other):
        """Count what another has counted, too."""
        for name in ("files", "lines", "comments", "alone", "filled", "asserts", "lengths"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def comment_share(self):
        return self.comments / self.filled if self.filled else 0.0

    @property
    def alone_share(self):
        return self.alone / self.filled if self.filled else 0.0

    @property
    def asserts_per_function(self):
        return self.asserts / len(self.lengths) if self.lengths else 0.0

    @property
    def longest(self):
        return max(self.lengths, default=0)

    @property
    def p95(self):
        """The smallest length that 95 % of the functions do not exceed."""
        ordered = sorted(self.lengths)
        return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else 0


def measure(root):
    """Figures by room, in the order of their names, and last those of src/ as a whole."""
    rooms = {}
    for path in qptools.files(root, ("*.c", "*.h"), ("src",)):
        room = path.parts[1]
        if len(path.parts) < 3 or room == LEFT_OUT or qptools.is_generated(root, path):
            continue
        text = (root / path).read_text(encoding="utf-8")
        rooms.setdefault(room, Figures()).add(text)
    total = Figures()
    for figures in rooms.values():
        total.merge(figures)
    return {**dict(sorted(rooms.items())), ALL: total}


def main():
    args = qptools.parser(__doc__).parse_args()
    print("room           files   lines  comments   alone  functions  asserts/fn  longest  p95")
    for room, figures in measure(args.root).items():
        print(
            f"{room:<13}{figures.files:>7}{figures.lines:>8}{figures.comment_share:>10.1%}"
            f"{figures.alone_share:>8.1%}"
            f"{len(figures.lengths):>11}{figures.asserts_per_function:>12.2f}"
            f"{figures.longest:>9}{figures.p95:>5}"
        )


if __name__ == "__main__":
    main()
