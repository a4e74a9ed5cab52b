#!/usr/bin/env python3
"""make bench judges as it says: interval, verdict, repetition, table, bench.json, exit code. A
stand-in for quipu_bench gives it made-up block times; nothing here looks at a clock."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import run as bench_run  # noqa: E402
import stats  # noqa: E402

# Prints what results.json says for each bench, block counts and all; logs how it was called.
STAND_IN = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
results = json.loads((here / "results.json").read_text())
if sys.argv[1] == "--list":
    print("\\n".join(results))
    sys.exit(0)
blocks, name = int(sys.argv[sys.argv.index("--blocks") + 1]), sys.argv[-1]
with open(here / "calls.txt", "a") as log:
    print(name, blocks, file=log)
for line in results[name]:
    if line == "crash":
        sys.exit(1)
    for key in ("ours_ns", "yardstick_ns", "values"):
        if key in line:
            line[key] = (line[key] * blocks)[:blocks]
    print(json.dumps(line))
"""


def pair(name, ours, theirs, measure="cost_ratio"):
    return {
        "name": name,
        "bench": name,
        "measure": measure,
        "against": "hand-written calls",
        "options": "WAL",
        "ours_ns": ours,
        "yardstick_ns": theirs,
    }


class Statistics(unittest.TestCase):
    def test_interval_of_seven_is_all_of_them_and_of_fifteen_the_inner_nine(self):
        self.assertEqual(stats.interval(range(7)), (0, 6))
        self.assertEqual(stats.interval(range(15)), (3, 11))
        self.assertEqual(stats.interval([5]), (5, 5))

    def test_verdict_is_no_only_when_the_whole_interval_is_beyond_the_bar(self):
        self.assertEqual(stats.verdict(1.0, 1.25, "max", 1.25), "yes")
        self.assertEqual(stats.verdict(1.2, 1.3, "max", 1.25), "unsure")
        self.assertEqual(stats.verdict(1.26, 1.3, "max", 1.25), "no")
        self.assertEqual(stats.verdict(0.5, 0.6, "min", 0.5), "yes")
        self.assertEqual(stats.verdict(0.4, 0.6, "min", 0.5), "unsure")
        self.assertEqual(stats.verdict(0.3, 0.4, "min", 0.5), "no")

    def test_ratio_is_the_median_of_per_block_ratios(self):
        line = pair("a", [10, 30, 50], [10, 10, 10])
        self.assertEqual(stats.summary(line)["value"], 3)
        line["measure"] = "speed_ratio"
        self.assertAlmostEqual(stats.summary(line)["value"], 1 / 3)


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_bench(self, bars, results, **environment):
        """(exit code, standard output, standard error, bench.json)."""
        program = self.path / "quipu_bench"
        program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (self.path / "results.json").write_text(json.dumps(results), encoding="utf-8")
        (self.path / "bars.txt").write_text(bars, encoding="utf-8")
        command = [sys.executable, str(ROOT / "bench/run.py"), "--no-instructions"]
        command += ["--program", str(program), "--bars", str(self.path / "bars.txt")]
        command += ["--out", str(self.path / "out/bench.json")]
        env = {k: v for k, v in os.environ.items() if k != "QUIPU_REQUIRE_ALL"} | environment
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        out = self.path / "out/bench.json"
        written = json.loads(out.read_text(encoding="utf-8")) if out.exists() else None
        return result.returncode, result.stdout, result.stderr, written

    def calls(self):
        return (self.path / "calls.txt").read_text(encoding="utf-8").splitlines()

    def test_good_result_passes_and_has_every_key(self):
        results = {"a": [pair("a", [11], [10])]}
        code, table, _, written = self.run_bench("a max 1.25 x - raw calls\n", results)
        self.assertEqual(code, 0)
        (row,) = written
        self.assertEqual(
            {k: row[k] for k in ("name", "value", "unit", "against", "options", "bar", "holds")},
            {
                "name": "a",
                "value": 1.1,
                "unit": "x",
                "against": "hand-written calls",
                "options": "WAL",
                "bar": "<= 1.25",
                "holds": "yes",
            },
        )
        self.assertEqual((row["low"], row["high"], row["blocks"]), (1.1, 1.1, 15))
        self.assertRegex(table, r"a +1\.100 +1\.100 \.\. 1\.100 +x +<= 1\.25 +yes +15")
        self.assertEqual(self.calls(), ["a 15"])

    def test_bad_result_fails_and_is_named(self):
        results = {"a": [pair("a", [13], [10])], "b": [pair("b", [10], [10])]}
        bars = "a max 1.25 x - raw\nb max 1.25 x - raw\n"
        code, table, error, written = self.run_bench(bars, results)
        self.assertEqual(code, 1)
        self.assertEqual([r["holds"] for r in written], ["no", "yes"])
        self.assertIn("a: the bar does not hold", error)
        self.assertNotIn("b: the bar", error)
        self.assertRegex(table, r"a .* no ")

    def test_unsure_result_is_repeated_three_times_with_twice_the_blocks_and_passes(self):
        results = {"a": [pair("a", [10, 15], [10])]}
        results["a"][0]["yardstick_ns"] = [10, 10]
        code, _, _, written = self.run_bench("a max 1.25 x - raw\n", results)
        self.assertEqual(code, 0)
        self.assertEqual(written[0]["holds"], "unsure")
        self.assertEqual(self.calls(), ["a 15", "a 30", "a 60", "a 120"])

    def test_listed_bar_without_result_fails(self):
        results = {"a": [pair("a", [10], [10])]}
        bars = "a max 1.25 x - raw\ngone min 500 MB/s - raw\n"
        code, table, error, written = self.run_bench(bars, results)
        self.assertEqual(code, 1)
        self.assertEqual(written[1]["holds"], "missing")
        self.assertIsNone(written[1]["value"])
        self.assertIn("gone: a listed bar has no result", error)
        self.assertIn("missing", table)

    def test_bench_that_ends_badly_leaves_its_bar_without_result(self):
        code, _, error, _ = self.run_bench("a max 1.25 x - raw\n", {"a": ["crash"]})
        self.assertEqual(code, 1)
        self.assertIn("exit 1", error)
        self.assertIn("a: a listed bar has no result", error)

    def test_absent_peer_passes_unless_everything_is_required(self):
        bars = "peer min 2 x program:no-such-program-here a peer\n"
        code, _, _, written = self.run_bench(bars, {})
        self.assertEqual((code, written[0]["holds"]), (0, "absent"))
        code, _, error, _ = self.run_bench(bars, {}, QUIPU_REQUIRE_ALL="1")
        self.assertEqual(code, 1)
        self.assertIn("peer: what the bar needs is absent", error)

    def test_present_peer_without_result_fails(self):
        code, _, _, written = self.run_bench("peer min 2 x python:json a peer\n", {})
        self.assertEqual((code, written[0]["holds"]), (1, "missing"))

    def test_result_without_bar_is_shown_and_judges_nothing(self):
        code, table, _, written = self.run_bench("", {"a": [pair("a", [99], [10])]})
        self.assertEqual((code, written[0]["holds"], written[0]["bar"]), (0, None, None))
        self.assertIn("9.900", table)

    def test_counted_zero_holds_a_bar_of_zero_and_one_does_not(self):
        count = {"name": "a", "bench": "a", "measure": "count", "unit": "statements", "values": [0]}
        bars = "a max 0 statements - counted\n"
        self.assertEqual(self.run_bench(bars, {"a": [count]})[0], 0)
        self.assertEqual(self.run_bench(bars, {"a": [count | {"values": [1]}]})[0], 1)

    def test_wall_time_is_not_counted_in_instructions(self):
        result = {"name": "a", "yardstick_ns": 1, "clock": "wall"}
        bench_run.count_instructions(self.path / "must-not-run", [result], {})
        self.assertNotIn("instructions", result)

    def test_only_runs_the_bench_of_every_bar_that_begins_so(self):
        benches = {"a.full": [], "a.full_8": [], "a.fork_flat": ["a.last_flat"], "b": []}
        bars = ["a.full", "a.full_p50", "a.full_8_syncs", "a.fork_flat", "a.last_flat", "b"]
        for wanted, want in (
            ("a.full_", ["a.full", "a.full_8"]),
            ("a.full_8", ["a.full_8"]),
            ("a.full_p", ["a.full"]),
            ("a.last", ["a.fork_flat"]),
            ("", ["a.full", "a.full_8", "a.fork_flat", "b"]),
            ("c", []),
        ):
            self.assertEqual(bench_run.select_benches(benches, bars, wanted), want, wanted)

    def test_malformed_bars_are_refused_with_their_line(self):
        wrong = ["a max\n", "a about 1 x - raw\n", "a max x x - raw\n", "a max 1 x sqlite raw\n"]
        for bars in wrong:
            code, _, error, _ = self.run_bench(bars, {})
            self.assertEqual(code, 1, bars)
            self.assertIn("bars.txt:1:", error)

    def test_committed_bars_can_be_read_and_are_not_empty(self):
        self.assertGreaterEqual(len(bench_run.read_bars(ROOT / "bench/bars.txt")), 11)


if __name__ == "__main__":
    unittest.main()
