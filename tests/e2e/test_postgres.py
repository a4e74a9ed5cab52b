#!/usr/bin/env python3
"""The program on a PostgreSQL store: search, erase and row security, by URI alone; and
`quipu serve` on one that restarts."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import harness
import server
from server import Tail, message

SERVER = pathlib.Path(__file__).resolve().parents[1] / "lib" / "pg.sh"


class Postgres(harness.Case):
    """One server for all tests; each has a schema and a plain role of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = cls.start("pg")

    @classmethod
    def start(cls, name, **env):
        """Starts a server that lives as long as the class; its URI."""
        place = os.path.join(cls.folder.name, name)
        cls.addClassCleanup(subprocess.run, ["bash", str(SERVER), "stop", place], check=False)
        done = subprocess.run(["bash", str(SERVER), "start", place], check=False,
                              capture_output=True, text=True, env={**os.environ, **env})
        if done.returncode == 77:
            print(done.stdout.strip())
            raise unittest.SkipTest(done.stdout.strip())
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return pathlib.Path(place, "uri").read_text(encoding="utf-8").strip()

    def setUp(self):
        super().setUp()
        name = self.id().rsplit(".", 1)[1]
        sql = f"CREATE ROLE {name} LOGIN; CREATE SCHEMA {name} AUTHORIZATION {name}"
        subprocess.run(["psql", "-q", "-c", sql, self.server], check=True)
        self.uri = f"{self.server}&user={name}&options=-csearch_path%3D{name}"
        lacks = "this build has no PostgreSQL"
        if lacks in self.run_quipu("init", "--store", self.uri, code=None).err:
            print("SKIP: " + lacks)
            self.skipTest(lacks)

    def on(self, verb, *args, **more):
        """A verb on the server's store."""
        return self.run_quipu(verb, "--store", self.uri, *args, **more)

    def session(self, key, *texts, tenant=""):
        """A session with these texts of the user's."""
        stdin = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)
        self.on("append", "--create", "--tenant", tenant, key, stdin=stdin)

    def hits(self, words, *args):
        """What a search finds: (key, seq), best first."""
        found = self.on("search", "--json", *args, words).lines()
        return [(hit["key"], hit["seq"]) for hit in found if "seq" in hit]

    def test_conversations_of_one_id_are_not_mixed(self):
        files = [self.folder / "a.db", self.folder / "b.db"]
        for path in files:
            shutil.copyfile(harness.FIXTURES / "openai-agents.db", path)
        with sqlite3.connect(files[1]) as db:
            db.execute("UPDATE agent_sessions SET created_at = '2020-01-02 03:04:05'")
            db.execute("UPDATE agent_messages SET message_data = ?",
                       (json.dumps({"role": "user", "content": "other"}),))
        db.close()
        self.on("import", files[0])
        self.on("import", files[1], code=4)
        for skipped in (0, 2):
            done = self.on("import", files[1], "--on-conflict", "rename", "--json").json()
            self.assertEqual(done["skipped"], skipped)
        self.assertEqual(self.on("import", files[0], "--json").json()["skipped"], 2)
        talk = self.folder / "talk.jsonl"
        for text, code in (("one", 0), ("other", 4)):
            talk.write_text(json.dumps({"role": "user", "content": text}) + "\n", encoding="utf-8")
            self.on("import", talk, code=code)

    def test_search_finds_words_phrases_and_cjk(self):
        self.session("k", "the quick brown fox", "我们昨天去了北京大学", "brown quick")
        self.assertEqual(self.hits("QUICK"), [("k", 3), ("k", 1)])
        self.assertEqual(self.hits('"quick brown"'), [("k", 1)])
        self.assertEqual(self.hits("北京"), [("k", 2)])
        self.assertIn("[quick brown]", self.on("search", '"quick brown"').out)
        self.on("rm", "k", "--yes")
        self.assertEqual(self.hits("QUICK"), [])

    def test_erase_succeeds_and_reports_what_the_server_keeps(self):
        self.session("k", "a secret")
        self.assertEqual(self.hits("secret"), [("k", 1)])
        receipt = self.on("erase", "k", "--yes", "--json").json()
        self.assertEqual((receipt["sessions"], receipt["messages"]), (["k"], 1))
        self.assertTrue(any("write-ahead log" in text for text in receipt["kept"]))
        self.assertEqual(self.hits("secret"), [])
        again = self.on("erase", "k", "--yes", code=3)  # the key is missing, as for rm
        self.assertIn("kept by", again.out)

    def test_doctor_says_replicated_only_when_commits_wait_for_a_standby(self):
        self.assertEqual(self.on("stats", "--json").lines()[0]["disks"], 0)
        found = self.on("doctor").out  # the test server does not sync
        self.assertIn("a power cut may lose the newest writes", found)
        self.assertNotIn("replicated", found)

    def checksums(self):
        """What the server says about its pages, and what doctor and stats report."""
        setting = subprocess.run(["psql", "-Atc", "SHOW data_checksums", self.uri], check=True,
                                 capture_output=True, text=True).stdout.strip()
        found = {f["check"]: f for f in self.on("doctor", "--json").lines()}["checksums"]
        return setting, self.on("stats", "--json").lines()[0]["checksums"], found

    def test_doctor_reports_the_servers_data_checksums(self):
        setting, stats, found = self.checksums()
        self.assertEqual(stats, setting)
        self.assertIn(f"data_checksums is {setting}", found["text"])
        if setting == "off":  # initdb's default before PostgreSQL 18
            self.assertIn("pg_checksums --enable", found["advice"])
        self.uri = self.start("sums", QUIPU_PG_INITDB="--data-checksums")
        self.on("init")
        setting, stats, found = self.checksums()
        self.assertEqual((setting, stats, found["verdict"]), ("on", "on", "ok"))
        self.assertIn("data_checksums is on", found["text"])

    def test_upgrade_leaves_checksums_to_the_servers_administrator(self):
        self.on("upgrade")
        if self.checksums()[0] == "off":
            self.assertIn("pg_checksums", self.on("upgrade", "--checksums", code=1).err)

    def test_what_a_server_cannot_do_is_reported_by_name(self):
        self.session("k", "hello")
        self.assertIn("pg_dump", self.on("backup", os.path.join(self.folder.name, "b"), code=1).err)
        self.assertIn("not a file", self.on("bench", code=2).err)
        for verb in ("ls", "verify", "repair", "sweep", "export", "stats"):
            self.on(verb)

    def test_a_store_that_cannot_be_distributed_is_not_made(self):
        schema = "CREATE SCHEMA nowhere; GRANT ALL ON SCHEMA nowhere TO PUBLIC"
        subprocess.run(["psql", "-q", "-c", schema, self.server], check=True)
        uri = f"{self.server}&options=-csearch_path%3Dnowhere"
        refused = self.run_quipu("init", "--store", uri, "--distribute", "citus", code=1).err
        self.assertIn("the database has no Citus", refused)
        self.assertIn("CREATE EXTENSION citus", refused)
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'nowhere'"
        counted = subprocess.run(["psql", "-Atc", tables, self.server], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual(counted.strip(), "0")
        self.assertIn("created", self.run_quipu("init", "--store", uri).out)
        self.run_quipu("init", "--store", uri, "--distribute", "citus", code=1)
        file = os.path.join(self.folder.name, "one.db")
        refused = self.run_quipu("init", "--store", file, "--distribute", "citus", code=1).err
        self.assertIn("name its coordinator, postgresql://", refused)
        self.assertFalse(os.path.exists(file))

    def test_row_security_is_a_parameter_of_the_uri(self):
        self.uri += "&row_security=on"
        self.session("k", "a red word", tenant="red")
        self.session("k", "a blue word", tenant="blue")
        self.assertEqual(self.hits("word", "--tenant", "red"), [("k", 1)])
        self.assertIn("[red]", self.on("search", "--tenant", "red", "red").out)
        self.assertEqual(self.hits("red", "--tenant", "blue"), [])
        self.assertIn("tenant", self.on("search", "word", code=None).err)
        seen = subprocess.run(["psql", "-Atc", "SELECT count(*) FROM messages",
                               self.uri.replace("&row_security=on", "")],
                              check=True, capture_output=True, text=True)
        self.assertEqual(seen.stdout, "0\n")


class Served(server.Case):
    """quipu serve on a PostgreSQL store, with a server of the test's own."""

    def setUp(self):
        super().setUp()
        place = str(self.folder / "pg")
        self.addCleanup(subprocess.run, ["bash", str(SERVER), "stop", place], check=False)
        self.database("start", place)
        uri = pathlib.Path(place, "uri").read_text(encoding="utf-8").strip()
        lacks = "this build has no PostgreSQL"
        if lacks in self.run_quipu("init", "--store", uri, code=None).err:
            self.skipTest(lacks)
        tokens = str(self.folder / "tokens")
        self.token = self.new_token("--tokens", tokens)
        self.serve("--store", uri, "--tokens", tokens)
        self.place = place

    def database(self, verb, place):
        """A verb of pg.sh."""
        done = subprocess.run(["bash", str(SERVER), verb, place], check=False,
                              capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_database_that_restarts_loses_nothing_and_ends_no_tail(self):
        self.append("s", message("e0", "m0"))
        tail = Tail(self, "s")
        self.assertEqual(tail.next()[2]["content"], "m0")
        for i in range(1, 4):
            self.database("halt", self.place)
            self.database("resume", self.place)
            self.append("s", message(f"e{i}", f"m{i}"))
            self.assertEqual(tail.next()[2]["content"], f"m{i}")
        self.assertEqual(self.contents("s"), [f"m{i}" for i in range(4)])

    def test_while_the_database_is_away_the_answer_is_to_come_again(self):
        self.append("s", message("e0", "m0"))
        self.database("halt", self.place)
        asked = (("GET", server.path("v1", "sessions", "s")),
                 ("POST", "/v1/sessions", {"key": "t"}))
        with concurrent.futures.ThreadPoolExecutor() as at_once:  # each waits for its deadline
            answers = list(at_once.map(lambda request: self.ask(*request), asked))
        for answer in answers:
            self.assertEqual(answer.status, 503, answer.body)
            self.assertIn(answer.json()["error"]["status"], ("IO", "BUSY"))
            self.assertIn("Retry-After", answer.headers)
        self.database("resume", self.place)
        self.append("s", message("e1", "m1"))
        self.assertEqual(self.contents("s"), ["m0", "m1"])


if __name__ == "__main__":
    harness.main()
