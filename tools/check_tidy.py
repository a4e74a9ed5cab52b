#!/usr/bin/env python3
"""clang-tidy-19 with .clang-tidy over the library, entgen and the programs (not over tests, whose
macros it does not understand). Needs the compile commands of the clang preset."""

import concurrent.futures
import json
import re
import shutil
import subprocess

import qptools

TOOL = "clang-tidy-19"
FOLDERS = ("src", "entgen", "apps", "examples")
FINDING = re.compile(r"^(?=\S+:\d+:\d+: (?:error|warning): )", re.M)
# A room's header may bring what it speaks of (base.h, the fixed-width types): only unused includes
# are findings here, and clang-tidy 19 has no switch for that.
DROPPED = "no header providing"


def findings(output):
    """The findings of one run, each with its notes, without those we do not ask for."""
    parts = FINDING.split(output)[1:]
    return [part.strip() for part in parts if DROPPED not in part.split("\n", 1)[0]]


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--build", default="build/clang", help="where compile_commands.json is")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("files", nargs="*", help="only these")
    args = parser.parse_args()
    root = args.root.resolve()
    if shutil.which(TOOL) is None:
        qptools.skip("tidy", f"{TOOL} is not installed")
    build = root / args.build
    if not (build / "compile_commands.json").exists():
        qptools.skip("tidy", f"configure {args.build} first")
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    compiled = {entry["file"] for entry in commands}
    paths = [p for p in qptools.files(root, ("*.c",), FOLDERS) if str(root / p) in compiled]
    paths = [p for p in paths if not qptools.is_generated(root, p)]
    if args.files:
        paths = [p for p in paths if str(p) in args.files]
    if not paths:
        qptools.nothing("tidy", "no sources")

    def tidy(path):
        command = [TOOL, "--quiet", "-p", str(build), "--warnings-as-errors=*", str(root / path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    report = qptools.Report("tidy")
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        for path, result in zip(paths, pool.map(tidy, paths)):
            found = findings(result.stdout)
            if result.returncode != 0 and not FINDING.search(result.stdout):
                found = [result.stderr.strip() or f"{TOOL} failed"]
            for finding in found:
                report.bad(path, 1, finding)
    report.finish(f"{len(paths)} files")


if __name__ == "__main__":
    main()
