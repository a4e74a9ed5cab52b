#!/usr/bin/env python3
"""The reading verbs except show: each in a pipe and in a pseudo-terminal, as text and as JSON, with
hostile text in the store."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3

import harness

HOSTILE = "\x1b]0;owned\x07\u202e\x9b2J"
FIXTURE = harness.FIXTURES / "lango-mattn.db"


def says(text, role="user", **more):
    return {"role": role, "content": text, **more}


class Reading(harness.Case):
    """A store with a few sessions, one with hostile text in every field."""

    def setUp(self):
        super().setUp()
        harness.make_store(self, {
            "first": [says("The train leaves at six."), says("Which seats?", "assistant")],
            "second": [says("Three seats on the train, please.", author="ana")],
            "東京旅行": [says("東京の列車は六時に出ます")],
            HOSTILE: [says(f"A train {HOSTILE} comes.", author=HOSTILE)],
        })


class Long(harness.Case):
    def test_a_long_list_in_a_pipe_cuts_no_key(self):
        # The widths are those of the first page; a longer key comes on the second.
        sessions = {"the-longest-key-of-all-of-these-sessions": []}
        harness.make_store(self, sessions | {f"k{i}": [] for i in range(1001)})
        out = self.run_quipu("ls", "--limit", 0).out
        self.assertIn("the-longest-key-of-all-of-these-sessions ", out)

    def test_one_long_key_pads_no_other_row_of_a_pipe(self):
        harness.make_store(self, {"k" * 1024: [], "short": []})
        lines = self.run_quipu("ls").out.splitlines()
        self.assertTrue(any(line.startswith("k" * 1024) for line in lines))
        self.assertTrue(all(len(line) < 200 for line in lines if not line.startswith("kkk")))

    def test_a_database_of_another_program_is_named_as_that(self):
        path = os.path.join(self.folder, "foreign.db")
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE t (a)")
            db.commit()
        error = self.run_quipu("ls", "--store", path, code=None).err
        self.assertIn("database of another program", error)
        self.assertNotIn("migrate", error)

class List(Reading):
    def test_sessions_come_newest_first_or_oldest_first(self):
        keys = [line["key"] for line in self.run_quipu("ls", "--json").lines()]
        self.assertEqual(keys, [HOSTILE, "東京旅行", "second", "first"])
        keys = [line["key"] for line in self.run_quipu("ls", "--json", "--oldest").lines()]
        self.assertEqual(keys, ["first", "second", "東京旅行", HOSTILE])

    def test_a_list_goes_on_where_it_ended(self):
        seen = []
        cursor = []
        for _ in range(4):
            result = self.run_quipu("ls", "--json", "-n", 1, *cursor)
            seen += [line["key"] for line in result.lines() if "key" in line]
            more = result.lines()[-1].get("next")
            cursor = ["--after", more] if more else []
        self.assertEqual(seen, [HOSTILE, "東京旅行", "second", "first"])
        self.assertEqual(cursor, [])

    def test_every_session_can_be_listed_at_once(self):
        self.assertEqual(len(self.run_quipu("ls", "--json", "--limit", 0).lines()), 4)

    def test_json_shows_what_a_session_holds(self):
        line = self.run_quipu("ls", "--json", "--oldest", "-n", 1).lines()[0]
        self.assertEqual((line["messages"], line["first_seq"], line["next_seq"]), (2, 1, 3))
        self.assertEqual(line["created_at"], harness.instant(0))
        self.assertEqual(line["uid"], harness.uuid(1))

    def test_a_list_has_titles_or_first_words(self):
        lines = '{"role":"user","content":"How\\n many zebras?"}'
        self.run_quipu("append", "zebras", "--create", stdin=lines)
        self.assertIn("How many zebras?", self.run_quipu("ls").out)
        line = self.run_quipu("ls", "--json", "-n", 1).lines()[0]
        self.assertEqual(line["first_words"], "How many zebras?")
        self.assertNotIn("title", line)

    def test_a_table_fits_the_terminal(self):
        for columns in (40, 60, 100):
            text = self.run_terminal("ls", columns=columns)
            self.assert_harmless(text, colours=True)
            plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
            for line in plain.splitlines():
                wide = sum(1 for c in line if "\u3000" < c < "\ud7a3")
                self.assertLessEqual(len(line) + wide, columns, line)

    def test_a_pipe_gets_whole_keys_without_colours(self):
        text = self.run_quipu("ls").out
        self.assert_harmless(text)
        self.assertIn("␛]0;owned␇<U+202E><U+009B>2J", text)
        self.assertTrue(text.startswith("KEY"))
        self.assertNotIn(" \n", text)

    def test_colours_come_when_they_are_asked_for(self):
        self.assertIn("\x1b[1m", self.run_quipu("ls", "--color", "always").out)
        self.assertNotIn("\x1b", self.run_terminal("ls", "--color", "never"))
        self.assertNotIn("\x1b", self.run_terminal("ls", env={"NO_COLOR": "1"}))
        self.assertNotIn("\x1b", self.run_terminal("ls", env={"TERM": "dumb"}))
        self.assertIn("\x1b", self.run_terminal("ls"))

    def test_filters_choose(self):
        (self.folder / "d").mkdir()
        self.run_quipu("demo", self.folder / "demo")
        store = ("--store", self.folder / "demo" / "store.db")
        for filters, count in (
            (("--app", "travel"), 2), (("--user", "ana"), 2), (("--user", "bob"), 0),
            (("--agent", "x"), 0), (("--meta", "colour"), 0), (("--meta", "colour=red"), 0),
        ):
            found = self.run_quipu("ls", "--json", *store, *filters).lines()
            self.assertEqual(len(found), count, filters)
        self.assertIn("no such sessions", self.run_quipu("ls", *store, "--user", "bob").err)

    def test_a_store_without_sessions_says_so(self):
        store = ("--store", self.folder / "empty.db")
        self.run_quipu("init", *store)
        self.assertIn("there are no sessions yet", self.run_quipu("ls", *store).err)
        self.assertIn("no such sessions", self.run_quipu("ls", *store, "--tag", "x").err)

    def test_limits_and_cursors_are_checked(self):
        self.run_quipu("ls", "--limit", -1, code=2)
        self.run_quipu("ls", "--limit", "many", code=2)
        self.assertIn("cursor", self.run_quipu("ls", "--after", "nonsense", code=1).err)

    def test_a_store_that_is_not_there_is_reported_with_what_to_do(self):
        result = self.run_quipu("ls", "--store", self.folder / "none.db", code=3)
        self.assertIn("none.db: there is no store", result.err)
        self.assertIn("quipu init", result.err)
        self.assertFalse((self.folder / "none.db").exists())

    def test_reading_changes_nothing(self):
        before = self.store.read_bytes()
        for args in (["ls"], ["show", "first"], ["tail", "first"], ["stats"],
                     ["memory", "list", "first"], ["doctor"]):
            self.run_quipu(*args)
        self.assertEqual(self.store.read_bytes(), before)


class Recall(Reading):
    def test_a_question_finds_the_message_that_answers_it(self):
        question = "who wants seats on a train?"
        hits = self.run_quipu("recall", "--json", "--everything", question).lines()
        self.assertIn("Three seats on the train", hits[0]["content"])
        scores = [hit["score"] for hit in hits]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertNotIn("words", hits[0])

    def test_parts_of_a_score_add_up(self):
        for hit in self.run_quipu("recall", "--json", "--parts", "--everything", "train").lines():
            parts = hit["words"] + hit["neighbours"] + hit["session"]
            self.assertAlmostEqual(hit["score"], parts)
        text = self.run_quipu("recall", "--parts", "--everything", "train").out
        self.assertIn(" = words ", text)

    def test_memories_are_among_the_hits_when_they_are_asked_for(self):
        self.run_quipu("memory", "add", "first", "Ana prefers window seats on a train.", "--from",
                       "1", "--subject", "Ana")
        plain = self.run_quipu("recall", "--json", "--session", "first", "window seats").lines()
        self.assertFalse(any("kind" in hit or "id" in hit for hit in plain))
        found = self.run_quipu("recall", "--json", "--parts", "--memories", "--session", "first",
                               "window seats").lines()
        self.assertEqual({hit["kind"] for hit in found}, {"message", "observation"})
        (known,) = [hit for hit in found if hit["kind"] == "observation"]
        (listed,) = self.run_quipu("memory", "list", "first", "--json").lines()
        parts = ("score", "words", "neighbours", "session", "vector")
        self.assertEqual({name: known[name] for name in known if name not in parts}, listed)
        self.assertAlmostEqual(known["score"],
                               known["words"] + known["neighbours"] + known["session"])
        text = self.run_quipu("recall", "--memories", "--session", "first", "window seats").out
        self.assertIn("observation of 1 to 1  ", text)
        self.assertIn("    Ana prefers window seats on a train.", text)
        none = self.run_quipu("recall", "--memories", "--session", "first", "zzzz").err
        self.assertIn("messages and what is known of them has a word", none)

    def test_the_time_that_a_memory_is_about_is_shown(self):
        self.run_quipu("append", "dated", "--create", "--text",
                       "We meet the surveyor on 9 May 2023 in Lima.")
        self.run_quipu("memory", "run", "dated")
        options = ("recall", "--memories", "--session", "dated", "Who meets the surveyor?")
        known = self.run_quipu(*options, "--json").lines()[0]
        self.assertEqual(known["kind"], "observation")
        self.assertEqual(known["about_from"], "2023-05-09T00:00:00Z")
        out = self.run_quipu(*options, "--utc").out
        self.assertIn("    about 2023-05-09 ", out)

    def test_a_scope_is_needed(self):
        self.assertIn("say where to look", self.run_quipu("recall", "x", code=2).err)
        both = self.run_quipu("recall", "x", "--everything", "--session", "first", code=2)
        self.assertIn("say where to look", both.err)
        self.assertIn("--app", self.run_quipu("recall", "x", "--user", "ana", code=2).err)
        self.assertIn("no session", self.run_quipu("recall", "x", "--session", "none", code=3).err)

    def test_nothing_found_says_why(self):
        self.assertIn("no words", self.run_quipu("recall", "--everything", "?!").err)
        self.assertIn("none of", self.run_quipu("recall", "--everything", "zzzz").err)
        self.assertIn("no such session", self.run_quipu("recall", "--app", "none", "train").err)
        self.assertIn("65536", self.run_quipu("recall", "--everything", "x" * 65537, code=2).err)

    def test_reading_is_enough_and_hostile_text_is_shown_harmlessly(self):
        before = self.store.read_bytes()
        self.assert_harmless(self.run_quipu("recall", "--everything", "comes").out)
        self.assert_harmless(self.run_terminal("recall", "--everything", "comes"), colours=True)
        self.assertEqual(self.store.read_bytes(), before)


class Search(Reading):
    def test_hits_come_with_their_words_marked(self):
        hits = self.run_quipu("search", "--json", "train").lines()
        self.assertEqual({hit["key"] for hit in hits}, {"first", "second", HOSTILE})
        self.assertTrue(all("[train]" in hit["snippet"] for hit in hits))
        ranks = [hit["rank"] for hit in hits]
        self.assertEqual(ranks, sorted(ranks, reverse=True))

    def test_a_pipe_marks_with_brackets_and_a_terminal_with_bold(self):
        text = self.run_quipu("search", "seats", "train").out
        self.assertIn("Three [seats] on the [train], please.", text)
        text = self.run_terminal("search", "seats", "train")
        self.assertIn("Three \x1b[1mseats\x1b[0m on the \x1b[1mtrain\x1b[0m, please.", text)

    def test_hostile_text_is_shown_harmlessly(self):
        self.assert_harmless(self.run_quipu("search", "comes").out)
        self.assert_harmless(self.run_terminal("search", "comes"), colours=True)
        self.assert_harmless(self.run_terminal("search", "--json", "comes"))

    def test_a_snippet_is_broken_where_the_terminal_ends(self):
        words = " ".join(f"pack{i}" for i in range(40))
        text = f"{words}\n\n \t llama  x"
        harness.make_store(self, {"long": [{"role": "user", "content": text}]})
        whole = self.run_quipu("search", "llama").out.splitlines()
        self.assertEqual(len(whole), 2)
        self.assertTrue(whole[1].endswith(" pack39 [llama] x"), whole)
        for columns in (20, 40, 80):
            lines = self.run_terminal("search", "llama", "pack39", columns=columns,
                                      env={"NO_COLOR": "1"}).splitlines()
            found = lines[1:]
            self.assertLessEqual(max(map(len, found)), columns)
            self.assertTrue(all(line.startswith("    ") for line in found))
            joined = " ".join(line.strip() for line in found)
            self.assertIn("pack38 [pack39] [llama] x", joined)
            text = self.run_terminal("search", "llama", "pack39", columns=columns)
            for line in text.splitlines()[1:]:
                self.assertEqual(line.count("\x1b[1m"), line.count("\x1b[0m"), line)

    def test_scopes_narrow_it(self):
        def keys(*args):
            hits = self.run_quipu("search", "--json", *args, "train").lines()
            return {hit["key"] for hit in hits}

        self.assertEqual(keys("--session", "first"), {"first"})
        self.assertEqual(keys("--author", "ana"), {"second"})
        self.assertEqual(keys("--role", "assistant"), set())
        self.assertEqual(keys("--before", harness.instant(0)), set())
        self.assertEqual(len(keys("--after", harness.instant(0))), 3)
        self.assertEqual(keys("--after", "1d"), set() if harness.instant(0) < "2026-06" else keys())
        self.assertEqual(keys("--user", "nobody"), set())

    def test_hits_come_in_pages(self):
        first = self.run_quipu("search", "--json", "-n", 2, "train")
        self.assertEqual(len(first.lines()), 2)
        self.assertIn("--offset 2", first.err)
        rest = self.run_quipu("search", "--json", "--offset", 2, "train")
        self.assertEqual(len(rest.lines()), 1)
        self.assertEqual(rest.err, "")

    def test_japanese_is_found_wherever_it_stands(self):
        hits = self.run_quipu("search", "--json", "列車").lines()
        self.assertEqual([hit["key"] for hit in hits], ["東京旅行"])

    def test_a_search_that_finds_nothing_says_which_words_occur(self):
        err = self.run_quipu("search", "train", "zebra", "seats", "elephant").err
        self.assertIn("alone occur: train, seats\n", err)
        self.assertIn("quipu recall", err)
        err = self.run_quipu("search", '"the train" zebra').err
        self.assertIn('alone occur: "the train"\n', err)
        self.assertIn("no message has one of the words", self.run_quipu("search", "y1", "y2").err)
        self.assertNotIn("alone", self.run_quipu("search", "zebra").err)
        self.assertEqual(self.run_quipu("search", "--json", "train", "zebra").err, "")

    def test_operators_and_filters_of_a_search(self):
        def keys(*words):
            return {(hit["key"], hit["seq"]) for hit in
                    self.run_quipu("search", "--json", "-n", "100", *words).lines()}

        train, seats = keys("train"), keys("seats")
        self.assertEqual(keys("train", "OR", "seats"), train | seats)
        self.assertEqual(keys("train", "NOT", "seats"), train - seats)
        self.assertEqual(keys("train role:user"), keys("--role", "user", "train"))
        self.assertEqual(keys("train NOT role:user"), train - keys("train role:user"))
        self.assertEqual(keys("train before:1999-01-01"), set())
        err = self.run_quipu("search", "train role:king", code=1).err
        self.assertIn("role:king: the filter needs user, assistant", err)
        err = self.run_quipu("search", "train NOT train role:user author:nobody").err
        self.assertIn("no message has this", err)
        self.assertIn("alone occur: train\n", self.run_quipu("search", "train NOT the NOT a").err)

    def test_no_words_are_an_error_of_the_search(self):
        self.assertIn("nothing was found", self.run_quipu("search", '"(*', "zzz").err)
        self.assertIn("no session", self.run_quipu("search", "x", "--session", "none", code=3).err)
        self.assertIn("a time", self.run_quipu("search", "x", "--after", "soon", code=2).err)
        self.assertIn("did you mean", self.run_quipu("search", "x", "--role", "usr", code=2).err)
        self.run_quipu("search", "x" * 4096)
        self.run_quipu("search", "x" * 4097, code=2)
        self.run_quipu("search", *["x"] * 64)
        self.run_quipu("search", *["x"] * 65, code=2)
        self.run_quipu("search", "x", "-n", 1000)
        self.run_quipu("search", "x", "-n", 1001, code=2)


class Tail(Reading):
    def follow(self, *options):
        """A tail that has shown the newest message: what is appended from now on is its to show.
        Right after the start it may not have read where the session ends."""
        process = self.start_quipu("tail", "-f", "-n", 1, *options, "first")
        self.read_until(process, "Which seats?")
        return process

    def read_until(self, process, words):
        """What it prints up to the line with the words."""
        text = ""
        while words not in text:
            text += self.read_line(process)
        return text

    def test_the_newest_messages_come(self):
        self.assertEqual([line["seq"] for line in
                          self.run_quipu("tail", "--json", "-n1", "first").lines()], [2])
        self.assertEqual(self.run_quipu("tail", "-n", 0, "first").out, "")
        text = self.run_quipu("tail", "first").out
        self.assertIn("Which seats?", text)
        self.assertIn("The train leaves", text)

    def test_follow_hears_another_process(self):
        process = self.follow("--json")
        for number in range(3):
            self.run_quipu("append", "first", "--role", "user", "--text", f"live {number}")
            line = json.loads(self.read_line(process))
            self.assertEqual((line["seq"], line["content"]), (3 + number, f"live {number}"))

    def test_doctor_checks_a_store_that_a_tail_follows_and_the_tail_goes_on(self):
        process = self.follow("--json")
        for number in range(3):
            self.run_quipu("append", "first", "--role", "user", "--text", f"live {number}")
            # The message lies in the log, which the tail keeps open: doctor reads it there.
            found = self.run_quipu("doctor", "--json").lines()
            self.assertEqual([one for one in found if one["verdict"] == "bad"], [])
            self.assertIn("verify", {one["check"] for one in found})
            self.assertEqual(json.loads(self.read_line(process))["content"], f"live {number}")
        self.run_quipu("doctor", "--migrate")  # opens for writing
        self.run_quipu("append", "first", "--role", "user", "--text", "behind it")
        self.assertEqual(json.loads(self.read_line(process))["content"], "behind it")

    def test_follow_does_not_say_that_an_answer_is_missing_which_may_come(self):
        call = {"id": "c1", "name": "look", "input": "{}"}
        answer = {"id": "c1", "name": "look", "output": "a mountain"}
        process = self.follow()
        for line in (says("", "assistant", tool_calls=[call]),
                     says("", "tool", tool_calls=[answer])):
            self.run_quipu("append", "first", "-", stdin=json.dumps(line))
        text = self.read_until(process, "a mountain")
        self.assertIn("▸ look {}\n", text)
        self.assertIn("← look a mountain\n", text)
        self.assertNotIn("no answer", text)

    def test_ctrl_c_ends_it_well(self):
        terminal = self.terminal("tail", "-f", "first")
        terminal.expect("Which seats?")
        terminal.send("\x03")
        text = terminal.finish()
        self.assertEqual(terminal.code, 0, text)
        self.assertNotIn("interrupted", text)

    def test_sigterm_ends_it_well(self):
        process = self.start_quipu("tail", "-f", "--json", "first")
        self.read_line(process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=harness.WAIT_S), 0)

    def test_a_deleted_session_ends_it(self):
        process = self.start_quipu("tail", "-f", "--json", "first")
        self.read_line(process)
        self.run_quipu("rm", "first", "--yes")
        self.assertEqual(process.wait(timeout=harness.WAIT_S), 3)

    def test_a_missing_session_is_reported(self):
        self.assertIn("no session", self.run_quipu("tail", "none", code=3).err)


class Stats(Reading):
    def test_json_counts(self):
        stats = self.run_quipu("stats", "--json").json()
        self.assertEqual((stats["sessions"], stats["messages"]), (4, 5))
        self.assertGreater(stats["tokens"], 0)
        self.assertGreaterEqual(stats["bytes"], self.store.stat().st_size)
        self.assertEqual(stats["largest_messages"], 2)
        self.assertEqual((stats["unindexed"], stats["expired"]), (5, 0))
        self.run_quipu("search", "anything")
        self.assertEqual(self.run_quipu("stats", "--json").json()["unindexed"], 0)

    def test_people_get_lines(self):
        text = self.run_terminal("stats", env={"NO_COLOR": "1"})
        self.assertRegex(text, r"(?m)^sessions  4, 0 of them forks, 0 expired$")
        self.assertRegex(text, r"(?m)^messages  5, 5 of them not indexed yet$")
        self.assertEqual(text, self.run_quipu("stats").out)


class MemoryWorker(harness.Case):
    """What a worker makes of sessions, and the verbs that correct it."""

    def setUp(self):
        super().setUp()
        harness.make_store(self, {
            "trip": [says("I prefer trains. Always give prices in euros."), says("Noted.",
                                                                                "assistant")],
            "quiet": [says("What time is it?")],
        })

    def test_a_run_observes_what_is_due_once(self):
        ran = self.run_quipu("memory", "run", "--json").json()
        self.assertEqual((ran["sessions"], ran["messages"], ran["observations"]), (2, 3, 2))
        self.assertEqual(self.run_quipu("memory", "run", "--json").json()["messages"], 0)
        found = self.run_quipu("memory", "list", "trip", "--json").lines()
        self.assertEqual([(line["content"], line["priority"], line["from"]) for line in found],
                         [("I prefer trains.", "standing", 1),
                          ("Always give prices in euros.", "standing", 1)])
        self.assertIn("standing preference", self.run_quipu("memory", "list", "trip").out)

    def test_status_shows_watermarks_and_what_is_pending(self):
        before = self.run_quipu("memory", "status", "trip", "--json").json()
        self.assertEqual((before["watermark"], before["pending_messages"]), (0, 2))
        self.run_quipu("memory", "run", "trip")
        after = {line["key"]: line for line in self.run_quipu("memory", "status", "--json").lines()}
        self.assertEqual((after["trip"]["watermark"], after["trip"]["pending_tokens"]), (2, 0))
        self.assertEqual(after["quiet"]["pending_messages"], 1)
        self.assertIn("observed to 2 of 2", self.run_quipu("memory", "status", "trip").out)

    def test_a_threshold_is_kept(self):
        self.run_quipu("memory", "run", "--tokens", 1)
        self.run_quipu("append", "trip", "--role", "user", "--text", "I prefer boats.")
        ran = self.run_quipu("memory", "run", "trip", "--tokens", 1000, "--json").json()
        self.assertEqual(ran["messages"], 0)

    def test_one_memory_is_shown_edited_retired_and_deleted(self):
        self.run_quipu("memory", "run")
        first, second = self.run_quipu("memory", "list", "trip", "--json").lines()
        edited = self.run_quipu("memory", "edit", first["id"], "I prefer buses.", "--priority",
                                "high", "--subject", "travel", "--json").json()
        self.assertEqual((edited["content"], edited["priority"], edited["subject"]),
                         ("I prefer buses.", "high", "travel"))
        shown = self.run_quipu("memory", "show", first["id"], "--json").json()
        self.assertEqual(shown["content"], "I prefer buses.")
        edited = self.run_quipu("memory", "edit", first["id"], "-", "--json",
                                stdin="I prefer\nold buses.\n").json()
        self.assertEqual(edited["content"], "I prefer\nold buses.")
        self.run_quipu("memory", "edit", first["id"], "-", stdin="x" * (1048576 + 1), code=2)
        wrong = ("0" if first["id"][0] != "0" else "1") + first["id"][1:]
        near = f"did you mean {first['id']}?"
        self.assertIn(near, self.run_quipu("memory", "show", wrong, code=3).err)
        self.assertIn(near, self.run_quipu("memory", "retire", first["id"][:8], "x", code=2).err)
        self.assertNotIn("did you mean", self.run_quipu("memory", "show", "zzzzzzzz", code=2).err)
        retired = self.run_quipu("memory", "retire", first["id"], "she flies now", "--json").json()
        self.assertEqual(retired["retired_why"], "she flies now")
        self.assertEqual(len(self.run_quipu("memory", "list", "trip", "--json").lines()), 1)
        self.assertIn("she flies now", self.run_quipu("memory", "list", "trip", "--retired").out)
        self.assertIn("--yes", self.run_quipu("memory", "rm", second["id"], code=2).err)
        self.run_quipu("memory", "rm", second["id"], "--yes")
        self.assertIn("no memories", self.run_quipu("memory", "list", "trip").err)
        self.assertIn("no memory", self.run_quipu("memory", "show", second["id"], code=3).err)

    def test_every_word_of_memory_answers_in_json(self):
        """One object a line, whatever the word, and nothing else on standard output."""
        def memory(*words, **options):
            return self.run_quipu("memory", *words, "--json", **options).lines()

        self.assertEqual([sorted(line) for line in memory("run", "trip")], [sorted(
            ("sessions", "messages", "observations", "repeats", "lost", "failed", "reflections",
             "condensed", "model_calls", "embedded", "more"))])
        first, second = memory("list", "trip")
        self.assertEqual(memory("show", first["id"]), [first])
        self.assertEqual([line["content"] for line in memory("source", first["id"])],
                         ["I prefer trains. Always give prices in euros."])
        [added] = memory("add", "trip", "-", stdin="Ana prefers tea.\n")
        self.assertEqual(sorted(added), ["id", "kind"])
        [edited] = memory("edit", added["id"], "-", "--who", "ben", "--why", "asked",
                          stdin="Ana prefers coffee.\n")
        self.assertEqual([edited[name] for name in ("content", "edited_by", "edited_why")],
                         ["Ana prefers coffee.", "ben", "asked"])
        [retired] = memory("retire", second["id"])
        self.assertIn("retired_at", retired)
        self.assertEqual([line["id"] for line in memory("list", "trip", "--retired")],
                         [first["id"], second["id"], added["id"]])
        self.assertEqual(memory("rm", added["id"], "--yes"), [{"removed": 1}])
        self.assertEqual(memory("clear", "trip", "--from", 1, "--to", 1, "--yes"),
                         [{"removed": 2}])
        self.assertEqual([line["watermark"] for line in memory("status", "trip")], [2])
        self.assertEqual(memory("list", "trip"), [])

    def test_a_forgotten_message_is_in_no_fork_s_memory(self):
        self.run_quipu("memory", "run")
        self.run_quipu("memory", "clear", "trip", "--from", 1, "--to", 1, "--yes")
        self.run_quipu("fork", "trip", "branch")
        self.assertEqual(self.run_quipu("memory", "run", "--json").json()["observations"], 0)
        self.assertEqual(self.run_quipu("memory", "list", "branch", "--json").lines(), [])

    def test_the_source_is_the_message_that_it_came_from(self):
        self.run_quipu("memory", "run")
        first = self.run_quipu("memory", "list", "trip", "--json").lines()[0]
        source = self.run_quipu("memory", "source", first["id"], "--json").lines()
        self.assertEqual([line["seq"] for line in source], [1])
        self.assertIn("I prefer trains.", self.run_quipu("memory", "source", first["id"]).out)

    def test_a_source_without_a_beginning_begins_with_the_first_message(self):
        ident = self.run_quipu("memory", "add", "trip", "x", "--to", 2).out.strip()
        source = self.run_quipu("memory", "source", ident, "--json").lines()
        self.assertEqual([line["seq"] for line in source], [1, 2])

    def test_a_source_that_was_pruned_is_reported(self):
        ident = self.run_quipu("memory", "add", "trip", "x", "--from", 1).out.strip()
        self.run_quipu("compact", "trip", "--summary", "in short", "--through", "1")
        self.run_quipu("prune", "trip", "--yes")
        gone = self.run_quipu("memory", "source", ident, code=3)
        self.assertIn("are gone", gone.err)
        alone = self.run_quipu("memory", "add", "trip", "y").out.strip()
        self.assertIn("names no messages", self.run_quipu("memory", "source", alone, code=3).err)

    def test_a_newer_fact_replaces_an_older_one(self):
        add = ("memory", "add", "trip")
        old = self.run_quipu(*add, "Ana lives in Oslo.").out.strip()
        self.run_quipu(*add, "Ana lives in Lima.", "--supersedes", old)
        known = self.run_quipu("memory", "list", "trip", "--json").lines()
        self.assertEqual([(one["content"], one["supersedes"]) for one in known],
                         [("Ana lives in Lima.", old)])
        self.assertIn("retired_at", self.run_quipu("memory", "show", old, "--json").json())
        self.assertIn("id", self.run_quipu(*add, "x", "--supersedes", "oslo", code=2).err)
        missing = "00000000-0000-4000-8000-000000000000"
        self.run_quipu(*add, "x", "--supersedes", missing, code=3)
        self.assertEqual(len(self.run_quipu("memory", "list", "trip", "--json").lines()), 1)

    def test_follow_observes_what_another_process_appends(self):
        process = self.start_quipu("memory", "run", "--follow", "--json")
        self.assertEqual(json.loads(self.read_line(process))["messages"], 3)
        self.run_quipu("append", "trip", "--role", "user", "--text", "Never book hostels.")
        self.assertEqual(json.loads(self.read_line(process))["observations"], 1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=harness.WAIT_S), 0)

    def test_mistakes_are_reported(self):
        for words in (["list", "tripp"], ["run", "tripp"], ["status", "tripp"],
                      ["add", "tripp", "x"], ["clear", "tripp", "--yes"]):
            err = self.run_quipu("memory", *words, code=3).err
            self.assertIn('no session "tripp"; did you mean "trip"?', err)
        # A key like no other may get its session later.
        self.run_quipu("memory", "add", "quite-another", "x")
        self.assertEqual(self.run_quipu("memory", "clear", "quite-another", "--yes").out,
                         "1 deleted\n")
        self.assertIn("id", self.run_quipu("memory", "show", "x", code=2).err)
        self.assertIn("--app", self.run_quipu("memory", "run", "--user", "ana", code=2).err)
        self.assertIn("not both", self.run_quipu("memory", "run", "trip", "--app", "a", code=2).err)
        self.run_quipu("memory", "run", "trip", "more", code=2)
        self.run_quipu("memory", "run")
        ident = self.run_quipu("memory", "list", "trip", "--json").lines()[0]["id"]
        self.assertIn("nothing to change", self.run_quipu("memory", "edit", ident, code=2).err)


class Memory(Reading):
    def test_what_is_added_is_listed_until_it_is_cleared(self):
        ident = self.run_quipu("memory", "add", "first", "likes trains", "--from", 1, "--to",
                               2).out.strip()
        self.run_quipu("memory", "add", "first", "-", "--kind", "reflections", "--generation", 2,
                       stdin="Travels early.\n")
        found = self.run_quipu("memory", "list", "first", "--json").lines()
        self.assertEqual([(m["kind"], m["content"]) for m in found],
                         [("reflection", "Travels early."), ("observation", "likes trains")])
        self.assertEqual(found[0]["generation"], 2)
        self.assertEqual((found[1]["id"], found[1]["from"], found[1]["to"]), (ident, 1, 2))
        cleared = self.run_quipu("memory", "clear", "first", "--kind", "observations", "--yes",
                                 "--json").json()
        self.assertEqual(cleared, {"removed": 1})
        found = self.run_quipu("memory", "list", "first", "--json").lines()
        self.assertEqual([m["kind"] for m in found], ["reflection"])

    def test_hostile_memories_are_shown_harmlessly(self):
        self.run_quipu("memory", "add", HOSTILE, f"knows {HOSTILE}")
        for text in (self.run_quipu("memory", "list", HOSTILE).out,
                     self.run_terminal("memory", "list", HOSTILE)):
            self.assert_harmless(text, colours=True)
            self.assertIn("knows ␛]0;owned␇", text)

    def test_clearing_asks_on_a_terminal(self):
        self.run_quipu("memory", "add", "first", "x")
        terminal = self.terminal("memory", "clear", "first")
        terminal.expect("[y/N]")
        terminal.send("n\n")
        terminal.finish()
        self.assertEqual(terminal.code, 1)
        self.assertEqual(len(self.run_quipu("memory", "list", "first", "--json").lines()), 1)
        terminal = self.terminal("memory", "clear", "first")
        terminal.expect("[y/N]")
        terminal.send("y\n")
        self.assertIn("1 deleted", terminal.finish())
        self.assertEqual(terminal.code, 0)
        self.assertIn("--yes", self.run_quipu("memory", "clear", "first", code=2).err)

    def test_wrong_words_are_reported(self):
        self.assertIn('did you mean "list"?', self.run_quipu("memory", "lsit", "x", code=2).err)
        self.run_quipu("memory", "add", "first", code=2)
        self.run_quipu("memory", "list", code=2)
        limit = 1 << 20
        self.run_quipu("memory", "add", "first", "-", stdin="x" * limit)
        self.run_quipu("memory", "add", "first", "-", stdin="x" * (limit + 1), code=2)


class Doctor(Reading):
    def findings(self, *args, code=0):
        return {line["check"]: line for line in
                self.run_quipu("doctor", "--json", *args, code=code).lines()}

    def test_a_sound_store_has_no_findings(self):
        found = self.findings()
        self.assertEqual({f["verdict"] for f in found.values()}, {"ok"}, found)
        self.assertLessEqual({"version", "engine", "libpq", "network", "file system", "disk",
                              "file", "permissions", "log", "layout", "verify"}, set(found))
        self.assertEqual(found["verify"]["text"], "4 sessions, 5 messages")
        self.assertNotIn("verify", self.findings("--quick"))
        text = self.run_terminal("doctor", columns=60, env={"NO_COLOR": "1"})
        self.assertRegex(text, "ok.* verify ")
        self.assertLessEqual(max(map(len, text.splitlines())), 60 + len(str(self.folder)))

    def test_the_versions_in_use_are_reported(self):
        found = self.findings()
        self.assertRegex(found["version"]["text"], r"^quipu \d+\.\d+\.\d+$")
        self.assertRegex(found["engine"]["text"], r"^SQLite 3\.\d+\.\d+$")
        self.assertRegex(found["libpq"]["text"], r"^\d+\.\d+$|libpq")
        self.assertRegex(found["network"]["text"], r"^libcurl/\d|libcurl|cannot")
        self.assertIn("engine", self.findings("--store", self.folder / "none.db"))

    def test_a_store_that_cannot_be_opened_is_bad(self):
        for uri in ("mysql://127.0.0.1/x", "postgresql://127.0.0.1:1/x"):
            self.assertEqual(self.findings("--store", uri, code=1)["open"]["verdict"], "bad")
        other = self.folder / "other.db"
        with contextlib.closing(sqlite3.connect(other)) as db:
            db.execute("CREATE TABLE songs (name TEXT)")
        os.chmod(other, 0o600)
        self.assertEqual(self.findings("--store", other, code=1)["open"]["verdict"], "bad")
        self.assertEqual(self.findings("--migrate", "--store", other, code=1)["open"]["verdict"],
                         "bad")

    def test_open_permissions_are_noted(self):
        os.chmod(self.store, 0o644)
        found = self.findings()
        self.assertEqual(found["permissions"]["verdict"], "note")
        self.assertIn("chmod 600", found["permissions"]["advice"])

    def test_damage_is_bad_and_says_what_to_do(self):
        data = bytearray(self.store.read_bytes())
        for at in range(len(data) // 2, len(data) // 2 + 8192):
            data[at] ^= 0x5A
        self.store.write_bytes(data)
        found = self.findings(code=1)
        bad = [f for f in found.values() if f["verdict"] == "bad"]
        self.assertTrue(any("advice" in f for f in bad), found)

    def test_a_file_that_is_no_store_is_bad(self):
        self.store.write_bytes(b"something else entirely" * 100)
        self.assertEqual(self.findings(code=1)["file"]["verdict"], "bad")

    def test_no_store_is_no_illness(self):
        found = self.findings("--store", self.folder / "none.db")
        self.assertIn("quipu init", found["store"]["advice"])

    def test_an_older_store_is_left_alone_until_it_may_be_migrated(self):
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            db.executescript("DROP TABLE model_factors; DELETE FROM ent_journal")
        before = self.store.read_bytes()
        self.assertIn("quipu doctor", self.run_quipu("ls", code=1).err)
        found = self.findings()["layout"]
        self.assertEqual(found["verdict"], "note")
        self.assertIn("--migrate", found["advice"])
        self.assertEqual(self.store.read_bytes(), before)
        self.assertEqual(self.findings("--migrate")["layout"]["verdict"], "ok")
        self.assertEqual(len(self.run_quipu("ls", "--json").lines()), 4)

    def test_an_old_layout_is_migrated_on_request(self):
        path = self.folder / "lango.db"
        shutil.copyfile(FIXTURE, path)
        self.run_quipu("doctor", "--migrate", "--store", path)
        self.assertEqual(self.findings("--store", path)["layout"]["verdict"], "ok")
        self.assertEqual(len(self.run_quipu("ls", "--json", "--store", path).lines()), 2)


class Demo(harness.Case):
    def test_the_demo_shows_what_show_shows(self):
        folder = self.folder / "kept"
        text = self.run_quipu("demo", folder).out
        self.assertIn("Everything was read back unchanged.", text)
        shown = self.run_quipu("show", "--store", folder / "store.db",
                               "adk:travel/ana/trip-to-cusco").out
        self.assertIn(shown, text)
        for line in ("state ", "window ", "search ", "fork ", "weight "):
            self.assertRegex(text, rf"(?m)^{line}")

    def test_what_it_says_to_try_works(self):
        text = self.run_quipu("demo", self.folder / "kept").out
        store = re.search(r"export QUIPU_STORE=(\S+)", text).group(1)
        for line in re.findall(r"(?m)^  quipu ((?:ls|show|search)\b.*)$", text):
            words = re.split(r"\s{2,}", line)[0].split()
            result = self.run_quipu(*words, env={"QUIPU_STORE": store})
            self.assertNotEqual(result.out, "", words)

    def test_nothing_stays_of_a_demo_that_is_not_kept(self):
        before = sorted(self.folder.iterdir())
        self.assertIn("read back unchanged", self.run_terminal("demo"))
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_folder_that_is_there_is_left_alone(self):
        (self.folder / "mine").mkdir()
        self.assertIn("mine", self.run_quipu("demo", self.folder / "mine", code=1).err)
        self.assertEqual(list((self.folder / "mine").iterdir()), [])


if __name__ == "__main__":
    harness.main()
