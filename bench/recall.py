#!/usr/bin/env python3
"""make bench-recall: how often recall finds what answers a question.

DATA is a file of LoCoMo's form (JSON: conversations with questions and the messages that answer
them) or of LongMemEval's (one JSON object a line; sessions whose id begins with "answer" answer).
Each conversation is one user. Message level: any = some answering message among the first k, ev =
mean share of them, all = every one. Session level: hit@1 = the first hit's session answers, all =
every answering session among the first k different ones."""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 200  # hits of a question: enough for 10 different sessions
MONTHS = "January February March April May June July August September October November December"
STEPS = [  # each row adds to the one before
    ("BM25 over stems and authors", {}),
    ("+ neighbours", ("near", "far")),
    ("+ session", ("session",)),
    ("+ date", ("date",)),
    ("+ pair", ("pair",)),
    ("+ author", ("author",)),
]
OFF = {"near": 0, "far": 0, "session": 0, "date": 1, "pair": 1, "author": 1}


def escape(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\0", " ")


def locomo(path):
    """[(messages, questions)]: messages (session, author, role, seconds, text), questions (text,
    indexes of messages)."""
    for sample in json.loads(path.read_text(encoding="utf-8")):
        talk, messages, places = sample["conversation"], [], {}
        for number in range(1, 100):
            when = talk.get(f"session_{number}_date_time")
            if not when or f"session_{number}" not in talk:
                continue
            hour, minute, half, day, month, year = re.match(
                r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d+)", when
            ).groups()
            hour = int(hour) % 12 + (12 if half == "pm" else 0)
            month = MONTHS.split().index(month) + 1
            time = datetime.datetime(int(year), month, int(day), hour, int(minute))
            seconds = int(time.replace(tzinfo=datetime.timezone.utc).timestamp())
            for turn in talk[f"session_{number}"]:
                places[turn["dia_id"]] = len(messages)
                role = "user" if turn["speaker"] == talk["speaker_a"] else "assistant"
                messages.append((f"s{number:02}", turn["speaker"], role, seconds, turn["text"]))
        questions = [
            (qa["question"], [places[e] for e in qa.get("evidence", ()) if e in places])
            for qa in sample["qa"]
        ]
        yield messages, [(text, gold) for text, gold in questions if gold]


def longmemeval(path):
    """The same of LongMemEval's form: all messages of an answering session answer."""
    for line in path.read_text(encoding="utf-8").splitlines():
        sample, messages, gold = json.loads(line), [], []
        for session in sample["sessions"]:
            for turn in session["messages"]:
                if session["id"].startswith("answer"):
                    gold.append(len(messages))
                time = datetime.datetime.fromisoformat(turn["created_at"])
                seconds = int(time.replace(tzinfo=datetime.timezone.utc).timestamp())
                messages.append((session["id"], "", turn["role"], seconds, turn["content"]))
        yield messages, [(sample["question"], gold)]


