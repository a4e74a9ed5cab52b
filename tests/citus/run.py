#!/usr/bin/env python3
"""make test-citus: stores on hash-distributed PostgreSQL (docs/scale.md, decision 56).

Starts a coordinator and three workers from CITUS_PREFIX, an installation of PostgreSQL with the
extension Citus, on loopback, on free ports and in a temporary folder. Then
  1. the contract suites run on it that run on PostgreSQL, and the suite of row security: every
     store they open is distributed;
  2. the cluster's writers (4 processes of 8 threads, 32 sessions) append while one worker is killed
     for 8 s and while shards move, and what is stored is compared with what was acknowledged;
  3. an operator distributes stores that are in use, looks at them, adds a worker and loses one
     (operations.py).

  CITUS_PREFIX   the installation; without it the test is absent, and says so (exit 77)
  TMPDIR         where the servers are: they make very many files, and are faster in memory
  --build DIR    the build whose programs run (build/debug)
  --only REGEX   suites by name; --no-suites, --no-writers, --no-operations: without this part
  --seconds N    how long the writers append (30)
  --keep         leave the folder with the logs of the servers
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import operations
from nodes import cluster

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROCESSES, THREADS, SESSIONS = 4, 8, 32
SUITES = re.compile(r"(contract\..*\.pg|postgres\.row_security)$")
KILLED_SECONDS = 8
TIMEOUT = 3600  # of one suite: contract.store_older opens a store 300 times
# Cases that cannot pass on a distributed store, and why (docs/scale.md).
NOT_HERE = {
    "a_rule_that_one_member_breaks_at_the_commit_fails_that_member_only":
        "what a worker refuses at its COMMIT is of unknown outcome here",
    "a_commit_of_one_member_that_the_engine_refuses_is_not_repeated":
        "what a worker refuses at its COMMIT is of unknown outcome here",
    "a_fork_ranks_what_it_shares_like_its_own":
        "9,050 hits of a fork take longer than the call's 30 s where the machine is loaded",
}


# ---- the contract suites ----------------------------------------------------------------------

def suites(build, only):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                           capture_output=True, text=True, check=True).stdout
    for test in json.loads(shown)["tests"]:
        if SUITES.match(test["name"]) and re.search(only, test["name"]):
            given = next((p["value"] for p in test["properties"] if p["name"] == "ENVIRONMENT"), [])
            yield test["name"], test["command"], dict(e.split("=", 1) for e in given)


def run_suite(suite, uri_file, folder):
    name, command, environment = suite
    temporary = tempfile.mkdtemp(dir=folder)
    os.chmod(temporary, 0o755)
    environment = {**os.environ, **environment, "QUIPU_TEST_PG": uri_file, "QUIPU_TEST_CITUS": "1",
                   "TMPDIR": temporary}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
        text, code = done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as stopped:
        text, code = (stopped.stdout or b"").decode("utf-8", "replace"), "timeout"
    shutil.rmtree(temporary, ignore_errors=True)
    return name, text, code


def run_suites(nodes, build, only, folder):
    uri_file = os.path.join(folder, "uri")
    with open(uri_file, "w", encoding="utf-8") as f:
        f.write(nodes[0].uri() + "\n")
    chosen = list(suites(build, only))
    passed, failed, absent = 0, [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, text, code in pool.map(lambda s: run_suite(s, uri_file, folder), chosen):
            ok = len(re.findall(r"^\[       OK \]", text, re.M))
            bad = sorted(set(re.findall(r"^\[  FAILED  \] (\w+)$", text, re.M)))
            named = [case for case in bad if case in NOT_HERE]
            bad = [case for case in bad if case not in NOT_HERE]
            absent += named
            passed += ok
            errors = re.findall(r"^\[  ERROR   \] (\w+)$", text, re.M)
            bad += [case for case in errors if case not in NOT_HERE]
            if code not in (0, 77) and not bad and not named:
                bad = [f"(exit {code})"]
            failed += [f"{name}: {case}" for case in bad]
            print(f"{'ok    ' if not bad else 'FAILED'} {name}: {ok} cases"
                  f"{', failed: ' + ' '.join(bad) if bad else ''}", flush=True)
            if bad:
                with open(os.path.join(folder, name + ".log"), "w", encoding="utf-8") as f:
                    f.write(text)
    print(f"test-citus: {passed} contract cases of {len(chosen)} suites passed, {len(failed)} "
          f"failed, {len(absent)} named exceptions")
    return failed


# ---- the writers ------------------------------------------------------------------------------

def placement(coordinator, schema):
    """The worker's port of each session."""
    rows = coordinator.sql(
        f"SET search_path = {schema}",
        "SELECT s.key, p.nodeport FROM (SELECT key, "
        "get_shard_id_for_distribution_column('sessions', part) AS shard FROM sessions) s "
        "JOIN citus_shards p ON p.shardid = s.shard")
    return {key: int(port) for key, port in (row.split("|") for row in rows.splitlines())}


def rate(logs, places, ports, start_ns, end_ns):
    """Acknowledged appends a second to the sessions of these workers."""
    n = sum(1 for log in logs.values() for e in log
            if start_ns <= e.ok_ns < end_ns and places.get(e.session) in ports)
    return n / max((end_ns - start_ns) / 1e9, 1e-9)


