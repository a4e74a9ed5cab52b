#!/usr/bin/env python3
"""The verbs that write, in a pipe and in a terminal: init, append, rm, erase, fork, rewind,
compact, prune, export, copy, backup, verify, repair, sweep, bench."""

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import stat
import subprocess
import time

import harness

BATCH_MAX = 10000  # QUIPU_BATCH_MAX
BATCH = 500        # APPEND_BATCH
KEYS_MAX = 1000    # RM_KEYS_MAX
NASTY = "\x1b[31mred\x07 \u202eback\u202c \x9b2J"


def lines(*messages):
    """JSON Lines of messages."""
    return "".join(json.dumps(message) + "\n" for message in messages)


def user(text, **more):
    """A user's message."""
    return {"role": "user", "content": text, **more}


class Verbs(harness.Case):
    """Shared by the tests of the verbs."""

    def session(self, key, *texts):
        """A session with these texts of the user's."""
        self.run_quipu("append", key, "--create", stdin=lines(*map(user, texts)))

    def exported(self, *args):
        """The lines of an export, by their type."""
        found = {}
        for line in self.run_quipu("export", *args).lines():
            found.setdefault(line.get("type", "header"), []).append(line)
        return found

    def texts(self, key):
        """The contents of a session's messages."""
        return [line["content"] for line in self.exported(key, "--flat").get("message", [])]

    def keys(self, *args):
        """The keys of all sessions."""
        return [line["key"] for line in self.exported(*args).get("session", []) if "key" in line]

    def sound(self, *args):
        """verify finds nothing."""
        self.assertEqual(self.run_quipu("verify", "--json", *args).json()["found"], 0)


class Init(Verbs):
    """init"""

    def test_a_store_is_made_once(self):
        self.assertTrue(self.run_quipu("init", "--json").json()["created"])
        self.assertEqual(stat.S_IMODE(self.store.stat().st_mode), 0o600)
        before = self.store.read_bytes()
        self.assertFalse(self.run_quipu("init", "--json").json()["created"])
        self.assertIn("exists already", self.run_quipu("init").out)
        self.assertEqual(self.store.read_bytes(), before)
        self.sound()

    def test_default_place_is_made_with_its_folders(self):
        env = {"QUIPU_STORE": ""}
        self.run_quipu("init", env=env)
        self.assertTrue((self.folder / "home/.local/share/quipu/store.db").exists())
        data = self.folder / "data"
        self.run_quipu("init", env={**env, "XDG_DATA_HOME": str(data)})
        self.assertTrue((data / "quipu/store.db").exists())

    def test_another_programs_file_is_left_alone(self):
        with sqlite3.connect(self.store) as db:
            db.execute("CREATE TABLE mine (a)")
        db.close()
        before = self.store.read_bytes()
        self.run_quipu("init", code=1)
        self.assertEqual(self.store.read_bytes(), before)

    def test_missing_folder_is_reported(self):
        self.assertIn("nowhere", self.run_quipu("init", "--store",
                                                self.folder / "nowhere/s.db", code=3).err)

    def test_in_a_terminal(self):
        self.assertIn("created", self.run_terminal("init"))


