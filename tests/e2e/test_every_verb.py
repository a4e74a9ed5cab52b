#!/usr/bin/env python3
"""Every verb: the examples of its help run and stand in its manual page, its JSON has the names of
docs/cli.md, and its output fits terminals of 40, 80 and 120 columns, in a pipe too."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import unicodedata

import harness

ROOT = harness.ROOT
VERBS = re.findall(r"X\((\w+)\)", re.search(
    r"#define APP_VERBS.*?\n\n", (ROOT / "apps/quipu/app.h").read_text("utf-8"), re.S).group(0))
NOWHERE = "http://127.0.0.1:9/v1"  # a port where nobody listens

# What the examples do not run to their end: a server, a model that is not there, a program that is
# not installed. They must still be taken: exit status 2 is wrong use.
ENDLESS = ("quipu serve", "quipu mcp", "quipu feed --follow", "quipu tail -f")
MODEL = ("quipu chat",)
OTHERS = ("claude ",)

MESSAGES = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (
    {"role": "user", "content": "Two train seats to Cusco, please. "
                                "\u6771\u4eac\u65c5\u884c " + "far " * 40},
    {"role": "assistant", "content": "I look.", "model": "gpt-4o", "prompt_tokens": 40,
     "answer_tokens": 9, "tool_calls": [{"id": "c1", "name": "find", "input": "{\"day\":\"Sat\"}",
                                         "output": ""}]},
    {"role": "tool", "content": "12 seats", "tool_calls": [{"id": "c1", "name": "find", "input": "",
                                                            "output": "12 seats"}]},
    {"role": "assistant", "content": "There are 12.\n\n```\nseat 1\n```", "author": "planner",
     "model": "gpt-4o", "prompt_tokens": 60, "answer_tokens": 12},
    {"role": "user", "content": "When do we leave? \x1b[31mred\x1b[0m"},
))


def wide(line):
    """Columns of a line without its colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in plain if unicodedata.combining(c) == 0)


class Every(harness.Case):
    """One store with something for each verb, and copies of it."""

    def setUp(self):
        super().setUp()
        self.env["QUIPU_FEED"] = "on"
        self.env["QUIPU_BASE_URL"] = NOWHERE
        self.env["HOME"] = str(self.folder)
        world = self.folder / "world"
        world.mkdir()
        self.store = world / "store.db"
        self.env["QUIPU_STORE"] = str(self.store)
        self.run_quipu("init")
        self.run_quipu("append", "trip", "--create", stdin=MESSAGES)
        self.run_quipu("set", "trip", "--tag", "travel", "--title", "Two days in Cusco")
        self.run_quipu("fork", "trip", "trip/other")
        self.run_quipu("append", "trip/other", "--text", "By bus, then.")
        self.run_quipu("append", "notes", "--create", "--text", "Buy tickets")
        self.run_quipu("memory", "add", "trip", "Ana prefers trains.")
        self.run_quipu("state", "trip", "set", "city", '"Cusco"')
        shutil.copyfile(self.store, world / "chats.db")
        (world / "heads.jsonl").write_bytes(self.run_quipu("head").raw_out)
        for name in ("old.key", "new.key", "p.txt"):
            (world / name).write_text("00112233445566778899aabbccddeeff" * 2, "utf-8")
            (world / name).chmod(0o600)
        self.run_quipu("export", "--encrypt", "-o", world / "chats.enc",
                       "--export-passphrase-file", world / "p.txt")
        self.keys = {"QUIPU_KEY_FILE": str(world / "old.key")}
        self.run_quipu("init", "--store", world / "safe.db", env=self.keys)
        (world / "notes.jsonl").write_text('{"role":"user","content":"x"}\n', "utf-8")
        (world / "conversations.json").write_text(json.dumps([{
            "id": "c-1", "title": "T", "current_node": "m", "mapping": {"m": {
                "id": "m", "parent": None, "message": {
                    "id": "m", "author": {"role": "user"}, "create_time": 1.0,
                    "content": {"content_type": "text", "parts": ["hi"]}}}}}]), "utf-8")
        shutil.copyfile(harness.FIXTURES / "llm-threads.db", world / "logs.db")
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        (self.bin / "llm").write_text(f"#!/bin/sh\necho {world}/logs.db\n", "utf-8")
        (self.bin / "llm").chmod(0o755)
        os.symlink(harness.program(), self.bin / "quipu")
        self.env["PATH"] = f"{self.bin}:{os.environ['PATH']}"
        self.env["BROWSER"] = "true"
        self.world = world

    def keyed(self, verb):
        """The variables of a verb that works on an encrypted store."""
        return self.keys if verb == "rekey" else {}

    def copy(self, name):
        """A world of its own for what writes."""
        folder = self.folder / f"copy-{name}"
        shutil.copytree(self.world, folder)
        return folder

    def shell(self, line, folder, seconds=None):
        """The exit status and the errors of a line in bash; None: it did not end."""
        env = {**self.env, "QUIPU_STORE": str(folder / "store.db")}
        try:
            done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True,
                                  stdin=subprocess.DEVNULL, check=False,
                                  timeout=seconds or harness.WAIT_S)
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stderr.decode()


