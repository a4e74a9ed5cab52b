#!/usr/bin/env python3
"""quipu show: a conversation that a person likes to read, the same at every width as the golden
files say (QUIPU_GOLDEN=1 writes them anew), harmless whatever stands in it, and never more work
before the first line than a page."""

import fcntl
import os
import pathlib
import random
import re
import subprocess
import unicodedata
import unittest

import harness

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
LONG = 100_000  # messages of the history that is read from its beginning
PAGE_ROWS_MAX = 200  # rows that may be read before the first line


def call(ident, name, text):
    return {"id": ident, "name": name, "input": text}


def answer(ident, name, text):
    return {"id": ident, "name": name, "output": text}


CONVERSATION = [
    {"role": "user", "author": "user",
     "content": "We have two days in Cusco. Is Machu Picchu possible by train, and is there "
                "something to eat on the way?"},
    {"role": "assistant", "author": "planner", "content": "I will ask for both.",
     "tool_calls": [call("c1", "find_trains", '{"from":"Ollantaytambo","day":"2026-03-21"}'),
                    call("c2", "find_food",
                         '{\n  "near": "Ollantaytambo",\n  "kind": "anything"\n}')]},
    {"role": "tool", "author": "researcher", "content": "",
     "tool_calls": [answer("c2", "find_food", '{"places":["Puka Rumi","Sunshine"]}')]},
    {"role": "tool", "author": "researcher", "content": "",
     "tool_calls": [answer("c1", "find_trains", '{"trains":[{"leaves":"06:10","seats":12}]}')]},
    {"role": "assistant", "author": "planner",
     "content": "Yes:\n\n  1. the 06:10, twelve seats left;\n  2. lunch at Puka Rumi.\n\nこの列車は"
                "六時十分に出発し、マチュピチュには八時ごろ到着します。お弁当を持って行くと安心です。"},
    {"role": "assistant", "author": "a-very-long-name-of-an-agent-that-does-not-fit-anywhere",
     "content": "averyveryverylongwordthatnobodycouldeverbreakatanyspacebecausethereisnoneinit"},
    {"role": "assistant", "author": "planner", "content": "This one is never answered.",
     "tool_calls": [call("c3", "book", '{"seats":3}')]},
    {"role": "user", "author": "user",
     "content": "\x1b[2J\x1b]0;owned\x07 red \x1b[31m \u202eevil\u202c \x9b31m tag\U000e0041 \r "
                "over"},
    {"role": "assistant", "author": "plain",
     "content": "Cafe\u0301s, 👩\u200d🍳 and n\u0303u\u0301s: " + "e\u0301" * 90,
     "tool_calls": [{"name": "weather", "input": "{}"}]},
    {"role": "tool", "content": "sunny, and the plain answer of a tool without an id"},
    {"role": "system", "content": "Be brief.\tTabs too."},
]


