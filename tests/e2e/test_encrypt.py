#!/usr/bin/env python3
"""quipu upgrade --encrypt: a plain store becomes an encrypted one, also when it is killed at any
moment and repeated, and while other processes append; nothing plain is left."""

import json
import random
import secrets
import subprocess
import threading
import time

import harness

KILLS = 25
SESSIONS = 40
PLANTED = "a-text-that-was-plain"


class Encrypt(harness.Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        self.store = self.data / "store.db"
        self.env["QUIPU_STORE"] = str(self.store)
        key = self.folder / "key"
        key.write_bytes(secrets.token_bytes(32))
        key.chmod(0o600)
        self.keyed = {"QUIPU_KEY_FILE": str(key)}

    def fill(self):
        """A plain store of some megabytes, so that every stage takes its time."""
        harness.make_store(self, {
            f"s{i:02}": [{"role": "user", "content": f"{PLANTED} {i}.{j} " + "many words " * 80}
                         for j in range(40)] for i in range(SESSIONS)})

    def is_encrypted(self):
        return self.store.read_bytes()[:15] == b"quipu encrypted"

    def assert_whole(self):
        """The store opens, plain or encrypted, has all messages and no problem."""
        env = self.keyed if self.is_encrypted() else {}
        self.run_quipu("upgrade", env=env)  # a journal of the kill is rolled back by who writes
        done = self.run_quipu("verify", "--json", env=env).json()
        self.assertEqual(done["problems"], [])
        self.assertEqual((done["sessions"], done["messages"]), (SESSIONS, SESSIONS * 40))

    def assert_hidden(self):
        """One file, which shows nothing."""
        self.assertEqual([path.name for path in self.data.iterdir()], ["store.db"])
        self.assertNotIn(PLANTED.encode(), self.store.read_bytes())

    def test_a_plain_store_becomes_an_encrypted_one(self):
        self.fill()
        done = self.run_quipu("upgrade", "--encrypt", env=self.keyed)
        self.assertIn("the store is encrypted", done.out)
        self.assertIn("not within reach: backups", done.out)
        self.assert_hidden()
        self.assert_whole()
        self.assertIn("no key was given", self.run_quipu("ls", code=1).err)
        again = self.run_quipu("upgrade", "--encrypt", "--json", env=self.keyed).json()
        self.assertTrue(again["encrypted"])

    def test_what_cannot_be_is_said_and_nothing_is_written(self):
        self.fill()
        before = self.store.read_bytes()
        self.assertIn("--encrypt needs a key", self.run_quipu("upgrade", "--encrypt", code=2).err)
        missing = {"QUIPU_KEY_FILE": str(self.folder / "none")}
        self.assertIn("cannot be read", self.run_quipu("upgrade", "--encrypt", code=2,
                                                       env=missing).err)
        server = self.run_quipu("upgrade", "--encrypt", "--store", "postgresql://nowhere/x", code=1,
                                env=self.keyed)
        self.assertIn("by its own means", server.err)
        self.assertEqual(self.store.read_bytes(), before)
        self.run_quipu("upgrade", "--encrypt", env=self.keyed)
        before = self.store.read_bytes()
        other = self.folder / "other"
        other.write_bytes(bytes(32))
        other.chmod(0o600)
        self.assertIn("the key does not fit",
                      self.run_quipu("upgrade", "--encrypt", code=1,
                                     env={"QUIPU_KEY_FILE": str(other)}).err)
        self.assertEqual(self.store.read_bytes(), before)

    def test_a_program_that_has_the_store_open_keeps_it_plain(self):
        self.fill()
        tail = self.start_quipu("tail", "s00", "-f")
        self.read_line(tail)
        busy = self.run_quipu("upgrade", "--encrypt", "--wait", 1, code=5, env=self.keyed)
        self.assertIn("a program has it open", busy.err)
        self.assertFalse(self.is_encrypted())
        self.run_quipu("append", "s00", "--text", "it goes on")
        while "it goes on" not in self.read_line(tail):
            pass

    def test_a_kill_at_any_moment_loses_nothing(self):
        self.fill()
        plain = self.store.read_bytes()
        started = time.monotonic()
        self.run_quipu("upgrade", "--encrypt", env=self.keyed)
        span = time.monotonic() - started
        stages = set()
        for _ in range(KILLS):
            for path in self.data.iterdir():
                path.unlink()
            self.store.write_bytes(plain)
            process = subprocess.Popen([harness.program(), "upgrade", "--encrypt"],
                                       env={**self.env, **self.keyed}, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            time.sleep(random.random() * span)
            process.kill()
            process.communicate()
            stages.add((self.is_encrypted(),
                        (self.data / "store.db-encrypting").exists()))
            self.assert_whole()
            self.run_quipu("upgrade", "--encrypt", env=self.keyed)
            self.assert_hidden()
            self.assert_whole()
        self.assertGreater(len(stages), 1, stages)

    def upgrade_beside_others(self):
        """It needs a moment in which nobody has the store open, and says so when none came."""
        for _ in range(harness.WAIT_S):
            done = self.run_quipu("upgrade", "--encrypt", "--wait", 5, code=None, env=self.keyed)
            if done.code == 0:
                return
            self.assertIn("a program has it open; end it first, nothing was changed", done.err)
        self.fail("no moment came")

    def test_what_other_processes_append_is_kept_or_refused(self):
        self.fill()
        kept = []
        refused = []
        stop = threading.Event()

        def work(number):
            while not stop.is_set():
                done = self.run_quipu("append", f"w{number}", "--create", "--text", "beside",
                                      "--json", code=None)
                (kept if done.code == 0 else refused).append(done.err)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for worker in workers:
            worker.start()
        try:
            time.sleep(0.3)
            self.upgrade_beside_others()
            while not refused:
                time.sleep(0.01)
        finally:
            stop.set()
            for worker in workers:
                worker.join()
        self.assertEqual(self.run_quipu("verify", "--json", env=self.keyed).json()["problems"], [])
        stats = json.loads(self.run_quipu("stats", "--json", env=self.keyed).out)
        self.assertEqual(stats["messages"], SESSIONS * 40 + len(kept))
        for text in refused:
            self.assertRegex(text, "no key was given|replaced meanwhile|for writing")
        self.assertNotIn(PLANTED.encode(), b"".join(p.read_bytes() for p in self.data.iterdir()))


if __name__ == "__main__":
    harness.main()
