#!/usr/bin/env python3
"""The style guide as a failing test: size and complexity of functions and files, banned calls with
their replacement, a head comment in every file, no machine paths, nothing that a plain clone lacks,
no unfinished-work words, no file so large that only a program can have made it.
Exceptions for size stand in tools/ratchet.txt, which may only shrink."""

import re

import qptools

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000
COMPLEXITY_MAX = 15
COLUMNS_MAX = 100
FILE_BYTES_MAX = 640 * 1024  # of anything tracked: the longest fixture has 514,524

BANNED = {
    "strcpy": "qp_buf_put or memcpy with a known size",
    "strncpy": "memcpy with a known size",
    "strcat": "qp_buf_put",
    "strncat": "qp_buf_put",
    "sprintf": "snprintf or qp_buf_printf",
    "vsprintf": "vsnprintf",
    "strtok": "a scan over a quipu_str",
    "atoi": "a reader that reports errors",
    "atol": "a reader that reports errors",
    "atoll": "a reader that reports errors",
    "atof": "a reader that reports errors",
    "gets": "fgets",
    "alloca": "an arena",
    "system": "posix_spawn, or nothing",
    "localtime": "quipu_time, which is UTC",
    "gmtime": "quipu_time_format",
    "ctime": "quipu_time_format",
    "asctime": "quipu_time_format",
    "strerror": "strerror_r: strerror is not thread-safe",
}
BANNED_CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
BARE_STRTO = re.compile(r"\b(strto(?:l|ll|ul|ull|d|f|imax|umax))\s*\([^;]*?,\s*NULL\s*[,)]")
RAW_ALLOC = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup)\s*\(")
ASSERT_EFFECT = re.compile(r"\bassert\s*\([^;]*?(\+\+|--|[^=!<>]=(?!=))[^;]*\)\s*;")
SIGNATURE_END = re.compile(r"^\s*$|[;}]\s*$|^#")  # the line before a signature looks so
DECISION = re.compile(r"\b(?:if|for|while|switch)\b|&&|\|\||\?")

# Spelled in pieces, so that this file passes its own check.
UNFINISHED = re.compile(
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|for n" r"ow\b|not implem" r"ented|place" r"holder)\b", re.I
)
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:wo" r"rk|ro" r"ot|ho" r"me/\w+)/")
REGISTRY = re.compile(
    r"\b(py" r"pi\.org|files\.pythonho" r"sted|registry\.np" r"mjs|crat" r"es\.io"
    r"|proxy\.gol" r"ang|deb\.deb" r"ian\.org)"
)
# A clone holds nothing that lies beside the tree. The forms: a path, os.path.join, pathlib.
BESIDE = re.compile(r"(?:\.\./+|(?:\.\.[\"'], *|\bparent */ *)[\"'])sha" r"red\b")
BESIDE_FOLDERS = {".ci", "bench", "bindings", "cmake", "examples", "tests", "tools"}
SCRIPTS = ("*.py", "*.sh", "*.cmake", "CMakeLists.txt", "Makefile", "run")


def functions(text):
    """(name, first line, length, complexity) of each function: a brace alone in the first column
    opens a body, because clang-format is the law here."""
    code = qptools.code_only(text).split("\n")
    found = []
    for open_at, line in enumerate(code):
        if line.rstrip() != "{":
            continue
        first = open_at
        while first > 0 and not SIGNATURE_END.search(code[first - 1]):
            first -= 1
        close_at = next((i for i in range(open_at, len(code)) if code[i].startswith("}")), open_at)
        signature = " ".join(code[first:open_at])
        name = re.search(r"(\w+)\s*\(", signature)
        body = "\n".join(code[open_at:close_at])
        complexity = 1 + len(DECISION.findall(body))
        found.append((name.group(1) if name else "?", first + 1, close_at - first + 1, complexity))
    return found


