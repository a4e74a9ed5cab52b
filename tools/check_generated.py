#!/usr/bin/env python3
"""The committed generated code is what entgen makes of the committed schemas today."""

import subprocess

import qptools


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--entgen", default="build/debug/bin/entgen", help="the generator")
    args = parser.parse_args()
    jobs = [
        (schema, out)
        for schema, out in (("schema/quipu.ent", "src/gen"),)
        if (args.root / schema).exists()
    ]
    if not jobs:
        qptools.nothing("generated", "no schema/quipu.ent")
    entgen = args.root / args.entgen
    if not entgen.exists():
        qptools.skip("generated", f"{args.entgen} is not built")
    report = qptools.Report("generated")
    for schema, out in jobs:
        command = [str(entgen), "--check", "-o", out, schema]
        result = subprocess.run(command, cwd=args.root, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            report.bad(schema, 1, f"{out} is stale: {(result.stderr or result.stdout).strip()}")
    report.finish(f"{len(jobs)} schema")


if __name__ == "__main__":
    main()
