#!/usr/bin/env python3
"""make bench: runs the benches, holds them against bench/bars.txt, prints a table and writes
build/bench.json. It builds nothing; `make bench` does that first.

Exit 1 when a bar does not hold, or when a listed bar has no result; "unsure" and "absent" pass,
unless QUIPU_REQUIRE_ALL=1 asks for the absent ones."""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cli_bench
import entgen_bench
import page_bench
import server_bench
import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCKS = 15
REPEATS_MAX = 3  # of an unsure bar, each time with twice the blocks
COUNTED = "bench_counted_block"  # callgrind counts inside this function of the harness
SUMMARY = re.compile(r"^summary: (\d+)", re.M)
SIGN = {"max": "<=", "min": ">="}
SERVER = "QUIPU_BENCH_POSTGRES"  # the PostgreSQL server for quipu_bench
# The tests' server is not durable, this one is.
SERVER_CONF = "fsync = on\nfull_page_writes = on\nautovacuum = on\nmax_wal_size = 1GB"


class Bar:
    """One line of bars.txt."""

    def __init__(self, name, kind, value, unit, needs, against):
        self.name, self.kind, self.value, self.unit = name, kind, float(value), unit
        self.needs, self.against = needs, against

    def text(self):
        return f"{SIGN[self.kind]} {self.value:g}"


def read_bars(path):
    """The bars by name, in the order of the file."""
    bars = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split(None, 5)
        try:
            bar = Bar(*cells)
        except (TypeError, ValueError):
            raise SystemExit(f"{path}:{number}: want: name max|min value unit needs against")
        if bar.kind not in SIGN or bar.name in bars:
            raise SystemExit(f"{path}:{number}: neither max nor min, or named twice: {bar.name}")
        if not re.fullmatch(r"-|(program|python|pip|server):\S+", bar.needs):
            raise SystemExit(f"{path}:{number}: needs is -, program:, python:, pip: or server:NAME")
        bars[bar.name] = bar
    return bars


def run_program(program, arguments, before=()):
    """Run quipu_bench in a folder of its own; its JSON lines, or [] with a word when it failed."""
    with tempfile.TemporaryDirectory(prefix="quipu-bench-") as folder:
        command = [*before, str(program), "--folder", folder, *arguments]
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            print(f"bench: {program}: {error.strerror}", file=sys.stderr)
            return []
    if result.returncode != 0:
        print(f"bench: {program} {' '.join(arguments)}: exit {result.returncode}", file=sys.stderr)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def list_benches(program):
    """The benches that quipu_bench knows: name -> the results that are not named after it."""
    try:
        command = [str(program), "--list"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"bench: {program}: {error}", file=sys.stderr)
        return {}
    return {words[0]: words[1:] for words in map(str.split, listed.splitlines()) if words}


def bench_of(result, benches):
    """The bench that gives a result: it lists it, or has the longest name that begins it."""
    for name, also in benches.items():
        if result in also:
            return name
    return max((name for name in benches if result.startswith(name)), key=len, default=None)


def select_benches(benches, bars, wanted):
    """The benches whose name, or that of one of their bars, begins with `wanted`."""
    asked = {bench_of(name, benches) for name in bars if name.startswith(wanted)}
    return [name for name in benches if name.startswith(wanted) or name in asked]


def judge(line, bar):
    """A result line as an object of bench.json."""
    result = {"name": line["name"]} | stats.summary(line)
    result["unit"] = line.get("unit", "x")
    result["against"] = line.get("against") or (bar.against if bar else "")
    result["options"] = line.get("options", "")
    result["bar"] = bar.text() if bar else None
    result["holds"] = None
    if bar:
        result["holds"] = stats.verdict(result["low"], result["high"], bar.kind, bar.value)
    for key in ("repeated", "disturbed", "instructions", "clock"):
        if key in line:
            result[key] = line[key]
    if line["measure"].endswith("_ratio"):
        for side in ("ours_ns", "yardstick_ns"):
            result[side] = stats.summary({"measure": "values", "values": line[side]})["value"]
    return result


def measure_bench(program, name, bars, blocks):
    """Run one bench of the program until no bar of it is unsure, or four times."""
    results = {}
    for attempt in range(1 + REPEATS_MAX):
        lines = run_program(program, ["--blocks", str(blocks << attempt), name])
        for line in lines:
            results[line["name"]] = judge(line, bars.get(line["name"]))
        if not any(r["holds"] == "unsure" for r in results.values()):
            break
    return list(results.values())


