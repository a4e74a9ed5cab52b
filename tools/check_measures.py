#!/usr/bin/env python3
"""Limits for the figures of tools/measure_source.py: how much of src/ is comment, how often the
rooms that must not be wrong assert what they rely on, how long functions are."""

import measure_source
import qptools

# (room, figure, at least, at most); "src" is all of src/. One line is one limit; it is raised when
# the tree has got there, never lowered.
LIMITS = (
    ("src", "comment_share", 0.15, None),
    ("src", "alone_share", 0.145, None),
    ("store", "comment_share", 0.15, None),
    ("ent_postgres", "comment_share", 0.15, None),
    ("src", "longest", None, 70),
    ("src", "p95", None, 40),
    ("store", "asserts_per_function", 0.7, None),
    ("ent_sqlite", "asserts_per_function", 0.7, None),
    ("ent_postgres", "asserts_per_function", 0.7, None),
)


def main():
    args = qptools.parser(__doc__).parse_args()
    report = qptools.Report("measures")
    measured = measure_source.measure(args.root)
    for room, figure, least, most in LIMITS:
        if room not in measured:
            continue
        where = "src" if room == measure_source.ALL else f"src/{room}"
        value = getattr(measured[room], figure)
        if least is not None and value < least:
            report.bad(where, 0, f"{figure} is {value:.3f}, at least {least} wanted")
        if most is not None and value > most:
            report.bad(where, 0, f"{figure} is {value}, at most {most} allowed")
    report.finish(f"{len(measured) - 1} rooms")


if __name__ == "__main__":
    main()
