#!/usr/bin/env python3
"""make test-citus where it cannot run: it says why, and does not call that a success."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run.py"


class Refusal(unittest.TestCase):
    """On a machine without Citus."""

    def run_it(self, **environment):
        env = {k: v for k, v in os.environ.items() if k != "CITUS_PREFIX"} | environment
        return subprocess.run([sys.executable, str(RUN)], env=env, capture_output=True, text=True,
                              check=False)

    def test_without_a_prefix_it_is_a_skip_that_says_what_is_missing(self):
        result = self.run_it()
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertRegex(result.stdout, r"^SKIP: test-citus: .*CITUS_PREFIX")

    def test_a_prefix_without_a_server_is_refused(self):
        with tempfile.TemporaryDirectory() as empty:
            result = self.run_it(CITUS_PREFIX=empty)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("no bin/postgres", result.stderr)


if __name__ == "__main__":
    unittest.main()
