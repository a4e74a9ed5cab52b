#!/usr/bin/env python3
"""The verbs that show and change what a session has beside its messages: state, set, window, and
the filters of ls. Each as text and as JSON, at 40, 80 and 120 columns, read-only, in another
tenant, with bad input."""

import json
import re

import harness

TRIP = "adk:travel/ana/trip-to-cusco"
HOSTILE = "\x1b]0;owned\x07\u202e"
NAME_MAX = 1024  # STATE_NAME_MAX
TITLE_MAX = 512  # QUIPU_TITLE_MAX


def wide(text):
    """The columns of a line that has been on a terminal."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return len(plain) + sum(1 for c in plain if "\u3000" < c < "\ud7a3")


class Verbs(harness.Case):
    def session(self, key, *texts, args=()):
        """A session with these texts of the user's."""
        lines = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)
        self.run_quipu("append", key, "--create", *args, stdin=lines)

    def demo(self):
        """The demo's store: a session of ADK's with state."""
        self.run_quipu("demo", self.folder / "demo")
        self.store = self.folder / "demo" / "store.db"
        self.env["QUIPU_STORE"] = str(self.store)

    def check_table(self, *args):
        """A table fits any terminal, is harmless, and a pipe gets it whole, without colours."""
        for columns in (40, 80, 120):
            text = self.run_terminal(*args, columns=columns)
            self.assert_harmless(text, colours=True)
            for line in text.splitlines():
                if not line.startswith("quipu "):
                    self.assertLessEqual(wide(line), columns, line)
        text = self.run_quipu(*args).out
        self.assert_harmless(text)
        self.assertNotIn(" \n", text)

    def check_reads(self, *args):
        """It answers from a read-only store, changes no byte, and names a mistyped key."""
        before = self.store.read_bytes()
        self.assertEqual(self.run_quipu(*args, "--read-only").out, self.run_quipu(*args).out)
        self.assertEqual(self.store.read_bytes(), before)

    def check_examples(self, verb):
        """The help has two examples or more, and each runs."""
        text = self.run_quipu(verb, "--help").out.split("Examples:\n")[1]
        examples = [line.strip() for line in text.splitlines() if line.strip()]
        self.assertGreaterEqual(len(examples), 2)
        for line in examples:
            self.assertTrue(line.startswith(f"quipu {verb}"), line)
            self.run_quipu(*[word.strip("'") for word in re.findall(r"'[^']*'|\S+", line)][1:])