def measure_script(name, measure, bars, blocks):
    """The same for what is measured from here: measure(blocks) gives the lines."""
    results = []
    for attempt in range(1 + REPEATS_MAX):
        try:
            lines = measure(blocks << attempt)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"bench: {name}: {error}", file=sys.stderr)
            break
        results = [judge(line, bars.get(line["name"])) for line in lines]
        if not any(r["holds"] == "unsure" for r in results):
            break
    return results


def count_side(program, name, side):
    """Instructions per operation of one side, or None where callgrind gave none."""
    with tempfile.TemporaryDirectory(prefix="quipu-bench-") as folder:
        out = pathlib.Path(folder, "callgrind.out")
        before = ["valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no"]
        before += [f"--toggle-collect={COUNTED}", f"--callgrind-out-file={out}"]
        lines = run_program(program, ["--count", side, name], before)
        match = SUMMARY.search(out.read_text(encoding="utf-8")) if out.exists() else None
    if not match or not lines or int(match.group(1)) == 0:
        return None
    return int(match.group(1)) / lines[0]["operations"]


def absolute(result, count, bar):
    """A result for the instructions of one operation, where they have a bar; a list of it."""
    if bar is None:
        return []
    line = {"name": bar.name, "measure": "values", "values": [count], "unit": bar.unit}
    line |= {"against": bar.against, "options": result["options"]}
    return [judge(line, bar)]


def count_instructions(program, results, bars):
    """Add instructions per operation to the results of one bench; gives those with own bars."""
    added = []
    for result in results:
        if "yardstick_ns" not in result or result.get("clock", "cpu") != "cpu":
            continue  # counted, or about the kernel or waiting, which callgrind does not see
        ours = count_side(program, result["name"], "ours")
        theirs = count_side(program, result["name"], "yardstick")
        if ours is None or theirs is None:
            print(f"bench: {result['name']}: callgrind gave no count", file=sys.stderr)
            continue
        bar = bars.get(result["name"])
        ratio = theirs / ours if bar and bar.kind == "min" else ours / theirs
        counted = {"ours": round(ours), "yardstick": round(theirs), "ratio": round(ratio, 4)}
        if bar:
            counted["holds"] = stats.verdict(ratio, ratio, bar.kind, bar.value)
        result["instructions"] = counted
        added += absolute(result, counted["ours"], bars.get(f"{result['name']}_instructions"))
        for other in results:  # a rate made from the same blocks
            other.setdefault("instructions", {"ours": counted["ours"]})
    return added


def is_there(needs):
    """Whether what a bar needs is there: "-", "program:", "python:MODULE",
    "pip:NAME" or "server:NAME"."""
    kind, _, name = needs.partition(":")
    if kind == "program":
        return shutil.which(name) is not None
    if kind == "server":
        return SERVER in os.environ
    if kind == "pip":
        return server_bench.environment() is not None
    return kind != "python" or importlib.util.find_spec(name) is not None


def missing(bar):
    """What stands in bench.json for a listed bar that has no result."""
    absent = not is_there(bar.needs)
    result = {"name": bar.name, "value": None, "unit": bar.unit, "against": bar.against}
    result["options"] = f"needs {bar.needs}" if bar.needs != "-" else ""
    return result | {"bar": bar.text(), "holds": "absent" if absent else "missing"}


@contextlib.contextmanager
def one_processor():
    """Everything that is started meanwhile shares one: whether the system puts a client and its
    server on one or on two decides more about a round trip than what they do in it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def postgres_server(where):
    """A PostgreSQL server while its benches run, on these processors, where one is installed."""
    if SERVER in os.environ:
        yield
        return
    script = ["bash", str(ROOT / "tests/lib/pg.sh")]
    conf = os.environ | {"QUIPU_PG_CONF": SERVER_CONF}
    with where(), tempfile.TemporaryDirectory(prefix="quipu-bench-pg-") as folder:
        place = pathlib.Path(folder, "server")
        started = subprocess.run([*script, "start", str(place)], env=conf, check=False)
        if started.returncode == 0:
            os.environ[SERVER] = (place / "uri").read_text(encoding="utf-8").strip()
        try:
            yield
        finally:
            os.environ.pop(SERVER, None)
            subprocess.run([*script, "stop", str(place)], check=False)


def number(value):
    """A number as people read it."""
    if value is None:
        return "-"
    if float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def instructions_text(counted):
    """The table's cell on instructions."""
    if not counted:
        return ""
    if "ratio" not in counted:
        ours = counted["ours"]
        return f"{ours / 1e6:.1f} M" if ours >= 1e6 else str(ours)
    holds = f" {counted['holds']}" if "holds" in counted else ""
    return f"{number(counted['ratio'])} ({counted['ours']} / {counted['yardstick']}){holds}"