class Append(Verbs):
    """append"""

    def test_lines_are_appended_in_order_and_numbered(self):
        done = self.run_quipu("append", "k", "--create", "--json",
                              stdin=lines(user("a"), {"role": "assistant", "content": "b"})).json()
        self.assertEqual(done, {"key": "k", "messages": 2, "first_seq": 1, "last_seq": 2,
                                "revision": done["revision"], "created": True, "repeated": False,
                                "bad": 0})
        done = self.run_quipu("append", "k", "-", "--json", stdin=lines(user("c"))).json()
        self.assertEqual((done["first_seq"], done["created"]), (3, False))
        self.assertEqual(self.texts("k"), ["a", "b", "c"])

    def test_every_member_is_kept(self):
        message = {
            "role": "assistant", "content": "x\u0000y \U0001f642", "author": "bot",
            "timestamp": "2026-01-31T12:00:00.123456789Z", "event_id": "e-1",
            "invocation_id": "i", "branch": "a.b", "extra": {"n": 1.0},
            "tool_calls": [{"id": "1", "name": "ls", "input": {"a": 1}, "output": "o"}],
        }
        self.run_quipu("append", "k", "--create", stdin=lines(message))
        line = self.exported("k")["message"][0]
        self.assertEqual(line["event_id"], "e-1")
        self.assertEqual(line["timestamp"], "2026-01-31T12:00:00.123456789Z")
        self.assertEqual(line["extra"]["n"], 1.0)
        self.assertEqual(line["tool_calls"][0]["output"], "o")
        self.assertEqual((line["author"], line["branch"], line["invocation_id"]),
                         ("bot", "a.b", "i"))

    def test_file_and_empty_lines(self):
        path = self.folder / "in.jsonl"
        path.write_text("\n  \r\n" + lines(user("a")) + "\n" + lines(user("b")).rstrip("\n"),
                        encoding="utf-8")
        self.run_quipu("append", "k", path, "--create")
        self.assertEqual(self.texts("k"), ["a", "b"])
        self.run_quipu("append", "k", self.folder / "missing", code=3)

    def test_bad_line_is_reported_and_nothing_is_stored(self):
        self.session("k", "before")
        cases = {
            "no JSON": (b'{"role":"user"', "JSON"),
            "bad UTF-8": (b'{"role":"user","content":"\xff"}', "UTF-8"),
            "control character": (b'{"role":"user","content":"\x1b"}', "JSON"),
            "NUL": (b'{"role":"user","content":"\x00"}', "JSON"),
            "role": (b'{"role":"usr"}', "role"),
            "member": (b'{"role":"user","contnet":1}', "contnet"),
            "reserved": (b'{"role":"user","extra":{"quipu":1}}', "store's own"),
            "summary": (b'{"role":"system","mark":"compaction"}', "summary"),
            "event id": (b'{"role":"user","event_id":"' + b"x" * 513 + b'"}', "event id"),
        }
        for name, (line, why) in cases.items():
            with self.subTest(name):
                done = self.run_quipu("append", "k", code=1,
                                      stdin=b'{"role":"user"}\n\n' + line + b"\n{}\n"
                                      if name not in ("reserved", "summary", "event id")
                                      else b'{"role":"user"}\n\n' + line + b"\n")
                self.assertIn("stdin, line 3: ", done.err)
                self.assertIn(why, done.err)
                self.assertIn("nothing was stored", done.err)
                self.assert_harmless(done.err)
                self.assertEqual(self.texts("k"), ["before"])
        done = self.run_quipu("append", "new", "--create", code=1, stdin="{}\n")
        self.assertEqual(self.keys(), ["k"])

    def test_keep_going_stores_the_rest_and_fails(self):
        done = self.run_quipu(
            "append", "k", "--create", "--keep-going", "--json", code=1,
            stdin=b'{"role":"user","content":"a"}\n{"role":1}\n\xff\xfe\n'
                  b'{"role":"user","extra":{"quipu":1}}\n{"role":"user","content":"b"}\n')
        self.assertEqual((done.json()["messages"], done.json()["bad"]), (2, 3))
        for number in (2, 3, 4):
            self.assertIn(f"line {number}: ", done.err)
        self.assertEqual(self.texts("k"), ["a", "b"])
        self.sound()

    def test_slow_writer_is_followed(self):
        self.run_quipu("append", "k", "--create")
        process = self.start_quipu("append", "k", "--keep-going", "-")
        for number in (1, 2):
            process.stdin.write(lines(user("x")).encode())
            process.stdin.write(b'{"role":"user",')  # and an incomplete line
            process.stdin.flush()
            while self.run_quipu("verify", "--json").json()["messages"] < number:
                self.assertIsNone(process.poll())
            process.stdin.write(b'"content":7}\n')
        process.communicate(timeout=harness.WAIT_S)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(self.texts("k"), ["x", "x"])

    def test_batch_limit_and_longer_input(self):
        self.run_quipu("append", "k", "--create", stdin=lines(user("x")) * BATCH_MAX)
        # More than a batch holds is tried first: a wrong line still leaves nothing behind.
        long = lines(user("x")) * (BATCH_MAX + 1)
        self.run_quipu("append", "k", code=1, stdin=long + "no JSON\n")
        wrong = lines(user("x", event_id="e" * 513))
        self.assertIn("line 10002", self.run_quipu("append", "k", code=1, stdin=long + wrong).err)
        self.assertEqual(self.run_quipu("verify", "--json").json()["messages"], BATCH_MAX)
        done = self.run_quipu("append", "other", "--create", "--json", stdin=long).json()
        self.assertEqual((done["first_seq"], done["last_seq"]), (1, BATCH_MAX + 1))
        done = self.run_quipu("append", "k", "--keep-going", "--json",
                              stdin=lines(user("x")) * (BATCH_MAX + 1)).json()
        self.assertEqual(done["last_seq"], 2 * BATCH_MAX + 1)

    def test_repeat_with_event_ids_is_stored_once(self):
        batch = lines(user("a", event_id="1"), user("b", event_id="2"))
        self.run_quipu("append", "k", "--create", stdin=batch)
        done = self.run_quipu("append", "k", "--json", stdin=batch).json()
        self.assertTrue(done["repeated"])
        self.assertEqual(done["first_seq"], 1)
        self.assertIn("stored before", self.run_quipu("append", "k", stdin=batch).out)
        self.run_quipu("append", "k", code=4, stdin=lines(user("other", event_id="1")))
        self.assertEqual(self.texts("k"), ["a", "b"])

    def test_one_message_by_options(self):
        self.run_quipu("append", "k", "--create", "--text", "hi", "--event-id", "1")
        self.run_quipu("append", "k", "--text", "yes", "--role", "assistant", "--author", "bot")
        second = self.exported("k")["message"][1]
        self.assertEqual((second["role"], second["author"]), ("assistant", "bot"))
        self.run_quipu("append", "k", "--text", "x", "--role", "asistant", code=2)
        self.run_quipu("append", "k", "--role", "user", code=2)
        self.run_quipu("append", "k", "file", "--text", "x", code=2)
        done = self.run_quipu("append", "k", "--text", b"\xff\x1b[2J".decode("utf-8",
                                                                           "surrogateescape"),
                              code=1)
        self.assertIn("UTF-8", done.err)
        self.assertEqual(self.texts("k"), ["hi", "yes"])

    def test_missing_session_is_reported_and_nothing_makes_one(self):
        self.run_quipu("init")
        for stdin in (lines(user("a")), ""):
            self.run_quipu("append", "k", code=3, stdin=stdin)
        done = self.run_quipu("append", NASTY, code=3, stdin=lines(user("a")))
        self.assertIn("--create", done.err)
        self.assert_harmless(done.err)
        self.assertEqual(self.keys(), [])
        self.assertTrue(self.run_quipu("append", "k", "--create", "--json").json()["created"])
        self.assertEqual(self.keys(), ["k"])
        self.run_quipu("append", "k")

    def test_new_session_has_what_the_options_say(self):
        self.run_quipu("append", "k", "--create", "--app", "a", "--user", "u", "--agent", "g",
                       "--model", "m", stdin=lines(user("x")))
        self.run_quipu("append", "empty", "--create", "--model", "m")
        session = self.exported("k")["session"][0]
        self.assertEqual([session[name] for name in ("app_name", "user_id", "agent_id", "model")],
                         ["a", "u", "g", "m"])
        self.assertEqual(self.exported("empty")["session"][0]["model"], "m")
        self.run_quipu("append", "k", "--user", "u", "--text", "x", code=2)

    def test_missing_store_is_reported(self):
        done = self.run_quipu("append", "k", code=3, stdin=lines(user("a")))
        self.assertIn("quipu init", done.err)
        self.assertFalse(self.store.exists())

    def test_read_only_file_is_reported(self):
        self.session("k", "a")
        done = self.run_quipu("append", "k", "--store", f"file:{self.folder}/nowhere/x", code=3,
                              stdin=lines(user("b")))
        self.assertIn("nowhere", done.err)

    def test_in_a_terminal(self):
        self.run_quipu("init")
        terminal = self.terminal("append", "k", "--create")
        terminal.expect("Ctrl-D")
        terminal.send(lines(user("typed")))
        terminal.send("\x04")
        self.assertIn("1 message", terminal.finish())
        self.assertEqual(terminal.code, 0)
        self.assertEqual(self.texts("k"), ["typed"])


    def test_progress_is_shown_on_a_terminal_when_it_takes_long(self):
        for options, shown in (([], True), (["--quiet"], False)):
            terminal = self.terminal("append", "k", "--create", "--keep-going", *options)
            terminal.expect("Ctrl-D")
            for _ in range(2):
                for _ in range(BATCH):
                    terminal.send(lines(user("x")))
                    terminal.read(0)
                time.sleep(1.1)  # longer than a bar waits
            terminal.send("\x04")
            text = terminal.finish()
            self.assertEqual("\rappending, " in text, shown)
            self.assertEqual(f"{2 * BATCH} messages, now" in text, shown)


