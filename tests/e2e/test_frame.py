#!/usr/bin/env python3
"""The frame of the program: words and options, help, exit codes, streams, completion in a real
shell, manual pages that agree with the table of verbs."""

import json
import os
import pathlib
import re
import select
import shutil
import sqlite3
import subprocess
import sys
import time

import harness


class Log(harness.Case):
    def test_the_log_is_a_json_object_a_line_without_texts(self):
        store = ("--store", self.folder / "secret.db")
        self.run_quipu("init", *store)
        result = self.run_quipu("append", *store, "--create", "secret-key", "--text", "secret",
                                env={"QUIPU_LOG": "debug"})
        entries = [json.loads(line) for line in result.err.splitlines() if line[:1] == "{"]
        self.assertIn("call", {entry["event"] for entry in entries})
        self.assertIn("close", {entry["event"] for entry in entries})
        for entry in entries:
            self.assertNotIn("secret", json.dumps(entry))

    def test_without_a_level_nothing_is_logged_and_a_wrong_one_is_refused(self):
        store = ("--store", self.folder / "a.db")
        self.assertNotIn("{", self.run_quipu("init", *store).err)
        result = self.run_quipu("ls", *store, env={"QUIPU_LOG": "loud"}, code=2)
        self.assertIn("error, warn, info or debug", result.err)


class Words(harness.Case):
    def test_a_mistyped_verb_is_answered_with_the_one_that_was_meant(self):
        result = self.run_quipu("verison", code=2)
        self.assertIn('did you mean "version"?', result.err)
        for word in ("nope", "xxpyx"):  # more than a third of the letters are others
            self.assertNotIn("did you mean", self.run_quipu(word, code=2).err, word)
        self.assertIn('did you mean "copy"?', self.run_quipu("coyp", code=2).err)
        self.assertEqual(result.out, "")

    def test_a_mistyped_option_is_answered_with_the_one_that_was_meant(self):
        pairs = (("--dryrun", "--dry-run"), ("--stroe=x", "--store"), ("--jsn", "--json"))
        for given, meant in pairs:
            result = self.run_quipu("import", given, "x", code=2)
            self.assertIn(f"did you mean {meant}?", result.err)

    def test_a_mistyped_value_is_answered_with_what_there_is(self):
        result = self.run_quipu("import", "--kind", "lnago", "x", code=2)
        self.assertIn('did you mean "lango"?', result.err)
        result = self.run_quipu("completion", "bahs", code=2)
        self.assertIn('did you mean "bash"?', result.err)

    def test_wrong_words_are_usage_errors(self):
        for args in (["import"], ["show", "a", "b"], ["import", "--store"], ["version", "x"],
                     ["import", "--json=1", "x"], ["import", "-Z", "x"]):
            result = self.run_quipu(*args, code=2)
            self.assertEqual(result.out, "")
            self.assertIn("quipu ", result.err)

    def test_a_missing_or_extra_word_of_a_word_is_named(self):
        for args, words in (
                (["memory"], "say what to do: list add clear show edit retire rm source run "
                             "status\nusage: quipu memory [OPTION]... WORD [KEY | ID] [TEXT]\n"),
                (["memory", "list"], "an argument is missing: KEY\nusage: quipu memory list KEY\n"),
                (["memory", "show", "a", "b"], 'there are too many arguments, from "b" on\n'
                                               "usage: quipu memory show ID\n"),
                (["token"], "say what to do: new ls rm\n")):
            err = self.run_quipu(*args, code=2).err
            self.assertTrue(err.startswith(f"quipu {args[0]}: {words}"), err)

    def test_common_options_may_stand_before_the_verb(self):
        self.assertIn("library", self.run_quipu("--json", "version").json())
        missing = self.run_quipu("--store", self.folder / "a.db", "import", "missing", code=3)
        self.assertIn("missing", missing.err)
        missing = self.run_quipu(f"--store={self.folder}/a.db", "-q", "sweep", code=3)
        self.assertIn("a.db: there is no store", missing.err)

    def test_options_without_a_verb_say_what_is_missing(self):
        for args in (["--store"], ["--store", "x"], ["-q"], ["--store=x", "--json"]):
            self.assertEqual(self.run_quipu(*args, code=2).err,
                             'quipu: a verb is missing; "quipu --help" lists them\n')
        for args in (["-n", "3", "ls"], ["--limit", "3", "ls"], ["--json", "--limit=3"]):
            given = next(arg for arg in args if arg != "--json")
            self.assertEqual(self.run_quipu(*args, code=2).err,
                             f"quipu: {given} does not stand before a verb: its own options follow "
                             'it; "quipu --help" lists them\n')
        text = self.run_quipu("--help").out
        for args in (["-h"], ["--store", "x", "--help"]):
            self.assertEqual(self.run_quipu(*args).out, text)
        self.assertEqual(self.run_quipu("--json", "--help", "ls").out,
                         self.run_quipu("ls", "--help").out)

    def test_hostile_words_are_shown_harmlessly(self):
        hostile = "\x1b]0;owned\x07\u202e\udcff\x9b"
        for args in ((hostile,), ("import", f"--{hostile}"), ("import", hostile),
                     ("import", "--kind", hostile, "x")):
            result = self.run_quipu(*args, code=None)
            self.assertNotEqual(result.code, 0)
            self.assert_harmless(result.err)
        self.assertIn("<U+202E>", result.err)
        self.assertIn("<FF>", result.err)

    def test_a_terminal_gets_the_same_words(self):
        for args in (["version"], ["version", "--json"], ["completion", "bash"], ["--help"]):
            self.assertEqual(self.run_terminal(*args), self.run_quipu(*args).out)

    def test_help_can_be_asked_for_in_three_ways(self):
        text = self.run_quipu("show", "--help").out
        self.assertEqual(self.run_quipu("show", "-h").out, text)
        self.assertEqual(self.run_quipu("help", "show").out, text)
        self.assertEqual(self.run_quipu("help").out, self.run_quipu("--help").out)
        self.assertIn('did you mean "show"?', self.run_quipu("help", "shwo", code=2).err)

    def test_help_shows_every_option_of_every_verb(self):
        for verb in verbs():
            text = self.run_quipu(verb, "--help").out
            self.assertRegex(text, rf"^usage: quipu {verb} ")
            self.assertIn("--help", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100, text)