class Examples(Every):
    def examples(self, verb):
        parts = self.run_quipu(verb, "--help").out.split("Examples:\n")
        self.assertEqual(len(parts), 2, f"{verb} has no examples")
        return [line.strip() for line in parts[1].splitlines() if line.strip()]

    def test_each_verb_has_two_examples_that_run(self):
        self.assertGreater(len(VERBS), 35)
        for verb in VERBS:
            examples = self.examples(verb)
            self.assertGreaterEqual(len(examples), 2, verb)
            for number, line in enumerate(examples):
                with self.subTest(line):
                    self.assertIn(f"quipu {verb}", line)
                    endless = line.startswith(ENDLESS)
                    code, err = self.shell(line, self.copy(f"{verb}-{number}"), endless or None)
                    if line.startswith(OTHERS):
                        self.assertIn(code, (0, 127))
                    elif line.startswith(MODEL):
                        # No model is there to be listed, or to answer.
                        self.assertIn(code, (1, 2), err)
                        self.assertIn("Failed to connect to 127.0.0.1", err)
                    else:
                        self.assertIn(code, (None, 0) if endless else (0,), err)

    def test_they_stand_in_the_manual_page(self):
        for verb in VERBS:
            page = (ROOT / "docs/man" / f"quipu-{verb}.1").read_text("utf-8")
            shown = page.split(".SH EXAMPLES")[1].replace("\\-", "-").replace("\\e", "\\")
            for line in self.examples(verb):
                self.assertIn(line, shown, verb)


# A verb's --json in this world: every line of output is looked at. A verb that has --json and is
# not here fails the test.
JSON = {
    "append": ["append trip --text x"], "backup": ["backup b.db"], "bench": ["bench --seconds 1"],
    "compact": ["compact trip --through 2 --summary s", "compact trip --undo"],
    "context": ["context trip"], "copy": ["copy chats.db c.db"], "diff": ["diff trip trip/other"],
    "doctor": ["doctor"], "erase": ["erase notes --yes"],
    "export": ["export -o e.jsonl", "export trip --format html -o e.html"],
    "feed": ["feed"], "fork": ["fork trip f"],
    "import": ["import conversations.json", "import logs.db --dry-run"],
    "init": ["init --store i.db"],
    "ls": ["ls", "ls -n 1"], "memory": ["memory list trip", "memory run", "memory status",
                                        "memory add trip y", "memory clear trip --yes"],
    "prune": ["prune trip --yes"],
    "recall": ["recall --session trip train", "recall --session trip --parts train",
               "recall --session trip --memories trains"],
    "rekey": ["rekey --store safe.db --new-key-file new.key"], "repair": ["repair"],
    "rewind": ["rewind trip 2"], "rm": ["rm notes --yes"],
    "search": ["search train", "search nothing"],
    "set": ["set trip --title t"], "show": ["show trip"],
    "state": ["state trip", "state trip set a 1", "state trip delete a --yes"],
    "stats": ["stats"], "sweep": ["sweep"],
    "tail": ["tail trip"], "token": ["token new", "token new --app shop --user ana --tenant t",
                                     "token ls"],
    "tree": ["tree"], "upgrade": ["upgrade"],
    "usage": [f"usage --by {what}" for what in ("session", "user", "model", "day", "total")],
    "verify": ["verify", "verify --against heads.jsonl"], "version": ["version"],
    "window": ["window trip"],
}
# Members whose values are not quipu's: what a program or a model put there.
GIVEN = {"extra", "metadata", "value", "input", "output", "event", "parts", "settings"}


