#!/usr/bin/env python3
"""Killed in the middle of import, export, backup and copy: the output is absent or can be
continued, and the store is not damaged. Signals that a user sends end a verb cleanly."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import harness

SESSIONS = 120
MESSAGES = 20
TRIES = 50
TEXT = "Some words that are said again and again. " * 20


def sessions():
    """Enough data to interrupt every verb in the middle."""
    return {f"s{i:03}": [{"role": "user", "content": f"{i}.{j} {TEXT}"} for j in range(MESSAGES)]
            for i in range(SESSIONS)}


def wait_until(condition, process):
    """Poll a condition without a pause; False: the process ended before it held."""
    end = time.monotonic() + harness.WAIT_S
    while not condition():
        if process.poll() is not None:
            return False
        if time.monotonic() > end:
            raise AssertionError("it never came to that")
    return process.poll() is None


def size(path):
    """Bytes of a file, 0 when there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class Killed(harness.Case):
    """A store of many sessions, and processes that are killed."""

    def setUp(self):
        super().setUp()
        self.lines = [json.dumps(line) + "\n" for line in harness.export_lines(sessions())]

    def fill(self):
        """The whole store."""
        self.run_quipu("import", "-", "--quiet", stdin="".join(self.lines))

    def verified(self, *args):
        """verify finds nothing; returns the number of sessions."""
        done = self.run_quipu("verify", "--json", *args).json()
        self.assertEqual(done["problems"], [])
        return done["sessions"]

    def kill(self, process, number=signal.SIGKILL):
        """Send a signal and wait; True unless the process had ended before."""
        process.send_signal(number)
        self.err = process.communicate(timeout=harness.WAIT_S)[1]
        return process.returncode == (-number if number == signal.SIGKILL else 1)

    def kill_when(self, condition, *args, number=signal.SIGKILL, clean=lambda: None):
        """Run a verb and end it when a condition holds. When the verb is faster than the polling,
        clean up and try again."""
        for _ in range(TRIES):
            process = self.start_quipu(*args)
            if wait_until(condition, process) and self.kill(process, number):
                return
            self.assertEqual(process.wait(harness.WAIT_S), 0)
            clean()
        self.fail(f"{args} was always done before it could be interrupted")

    def parts(self, name):
        """Leftovers of a killed process beside a file."""
        return [entry for entry in os.listdir(self.folder) if entry.startswith(name + ".part-")]

    def test_import_goes_on_where_it_was_killed(self):
        for share in (0.1, 0.5, 0.9):
            store = self.folder / f"at-{share}.db"
            process = self.start_quipu("import", "-", "--quiet", "--store", store)
            process.stdin.write("".join(self.lines[:int(len(self.lines) * share)]).encode())
            process.stdin.flush()
            self.assertTrue(wait_until(lambda p=store: size(f"{p}-wal") > 100000, process))
            self.assertTrue(self.kill(process))
            there = self.verified("--store", store)
            self.assertTrue(0 < there < SESSIONS, there)
            done = self.run_quipu("import", "-", "--quiet", "--json", "--store", store,
                                  stdin="".join(self.lines)).json()
            self.assertEqual((done["skipped"], done["sessions"]), (there, SESSIONS - there))
            self.assertEqual(self.verified("--store", store), SESSIONS)
            self.assertEqual(self.run_quipu("export", "--store", store).out.count("\n"),
                             len(self.lines))

    def test_export_to_a_pipe_can_be_killed(self):
        self.fill()
        process = self.start_quipu("export")
        self.assertTrue(process.stdout.read(100000))
        self.assertTrue(self.kill(process))
        self.assertEqual(self.verified(), SESSIONS)

    def test_export_to_a_file_is_whole_or_absent(self):
        self.fill()
        whole = self.run_quipu("export").raw_out
        path = self.folder / "e.jsonl"
        for force in ([], ["--force"]):
            self.kill_when(lambda: self.parts("e.jsonl"), "export", "-o", path, *force,
                           clean=lambda f=force: f or path.unlink())
            self.assertEqual(len(self.parts("e.jsonl")), 1)
            self.assertEqual(path.exists(), bool(force))
            self.assertEqual(self.verified(), SESSIONS)
            self.run_quipu("export", "-o", path, *force)
            self.assertEqual(path.read_bytes(), whole)
            self.assertEqual(self.parts("e.jsonl"), [])

    def test_backup_is_whole_or_absent(self):
        self.fill()
        path = self.folder / "b.db"
        for at in (0, 1, 500000):
            self.kill_when(
                lambda n=at: any(size(self.folder / p) >= n for p in self.parts("b.db")),
                "backup", path, clean=path.unlink)
            self.assertFalse(path.exists())
            self.assertEqual(self.verified(), SESSIONS)
        self.run_quipu("backup", path)
        self.assertEqual(self.parts("b.db"), [])
        self.assertEqual(self.verified("--store", path), SESSIONS)
        self.assertEqual(self.run_quipu("export", "--store", path).raw_out,
                         self.run_quipu("export").raw_out)

    def test_copy_goes_on_where_it_was_killed(self):
        self.fill()
        target = self.folder / "copy.db"
        self.kill_when(lambda: size(f"{target}-wal") > 0, "copy", self.store, target,
                       clean=target.unlink)  # perhaps before there are tables
        self.kill_when(lambda: size(f"{target}-wal") > 300000, "copy", self.store, target,
                       clean=target.unlink)
        first = self.verified("--store", target)
        self.kill_when(lambda: size(f"{target}-wal") > 600000, "copy", self.store, target,
                       clean=target.unlink)
        there = self.verified("--store", target)
        self.assertTrue(0 < first < SESSIONS and 0 < there < SESSIONS, (first, there))
        done = self.run_quipu("copy", self.store, target, "--json").json()
        self.assertEqual((done["skipped"], done["sessions"]), (there, SESSIONS))
        self.assertEqual(self.run_quipu("export", "--store", target).raw_out,
                         self.run_quipu("export").raw_out)
        self.assertEqual(self.verified(), SESSIONS)

    def test_append_is_whole_or_absent(self):
        self.run_quipu("append", "k", "--create", "--text", "before")
        batch = (json.dumps({"role": "user", "content": TEXT}) + "\n") * 3000
        process = self.start_quipu("append", "k")
        process.stdin.write(batch.encode())
        process.stdin.flush()
        self.assertTrue(self.kill(process))
        self.assertEqual(self.run_quipu("verify", "--json").json()["messages"], 1)
        process = self.start_quipu("append", "k", "--keep-going")
        process.stdin.write(batch.encode())
        process.stdin.flush()
        self.assertTrue(wait_until(lambda: size(f"{self.store}-wal") > 100000, process))
        self.assertTrue(self.kill(process))
        self.verified()
        count = self.run_quipu("verify", "--json").json()["messages"]
        self.assertTrue(1 < count <= 3001, count)

    def test_signals_end_a_verb_cleanly(self):
        self.fill()
        big = json.dumps({"role": "user", "content": TEXT * 600}) + "\n"  # a backup has long steps
        self.run_quipu("append", "big", "--create", stdin=big * 60)
        for number in (signal.SIGINT, signal.SIGTERM):
            for verb, name in (("export", "e.jsonl"), ("backup", "b.db")):
                path = self.folder / name
                args = [verb, "-o", path] if verb == "export" else [verb, path]
                self.kill_when(lambda n=name: self.parts(n), *args, number=number,
                               clean=path.unlink)
                self.assertIn(b"interrupted", self.err)
                self.assertFalse(path.exists())
                self.assertEqual(self.parts(name), [])
        self.assertEqual(self.verified(), SESSIONS + 1)

    def test_interrupted_copy_says_that_it_can_go_on(self):
        self.fill()
        target = self.folder / "copy.db"
        self.kill_when(lambda: size(f"{target}-wal") > 300000, "copy", self.store, target,
                       number=signal.SIGINT, clean=target.unlink)
        self.assertIn(b"run the same command to continue", self.err)
        self.verified("--store", target)
        self.run_quipu("copy", self.store, target)

    def test_interrupted_import_says_that_it_can_go_on(self):
        export = self.folder / "all.jsonl"
        export.write_text("".join(self.lines), encoding="utf-8")
        chats = self.folder / "chats.jsonl"
        chats.write_text("".join(
            json.dumps({"role": m["role"], "content": m["content"], "session_id": key}) + "\n"
            for key, messages in sessions().items() for m in messages), encoding="utf-8")
        agents = self.folder / "agents.db"
        shutil.copyfile(harness.FIXTURES / "openai-agents.db", agents)
        with sqlite3.connect(agents) as db:
            for i in range(SESSIONS):
                db.execute("INSERT INTO agent_sessions (session_id) VALUES (?)", (f"s{i}",))
                db.executemany(
                    "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)",
                    [(f"s{i}", json.dumps({"role": "user", "content": TEXT}))] * MESSAGES)
        db.close()
        for path in (export, chats, agents):
            with self.subTest(path.name):
                store = self.folder / f"{path.name}.store"
                args = ["import", path, "--store", store]
                self.kill_when(lambda s=store: size(f"{s}-wal") > 900000, *args,
                               number=signal.SIGINT, clean=store.unlink)
                self.assertIn(b"interrupted", self.err)
                self.assertIn(b"run the same command to continue", self.err)
                there = self.verified("--store", store)
                self.assertGreater(there, 0)
                done = self.run_quipu(*args, "--json").json()
                self.assertGreaterEqual(done["skipped"], there - 1)
                self.assertGreaterEqual(self.verified("--store", store), SESSIONS)

    def test_an_import_that_waits_for_its_input_ends_at_ctrl_c(self):
        # A shell's background job has SIGINT ignored, and this may be run by one.
        process = self.start_quipu(
            "import", "-", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        process.stdin.write(self.lines[0].encode())
        process.stdin.flush()
        time.sleep(0.2)  # it reads by now, or will
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(harness.WAIT_S), 0)

    def test_reader_that_leaves_ends_an_export(self):
        self.fill()
        done = subprocess.run(["sh", "-c", f'"{harness.program()}" export | head -n 1'],
                              capture_output=True, env=self.env, timeout=harness.WAIT_S,
                              check=False)
        self.assertIn(b'"quipu":"export"', done.stdout)
        self.assertEqual(self.verified(), SESSIONS)


if __name__ == "__main__":
    harness.main()
