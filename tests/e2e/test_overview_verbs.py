#!/usr/bin/env python3
"""What a store holds at a glance: usage, feed, tree, diff, and the tags of sessions."""

import json
import signal

import harness


def answer(model, prompt, cached, out, text="Yes."):
    return {"role": "assistant", "content": text, "model": model, "promptTokens": prompt,
            "cachedTokens": cached, "answerTokens": out}


class Case(harness.Case):
    def append(self, key, *messages, env=None):
        lines = "".join(json.dumps(message) + "\n" for message in messages)
        self.run_quipu("append", key, "-", "--create", stdin=lines, env=env)

    def lines(self, *args):
        return self.run_quipu(*args, "--json").lines()


class Usage(Case):
    def setUp(self):
        super().setUp()
        self.append("a", {"role": "user", "content": "Hi"}, answer("gpt-4o-mini", 1000000, 0, 0),
                    {**answer("own", 7, 2, 3), "timestamp": "2026-03-02T10:00:00Z"})
        self.append("b", answer("gpt-4o-mini", 10, 4, 1))

    def test_sums_by_model_are_those_of_the_answers(self):
        rows = {row["model"]: row for row in self.lines("usage")}
        self.assertEqual(set(rows), {"gpt-4o-mini", "own"})
        mini = rows["gpt-4o-mini"]
        self.assertEqual((mini["answers"], mini["prompt_tokens"], mini["cached_tokens"],
                          mini["answer_tokens"], mini["unpriced"]), (2, 1000010, 4, 1, 0))
        self.assertAlmostEqual(mini["cost_usd"], 0.15, places=4)
        self.assertEqual(rows["own"]["unpriced"], 1)

    def test_each_way_to_sum_has_the_same_total(self):
        for by in ("session", "user", "model", "day", "total"):
            with self.subTest(by=by):
                rows = self.lines("usage", "--by", by)
                self.assertEqual(sum(row["prompt_tokens"] for row in rows), 1000017)
                self.assertEqual(sum(row["answers"] for row in rows), 3)
        self.assertRegex(self.run_quipu("usage", "--by", "total").out, r"(?m)^total +3 ")
        self.assertEqual([row["key"] for row in self.lines("usage", "--by", "session")],
                         ["a", "b"])
        self.assertEqual(self.lines("usage", "--by", "user")[0]["user"], "(none)")

    def test_days_and_a_session_limit_the_sum(self):
        days = [row["day"] for row in self.lines("usage", "--by", "day")]
        self.assertEqual(days, sorted(days))
        self.assertEqual(days[0], "2026-03-02")
        only = self.lines("usage", "--since", "2026-03-02", "--until", "2026-03-02")
        self.assertEqual([row["model"] for row in only], ["own"])
        self.assertEqual(self.lines("usage", "b")[0]["prompt_tokens"], 10)
        self.assertIn('there is no session "c"', self.run_quipu("usage", "c", code=3).err)

    def test_the_table_has_a_total_and_says_what_has_no_price(self):
        result = self.run_quipu("usage")
        self.assertRegex(result.out, r"(?m)^MODEL +ANSWERS +IN +CACHED +OUT +COST$")
        self.assertRegex(result.out, r"(?m)^own +1 +7 +2 +3 +\?$")
        self.assertRegex(result.out, r"(?m)^total +3 +1000017 +6 +4 +\$0\.1500\+$")
        self.assertIn("1 answers are of models without a known price", result.err)
        self.run_quipu("rm", "a", "b", "--yes")
        self.assertIn("no answer reported what it used", self.run_quipu("usage").err)

    def test_many_sessions_are_summed_over_all_pages(self):
        harness.make_store(self, {f"s{i}": [] for i in range(1100)})
        for number in range(3):
            self.append(f"s{number}", answer(f"m{number}", 1, 0, 1))
        self.assertEqual(sum(row["answers"] for row in self.lines("usage")), 6)


class Feed(Case):
    ON = {"QUIPU_FEED": "on"}

    def test_changes_are_shown_once_and_go_on_behind_a_cursor(self):
        self.append("a", {"role": "user", "content": "Hi"}, env=self.ON)
        self.run_quipu("fork", "a", "b", env=self.ON)
        *changes, last = self.lines("feed")
        self.assertEqual([(c["change"], c["key"]) for c in changes],
                         [("created", "a"), ("forked", "b")])
        self.append("a", {"role": "user", "content": "1"}, {"role": "user", "content": "2"},
                    env=self.ON)
        *changes, _ = self.lines("feed", "--after", last["next"])
        self.assertEqual([(c["change"], c["first_seq"], c["last_seq"]) for c in changes],
                         [("appended", 2, 3)])
        result = self.run_quipu("feed", "--limit", 2)
        self.assertRegex(result.out, r"created   a\n.*forked    b  shares 1 to 1\n")
        self.assertIn("continue with --after", result.err)
        self.assertIn("messages 2 to 3", self.run_quipu("feed").out)
        self.run_quipu("feed", "--after", "nonsense", code=1)

    def test_a_store_without_a_feed_says_how_to_have_one(self):
        self.append("a", {"role": "user", "content": "Hi"})
        self.assertIn("QUIPU_FEED=on", self.run_quipu("feed").err)

    def test_it_follows_other_processes_until_ctrl_c(self):
        self.append("a", {"role": "user", "content": "Hi"}, env=self.ON)
        process = self.start_quipu("feed", "-f", "--json")
        self.assertEqual(json.loads(self.read_line(process))["change"], "created")
        self.append("b", {"role": "user", "content": "Hi"}, env=self.ON)
        self.assertEqual(json.loads(self.read_line(process))["key"], "b")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=harness.WAIT_S), 0)


