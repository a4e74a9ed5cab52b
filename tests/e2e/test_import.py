#!/usr/bin/env python3
"""quipu import from end to end: every fixture, an export from store to store, rejected files, and
an import that is killed."""

import json
import os
import shutil
import signal
import sqlite3

import harness

# kind, sessions, messages, keys of state, memories, orphans: tests/fixtures/README.md
FIXTURES = {
    "adk-python-database.db": ("adk-database", 2, 12, 10, 0, 0),
    "adk-python-sqlite.db": ("adk-sqlite", 2, 12, 10, 0, 0),
    "adk-python-database-v0.db": ("adk-v0", 1, 11, 9, 0, 0),
    "adk-go-database.db": ("adk-go", 2, 11, 8, 0, 1),
    "lango-mattn.db": ("lango", 2, 9, 0, 5, 0),
    "lango-modernc.db": ("lango", 2, 9, 0, 5, 0),
    "llm-responses.db": ("llm", 6, 18, 0, 0, 0),
    "llm-threads.db": ("llm", 6, 18, 0, 0, 0),
    "llm-both.db": ("llm", 6, 20, 0, 0, 0),
    "openai-agents.db": ("openai-agents", 2, 10, 0, 0, 0),
    "openai-agents-branches.db": ("openai-agents", 1, 4, 0, 0, 2),
    "langgraph.db": ("langgraph", 2, 11, 0, 0, 1),
}


