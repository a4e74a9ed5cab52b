"""What the server costs: a request against the library's call and against ADK's api_server, tails,
start and memory. CPU time of the server's process alone (all its threads), unless a name says
otherwise: how busy the machine and this client are does not matter then."""

import contextlib
import ctypes
import importlib.util
import json
import os
import pathlib
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from cli_bench import MEMORY, cpu_ns, write_export
from entgen_bench import line

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOAD = ROOT / "build/release/bin/quipu_load"

SESSIONS = 60  # of a store, with 10 messages each; the first one has more
SHORT, LONG = 50, 100_000  # messages of the first one
REQUESTS = 200  # of a block
ADK_REQUESTS = 30  # the same for ADK's server, which takes its time
ADK_EVENTS = 20  # of the session that is read
CONNECTIONS = 16
# Of a measurement at half load. A virtual machine whose processors are all busy stands still for 3
# to 9 ms now and then, which a loop that only reads the clock sees, too: about one in a hundred
# answers of a long block would show that. Most blocks of this length have no such moment.
LOAD_MS = 100
LOAD_BLOCKS = 4  # such blocks for each of the run's
LOAD_SLOW = 5  # p99 by p50
LIVE_TAILS, IDLE_TAILS = 1000, 10_000
SPARE_FILES = 800  # what a server keeps for its workers and its store
KEY = "session-1"
GET = f"/v1/sessions/{KEY}?last=true&limit=50"
WAIT_S = 120
CPU_CLOCK = 2  # of a process, as the kernel counts it: CPUCLOCK_SCHED
AGENT = "from google.adk.agents import BaseAgent\nroot_agent = BaseAgent(name='app')\n"


# ---- clients -------------------------------------------------------------------------------------


def request(method, target, body=None, token=None):
    """The bytes of a request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    if token is not None:
        head.append(f"Authorization: Bearer {token}")
    return ("\r\n".join(head) + "\r\n\r\n").encode() + data


class Client:
    """A connection that is used again."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def send(self, data):
        self.got = b""
        self.sock.sendall(data)

    def receive(self):
        """Take what has come; true when the answer is complete."""
        piece = self.sock.recv(1 << 20)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self.got += piece
        head, found, body = self.got.partition(b"\r\n\r\n")
        if not found:
            return False
        size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return len(body) >= int(size or 0)

    def ask(self, data):
        """One request; the answer must be a good one."""
        self.send(data)
        while not self.receive():
            pass
        status = int(self.got[9:12])
        if status >= 300:
            raise OSError(f"{data[:80]!r} is answered with {self.got[:300]!r}")
        return self.got.partition(b"\r\n\r\n")[2]


class Process:
    """A server, and what it has used so far."""

    def __init__(self, command, port=None, log=subprocess.DEVNULL):
        out = subprocess.PIPE if port is None else log
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            list(map(str, command)), stdout=out, stderr=log, text=True)
        self.port = port or int(self.process.stdout.readline().rsplit(":", 1)[1])

    def cpu_ns(self):
        """Nanoseconds on a processor, of all threads, also of those that have ended: the clock of
        clock_getcpuclockid(3), which Python does not have for other processes."""
        return time.clock_gettime_ns(~self.process.pid << 3 | CPU_CLOCK)

    def resident_mb(self):
        """What of it is in memory."""
        text = pathlib.Path("/proc", str(self.process.pid), "statm").read_text(encoding="ascii")
        return int(text.split()[1]) * resource.getpagesize() / 1e6

    def cost_ns(self, work, times):
        """CPU time of the server for each of so many times."""
        before = self.cpu_ns()
        for _ in range(times):
            work()
        return (self.cpu_ns() - before) / times

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Store:
    """A store with one session of so many messages, and a token for it."""

    def __init__(self, quipu, folder, messages):
        self.quipu = quipu
        self.path = folder / f"{messages}.db"
        export = folder / "export.jsonl"
        write_export(export, [messages] + [10] * (SESSIONS - 1))
        cpu_ns([quipu, "import", "--quiet", "--store", str(self.path), str(export)])
        export.unlink()
        made = subprocess.run([quipu, "token", "new", "--store", self.path], check=True, text=True,
                              capture_output=True)
        self.token = made.stdout.strip()

    @contextlib.contextmanager
    def served(self, *options):
        """A server of it."""
        process = Process([self.quipu, "serve", "--store", self.path, "--listen", "127.0.0.1:0",
                           *options])
        try:
            yield process
        finally:
            process.stop()

    def ask(self, method, target, body=None):
        """The bytes of a request with the token."""
        return request(method, target, body, self.token)

    def append(self, number):
        """The bytes of an append of one message."""
        body = {"messages": [{"role": "user", "content": f"Message {number}, on a train."}]}
        return self.ask("POST", f"/v1/sessions/{KEY}/messages", body)


