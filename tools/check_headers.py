#!/usr/bin/env python3
"""Each public header compiles alone, and included twice, under hostile flags: C11 and C17 and
C++11 and C++17, with gcc and with clang. So does a variable of every struct that has an _INIT
macro, started from it."""

import concurrent.futures
import re
import shutil
import subprocess

import qptools

FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow"]
FLAGS += ["-Werror"]
COMPILERS = [
    ("gcc", "c", ("c11", "c17")),
    ("clang-19", "c", ("c11", "c17")),
    ("g++", "c++", ("c++11", "c++17")),
    ("clang++-19", "c++", ("c++11", "c++17")),
]


def starts(root, header):
    """A function that starts a variable from each _INIT macro of a header of quipu's."""
    text = (root / "include" / header).read_text(encoding="utf-8")
    names = re.findall(r"^#define (QUIPU_\w+)_INIT(?: |\n)", text, re.M)
    lines = [
        f"    {{ {name.lower()} made = {name}_INIT; (void)made; }}\n"
        for name in names
        if re.search(rf"^\}} {name.lower()};", text, re.M)
    ]
    return "void t_header_starts(void);\nvoid t_header_starts(void)\n{\n" + "".join(lines) + "}\n"


def compile_one(root, header, compiler, language, standard):
    """The compiler's complaint about one header, or None."""
    text = f"#include <{header}>\n#include <{header}>\nint t_header_used(void);\n"
    text += starts(root, header)
    flags = FLAGS + (["-Wstrict-prototypes"] if language == "c" else [])
    command = [compiler, f"-std={standard}", f"-x{language}", "-fsyntax-only", *flags]
    command += ["-I", str(root / "include"), "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else result.stderr.strip()


def main():
    args = qptools.parser(__doc__).parse_args()
    headers = [p.relative_to("include") for p in qptools.files(args.root, ("*.h",), ("include",))]
    if not headers:
        qptools.nothing("headers", "no public headers")
    for compiler, _, _ in COMPILERS:
        if shutil.which(compiler) is None:
            qptools.skip("headers", f"{compiler} is not installed")
    jobs = [
        (header, compiler, language, standard)
        for header in headers
        for compiler, language, standards in COMPILERS
        for standard in standards
    ]
    report = qptools.Report("headers")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = pool.map(lambda job: compile_one(args.root, *job), jobs)
        for (header, compiler, _, standard), complaint in zip(jobs, outcomes):
            if complaint is not None:
                report.bad(f"include/{header}", 1, f"{compiler} -std={standard}:\n{complaint}")
    report.finish(f"{len(headers)} headers, {len(jobs)} compilations")


if __name__ == "__main__":
    main()