class Remove(Verbs):
    """rm, erase, sweep, prune"""

    def test_rm_needs_yes_without_a_terminal(self):
        self.session("k", "a")
        self.assertIn("--yes", self.run_quipu("rm", "k", code=2).err)
        self.assertEqual(self.keys(), ["k"])
        self.assertEqual(self.run_quipu("rm", "k", "--yes", "--json").json(), {"sessions": 1})
        self.assertEqual(self.keys(), [])

    def test_rm_asks_on_a_terminal(self):
        self.session("k", "a")
        for answer, left in (("n\n", ["k"]), ("\n", ["k"]), ("y\n", [])):
            terminal = self.terminal("rm", "k")
            terminal.expect("[y/N]")
            terminal.send(answer)
            terminal.finish()
            self.assertEqual(terminal.code, 1 if left else 0)
            self.assertEqual(self.keys(), left)

    def test_question_about_a_nasty_key_is_harmless(self):
        self.session(NASTY, "a")
        terminal = self.terminal("rm", NASTY)
        terminal.expect("[y/N]")
        terminal.send("n\n")
        self.assert_harmless(terminal.finish())

    def test_rm_of_a_missing_session_deletes_none(self):
        self.session("a", "x")
        self.run_quipu("rm", "a", "b", "--yes", code=3)
        self.assertEqual(self.keys(), ["a"])
        self.session("b", "y")
        self.assertIn("2 sessions", self.run_quipu("rm", "a", "b", "--yes").out)
        self.assertEqual(self.keys(), [])

    def test_rm_takes_so_many_keys_and_no_more(self):
        self.run_quipu("init")
        self.run_quipu("rm", "--yes", *["k"] * KEYS_MAX, code=3)
        self.run_quipu("rm", "--yes", *["k"] * (KEYS_MAX + 1), code=2)

    def test_rm_leaves_forks_unless_asked_to(self):
        self.session("k", "a", "b")
        self.run_quipu("fork", "k", "f")
        self.run_quipu("rm", "k", "--yes")
        self.assertEqual(self.texts("f"), ["a", "b"])
        self.run_quipu("fork", "f", "g")
        self.assertEqual(self.run_quipu("rm", "f", "--yes", "--with-forks", "--json").json(),
                         {"sessions": 2})
        self.assertEqual(self.keys(), [])
        self.sound()

    def test_erase_leaves_no_byte_and_prints_a_receipt(self):
        secret = "xyzzy-plugh-secret"
        self.session("k", secret)
        self.run_quipu("fork", "k", "f")
        self.run_quipu("append", "f", "--text", secret + " again")
        self.session("other", "stays")
        self.run_quipu("erase", "k", code=2)
        receipt = self.run_quipu("erase", "k", "--yes", "--json").json()
        self.assertEqual((receipt["sessions"], receipt["forks"], receipt["messages"]),
                         (["k"], ["f"], 2))
        self.assertNotIn(secret.encode(), self.store.read_bytes())
        self.assertEqual(self.keys(), ["other"])
        again = self.run_quipu("erase", "k", "--yes", code=3)
        self.assertIn("there was no such session", again.out)
        self.assertIn('there is no session "k"', again.err)
        self.assertIn('there is no session "k"', self.run_quipu("rm", "k", "--yes", code=3).err)
        self.sound()

    def test_erase_of_a_user(self):
        self.session("plain", "x")
        self.run_quipu("erase", "--yes", code=2)
        self.run_quipu("erase", "k", "--user", "u", "--yes", code=2)
        self.run_quipu("erase", "k", "--app", "a", "--yes", code=2)
        receipt = self.run_quipu("erase", "--user", "u", "--yes", "--quick", "--json").json()
        self.assertEqual(receipt["sessions"], [])
        for key, app in (("a1", "a"), ("a2", "a"), ("b1", "b")):
            self.run_quipu("append", key, "--create", "--app", app, "--user", "u", "--text", "x")
        receipt = self.run_quipu("erase", "--user", "u", "--app", "a", "--yes", "--json").json()
        self.assertEqual(sorted(receipt["sessions"]), ["a1", "a2"])
        self.assertIn("b1", self.run_quipu("erase", "--user", "u", "--yes").out)
        self.assertEqual(self.keys(), ["plain"])

    def test_erase_asks_on_a_terminal(self):
        self.session("k", "x")
        terminal = self.terminal("erase", "k")
        terminal.expect("for good? [y/N]")
        terminal.send("y\n")
        self.assertIn("out of reach", terminal.finish())
        self.assertEqual(self.keys(), [])

    def test_sweep_deletes_the_expired(self):
        old = [dict(line) for line in harness.export_lines({"old": [user("x")], "new": []})]
        old[1]["expires_at"] = "2026-01-01T00:00:00Z"
        self.run_quipu("import", "-", stdin=lines(*old))
        self.run_quipu("append", "old", code=3, stdin=lines(user("late")))
        self.assertEqual(self.run_quipu("sweep", "--json").json(), {"sessions": 1})
        self.assertEqual(self.keys(), ["new"])
        self.assertIn("deleted 0 sessions", self.run_terminal("sweep"))

    def test_rm_of_an_expired_session(self):
        old = [dict(line) for line in harness.export_lines({"old": [user("x")]})]
        old[1]["expires_at"] = "2026-01-01T00:00:00Z"
        self.run_quipu("import", "-", stdin=lines(*old))
        self.run_quipu("rm", "old", "--yes")
        self.assertEqual(self.keys(), [])