def environment():
    """The Python of the package's tests, which has ADK; None where it cannot be made."""
    found = importlib.util.spec_from_file_location("tests_run", ROOT / "tests/python/run.py")
    tests = importlib.util.module_from_spec(found)
    found.loader.exec_module(tests)
    try:
        return tests.environment()
    except tests.Skip as reason:
        print(f"bench: server.adk: {reason}", file=sys.stderr)
        return None


def pair(name, ours, theirs, options, measure="cost_ratio"):
    """A line of two sides."""
    return {"name": name, "bench": name, "measure": measure, "unit": "x", "ours_ns": ours,
            "yardstick_ns": theirs, "against": "", "options": options}


# ---- the library ---------------------------------------------------------------------------------


class Text(ctypes.Structure):
    """quipu_str."""

    _fields_ = [("p", ctypes.c_char_p), ("n", ctypes.c_size_t)]


class Range(ctypes.Structure):
    """quipu_range."""

    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("after_seq", ctypes.c_int64), ("before_seq", ctypes.c_int64),
                ("limit", ctypes.c_int64)]


class Library:
    """libquipu, with a store open."""

    LAST = 2  # QUIPU_RANGE_LAST

    def __init__(self, path):
        self.lib = ctypes.CDLL(str(ROOT / "build/release/libquipu.so"))
        self.store = ctypes.c_void_p()
        self.lib.quipu_session_get.argtypes = [ctypes.c_void_p, Text] + [ctypes.c_void_p] * 4
        self.lib.quipu_close.argtypes = self.lib.quipu_free.argtypes = [ctypes.c_void_p]
        self.lib.quipu_close.restype = self.lib.quipu_free.restype = None
        self.check(self.lib.quipu_open(str(path).encode(), None, ctypes.byref(self.store), None))

    @staticmethod
    def check(status):
        if status != 0:
            raise OSError(f"the library fails with {status}")

    def get_ns(self, times):
        """CPU time of reading the last 50 messages."""
        last = Range(ctypes.sizeof(Range), self.LAST, 0, 0, 50)
        key, got = Text(KEY.encode(), len(KEY)), ctypes.c_void_p()
        where, what = ctypes.byref(last), ctypes.byref(got)
        before = time.thread_time_ns()
        for _ in range(times):
            self.check(self.lib.quipu_session_get(self.store, key, where, None, what, None))
            self.lib.quipu_free(got)
        return (time.thread_time_ns() - before) / times

    def close(self):
        self.lib.quipu_close(self.store)


def measure_layer(quipu, folder, store, blocks):
    """What HTTP adds to a get, and to an append."""
    found = {"get": [], "worker": [], "loop": [], "library": []}
    library = Library(store.path)
    with store.served() as server:
        client = Client(server.port)
        get, loop = store.ask("GET", GET), request("GET", "/readyz")
        ping = store.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        client.ask(get)
        for _ in range(blocks):
            found["get"].append(server.cost_ns(lambda: client.ask(get), REQUESTS))
            found["worker"].append(server.cost_ns(lambda: client.ask(ping), REQUESTS))
            found["loop"].append(server.cost_ns(lambda: client.ask(loop), REQUESTS))
            found["library"].append(library.get_ns(REQUESTS))
        library.close()
        taken = []
        for number in range(REQUESTS):
            begun = time.perf_counter_ns()
            client.ask(store.append(number))
            taken.append(time.perf_counter_ns() - begun)
    own = subprocess.run([quipu, "bench", "--json", "--quiet", "--store", folder / "bench.db"],
                         check=True, capture_output=True, text=True)
    alone = json.loads(own.stdout)["append_full"]
    above = {name: [get - other for get, other in zip(found["get"], found[name])]
             for name in ("loop", "worker")}
    return [
        pair("server.get", above["loop"], found["library"],
             f"the last 50 of {SHORT} messages, without the loop's own cost"),
        pair("server.get_handler", above["worker"], found["library"],
             "the same, without the way to a worker and back either"),
        line("server.get_us", "us", [ns / 1e3 for ns in found["get"]], "the same, with it"),
        line("server.worker_us", "us", [ns / 1e3 for ns in found["worker"]],
             "MCP's ping, by a worker that asks no store"),
        line("server.loop_us", "us", [ns / 1e3 for ns in found["loop"]], "/readyz, by no worker"),
        line("server.append_x", "x", [statistics.median(taken) / 1e3 / alone["p50_us"]],
             "wall time, p50, durable; against the library's call"),
    ]


