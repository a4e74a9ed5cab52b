"""Three machines on one desk: network namespaces on a bridge, in each an etcd, a Patroni and its
PostgreSQL. All of it lives in namespaces of the calling process, which is init there: nothing is
left when it ends, however it ends."""

import contextlib
import glob
import json
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

COUNT = 3
NET = "10.77.0"
HUB = f"{NET}.254"
HUB_MAC = "02:00:00:00:00:fe"
NOBODYS_MAC = "02:00:00:00:00:ff"
# Patroni's documented minimum. What is left of it when the leader dies is between this and the loop
# less; so a long loop makes failovers shorter, if only nobody sleeps through one (wake.py). But the
# leader also looks only so often whether its synchronous standby is still there.
LEASE_S = 20
LOOP_S = 5
RETRY_S = 5  # the lease must hold a loop and two of these
WAKE = pathlib.Path(__file__).resolve().parent / "wake.py"
PATRONIS_PYTHON = "/usr/bin/python3"  # its user may not enter the folder of this one
DATABASE = "agents"
READY_S = 180
ANSWER_S = 2
POLL_S = 0.25
USER = "postgres"  # PostgreSQL refuses root
PROGRAMS = ("ip", "nft", "setpriv", "unshare", "patroni", "etcd", "psql")


class Failed(Exception):
    """The cluster did not do what it should; the text says what."""


def server_programs():
    """The folder of the newest PostgreSQL's programs, or None."""
    folders = glob.glob("/usr/lib/postgresql/*/bin")
    folders = [f for f in folders if os.path.exists(os.path.join(f, "initdb"))]
    return max(folders, key=lambda f: int(f.split("/")[4]), default=None)


def missing():
    """Why no cluster can be made here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (tools/deps.sh cluster)"
    if server_programs() is None:
        return "no PostgreSQL server is installed (postgresql-15)"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return f"there is no user {USER}, and PostgreSQL refuses to run as root"
    return None


def run(*command):
    """A command that must succeed."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Failed(f"{' '.join(command)}: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def ip(text):
    """One command of ip(8)."""
    return run("ip", *text.split())


