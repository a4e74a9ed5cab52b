#!/usr/bin/env python3
"""The driver counts cases, names skips, and ends with the line CI reads."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "e2e")]
import harness  # noqa: E402
import test as driver  # noqa: E402

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
SKIP: fixture lango.db is absent
[  SKIPPED ] two
[ RUN      ] three
[       OK ] three
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] two

 1 SKIPPED TEST(S)
"""
CMOCKA_FAILED = """[ RUN      ] one
[       OK ] one
[ RUN      ] two
[  ERROR   ] --- 1 != 2
[  FAILED  ] two
[==========] 2 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] two

 1 FAILED TEST(S)
"""


class Count(unittest.TestCase):
    def count(self, status, output):
        stage = driver.Stage("s")
        driver.count_output(stage, "room.topic", status, output)
        return stage.passed, stage.failed, stage.skipped

    def test_cmocka_cases_are_counted_and_the_skip_is_named_with_its_reason(self):
        skips = ["room.topic: two (fixture lango.db is absent)"]
        self.assertEqual(self.count("run", CMOCKA), (2, [], skips))

    def test_case_of_another_engine_is_not_passed_and_named_with_its_reason(self):
        stage = driver.Stage("s")
        output = CMOCKA.replace("] one\n", "] one\nnot on PostgreSQL: a file\n", 1)
        driver.count_output(stage, "room.topic.pg", "run", output)
        self.assertEqual(stage.passed, 1)
        self.assertEqual(stage.elsewhere, ["room.topic.pg: one (not on PostgreSQL: a file)"])

    def test_failed_case_is_counted_once_and_named(self):
        self.assertEqual(self.count("fail", CMOCKA_FAILED), (1, ["room.topic: two"], []))

    def test_crash_in_the_middle_is_a_failure(self):
        output = "[ RUN      ] one\n[       OK ] one\n[ RUN      ] two\n"
        self.assertEqual(self.count("fail", output), (1, ["room.topic"], []))

    def test_plain_script_counts_as_one(self):
        self.assertEqual(self.count("run", "fine\n"), (1, [], []))
        self.assertEqual(self.count("fail", "bad\n"), (0, ["room.topic"], []))

    def test_skipped_program_is_named_with_its_reason(self):
        skips = ["room.topic: no clang"]
        self.assertEqual(self.count("notrun", "SKIP: no clang\n"), (0, [], skips))
        self.assertEqual(self.count("run", "SKIP: no clang\n"), (0, [], skips))

    def test_python_cases_are_counted(self):
        output = (
            "test_a (__main__.X.test_a) ... ok\n"
            "test_b (__main__.X.test_b)\nA docstring. ... skipped 'no tool'\n"
            "test_c (__main__.X.test_c) ... FAIL\n"
        )
        expected = (1, ["room.topic: test_c"], ["room.topic: test_b ('no tool')"])
        self.assertEqual(self.count("fail", output), expected)

    def count_unit(self, case):
        """Count what unittest prints about a case that runs here."""
        output = io.StringIO()
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
        unittest.TextTestRunner(output, verbosity=2).run(suite)
        return self.count("run", output.getvalue())

    def test_a_skipped_subtest_is_counted_once_and_named(self):
        class Case(unittest.TestCase):
            def test_a(self):
                for number in range(2):
                    with self.subTest(number, kind="x"):
                        self.skipTest("no tool")

        self.assertEqual(self.count_unit(Case), (0, [], ["room.topic: test_a ('no tool')"]))

    def test_without_a_pty_each_test_that_needs_a_terminal_is_named(self):
        class Case(harness.Case):
            def test_a(self):
                self.run_terminal("version")

            def test_b(self):
                self.run_terminal("--help")

        with mock.patch("os.openpty", side_effect=OSError(2, "out of pty devices")):
            passed, failed, skipped = self.count_unit(Case)
        self.assertEqual((passed, failed, len(skipped)), (0, [], 2))
        for line, name in zip(skipped, ("test_a", "test_b"), strict=True):
            self.assertIn(f"room.topic: {name} ", line)
            self.assertIn("needs a terminal, and no pty opens", line)


class Junit(unittest.TestCase):
    def read(self, message):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "junit.xml"
            skipped = f'<skipped message="{message}"/>'
            case = f'<testcase name="a.b" status="notrun">{skipped}</testcase>'
            path.write_text(f"<testsuite>{case}</testsuite>", encoding="utf-8")
            stage = driver.Stage("s")
            driver.read_junit(stage, path)
        return stage.failed, stage.skipped

    def test_a_test_that_skips_itself_is_a_skip(self):
        self.assertEqual(self.read("SKIP_RETURN_CODE=77"), ([], ["a.b: not run"]))

    def test_a_missing_program_or_failed_fixture_is_a_failure(self):
        self.assertEqual(self.read("Unable to find executable"), (["a.b"], []))
        self.assertEqual(self.read("Fixture dependency failed"), (["a.b"], []))

    def test_a_missing_report_is_a_failure(self):
        stage = driver.Stage("s")
        driver.read_junit(stage, pathlib.Path("no-such-report.xml"))
        self.assertEqual(stage.failed, ["ctest wrote no report"])


class Summary(unittest.TestCase):
    def summary(self, passed=0, failed=(), skipped=(), require_all=False):
        stage = driver.Stage("stage one")
        stage.passed, stage.failed, stage.skipped = passed, list(failed), list(skipped)
        output = io.StringIO()
        env = {"QUIPU_REQUIRE_ALL": "1" if require_all else ""}
        with mock.patch.dict(os.environ, env), contextlib.redirect_stdout(output):
            code = driver.summary([stage])
        return code, output.getvalue()

    def last(self, text):
        return text.rstrip("\n").split("\n")[-1]

    def test_all_green(self):
        code, text = self.summary(passed=5)
        self.assertEqual((code, self.last(text)), (0, "5 passed, 0 failed"))

    def test_failure_is_named_and_makes_the_exit_code(self):
        code, text = self.summary(passed=5, failed=["base.json: case"])
        self.assertEqual((code, self.last(text)), (1, "5 passed, 1 failed"))
        self.assertIn("stage one: base.json: case", text)

    def test_skip_is_counted_and_named_and_no_failure(self):
        code, text = self.summary(passed=5, skipped=["x: why"])
        self.assertEqual((code, self.last(text)), (0, "5 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped (1):\n  stage one: x: why", text)

    def test_skip_is_a_failure_when_all_is_required(self):
        code, text = self.summary(passed=5, skipped=["x: why"], require_all=True)
        self.assertEqual((code, self.last(text)), (1, "5 passed, 1 failed"))
        self.assertIn("stage one: x: why", text)

    def test_nothing_at_all_is_a_failure(self):
        self.assertEqual(self.summary()[0], 1)


if __name__ == "__main__":
    unittest.main()