class Ratchet:
    """tools/ratchet.txt: "kind path name value" lines that raise one limit for one thing."""

    def __init__(self, path):
        self.path = path
        self.entries = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            if line and not line.startswith("#"):
                kind, where, name, value = line.split()
                self.entries[(kind, where, name)] = (int(value), number)
        self.used = set()

    def check(self, report, kind, path, line, name, value, limit):
        """Compare a value with its limit or with its exception."""
        key = (kind, str(path), name)
        allowed, number = self.entries.get(key, (limit, 0))
        if value > allowed:
            report.bad(path, line, f"{name}: {kind} is {value}, at most {allowed} allowed")
        if number:
            self.used.add(key)
            if value <= limit:
                report.bad("tools/ratchet.txt", number, f"{name} is good now: remove the line")
            elif value < allowed:
                report.bad("tools/ratchet.txt", number, f"{name} shrank: lower it to {value}")

    def finish(self, report):
        for key in sorted(set(self.entries) - self.used):
            report.bad("tools/ratchet.txt", self.entries[key][1], f"{' '.join(key)}: no such thing")


def check_calls(report, path, text):
    """Banned calls in C code."""
    code = qptools.code_only(text)

    def at(match):
        return code.count("\n", 0, match.start()) + 1

    for match in BANNED_CALL.finditer(code):
        report.bad(path, at(match), f"{match.group(1)} is banned: use {BANNED[match.group(1)]}")
    for match in BARE_STRTO.finditer(code):
        report.bad(path, at(match), f"bare {match.group(1)}: take and check its end pointer")
    for match in ASSERT_EFFECT.finditer(code):
        report.bad(path, at(match), "assert with a side effect: it is gone under NDEBUG")
    if path.parts[0] == "src" and path.name not in ("alloc.c", "alloc.h"):
        for match in RAW_ALLOC.finditer(code):
            call = match.group(1)
            report.bad(path, at(match), f"raw {call}: use qp_{call} or an arena")


def check_c(report, ratchet, path, text, generated):
    """One C file."""
    lines = text.count("\n")
    if not text.startswith("/*"):
        report.bad(path, 1, "no head comment: say what the file is for")
    check_calls(report, path, text)
    if generated:
        return
    ratchet.check(report, "file-lines", path, 1, path.name, lines, FILE_LINES_MAX)
    for name, line, length, complexity in functions(text):
        ratchet.check(report, "function-lines", path, line, name, length, FUNCTION_LINES_MAX)
        ratchet.check(report, "complexity", path, line, name, complexity, COMPLEXITY_MAX)
    for match in qptools.TOKEN.finditer(text):
        if match.group(0).startswith("//"):
            line = text.count("\n", 0, match.start()) + 1
            report.bad(path, line, "comments are /* */")


def check_words(report, path, text, is_code):
    """Words and places that must not stand in the tree."""
    for number, line in enumerate(text.split("\n"), 1):
        if MACHINE_PATH.search(line):
            report.bad(path, number, "a path of one machine")
        if path.parts[0] in BESIDE_FOLDERS and BESIDE.search(line):
            report.bad(path, number, "a file beside the tree, which a plain clone does not have")
        if REGISTRY.search(line):
            report.bad(path, number, "the host of a package registry")
        if is_code and UNFINISHED.search(line):
            report.bad(path, number, f"unfinished work: {UNFINISHED.search(line).group(0)}")
        if is_code and len(line) > COLUMNS_MAX and path.suffix != ".json":
            report.bad(path, number, f"{len(line)} columns, at most {COLUMNS_MAX}")


def main():
    args = qptools.parser(__doc__).parse_args()
    report = qptools.Report("style")
    ratchet = Ratchet(args.root / "tools/ratchet.txt")
    c_paths = set(qptools.c_files(args.root))
    scripts = set(qptools.files(args.root, SCRIPTS))
    paths = qptools.files(args.root)
    for path in paths:
        size = (args.root / path).stat().st_size
        if size > FILE_BYTES_MAX:
            report.bad(path, 0, f"{size} bytes, at most {FILE_BYTES_MAX}: a cache, a build?")
        try:
            text = (args.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        generated = path in c_paths and qptools.is_generated(args.root, path)
        check_words(report, path, text, path in (c_paths | scripts) and not generated)
        if path in c_paths:
            check_c(report, ratchet, path, text, generated)
    ratchet.finish(report)
    report.finish(f"{len(paths)} files, {len(c_paths)} of them C")


if __name__ == "__main__":
    main()
