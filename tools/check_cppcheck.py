#!/usr/bin/env python3
"""cppcheck over the library, entgen and the programs. What is switched off, and why, stands in
this file."""

import shutil
import subprocess

import qptools

# Not examples/notes: its header is generated in its own build, and literals of unknown types break
# the parser.
FOLDERS = ("src", "entgen", "apps", "examples/first_store", "tests/lib")
SUPPRESSED = (
    "missingIncludeSystem",  # it has no system headers, and needs none
    "unusedFunction",  # it cannot see the users of a library
    "unusedStructMember",  # descriptors are read through offsets
    "normalCheckLevelMaxBranches",  # a note, not a finding
)


def main():
    args = qptools.parser(__doc__).parse_args()
    if shutil.which("cppcheck") is None:
        qptools.skip("cppcheck", "it is not installed")
    folders = [f for f in FOLDERS if any((args.root / f).rglob("*.c"))]
    if not folders:
        qptools.nothing("cppcheck", "no sources")
    command = ["cppcheck", "--quiet", "--std=c11", "--error-exitcode=1", "--inline-suppr", "-j2"]
    command += ["--enable=warning,performance,portability", "-Iinclude", "-Isrc", "-I.", "-Itests"]
    command += ['-DQUIPU_SOURCE_DIR="."', "-D__GNUC__=12"]
    command += [f"--suppress={name}" for name in SUPPRESSED]
    result = subprocess.run([*command, *folders], cwd=args.root, check=False)
    report = qptools.Report("cppcheck")
    if result.returncode != 0:
        report.bad("cppcheck", 0, "see above")
    report.finish(", ".join(folders))


if __name__ == "__main__":
    main()