class Json(Every):
    def names(self, value, found, inside=""):
        if isinstance(value, dict):
            for name, inner in value.items():
                found.setdefault(name, inside)
                if name not in GIVEN:
                    self.names(inner, found, name)
        elif isinstance(value, list):
            for inner in value:
                self.names(inner, found, inside)

    def test_names_are_those_of_the_table_in_every_verb(self):
        text = (ROOT / "docs/cli.md").read_text("utf-8").split("## Names in JSON")[1]
        table = {name for row in re.findall(r"^\| (`.*?) \|", text, re.M)
                 for name in re.findall(r"`(\w+)`", row)}
        strange = {}
        for verb in VERBS:
            has = "--json" in self.run_quipu(verb, "--help").out
            self.assertEqual(has, verb in JSON, verb)
            folder = self.copy(f"json-{verb}") if has else None
            for line in JSON.get(verb, ()):
                env = {**self.env, **self.keyed(verb), "QUIPU_STORE": str(folder / "store.db")}
                done = subprocess.run([harness.program(), *line.split(), "--json"],
                                      cwd=folder, env=env, capture_output=True,
                                      stdin=subprocess.DEVNULL, check=False,
                                      timeout=harness.WAIT_S)
                self.assertIn(done.returncode, (0, 3) if "nothing" in line else (0,),
                              f"{line}: {done.stderr}")
                found = {}
                for one in done.stdout.decode().splitlines():
                    self.assertRegex(one, r"^[\[{].*[\]}]$", line)
                    self.names(json.loads(one), found)
                for name in set(found) - table:
                    strange[name] = line
                for name in found:
                    self.assertRegex(name, r"^[a-z][a-z0-9_]*$", line)
        self.assertFalse(strange, f"docs/cli.md lacks {strange}")


    def test_the_cursor_of_a_list_is_a_field(self):
        last = self.run_quipu("ls", "-n", 1, "--json").lines()[-1]
        self.assertEqual(set(last), {"next"})
        rest = self.run_quipu("ls", "--after", last["next"], "--json").lines()
        self.assertEqual(len(rest), 2)
        self.assertNotIn("next", rest[-1])

    def test_what_show_prints_can_be_appended(self):
        lines = self.run_quipu("show", "trip", "--json").raw_out
        self.run_quipu("append", "again", "--create", stdin=lines)
        again = self.run_quipu("show", "again", "--json").lines()
        self.assertEqual([m["content"] for m in again], [m["content"] for m in
                                                         map(json.loads, lines.splitlines())])


# Run in a pipe and on terminals. A verb that is not here is in NO_TEXT.
TEXT = {
    "bench": "bench --seconds 1", "context": "context trip", "diff": "diff trip trip/other",
    "doctor": "doctor --quick", "export": "export trip --format markdown", "feed": "feed",
    "head": "head trip", "ls": "ls", "memory": "memory list trip",
    "recall": "recall --session trip train", "search": "search train", "show": "show trip",
    "state": "state trip", "stats": "stats", "tail": "tail trip", "token": "token ls",
    "tree": "tree", "usage": "usage", "verify": "verify", "version": "version",
    "window": "window trip --budget 4000", "append": "append trip --text x",
    "backup": "backup {copy}/b.db", "compact": "compact trip --through 2 --summary s",
    "completion": "completion bash", "copy": "copy chats.db {copy}/c.db", "demo": "demo {copy}/d",
    "erase": "erase notes --yes", "fork": "fork trip f", "import": "import conversations.json",
    "init": "init --store {copy}/i.db", "prune": "prune trip --yes", "repair": "repair",
    "rewind": "rewind trip 2", "rm": "rm notes --yes", "set": "set trip --title t",
    "rekey": "rekey --store {copy}/safe.db --new-key-file {copy}/new.key",
    "sweep": "sweep", "upgrade": "upgrade",
}
NO_TEXT = {"chat", "mcp", "serve"}  # they have tests of their own on a pty
# What is laid out in columns or wrapped; other verbs report in sentences, or write what a program
# reads, and leave the line's end to the terminal.
LAID_OUT = {"diff", "ls", "memory", "search", "show", "state", "tail", "token", "tree", "usage",
            "window"}
PROGRESS = {"bench"}  # draws a bar