class Store:
    """A store behind quipu_recall_ask."""

    def __init__(self, program, uri, *embedder):
        self.process = subprocess.Popen(
            [program, uri, *embedder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def send(self, *fields):
        self.process.stdin.write("\t".join(escape(str(field)) for field in fields) + "\n")

    def ask(self, app, user, question):
        """Microseconds of CPU, and the hits as "key:seq"."""
        self.send("Q", app, user, LIMIT, question)
        self.process.stdin.flush()
        micros, *hits = self.process.stdout.readline().split()
        return int(micros), hits

    def embed(self):
        """Fill the store with vectors; how many."""
        self.send("E")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def fill(self, corpus):
        """Returns the name that each message has as a hit, by conversation."""
        names = []
        for user, (messages, _) in enumerate(corpus):
            counts, names_of = {}, []
            for session, author, role, seconds, text in messages:
                key = f"u{user:02}/{session}"
                counts[key] = counts.get(key, 0) + 1
                names_of.append(f"{key}:{counts[key]}")
                self.send("M", key, "bench", f"u{user:02}", author, role, seconds, text)
            names.append(names_of)
        return names


def measure(store, corpus, names, half=None):
    """One row of the table; half: 0 or 1, every second conversation."""
    sums, times, count = {}, [], 0
    for user, (_, questions) in enumerate(corpus):
        if half is not None and user % 2 != half:
            continue
        for question, gold in questions:
            micros, hits = store.ask("bench", f"u{user:02}", question)
            wanted = {names[user][i] for i in gold}
            sessions = list(dict.fromkeys(hit.rsplit(":", 1)[0] for hit in hits))
            homes = {name.rsplit(":", 1)[0] for name in wanted}
            row = {"hit@1": bool(sessions) and sessions[0] in homes}
            for k in (5, 10):
                share = len(wanted & set(hits[:k])) / len(wanted)
                row[f"any@{k}"], row[f"ev@{k}"], row[f"all@{k}"] = share > 0, share, share == 1
                row[f"sall@{k}"] = homes <= set(sessions[:k])
            for name, value in row.items():
                sums[name] = sums.get(name, 0) + value
            times.append(micros)
            count += 1
    return {name: 100 * value / count for name, value in sums.items()}, count, times


def differing(store, also, corpus):
    """How many questions get other hits, or the same in another order, from a second store."""
    return sum(
        store.ask("bench", f"u{user:02}", question)[1]
        != also.ask("bench", f"u{user:02}", question)[1]
        for user, (_, questions) in enumerate(corpus)
        for question, _ in questions
    )


def show(name, row, count, times):
    cells = " | ".join(f"{row[a + '@5']:.1f} / {row[a + '@10']:.1f}" for a in ("any", "ev", "all"))
    print(
        f"| {name} | {cells} | {row['hit@1']:.1f} | {row['sall@5']:.1f} / {row['sall@10']:.1f}"
        f" | {count} | {statistics.median(times) / 1000:.2f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=pathlib.Path)
    parser.add_argument("--store", help="URI of an empty store; default: a temporary file")
    parser.add_argument("--also", metavar="URI",
                        help="an empty store on another engine, whose hits must be the same")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/quipu_recall_ask"))
    parser.add_argument("--steps", action="store_true", help="a row for each step of the ranking")
    parser.add_argument("--weights", nargs="*", default=[], help="rows with name=value,...")
    parser.add_argument(
        "--embed", nargs=2, default=(), metavar=("URL", "MODEL"),
        help="vectors too, of an embedder with OpenAI's API (tests/llm/embed.py is one)",
    )
    args = parser.parse_args()
    path = args.data or ROOT / "tests/vectors/longmemeval-s-4.jsonl"
    corpus = list((longmemeval if path.suffix == ".jsonl" else locomo)(path))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(args.program, args.store or folder + "/recall.db", *args.embed)
        names = store.fill(corpus)
        if args.embed:
            print(f"{store.embed()} vectors")
        print("| | any @5/@10 | ev @5/@10 | all @5/@10 | session hit@1 | session all @5/@10 "
              "| questions | ms |\n|---|---|---|---|---|---|---|---|")
        weights = dict(OFF)
        for name, added in STEPS if args.steps else []:
            for weight in added:
                del weights[weight]
            store.send("W", *(field for item in weights.items() for field in item))
            show(name, *measure(store, corpus, names))
        for given in args.weights:
            store.send("W", *re.split("[=,]", given))
            for half in (0, 1):
                show(f"{given}, half {half}", *measure(store, corpus, names, half))
        store.send("W")
        if len(corpus) > 4:
            for half in (0, 1):
                show(f"half {half}", *measure(store, corpus, names, half))
        show("all", *measure(store, corpus, names))
        other = 0
        if args.also:
            also = Store(args.program, args.also)
            also.fill(corpus)
            other = differing(store, also, corpus)
            print(f"{other} questions have other hits on the other engine")
            also.process.stdin.close()
            also.process.wait()
        store.process.stdin.close()
        return store.process.wait() or (1 if other else 0)


if __name__ == "__main__":
    raise SystemExit(main())
