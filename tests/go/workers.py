"""Kill workers of memory in three languages, and count what they observed.

workers.py QUIPU WORKER_C WORKER_GO PYTHON STORE
"""

import itertools
import json
import os
import random
import subprocess
import sys
import time

QUIPU, WORKER_C, WORKER_GO, PYTHON, STORE = sys.argv[1:]
SECONDS = 60 if os.environ.get("QUIPU_LONG") == "1" else 8
SESSIONS = 3
BATCH = 20
WORKERS = (2, 5, 8)  # processes in turn
PYTHON_WORKER = """
import sys, quipu
with quipu.Store(sys.argv[1]) as store:
    while True:
        store.memory_run(lease=0.3)
"""
COMMANDS = {
    "c": [WORKER_C, STORE],
    "go": [WORKER_GO, STORE],
    "python": [PYTHON, "-c", PYTHON_WORKER, STORE],
}


def quipu(*args, stdin=""):
    """Run the program."""
    result = subprocess.run([QUIPU, *args, "--store", STORE], input=stdin, capture_output=True,
                            text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"quipu {args}: {result.stderr}")
    return result.stdout


def lines(text):
    """JSON of each line."""
    return [json.loads(line) for line in text.splitlines()]


def start(language):
    """A worker, whose complaints are shown at the end of a test that fails."""
    return language, subprocess.Popen(COMMANDS[language], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE)


def stop(worker, killed):
    """Kill it in the middle of what it does; one that has ended by itself has failed."""
    language, process = worker
    if process.poll() is not None:
        raise SystemExit(f"the {language} worker ended: {process.stderr.read().decode()}")
    process.kill()
    process.communicate()
    killed[language] += 1


def append(key, first):
    """So many messages, each with a wish that no other has."""
    wishes = [f"I prefer tea number {number} of {key}." for number in range(first, first + BATCH)]
    lines = "".join(json.dumps({"role": "user", "content": wish}) + "\n" for wish in wishes)
    quipu("append", key, "--create", "--app", "shop", "--user", key, "-", "--quiet", stdin=lines)


def loop(rng):
    """Workers come and go while messages are written. Returns messages, and who was killed."""
    killed = dict.fromkeys(COMMANDS, 0)
    written = [0] * SESSIONS
    languages = itertools.cycle(COMMANDS)
    for count in WORKERS:
        workers = [start(next(languages)) for _ in range(count)]
        end = time.monotonic() + SECONDS / len(WORKERS)
        while time.monotonic() < end:
            session = rng.randrange(SESSIONS)
            append(f"s{session}", written[session])
            written[session] += BATCH
            time.sleep(rng.random() / 5)
            victim = rng.randrange(count)
            stop(workers[victim], killed)
            workers[victim] = start(next(languages))
        for worker in workers:
            stop(worker, killed)
    return written, killed


def check(session, messages):
    """Each message has one observation, said once; generations are 1, 2, 3 and so on."""
    key = f"s{session}"
    seen = [line for line in lines(quipu("export", key)) if line.get("type") == "observation"]
    sources = sorted(line["source_start_index"] for line in seen)
    assert sources == list(range(1, messages + 1)), f"{key}: {len(sources)} of {messages}"
    assert all(line.get("times", 1) == 1 for line in seen), f"{key}: one was observed twice"
    generations = sorted({line["generation"] for line in seen})
    assert generations == list(range(1, len(generations) + 1)), f"{key}: {generations}"
    status = json.loads(quipu("memory", "status", key, "--json"))
    assert (status["watermark"], status["pending_messages"]) == (messages, 0), status
    assert status["generation"] == len(generations), status


def main():
    """One loop, one last pass, and the check."""
    rng = random.Random(int(os.environ.get("QUIPU_SEED", "1")))
    written, killed = loop(rng)
    time.sleep(1.2)  # the longest lease of those that were killed
    quipu("memory", "run")
    for session, messages in enumerate(written):
        if messages > 0:
            check(session, messages)
    assert min(killed.values()) > 0, killed
    print(f"{sum(written)} messages, killed: {killed}")
    for language in COMMANDS:
        print(f"[       OK ] workers_in_{language}_that_are_killed_skip_and_double_nothing")


main()