# ---- flat ----------------------------------------------------------------------------------------


def measure_flat(short, long, blocks):
    """The same requests on a store with a long session."""
    costs = {}
    with short.served() as few, long.served() as many:
        for name, target in (("list", "/v1/sessions?limit=50"), ("last_50", GET)):
            sides = [(server, Client(server.port), store.ask("GET", target))
                     for server, store in ((few, short), (many, long))]
            costs[name] = ([], [])
            for _ in range(blocks):
                for side, (server, client, data) in enumerate(sides):
                    client.ask(data)
                    work = lambda client=client, data=data: client.ask(data)  # noqa: E731
                    costs[name][side].append(server.cost_ns(work, REQUESTS))
    return [pair(f"server.{name}_flat", many, few,
                 f"a session of {LONG:,} messages in the store, not of {SHORT}")
            for name, (few, many) in costs.items()]


# ---- load ----------------------------------------------------------------------------------------


def measure_load(store, blocks):
    """p99 by p50 at half of the load that a client (load.c) and the server bear together. Wall
    time, from when a request was due."""
    command = [LOAD, None, str(CONNECTIONS), str(LOAD_MS), str(blocks * LOAD_BLOCKS)]
    with store.served() as server:
        command[1] = str(server.port)
        shown = subprocess.run(command, input=store.ask("GET", GET), stdout=subprocess.PIPE,
                               check=True).stdout
    found = [list(map(int, block.split())) for block in shown.splitlines()]
    rates, p50, p99, _, late = map(list, zip(*found))
    ratios = [high / low for high, low in zip(p99, p50)]
    slow = 100 * sum(ratio > LOAD_SLOW for ratio in ratios) / len(ratios)
    return [line("server.half_load_p99", "x", ratios,
                 f"wall time, against p50, blocks of {LOAD_MS} ms"),
            line("server.half_load_slow", "%", [slow], f"blocks in which it is over {LOAD_SLOW}"),
            line("server.half_load_p50_us", "us", [ns / 1e3 for ns in p50], "the same answers"),
            line("server.half_load_late_us", "us", [ns / 1e3 for ns in late],
                 "p99 of how late the client itself sent"),
            line("server.get_per_s", "1/s", rates, f"wall time, {CONNECTIONS} connections")]


# ---- tails ---------------------------------------------------------------------------------------


def open_tails(store, port, count):
    """So many tails of a session, behind what it has; given once the server streams."""
    data = store.ask("GET", f"/v1/sessions/{KEY}/tail?after={SHORT}")
    socks = []
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        sock.sendall(data)
        socks.append(sock)
        if len(socks) % CONNECTIONS == 0 or len(socks) == count:  # no more than workers take
            for one in socks[-CONNECTIONS:]:
                if b"200 OK" not in (got := one.recv(4096, socket.MSG_PEEK)):
                    raise OSError(f"a tail is refused with {got!r}")
    return socks


def drain(socks, mark):
    """Read every tail until its bytes have the mark."""
    for sock in socks:
        got = b""
        while mark not in got:
            got += sock.recv(1 << 16)