def table(results):
    """The results as text for people."""
    head = ["bench", "value", "interval", "unit", "bar", "holds", "blocks", "instructions"]
    rows = [head]
    for r in results:
        spread = ""
        if r.get("blocks", 1) > 1:
            spread = f"{number(r['low'])} .. {number(r['high'])}"
        blocks = str(r.get("blocks", ""))
        if r.get("disturbed"):
            blocks += f" ({r['disturbed']} disturbed)"
        row = [r["name"], number(r["value"]), spread, r["unit"], r["bar"] or "", r["holds"] or ""]
        rows.append(row + [blocks, instructions_text(r.get("instructions"))])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows)


def exit_code(results, require_all):
    """1 when a bar fails, with the reason of each on the error stream."""
    bad = {"no": "the bar does not hold", "missing": "a listed bar has no result"}
    if require_all:
        bad["absent"] = "what the bar needs is absent"
    failed = [r for r in results if r["holds"] in bad]
    for r in failed:
        print(f"bench: {r['name']}: {bad[r['holds']]}", file=sys.stderr)
    return 1 if failed else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    program = ROOT / "build/release/bin/quipu_bench"
    parser.add_argument("--program", type=pathlib.Path, default=program)
    parser.add_argument("--entgen", type=pathlib.Path, default=ROOT / "build/entgen")
    parser.add_argument("--quipu", type=pathlib.Path, default=ROOT / "build/quipu")
    parser.add_argument("--bars", type=pathlib.Path, default=ROOT / "bench/bars.txt")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench.json")
    parser.add_argument("--compiler", default="gcc", help="what compiles entgen's output")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="of each side, at least 7")
    parser.add_argument("--only", help="run the benches whose name begins with this")
    parser.add_argument("--no-instructions", action="store_true", help="do not run callgrind")
    return parser.parse_args()


def measure_postgres(args, bars, names):
    """The results of the benches that need a server; empty without one. Where one program works
    beside another the question is who waits for whom, so that both have a processor."""
    together = [name for name in names if name.startswith("postgres.beside_")]
    alone = [name for name in names if name not in together]
    results = []
    for chosen, where in ((alone, one_processor), (together, contextlib.nullcontext)):
        if not chosen:
            continue
        with postgres_server(where):
            for name in chosen if SERVER in os.environ else []:
                results += measure_bench(args.program, name, bars, args.blocks)
    return results


def measure(args, bars):
    """Every result that the arguments ask for."""
    wanted = args.only or ""
    counting = not args.no_instructions
    if counting and shutil.which("valgrind") is None:
        print("bench: valgrind is not installed: instructions are not counted", file=sys.stderr)
        counting = False
    results = []
    names = select_benches(list_benches(args.program), bars, wanted)
    for name in (name for name in names if not name.startswith("postgres.")):
        found = measure_bench(args.program, name, bars, args.blocks)
        if counting:
            found += count_instructions(args.program, found, bars)
        results += found
    results += measure_postgres(args, bars, [n for n in names if n.startswith("postgres.")])
    scripts = {
        "entgen": lambda blocks: entgen_bench.measure(
            args.entgen, ROOT / "include", args.compiler, counting, blocks
        ),
        "cli": lambda blocks: cli_bench.measure(args.quipu, blocks),
        "server": lambda blocks: server_bench.measure(args.quipu, blocks),
        "page": lambda blocks: page_bench.measure(ROOT / "build/release/bin/quipu", blocks),
    }
    for script, run in scripts.items():
        if any(name.startswith(f"{script}.") and name.startswith(wanted) for name in bars):
            results += measure_script(script, run, bars, args.blocks)
    return results


def main():
    args = parse_arguments()
    bars = read_bars(args.bars)
    results = measure(args, bars)
    have = {r["name"] for r in results}
    for bar in bars.values():
        if bar.name not in have and (not args.only or bar.name.startswith(args.only)):
            results.append(missing(bar))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))
    sys.exit(exit_code(results, os.environ.get("QUIPU_REQUIRE_ALL") == "1"))


if __name__ == "__main__":
    main()