class Golden(harness.Case):
    def setUp(self):
        super().setUp()
        harness.make_store(self, {"trip": CONVERSATION})

    def compare(self, name, text):
        path = GOLDEN / name
        if os.environ.get("QUIPU_GOLDEN") == "1":
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.assertEqual(text, path.read_text(encoding="utf-8"))

    def test_it_reads_well_at_40_columns(self):
        self.check_width(40)

    def test_it_reads_well_at_80_columns(self):
        self.check_width(80)

    def test_it_reads_well_at_120_columns(self):
        self.check_width(120)

    def check_width(self, columns):
        text = self.run_quipu("show", "trip", "--width", columns).out
        self.assert_harmless(text)
        self.compare(f"show-{columns}.txt", text)
        # The terminal's width does the same as --width; colours change nothing else.
        shown = self.run_terminal("show", "trip", columns=columns, env={"NO_COLOR": "1"})
        self.assertEqual(shown, text)
        coloured = self.run_terminal("show", "trip", columns=columns)
        self.assertIn("\x1b[1m", coloured)
        self.assert_harmless(coloured, colours=True)

    def test_unfolded_calls_are_shown_in_full(self):
        text = self.run_quipu("show", "trip", "--unfold", "--width", 80).out
        self.compare("show-unfold.txt", text)

    def test_compaction_forks_and_removed_messages_are_marked(self):
        self.run_quipu("fork", "trip", "trip/other", "--at", 5)
        self.run_quipu("append", "trip/other", "--role", "user", "--text", "And by bus?")
        self.run_quipu("compact", "trip", "--through", 5, "--summary", "They plan a trip by train.")
        text = self.run_quipu("show", "trip", "--width", 80).out
        self.assertIn("── 12  summary of 1 to 5 ──", text)
        view = self.run_quipu("show", "trip", "--view", "--width", 80).out
        self.assertLess(view.index("They plan"), view.index("averyvery"))
        self.assertNotIn("two days", view)
        fork = self.run_quipu("show", "trip/other", "--width", 80).out
        self.assertIn("fork      at number 5 of trip", fork)
        self.assertIn("── forked here, 1 to 5 are shared ──", fork)
        self.assertLess(fork.index("forked here"), fork.index("And by bus?"))
        self.run_quipu("prune", "trip", "--yes")
        text = self.run_quipu("show", "trip", "--width", 80).out
        self.assertIn("removed   messages 1 to 5", text)

    def test_an_answer_that_was_cut_off_is_marked(self):
        line = '{"role":"assistant","content":"I was just about to","mark":"timeout"}'
        self.run_quipu("append", "trip", "-", stdin=line)
        text = self.run_quipu("show", "trip", "--last", 1, "--width", 80).out
        self.assertRegex(text, r"(?m)^ 12  assistant cut off  .*\n     I was just about to$")

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            process = self.start_quipu("show", "trip", stdout=full)
            self.assertEqual(process.wait(timeout=harness.WAIT_S), 1)
        self.assertIn(b"could not be written", process.stderr.read())

    def test_json_has_every_message_and_raw_every_event(self):
        lines = self.run_quipu("show", "trip", "--json").lines()
        self.assertEqual([line["seq"] for line in lines], list(range(1, 12)))
        self.assertEqual(lines[7]["content"], CONVERSATION[7]["content"])
        self.assertEqual(lines[1]["tool_calls"][0]["name"], "find_trains")
        events = self.run_quipu("show", "trip", "--raw", "--last", 1).lines()
        self.assertEqual(len(events), 1)
        self.assertEqual(events[0]["content"]["parts"], [{"text": "Be brief.\tTabs too."}])

    def test_json_on_a_terminal_is_harmless_and_the_same(self):
        text = self.run_terminal("show", "trip", "--json")
        self.assert_harmless(text)
        self.assertEqual(text, self.run_quipu("show", "trip", "--json").out)

    def test_a_part_can_be_asked_for(self):
        def seqs(*args):
            return [line["seq"] for line in self.run_quipu("show", "trip", "--json", *args).lines()]

        self.assertEqual(seqs("--last", 3), [9, 10, 11])
        self.assertEqual(seqs("-n", 100), list(range(1, 12)))
        self.assertEqual(seqs("--after", 9), [10, 11])
        self.assertEqual(seqs("--after", 2, "--before", 5), [3, 4])
        self.assertEqual(seqs("--before", 5, "--last", 2), [3, 4])
        self.assertEqual(seqs("--after", 11), [])

    def test_what_is_missing_is_reported(self):
        result = self.run_quipu("show", "no\x1bbody", code=3)
        self.assertIn('there is no session "no␛body"; "quipu ls" lists them', result.err)
        self.assertEqual(result.out, "")
        for key in ("tirp", "trp"):
            self.assertIn(
                f'there is no session "{key}"; did you mean "trip"? "quipu ls" lists them',
                self.run_quipu("show", key, code=3).err,
            )
        for args in (["--last", 0], ["--last", "x"], ["--width", 19], ["--width", 1001]):
            self.assertIn(args[0], self.run_quipu("show", "trip", *args, code=2).err)
        self.run_quipu("show", "trip", "--width", 20)
        self.run_quipu("show", "trip", "--width", 1000)

    def test_a_terminal_gets_the_pager_and_a_pipe_does_not(self):
        env = {"PAGER": "sed s/^/PAGED:/", "NO_COLOR": "1"}
        plain = self.run_quipu("show", "trip", "--width", 80).out
        self.assertEqual(self.run_quipu("show", "trip", "--width", 80, env=env).out, plain)
        paged = self.run_terminal("show", "trip", env=env)
        self.assertEqual(paged, "".join(f"PAGED:{line}\n" for line in plain.splitlines()))
        self.assertEqual(self.run_terminal("show", "trip", "--no-pager", env=env), plain)

    def test_a_pager_that_is_left_early_is_no_failure_of_the_store(self):
        self.run_terminal("show", "trip", env={"PAGER": "head -1"}, code=None)
        self.run_quipu("verify")


def columns_of(text):
    """The width of a text on a terminal."""
    wide = sum(1 for c in text if unicodedata.east_asian_width(c) in "WF")
    none = sum(1 for c in text if unicodedata.category(c) in ("Mn", "Me", "Cf"))
    return len(text) + wide - none


