#!/usr/bin/env python3
"""The library as one file compiles: no two rooms give a static function or a type the same name,
and no file relies on an include of its neighbour. Only parsed here; make test-cross builds it, and
runs the contract suites on it."""

import pathlib
import subprocess
import sys
import tempfile

import qptools

FORMS = ((), ("-DQUIPU_PORTABLE",))  # Linux's calls, and those of other systems


def main():
    args = qptools.parser(__doc__).parse_args()
    report = qptools.Report("amalgamation")
    tool = pathlib.Path(__file__).with_name("amalgamate.py")
    with tempfile.TemporaryDirectory(prefix="quipu-amalgamation-") as folder:
        subprocess.run([sys.executable, str(tool), folder], cwd=args.root, check=True,
                       stdout=subprocess.DEVNULL)
        for form in FORMS:
            parsed = subprocess.run(["gcc", "-fsyntax-only", *form, "quipu.c"], cwd=folder,
                                    check=False, capture_output=True, text=True)
            for line in parsed.stderr.splitlines():
                if ": error: " in line:
                    report.bad("build/amalgamation/quipu.c", 0, line.split(": error: ", 1)[1])
            if parsed.returncode != 0 and not report.count:
                report.bad("build/amalgamation/quipu.c", 0, parsed.stderr.strip()[-200:])
    report.finish("one file, in both forms")


if __name__ == "__main__":
    main()