class State(Verbs):
    def state(self, *args):
        return {(line["scope"], line["name"]): line
                for line in self.run_quipu("state", *args, "--json").lines()}

    def test_every_name_comes_with_who_set_it_and_at_which_message(self):
        self.demo()
        found = self.state(TRIP)
        train = found["session", "train"]
        self.assertEqual((train["value"], train["set_by"], train["set_seq"]),
                         ("06:10", "researcher", 3))
        self.assertEqual(found["app", "searches"]["set_in"], TRIP)
        text = self.run_quipu("state", TRIP).out
        self.assertRegex(text, r"(?m)^session +train +\"06:10\" +researcher +3 +2026-")
        self.assertRegex(text, r"(?m)^SCOPE +NAME +VALUE +SET BY +MESSAGE +SET +IN$")

    def test_a_scope_can_be_chosen(self):
        self.demo()
        scopes = {scope for scope, _ in self.state(TRIP, "--scope", "app")}
        self.assertEqual(scopes, {"app"})
        self.assertIn("did you mean", self.run_quipu("state", TRIP, "--scope", "usr", code=2).err)

    def test_the_past_is_what_recorded_events_had_set(self):
        self.demo()
        self.assertEqual(self.state(TRIP, "--at", 2), {})
        third = self.state(TRIP, "--at", 3)
        self.assertEqual(third["session", "train"]["value"], "06:10")
        self.assertEqual(third["session", "train"]["set_seq"], 3)
        self.assertEqual(third["session", "train"]["set_by"], "researcher")
        self.assertEqual({scope for scope, _ in third}, {"session"})
        self.run_quipu("state", TRIP, "set", "train", "--text", "07:45")
        result = self.run_quipu("state", TRIP, "--at", 3, "--json")
        self.assertEqual(result.json()["value"], "06:10")
        self.assertIn("by recorded events", result.err)

    def test_the_past_of_a_fork_is_its_own(self):
        self.demo()
        self.run_quipu("fork", TRIP, "early", "--at", 2)
        self.run_quipu("fork", TRIP, "late", "--at", 4)
        self.assertEqual(self.state("early", "--at", 2), {})
        self.assertEqual(self.state("late", "--at", 4)["session", "train"]["set_seq"], 3)

    def test_a_message_that_is_not_there_has_no_state(self):
        self.demo()
        self.assertIn("the newest is", self.run_quipu("state", TRIP, "--at", 1000, code=3).err)
        for number in ("0", "-1", "x", "", "4294967296"):
            self.assertIn("--at", self.run_quipu("state", TRIP, f"--at={number}", code=2).err)

    def test_set_and_delete_change_one_name_and_say_who(self):
        self.session("trip", "Hello")
        self.run_quipu("state", "trip", "set", "seats", "3", "--who", "ana")
        self.run_quipu("state", "trip", "set", "city", "Cusco\n", "--text", "--who", "ben")
        found = self.state("trip")
        self.assertEqual(found["session", "seats"]["value"], 3)
        self.assertEqual(found["session", "seats"]["set_by"], "ana")
        self.assertNotIn("set_seq", found["session", "seats"])
        self.assertEqual(found["session", "city"]["value"], "Cusco\n")
        self.run_quipu("state", "trip", "set", "seats", '{"a": [1, 2.50]}')
        self.assertIn('"value":{"a": [1, 2.50]}', self.run_quipu("state", "trip", "--json").out)
        self.assertIn("--yes", self.run_quipu("state", "trip", "delete", "seats", code=2).err)
        done = self.run_quipu("state", "trip", "delete", "seats", "--yes", "--json").json()
        self.assertEqual(done, {"key": "trip", "name": "seats", "deleted": True})
        self.assertEqual(set(self.state("trip")), {("session", "city")})
        self.assertEqual(len(self.run_quipu("show", "trip", "--json").lines()), 1)

    def test_who_is_the_user_of_the_shell_by_default(self):
        self.session("trip", "Hello")
        self.run_quipu("state", "trip", "set", "a", "1", env={"USER": "carla"})
        self.run_quipu("state", "trip", "set", "b", "1", env={"USER": ""})
        found = self.state("trip")
        self.assertEqual(found["session", "a"]["set_by"], "carla")
        self.assertEqual(found["session", "b"]["set_by"], "user")

    def test_names_of_the_user_are_shared_by_the_users_sessions(self):
        self.demo()
        self.run_quipu("state", TRIP, "set", "user:language", '"es"')
        others = [line["key"] for line in
                  self.run_quipu("ls", "--json", "--app", "travel", "--user", "ana").lines()]
        for key in others:
            found = self.state(key)["user", "language"]
            self.assertEqual((found["value"], found["set_in"]), ("es", TRIP))

    def test_what_is_no_name_or_no_value_changes_nothing(self):
        self.session("trip", "Hello")
        for name, value in (("", "1"), ("x" * (NAME_MAX + 1), "1"), ("temp:a", "1"),
                            ("a\udcff", "1"), ("a", "Cusco"), ("a", ""), ("a", "1,2"),
                            ("a", '1,"app:evil":2'), ("a", "{"), ("a", "\udcff")):
            result = self.run_quipu("state", "trip", "set", name, value, code=2)
            self.assertNotEqual(result.err, "", (name, value))
            self.assert_harmless(result.err)
        self.assertIn("--text", self.run_quipu("state", "trip", "set", "a", "Cusco", code=2).err)
        self.assertEqual(self.state("trip"), {})
        self.run_quipu("state", "trip", "set", "x" * NAME_MAX, "1")
        self.assertEqual(set(self.state("trip")), {("session", "x" * NAME_MAX)})

    def test_words_behind_the_key_are_checked(self):
        self.session("trip", "Hello")
        for words in (("set",), ("set", "a"), ("delete",), ("delete", "a", "b"), ("sett", "a", "1"),
                      ("set", "a", "1", "--at", "1"), ("delete", "a", "--scope", "app")):
            self.assertNotEqual(self.run_quipu("state", "trip", *words, code=2).err, "")

    def test_what_is_missing_is_named(self):
        self.session("trip", "Hello")
        self.assertIn('did you mean "trip"?', self.run_quipu("state", "tirp", code=3).err)
        self.assertIn('did you mean "trip"?',
                      self.run_quipu("state", "tirp", "set", "a", "1", code=3).err)
        missing = self.run_quipu("state", "trip", "delete", "a", "--yes", code=3).err
        self.assertIn('no "a" in the state of "trip"', missing)
        result = self.run_quipu("state", "trip")
        self.assertEqual((result.out, "no such state" in result.err), ("", True))

    def test_the_state_of_a_fork_is_not_its_parents(self):
        self.demo()
        self.run_quipu("fork", TRIP, "late", "--at", 4)
        self.assertIn("fork", self.run_quipu("state", "late", "set", "train", "1", code=1).err)
        self.assertEqual(self.state(TRIP)["session", "train"]["value"], "06:10")

    def test_a_table_fits_and_hostile_text_is_harmless(self):
        self.session("trip", "Hello")
        self.run_quipu("state", "trip", "set", HOSTILE, "--text", HOSTILE * 9, "--who", HOSTILE)
        self.run_quipu("state", "trip", "set", "東京", "--text", "列車" * 60)
        self.check_table("state", "trip")
        self.assert_harmless(self.run_quipu("state", "trip", "--json").out)

    def test_reading_is_enough_and_a_tenant_has_its_own(self):
        self.demo()
        self.check_reads("state", TRIP)
        self.check_reads("state", TRIP, "--at", 4)
        self.run_quipu("state", TRIP, "set", "a", "1", "--read-only", code=1)
        self.run_quipu("state", TRIP, "--tenant", "other", code=3)
        self.session("mine", "Hello", args=("--tenant", "other"))
        self.run_quipu("state", "mine", "set", "a", "1", "--tenant", "other")
        self.assertEqual(set(self.state("mine", "--tenant", "other")), {("session", "a")})

    def test_the_examples_of_the_help_run(self):
        self.session("trip", "One", "Two", "Three")
        self.check_examples("state")


