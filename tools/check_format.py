#!/usr/bin/env python3
"""Our C files are formatted by clang-format-19 and .clang-format; generated files are exempt."""

import shutil
import subprocess

import qptools

TOOL = "clang-format-19"  # pinned: another version formats differently


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--fix", action="store_true", help="rewrite the files instead")
    args = parser.parse_args()
    if shutil.which(TOOL) is None:
        qptools.skip("format", f"{TOOL} is not installed")
    paths = [p for p in qptools.c_files(args.root) if not qptools.is_generated(args.root, p)]
    if not paths:
        qptools.nothing("format", "no C files")
    mode = ["-i"] if args.fix else ["--dry-run", "-Werror"]
    command = [TOOL, "--style=file", *mode, *[str(p) for p in paths]]
    result = subprocess.run(command, cwd=args.root, check=False)
    report = qptools.Report("format")
    if result.returncode != 0:
        report.bad("tools/check_format.py", 1, "run `make format`")
    report.finish(f"{len(paths)} files")


if __name__ == "__main__":
    main()
