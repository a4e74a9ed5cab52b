#!/usr/bin/env python3
"""The habits of a program that people like: local times, a pager, quiet success, notes behind the
data, keys in completion, and messages that name what is wrong and what to do."""

import json
import shutil
import subprocess
import unittest

import harness


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.run_quipu("append", "trip", "--create", "--text", "Hello",
                       "--event-id", "1")


class Times(Case):
    def test_people_see_local_times_and_programs_utc(self):
        harness.make_store(self, {"k": [{"role": "user", "content": "x"}]})
        utc = self.run_quipu("show", "k", "--utc", env={"TZ": "Asia/Tokyo"}).out
        local = self.run_quipu("show", "k", env={"TZ": "JST-9"}).out
        self.assertIn("begun     2026-03-20 09:46:40 UTC", utc)
        self.assertIn("begun     2026-03-20 18:46:40 JST", local)
        self.assertIn("18:46:41", local)
        late = self.run_quipu("show", "k", env={"TZ": "EST-20"}).out
        self.assertIn("── 2026-03-21 ──", late)
        for zone in ("UTC", "JST-9"):
            line = self.run_quipu("show", "k", "--json", env={"TZ": zone}).lines()[0]
            self.assertEqual(line["timestamp"], "2026-03-20T09:46:41Z")
            page = self.run_quipu("export", "k", "--format", "markdown", env={"TZ": zone}).out
            self.assertIn("begun 2026-03-20 09:46:40 UTC", page)


class Pager(Case):
    def test_less_is_the_pager_without_one_and_leaves_short_output_on_the_screen(self):
        tools = self.folder / "tools"
        tools.mkdir()
        less = tools / "less"
        less.write_text("#!/bin/sh\necho LESS \"$@\"; exec cat\n", encoding="utf-8")
        less.chmod(0o755)
        env = {"PATH": f"{tools}:{self.env['PATH']}"}
        del self.env["PAGER"]
        shown = self.run_terminal("show", "trip", env=env)
        self.assertTrue(shown.startswith("LESS -FRX\n"), shown)
        self.assertNotIn("LESS", self.run_terminal("show", "trip", "--no-pager", env=env))
        self.assertNotIn("LESS", self.run_terminal("show", "trip", env={**env, "PAGER": ""}))
        self.assertNotIn("LESS", self.run_quipu("show", "trip", env=env).out)


    def test_what_can_be_long_is_paged_and_notes_come_behind_the_pager(self):
        self.env["QUIPU_FEED"] = "on"
        self.run_quipu("append", "trip", stdin=json.dumps(
            {"role": "assistant", "content": "Hello, too", "model": "m", "prompt_tokens": 1}))
        self.run_quipu("fork", "trip", "other")
        for line in ("show trip", "ls", "ls -n 1", "tree", "diff trip other", "search Hello",
                     "feed", "recall --everything Hello", "window trip", "usage", "context trip"):
            with self.subTest(line):
                plain = self.run_terminal(*line.split())
                shown = self.run_terminal(*line.split(), env={"PAGER": "sed s/^/PAGED:/"})
                note = shown.find("quipu ")
                data, notes = (shown, "") if note < 0 else (shown[:note], shown[note:])
                self.assertEqual(data, "".join(f"PAGED:{part}\n" for part in
                                               plain.partition("quipu ")[0].splitlines()))
                self.assertNotIn("PAGED", notes)
                self.assertEqual(self.run_terminal(*line.split(), "--no-pager",
                                                   env={"PAGER": "false"}), plain)
        missing = self.run_terminal("diff", "trip", "none", code=3, env={"PAGER": "sed s/^/P:/"})
        self.assertTrue(missing.startswith("quipu diff: there is no session"), missing)


    @unittest.skipUnless(shutil.which("less"), "needs less")
    def test_ctrl_c_is_the_pager_s_and_any_locale_shows_what_is_said(self):
        harness.make_store(self, {f"\u00e9\u6771{i}": [{"role": "user", "content": "x"}]
                                  for i in range(40)})
        del self.env["PAGER"]
        for locale in ("C", "C.UTF-8"):
            terminal = self.terminal("ls", "-n0", env={"LC_ALL": locale})
            terminal.expect("\n:")
            self.assertIn("\u00e9\u6771", terminal.text())
            terminal.send("\x03")
            for _ in range(harness.WAIT_S):  # less drops what is typed before it has answered
                if not terminal.read(1):
                    break
                terminal.send("q")
            terminal.finish()
            self.assertEqual(terminal.code, 0)


