#!/usr/bin/env python3
"""The committed generated code is what entgen makes of the committed schemas today."""

import subprocess

import qptools

OUT = "src/gen"
# What else is generated: the option, the schema, the file.
PRINTED = (
    ("--python", "schema/quipu.ent", "bindings/python/src/quipu/_fields.py"),
    ("--go", "schema/quipu.ent", "bindings/go/fields.go"),
)


def main():
    parser = qptools.parser(__doc__)
    parser.add_argument("--entgen", default="build/debug/bin/entgen", help="the generator")
    args = parser.parse_args()
    schemas = qptools.files(args.root, ("*.ent",), ("schema",))
    if not schemas:
        qptools.nothing("generated", "no schema")
    entgen = args.root / args.entgen
    if not entgen.exists():
        qptools.skip("generated", f"{args.entgen} is not built")
    report = qptools.Report("generated")
    for schema in schemas:
        command = [str(entgen), "--check", "-o", OUT, str(schema)]
        result = subprocess.run(command, cwd=args.root, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            report.bad(schema, 1, f"{OUT} is stale: {(result.stderr or result.stdout).strip()}")
    for option, schema, path in PRINTED:
        if not (args.root / path).exists():
            continue
        command = [str(entgen), option, schema]
        result = subprocess.run(command, cwd=args.root, capture_output=True, text=True, check=False)
        if result.returncode != 0 or result.stdout != (args.root / path).read_text():
            report.bad(args.root / path, 1, f"stale: entgen {option} {schema} > {path}")
    report.finish(f"{len(schemas)} schemas")


if __name__ == "__main__":
    main()
