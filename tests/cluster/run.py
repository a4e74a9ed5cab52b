#!/usr/bin/env python3
"""make test-cluster: three PostgreSQL under Patroni and etcd, each in its own network namespace,
while writers on our library append. The leader is killed, cut off, frozen; what was acknowledged
must be stored once, on every member. Exits 1 when it is not, 77 where it cannot run."""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import history
import nodes

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = 77
WRITERS = 3  # processes
THREADS = 4  # of each
SESSIONS = 8
DEADLINE_MS = 120_000  # longer than any failover: an error that comes through is a defect
INSIDE_DEADLINE_MS = 5_000  # of the writer that is cut off, which is to see UNKNOWN
LOAD_S = 5  # of undisturbed load before each fault
GO_ON_S = 120
GO_ON_BYTES = 1000  # of a log: some appends
CUT_S = 40
FREEZE_S = 30
LOSS_S = 30
LOSS_PERCENT = 5
ETCD_S = 40  # longer than the lease
STANDBY_CUT_S = 30
CANCEL_ROUNDS = 5
STOP_S = 240


def say(text):
    print(f"[{time.monotonic() - say.start:6.1f}] {text}", flush=True)


say.start = time.monotonic()


class Run:
    """One run inside of the namespaces: the load, the faults, the check."""

    def __init__(self, folder, writer, kills, faults, seed):
        self.cluster = nodes.Cluster(folder)
        self.logs = folder / "history"
        self.writer = writer
        self.kills = kills
        self.faults = faults
        self.chance = random.Random(seed)
        self.writers = []
        self.threads = {}  # of each writer
        self.outages = []  # when commits became impossible
        self.minority = []  # for history.check()
        self.leaderless = []  # (from, to): nobody could lead

    # ---- load

    def write(self, name, threads, deadline_ms, node=None):
        """Start a writing process, in one of the machines or beside them. Each begins its list of
        hosts with another one, so that one of them always meets the missing machine first."""
        uri = self.cluster.uri(first=len(self.writers) % nodes.COUNT)
        self.threads[name] = threads
        command = [
            self.writer, "write", uri, str(SESSIONS), name, str(self.logs), str(threads),
            str(deadline_ms),
        ]
        log = self.logs / f"{name}.err"
        if node is not None:
            self.writers.append(node.inside(command, log, user=None))
            return
        with open(log, "ab") as stream:
            self.writers.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                                 start_new_session=True)
            )

    def load(self):
        """Some seconds of it, counted from when every thread has gone on: a fault that comes before
        would only make the last one longer."""
        before = self.sizes()
        deadline = time.monotonic() + GO_ON_S
        while any(size - before.get(log, 0) < GO_ON_BYTES for log, size in self.sizes().items()):
            self.check_writers()
            if time.monotonic() > deadline:
                raise nodes.Failed(f"a writer has not gone on for {GO_ON_S} s")
            time.sleep(nodes.POLL_S)
        # By chance longer, so that faults do not keep step with Patroni's loop.
        time.sleep(LOAD_S + self.chance.random() * nodes.LOOP_S)
        self.check_writers()

    def sizes(self):
        """How much each thread has logged; one that is about to begin has nothing."""
        threads = ((name, i) for name, count in self.threads.items() for i in range(count))
        paths = [self.logs / f"{name}.{i}.log" for name, i in threads]
        return {path: path.stat().st_size if path.exists() else 0 for path in paths}

    def check_writers(self):
        for process in self.writers:
            if process.poll() is not None:
                text = "".join(p.read_text("utf-8", "replace") for p in self.logs.glob("*.err"))
                raise nodes.Failed(f"a writer ended by itself ({process.returncode}): {text}")

    def stop(self):
        """Let every writer finish what it has begun."""
        for process in self.writers:
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in self.writers:
            try:
                code = process.wait(timeout=max(deadline - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                raise nodes.Failed(f"a writer did not end within {STOP_S} s") from None
            if code != 0:
                raise nodes.Failed(f"a writer ended with {code}")

    # ---- faults

    def others(self, node):
        return [n for n in self.cluster.nodes if n is not node]

    def successor(self, node, since):
        """Wait for another leader; returns how long it took."""
        new = self.cluster.leader(among=self.others(node))
        say(f"  {new.name} leads after {time.monotonic() - since:.1f} s")

    def whole(self, after):
        say(f"  whole again after {self.cluster.wait_whole(after):.1f} s more")

    def kill_leader(self, number):
        leader = self.cluster.leader()
        say(f"kill {number}: kill -9 of Patroni and PostgreSQL on {leader.name}, the leader")
        start = time.monotonic()
        self.outages.append(time.monotonic_ns())
        leader.kill()
        self.successor(leader, start)
        leader.start_patroni()
        self.whole(f"kill {number}")

    def cut_leader(self):
        self.part("inside", "the link of", nodes.Node.cut, nodes.Node.heal)

    def mute_leader(self):
        self.part("inside-mute", "what is sent by", nodes.Node.mute, nodes.Node.unmute)

    def part(self, name, what, cut, heal):
        """Between the leader and the others, with a writer of that name inside."""
        leader = self.cluster.leader()
        self.write(name, 2, INSIDE_DEADLINE_MS, leader)
        self.load()
        say(f"cut: {what} {leader.name}, the leader, for {CUT_S} s, with a writer inside")
        start = time.monotonic()
        start_ns = time.monotonic_ns()
        self.outages.append(start_ns)
        cut(leader)
        self.successor(leader, start)
        time.sleep(max(start + CUT_S - time.monotonic(), 0))
        self.minority.append((name, start_ns, time.monotonic_ns()))
        heal(leader)
        self.whole("the cut")

    def cut_standby(self):
        standby = self.cluster.sync_standby()
        say(f"standby: the link of {standby.name}, the synchronous one, for {STANDBY_CUT_S} s")
        standby.cut()
        time.sleep(STANDBY_CUT_S)
        other = self.cluster.sync_standby(among=self.others(standby))
        say(f"  commits wait for {other.name} instead")
        standby.heal()
        self.whole("the cut of the standby")

    def lossy_leader(self):
        leader = self.cluster.leader()
        say(f"loss: {LOSS_PERCENT} % of the packets of {leader.name}, the leader, for {LOSS_S} s")
        leader.drop(LOSS_PERCENT)
        time.sleep(LOSS_S)
        leader.undrop()
        self.whole("the loss of packets")

    def freeze_leader(self):
        leader = self.cluster.leader()
        say(f"freeze: SIGSTOP of Patroni and PostgreSQL on {leader.name}, the leader, {FREEZE_S} s")
        start = time.monotonic()
        self.outages.append(time.monotonic_ns())
        leader.signal(signal.SIGSTOP)
        self.successor(leader, start)
        time.sleep(max(start + FREEZE_S - time.monotonic(), 0))
        leader.signal(signal.SIGCONT)
        self.whole("the freeze")

    def cancel_waits(self):
        """The server answers a cancelled wait for the standby with success. Then the leader dies
        with what only it had: a caller that took that for success has lost an append."""
        leader = self.cluster.leader()
        say(f"cancel: standbys stopped, waits for them cancelled, then kill -9 of {leader.name}")
        cancelled = 0
        with contextlib.ExitStack() as stack:
            for node in self.others(leader):
                node.signal(signal.SIGSTOP)
                stack.callback(node.signal, signal.SIGCONT)
            for _ in range(CANCEL_ROUNDS):
                time.sleep(1)
                cancelled += int(self.cluster.sql(
                    leader,
                    "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
                    "WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'"))
            start = time.monotonic()
            self.outages.append(time.monotonic_ns())
            leader.kill()
            for node in self.others(leader):
                node.kill_receiver()
        say(f"  {cancelled} waits cancelled")
        if cancelled == 0:
            raise nodes.Failed("no commit waited for a standby while none was there")
        self.successor(leader, start)
        leader.start_patroni()
        self.whole("the cancelled waits")

    def lose_etcd(self):
        """Without a majority of etcd nobody may lead."""
        leader = self.cluster.leader()
        say(f"etcd: kill -9 of all but that on {leader.name}, the leader, for {ETCD_S} s")
        start, start_ns = time.monotonic(), time.monotonic_ns()
        for node in self.others(leader):
            node.kill_etcd()
        say(f"  it steps down after {self.cluster.wait_writable(0):.1f} s")
        since_ns = time.monotonic_ns()
        time.sleep(max(start + ETCD_S - time.monotonic(), 0))
        for name in self.threads:
            self.minority.append((name, since_ns, time.monotonic_ns()))
        for node in self.others(leader):
            node.start_etcd()
        say(f"  etcd is back, and {self.cluster.wait_writable(1):.1f} s later there is a leader")
        self.whole("the loss of etcd")
        self.leaderless.append((start_ns, time.monotonic_ns()))

    # ---- the whole of it

    def everything(self):
        self.logs.mkdir()
        self.cluster.wire()
        self.cluster.start()
        say("three members, one leader, one synchronous standby")
        nodes.run(self.writer, "create", self.cluster.uri(), str(SESSIONS))
        for i in range(WRITERS):
            self.write(f"w{i}", THREADS, DEADLINE_MS)
        for number in range(1, self.kills + 1):
            self.load()
            self.kill_leader(number)
        for name in self.faults:
            self.load()
            getattr(self, FAULTS[name])()
        self.load()
        self.stop()
        say("the writers have stopped")
        self.cluster.wait_whole("the load", lag_max=0)
        return self.judge()

    def dumps(self):
        """What each member holds, read by our own library."""
        for node in self.cluster.nodes:
            result = subprocess.run(
                [self.writer, "dump", self.cluster.uri([node]), str(SESSIONS)],
                capture_output=True, text=True, check=False,
            )
            if result.returncode != 0:
                raise nodes.Failed(f"{node.name} cannot be read: {result.stderr.strip()}")
            yield history.read_dump(result.stdout)

    def judge(self):
        logs = history.read_logs(self.logs.glob("*.log"))
        first, *rest = self.dumps()
        verdict = history.check(logs, first, self.minority)
        table(self, logs, first, verdict)
        for line in verdict.lines():
            print(line)
        good = verdict.good
        if any(other != first for other in rest):
            print("the members do not hold the same")
            good = False
        for name, log in logs.items():
            for event in log:
                if event.failures and not event.unknown and not name.startswith("inside"):
                    print(f"error that should have been a retry: {event.id}: {event.failures[0]}")
                    good = False
        return good


FAULTS = {
    "cut": "cut_leader",
    "mute": "mute_leader",
    "standby": "cut_standby",
    "loss": "lossy_leader",
    "freeze": "freeze_leader",
    "cancel": "cancel_waits",
    "etcd": "lose_etcd",
}


def table(run, logs, rows, verdict):
    """The figures of the run."""
    outside = {name: log for name, log in logs.items() if not name.startswith("inside")}
    events = [event for log in logs.values() for event in log]
    unknown = [e for e in events if e.unknown]
    failovers = [history.failover_ns(outside, at) for at in run.outages]
    failovers = [f for f in failovers if f is not None]
    gaps = [history.worst_gaps_ns(log, run.leaderless) for log in outside.values()]
    worst, leaderless = (max(column, default=0) for column in zip(*gaps))
    lines = (
        ("kills of the leader, other faults", f"{run.kills}, {' '.join(run.faults) or 'none'}"),
        ("acknowledged", sum(1 for e in events if e.ok_ns)),
        ("stored", len(rows)),
        ("lost", verdict.count("lost")),
        ("duplicated", verdict.count("duplicated")),
        ("gaps in the numbers", verdict.count("gaps")),
        ("acknowledged by the minority", verdict.count("minority")),
        ("unknown to the caller, resolved",
         f"{len(unknown)}, {sum(1 for e in unknown if e.ok_ns)}"),
        ("settled inside of the library", sum(1 for e in events if e.repeated and not e.unknown)),
        ("refused, and not stored",
         sum(1 for e in events if e.failures and not e.ok_ns and not e.unknown)),
        ("worst gap of a writer (aim: 35 s)", f"{worst / 1e9:.1f} s"),
        ("the same when none could lead", f"{leaderless / 1e9:.1f} s"),
        ("median failover (aim: 20 s)", f"{history.median_s(failovers):.1f} s"),
        ("failovers", " ".join(f"{f / 1e9:.1f}" for f in failovers)),
    )
    print()
    for name, value in lines:
        print(f"{name:<34} {value}")
    print()


def init(work):
    """Be the first process of the namespace: the work is a child, orphans are buried here, and all
    that is left dies with us."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            code = work()
        except KeyboardInterrupt:
            code = 130
        except nodes.Failed as error:
            print(f"test-cluster: {error}", flush=True)
            code = 1
        sys.exit(code)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status) % 256


def isolated(command):
    """The command with namespaces of its own, which end with it, and it with us."""
    return [
        "setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork",
        "--kill-child=KILL", "--mount-proc", *command,
    ]


def refusal():
    """Why this machine cannot run it, or None."""
    why = nodes.missing()
    if why is not None:
        return why
    if os.geteuid() != 0:
        return "network namespaces need root here"
    script = "mount -t tmpfs tmpfs /run && ip link add name probe type bridge && ip netns add probe"
    result = subprocess.run(
        isolated(["sh", "-c", script]), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        return f"network namespaces are not permitted: {result.stderr.strip()}"
    return None


def build():
    """The writer."""
    log = ROOT / "build" / "test-cluster.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "w", encoding="utf-8") as stream:
        for command in (
            ["cmake", "--preset", "debug"],
            ["cmake", "--build", "--preset", "debug", "--target", "quipu_cluster_writer"],
        ):
            result = subprocess.run(command, cwd=ROOT, stdout=stream, stderr=stream, check=False)
            if result.returncode != 0:
                sys.exit(f"test-cluster: {' '.join(command)} failed:\n{log.read_text('utf-8')}")
    return ROOT / "build" / "debug" / "tests" / "cluster" / "quipu_cluster_writer"


def outside(args):
    """Make the folder, go into the namespaces, tidy up."""
    why = refusal()
    if why is not None:
        print(f"SKIP: test-cluster: {why}")
        return 1 if os.environ.get("QUIPU_REQUIRE_ALL") == "1" else SKIP
    writer = os.path.abspath(args.writer or build())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quipu-cluster."))
    folder.chmod(0o755)  # the servers run as another user
    command = [sys.executable, __file__, "--inside", str(folder), "--writer", writer]
    command += ["--kills", str(args.kills), "--faults", args.faults, "--seed", str(args.seed)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    process = subprocess.Popen(isolated(command))
    try:
        return process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=10)  # it got the signal, too
        return 130
    finally:
        process.kill()
        process.wait()
        if args.keep:
            print(f"test-cluster: logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def inside(args):
    """The run itself."""
    faults = [name for name in args.faults.split(",") if name]
    say(f"seed {args.seed}")
    run = Run(pathlib.Path(args.inside), args.writer, args.kills, faults, args.seed)
    good = run.everything()
    print(f"test-cluster: {'passed' if good else 'FAILED'}", flush=True)
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5, help="kill -9 of the leader, so many times")
    parser.add_argument("--faults", default=",".join(FAULTS), help="other faults, with commas")
    parser.add_argument("--writer", help="the writer, when it is built already")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is by chance")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = set(filter(None, args.faults.split(","))) - set(FAULTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    sys.exit(init(lambda: inside(args)) if args.inside else outside(args))


if __name__ == "__main__":
    main()
