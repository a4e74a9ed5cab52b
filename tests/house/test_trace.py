#!/usr/bin/env python3
"""The length of the write path: tools/trace_append.py compiles the library with entry hooks and
counts what one warm append on SQLite passes: 149 functions in 26 files, of which 9 in 2 are the
page layer, which SQLite calls. 140 in 25 without that layer is the aim of decision 26. Neither can
creep back: a function or a file more on the way needs one less elsewhere."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS_MAX = 149  # everything that is ours
FILES_MAX = 26
AIM_FUNCTIONS_MAX = 140  # without what SQLite calls
AIM_FILES_MAX = 25


class Trace(unittest.TestCase):
    def test_a_warm_append_passes_at_most_149_functions_in_26_files(self):
        result = subprocess.run(
            [sys.executable, str(ROOT / "tools/trace_append.py"), "--short"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 1, "--short prints the counts only")
        counts = re.search(
            r"(\d+) functions in (\d+) files, (\d+) in (\d+) of them called by SQLite", lines[0]
        )
        self.assertIsNotNone(counts, lines[0])
        functions, files, page_functions, page_files = map(int, counts.groups())
        self.assertLessEqual(functions, FUNCTIONS_MAX, "run tools/trace_append.py for their names")
        self.assertLessEqual(files, FILES_MAX, "run tools/trace_append.py for their names")
        self.assertLessEqual(functions - page_functions, AIM_FUNCTIONS_MAX)
        self.assertLessEqual(files - page_files, AIM_FILES_MAX)
        self.assertGreater(page_functions, 0, "the trace lost the page layer")
        self.assertGreater(functions, FUNCTIONS_MAX // 2, "the trace lost most of the path")


if __name__ == "__main__":
    unittest.main()
