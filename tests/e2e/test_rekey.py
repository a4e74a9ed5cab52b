#!/usr/bin/env python3
"""quipu rekey: another key for an encrypted store, from files alone; what does not fit is said and
writes nothing; a kill leaves a store that one of both keys opens."""

import json
import pathlib
import random
import secrets
import subprocess
import sys
import time

import harness

try:
    import encrypted_file
except ImportError:
    print("SKIP: no cryptography (python3-cryptography)")
    sys.exit(77)

KILLS = 30
TEXT = "a-text-that-stays"


class Rekey(harness.Case):
    def setUp(self):
        super().setUp()
        self.files = {}
        for name in ("old", "new"):
            path = self.folder / f"{name}.key"
            path.write_bytes(secrets.token_bytes(32))
            path.chmod(0o600)
            self.files[name] = str(path)
        self.phrase = self.folder / "phrase"
        self.phrase.write_text("correct horse\n")
        self.phrase.chmod(0o600)
        self.q("old", "init", "--encrypt")
        lines = "".join(json.dumps({"role": "user", "content": f"{TEXT} {i}"}) + "\n"
                        for i in range(30))
        self.q("old", "append", "one", "-", "--create", stdin=lines)

    def q(self, key, *args, code=0, stdin=b"", **env):
        """Run a verb with one of the keys, or none."""
        named = {"QUIPU_KEY_FILE": self.files[key]} if key else {}
        return self.run_quipu(*args, code=code, stdin=stdin, env={**named, **env})

    def assert_opens(self, key, other):
        """One key opens the store, which is whole; the other one does not."""
        self.assertEqual(self.q(key, "verify", "--json").json()["problems"], [])
        self.assertEqual(self.q(key, "show", "one", "--json").out.count(TEXT), 30)
        self.assertIn("the key does not fit", self.q(other, "ls", code=1).err)

    def test_the_new_key_opens_the_store_and_the_old_one_does_not(self):
        done = self.q("old", "rekey", "--new-key-file", self.files["new"], "--json").json()
        self.assertEqual(done, {"store": str(self.store), "rekeyed": True})
        self.assert_opens("new", "old")
        self.q("new", "rekey", QUIPU_NEW_KEY_FILE=self.files["old"])
        self.assert_opens("old", "new")
        self.assertIn("has the new key",
                      self.q("old", "rekey", "--new-passphrase-file", self.phrase).out)
        self.assertIn("the key does not fit", self.q("old", "ls", code=1).err)
        phrase = {"QUIPU_PASSPHRASE_FILE": str(self.phrase)}
        self.assertIn("one", self.q(None, "ls", **phrase).out)

    def test_an_independent_reader_reads_it_with_the_new_key_alone(self):
        before = self.store.read_bytes()
        self.q("old", "rekey", "--new-key-file", self.files["new"])
        after = self.store.read_bytes()
        self.assertNotEqual(before[:4096], after[:4096])
        self.assertEqual(before[4096:], after[4096:])  # the pages stay as they are
        keys = {name: pathlib.Path(path).read_bytes() for name, path in self.files.items()}
        for at in (None, 0, 2048):  # both copies of the header, and each alone
            part = bytearray(after)
            if at is not None:
                part[at:at + 2048] = bytes(2048)
            self.store.write_bytes(part)
            encrypted_file.Reader(self.store, keys["new"])
            self.assertIn("one", self.q("new", "ls").out)
            with self.assertRaises(encrypted_file.Damaged):
                encrypted_file.Reader(self.store, keys["old"])

    def test_what_is_wrong_is_said_and_nothing_is_written(self):
        before = self.store.read_bytes()
        new = ("--new-key-file", self.files["new"])
        self.assertIn("the new key is missing", self.q("old", "rekey", code=2).err)
        self.assertIn("give one", self.q("old", "rekey", *new, "--new-passphrase-file",
                                         self.phrase, code=2).err)
        self.assertIn("holds no key", self.q("old", "rekey", "--new-key-file", self.phrase,
                                             code=2).err)
        self.assertIn("cannot be read", self.q("old", "rekey", "--new-key-file",
                                               self.folder / "none", code=2).err)
        self.assertIn("no key was given", self.q(None, "rekey", *new, code=1).err)
        third = self.folder / "third.key"
        third.write_bytes(bytes(32))
        third.chmod(0o600)
        self.assertIn("the key does not fit", self.q(None, "rekey", *new, code=1,
                                                     QUIPU_KEY_FILE=str(third)).err)
        third.chmod(0o644)
        self.assertIn("chmod 600", self.q("old", "rekey", "--new-key-file", third, code=2).err)
        self.assertEqual(self.store.read_bytes(), before)
        plain = str(self.folder / "plain.db")
        self.q(None, "init", "--store", plain)
        self.assertIn("quipu upgrade --encrypt",
                      self.q(None, "rekey", *new, "--store", plain, code=1).err)

    def test_a_repeat_ends_what_was_interrupted(self):
        """A kill between both copies of the header: the first one still has the old wrapping."""
        before = self.store.read_bytes()
        self.q("old", "rekey", "--new-key-file", self.files["new"])
        after = self.store.read_bytes()
        self.store.write_bytes(before[:2048] + after[2048:])
        self.assert_opens("new", "old")
        self.q("old", "rekey", "--new-key-file", self.files["new"])
        header = self.store.read_bytes()[:4096]
        self.assertEqual(header[:2048], header[2048:])
        self.assert_opens("new", "old")

    def test_a_kill_leaves_a_store_that_one_key_opens(self):
        keys = ["new", "old"]
        changes = 0
        begun = time.monotonic()
        self.q("old", "rekey", "--new-key-file", self.files["new"])
        span = time.monotonic() - begun
        for _ in range(KILLS):
            process = self.start(*keys)
            time.sleep(random.random() * span * 1.5)
            process.kill()
            process.communicate()
            if self.q(keys[1], "ls", code=None).code == 0:
                keys.reverse()
                changes += 1
            self.assert_opens(keys[0], keys[1])
        self.assertGreater(changes, 0)

    def start(self, current, new):
        """A rekey that runs."""
        env = {**self.env, "QUIPU_KEY_FILE": self.files[current]}
        return subprocess.Popen([harness.program(), "rekey", "--new-key-file", self.files[new]],
                                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


if __name__ == "__main__":
    harness.main()