class History(Verbs):
    """fork, rewind, compact, prune"""

    def test_fork_shares_the_past(self):
        self.session("k", "a", "b", "c")
        self.assertEqual(self.run_quipu("fork", "k", "f", "--at", "2", "--json").json(),
                         {"key": "f", "parent": "k", "fork_seq": 2})
        self.run_quipu("fork", "k", "g", "--model", "m")
        self.run_quipu("append", "f", "--text", "d")
        self.assertEqual(self.texts("f"), ["a", "b", "d"])
        self.assertEqual(self.texts("g"), ["a", "b", "c"])
        self.run_quipu("fork", "k", "f", code=4)
        self.run_quipu("fork", "none", "h", code=3)
        self.run_quipu("fork", "k", "h", "--at", "9", code=1)
        self.run_quipu("fork", "k", "h", "--at", "x", code=2)
        self.assertIn("shares the past", self.run_terminal("fork", "k", "t"))

    def test_rewind_names_the_fork_after_the_message(self):
        self.session("k", "a", "b", "c")
        self.assertEqual(self.run_quipu("rewind", "k", "1", "--json").json()["key"], "k@1")
        self.run_quipu("rewind", "k", "2", "back")
        self.assertEqual(self.texts("k@1"), ["a"])
        self.assertEqual(self.texts("back"), ["a", "b"])
        self.assertEqual(self.texts("k"), ["a", "b", "c"])
        self.run_quipu("rewind", "k", "1", code=4)
        for number in ("x", "1x", "", "-1"):
            self.run_quipu("rewind", "k", "--", number, code=2)
        self.assertIn("k@0", self.run_terminal("rewind", "k", "0"))

    def test_compact_undo_and_prune(self):
        self.session("k", "a", "b", "c")
        done = self.run_quipu("compact", "k", "--summary", "in short", "--through", "2",
                              "--json").json()
        self.assertEqual((done["seq"], done["covers_to"]), (4, 2))
        self.assertEqual(self.exported("k")["message"][3]["mark"], "compaction")
        self.run_quipu("compact", "k", "--undo")
        self.assertIn("0 messages", self.run_quipu("prune", "k", "--yes").out)
        self.run_quipu("compact", "k", "--undo", code=3)
        self.run_quipu("compact", "k", "--summary", "-", stdin="from stdin\n")
        self.assertEqual(self.texts("k")[-1], "from stdin")
        self.run_quipu("prune", "k", code=2)
        self.assertGreater(self.run_quipu("prune", "k", "--yes", "--json").json()["messages"], 2)
        self.assertEqual(self.texts("k"), ["from stdin"])
        self.sound()

    def test_compact_refuses_what_makes_no_sense(self):
        self.session("k", "a")
        self.run_quipu("compact", "k", code=2)
        self.run_quipu("compact", "k", "--undo", "--summary", "x", code=2)
        self.run_quipu("compact", "k", "--summary", "x", "--through", "0", code=2)
        self.run_quipu("compact", "k", "--summary", "x", "--through", "7", code=1)
        self.run_quipu("compact", "none", "--summary", "x", code=3)
        self.run_quipu("compact", "k", "--summary", "-", stdin=b"\xff", code=1)
        self.assertEqual(self.texts("k"), ["a"])

    def test_in_a_terminal(self):
        self.session("k", "a", "b")
        self.assertIn("message 3 summarizes", self.run_terminal("compact", "k", "--summary", "s"))
        self.assertIn("undone", self.run_terminal("compact", "k", "--undo"))
        self.run_quipu("compact", "k", "--summary", "s")
        terminal = self.terminal("prune", "k")
        terminal.expect("[y/N]")
        terminal.send("y\n")
        self.assertIn("deleted", terminal.finish())