class Set(Verbs):
    def setUp(self):
        super().setUp()
        self.session("trip", "Hello")

    def settings(self, *args):
        return self.run_quipu("ls", "--json", *args).lines()[0]

    def test_only_what_is_named_changes(self):
        self.run_quipu("set", "trip", "--title", "Cusco", "--model", "m1", "--agent", "a1")
        self.run_quipu("set", "trip", "--metadata", '{"tag": "travel"}')
        found = self.settings()
        self.assertEqual((found["title"], found["model"], found["agent"], found["metadata"]),
                         ("Cusco", "m1", "a1", {"tag": "travel"}))
        self.assertEqual(len(self.run_quipu("ls", "--json", "--meta", "tag=travel").lines()), 1)
        self.run_quipu("set", "trip", "--title", "Two days")
        found = self.settings()
        self.assertEqual((found["title"], found["model"]), ("Two days", "m1"))
        self.assertEqual(found["messages"], 1)

    def test_what_was_set_is_shown(self):
        self.run_quipu("set", "trip", "--title", "To\x1b[2J Cusco", "--tag", "travel",
                       "--ttl", "7d")
        self.run_quipu("set", "trip", "--tag", "two words")
        head = self.run_quipu("show", "trip").out.partition("──")[0]
        self.assertIn("\ntitle     To␛[2J Cusco\n", head)
        self.assertIn("\ntags      travel, two words\n", head)
        self.assertRegex(head, r"\nexpires   20\d\d-")

    def test_a_tag_has_a_name(self):
        self.assertIn("a tag has 1 to 256 bytes",
                      self.run_quipu("set", "trip", "--tag", "", code=2).err)
        self.run_quipu("set", "trip", "--tag", "x" * 256)
        self.run_quipu("set", "trip", "--tag", "x" * 257, code=2)

    def test_an_empty_text_removes_a_setting(self):
        self.run_quipu("set", "trip", "--title", "Cusco", "--model", "m1", "--metadata", '{"a":1}')
        self.run_quipu("set", "trip", "--title", "", "--model=", "--metadata", "")
        found = self.settings()
        self.assertFalse(found.get("title") or found.get("model") or found.get("metadata"))

    def test_a_session_can_get_an_end_and_lose_it(self):
        self.run_quipu("set", "trip", "--ttl", "12h")
        self.assertIn("expires_at", self.settings())
        self.run_quipu("set", "trip", "--ttl", "never")
        self.assertNotIn("expires_at", self.settings())

    def test_the_revision_is_printed_and_can_be_asked_for(self):
        before = self.settings()["revision"]
        done = self.run_quipu("set", "trip", "--title", "a", "--if-revision", before,
                              "--json").json()
        self.assertEqual(done, {"key": "trip", "revision": self.settings()["revision"]})
        self.run_quipu("set", "trip", "--title", "b", "--if-revision", before, code=4)
        self.assertEqual(self.settings()["title"], "a")
        self.assertIn("trip is changed", self.run_quipu("set", "trip", "--title", "c").out)

    def test_bad_input_changes_nothing(self):
        before = self.settings()
        for args in ((), ("--ttl", ""), ("--ttl", "0s"), ("--ttl", "-1h"), ("--ttl", "12"),
                     ("--ttl", "forever"), ("--title", "a", "--if-revision", "x")):
            self.assertNotEqual(self.run_quipu("set", "trip", *args, code=2).err, "")
        for args in (("--title", "x" * (TITLE_MAX + 1)), ("--metadata", "{"),
                     ("--metadata", "[1]"), ("--title", "\udcff")):
            result = self.run_quipu("set", "trip", *args, code=1)
            self.assert_harmless(result.err)
        self.assertEqual(self.settings(), before)
        self.run_quipu("set", "trip", "--title", "x" * TITLE_MAX)
        self.assertEqual(self.settings()["title"], "x" * TITLE_MAX)

    def test_a_missing_session_is_named_and_a_tenant_has_its_own(self):
        missing = self.run_quipu("set", "tirp", "--title", "a", code=3)
        self.assertIn('did you mean "trip"?', missing.err)
        self.run_quipu("set", "trip", "--title", "a", "--tenant", "other", code=3)
        self.session("mine", "Hello", args=("--tenant", "other"))
        self.run_quipu("set", "mine", "--title", "theirs", "--tenant", "other")
        self.assertEqual(self.settings("--tenant", "other")["title"], "theirs")

    def test_the_examples_of_the_help_run(self):
        self.check_examples("set")


