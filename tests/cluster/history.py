"""The answers that writers got against what is stored. A log line is "time word id rest": invoke,
again (a repeat after unknown), ok with number and new/repeated, failed, unknown. Times are
nanoseconds of the machine's one monotonic clock."""

import dataclasses
import statistics

GRACE_NS = 1_000_000_000  # an acknowledgement that was on its way when the fault came
SHOWN_MAX = 10  # of each kind of problem


@dataclasses.dataclass
class Event:
    """One event id, as its writer saw it."""

    id: str
    session: str
    invoked_ns: int
    ok_ns: int = 0  # 0: never acknowledged
    seq: int = 0
    repeated: bool = False
    unknown: bool = False  # was so once
    failures: list = dataclasses.field(default_factory=list)

    @property
    def thread(self):
        """The writer and its thread: one at a time, so their events are ordered."""
        return self.id.rsplit(".", 1)[0]

    @property
    def number(self):
        return int(self.id.rsplit(".", 1)[1])


def read_log(lines):
    """The events of one log, in the order of their invocation."""
    events = {}
    for line in lines:
        when, word, name, rest = line.rstrip("\n").split(" ", 3)
        if word == "invoke":
            events[name] = Event(name, rest, int(when))
        elif word == "ok":
            seq, how = rest.split()
            event = events[name]
            event.ok_ns, event.seq, event.repeated = int(when), int(seq), how == "repeated"
        elif word == "unknown":
            events[name].unknown = True
        elif word == "failed":
            events[name].failures.append(rest)
    return list(events.values())


def read_logs(paths):
    """Logs by their thread's name."""
    logs = {}
    for path in sorted(paths):
        with open(path, encoding="utf-8", errors="replace") as stream:
            # A writer that was killed may have left half a line.
            logs[path.stem] = read_log(line for line in stream if line.endswith("\n"))
    return logs


def read_dump(text):
    """[(session, seq, id)] of a member."""
    rows = []
    for line in text.splitlines():
        session, seq, name = line.split(" ")
        rows.append((session, int(seq), name))
    return rows


class Verdict:
    """Problems by kind; the run fails with any."""

    KINDS = (
        "lost", "duplicated", "gaps", "renumbered", "after all", "strangers", "disordered",
        "unresolved", "minority",
    )

    def __init__(self):
        self.found = {kind: [] for kind in self.KINDS}

    def add(self, kind, what):
        self.found[kind].append(what)

    def count(self, kind):
        return len(self.found[kind])

    def lines(self):
        """What is wrong, a line each."""
        for kind, items in self.found.items():
            for item in items[:SHOWN_MAX]:
                yield f"{kind}: {item}"
            if len(items) > SHOWN_MAX:
                yield f"{kind}: and {len(items) - SHOWN_MAX} more"

    @property
    def good(self):
        return not any(self.found.values())


def _check_rows(rows, events, verdict):
    """Numbers without gaps, every id once and asked for, each thread's events in its order."""
    next_seq, places, last = {}, {}, {}
    for session, seq, name in rows:
        wanted = next_seq.get(session, 1)
        if seq != wanted:
            verdict.add("gaps", f"{session}: {seq} where {wanted} should be")
        next_seq[session] = seq + 1
        if name in places:
            verdict.add("duplicated", f"{name} at {places[name]} and {(session, seq)}")
        places[name] = (session, seq)
        event = events.get(name)
        if event is None or event.session != session:
            verdict.add("strangers", f"{name} in {session}")
            continue
        if last.get((session, event.thread), 0) > event.number:
            verdict.add("disordered", f"{name} in {session}")
        last[session, event.thread] = event.number
    return places


def check(logs, rows, minority=()):
    """Compare. `minority`: (prefix of a writer's name, from, to): nothing was acknowledged to it in
    this time."""
    verdict = Verdict()
    events = {event.id: event for log in logs.values() for event in log}
    places = _check_rows(rows, events, verdict)
    for event in events.values():
        place = places.get(event.id)
        if event.ok_ns and place is None:
            verdict.add("lost", f"{event.id}: acknowledged as {event.session} {event.seq}")
        elif event.ok_ns and place != (event.session, event.seq):
            verdict.add("renumbered", f"{event.id}: acknowledged as {event.seq}, stored at {place}")
        elif not event.ok_ns and event.unknown:
            verdict.add("unresolved", event.id)
        elif not event.ok_ns and event.failures and place is not None:
            verdict.add("after all", f"{event.id}: failed ({event.failures[0]}), and is stored")
    for name, start_ns, end_ns in minority:
        for event in events.values():
            if event.id.startswith(name + ".") and start_ns + GRACE_NS < event.ok_ns < end_ns:
                verdict.add("minority", f"{event.id}: {(event.ok_ns - start_ns) / 1e9:.1f} s after")
    return verdict


def worst_gaps_ns(log, leaderless=()):
    """The longest time that one thread went without an acknowledgement, and the longest that
    touched a time when nobody could lead: (from, to) each."""
    worst, worst_leaderless = 0, 0
    before = log[0].invoked_ns if log else 0
    for event in log:
        if event.ok_ns:
            gap = event.ok_ns - before
            if any(before < end and start < event.ok_ns for start, end in leaderless):
                worst_leaderless = max(worst_leaderless, gap)
            else:
                worst = max(worst, gap)
            before = event.ok_ns
    return worst, worst_leaderless


def failover_ns(logs, fault_ns):
    """From a fault to the first acknowledgement to anybody after it; None: there was none."""
    times = [e.ok_ns for log in logs.values() for e in log if e.ok_ns > fault_ns + GRACE_NS]
    return min(times) - fault_ns if times else None


def median_s(values_ns):
    """In seconds; 0 of nothing."""
    return statistics.median(values_ns) / 1e9 if values_ns else 0.0
