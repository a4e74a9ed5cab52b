#!/usr/bin/env python3
"""Writes src/ent/words_table.c: which characters stand between words, and how those of words are
folded. Asks SQLite's unicode61 about every character, because stores have always been indexed by
it; tests/ent_sqlite/test_tokenizer.c does the same and compares."""

import sqlite3
import subprocess

import qptools

HEAD = """\
/* What is no part of a word, and how the characters of words are folded. Written by
 * tools/make_words.py; the rules are those of SQLite's unicode61 with remove_diacritics 2.
 * Owns: constant data, for words.c; no lock. It decides which words existing indexes have:
 * changing it needs a new tokenizer's name. */
#include "ent/words.h"

"""


def ask():
    """{point: what is left of it inside of a word, None: it ends the word}, and those that start
    one."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='unicode61 remove_diacritics 2')")
    db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
    points = [p for p in range(0x80, 0x110000) if not 0xD800 <= p <= 0xDFFF]
    for at, text in enumerate(("{}", "a{}a")):
        rows = ((2 * p + at, text.format(chr(p))) for p in points)
        db.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", rows)
    terms = {}
    for term, row, _, _ in db.execute("SELECT * FROM v"):
        terms.setdefault(row, []).append(term)
    inside = {p: terms[2 * p + 1][0][1:-1] if len(terms[2 * p + 1]) == 1 else None for p in points}
    return inside, {p for p in points if 2 * p in terms}


def ranges(points):
    """Neighbours together: [[low, how many follow, whether they are marks]]."""
    found = []
    for point, mark in sorted(points):
        if found and sum(found[-1][:2]) == point - 1 and found[-1][2] == mark:
            found[-1][1] += 1
        else:
            found.append([point, 0, mark])
    return found


def runs(folds):
    """Folds of neighbours, or of every second one, by as much; or of neighbours to one letter,
    which are 0 apart: [[from, count, apart, to]]."""
    found = []
    for point, to in folds:
        start, count, apart, target = found[-1] if found else (point, 0, 1, to)
        way = point - start
        ways = (0, 1, 2) if count == 1 else (apart,)
        fits = [w for w in ways if way == count * (w or 1) and to == target + (way if w else 0)]
        if count and fits:
            found[-1][1:3] = [count + 1, fits[0]]
        else:
            found.append([point, 1, 1, to])
    return found


def table(kind, name, rows):
    """One array of structs, and its length."""
    items = ", ".join("{" + ", ".join(hex(value) for value in row) + "}" for row in rows)
    return (
        f"const {kind} {name}[] = {{{items}}};\n"
        f"const size_t {name}_count = sizeof({name}) / sizeof({name}[0]);\n\n"
    )


def main():
    args = qptools.parser(__doc__).parse_args()
    inside, starts = ask()
    gaps = [(p, 0) for p in inside if inside[p] is None]
    marks = [(p, 1) for p in inside if inside[p] is not None and p not in starts]
    folds = [(p, ord(to)) for p, to in inside.items() if to and p in starts and ord(to) != p]
    if any(inside[p] for p, _ in marks) or any(inside[p] == "" for p in starts):
        raise SystemExit("a mark is kept, or a letter is left out")
    text = HEAD
    text += table("qp_word_gap", "qp_word_gaps", ranges(gaps + marks))
    text += table("qp_word_fold", "qp_word_folds", runs(folds))
    path = args.root / "src/ent/words_table.c"
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    subprocess.run(["clang-format-19", "-i", str(path)], check=True)


if __name__ == "__main__":
    main()
