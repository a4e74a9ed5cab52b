#!/usr/bin/env python3
"""The driver behind make test, check-fast, check, test-long, test-node and test-cross: runs every
stage, goes on after a failed one, names what failed and what was skipped, and ends with "N passed,
N failed". With QUIPU_REQUIRE_ALL=1 a skip counts as a failure."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIP = 77
# One more than there are processors: many tests wait for a server, a browser or a deadline.
JOBS = str((os.cpu_count() or 2) + 1)
# A passed test's whole output is kept: the names of skipped cases stand in it.
OUTPUT_BYTES_MAX = "50000000"
SKIPPED_ITSELF = "SKIP_RETURN_CODE"  # how CTest's report says that a test chose to skip
TARGETS = ("test", "check-fast", "check", "test-long", "test-node", "test-cross")
FAST_CHECKS = (
    "format", "layers", "style", "words", "measures", "headers", "symbols", "generated",
    "requirements", "amalgamation",
)

CASE_OK = re.compile(r"^\[ +OK \] (\S+)", re.M)
CASE_SKIPPED = re.compile(r"^\[ +SKIPPED +\] (?!\d+ test)(\S+)", re.M)
CASE_FAILED = re.compile(r"^\[ +FAILED +\] (?!\d+ test)(\S+)", re.M)
# A subtest that failed or was skipped has an indented line of its own, with its parameters.
UNIT_CASE = re.compile(
    r"^ *(\w+) (\([\w.<>]+\))(?: [\[(].*?[\])])?(?:\n.*?)? \.\.\. (ok|FAIL|ERROR|skipped .*)$",
    re.M,
)
# A case that says nothing about the engine at hand (T_SQLITE_ONLY): neither passed nor skipped.
CASE_ELSEWHERE = re.compile(r"^(not on \w+: .*)\n\[ +OK \] (\S+)", re.M)
SKIP_LINE = re.compile(r"^SKIP: *(.*)$", re.M)


class Stage:
    """One row of the summary."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failed = []  # names
        self.skipped = []  # "name: why"
        self.elsewhere = []  # "name: why", cases of another engine
        self.began = time.monotonic()
        self.seconds = 0.0

    def end(self):
        self.seconds = time.monotonic() - self.began
        return self


def run(command, log=None, env=None):
    """Run a command in the root; with a log the output goes there and is shown only on failure."""
    if log is None:
        return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as stream:
        result = subprocess.run(
            command, cwd=ROOT, env=env, check=False, stdout=stream, stderr=subprocess.STDOUT
        )
    if result.returncode not in (0, SKIP):
        print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
    return result.returncode


def count_output(stage, name, status, output):
    """Count the cases of one CTest entry; `status` is run, fail or notrun, as in its report."""
    reasons = SKIP_LINE.findall(output)
    # The subtests of one case count once.
    unit = [(case, word) for case, _, word in dict.fromkeys(UNIT_CASE.findall(output))]
    oks = CASE_OK.findall(output) + [case for case, word in unit if word == "ok"]
    skips = sorted(set(CASE_SKIPPED.findall(output)))
    skips += [f"{case} ({word[8:]})" for case, word in unit if word.startswith("skipped")]
    fails = sorted(set(CASE_FAILED.findall(output)))
    fails += [case for case, word in unit if word in ("FAIL", "ERROR")]
    elsewhere = CASE_ELSEWHERE.findall(output)
    stage.elsewhere += [f"{name}: {case} ({why})" for why, case in elsewhere]
    stage.passed += len(oks) - len(elsewhere)
    if status == "notrun":
        stage.skipped.append(f"{name}: {'; '.join(reasons) or 'not run'}")
        return
    if status == "fail":
        stage.failed += [f"{name}: {case}" for case in fails] or [name]
    elif not oks and not skips and not reasons:
        stage.passed += 1
    if not skips and reasons and status != "fail":
        skips = reasons  # a script that says so in words
        reasons = []
    why = f" ({'; '.join(sorted(set(reasons)))})" if reasons else ""
    stage.skipped += [f"{name}: {case}{why}" for case in skips]


def read_junit(stage, path):
    """Count what CTest reported; a report that is missing is a failure."""
    if not path.exists():
        stage.failed.append("ctest wrote no report")
        return
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        status = case.get("status")
        skipped = case.find("skipped")
        # Only a test's own word is a skip; a missing program or a failed fixture is a failure.
        if status == "notrun":
            own = skipped is not None and SKIPPED_ITSELF in skipped.get("message", "")
            status = "notrun" if own else "fail"
        count_output(stage, case.get("name"), status, output)


