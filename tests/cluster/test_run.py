#!/usr/bin/env python3
"""make test-cluster where it cannot run: it says why, and does not call that a success."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run.py"


class Refusal(unittest.TestCase):
    """On a machine that has none of the programs."""

    def run_it(self, *arguments, **environment):
        with tempfile.TemporaryDirectory() as empty:
            env = {k: v for k, v in os.environ.items() if k != "QUIPU_REQUIRE_ALL"}
            env |= {"PATH": empty} | environment
            return subprocess.run(
                [sys.executable, str(RUN), *arguments],
                env=env, capture_output=True, text=True, check=False,
            )

    def test_what_is_not_installed_is_a_skip_that_is_named(self):
        result = self.run_it()
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertRegex(result.stdout, r"^SKIP: test-cluster: not installed: .*\bpatroni, etcd\b")

    def test_the_skip_is_a_failure_where_everything_is_required(self):
        result = self.run_it(QUIPU_REQUIRE_ALL="1")
        self.assertEqual(result.returncode, 1, result.stderr)

    def test_a_fault_that_does_not_exist_is_refused(self):
        result = self.run_it("--faults", "cut,flood")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no such fault: flood", result.stderr)


if __name__ == "__main__":
    unittest.main()
