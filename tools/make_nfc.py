#!/usr/bin/env python3
"""Writes src/ent/nfc_table.c: Unicode's canonical decompositions and combining classes, from
Python's unicodedata. tests/ent/test_nfc.c has vectors that --vectors prints."""

import random
import subprocess
import sys
import unicodedata

import qptools

HEAD = """\
/* Canonical decompositions and combining classes of Unicode {version}, for nfc.c. Written by
 * tools/make_nfc.py.
 * Owns: constant data; no lock. A new version of Unicode would change words of existing indexes:
 * see decision 38 before it is generated again. */
#include "ent/nfc.h"

"""
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
POINTS = [p for p in range(0x80, 0x30000) if not 0xD800 <= p <= 0xDFFF and p not in HANGUL]


def decomposition(point):
    """The one or two characters that a character is canonically equal to, or None."""
    text = unicodedata.decomposition(chr(point))
    return [int(part, 16) for part in text.split()] if text and text[0] != "<" else None


def pairs():
    """[(composite, first, second or 0, whether NFC leaves it decomposed)], by composite."""
    found = []
    for point in POINTS:
        parts = decomposition(point)
        if parts:
            kept = unicodedata.normalize("NFC", chr(point)) == chr(point)
            found.append((point, parts[0], parts[1] if len(parts) > 1 else 0, int(not kept)))
    return found


def classes():
    """Neighbours of one combining class together: [[low, how many follow, class]]."""
    found = []
    for point in POINTS:
        number = unicodedata.combining(chr(point))
        if not number:
            continue
        low, more, same = found[-1] if found else (0, 0, 0)
        if found and low + more == point - 1 and same == number and more < 127:
            found[-1][1] += 1
        else:
            found.append([point, 0, number])
    return found


def table(kind, name, numbers):
    """One array of numbers, and its length."""
    items = ", ".join(hex(number) for number in numbers)
    return (
        f"const {kind} {name}[] = {{{items}}};\n"
        f"const size_t {name}_count = sizeof({name}) / sizeof({name}[0]);\n\n"
    )


def vectors(seed, count):
    """Random texts of the characters that NFC changes: what it makes of each, in hexadecimal."""
    rng = random.Random(seed)
    marks = [p for p in POINTS if unicodedata.combining(chr(p))]
    letters = [p for p in POINTS if decomposition(p)] + list(range(0x1100, 0x1200))
    plain = [ord("a"), ord("O"), 0x4E2D, 0x304B, 0xAC00, 0xD7A3, 0x1F600]
    for _ in range(count):
        pool = rng.choice((letters, letters, plain))
        text = "".join(chr(rng.choice(rng.choice((pool, marks)))) for _ in range(rng.randint(1, 6)))
        if rng.random() < 0.5:
            text = unicodedata.normalize(rng.choice(("NFD", "NFC")), text)
        print(text.encode().hex(), unicodedata.normalize("NFC", text).encode().hex())


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--vectors", type=int, metavar="N", help="print N vectors instead")
    args = parser.parse_args()
    if args.vectors:
        vectors(1, args.vectors)
        return 0
    rows = pairs()
    composing = [i for i, row in enumerate(rows) if not row[3] and row[2]]
    composing.sort(key=lambda i: (rows[i][1], rows[i][2]))
    text = HEAD.format(version=unicodedata.unidata_version)
    marks = [0] + sorted({second for _, _, second, _ in rows if second})
    text += table("uint32_t", "qp_nfc_marks", marks)
    pairs_packed = [first << 7 | marks.index(second) for _, first, second, _ in rows]
    text += table("uint32_t", "qp_nfc_pairs", pairs_packed)
    starts = [i for i, row in enumerate(rows) if i == 0 or row[0] != rows[i - 1][0] + 1]
    text += table("uint32_t", "qp_nfc_runs", [rows[i][0] << 12 | i for i in starts])
    text += table("uint16_t", "qp_nfc_composing", composing)
    seconds = {rows[i][2] for i in composing} - {p for p in POINTS if unicodedata.combining(chr(p))}
    text += table("uint32_t", "qp_nfc_seconds", sorted(seconds))
    text += table("uint32_t", "qp_nfc_classes", [a << 15 | b << 8 | c for a, b, c in classes()])
    path = args.root / "src/ent/nfc_table.c"
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    subprocess.run(["clang-format-19", "-i", str(path)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