class ListFilters(Verbs):
    def setUp(self):
        super().setUp()
        harness.make_store(self, {key: [] for key in ("old", "older")})
        for number in range(6):
            self.session(f"k{number}", f"Question {number} about {'trains' if number % 2 else 'x'}")
        self.run_quipu("set", "k0", "--title", "Two days in CUSCO")

    def keys(self, *args):
        return [line["key"] for line in self.run_quipu("ls", "--json", *args).lines()]

    def test_a_title_or_without_one_the_first_words_are_found(self):
        self.assertEqual(self.keys("--title", "cusco"), ["k0"])
        self.assertEqual(self.keys("--title", "Question 0"), [])
        self.assertEqual(self.keys("--title", "TRAINS"), ["k5", "k3", "k1"])
        self.assertEqual(self.keys("--title", "nothing"), [])
        self.assertEqual(len(self.keys("--title", "")), 8)

    def test_keys_are_shown_before_titles_and_empty_columns(self):
        key = "chat:gpt4_59149c77/ultrachat_57822"
        self.run_quipu("append", key, "--create", "--text", "words " * 20)
        text = self.run_terminal("ls", "--title", "words words", columns=100)
        self.assertIn(f"{key}  ", text)
        self.assertNotIn("AGENT", text)
        self.assertRegex(text, r"words words .*…")
        self.run_quipu("set", key, "--agent", "a1")
        self.assertIn("AGENT", self.run_terminal("ls", "--title", "words words", columns=120))
        self.assertIn("AGENT", self.run_quipu("ls", "--title", "words words").out)

    def test_a_filtered_list_goes_on_where_it_ended(self):
        seen = []
        cursor = []
        for _ in range(3):
            result = self.run_quipu("ls", "--json", "-n", 1, "--title", "trains", *cursor)
            seen += [line["key"] for line in result.lines() if "key" in line]
            more = result.lines()[-1].get("next")
            cursor = ["--after", more] if more else []
        self.assertEqual(seen, ["k5", "k3", "k1"])

    def test_since_leaves_out_what_changed_before(self):
        recent = {"k0", "k1", "k2", "k3", "k4", "k5"}
        self.assertEqual(set(self.keys("--since", "1h")), recent)
        self.assertEqual(set(self.keys("--since", "1h", "--oldest")), recent)
        self.assertEqual(self.keys("--since", harness.instant(2), "--oldest")[0], "older")
        self.assertNotIn("old", self.keys("--since", harness.instant(2)))
        self.assertEqual(self.keys("--since", "2999-01-01T00:00:00Z"), [])
        for bad in ("", "x", "7x", "-1d"):
            self.assertIn("--since", self.run_quipu("ls", f"--since={bad}", code=2).err)

    def test_a_filtered_table_fits_and_reading_is_enough(self):
        self.check_table("ls", "--title", "trains")
        self.check_reads("ls", "--title", "trains", "--since", "1h")
        self.check_examples("ls")