class Random(harness.Case):
    """For any message text: no line is too long, and no control character reaches the terminal."""

    RANGES = ((0x20, 0x7E), (0x20, 0x7E), (0x01, 0x1F), (0x7F, 0xFF), (0x300, 0x36F),
              (0x4E00, 0x4FFF), (0xAC00, 0xACFF), (0x1F600, 0x1F64F), (0x200B, 0x200F),
              (0x2028, 0x202E), (0x2066, 0x2069), (0xE0020, 0xE007E), (0x0A, 0x0A), (0x20, 0x20))

    def text(self, source):
        ranges = source.sample(self.RANGES, 5)
        return "".join(chr(source.randint(*source.choice(ranges))) for _ in range(300))

    def test_every_line_fits_and_none_is_harmful(self):
        seed = os.environ.get("QUIPU_SEED", "7")
        with self.subTest(QUIPU_SEED=seed):  # a failure prints it
            self.check(random.Random(seed))

    def check(self, source):
        harness.make_store(self, {"any": [
            {"role": "assistant", "author": self.text(source)[:40], "content": self.text(source),
             "tool_calls": [{"id": str(i), "name": self.text(source)[:20],
                             "input": self.text(source), "output": self.text(source)}]}
            for i in range(60)
        ]})
        for columns in (20, 37, 60, 80, 133):
            for fold in ((), ("--unfold",)):
                text = self.run_quipu("show", "any", "--width", columns, *fold).out
                self.assert_harmless(text)
                for line in text.split("\n"):
                    self.assertLessEqual(columns_of(line), columns, ascii(line))
        shown = self.run_quipu("show", "any", "--json").lines()
        self.assertEqual(len(shown), 60)


class Pages(harness.Case):
    """A history longer than a page: every message is shown once, also with calls that wait."""

    def shown(self, *args):
        text = self.run_quipu("show", "k", "--width", 80, *args).out
        return [int(n) for n in re.findall(r"(?m)^ *(\d+)  (?:user|assistant) ", text)], text

    def make(self, unanswered):
        messages = [{"role": "user", "content": f"number {i}"} for i in range(1, 1501)]
        for seq in unanswered:
            messages[seq - 1] = {"role": "assistant", "content": "",
                                 "tool_calls": [call(f"c{seq}", "look", "{}")]}
        harness.make_store(self, {"k": messages})

    def test_calls_without_answers_delay_nothing_for_good(self):
        self.make([1, 2, 50, 99, 100, 101, 1100, 1101, 1500])
        self.assertEqual(self.shown()[0], list(range(1, 1501)))
        self.assertEqual(self.shown("--last", 700)[0], list(range(801, 1501)))

    def test_a_view_goes_on_behind_its_summary(self):
        self.make([6])
        self.run_quipu("compact", "k", "--through", 5, "--summary", "Five numbers.")
        seqs, text = self.shown("--view")
        self.assertEqual(seqs, list(range(6, 1501)))
        self.assertEqual(text.count("Five numbers."), 1)

    def test_an_answer_on_the_next_page_stands_beside_its_call(self):
        messages = [{"role": "user", "content": f"number {i}"} for i in range(1, 151)]
        messages[98] = {"role": "assistant", "content": "", "tool_calls": [call("c", "look", "{}")]}
        messages[120] = {"role": "tool", "content": "",
                         "tool_calls": [answer("c", "look", "a mountain")]}
        harness.make_store(self, {"k": messages})
        seqs, text = self.shown()
        self.assertEqual(seqs, [n for n in range(1, 151) if n != 121])
        self.assertIn("▸ look {} ← a mountain\n", text)


class Long(harness.Case):
    def test_the_first_line_is_out_after_one_page(self):
        messages = [{"role": "user", "content": f"message number {i} of a long history"}
                    for i in range(LONG)]
        harness.make_store(self, {"long": messages, "empty": []})
        size = self.store.stat().st_size
        row = size / LONG
        # Opening and the head cost the same for a session without messages.
        base = self.bytes_read("empty", block=False)
        read = self.bytes_read("long", block=True)
        self.assertGreater(size, 100 * PAGE_ROWS_MAX * row)
        self.assertLess((read - base) / row, PAGE_ROWS_MAX)

    def bytes_read(self, key, block):
        """What `show` has read when it blocks on a small pipe that only its first line left, or
        when it has ended: the kernel counts."""
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [harness.program(), "show", key], stdout=writing, env=self.env, stdin=subprocess.DEVNULL
        )
        self.addCleanup(process.kill)
        os.close(writing)
        counted = pathlib.Path(f"/proc/{process.pid}/io")
        os.set_blocking(reading, True)
        self.assertTrue(os.read(reading, 1))
        if block:
            while not self.sleeps(process.pid):
                self.assertIsNone(process.poll(), "it ended, and did not wait for its reader")
        else:
            os.read(reading, 4096)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        amount = int(counted.read_text(encoding="utf-8").split()[1])
        os.close(reading)
        process.wait()
        return amount

    @staticmethod
    def sleeps(pid):
        """Whether a process waits: with its reader at rest it can only wait for the pipe."""
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] == "S"


if __name__ == "__main__":
    harness.main()