class Import(harness.Case):
    def fixture(self, name):
        """A copy, for a file in WAL mode makes others beside it."""
        path = self.folder / name
        shutil.copyfile(harness.FIXTURES / name, path)
        return path

    def sessions(self):
        """What the store holds: {key: messages}."""
        lines = self.run_quipu("ls", "--json", "--limit", 0).lines()
        return {line["key"]: line["messages"] for line in lines}

    def test_every_fixture_comes_in_with_its_counts(self):
        for name, (kind, sessions, messages, states, memories, orphans) in FIXTURES.items():
            with self.subTest(name):
                store = str(self.folder / f"{name}.quipu")
                result = self.run_quipu("import", self.fixture(name), "--json", "--store", store)
                report = result.json()
                self.assertEqual(
                    (report["kind"], report["sessions"], report["messages"], report["states"],
                     report["memories"], report["orphans"], report["skipped"]),
                    (kind, sessions, messages, states, memories, orphans, 0))
                self.assertEqual(result.err.count("orphan:"), orphans)
                self.run_quipu("verify", "--store", store)
                again = self.run_quipu("import", self.folder / name, "--json", "--store", store)
                self.assertEqual(again.json()["skipped"], sessions)
                self.assertEqual(again.json()["messages"], 0)

    def test_what_answers_used_is_the_sum_of_the_imported_messages(self):
        for name in FIXTURES:
            with self.subTest(name):
                self.run_quipu("import", self.fixture(name), "--quiet")
                used = {line["key"]: (line["answers"], line["prompt_tokens"])
                        for line in self.run_quipu("usage", "--by", "session", "--json").lines()}
                said = {}
                for key in self.sessions():
                    answers = [m.get("prompt_tokens", 0)
                               for m in self.run_quipu("show", key, "--json").lines()
                               if "prompt_tokens" in m or "answer_tokens" in m]
                    if answers:
                        said[key] = (len(answers), sum(answers))
                self.assertEqual(used, said)
                self.store.unlink()

    def test_a_dry_run_reports_the_same_and_writes_nothing(self):
        path = self.fixture("adk-go-database.db")
        report = self.run_quipu("import", path, "--json", "--dry-run").json()
        self.assertFalse(self.store.exists())
        done = self.run_quipu("import", path, "--json").json()
        self.assertEqual({**report, "dry_run": False}, done)

    def test_an_export_travels_from_store_to_store_byte_by_byte(self):
        for name in FIXTURES:
            self.run_quipu("import", self.fixture(name), "--quiet", code=None)
        there = self.folder / "there.quipu"
        lines = self.run_quipu("export").raw_out
        report = self.run_quipu("import", "-", "--json", "--store", there, stdin=lines).json()
        counts = json.loads(lines.splitlines()[-1])
        self.assertEqual(report["kind"], "export")
        self.assertEqual((report["sessions"], report["messages"], report["states"],
                          report["memories"]),
                         (counts["sessions"], counts["messages"], counts["states"],
                          counts["memories"]))
        self.assertGreater(report["messages"], 20)
        self.assertEqual(self.run_quipu("export", "--store", there).raw_out, lines)
        # From a file too, where everything was imported before.
        file = self.folder / "all.jsonl"
        file.write_bytes(lines)
        again = self.run_quipu("import", file, "--json", "--store", there).json()
        self.assertEqual((again["sessions"], again["skipped"]), (0, counts["sessions"]))
        self.run_quipu("verify", "--store", there)

    def test_state_without_a_time_shows_none(self):
        self.run_quipu("import", self.fixture("adk-go-database.db"), "--quiet")
        for key in self.sessions():
            for args in ((), ("--json",)):
                self.assertNotIn("0001-01-01", self.run_quipu("state", key, *args).out)

    def test_a_cut_or_changed_export_brings_in_whole_sessions_or_nothing(self):
        self.run_quipu("import", self.fixture("adk-go-database.db"), "--quiet")
        whole = self.sessions()
        lines = self.run_quipu("export").raw_out
        cuts = [lines[:len(lines) // 2], b"".join(lines.splitlines(True)[:-1]),
                lines.replace(b'"role":"user"', b'"role":"king"'), b"", lines[:30]]
        for number, cut in enumerate(cuts):
            there = self.folder / f"there-{number}.quipu"
            result = self.run_quipu("import", "-", "--store", there, stdin=cut, code=1)
            self.assertEqual(result.out, "")
            self.assertRegex(result.err, r"^quipu import: .{10}")
            self.assertEqual(there.exists(), cut != b"")
            if cut:
                kept = self.run_quipu("ls", "--json", "--store", there).lines()
                for session in kept:
                    self.assertEqual(session["messages"], whole[session["key"]])
                self.run_quipu("verify", "--store", there)
            # The complete one finishes what the truncated one began.
            self.run_quipu("import", "-", "--quiet", "--store", there, stdin=lines)
            self.assertEqual(self.run_quipu("export", "--store", there).raw_out, lines)

    def test_what_is_no_known_file_makes_no_store(self):
        for data in (b"{}\n", b"no export"):
            result = self.run_quipu("import", "-", stdin=data, code=1)
            self.assertEqual(result.out, "")
            self.assertIn("- is of no known kind\nquipu import: known kinds: ", result.err)
            self.assertFalse(self.store.exists())

    def test_a_damaged_file_brings_in_nothing(self):
        path = self.fixture("adk-python-sqlite.db")
        whole = bytearray(path.read_bytes())
        for page in range(1, len(whole) // 4096):
            broken = bytes(whole[:page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096:])
            path.write_bytes(broken)
            result = self.run_quipu("import", path, code=1)
            self.assertIn("damaged", result.err)
            self.assertEqual(self.sessions(), {})

    def test_a_file_of_another_kind_says_which(self):
        path = self.fixture("adk-go-database.db")
        result = self.run_quipu("import", path, "--kind", "adk-v0", code=1)
        self.assertIn("adk-go, not adk-v0", result.err)
        result = self.run_quipu("import", path, "--kind", "export", code=1)
        self.assertIn("is a database, not export", result.err)
        self.run_quipu("import", self.folder / "missing.db", code=3)

    def test_a_killed_import_can_be_repeated(self):
        path = self.fixture("adk-python-sqlite.db")
        with sqlite3.connect(path) as db:
            for i in range(200):
                db.execute("INSERT INTO sessions SELECT app_name, user_id, ?, state, create_time, "
                           "update_time FROM sessions WHERE id = 'sess-0001'", (f"many-{i}",))
                db.execute("INSERT INTO events SELECT id, app_name, user_id, ?, invocation_id, "
                           "timestamp, event_data FROM events WHERE session_id = 'sess-0001'",
                           (f"many-{i}",))
        db.close()
        self.run_quipu("init")
        process = self.start_quipu("import", path, "--quiet")
        while process.poll() is None and not self.sessions():
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        there = self.sessions()
        self.assertTrue(set(there.values()) <= {11, 1}, there)
        self.run_quipu("verify")
        report = self.run_quipu("import", path, "--json").json()
        self.assertEqual(report["skipped"], len(there))
        self.assertEqual(report["sessions"] + report["skipped"], 202)
        self.assertEqual(sum(self.sessions().values()), 201 * 11 + 1)


if __name__ == "__main__":
    harness.main()
