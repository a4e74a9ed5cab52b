#!/usr/bin/env python3
"""The length of the write path: tools/trace_append.py compiles the library with entry hooks and
counts what one warm append on SQLite passes. The figure is the aim of decision 26, so that it
cannot creep back: a function or a file more on the way needs one less elsewhere."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS_MAX = 140
FILES_MAX = 25


class Trace(unittest.TestCase):
    def test_a_warm_append_passes_at_most_140_functions_in_25_files(self):
        result = subprocess.run(
            [sys.executable, str(ROOT / "tools/trace_append.py"), "--short"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 1, "--short prints the counts only")
        counts = re.search(r"(\d+) functions in (\d+) files above the engine", lines[0])
        self.assertIsNotNone(counts, lines[0])
        functions, files = map(int, counts.groups())
        self.assertLessEqual(functions, FUNCTIONS_MAX, "run tools/trace_append.py for their names")
        self.assertLessEqual(files, FILES_MAX, "run tools/trace_append.py for their names")
        self.assertGreater(functions, FUNCTIONS_MAX // 2, "the trace lost most of the path")


if __name__ == "__main__":
    unittest.main()