class Window(Verbs):
    """Turns of 100 tokens each: a question of 50, and an answer of 50."""

    def setUp(self):
        super().setUp()
        harness.make_store(self, {"trip": [
            {"role": role, "content": f"{number} ".ljust(200, "x")}
            for number in range(3) for role in ("user", "assistant")]})

    def window(self, *args):
        return self.run_quipu("window", "trip", *args, "--json").json()

    def test_the_newest_whole_turns_that_fit_are_shown(self):
        found = self.window("--budget", 250)
        self.assertEqual([line["seq"] for line in found["messages"]], [3, 4, 5, 6])
        self.assertEqual((found["tokens"], found["token_budget"]), (200, 250))
        self.assertEqual((found["more_before"], found["over_budget"], found["cut"]),
                         (True, False, False))
        self.assertEqual(found["messages"][0]["role"], "user")
        self.assertEqual(sum(line["tokens"] for line in found["messages"]), 200)
        whole = self.window("--budget", 300)
        self.assertEqual((len(whole["messages"]), whole["more_before"]), (6, False))
        self.assertEqual(len(self.window("--budget", 299)["messages"]), 4)

    def test_a_turn_above_the_budget_is_whole_or_cut(self):
        found = self.window("--budget", 60)
        self.assertEqual((len(found["messages"]), found["over_budget"]), (2, True))
        found = self.window("--budget", 60, "--cut")
        self.assertEqual(([line["seq"] for line in found["messages"]], found["cut"]), ([6], True))
        self.assertIn("exceeds the budget", self.run_quipu("window", "trip", "--budget", 60).err)

    def test_the_budget_is_the_models_by_default(self):
        self.assertEqual(self.window()["token_budget"], 32000)
        self.run_quipu("set", "trip", "--model", "gpt-4o")
        self.assertGreater(self.window()["token_budget"], 0)

    def test_bad_numbers_and_keys_are_named(self):
        for bad in ("0", "-1", "x", "", "9223372036854775808"):
            result = self.run_quipu("window", "trip", f"--budget={bad}", code=2)
            self.assertIn("--budget", result.err)
        self.assertEqual(len(self.window("--budget", 2**63 - 1)["messages"]), 6)
        for args in (("--budget", 9), ()):
            missing = self.run_quipu("window", "tirp", *args, code=3)
            self.assertIn('did you mean "trip"?', missing.err)

    def test_a_session_without_messages_has_an_empty_window(self):
        self.run_quipu("fork", "trip", "empty", "--at", 0)
        found = self.run_quipu("window", "empty", "--budget", 9, "--json").json()
        self.assertEqual((found["messages"], found["tokens"]), ([], 0))

    def test_a_table_fits_and_reading_is_enough(self):
        self.session("trip", HOSTILE * 30, "列車" * 90)
        self.check_table("window", "trip", "--budget", 4000)
        self.check_reads("window", "trip", "--budget", 100)
        self.assert_harmless(self.run_quipu("window", "trip", "--json").out)
        self.run_quipu("window", "trip", "--tenant", "other", code=3)
        self.check_examples("window")


if __name__ == "__main__":
    harness.main()
