#!/usr/bin/env python3
"""The reading verbs on stores that earlier programs wrote (tests/fixtures/older): each answers, and
none of them changes a byte."""

import contextlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import unittest

import harness

OLDER = harness.ROOT / "tests" / "fixtures" / "older"
BEFORE_SEARCH = ("97fe72c.db", "f0d1dbe.db")
INDEXED = "9d9f59e.db"
LANGO = harness.FIXTURES / "lango-mattn.db"
# A program that is killed in the middle of a transaction, with its journal on the disk.
KILLED = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("CREATE TABLE filler (x)")
for _ in range(300):
    db.execute("INSERT INTO filler VALUES (zeroblob(4000))")
os.kill(os.getpid(), signal.SIGKILL)
"""
UNGUARD = "".join(f"DROP VIEW new_{name};" for name in
                  ("sessions", "messages", "observations", "reflections"))
LANGOS = {
    "sessions": "id integer NOT NULL PRIMARY KEY AUTOINCREMENT, key text NOT NULL, agent_id text, "
                "channel_type text, channel_id text, model text, metadata json, "
                "created_at datetime NOT NULL, updated_at datetime NOT NULL",
    "messages": "id integer NOT NULL PRIMARY KEY AUTOINCREMENT, role text NOT NULL, "
                "content text NOT NULL, timestamp datetime NOT NULL, tool_calls json, "
                "author text DEFAULT (''), session_messages integer",
}
# What Lango's migration does to a file whose tables have columns that it does not know.
REBUILD = "BEGIN;" + "".join(
    f"CREATE TABLE new_{name} ({columns}); INSERT INTO new_{name} SELECT "
    f"{', '.join(column.split()[0] for column in columns.split(', '))} FROM {name};"
    f"DROP TABLE {name}; ALTER TABLE new_{name} RENAME TO {name};"
    for name, columns in LANGOS.items()) + "COMMIT"

READING = (("ls",), ("ls", "--json"), ("show", "travel"), ("show", "--json", "travel"),
           ("tail", "travel"), ("export",), ("stats",), ("verify",), ("doctor",),
           ("memory", "list", "travel"),
           ("state", "travel"), ("window", "travel"), ("ls", "--title", "a", "--since", "1d"),
           ("backup", "copy.db"), ("init",))


class Older(harness.Case):
    def place(self, source):
        """A private copy of a file, alone in a folder; later calls are about it."""
        folder = self.folder / source.stem
        folder.mkdir()
        self.store = folder / "store.db"
        self.env["QUIPU_STORE"] = str(self.store)
        shutil.copy(source, self.store)
        os.chmod(self.store, 0o600)
        os.utime(self.store, ns=(10**18, 10**18))
        return self.store

    @contextlib.contextmanager
    def untouched(self):
        before = self.store.read_bytes()
        yield
        self.assertEqual(self.store.read_bytes(), before)
        self.assertEqual(self.store.stat().st_mtime_ns, 10**18)
        self.assertEqual(os.listdir(self.store.parent), ["store.db"])

    def test_every_reading_verb_answers_and_writes_nothing(self):
        for source in sorted(OLDER.glob("*.db")):
            self.place(source)
            for verb in READING:
                target = self.folder / f"{source.stem}-copy.db"
                args = [target if arg == "copy.db" else arg for arg in verb]
                with self.subTest(source=source.name, verb=verb), self.untouched():
                    self.run_quipu(*args)
            with self.untouched():
                keys = {line["key"] for line in self.run_quipu("ls", "--json").lines()}
            self.assertEqual(keys, {"travel", "knots"})

    def test_reading_gives_what_an_upgrade_gives(self):
        for source in sorted(OLDER.glob("*.db")):
            with self.subTest(source=source.name):
                self.place(source)
                with self.untouched():
                    before = self.run_quipu("export").out
                self.run_quipu("doctor", "--migrate", "--quick")
                self.assertEqual(self.run_quipu("export").out, before)

    def test_doctor_says_what_an_upgrade_adds(self):
        self.place(OLDER / INDEXED)
        with self.untouched():
            found = {f["check"]: f for f in self.run_quipu("doctor", "--json").lines()}["layout"]
        self.assertEqual(found["verdict"], "note")
        self.assertIn('table "model_factors"', found["text"])
        self.assertIn("--migrate", found["advice"])

    def test_a_search_uses_the_index_that_is_there(self):
        self.place(OLDER / INDEXED)
        with self.untouched():
            hits = self.run_quipu("search", "--json", "Cusco").lines()
        self.assertEqual([hit["key"] for hit in hits], ["travel"])

    def test_a_search_without_an_index_finds_what_an_upgrade_finds(self):
        for name in BEFORE_SEARCH:
            with self.subTest(source=name):
                self.place(OLDER / name)
                with self.untouched():
                    before = self.run_quipu("search", "--json", "Cusco")
                    read_only = self.run_quipu("search", "--json", "--read-only", "Cusco")
                self.assertIn("quipu doctor --migrate", before.err)
                self.assertEqual(read_only.out, before.out)
                self.run_quipu("doctor", "--migrate", "--quick")
                after = self.run_quipu("search", "--json", "Cusco")
                self.assertEqual(after.lines(), before.lines())
                self.assertNotEqual(after.lines(), [])

    def test_a_search_that_would_have_to_index_does_not_upgrade(self):
        self.place(OLDER / INDEXED)
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            db.executescript("UPDATE sessions SET lags = 1; PRAGMA wal_checkpoint(TRUNCATE)")
        os.utime(self.store, ns=(10**18, 10**18))
        with self.untouched():
            found = self.run_quipu("search", "--json", "Cusco")
        self.assertIn("doctor --migrate", found.err)
        self.assertEqual([hit["key"] for hit in found.lines()], ["travel"])

    def test_a_search_does_not_adopt_a_file_of_langos(self):
        self.place(LANGO)
        with self.untouched():
            self.assertIn("doctor --migrate", self.run_quipu("search", "hello").err)

    def test_no_reading_verb_adopts_a_file_of_langos(self):
        self.place(LANGO)
        for verb in (["ls"], ["show", "direct-plain"], ["tail", "direct-plain"], ["stats"],
                     ["export"], ["verify"], ["doctor"], ["memory", "list", "direct-plain"],
                     ["backup", self.folder / "copy.db"]):
            with self.subTest(verb[0]), self.untouched():
                self.run_quipu(*verb)

    def test_an_interrupted_write_is_named(self):
        self.place(LANGO)
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
        subprocess.run([sys.executable, "-c", KILLED, self.store], check=False)
        self.assertTrue(pathlib.Path(f"{self.store}-journal").exists())
        error = self.run_quipu("ls", code=1).err
        self.assertIn("interrupted", error)
        self.assertIn("-journal", error)
        found = {f["check"]: f for f in self.run_quipu("doctor", "--json", code=1).lines()}
        self.assertIn("doctor --migrate", found["open"]["advice"])
        self.assertIn("-journal", found["log"]["text"])
        self.run_quipu("doctor", "--migrate")
        self.assertEqual(len(self.run_quipu("ls", "--json").lines()), 2)

    def test_repair_adopts_a_file_again_that_lango_has_migrated(self):
        self.place(LANGO)
        self.run_quipu("doctor", "--migrate")
        before = self.run_quipu("show", "direct-plain", "--json").out
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            self.assertRaises(sqlite3.OperationalError, db.executescript, REBUILD)
            db.rollback()
            db.executescript(UNGUARD + REBUILD)
        self.assertIn("quipu repair", self.run_quipu("ls", code=1).err)
        found = {f["check"]: f for f in self.run_quipu("doctor", "--json", code=1).lines()}
        self.assertIn("Lango", found["open"]["text"])
        self.assertIn("quipu repair", found["open"]["advice"])
        self.run_quipu("repair")
        self.assertEqual(self.run_quipu("show", "direct-plain", "--json").out, before)
        self.run_quipu("verify")

    def test_a_writing_verb_upgrades(self):
        self.place(OLDER / INDEXED)
        self.run_quipu("append", "travel", "--text", "One more.")
        found = {f["check"]: f for f in self.run_quipu("doctor", "--json").lines()}
        self.assertEqual(found["layout"]["verdict"], "ok")
        self.assertEqual(found["verify"]["verdict"], "ok")


if __name__ == "__main__":
    unittest.main()