def build(stage, preset, targets=()):
    """Configure and build a preset; a failure is the stage's."""
    log = ROOT / "build" / f"{preset}.log"
    extra = ["--target", *targets] if targets else []
    for command in (
        ["cmake", "--preset", preset],
        ["cmake", "--build", "--preset", preset, *extra],
    ):
        if run(command, log) != 0:
            stage.failed.append(f"{preset}: {' '.join(command[:2])} failed")
            return False
    return True


def without_aslr(preset):
    """gcc's TSan cannot map its shadow where the kernel randomises much; ask for less."""
    prefix = ["setarch", "-R"]
    if preset != "tsan":
        return []
    try:
        works = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        works = False
    return prefix if works else []


def suite(name, preset, ctest_args=(), targets=(), timeout_s=900):
    """Build a preset and run its tests."""
    stage = Stage(name)
    print(f"== {name}", flush=True)
    if build(stage, preset, targets):
        report = ROOT / "build" / preset / "junit.xml"
        report.unlink(missing_ok=True)
        command = ["ctest", "--test-dir", f"build/{preset}", "-j", JOBS, "--output-on-failure"]
        command += ["--no-tests=ignore", "--output-junit", str(report), *ctest_args]
        command += ["--timeout", str(timeout_s)]  # of a test that has no limit of its own
        command += ["--test-output-size-passed", OUTPUT_BYTES_MAX]
        command += ["--test-output-size-failed", OUTPUT_BYTES_MAX]
        code = run([*without_aslr(preset), *command])
        read_junit(stage, report)
        if code != 0 and not stage.failed:
            stage.failed.append("ctest failed")
        if stage.passed == 0 and not stage.failed:
            stage.failed.append("no test ran")  # a mistyped label must not look green
    return stage.end()


def compile_only(name, preset, targets=()):
    """Everything, or the targets, compile and link; nothing is run."""
    stage = Stage(name)
    print(f"== {name}", flush=True)
    if build(stage, preset, targets):
        stage.passed += 1
    return stage.end()


def scripts(name, commands):
    """A stage of commands, one case each."""
    stage = Stage(name)
    print(f"== {name}", flush=True)
    for case, command in commands:
        log = ROOT / "build" / "checks" / f"{case}.log"
        code = run(command, log)
        text = log.read_text(encoding="utf-8", errors="replace")
        if code == SKIP:
            stage.passed += len(CASE_OK.findall(text))
            stage.skipped.append("; ".join(SKIP_LINE.findall(text)) or case)
        elif CASE_OK.search(text):  # a script that names its cases
            count_output(stage, case, "fail" if code != 0 else "run", text)
        elif code != 0:
            stage.failed.append(case)
        else:
            stage.passed += 1
            print(text.strip().split("\n")[-1], flush=True)
    return stage.end()


def fast_checks():
    """The checks of make check-fast."""
    return scripts(
        "check-fast", [(name, [sys.executable, f"tools/check_{name}.py"]) for name in FAST_CHECKS]
    )


def room_labels():
    """A CTest label pattern: the rooms of layers.txt, entgen, the contract suites, the fuzzers."""
    lines = (ROOT / "layers.txt").read_text(encoding="utf-8").splitlines()
    rooms = [line.split(":")[0] for line in lines if line and not line.startswith("#")]
    return f"^({'|'.join([*rooms, 'entgen', 'contract', 'fuzz'])})$"


def stages(what):
    """The stages of a target, run one after the other."""
    if what == "test":
        # Packages of npm's registry, 240 MB of them, are for make test-node.
        yield suite("debug: every suite", "debug", ["-LE", "^npm$"])
        yield suite("asan+ubsan: rooms, contract", "asan", ["-L", room_labels(), "-LE", "script"])
        yield suite("tsan: thread tests", "tsan", ["-L", "^thread$"], ["thread_tests"])
        yield compile_only("clang-19: compile everything", "clang")
        yield compile_only("release: compile everything", "release")
        yield scripts("release: make run", [("run", ["make", "--no-print-directory", "run"])])
        yield fast_checks()
    elif what == "check-fast":
        yield compile_only("debug: build", "debug")
        yield fast_checks()
    elif what == "check":
        yield compile_only("clang-19: compile everything", "clang")
        yield compile_only("gcc -fanalyzer", "analyzer")
        names = ("tidy", "cppcheck", "docs", "abi")
        yield scripts("check", [(n, [sys.executable, f"tools/check_{n}.py"]) for n in names])
    elif what == "test-long":
        yield suite("debug: long forms", "debug", ["-L", "^long$"], timeout_s=7200)
        yield suite("asan+ubsan: long forms of fuzz", "asan", ["-L", "^fuzz$"], timeout_s=7200)
        matrix = ["tests/versions/run.py", "build/debug/bin/quipu"]
        yield scripts("versions: every earlier layout", [("versions", matrix)])
    elif what == "test-node":
        yield suite("debug: the Node package", "debug", ["-L", "^(node|npm)$"])
    elif what == "test-cross":
        yield from cross_stages()


