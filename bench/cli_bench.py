"""What the program costs: its start against the sqlite3 shell on the same file, a list out of
100,000 sessions, export and import. CPU time of the child process (user and system)."""

import json
import os
import pathlib
import subprocess
import tempfile
import time

from entgen_bench import line

SESSIONS = 100_000
MESSAGES = 20_000  # of one session, for export and import
STARTS = 20  # processes of one block
SHELL = "sqlite3"
QUERY = "SELECT key, message_count, token_count, updated_at, agent_id FROM sessions LIMIT 50"
MEMORY = pathlib.Path("/dev/shm")  # a session is a transaction: on a disk its sync is what costs


def cpu_ns(command, runs=1, source=os.devnull):
    """CPU time of some runs of a command, one after the other; its output goes nowhere."""
    spent = 0.0
    for _ in range(runs):
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, str(source), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            raise subprocess.CalledProcessError(code, command)
        spent += usage.ru_utime + usage.ru_stime
    return spent / runs * 1e9


def uuid(number):
    return f"01890000-0000-7000-8000-{number:012x}"


def export_lines(counts):
    """An export of a session for each count of messages."""
    yield {"quipu": "export", "major": 1, "minor": 0}
    for number, messages in enumerate(counts, 1):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_774_000_000 + number))
        text = f"Message of session {number}, about a train to Cusco."
        count = len(text) // 4
        key = f"session-{number}"
        yield {"type": "session", "uid": uuid(number), "key": key, "session_id": key,
               "created_at": at, "updated_at": at, "revision": messages + 1, "first_seq": 1,
               "next_seq": messages + 1, "message_count": messages,
               "token_count": count * messages, "token_rule": 1}
        for seq in range(1, messages + 1):
            yield {"type": "message", "role": "user", "content": text, "timestamp": at,
                   "seq": seq, "event_id": uuid(number << 24 | seq), "tokens": count,
                   "tokens_total": count * seq}
    yield {"type": "end", "sessions": len(counts), "messages": sum(counts), "states": 0,
           "memories": 0}


def write_export(path, counts):
    """The same into a file; sessions are named session-1 and so on."""
    with open(path, "w", encoding="utf-8") as stream:
        for item in export_lines(counts):
            stream.write(json.dumps(item) + "\n")


def measure_sessions(quipu, folder, blocks):
    """Start and list, on a store of many sessions."""
    store, export = folder / "many.db", folder / "many.jsonl"
    write_export(export, [1] * SESSIONS)
    cpu_ns([quipu, "import", "--quiet", "--store", str(store), str(export)])
    export.unlink()
    ls = [quipu, "ls", "--store", str(store)]
    shell = [SHELL, "-readonly", str(store), QUERY]
    ours, theirs = [], []
    for _ in range(blocks):
        ours.append(cpu_ns(ls, STARTS))
        theirs.append(cpu_ns(shell, STARTS))
    start = {"name": "cli.start", "bench": "cli.start", "measure": "cost_ratio", "unit": "x",
             "ours_ns": ours, "yardstick_ns": theirs, "against": "",
             "options": f"ls, the newest 50 of {SESSIONS:,} sessions"}
    everything = [cpu_ns([*ls, "--limit", "0", "--json"]) / 1e6 for _ in range(max(blocks // 5, 3))]
    return [
        start,
        line("cli.ls_100000_ms", "ms", [ns / 1e6 for ns in ours], "the newest 50, CPU time"),
        line("cli.ls_100000_all_ms", "ms", everything, "all of them as JSON Lines, CPU time"),
    ]


def measure_transfer(quipu, folder, blocks):
    """Export and import of one long session."""
    store, export = folder / "long.db", folder / "long.jsonl"
    write_export(export, [MESSAGES])
    exports, imports = [], []
    for _ in range(blocks):
        for path in folder.glob("long.db*"):
            path.unlink()
        command = [quipu, "import", "--quiet", "--store", str(store), str(export)]
        imports.append(MESSAGES / cpu_ns(command) * 1e9)
        exports.append(MESSAGES / cpu_ns([quipu, "export", "--store", str(store)]) * 1e9)
    what = f"a session of {MESSAGES:,} messages, CPU time"
    return [
        line("cli.export_per_s", "messages/s", exports, what),
        line("cli.import_per_s", "messages/s", imports, what),
    ]


def measure(quipu, blocks):
    """All results as lines of quipu_bench's form."""
    home = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="quipu-bench-", dir=home) as name:
        folder = pathlib.Path(name)
        found = measure_sessions(str(quipu), folder, blocks)
        return found + measure_transfer(str(quipu), folder, blocks)