class Transfer(Verbs):
    """export, copy, backup"""

    def fill(self):
        """Sessions, a fork, a compaction and a memory."""
        self.session("k", "a", NASTY)
        self.run_quipu("fork", "k", "f")
        self.run_quipu("append", "f", "--text", "more")
        self.run_quipu("compact", "f", "--summary", "short", "--through", "2")
        self.session("gone", "x")
        self.run_quipu("fork", "gone", "orphan")
        self.run_quipu("rm", "gone", "--yes")

    def test_export_comes_back_the_same(self):
        self.fill()
        first = self.run_quipu("export").raw_out
        path = self.folder / "e.jsonl"
        done = self.run_quipu("export", "-o", path, "--json").json()
        self.assertEqual(done["lines"], first.count(b"\n"))
        self.assertEqual(path.read_bytes(), first)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        other = self.folder / "other.db"
        self.run_quipu("import", path, "--store", other)
        self.assertEqual(self.run_quipu("export", "--store", other).raw_out, first)
        self.run_quipu("export", "-o", path, code=4)
        self.run_quipu("export", "k", "-o", path, "--force")
        self.assertNotEqual(path.read_bytes(), first)
        self.assertEqual(os.listdir(self.folder).count("e.jsonl"), 1)
        self.assertEqual([n for n in os.listdir(self.folder) if "part" in n], [])

    def test_export_of_a_session_and_flat(self):
        self.fill()
        self.assertEqual(self.keys("f"), ["k", "f"])
        self.assertEqual(self.keys("f", "--flat"), ["f"])
        self.run_quipu("export", "none", code=3)
        self.assertEqual(self.run_quipu("export", "-o", "-").out, self.run_quipu("export").out)

    def test_export_says_what_is_wrong(self):
        self.fill()
        self.run_quipu("export", "--json", code=2)
        self.run_quipu("export", "--force", code=2)
        self.run_quipu("export", "-o", self.folder, code=2)
        self.run_quipu("export", "-o", f"{self.folder}/", code=2)
        self.run_quipu("export", "-o", self.folder / "nowhere/x", code=3)
        self.run_quipu("export", "none", "-o", self.folder / "x", code=3)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("x")], [])
        if pathlib.Path("/dev/full").exists():
            with open("/dev/full", "wb") as full:
                done = subprocess.run([harness.program(), "export"], stdout=full,
                                      stderr=subprocess.PIPE, env=self.env, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"could not be written", done.stderr)

    def test_file_never_replaces_one_that_appears(self):
        self.fill()
        path = self.folder / "e.jsonl"
        (self.folder / "target").write_text("mine", encoding="utf-8")
        path.symlink_to(self.folder / "target")
        self.run_quipu("export", "-o", path, code=4)
        self.run_quipu("export", "-o", path, "--force")
        self.assertEqual((self.folder / "target").read_text(encoding="utf-8"), "mine")
        self.assertFalse(path.is_symlink())

    def test_copy_is_equal_and_repeatable(self):
        self.fill()
        target = self.folder / "copy.db"
        done = self.run_quipu("copy", self.store, target, "--json").json()
        first = self.run_quipu("export").raw_out
        self.assertEqual(self.run_quipu("export", "--store", target).raw_out, first)
        self.assertEqual(done["sha256"], hashlib.sha256(first).hexdigest())
        self.assertEqual(done["bytes"], len(first))
        self.assertEqual(done["brought"], 4)  # the hidden parent too
        self.assertEqual(self.run_quipu("copy", self.store, target, "--json").json()["skipped"], 4)
        self.sound("--store", target)
        self.assertIn("export the same data", self.run_terminal("copy", self.store, target))

    def test_a_copy_onto_itself_is_refused(self):
        self.fill()
        link = self.folder / "link.db"
        link.symlink_to(self.store)
        for target in (self.store, link):
            self.assertIn("same store", self.run_quipu("copy", self.store, target, code=2).err)

    def test_copy_refuses_another_target(self):
        self.fill()
        target = self.folder / "copy.db"
        self.run_quipu("append", "theirs", "--create", "--text", "x", "--store", target)
        done = self.run_quipu("copy", self.store, target, code=4)
        self.assertIn("theirs", done.err)
        self.assertIn("a new one", done.err)
        self.assertEqual(self.keys("--store", target), ["theirs"])
        self.run_quipu("copy", self.folder / "missing", target, code=3)
        self.run_quipu("copy", self.store, "nosuch://x", code=1)
        self.run_quipu("copy", self.store, code=2)

    def test_copy_of_a_source_that_went_on(self):
        self.session("k", "a")
        target = self.folder / "copy.db"
        self.run_quipu("copy", self.store, target)
        self.session("new", "b")
        self.run_quipu("copy", self.store, target)
        self.run_quipu("append", "k", "--text", "more")
        self.assertIn("older", self.run_quipu("copy", self.store, target, code=4).err)
        self.sound("--store", target)

    def test_copy_of_one_tenant(self):
        self.session("k", "a")
        self.run_quipu("append", "t", "--create", "--text", "x", "--tenant", "them")
        target = self.folder / "copy.db"
        self.run_quipu("copy", self.store, target, "--tenant", "them")
        self.assertEqual(self.keys("--store", target), [])
        self.assertEqual(self.keys("--store", target, "--tenant", "them"), ["t"])

    def test_backup_is_a_store(self):
        self.fill()
        path = self.folder / "b.db"
        done = self.run_quipu("backup", path, "--json").json()
        self.assertEqual(done["bytes"], path.stat().st_size)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(self.run_quipu("export", "--store", path).raw_out,
                         self.run_quipu("export").raw_out)
        self.run_quipu("backup", path, code=4)
        self.run_quipu("backup", self.folder, code=2)
        self.run_quipu("backup", self.folder / "nowhere/b.db", code=1)
        self.assertIn("checked", self.run_terminal("backup", self.folder / "t.db"))
        self.sound("--store", self.folder / "t.db")
        self.assertEqual([n for n in os.listdir(self.folder) if "part" in n], [])

    def test_backup_beside_a_log_is_refused(self):
        self.fill()
        (self.folder / "b.db-wal").write_bytes(b"x")
        self.assertIn("b.db-wal", self.run_quipu("backup", self.folder / "b.db", code=4).err)
        self.assertFalse((self.folder / "b.db").exists())

    def test_in_a_terminal(self):
        self.fill()
        self.assertIn('"type":"end"', self.run_terminal("export"))
        self.assertIn("sessions", self.run_terminal("export", "-o", self.folder / "t.jsonl"))


