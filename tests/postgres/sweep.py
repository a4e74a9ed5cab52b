#!/usr/bin/env python3
"""The suites of the store once more on a server that is less kind: where every transaction is
serializable, where one in K transactions meets a serialization failure, where the connection of
one in K statements is cut. The suites do not know (tests/contract/pg_faults.c); whatever they
find missing then is a defect of the engine. QUIPU_LONG=1: all ways, else a few of
them on a FEW suites, unless --way names one. QUIPU_BINARY_DIR names the build (build/debug)."""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("QUIPU_BINARY_DIR", ROOT / "build" / "debug"))
LONG = os.environ.get("QUIPU_LONG") == "1"
SKIP = 77
SERIALIZABLE = "serializable"
FEW = ("adk_snapshot", "store_session")
WAYS = (
    (SERIALIZABLE, "conflicts 3", "conflicts 7", "conflicts 19", "cuts 17", "cuts 41", "cuts 97")
    if LONG
    else (SERIALIZABLE, "conflicts 3", "cuts 29")
)
HUNG_S = 900  # the longest run takes a tenth of that on a busy machine
TAIL = 6000  # bytes shown of a run that failed
FIRED = re.compile(r"^faults: (\d+) in (\d+) statements", re.M)


@dataclasses.dataclass
class Run:
    """One suite on one server."""

    suite: str
    way: str
    output: str = ""
    verdict: str = ""
    faults: int = 0
    seconds: float = 0.0


class Servers:
    """One for each configuration, for as long as the sweep lasts."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def script(self, verb, name, configuration=""):
        command = ["bash", str(ROOT / "tests" / "lib" / "pg.sh"), verb, str(self.folder / name)]
        env = {**os.environ, "QUIPU_PG_CONF": configuration}
        return subprocess.run(command, env=env, check=False).returncode

    def start(self, ways):
        """Gives the exit status of what did not start."""
        wanted = {name_of(way) for way in ways}
        for name in sorted(wanted):
            strict = "default_transaction_isolation = 'serializable'"
            status = self.script("start", name, strict if name == SERIALIZABLE else "")
            if status != 0:
                return status
        return 0

    def stop(self):
        for name in (SERIALIZABLE, "plain"):
            self.script("stop", name)


def name_of(way):
    """The server of a way."""
    return SERIALIZABLE if way == SERIALIZABLE else "plain"


def execute(run, servers):
    """The suite must not notice."""
    env = {
        **os.environ,
        "QUIPU_TEST_PG": str(servers.folder / name_of(run.way) / "uri"),
        "QUIPU_TEST_PG_FAULTS": "" if run.way == SERIALIZABLE else run.way,
    }
    env.pop("QUIPU_LONG", None)  # many short runs find more than one long one
    started = time.monotonic()
    binary = BINARIES / "tests" / "contract" / f"t_contract_{run.suite}"
    # A session of its own: what it forked ends with it when it hangs.
    with subprocess.Popen(
        [binary], env=env, text=True, errors="replace", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as program:
        try:
            run.output = program.communicate(timeout=HUNG_S)[0]
            run.verdict = "ok" if program.returncode == 0 else f"FAILED ({program.returncode})"
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            run.output = program.communicate()[0]
            run.verdict = f"HUNG for {HUNG_S} s"
    run.seconds = time.monotonic() - started
    run.faults = sum(int(count) for count, _ in FIRED.findall(run.output))
    return run


def sweep(runs, jobs, servers):
    """All of them, `jobs` at a time, each reported when it is done."""
    done = 0
    lock = threading.Lock()

    def one(run):
        nonlocal done
        execute(run, servers)
        with lock:
            done += 1
            print(f"[{done}/{len(runs)}] {run.suite}, {run.way}: {run.verdict}, "
                  f"{run.faults} faults, {run.seconds:.1f} s", flush=True)
            if run.verdict != "ok":
                print(run.output[-TAIL:], flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, runs))


def conclude(runs):
    """What every way met, what failed, and a last line. Gives whether all is well."""
    faults = collections.Counter()
    for run in runs:
        faults[run.way] += run.faults
    failed = [f"{run.suite}, {run.way}" for run in runs if run.verdict != "ok"]
    # A way that met nothing has shown nothing.
    idle = [way for way in faults if faults[way] == 0 and way != SERIALIZABLE]
    for way, count in faults.items():
        print(f"{way}: {count} faults")
    for name in failed:
        print(f"failed: {name}")
    for way in idle:
        print(f"failed: {way}, no fault was injected")
    print(f"{len(runs) - len(failed)} passed, {len(failed) + len(idle)} failed")
    return not failed and not idle


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--way", action="append", dest="ways", metavar="WAY",
                        help="only this one, as 'cuts 17', 'conflicts 3' or 'serializable'")
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="as store_session")
    return parser.parse_args()


def main():
    arguments = parse()
    ways = arguments.ways or WAYS
    every = LONG or arguments.ways
    # A way after the other, so that two runs at a time are seldom the two longest.
    runs = [Run(suite, way) for way in ways for suite in arguments.suites if every or suite in FEW]
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder)
        try:
            status = servers.start(ways)
            if status != 0:
                return status  # pg.sh has said why
            sweep(runs, arguments.jobs, servers)
        finally:
            servers.stop()
    return 0 if conclude(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