def cross_stages():
    """The program and the library away from home: static, on another processor, as one file."""
    contract = {"ctest_args": ["-L", "^contract$"], "targets": ["contract_tests"]}
    contract["timeout_s"] = 1800
    chroot = "tests/cross/empty_chroot.sh"
    emulator = "qemu-aarch64-static"
    static = ["quipu_program", "first_store"]
    yield compile_only("static: one self-contained quipu", "static", static)
    yield scripts("static: an empty chroot", [("chroot", [chroot, "build/static/bin/quipu"])])
    yield scripts("static: size", [("size", ["tests/cross/static_size.sh", "build/static"])])
    yield suite("aarch64 under qemu: contract", "aarch64", **contract)
    yield compile_only("aarch64: static quipu", "aarch64-static", ["quipu_program"])
    command = [chroot, "build/aarch64-static/bin/quipu", emulator]
    yield scripts("aarch64: an empty chroot", [("chroot-aarch64", command)])
    yield from big_endian_stages()
    yield suite("amalgamation: contract", "amalgamation", **contract)
    compiled = ["gcc", "-c", "build/amalgamation/amalgamation/quipu.c", "-o", os.devnull]
    yield scripts("amalgamation: one compiler line", [("amalgamation", compiled)])
    # macOS: compiled and linked. musl: compiled, linked, and stores exchanged with our program.
    zig = ["tests/cross/zig.py"]
    here = "build/static/bin/quipu"
    for target in ("aarch64-macos", "x86_64-macos", "aarch64-linux-musl", "x86_64-linux-musl"):
        yield scripts(f"zig cc: {target}", [(f"zig-{target}", [*zig, target, here])])


def big_endian_stages():
    """s390x under qemu: the rooms below the store, and stores that go there and back."""
    root = ["tests/cross/s390x_root.sh", str(ROOT / "build" / "s390x-root")]
    libraries = scripts("s390x: Debian's libraries", [("s390x-root", root)])
    yield libraries
    if libraries.passed == 0:
        return
    rooms = ["-L", "^(base|ent|ent_sqlite|store)$"]
    targets = ["room_tests", "quipu_program"]
    yield suite("s390x under qemu: rooms", "s390x", rooms, targets, timeout_s=1800)
    programs = ["build/static/bin/quipu", "build/s390x/bin/quipu"]
    command = ["tests/cross/exchange.py", *programs, "tests/cross/emulate_s390x.sh"]
    yield scripts("s390x: stores go both ways", [("exchange-s390x", command)])


def summary(done):
    """Print the table, the skips, the failures and the last line; give the exit code."""
    passed = sum(stage.passed for stage in done)
    failed = [f"{stage.name}: {case}" for stage in done for case in stage.failed]
    skipped = [f"{stage.name}: {case}" for stage in done for case in stage.skipped]
    elsewhere = [f"{stage.name}: {case}" for stage in done for case in stage.elsewhere]
    print(f"\n{'stage':34} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for stage in done:
        counts = f"{stage.passed:7} {len(stage.failed):7} {len(stage.skipped):8}"
        print(f"{stage.name:34} {counts} {stage.seconds:8.1f}")
    lists = (("failed", failed), ("skipped", skipped), ("of another engine", elsewhere))
    for title, names in lists:
        if names:
            print(f"\n{title} ({len(names)}):")
            print("\n".join(f"  {name}" for name in names))
    print()
    if skipped and os.environ.get("QUIPU_REQUIRE_ALL") == "1":
        print("QUIPU_REQUIRE_ALL=1: every skip is a failure")
        failed += skipped
        skipped = []
    if passed == 0 and not failed:
        failed.append("nothing ran")
    tail = f", {len(skipped)} skipped" if skipped else ""
    print(f"{passed} passed, {len(failed)} failed{tail}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=TARGETS)
    args = parser.parse_args()
    # A build must not inherit the jobserver of the make that started us.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        os.environ.pop(name, None)
    # Tests that kill their own processes cannot tidy up behind them; this does, for the whole run.
    with tempfile.TemporaryDirectory(prefix="quipu-") as folder:
        os.environ["TMPDIR"] = folder
        code = summary(list(stages(args.what)))
    sys.exit(code)


if __name__ == "__main__":
    main()