class Sound(Verbs):
    """verify, repair"""

    def damage(self, sql):
        """Change the file behind the store's back."""
        db = sqlite3.connect(self.store)
        db.execute(sql)
        db.commit()
        db.close()

    def test_sound_store(self):
        self.session("k", "a")
        self.assertIn("no problems", self.run_quipu("verify").out)
        self.assertIn("no problems", self.run_terminal("verify"))
        self.assertIn("no problems", self.run_terminal("repair"))
        before = self.store.read_bytes()
        self.run_quipu("verify")
        self.assertEqual(self.store.read_bytes(), before)

    def test_damage_is_listed_and_repaired(self):
        self.session("k", "a", "b")
        self.session(NASTY, "a", "b")
        self.damage("UPDATE sessions SET message_count = 77")
        done = self.run_quipu("verify", code=1)
        self.assertIn("damaged", done.out)
        self.assertIn("count", done.out)
        self.assertIn("quipu repair", done.err)
        self.assert_harmless(done.out)
        found = self.run_quipu("verify", "--json", code=1).json()
        self.assertEqual((found["found"], found["repaired"]), (2, 0))
        self.assertEqual({p["session"] for p in found["problems"]}, {"k", NASTY})
        text = self.run_terminal("verify", code=1)
        self.assertIn("\x1b[31mdamaged", text)
        self.assertNotIn("\x1b[31m", self.run_terminal("verify", "--color", "never", code=1))
        self.assertIn("repaired", self.run_quipu("repair").out)
        self.sound()

    def test_upgrade_seals_what_another_program_wrote(self):
        self.session("one", "hello")
        self.damage("UPDATE sessions SET title = 'by others'")
        self.assertIn("another program", self.run_quipu("verify").err)
        done = self.run_quipu("upgrade", "--checksums", "--json")
        self.assertEqual(done.json()["checksums"], "on")
        self.assertNotIn("another program", self.run_quipu("verify").err)

    def test_doctor_names_hard_links(self):
        self.session("one", "hello")
        os.link(self.store, f"{self.store}.link")
        found = self.run_quipu("doctor", "--json", code=1).out
        self.assertIn("2 names", found)
        os.unlink(f"{self.store}.link")
        self.run_quipu("doctor")

    def hold(self):
        """Another program that has the store open for writing, with its log."""
        self.session("one", "I prefer tea.")
        self.read_line(self.start_quipu("memory", "run", "--follow", "--json"))

    def test_doctor_names_a_file_that_is_open_under_another_name(self):
        self.hold()
        moved = self.store.with_name("moved.db")
        os.rename(self.store, moved)
        found = self.run_quipu("doctor", "--json", "--store", moved, code=1).out
        self.assertIn("open under another name", found)

    def test_doctor_names_a_file_that_replaced_an_open_one(self):
        self.hold()
        copy = self.store.with_name("copy.db")
        copy.write_bytes(self.store.read_bytes())
        os.replace(copy, self.store)
        self.assertIn("has replaced", self.run_quipu("doctor", "--json", code=1).out)

    def test_what_cannot_be_repaired_fails(self):
        self.session("k", "a", "b", "c")
        self.damage("DELETE FROM messages WHERE seq = 2")
        self.run_quipu("verify", code=1)
        done = self.run_quipu("repair", "--no-index", code=1)
        self.assertIn("backup", done.err)

    def test_no_store_at_all(self):
        self.run_quipu("verify", code=3)
        self.store.write_bytes(b"nothing of the kind" * 1000)
        self.run_quipu("verify", code=1)


