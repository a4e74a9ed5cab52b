#!/usr/bin/env python3
"""The tests of the Python package, in a virtual environment of their own.

    run.py                      make the environment, build and install the package, run its tests
    run.py --upstream FOLDER    ADK's own suite, from a checkout of it, with our service added
    run.py --exec ARGUMENTS...  the environment's Python, with the package in it

The environment lies in $QUIPU_BINARY_DIR/python and is kept until the pinned versions change. Where
pip cannot install them the tests are skipped, by name. QUIPU_LONG=1 runs the long forms."""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "python"
PACKAGE = ROOT / "bindings" / "python"
SKIP = 77
PINNED = ("requirements-test.txt", "constraints.txt", "pyproject.toml")


class Skip(Exception):
    """The tests cannot run here, and why."""


def home():
    """Where the environment, the build and the reports are."""
    build = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug"))
    return build.resolve() / "python"


def quiet(command, log, **more):
    """Run a command with its output in a log; give the exit code."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as stream:
        done = subprocess.run(
            list(map(str, command)), stdout=stream, stderr=subprocess.STDOUT, check=False, **more
        )
    return done.returncode


def tail(log, lines=40):
    """The end of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def environment():
    """A virtual environment with the pinned packages; gives its Python."""
    folder = home() / "venv"
    python = folder / "bin" / "python"
    stamp = folder / "pinned"
    pinned = hashlib.sha256(sys.version.encode())
    for name in PINNED:
        pinned.update((PACKAGE / name).read_bytes())
    if stamp.exists() and stamp.read_text(encoding="utf-8") == pinned.hexdigest():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    log = home() / "venv.log"
    if quiet([sys.executable, "-m", "venv", folder], log) != 0:
        raise Skip("python3 cannot make a virtual environment (python3-venv)")
    requirements = PACKAGE / "requirements-test.txt"
    if quiet([python, "-m", "pip", "install", "-r", requirements], log) != 0:
        print(tail(log))
        raise Skip("pip cannot install the pinned packages: no registry")
    stamp.write_text(pinned.hexdigest(), encoding="utf-8")
    return python


def install(python):
    """Build the package as a user would, and install it; raises when it does not build."""
    log = home() / "install.log"
    command = [python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["--force-reinstall", f"--config-settings=build-dir={home() / 'build'}", PACKAGE]
    if quiet(command, log) != 0:
        raise SystemExit(f"the package does not build:\n{tail(log, 80)}")


def report(path):
    """Print each case as tools/test.py counts it; true when there were cases and none failed."""
    good = False
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = re.sub(r"\W+", "_", case.get("name")).strip("_")
        kind = next((child.tag for child in case if child.tag != "properties"), "")
        why = next((child.get("message", "") for child in case if child.tag == "skipped"), "")
        word = {"": "ok", "skipped": f"skipped {why!r}", "system-out": "ok"}.get(kind, "FAIL")
        print(f"{name} ({case.get('classname')}) ... {word}")
        good = good if word != "FAIL" else None
        good = True if good is False else good
    return bool(good)


def run_tests(python, more):
    """The package's own tests."""
    xml_path = home() / "pytest.xml"
    xml_path.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", f"--junitxml={xml_path}", *more]
    code = subprocess.run(list(map(str, command)), cwd=PACKAGE, check=False).returncode
    good = xml_path.exists() and report(xml_path)
    return 0 if code == 0 and good else 1


def run_upstream(python, source):
    """ADK's suite from a checkout; only the cases of our service."""
    suite = pathlib.Path(source).resolve() / "tests" / "unittests" / "sessions"
    if not (suite / "test_session_service.py").exists():
        print(f"no {suite}: name a checkout of adk-python in ADK_SOURCE")
        return 2
    command = [python, "-m", "pytest", "-p", "upstream", "-c", HERE / "upstream.ini"]
    command += [f"--rootdir={source}", "-k", "quipu", suite / "test_session_service.py"]
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    extended = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(list(map(str, command)), env=extended, check=False).returncode


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upstream", metavar="FOLDER")
    parser.add_argument("--exec", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    parser.add_argument("more", nargs="*", help="arguments for pytest")
    args = parser.parse_args()
    try:
        python = environment()
    except Skip as reason:
        print(f"SKIP: the Python package: {reason}")
        sys.exit(SKIP)
    install(python)
    if args.upstream is not None:
        sys.exit(run_upstream(python, args.upstream))
    if args.exec is not None:
        sys.exit(subprocess.run([python, *args.exec], check=False).returncode)
    sys.exit(run_tests(python, args.more))


if __name__ == "__main__":
    main()