def processes():
    """{pid: parent} of everything that runs here."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
            parents[int(path.split("/")[2])] = int(text.rpartition(")")[2].split()[1])
    return parents


def family(roots):
    """These processes and all that descend from them."""
    parents, found = processes(), set(roots)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found & set(parents)
        found |= more


def node_mac(number):
    return f"02:00:00:00:00:{number:02x}"


def kill_all(pids, reap):
    """Until none is left; `reap` is called in between."""
    deadline = time.monotonic() + READY_S
    left = set(pids)
    while left:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap()  # or a child would be seen for ever
        time.sleep(0.01)
        left = {pid for pid in left if alive(pid)}
        if time.monotonic() > deadline:
            raise Failed(f"processes {sorted(left)} do not die")


class Node:
    """One machine."""

    def __init__(self, number, folder):
        self.number = number
        self.name = f"n{number}"
        self.address = f"{NET}.{number}"
        self.mac = node_mac(number)
        self.port = f"q{number}"  # the bridge's end of its cable
        self.folder = folder / self.name
        self.data = self.folder / "data"
        self.etcd = None
        self.patroni = None

    def inside(self, command, log, user=USER):
        """Start a program in this machine, not reached by the terminal's signals."""
        become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] if user else []
        with open(log, "ab") as stream:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.name, *become, *command],
                stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd=self.folder,
                start_new_session=True,
            )

    def start_etcd(self):
        peers = ",".join(f"n{i}=http://{NET}.{i}:2380" for i in range(1, COUNT + 1))
        self.etcd = self.inside(
            [
                "etcd", "--name", self.name, "--data-dir", str(self.folder / "etcd"),
                "--listen-client-urls", f"http://{self.address}:2379",
                "--advertise-client-urls", f"http://{self.address}:2379",
                "--listen-peer-urls", f"http://{self.address}:2380",
                "--initial-advertise-peer-urls", f"http://{self.address}:2380",
                "--initial-cluster", peers, "--initial-cluster-state", "new",
                # Slow and shared disks: a late heartbeat must not look like a dead member.
                "--heartbeat-interval", "250", "--election-timeout", "2500",
                # A member that comes back must not depose the leader that the others have.
                "--pre-vote", "--enable-v2",
            ],
            self.folder / "etcd.log",
        )

    def configuration(self):
        """Patroni's; JSON is YAML."""
        api = f"{self.address}:8008"
        trust = [f"host all all {NET}.0/24 trust", f"host replication all {NET}.0/24 trust",
                 "local all all trust"]
        login = {
            "superuser": {"username": "postgres", "password": "x"},
            "replication": {"username": "replicator", "password": "x"},
            "rewind": {"username": "rewinder", "password": "x"},
        }
        return {
            "scope": "quipu",
            "name": self.name,
            "restapi": {"listen": api, "connect_address": api},
            # Not etcd3: with it Patroni before 3.0.3 puts its name over another's in the lock
            # without comparing (its change 2689), and a leader that was cut off came back so.
            "etcd": {"hosts": [f"{NET}.{i}:2379" for i in range(1, COUNT + 1)]},
            "bootstrap": {
                "dcs": {
                    "ttl": LEASE_S,
                    "loop_wait": LOOP_S,
                    "retry_timeout": RETRY_S,
                    "synchronous_mode": True,
                    "synchronous_mode_strict": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "use_slots": True,
                        "parameters": {
                            "synchronous_commit": "on",
                            "shared_buffers": "64MB",
                            "max_connections": 100,
                            "wal_keep_size": "512MB",
                            "wal_log_hints": "on",
                            # A standby whose first try finds no slot yet waits so long; commits
                            # wait with it.
                            "wal_retrieve_retry_interval": "100ms",
                            # How long a standby that is cut off still counts.
                            "wal_sender_timeout": "10s",
                            "wal_receiver_timeout": "10s",
                            # A program that is cut off in the middle of an append holds its rows.
                            "idle_in_transaction_session_timeout": "5s",
                        },
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": f"{self.address}:5432",
                "connect_address": f"{self.address}:5432",
                "data_dir": str(self.data),
                "bin_dir": server_programs(),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": login,
                "pg_hba": trust,
                "callbacks": {"on_role_change": self.wake_command()},
                "parameters": {"unix_socket_directories": str(self.folder)},
            },
            "watchdog": {"mode": "off"},
        }

    def wake_command(self):
        """What a new leader calls."""
        setting = json.dumps({"loop_wait": LOOP_S})
        others = [f"{NET}.{i}:8008" for i in range(1, COUNT + 1) if i != self.number]
        return shlex.join([PATRONIS_PYTHON, str(self.folder.parent / WAKE.name), setting, *others])

    def start_patroni(self):
        path = self.folder / "patroni.yml"
        path.write_text(json.dumps(self.configuration(), indent=1), encoding="utf-8")
        self.patroni = self.inside(["patroni", str(path)], self.folder / "patroni.log")

    def postmaster(self):
        """Its process id, or None."""
        try:
            text = (self.data / "postmaster.pid").read_text(encoding="utf-8")
            return int(text.split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def members(self):
        """Patroni, PostgreSQL and all that they have started."""
        roots = {self.patroni.pid}
        if self.postmaster() is not None:
            roots.add(self.postmaster())
        return family(roots)

    def signal(self, number):
        """To every process of Patroni and PostgreSQL here, all but at once."""
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self):
        """What a power switch does to the processes; etcd stays, as on machines of its own."""
        kill_all(self.members(), self.patroni.poll)

    def kill_etcd(self):
        kill_all(family({self.etcd.pid}), self.etcd.poll)

    def kill_receiver(self):
        """The process that takes the leader's log, and with it all that waits in its socket."""
        found = False
        for pid in family({self.postmaster()}):
            with contextlib.suppress(OSError):
                if b"walreceiver" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    found = True
        if not found:
            raise Failed(f"{self.name}: no process takes the leader's log")

    def cut(self):
        """Out of the bridge: packets go nowhere, without an error."""
        ip(f"link set {self.port} nomaster")

    def heal(self):
        ip(f"link set {self.port} master hub")

    def mute(self):
        """What it sends is addressed to nobody; what others send arrives."""
        self.address_all(lambda mac: NOBODYS_MAC)

    def unmute(self):
        self.address_all(lambda mac: mac)

    def drop(self, percent):
        """Lose so many of its packets, both ways, by chance. (tc netem would delay them, too; few
        kernels have it.)"""
        self.nft("add table inet loss")
        dice = f"numgen random mod 100 < {percent}"
        for hook, side in (("input", "iifname"), ("output", "oifname")):
            self.nft(f"add chain inet loss {hook} {{ type filter hook {hook} priority 0; }}")
            self.nft(f"add rule inet loss {hook} {side} != lo {dice} drop")

    def undrop(self):
        self.nft("delete table inet loss")

    def nft(self, command):
        run("ip", "netns", "exec", self.name, "nft", command)

    def address_all(self, mac_of):
        """Fix the neighbours, so that a machine that is cut off is silent, as behind a router, and
        not refused by the next resolution of its address."""
        macs = {f"{NET}.{i}": node_mac(i) for i in range(1, COUNT + 1) if i != self.number}
        for address, mac in (macs | {HUB: HUB_MAC}).items():
            ip(f"-n {self.name} neighbour replace {address} lladdr {mac_of(mac)} dev up0 "
               "nud permanent")


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


class Cluster:
    """The three, and what they say of themselves."""

    def __init__(self, folder):
        self.folder = folder
        self.nodes = [Node(i, folder) for i in range(1, COUNT + 1)]

    def node(self, name):
        return next(n for n in self.nodes if n.name == name)

    def uri(self, nodes=None, first=0):
        """Of these machines, or of all, beginning with one of them."""
        nodes = nodes or self.nodes[first:] + self.nodes[:first]
        hosts = ",".join(f"{n.address}:5432" for n in nodes)
        return f"postgresql://quipu@{hosts}/{DATABASE}"

    def wire(self):
        """The bridge and its cables."""
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        ip("link set lo up")
        ip(f"link add name hub address {HUB_MAC} type bridge")
        ip(f"address add {HUB}/24 dev hub")
        ip("link set hub up")
        for node in self.nodes:
            ip(f"netns add {node.name}")
            ip(f"link add name {node.port} type veth peer name up0 address {node.mac} "
               f"netns {node.name}")
            ip(f"link set {node.port} master hub up")
            ip(f"neighbour add {node.address} lladdr {node.mac} dev hub nud permanent")
            there = f"-n {node.name}"
            ip(f"{there} link set lo up")
            ip(f"{there} link set up0 up")
            ip(f"{there} address add {node.address}/24 dev up0")
            node.unmute()

    def start(self):
        shutil.copy(WAKE, self.folder)
        for node in self.nodes:
            node.folder.mkdir()
            shutil.chown(node.folder, USER, USER)
            node.start_etcd()
        for node in self.nodes:
            node.start_patroni()
        self.wait_whole("the first start")
        for sql in ("CREATE ROLE quipu LOGIN", f"CREATE DATABASE {DATABASE} OWNER quipu"):
            self.sql(self.leader(), sql)
        for node in self.nodes:
            self.wait_database(node)

    def wait_database(self, node):
        """libpq does not ask the next host when a standby says that it has no such database."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(Failed):
                self.sql(node, "SELECT 1", DATABASE)
                return
            time.sleep(POLL_S)
        raise Failed(f"{node.name} does not get the database")

    def sql(self, node, sql, database="postgres"):
        uri = f"postgresql://postgres@{node.address}:5432/{database}?connect_timeout=5"
        return run("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, uri).strip()

    def wait_writable(self, count):
        """Until so many machines take writes. Each is asked: without etcd Patroni has old news."""
        start = time.monotonic()
        while time.monotonic() < start + READY_S:
            with contextlib.suppress(Failed):
                words = [self.sql(n, "SELECT pg_is_in_recovery()") for n in self.nodes]
                if words.count("f") == count:
                    return time.monotonic() - start
            time.sleep(POLL_S)
        raise Failed(f"not {count} machines take writes for {READY_S} s")

    def view(self, node):
        """{name: member} as this machine's Patroni sees the cluster; empty: it does not answer."""
        try:
            url = f"http://{node.address}:8008/cluster"
            with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
                return {m["name"]: m for m in json.load(answer)["members"]}
        except (OSError, ValueError, KeyError, urllib.error.URLError):
            return {}

    def member(self, role, among=None, timeout_s=READY_S):
        """The machine with that role, in the eyes of the first of `among` that knows one there."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for node in among or self.nodes:
                for member in self.view(node).values():
                    found = self.node(member["name"])
                    if member.get("role") == role and (among is None or found in among):
                        return found
            time.sleep(POLL_S)
        raise Failed(f"no {role} for {timeout_s} s")

    def leader(self, among=None):
        return self.member("leader", among)

    def sync_standby(self, among=None):
        """The machine that commits wait for."""
        return self.member("sync_standby", among)

    def trouble(self, lag_max):
        """What keeps the cluster from being whole, or None."""
        members = self.view(self.nodes[0])
        if len(members) != COUNT:
            return f"{sorted(members)} are members"
        roles = sorted(m.get("role", "?") for m in members.values())
        if roles != ["leader", "replica", "sync_standby"]:
            return f"roles are {roles}"
        if any(m.get("state") not in ("running", "streaming") for m in members.values()):
            return f"states are {[m.get('state') for m in members.values()]}"
        if len({m.get("timeline") for m in members.values()}) != 1:
            return f"timelines are {[m.get('timeline') for m in members.values()]}"
        lags = [m.get("lag", 0) for m in members.values()]
        if any(not isinstance(lag, int) or lag > lag_max for lag in lags):
            return f"lags are {lags}"
        leader = next(self.node(n) for n, m in members.items() if m["role"] == "leader")
        try:
            sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            replicas = self.sql(leader, sql)
        except Failed as error:
            return str(error)
        return None if replicas == str(COUNT - 1) else f"{replicas} standbys stream"

    def wait_whole(self, after, lag_max=16 << 20, timeout_s=READY_S):
        """Until every member is there, on one timeline, and streams; gives the seconds it took."""
        start = time.monotonic()
        trouble = "nothing was asked"
        while time.monotonic() < start + timeout_s:
            trouble = self.trouble(lag_max)
            if trouble is None:
                return time.monotonic() - start
            time.sleep(POLL_S)
        raise Failed(f"not whole {timeout_s} s after {after}: {trouble}")