def move_shards(coordinator, source, target):
    """Every shard group of one worker to another one, while the writers go on."""
    shards = coordinator.sql(
        "SELECT shardid FROM citus_shards WHERE table_name = CAST('writers.sessions' AS regclass) "
        f"AND nodeport = {source.port}").split()
    for shard in shards:
        coordinator.sql(f"SELECT citus_move_shard_placement({shard}, '127.0.0.1', {source.port}, "
                        f"'127.0.0.1', {target.port}, 'block_writes')")
    return len(shards)


def run_writers(nodes, build, folder, seconds):
    sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
    import history  # pylint: disable=import-outside-toplevel
    import pathlib  # pylint: disable=import-outside-toplevel

    program = os.path.join(build, "tests", "cluster", "quipu_cluster_writer")
    coordinator, killed = nodes[0], nodes[2]
    coordinator.sql("CREATE SCHEMA writers", "ALTER DATABASE quipu SET citus.shard_count = 12")
    uri = coordinator.uri("&options=-csearch_path%3Dwriters")
    subprocess.run([program, "create", uri, str(SESSIONS)], check=True)
    places = placement(coordinator, "writers")
    logs_folder = pathlib.Path(folder) / "writers"
    logs_folder.mkdir()
    writers = []
    # Each thread keeps to its session: one that waits for the killed worker holds up no other one.
    for i in range(PROCESSES):
        # Half of the writers come through a worker: any node takes connections.
        node = coordinator if i % 2 == 0 else nodes[1]
        writers.append(subprocess.Popen(
            [program, "write", node.uri("&options=-csearch_path%3Dwriters"), str(SESSIONS), f"w{i}",
             str(logs_folder), str(THREADS), "120000", str(1 + i * THREADS)]))
    time.sleep(seconds / 2)
    kill_ns = time.monotonic_ns()
    killed.kill()
    time.sleep(KILLED_SECONDS)
    back_ns = time.monotonic_ns()
    killed.start()
    time.sleep(seconds / 4)
    moved = move_shards(coordinator, nodes[3], nodes[1])
    time.sleep(seconds / 4)
    for writer in writers:
        writer.send_signal(signal.SIGTERM)
    codes = [writer.wait() for writer in writers]
    dump = subprocess.run([program, "dump", uri, str(SESSIONS)], capture_output=True, text=True,
                          check=False)
    logs = history.read_logs(logs_folder.glob("*.log"))
    verdict = history.check(logs, history.read_dump(dump.stdout))
    acknowledged = {e.id: e for log in logs.values() for e in log if e.ok_ns}
    unreadable = verdict.count("lost") if dump.returncode == 0 else len(acknowledged)
    others = {n.port for n in nodes[1:] if n is not killed}
    before = rate(logs, places, others, kill_ns - int(seconds / 3 * 1e9), kill_ns)
    while_away = rate(logs, places, others, kill_ns, back_ns)
    recovered = history.failover_ns({k: [e for e in v if places.get(e.session) == killed.port]
                                     for k, v in logs.items()}, kill_ns)
    away = (back_ns - kill_ns) / 1e9
    print(f"test-citus: a worker killed for {away:.1f} s, {moved} shards moved")
    print(f"test-citus: acknowledged {len(acknowledged)}, lost {verdict.count('lost')}, duplicated "
          f"{verdict.count('duplicated')}, gaps {verdict.count('gaps')}, unreadable {unreadable}, "
          f"unresolved {verdict.count('unresolved')}")
    print(f"test-citus: to the sessions of the other workers {before:.0f} appends/s before, "
          f"{while_away:.0f} while it was away; its own again after {(recovered or 0) / 1e9:.1f} s")
    failed = [f"writers: {line}" for line in verdict.lines()]
    failed += [f"writers: a writer ended with {code}" for code in codes if code != 0]
    if dump.returncode != 0:
        failed.append(f"writers: dump: {dump.stderr.strip()[-300:]}")
    if while_away < before / 2:
        failed.append("writers: less than half of the appends to the other workers meanwhile")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "debug"))
    parser.add_argument("--only", default="")
    parser.add_argument("--no-suites", action="store_true")
    parser.add_argument("--no-writers", action="store_true")
    parser.add_argument("--no-operations", action="store_true")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    prefix = os.environ.get("CITUS_PREFIX", "")
    if not prefix:
        print("SKIP: test-citus: no Citus is here; CITUS_PREFIX=... names an installation of "
              "PostgreSQL with it")
        return 77
    folder = tempfile.mkdtemp(prefix="quipu-citus.")
    os.chmod(folder, 0o755)
    nodes, failed = [], []
    try:
        nodes = cluster(prefix, os.path.join(folder, "db"), "off")
        if not options.no_suites:
            failed += run_suites(nodes, options.build, options.only, folder)
        if not options.no_writers:
            failed += run_writers(nodes, options.build, folder, options.seconds)
        if not options.no_operations:
            failed += operations.run(nodes, options.build)
    finally:
        for node in nodes:
            node.stop()
        if options.keep or failed:
            print(f"test-citus: logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for line in failed:
        print(f"test-citus: FAILED {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
