#!/usr/bin/env python3
"""The tests of the page in a real Chromium: Debian's, driven by playwright.

    run.py [NAME...]         make the environment, run the tests: all, or those that contain a NAME
    run.py --without NAME    all but those that contain it

The environment lies in $QUIPU_BINARY_DIR/page and is kept until the pinned versions change. Without
Chromium, or where pip cannot install, the tests are skipped. QUIPU_LONG=1 runs the long forms."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "page"
SKIP = 77
INSIDE = "QUIPU_PAGE_INSIDE"  # set for the run inside of the environment
SUITES = ("sending", "views", "insight", "safety", "adk_web", "large")


def skip(why):
    """End as a test that cannot run here."""
    print(f"SKIP: the page in a browser: {why}")
    sys.exit(SKIP)


def environment():
    """A virtual environment with the pinned packages, made by the first of those that run side by
    side; gives its Python."""
    build = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug")).resolve()
    folder = build / "page"
    with open(build / "page.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make_environment(folder)


def make_environment(folder):
    """Under the lock."""
    python = folder / "bin" / "python"
    stamp = folder / "pinned"
    wanted, adk = HERE / "requirements.txt", HERE / "adk.txt"
    pinned = hashlib.sha256(sys.version.encode() + wanted.read_bytes() + adk.read_bytes()
                            ).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == pinned:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", folder],
                    [python, "-m", "pip", "install", "--quiet", "-r", wanted],
                    [python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", adk]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout[-2000:], done.stderr[-2000:])
            skip("pip cannot install playwright and google-adk: no registry")
    stamp.write_text(pinned, encoding="utf-8")
    return python


def suite(names):
    """All tests, or those whose name contains one of the names, or all but those."""
    without = names[:1] == ["--without"]
    names = names[1:] if without else names

    def pick(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                yield from pick(test)
            elif not names or any(name in test.id() for name in names) != without:
                yield test

    return unittest.TestSuite(pick(unittest.defaultTestLoader.loadTestsFromNames(SUITES)))


def inside():
    """Go on inside of the environment: returns there, and nowhere else."""
    if os.environ.get(INSIDE) != "1":
        chromium = shutil.which("chromium")
        if chromium is None:
            skip("no chromium")
        done = subprocess.run([environment(), *sys.argv], check=False,
                              env={**os.environ, INSIDE: "1", "QUIPU_CHROMIUM": chromium})
        sys.exit(done.returncode)
    sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]


def main():
    inside()
    import browser  # pylint: disable=import-outside-toplevel
    with browser.started():
        result = unittest.TextTestRunner(verbosity=2).run(suite(sys.argv[1:]))
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