def verbs():
    text = subprocess.run([harness.program(), "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  (\w+) +\S", text.stdout, re.M)


class Output(harness.Case):
    """What cannot be written is a failure that says why, and never lands in another file."""

    def test_output_that_nobody_takes_is_a_failure_with_its_reason(self):
        self.run_quipu("init")
        for args in (["--help"], ["ls", "--help"], ["version"], ["stats"]):
            with open("/dev/full", "wb") as full:
                process = self.start_quipu(*args, stdout=full)
            self.assertEqual(process.wait(harness.WAIT_S), 1, args)
            self.assertIn(b"could not be written: is the disk full?", process.stderr.read())
            reading, writing = os.pipe()
            os.close(reading)
            process = self.start_quipu(*args, stdout=writing, restore_signals=False)
            os.close(writing)
            self.assertEqual(process.wait(harness.WAIT_S), 1, args)
            self.assertIn(b"could not be written: nobody reads it", process.stderr.read())
            process = self.start_quipu(*args, preexec_fn=lambda: os.close(1))
            self.assertEqual(process.wait(harness.WAIT_S), 1, args)
            self.assertIn(b"could not be written: it is closed", process.stderr.read())

    def test_files_do_not_take_the_place_of_closed_streams(self):
        self.run_quipu("append", "k", "--create", "--text", "x")
        for fd in (0, 1, 2):
            path = self.folder / f"e{fd}.jsonl"
            process = self.start_quipu("export", "-o", path, preexec_fn=lambda f=fd: os.close(f))
            self.assertEqual(process.wait(harness.WAIT_S), 1 if fd == 1 else 0)
            self.assertEqual(path.read_bytes(), self.run_quipu("export").raw_out)
            held = self.start_quipu("tail", "-f", "k", preexec_fn=lambda f=fd: os.close(f))
            name = f"/proc/{held.pid}/fd/{fd}"
            end = time.monotonic() + harness.WAIT_S
            while not self.opened(held.pid):
                self.assertLess(time.monotonic(), end, "it opens no store")
                if held.poll() is not None:
                    break
            if held.poll() is None:
                self.assertEqual(os.readlink(name), "/dev/null")
            held.kill()

    def opened(self, pid):
        """Whether a process has the store open."""
        try:
            return any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(self.store)
                       for fd in os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return False


class Store(harness.Case):
    """Where the store is: --store, QUIPU_STORE, the XDG data folder, the home folder."""

    def made(self, *args, env):
        self.run_quipu("init", *args, env={"QUIPU_STORE": "", **env})
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*.db"))

    def test_the_option_wins_over_the_environment(self):
        env = {"QUIPU_STORE": str(self.folder / "b.db"), "XDG_DATA_HOME": str(self.folder / "x")}
        self.assertEqual(self.made("--store", self.folder / "a.db", env=env), ["a.db"])

    def test_the_environment_wins_over_the_data_folder(self):
        env = {"QUIPU_STORE": str(self.folder / "b.db"), "XDG_DATA_HOME": str(self.folder / "x")}
        self.assertEqual(self.made(env=env), ["b.db"])

    def test_the_data_folder_is_made(self):
        found = self.made(env={"XDG_DATA_HOME": str(self.folder / "x" / "y")})
        self.assertEqual(found, ["x/y/quipu/store.db"])

    def test_the_home_folder_is_the_last_resort(self):
        self.assertEqual(self.made(env={}), ["home/.local/share/quipu/store.db"])

    def test_without_any_place_it_says_what_to_give(self):
        result = self.run_quipu("ls", env={"QUIPU_STORE": "", "HOME": ""}, code=1)
        self.assertIn("--store", result.err)

    def test_a_path_has_a_limit(self):
        limit = 4095
        longest = "/" + "x" * (limit - 1)
        result = self.run_quipu("ls", "--store", longest, code=None)
        self.assertNotIn("too long: more than", result.err)
        result = self.run_quipu("ls", "--store", longest + "x", code=1)
        self.assertIn(f"too long: more than {limit} bytes", result.err)


class Progress(harness.Case):
    """A bar with rate: on a terminal, after a second, unless --quiet is given."""

    def feed(self, *args):
        """Import an export whose writer pauses for longer than a second; returns stderr."""
        messages = [{"role": "user", "content": "x" * 1000} for _ in range(3000)]
        lines = [json.dumps(line) + "\n" for line in harness.export_lines({"k": messages})]
        data = "".join(lines).encode()
        master, slave = harness.open_pty()
        process = self.start_quipu("import", "-", *args, stderr=slave)
        os.close(slave)
        process.stdin.write(data[: len(data) // 2])
        process.stdin.flush()
        time.sleep(1.2)
        process.stdin.write(data[len(data) // 2 :])
        process.stdin.close()
        self.assertEqual(process.wait(timeout=harness.WAIT_S), 0)
        text = b""
        while select.select([master], [], [], 0)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:
                break
        os.close(master)
        return text.decode()

    def test_a_slow_import_shows_how_far_it_is(self):
        text = self.feed()
        self.assertRegex(text, r"\rreading, [\d.]+ \w+, [\d.]+ \w+/s\x1b\[K")
        self.assertTrue(text.endswith("\r\x1b[K"), repr(text[-80:]))

    def test_quiet_shows_nothing(self):
        self.assertEqual(self.feed("--quiet"), "")

    def erase(self, *args):
        """Erase in a terminal while a reader prevents checkpoints of the log."""
        self.run_quipu("append", "k", "--create", "--text", "x" * 100000)
        reader = sqlite3.connect(self.store, isolation_level=None)
        self.addCleanup(reader.close)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        return reader, self.terminal("erase", "k", "--yes", *args)

    def test_a_call_without_progress_is_polled(self):
        reader, terminal = self.erase()
        terminal.expect("s left")
        reader.execute("ROLLBACK")
        text = terminal.finish()
        self.assertEqual(terminal.code, 0)
        self.assertRegex(text, r"\rerasing \[[#.]{20}\] +\d+%, \d+ s left, [\d.]+ \w+, [\d.]+ \w")
        self.assertIn("\r\x1b[Ksession  k\n", text)

    def test_what_is_reported_stands_on_a_line_of_its_own(self):
        self.run_quipu("append", "k", "--create", "--text", "x")
        writer = sqlite3.connect(self.store, isolation_level=None)
        self.addCleanup(writer.close)
        writer.execute("BEGIN IMMEDIATE")
        text = self.run_terminal("rm", "k", "--yes", "--wait", "2", code=5)
        self.assertRegex(text, r"\rdeleting .*\x1b\[K\r\x1b\[Kquipu rm: k: ")

    def test_without_a_total_there_is_a_rate(self):
        reader, terminal = self.erase("--quick")
        terminal.expect("/s")
        reader.execute("ROLLBACK")
        self.assertRegex(terminal.finish(), r"\rerasing, [\d.]+ \w+, [\d.]+ \w+/s\x1b\[K")

    def test_a_watched_call_can_be_interrupted(self):
        reader, terminal = self.erase()
        terminal.expect("s left")
        terminal.send("\x03")
        text = terminal.finish()
        self.assertEqual(terminal.code, 1)
        self.assertIn("interrupted", text)
        reader.execute("ROLLBACK")


class Completion(harness.Case):
    def complete(self, *words):
        """What bash offers after these words."""
        script = (
            '. <("$0" completion bash)\nCOMP_WORDS=(quipu "$@")\nCOMP_CWORD=$#\n'
            '_quipu\nprintf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", script, harness.program(), *words],
            capture_output=True, text=True, check=True, env=self.env, cwd=self.folder,
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_verbs(self):
        self.assertLessEqual(set(verbs()), set(self.complete("")))
        self.assertEqual(self.complete("versi"), ["version"])

    def test_bash_completes_options_of_the_verb(self):
        self.assertEqual(self.complete("import", "--dr"), ["--dry-run"])
        self.assertIn("--store", self.complete("import", "--"))
        self.assertNotIn("--dry-run", self.complete("version", "--"))

    def test_bash_completes_values_and_words(self):
        self.assertEqual(self.complete("import", "--kind", "la"), ["lango", "langgraph"])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])

    def test_bash_completes_files(self):
        (self.folder / "chats.jsonl").touch()
        self.assertEqual(self.complete("import", "cha"), ["chats.jsonl"])

    def check_syntax(self, shell, *flags):
        text = self.run_quipu("completion", shell).out
        for verb in verbs():
            self.assertIn(verb, text)
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        path = self.folder / "script"
        path.write_text(text, encoding="utf-8")
        subprocess.run([shell, *flags, str(path)], check=True, capture_output=True)

    def test_bash_script_is_valid(self):
        self.check_syntax("bash", "-n")

    def test_zsh_script_is_valid(self):
        self.check_syntax("zsh", "-n")

    def test_fish_script_is_valid(self):
        self.check_syntax("fish", "--no-execute")


class Manual(harness.Case):
    def check(self, root, *args):
        """What tools/check_man.py says about the pages of a tree."""
        build = pathlib.Path(harness.program()).parent.parent
        tool = harness.ROOT / "tools" / "check_man.py"
        command = [sys.executable, str(tool), "--root", str(root), "--build", str(build), *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_every_page_agrees_with_the_program(self):
        done = self.check(harness.ROOT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_page_that_differs_or_is_missing_is_found(self):
        pages = self.folder / "docs" / "man"
        shutil.copytree(harness.ROOT / "docs" / "man", pages)
        show = (pages / "quipu-show.1").read_text(encoding="utf-8")
        (pages / "quipu-show.1").write_text(show.replace("unfold", "expand"), encoding="utf-8")
        (pages / "quipu-ls.1").unlink()
        (pages / "quipu-fly.1").write_text("", encoding="utf-8")
        done = self.check(self.folder)
        self.assertEqual(done.returncode, 1)
        for text in ("quipu-show.1:1: OPTIONS is not", "quipu-ls.1:0: the verb has no",
                     "quipu-fly.1:1: there is no such verb", "3 violations"):
            self.assertIn(text, done.stdout)
        self.check(self.folder, "--fix")
        self.assertEqual((pages / "quipu-show.1").read_text(encoding="utf-8"), show)

    def test_every_page_can_be_read(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for page in sorted((harness.ROOT / "docs" / "man").glob("*.1")):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", str(page)],
                                  capture_output=True, text=True, check=True)
            self.assertEqual(done.stderr, "", page.name)


if __name__ == "__main__":
    harness.main()