class Widths(Every):
    LOCALES = ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"})

    def run_in(self, folder, how, line, **more):
        env = {"QUIPU_STORE": str(folder / "store.db"), **self.keyed(line.split()[0]),
               **more.pop("env", {})}
        words = line.format(copy=folder).replace("chats.db", str(folder / "chats.db")).replace(
            "conversations.json", str(folder / "conversations.json")).split()
        return how(*words, env=env, **more)

    def test_each_verb_fits_its_terminal_and_is_harmless(self):
        self.assertEqual(set(VERBS), set(TEXT) | NO_TEXT)
        for verb, line in TEXT.items():
            for columns, locale in itertools.product((40, 80, 120), self.LOCALES):
                name = f"{verb}-{columns}-{locale['LC_ALL']}"
                with self.subTest(name):
                    text = self.run_in(self.copy(name), self.run_terminal, line, columns=columns,
                                       env=locale)
                    if verb not in PROGRESS:
                        self.assert_harmless(text, colours=True)
                    for shown in text.split("\n") if verb in LAID_OUT else ():
                        if not shown.startswith("quipu "):
                            self.assertLessEqual(wide(shown), columns, shown)

    def test_each_verb_in_a_pipe_has_neither_colours_nor_another_locale_s_text(self):
        for verb, line in TEXT.items():
            texts = []
            for number, locale in enumerate(self.LOCALES):
                result = self.run_in(self.copy(f"{verb}-pipe-{number}"), self.run_quipu, line,
                                     env={**locale, "TZ": "UTC"})
                self.assert_harmless(result.out)
                texts.append(re.sub(r"[0-9a-f]{8,}|\d+|copy-[\w-]+", "#", result.out))
            if verb not in {"bench", "demo", "doctor"}:  # they measure, or make ids
                self.assertEqual(texts[0], texts[1], verb)

    def test_no_color_means_no_colours(self):
        for verb, line in TEXT.items():
            with self.subTest(line):
                text = self.run_in(self.copy(f"{verb}-plain"), self.run_terminal, line,
                                   env={"NO_COLOR": "1", "LC_ALL": "C.UTF-8"})
                self.assertNotRegex(text, r"\x1b\[[0-9;]*m")

    def test_keys_and_names_of_any_width_fit_or_are_cut(self):
        keys = ("k" * 300, "\u6771\u4eac" * 90, "e\u0301" * 90, "a b  c", "--help", "-", "..",
                "\x1b[31m\x07\u202e\x9b key")
        for number, key in enumerate(keys):
            self.run_quipu("append", "--create", "--author", "\u6771" * 50, "--text",
                           f"{key} train" * 9, "--", key)
            self.run_quipu("state", "--", key, "set", key, "1")
            self.run_quipu("fork", "--", key, f"{key}/{number}")
        self.run_quipu("memory", "run")
        for key in keys:
            for line in (("show", key), ("tail", key), ("state", key), ("window", key),
                         ("diff", key, "trip"), ("tree", key), ("usage", key),
                         ("memory", "list", key), ("memory", "status", key)):
                for columns in (40, 80, 120):
                    self.fits(columns, line[0], "--", *line[1:])
        for line in (["ls", "-n0"], ["tree"], ["search", "train"], ["memory", "status"],
                     ["recall", "--everything", "train"], ["usage", "--by", "session"],
                     ["recall", "--everything", "train", "--parts"]):
            for columns in (40, 80, 120):
                self.fits(columns, *line)

    def fits(self, columns, *line):
        """No line of it is wider than the terminal, and none is harmful."""
        with self.subTest(line=line, columns=columns):
            text = self.run_terminal(*line, columns=columns, env={"LC_ALL": "C.UTF-8"})
            self.assert_harmless(text, colours=True)
            for shown in text.split("\n"):
                if not shown.startswith("quipu "):
                    self.assertLessEqual(wide(shown), columns, shown)

    def test_json_on_a_terminal_is_harmless_and_the_same(self):
        hostile = "\u202e\x9b31m \u200e\U000e0041"
        self.run_quipu("append", hostile, "--create", "--text", hostile * 3000)
        for args in (["export"], ["export", hostile], ["head", hostile], ["ls", "--json"],
                     ["show", hostile, "--raw"], ["export", hostile, "--format", "openai"]):
            with self.subTest(args):
                text = self.run_terminal(*args)
                self.assert_harmless(text)
                self.assertEqual([json.loads(line) for line in text.splitlines()],
                                 self.run_quipu(*args).lines())

    def test_help_fits_eighty_columns(self):
        for verb in VERBS:
            for shown in self.run_quipu(verb, "--help").out.splitlines():
                self.assertLessEqual(wide(shown), 80, f"{verb}: {shown}")


if __name__ == "__main__":
    harness.main()