class Tree(Case):
    def setUp(self):
        super().setUp()
        self.append("trip", {"role": "user", "content": "Go to Cusco"},
                    {"role": "assistant", "content": "By train?"})
        self.append("alone", {"role": "user", "content": "Nobody forks me"})
        self.run_quipu("fork", "trip", "trip/bus", "--at", 1)
        self.run_quipu("fork", "trip", "trip/train")
        self.run_quipu("fork", "trip/train", "trip/train/late")

    def test_forks_stand_below_their_parents(self):
        text = self.run_quipu("tree").out
        self.assertEqual(text.splitlines(), [
            "trip  2 messages  Go to Cusco",
            "├─ trip/bus  at 1, 1 message  Go to Cusco",
            "└─ trip/train  at 2, 2 messages  Go to Cusco",
            "   └─ trip/train/late  at 2, 2 messages  Go to Cusco",
        ])
        self.assertIn("alone", self.run_quipu("tree", "--all").out)
        rows = self.lines("tree", "trip/train")
        self.assertEqual([(row["key"], row["depth"]) for row in rows],
                         [("trip/train", 0), ("trip/train/late", 1)])
        self.assertEqual(rows[1]["parent"], "trip/train")
        self.assertIn("there is no session", self.run_quipu("tree", "nobody", code=3).err)

    def test_a_fork_of_a_deleted_session_is_a_root(self):
        self.run_quipu("rm", "trip", "--yes")
        self.assertEqual([row["key"] for row in self.lines("tree") if row["depth"] == 0],
                         ["trip/bus", "trip/train"])

    def test_a_store_without_forks_says_so(self):
        self.run_quipu("rm", "trip", "--tree", "--yes", code=None)
        self.run_quipu("rm", "trip/bus", "trip/train", "trip/train/late", "--yes", code=None)
        self.assertIn("there are no forks", self.run_quipu("tree").err)

    def test_lines_fit_a_terminal(self):
        for columns in (40, 80, 120):
            text = self.run_terminal("tree", columns=columns, env={"NO_COLOR": "1"})
            self.assert_harmless(text)
            self.assertLessEqual(max(map(len, text.splitlines())), columns)


class Diff(Case):
    def test_what_follows_the_shared_messages_is_shown(self):
        self.append("a", *({"role": "user", "content": f"shared {i}"} for i in range(9)))
        self.run_quipu("fork", "a", "b", "--at", 6)
        self.append("b", {"role": "assistant", "content": "only in b"})
        text = self.run_quipu("diff", "a", "b").out
        self.assertEqual(text.splitlines(), [
            "--- a", "+++ b", "  both have messages up to 6",
            "-    7  user: shared 6", "-    8  user: shared 7", "-    9  user: shared 8",
            "+    7  assistant: only in b"])
        shown = self.run_quipu("diff", "a", "b", "--json").json()
        self.assertEqual(shown["common_seq"], 6)
        self.assertEqual([m["seq"] for m in shown["only_first"]["messages"]], [7, 8, 9])
        self.assertEqual([m["content"] for m in shown["only_second"]["messages"]], ["only in b"])
        self.assertIn("        only in b\n", self.run_quipu("diff", "a", "b", "--unfold").out)

    def test_strangers_and_twins_have_nothing_or_all_in_common(self):
        self.append("a", {"role": "user", "content": "x"})
        self.append("b", {"role": "user", "content": "x"})
        self.assertIn("no message in common", self.run_quipu("diff", "a", "b").out)
        self.run_quipu("fork", "a", "c")
        shown = self.run_quipu("diff", "a", "c", "--json").json()
        self.assertEqual((shown["common_seq"], shown["only_first"]["messages"],
                          shown["only_second"]["messages"]), (1, [], []))
        self.assertIn('there is no session "d"', self.run_quipu("diff", "a", "d", code=3).err)


class Tags(Case):
    def keys(self, *args):
        return [line["key"] for line in self.lines("ls", *args)]

    def test_tags_are_added_removed_and_found(self):
        for key in ("a", "b", "c"):
            self.append(key, {"role": "user", "content": "x"})
        self.run_quipu("set", "a", "--metadata", '{"n": 9007199254740993, "tag": "old"}')
        self.run_quipu("set", "a", "--tag", "travel")
        self.run_quipu("set", "a", "--tag", "travel")
        self.run_quipu("set", "a", "--tag", "peru")
        self.run_quipu("set", "b", "--tag", "travel", "--title", "B")
        self.assertEqual(self.keys("--tag", "travel"), ["b", "a"])
        self.assertEqual(self.keys("--tag", "old"), ["a"])
        self.assertEqual(self.keys("--tag", "none"), [])
        listed = {line["key"]: line for line in self.lines("ls")}
        self.assertEqual(listed["a"]["metadata"], {"n": 9007199254740993, "tag": "old",
                                                   "tags": ["travel", "peru"]})
        self.run_quipu("set", "a", "--untag", "old")
        self.run_quipu("set", "a", "--untag", "travel")
        self.run_quipu("set", "b", "--untag", "travel")
        listed = {line["key"]: line for line in self.lines("ls")}
        self.assertEqual(listed["a"]["metadata"], {"n": 9007199254740993, "tags": ["peru"]})
        self.assertNotIn("metadata", listed["b"])
        self.assertIn("--metadata replaces the tags",
                      self.run_quipu("set", "a", "--tag", "x", "--metadata", "{}", code=2).err)
        self.run_quipu("set", "a", "--tag", "x" * 256)
        self.assertIn("256", self.run_quipu("set", "a", "--tag", "x" * 257, code=2).err)


if __name__ == "__main__":
    harness.main()