class Quiet(Case):
    def test_quiet_verbs_say_nothing_of_success_and_all_of_failure(self):
        for args in (["append", "trip", "--text", "x"], ["set", "trip", "--title", "T"],
                     ["fork", "trip", "other"], ["rm", "other", "--yes"],
                     ["compact", "trip", "--through", "1", "--summary", "s"],
                     ["prune", "trip", "--yes"], ["sweep"]):
            with self.subTest(args[0]):
                result = self.run_quipu(*args, "-q")
                self.assertEqual((result.out, result.err), ("", ""))
        done = self.run_quipu("set", "trip", "--title", "U", "-q", "--json").json()
        self.assertEqual(done["key"], "trip")
        self.assertIn("there is no session", self.run_quipu("rm", "no", "--yes", "-q", code=3).err)

    def test_notes_come_behind_the_data(self):
        done = subprocess.run(
            [harness.program(), "window", "trip", "--budget", "100"], env=self.env, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertRegex(done.stdout, r"(?s)^MESSAGE.*Hello\nquipu window: 1 message,")
        done = subprocess.run(
            [harness.program(), "ls", "--limit", "1"], env=self.env, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertTrue(done.stdout.startswith("KEY"))


class Completion(Case):
    def complete(self, line):
        """What bash offers at the end of a line."""
        script = self.run_quipu("completion", "bash").out
        program = harness.program()
        words = line.split(" ")
        body = (f"quipu() {{ {program} \"$@\"; }}\n{script}\n"
                "COMP_WORDS=(" + " ".join(f"'{word}'" for word in words) + ")\n"
                f"COMP_CWORD={len(words) - 1}\nCOMP_LINE='{line}'\nCOMP_POINT=${{#COMP_LINE}}\n"
                "_quipu\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
        done = subprocess.run(["bash", "-c", body], env=self.env, capture_output=True, text=True,
                              check=False)
        return done.stdout.split("\n")[:-1]

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_bash_offers_the_keys_of_the_store(self):
        self.run_quipu("append", "tram", "--create", "--text", "x")
        self.run_quipu("append", "adk:a/b", "--create", "--text", "x")
        self.assertEqual(sorted(self.complete("quipu show tr")), ["tram", "trip"])
        self.assertEqual(self.complete("quipu show adk:a"), ["a/b"])
        self.assertIn("show", self.complete("quipu sh"))

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_keys_that_look_like_commands_are_not_run(self):
        mark = self.folder / "owned"
        self.run_quipu("append", f"zz$(touch {mark})", "--create", "--text", "x")
        offered = self.complete("quipu show zz")
        self.assertEqual(len(offered), 1)
        self.assertFalse(mark.exists())

    def offered(self, *command):
        """What another shell offers."""
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "quipu").symlink_to(harness.program())
        env = {**self.env, "PATH": f"{tools}:{self.env['PATH']}"}
        return subprocess.run(command, env=env, capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def test_fish_offers_the_keys_of_the_store(self):
        mark = self.folder / "owned"
        self.run_quipu("append", f"try$(touch {mark}) it", "--create", "--text", "x")
        line = 'quipu completion fish | source; complete -C "quipu show tr"'
        self.assertEqual(sorted(self.offered("fish", "-c", line)),
                         ["trip", f"try$(touch {mark}) it"])
        self.assertFalse(mark.exists())

    def test_zsh_offers_the_keys_of_the_store(self):
        mark = self.folder / "owned"
        self.run_quipu("append", f"try$(touch {mark}) it", "--create", "--text", "x")
        line = ("compdef() { }; compadd() { print -l -r -- $keys }; . <(quipu completion zsh); "
                "_quipu_keys")
        self.assertEqual(sorted(self.offered("zsh", "-f", "-c", line)),
                         ["trip", f"try$(touch {mark}) it"])
        self.assertFalse(mark.exists())

    def test_every_shell_gets_the_keys(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("quipu ls --keys", self.run_quipu("completion", shell).out)
        self.assertEqual(self.run_quipu("ls", "--keys").out, "trip\n")


class Mistakes(Case):
    """What people mistype and mix up, with the message and the exit code that they get."""

    MISTAKES = (
        (["shwo", "trip"], 2,
         'quipu: there is no verb "shwo"; did you mean "show"? "quipu --help" lists them'),
        (["show"], 2,
         'quipu show: an argument is missing: KEY\nusage: quipu show [OPTION]... KEY'),
        (["show", "tirp"], 3,
         'quipu show: there is no session "tirp"; did you mean "trip"? "quipu ls" lists them'),
        (["show", "no\nsuch\tkey"], 3,
         'quipu show: there is no session "no␊such␉key"; "quipu ls" lists them'),
        (["show", "trip", "--lats", "3"], 2,
         'quipu show: there is no option --lats; did you mean --last? see "quipu show --help"'),
        (["show", "trip", "--last", "many"], 2,
         'quipu show: --last must be a number from 1 to 4294967295, not "many"'),
        (["show", "trip", "extra"], 2,
         'quipu show: there are too many arguments, from "extra" on\nusage: quipu show '
         '[OPTION]... KEY'),
        (["ls", "--since", "yesterday"], 2,
         'quipu ls: --since must be a time such as 2026-03-21T10:00:00Z, or an age such as '
         '2h, not "yesterday"'),
        (["ls", "--store", "{folder}/none.db"], 3,
         'quipu ls: {folder}/none.db: there is no store\n"quipu init" creates one; --store '
         'names another'),
        (["ls", "--store", "{folder}"], 1,
         'quipu ls: {folder}: cannot open {folder}: it is a folder; give the path of a file'),
        (["ls", "--store", "{folder}/text.txt"], 1,
         'quipu ls: {folder}/text.txt: cannot open {folder}/text.txt: it is no SQLite '
         'database but another program\'s file, or it is encrypted; give another path'),
        (["append", "new", "--text", "x"], 3,
         'quipu append: there is no session "new"; --create creates it'),
        (["append", "trip", "--role", "king", "--text", "x"], 2,
         'quipu append: --role cannot be "king"; there are: user assistant tool function '
         'model system'),
        (["append", "trip", "{folder}/text.txt"], 1,
         'quipu append: {folder}/text.txt, line 1: not JSON: expected a value at byte 0\n'
         'quipu append: nothing was stored; --keep-going skips such lines'),
        (["set", "trip"], 2,
         'quipu set: say what to change: --title, --model, --agent, --metadata, --tag, '
         '--untag or --ttl'),
        (["rm", "trip"], 2,
         'quipu rm: delete the session "trip" with 1 message? There is no terminal to ask on: '
         'give --yes to go on'),
        (["erase", "tirp", "--yes", "-q"], 3,
         'quipu erase: there is no session "tirp"; did you mean "trip"? "quipu ls" lists them'),
        (["fork", "trip", "trip"], 4,
         'quipu fork: trip: cannot fork session "trip": a session with the new key exists '
         'already'),
        (["copy", "{store}", "{store}"], 2,
         'quipu copy: {store}: FROM and TO are the same store; name a new one to copy into'),
        (["import", "{folder}/text.txt"], 1,
         'quipu import: {folder}/text.txt is of no known kind\nquipu import: known kinds: '
         'adk-database adk-v0 adk-sqlite adk-go lango llm openai-agents langgraph '
         '(databases), claude-code codex chatgpt chat (JSON), export; other messages can be '
         'stored with "quipu append"'),
        (["export", "--format", "html"], 2,
         'quipu export: --format html needs a KEY, and goes without --flat '
         'and --encrypt'),
        (["usage", "--by", "week"], 2,
         'quipu usage: --by cannot be "week"; there are: session user model day total'),
        (["diff", "trip"], 2,
         'quipu diff: an argument is missing: OTHER\nusage: quipu diff [OPTION]... KEY OTHER'),
    )

    def test_typical_mistakes_are_named_with_what_to_do(self):
        (self.folder / "text.txt").write_text("hello\n", encoding="utf-8")
        for args, code, words in self.MISTAKES:
            with self.subTest(" ".join(args)):
                args = [arg.format(folder=self.folder, store=self.store) for arg in args]
                result = self.run_quipu(*args, code=code)
                words = words.format(folder=self.folder, store=self.store)
                self.assertEqual(result.err, words + "\n")
                self.assertEqual(result.out, "")

    def test_another_program_s_file_gets_no_advice_to_repair(self):
        path = self.folder / "text.txt"
        path.write_text("hello\n" * 1000, encoding="utf-8")
        err = self.run_quipu("ls", "--store", path, code=1).err
        self.assertNotIn("repair", err)
        self.assertIn("give another path", err)


class Verbs(Case):
    def test_help_fits_80_columns_and_names_every_option(self):
        verbs = [line.split()[0] for line in self.run_quipu("--help").out.splitlines()
                 if line.startswith("  ") and line[2:3].isalpha()]
        self.assertGreater(len(verbs), 30)
        for verb in verbs:
            with self.subTest(verb):
                text = self.run_quipu(verb, "--help", env={"LC_ALL": "C"}).out
                self.assertLessEqual(max(map(len, text.splitlines())), 80, text)

    def test_reading_verbs_fit_and_are_harmless_at_every_width(self):
        self.run_quipu("fork", "trip", "trip/other")
        for args in (["ls"], ["show", "trip"], ["tail", "trip"], ["tree"], ["usage"], ["stats"],
                     ["diff", "trip", "trip/other"], ["window", "trip", "--budget", "9"],
                     ["state", "trip"], ["feed"], ["search", "Hello"]):
            for columns in (40, 80, 120):
                for env in ({"NO_COLOR": "1"}, {"NO_COLOR": "1", "LC_ALL": "C"}):
                    with self.subTest(args=args, columns=columns):
                        text = self.run_terminal(*args, columns=columns, env=env)
                        self.assert_harmless(text)
                self.assertNotIn("\x1b", self.run_quipu(*args).out)

    def test_json_is_the_same_in_a_pipe_and_on_a_terminal(self):
        for args in (["ls"], ["show", "trip"], ["usage"], ["tree", "--all"]):
            text = self.run_terminal(*args, "--json")
            self.assertEqual(text, self.run_quipu(*args, "--json").out)
            for line in text.splitlines():
                json.loads(line)


if __name__ == "__main__":
    harness.main()