class Bench(Verbs):
    """bench"""

    def test_figures_and_no_file_left(self):
        self.session("k", "a")
        before = self.store.read_bytes()
        (self.folder / "store.db.bench-999999999-wal").write_bytes(b"x")
        done = self.run_quipu("bench", "--json", "--seconds", "1").json()
        for name in ("sync", "append_normal", "append_full", "last_50", "window"):
            self.assertGreaterEqual(done[name]["samples"], 20)
            self.assertGreaterEqual(done[name]["p99_us"], done[name]["p50_us"])
        self.assertEqual(self.store.read_bytes(), before)
        self.assertEqual([n for n in os.listdir(self.folder) if "bench" in n], [])

    def test_in_a_terminal(self):
        text = self.run_terminal("bench", "--seconds", "1")
        self.assertIn("survives a power cut", text)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()))
        self.assertFalse(self.store.exists())
        self.run_quipu("bench", "--seconds", "0", code=2)
        self.run_quipu("bench", "--store", "postgresql://x", code=2)
        self.run_quipu("bench", "--store", self.folder / "nowhere/x.db", code=1)


class Secrets(Verbs):
    """The password of a URI is not shown."""

    URIS = ("postgresql://u:sekret@127.0.0.1:1/x", "mysql://u:se@kret:sekret@h/x",
            "postgresql://127.0.0.1:1/x?user=u&password=sekret&a=b", "other://u:sekret@[::1/x",
            "postgresql://u:sekret@127.0.0.1:1/x?nosuch=1&password=sekret")

    def test_no_verb_shows_it(self):
        for uri in self.URIS:
            for verb in (["init"], ["ls"], ["stats"], ["doctor"], ["doctor", "--json"],
                         ["rm", "k", "--yes"], ["append", "k", "--create"], ["bench"],
                         ["verify", "--json"]):
                done = self.run_quipu(*verb, "--store", uri, code=None)
                self.assertTrue(done.out + done.err, (verb, uri))
                self.assertNotIn("sekret", done.out + done.err, (verb, uri))
            done = self.run_quipu("copy", self.store, uri, code=3)
            self.run_quipu("append", "k", "--create", "--text", "x")
            done = self.run_quipu("copy", self.store, uri, code=None)
            self.assertNotEqual(done.code, 0)
            self.assertNotIn("sekret", done.out + done.err)
            self.store.unlink()
        self.assertIn("u:***@", self.run_quipu("ls", "--store", self.URIS[0], code=None).err)


