"""Servers of PostgreSQL with Citus for tests: a coordinator and workers on loopback."""

import glob
import os
import pwd
import signal
import socket
import subprocess
import time

WORKERS = 3
SHARDS = 3  # of the suites' stores: one on each worker, because every case makes its own stores
CONF = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
port = {port}
shared_preload_libraries = 'citus'
max_connections = 300
max_prepared_transactions = 300
max_locks_per_transaction = 1024
wal_level = logical
fsync = {fsync}
full_page_writes = off
shared_buffers = 64MB
autovacuum = off
jit = off
citus.enable_statistics_collection = off
citus.recover_2pc_interval = 2s
citus.enable_unsafe_triggers = on
citus.shard_count = {shards}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    """One PostgreSQL server from the prefix."""

    def __init__(self, bin_folder, folder, number, fsync):
        self.bin, self.folder, self.number = bin_folder, folder, number
        self.port = free_port()
        self.data = os.path.join(folder, f"node{number}")
        self.log = os.path.join(folder, f"node{number}.log")
        self.fsync = fsync

    def user(self, command, **more):
        if os.getuid() == 0:
            try:
                name = pwd.getpwnam("postgres").pw_name
            except KeyError:
                name = "nobody"
            command = ["runuser", "-u", name, "--"] + command
        return subprocess.run(command, cwd="/", check=True, stdout=subprocess.DEVNULL, **more)

    def make(self):
        self.user([f"{self.bin}/initdb", "-D", self.data, "-U", "quipu", "-A", "trust",
                   "-E", "UTF8", "--locale=C", "--no-sync"])
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write(CONF.format(folder=self.folder, port=self.port, fsync=self.fsync,
                                shards=SHARDS))
        self.start()

    def start(self):
        self.user([f"{self.bin}/pg_ctl", "-D", self.data, "-l", self.log, "-w", "start"])

    def stop(self):
        try:
            self.user([f"{self.bin}/pg_ctl", "-D", self.data, "-m", "immediate", "stop"],
                      stderr=subprocess.DEVNULL)
        except subprocess.CalledProcessError:
            pass

    def kill(self):
        """SIGKILL to the server and to every process of it, as when a machine loses its power."""
        with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as f:
            first = int(f.readline())
        children = []
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat, encoding="utf-8") as f:
                    text = f.read()
            except OSError:
                continue
            if int(text.rsplit(")", 1)[1].split()[1]) == first:
                children.append(int(text.split()[0]))
        for pid in [first] + children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while os.path.exists(f"/proc/{first}"):
            time.sleep(0.02)

    def uri(self, more=""):
        return f"postgresql://quipu@127.0.0.1:{self.port}/quipu?connect_timeout=5{more}"

    def set(self, name, value):
        """A setting of the server, for all of its connections that begin from now on."""
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
        while self.sql(f"SHOW {name}") != value:
            time.sleep(0.02)

    def sql(self, *statements, database="quipu", user="quipu"):
        command = [f"{self.bin}/psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", user,
                   "-qAtX", "-v", "ON_ERROR_STOP=1", database]
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{statements}: {done.stderr}")
        return done.stdout.strip()


def cluster(prefix, folder, fsync):
    found = [os.path.dirname(p) for p in glob.glob(f"{prefix}/bin/postgres") +
             glob.glob(f"{prefix}/lib/postgresql/*/bin/postgres")]
    if not found:
        sys.exit(f"test-citus: {prefix} has no bin/postgres and no lib/postgresql/*/bin/postgres")
    os.makedirs(folder, exist_ok=True)
    if os.getuid() == 0:
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            owner = pwd.getpwnam("nobody")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    nodes = [Node(found[-1], folder, i, fsync) for i in range(WORKERS + 1)]
    for node in nodes:
        node.make()
        node.sql("CREATE DATABASE quipu", database="postgres")
        node.sql("CREATE EXTENSION citus")
    nodes[0].sql(f"SELECT citus_set_coordinator_host('127.0.0.1', {nodes[0].port})",
                 *[f"SELECT citus_add_node('127.0.0.1', {n.port})" for n in nodes[1:]],
                 "ALTER DATABASE quipu SET quipu.distribute = 'citus'")
    return nodes
