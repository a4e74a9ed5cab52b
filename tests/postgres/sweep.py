#!/usr/bin/env python3
"""The suites of the store once more on a server that is less kind: where every transaction is
serializable, where one in K transactions meets a serialization failure, where the connection of
one in K statements is cut. The suites do not know (tests/contract/pg_faults.c); whatever they
find missing then is a defect of the engine.

usage: sweep.py SUITE...   QUIPU_LONG=1: all of them with several K, else FEW with one"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["QUIPU_SOURCE_DIR"])
BINARIES = pathlib.Path(os.environ["QUIPU_BINARY_DIR"]) / "tests" / "contract"
LONG = os.environ.get("QUIPU_LONG") == "1"
SKIP = 77
FEW = ("adk_snapshot", "store_session")
CONFLICTS = (3, 7, 19) if LONG else (3,)
CUTS = (17, 41, 97) if LONG else (29,)
FIRED = re.compile(r"^faults: (\d+) in", re.M)


class Sweep(unittest.TestCase):
    """One test for each way and suite; they are added below."""

    folder = None
    servers = {}  # configuration: file with the server's URI
    fired = {}  # way: faults that were injected

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        for faults, count in cls.fired.items():
            print(f"{faults or 'serializable'}: {count} faults")
        for uri in cls.servers.values():
            cls.script("stop", uri.parent, "")
        cls.folder.cleanup()

    @classmethod
    def script(cls, verb, folder, configuration):
        command = ["bash", str(ROOT / "tests" / "lib" / "pg.sh"), verb, str(folder)]
        env = {**os.environ, "QUIPU_PG_CONF": configuration}
        return subprocess.run(command, env=env, check=False).returncode

    @classmethod
    def server(cls, configuration):
        """A server of this configuration; the first call starts it."""
        if configuration not in cls.servers:
            folder = pathlib.Path(cls.folder.name) / str(len(cls.servers))
            if cls.script("start", folder, configuration) != 0:
                raise AssertionError("the server did not start")
            cls.servers[configuration] = folder / "uri"
        return cls.servers[configuration]

    def run_suite(self, suite, faults, configuration):
        """The suite must not notice."""
        env = {
            **os.environ,
            "QUIPU_TEST_PG": str(self.server(configuration)),
            "QUIPU_TEST_PG_FAULTS": faults,
        }
        env.pop("QUIPU_LONG", None)  # many short runs find more than one long one
        done = subprocess.run(
            [BINARIES / f"t_contract_{suite}"], env=env, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )
        self.fired[faults] = self.fired.get(faults, 0) + sum(map(int, FIRED.findall(done.stdout)))
        self.assertEqual(done.returncode, 0, f"\n{done.stdout[-6000:]}")

    def test_z_faults_were_injected(self):
        # Last by name: a sweep that met nothing has shown nothing.
        for faults, count in self.fired.items():
            self.assertTrue(count > 0 or not faults, faults)


def add(name, suite, faults, configuration=""):
    """A test method of that name."""
    setattr(
        Sweep, f"test_{suite}_{name}",
        lambda self: self.run_suite(suite, faults, configuration),
    )


def main():
    suites = [suite for suite in sys.argv[1:] if LONG or suite in FEW]
    if Sweep.script("stop", pathlib.Path("none"), "") == SKIP:
        sys.exit(SKIP)  # pg.sh has said why
    for suite in suites:
        add("where_transactions_are_serializable", suite, "",
            "default_transaction_isolation = 'serializable'")
        for k in CONFLICTS:
            add(f"with_one_in_{k}_transactions_in_conflict", suite, f"conflicts {k}")
        for k in CUTS:
            add(f"with_one_in_{k}_statements_cut_off", suite, f"cuts {k}")
    unittest.main(argv=[sys.argv[0], "-v"])


if __name__ == "__main__":
    main()