class Busy(Verbs):
    """Another process holds the store."""

    def test_busy_store_is_exit_code_5(self):
        self.session("k", "a")
        db = sqlite3.connect(self.store, isolation_level=None)
        self.addCleanup(db.close)
        db.execute("BEGIN IMMEDIATE")
        for verb in (["append", "k", "--text", "b"], ["rm", "k", "--yes"], ["fork", "k", "f"],
                     ["erase", "k", "--yes"], ["memory", "add", "k", "x", "--wait", "1"]):
            done = self.run_quipu("--wait", "0", *verb, code=5)
            self.assertIn("another process", done.err)
        self.assertEqual(len(self.run_quipu("show", "k", "--json", "--wait", "0").lines()), 1)
        db.execute("ROLLBACK")
        self.run_quipu("append", "k", "--text", "b", "--wait", "0")

    def test_the_other_may_end_in_time(self):
        self.session("k", "a")
        db = sqlite3.connect(self.store, isolation_level=None)
        self.addCleanup(db.close)
        db.execute("BEGIN IMMEDIATE")
        waiting = self.start_quipu("append", "k", "--text", "b", "--wait", "60")
        self.assertRaises(subprocess.TimeoutExpired, waiting.wait, 0.3)
        db.execute("ROLLBACK")
        self.assertEqual(waiting.wait(timeout=harness.WAIT_S), 0)


class Opening(Verbs):
    """How a store is opened for writing: durability, index and size apply to one opening."""

    def test_a_size_cap_refuses_what_would_pass_it(self):
        self.session("k", "a")
        size = self.store.stat().st_size
        done = self.run_quipu("append", "k", "--text", "x" * 100000, "--max-size", size, code=1)
        self.assertIn("size cap", done.err)
        self.run_quipu("append", "k", "--text", "x" * 100000, "--max-size", "1G")
        for bad in ("0", "-1", "x", "1X", "1KB", "9000000T", "99999999999999999999", ""):
            done = self.run_quipu("append", "k", "--text", "x", "--max-size", bad, code=2)
            self.assertIn("--max-size must be a size", done.err)

    def test_a_message_can_be_indexed_at_once_later_or_never(self):
        for when in ("inline", "lazy", "off"):
            self.run_quipu("append", "k", "--create", "--text", f"llama {when}", "--index", when)
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            self.assertEqual(db.execute("SELECT indexed_seq FROM sessions").fetchall(), [(1,)])
        self.assertEqual(len(self.run_quipu("search", "llama", "--json").lines()), 3)

    def test_durability_can_be_chosen(self):
        for kind in ("full", "relaxed"):
            self.run_quipu("append", "k", "--create", "--text", "x", "--durability", kind)
        self.run_quipu("append", "k", "--text", "x", "--durability", "some", code=2)
        for wait in ("-1", "86401", "x"):
            self.run_quipu("append", "k", "--text", "x", "--wait", wait, code=2)
        self.run_quipu("append", "k", "--text", "x", "--wait", "86400")


if __name__ == "__main__":
    harness.main()