def tails_that_fit():
    """IDLE_TAILS, or as many as the hard limit of open files lets the server take: two each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(IDLE_TAILS, (hard - SPARE_FILES) // 2)


def measure_tails(store, blocks):
    """An append that many tails show, and many that have nothing to show."""
    fit, costs = tails_that_fit(), []
    options = [f"--{name}={fit + 100}" for name in ("connections", "tails", "token-tails")]
    with store.served(*options) as server:
        client = Client(server.port)
        socks = open_tails(store, server.port, LIVE_TAILS)
        for number in range(blocks + 1):
            before = server.cpu_ns()
            client.ask(store.append(f"<{number}>"))
            drain(socks, f"<{number}>".encode())
            costs.append((server.cpu_ns() - before) / 1e6)
        for sock in socks:
            sock.close()
    with store.served(*options) as server:
        socks = open_tails(store, server.port, fit)
        idle = server.resident_mb() * IDLE_TAILS / fit
        for sock in socks:
            sock.close()
    return [line("server.live_tails_ms", "ms", costs[1:], f"an append, {LIVE_TAILS:,} tails"),
            line("server.idle_tails_mb", "MB", [idle],
                 f"resident, for {IDLE_TAILS:,}, by {fit:,} tails")]


# ---- start ---------------------------------------------------------------------------------------


def measure_start(store, blocks):
    """From nothing to the first answer, and what it holds then."""
    starts, lists, rest = [], [], []
    for _ in range(blocks):
        with store.served() as server:
            Client(server.port).ask(store.ask("GET", "/v1/sessions?limit=50"))
            starts.append(server.cpu_ns())
            rest.append(server.resident_mb())
        lists.append(cpu_ns([store.quipu, "ls", "--store", str(store.path)], 5))
    return [pair("server.start", starts, lists, "from the start to the first list, CPU time"),
            line("server.rest_mb", "MB", rest, "resident, behind the first answer")]


# ---- ADK -----------------------------------------------------------------------------------------


def start_adk(python, folder):
    """ADK's api_server on its SQLite service."""
    agent = folder / "agents" / "app"
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n", encoding="utf-8")
    (agent / "agent.py").write_text(AGENT, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Process([python.parent / "adk", "api_server", "--port", port, "--session_service_uri",
                      f"sqlite:///{folder}/adk.db", folder / "agents"], port)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and server.process.poll() is None:
        with contextlib.suppress(OSError):
            Client(port).sock.close()
            return server
        time.sleep(0.1)
    raise OSError("ADK's api_server does not start")


def adk_requests(block):
    """What both are asked: a session with events, and changes of its state."""
    place = "/apps/app/users/u/sessions"
    events = [{"author": "user", "invocationId": f"i{i}", "content": {
        "role": "user", "parts": [{"text": f"Message {i}, about a train to Cusco."}]}}
        for i in range(ADK_EVENTS)]
    made = request("POST", place, {"sessionId": f"s{block}", "events": events,
                                   "state": {"step": 0}})
    patch = request("PATCH", f"{place}/s{block}", {"stateDelta": {"step": block}})
    return made, request("GET", f"{place}/s{block}"), patch


def measure_adk(store, folder, blocks):
    """The same requests to ADK's own server and to ours."""
    python = environment()
    if python is None:
        return []
    costs = {name: ([], []) for name in ("get", "patch")}
    other = start_adk(python, folder)
    try:
        with store.served("--adk-open", "app") as server:
            for block in range(blocks):
                made, get, patch = adk_requests(block)
                for side, process in enumerate((server, other)):
                    # A new one each time: ADK's server closes a connection after 5 idle seconds.
                    client = Client(process.port)
                    client.ask(made)
                    for name, data in (("get", get), ("patch", patch)):
                        client.ask(data)
                        work = lambda client=client, data=data: client.ask(data)  # noqa: E731
                        costs[name][side].append(process.cost_ns(work, ADK_REQUESTS))
                    client.sock.close()
    finally:
        other.process.kill()
        other.process.wait()
    return [pair(f"server.adk_{name}", ours, theirs, f"{ADK_EVENTS} events, CPU time",
                 "speed_ratio") for name, (ours, theirs) in costs.items()]


def measure(quipu, blocks):
    """All results as lines of quipu_bench's form."""
    home = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="quipu-bench-", dir=home) as name, \
            tempfile.TemporaryDirectory(prefix="quipu-bench-") as disk:
        folder = pathlib.Path(name)
        short, long = (Store(str(quipu), folder, count) for count in (SHORT, LONG))
        found = measure_flat(short, long, blocks)
        found += measure_load(short, blocks)
        found += measure_start(long, blocks)
        found += measure_adk(short, folder, blocks)
        found += measure_layer(quipu, pathlib.Path(disk), Store(str(quipu), pathlib.Path(disk),
                                                                SHORT), blocks)
        return found + measure_tails(short, blocks)
