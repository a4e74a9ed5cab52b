#!/usr/bin/env python3
"""Tools of quipu chat: commands and MCP servers, with the peer of tests/provider as the model. A
line of what a user says, NAME {arguments}, is a call of the model."""

import json
import os
import pathlib
import shlex
import signal
import sys
import time

import harness
import test_chat

OUTPUT_MAX = 131072  # APP_TOOL_OUTPUT_MAX
TOOLS_MAX = 128
REPEATS_MAX = 64
SERVER = pathlib.Path(__file__).with_name("mcp_server.py")


class Tools(test_chat.Model):
    """Helpers: one question, what the model got, and programs that must be gone."""

    def ask(self, says, *args, code=0, **more):
        """One turn; what is recalled would be more lines for the peer to call."""
        return self.chat("call", "--model", "m", "--no-recall", *args, stdin=says, code=code,
                         **more)

    def results(self):
        """The contents of the tools' messages in the last request, parsed."""
        return [json.loads(m["content"]) for m in self.requests()[-1]["messages"]
                if m["role"] == "tool"]

    def result(self, says, *args, **more):
        """The result of one allowed call."""
        self.ask(says, "--yes", *args, **more)
        return self.results()[-1]

    def script(self, name, text):
        """A program of the test's folder."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def server(self, how, *rest):
        """The command of the server that misbehaves."""
        return " ".join(map(str, (sys.executable, SERVER, how, *rest)))

    def wait_for(self, path):
        """The number in a file, as soon as a program has written it."""
        end = time.monotonic() + harness.WAIT_S
        while not (path.exists() and path.read_text().endswith("\n")):
            self.assertLess(time.monotonic(), end, f"no {path}")
            time.sleep(0.01)
        return int(path.read_text())

    def assert_gone(self, pid):
        """Our own child's child is not there any more, or only as a zombie of init."""
        end = time.monotonic() + harness.WAIT_S
        while time.monotonic() < end:
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return
            if state == "Z":
                return
            time.sleep(0.01)
        self.fail(f"process {pid} is still there")


class Commands(Tools):
    def test_a_command_gets_arguments_as_json_and_its_output_is_kept(self):
        self.assertEqual(self.result('cat {"city":"Oslo"}', "--tool", "cat=cat"), {"city": "Oslo"})
        offered = self.requests()[-1]["tools"]
        self.assertEqual([t["function"]["name"] for t in offered], ["cat"])
        self.assertEqual(offered[0]["function"]["parameters"]["type"], "object")
        self.assertIn("Runs: cat", offered[0]["function"]["description"])
        called = self.run_quipu("show", "k", "--json").lines()[1]["tool_calls"]
        self.assertEqual([(c["name"], json.loads(c["input"])) for c in called],
                         [("cat", {"city": "Oslo"})])
        self.assertIn('cat {"city":"Oslo"} \u2190 {"city":"Oslo"}',
                      self.run_quipu("show", "k", env={"LC_ALL": "C.UTF-8"}).out)
        self.assertIn('{"city":"Oslo"}', self.run_quipu("window", "k").out)
        self.chat("talk", "--text", "and now?")  # without tools the next prompt still has them
        roles = [m["role"] for m in self.requests()[-1]["messages"]]
        self.assertEqual(roles, ["user", "assistant", "tool", "assistant", "user"])

    def test_every_provider_s_calls_run(self):
        keys = {"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
        for kind in ("anthropic", "gemini"):
            self.chat("talk", "--model", "m", "--provider", kind, "--text", "use the tool",
                      "--tool", "weather=cat", "--yes", env=keys)
            self.assertIn("Oslo", json.dumps(self.requests()[-1]))
            calls = self.run_quipu("show", "k", "--json").lines()[-2]["tool_calls"]
            self.assertEqual([c["name"] for c in calls], ["weather"])
            self.chat("talk", "--model", "m", "--provider", kind, "--text", "and now?", env=keys)

    def test_no_shell_reads_a_command_that_names_none(self):
        words = "a 'b  c' \"d \\\" e\" f\\ g $HOME * `id` ''"
        tool = f"args={self.script('args', 'for a; do echo [$a]; done').as_posix()} {words}"
        self.assertEqual(self.result("args", "--tool", tool)["result"].splitlines(),
                         ["[a]", "[b c]", '[d " e]', "[f g]", "[$HOME]", "[*]", "[`id`]", "[]"])
        for command, wanted in (("a=cat | wc", "sh -c"), ("a=cat > x", "sh -c"),
                                ("a=cat 'x", "not closed"), ("a=", "empty"), ("a=''", "empty"),
                                ("a=no-such-program", "no program here"),
                                ("cat", "NAME=COMMAND"), ("1a=cat", "NAME=COMMAND"),
                                (f"{'n' * 65}=cat", "1 to 64"), ("a.b=cat", "NAME=COMMAND")):
            with self.subTest(command):
                self.assertIn(wanted, self.ask("x", "--yes", "--tool", command, code=2).err)
        self.assertEqual(self.result("a", "--tool", "a=sh -c 'cat | wc -c'"), {"result": 2})
        self.assertEqual(self.result("n" * 64, "--tool", f"{'n' * 64}=echo fine"),
                         {"result": "fine"})

    def test_a_failure_is_a_result_that_says_why(self):
        fails = self.script("fails", "echo half; echo reason >&2; exit 3")
        self.assertEqual(self.result("f", "--tool", f"f={fails}"),
                         {"error": "exit status 3", "output": "half", "stderr": "reason"})
        killed = self.script("killed", "kill -9 $$")
        self.assertEqual(self.result("f", "--tool", f"f={killed}"), {"error": "ended by signal 9"})
        gone = self.script("gone", "rm $0")
        done = self.ask("f\nf", "--yes", "--tool", f"f={gone}")
        self.assertEqual(self.results()[-2], {"result": ""})
        self.assertIn("cannot be started: No such file", self.results()[-1]["error"])
        self.assertIn("cannot be started", done.err)
        self.assertEqual(self.result("other", "--tool", "f=cat"),
                         {"error": "there is no such tool"})

    def test_what_takes_too_long_is_ended_with_all_that_it_started(self):
        pids = [self.folder / "one", self.folder / "two"]
        slow = self.script("slow", f"trap '' TERM\nsleep 100 & echo $! > {pids[0]}\n"
                                   f"echo $$ > {pids[1]}\nwait; sleep 100")
        got = self.result("s", "--tool", f"s={slow}", "--tool-timeout", "3")
        self.assertEqual(got, {"error": "no answer within 3 seconds"})
        for path in pids:
            self.assert_gone(self.wait_for(path))

    def test_what_a_command_leaves_running_is_neither_waited_for_nor_left(self):
        pid = self.folder / "pid"
        left = self.script("left", f"sleep 100 & echo $! > {pid}; echo done")
        self.assertEqual(self.result("s", "--tool", f"s={left}"), {"result": "done"})
        self.assert_gone(self.wait_for(pid))

    def test_one_that_leaves_its_process_group_is_ended(self):
        leaves = self.folder / "leaves"
        leaves.write_text(f"#!{sys.executable}\nimport os, time\n"
                          "os.setpgid(0, os.getpgid(os.getppid()))\ntime.sleep(600)\n")
        leaves.chmod(0o755)
        got = self.result("s", "--tool", f"s={leaves}", "--tool-timeout", "1")
        self.assertEqual(got, {"error": "no answer within 1 seconds"})

    def test_a_tool_gets_neither_our_files_nor_our_key(self):
        look = self.folder / "look"
        look.write_text(f"#!{sys.executable}\nimport json, os\nheld = []\n"
                        "for fd in range(1024):\n    try:\n        os.fstat(fd)\n"
                        "    except OSError:\n        continue\n    held.append(fd)\n"
                        "print(json.dumps([held, [n for n in os.environ if 'KEY' in n]]))\n")
        look.chmod(0o755)
        for option, left in (((), ["OTHER_KEY"]), (("--key-env", "OTHER_KEY"), ["OPENAI_API_KEY"])):
            got = self.result("s", "--tool", f"s={look}", *option,
                              env={"OPENAI_API_KEY": "secret", "OTHER_KEY": "other"})
            self.assertEqual(got["result"], [[0, 1, 2], left])

    def test_output_has_a_limit(self):
        def output(n):
            tool = self.script(f"out{n}", f"head -c {n} /dev/zero | tr '\\0' x")
            return self.result("o", "--tool", f"o={tool}", "--budget", "200000")

        self.assertEqual(output(OUTPUT_MAX), {"result": "x" * OUTPUT_MAX})
        self.assertEqual(output(OUTPUT_MAX + 1),
                         {"error": f"the result has more than {OUTPUT_MAX} bytes; ask for less"})
        self.assertIn("more than", self.result("o", "--tool", "o=yes")["error"])

    def test_pipes_that_nobody_reads_hold_up_nothing(self):
        argument = json.dumps({"text": "y" * 300000})
        self.assertEqual(self.result(f"d {argument}", "--tool", "d=echo unread",
                                     "--budget", "400000"), {"result": "unread"})
        said = self.script("said", "exec >&2\nhead -c 300000 /dev/zero | tr '\\0' e\n"
                                   "echo end\nexit 1")
        got = self.result("d", "--tool", f"d={said}", "--budget", "400000")
        self.assertEqual((len(got["stderr"]), got["stderr"][-4:]), (1999, "eend"))

    def test_bytes_that_are_no_text_do_not_break_the_session(self):
        raw = self.script("raw", "printf '\\377\\000\\033[31mred\\303'")
        self.assertIn("red", self.result("r", "--tool", f"r={raw}")["result"])
        fails = self.script("fails", "printf '\\377\\033' >&2; exit 1")
        self.assertIn("stderr", self.result("r", "--tool", f"r={fails}"))
        self.assert_harmless(self.run_terminal("show", "k", "--color", "never"))
        self.run_quipu("verify")

    def test_names_are_unique_and_numbers_limited(self):
        err = self.ask("x", "--yes", "--tool", "a=cat", "--tool", "a=date", code=2).err
        self.assertIn('two tools have the name "a"', err)
        many = [word for number in range(REPEATS_MAX) for word in ("--tool", f"t{number}=cat")]
        self.assertEqual(self.result(f"t{REPEATS_MAX - 1}", *many), {})
        self.assertIn("at most 64", self.ask("x", "--yes", *many, "--tool", "more=cat",
                                             code=2).err)
        self.ask("x", "--yes", "--tool", "a=cat", "--tool-timeout", "0", code=2)
        err = self.ask("x", "--tool", "a=cat", "--allow", "b", code=2).err
        self.assertIn('there is no tool "b"; there are:', err)
        self.assertIn("  a\n", err)


class Consent(Tools):
    def test_without_a_terminal_nothing_runs_that_is_not_allowed(self):
        ran = self.folder / "ran"
        tools = ("--tool", f"a=touch {ran}", "--tool", "b=echo fine")
        self.assertIn("--allow NAME", self.ask("a", *tools, code=2).err)
        self.assertNotIn('"a"', json.dumps(self.requests()))
        err = self.ask("a\nb", *tools, "--allow", "b").err
        self.assertIn("a was not run: give --allow a, or --yes", err)
        self.assertEqual(self.results()[-2:], [{"error": "this tool is not allowed to run"},
                                               {"result": "fine"}])
        self.assertFalse(ran.exists())
        self.ask("a", *tools, "--yes")
        self.assertTrue(ran.exists())

    def asked(self, terminal, says, answer):
        """One question of a person's, with the answer to the question about its call."""
        terminal.out = b""
        terminal.send(f"{says}\n")
        terminal.expect("[a]lways: ")
        terminal.send(f"{answer}\n")
        terminal.expect("You said: ")
        terminal.expect("out]")
        terminal.expect("> ", after="out]")  # an end of input that is typed before it is lost

    def test_a_person_is_asked_before_each_call(self):
        for library in ("none", "libreadline"):
            with self.subTest(library):
                terminal = self.open_chat("call", "--tool", "say=cat", "--tool", "b=echo fine",
                                          env={"QUIPU_EDITOR_LIBRARY": library,
                                               "LC_ALL": "C.UTF-8"})
                hostile = '{"x":"\\u001b[31m' + "long " * 40 + 'end"}'
                for answer, wanted in (("y", {"x": 1}), ("n", "refused"), ("", "refused"),
                                       ("maybe", "refused"), ("YES", {"x": 1})):
                    self.asked(terminal, 'say {"x":1}', answer)
                    self.assertIn("The model calls say with:", terminal.text())
                    got = self.results()[-1]
                    self.assertEqual(wanted, "refused" if "refused" in str(got) else got)
                self.asked(terminal, f"say {hostile}", "always")
                self.assertIn("end", terminal.text().partition("The model calls")[2])
                terminal.out = b""
                terminal.send('say {"x":2}\n')  # not asked again, but shown
                terminal.expect('[say {"x":2}]')
                terminal.expect("out]")
                self.asked(terminal, "b", "n")  # "always" is for one tool
                terminal.send("/tools\n")
                terminal.expect("- b: ")
                terminal.send("/quit\n")
                terminal.finish()
                self.assertEqual(terminal.code, 0)
                self.run_quipu("rm", "k", "--yes")

    def test_blanks_between_arguments_push_nothing_off_the_screen(self):
        terminal = self.open_chat("call", "--tool", "say=cat", env={"QUIPU_EDITOR_LIBRARY": "none"})
        self.asked(terminal, 'say {"a b":1,' + " \t" * 200 + '"c":"d  \\" e"}', "y")
        self.assertIn('  {"a b":1,"c":"d  \\" e"}', terminal.text())

    def test_ctrl_c_at_the_question_ends_the_turn_and_not_the_chat(self):
        for library in ("none", "libreadline"):
            terminal = self.open_chat("call", "--tool", "say=cat",
                                      env={"QUIPU_EDITOR_LIBRARY": library, "LC_ALL": "C.UTF-8"})
            terminal.send('say {"x":1}\n')
            terminal.expect("[a]lways: ")
            terminal.send("\x03")
            terminal.expect("interrupted")
            terminal.out = b""
            self.asked(terminal, "say {}", "y")
            terminal.send("\x04")
            terminal.finish()
            self.assertEqual(terminal.code, 0)
            self.assertEqual(self.results()[-1], {})
            self.run_quipu("rm", "k", "--yes")

    def test_one_text_on_a_terminal_asks_too(self):
        terminal = self.terminal("chat", "k", "--base-url", f"{self.url}/call", "--model", "m",
                                 "--tool", "say=cat", "--text", 'say {"x":1}')
        terminal.expect("[a]lways: ")
        terminal.send("y\n")
        self.assertIn('You said: {"x":1}', terminal.finish())


class Interrupted(Tools):
    def slow(self):
        """A tool that writes its number and never answers."""
        self.pid = self.folder / "pid"
        return ("--yes", "--tool", f"s={self.script('slow', f'echo $$ > {self.pid}; sleep 100')}")

    def assert_goes_on(self):
        """The next prompt pairs every call with a result, and the store is whole."""
        self.assertEqual(self.chat("talk", "--text", "well?").out, "You said: well?.\n")
        messages = self.requests()[-1]["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "tool", "user"])
        self.assertEqual(messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"])
        self.run_quipu("verify")

    def test_ctrl_c_ends_a_tool_and_the_talk_goes_on(self):
        terminal = self.open_chat("call", *self.slow())
        terminal.send("s\n")
        pid = self.wait_for(self.pid)
        terminal.send("\x03")
        terminal.expect("interrupted; the answer so far is stored")
        self.assert_gone(pid)
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)
        self.assert_goes_on()

    def start_slow(self, **more):
        """A chat whose tool runs, and the numbers of the tool and of a server."""
        server = self.folder / "server"
        chat = self.start_quipu("chat", "k", "--base-url", f"{self.url}/call", "--model", "m",
                                "--text", "s", *self.slow(), "--mcp", self.server("good", server),
                                **more)
        return chat, self.wait_for(self.pid), int(server.read_text())

    def test_sigterm_and_a_closed_terminal_end_a_tool_and_its_server(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            chat, *pids = self.start_slow()
            chat.send_signal(number)
            self.assertEqual(chat.wait(harness.WAIT_S), 1)
            for pid in pids:
                self.assert_gone(pid)
            self.assert_goes_on()
            self.run_quipu("rm", "k", "--yes")
            self.pid.unlink()

    def test_under_nohup_a_closed_terminal_ends_nothing(self):
        chat, pid, _ = self.start_slow(
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        chat.send_signal(signal.SIGHUP)
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(chat.wait(harness.WAIT_S), 0)
        self.assertIn("ended by signal 15", json.dumps(self.results()))

    def test_after_a_kill_the_session_goes_on_and_servers_have_ended(self):
        chat, pid, server = self.start_slow()
        chat.kill()
        chat.wait()
        self.assert_gone(server)
        os.kill(pid, signal.SIGKILL)  # nobody could end the command
        self.assert_goes_on()


class Servers(Tools):
    def echo(self, how, *args, says='echo {"city":"Oslo"}', rest=()):
        """The result of a call of a server's tool."""
        return self.result(says, "--mcp", self.server(how, *rest), *args)

    def test_our_own_server_s_tools_are_called(self):
        self.run_quipu("append", "old", "--create", "--text", "the quince costs 27 coins")
        server = f"{harness.program()} mcp --session old"
        got = self.result('recall {"question":"What does the quince cost?"}', "--mcp", server)
        self.assertIn("27 coins", json.dumps(got))
        names = [t["function"]["name"] for t in self.requests()[-1]["tools"]]
        self.assertIn("list_sessions", names)
        named = self.result('past_recall {"question":"quince?"}', "--mcp", f"past={server}",
                            "--mcp", server)
        self.assertIn("27 coins", json.dumps(named))
        err = self.ask("x", "--yes", "--mcp", server, "--mcp", server, code=2).err
        self.assertIn("--mcp NAME=COMMAND", err)

    def test_a_server_is_greeted_asked_and_ended(self):
        pid = self.folder / "pid"
        got = self.echo("good", rest=(pid,))
        self.assertEqual(got["arguments"], {"city": "Oslo"})
        self.assertEqual(got["seen"], ["initialize", "notifications/initialized", "tools/list",
                                       "tools/call"])
        self.assert_gone(int(pid.read_text()))
        self.assertEqual(len(self.requests()[-1]["tools"]), 1)
        got = self.result('b_echo {"x":1}', "--mcp", f"a={self.server('good')}", "--mcp",
                          f"b={self.server('good')}")
        self.assertEqual(got["arguments"], {"x": 1})

    def test_one_that_does_not_end_is_ended(self):
        pid = self.folder / "pid"
        self.echo("stays", rest=(pid,))
        self.assert_gone(int(pid.read_text()))

    def test_noise_and_requests_of_a_server_are_dealt_with(self):
        got = self.echo("noise")["result"]
        self.assertEqual([got[0]["id"], got[0]["result"]], ["p", {}])
        self.assertEqual([got[1]["id"], got[1]["error"]["code"]], [7, -32601])

    def test_a_call_has_a_deadline_and_a_late_answer_is_not_the_next_one_s(self):
        late = {"error": "no answer within 3 seconds"}
        self.assertEqual(self.echo("mute", "--tool-timeout", "3"), late)
        self.echo("slow", "--tool-timeout", "3",
                  says='echo {"slow":true}\necho {"number":2}\necho {"number":3}')
        first, _, third = self.results()[-3:]
        self.assertEqual((first, third["arguments"]), (late, {"number": 3}))
        self.assertIn("notifications/cancelled", third["seen"])
        self.assertIn("no answer", self.echo("chatter", "--tool-timeout", "1")["error"])

    def test_a_server_that_dies_is_an_error_of_this_call_and_of_the_next(self):
        err = self.ask("echo\necho", "--yes", "--mcp", self.server("dies")).err
        for got in self.results():
            self.assertIn("the server has ended: it ended with status 7: it", got["error"])
        self.assertNotIn("\x1b[31m", err)
        self.assertEqual(len(self.results()), 2)

    def test_messages_of_a_server_have_a_limit(self):
        limit = 'echo {"more":%d}'
        self.assertIn("more than 131072 bytes", self.echo("line", says=limit % 0)["error"])
        self.assertIn("above 4 MiB", self.echo("line", says=limit % 1)["error"])
        self.assertIn("above 4 MiB", self.echo("flood")["error"])
        size = 'echo {"size":%d}'
        budget = ("--budget", "200000")
        self.assertEqual(self.echo("size", *budget, says=size % OUTPUT_MAX),
                         {"result": "x" * OUTPUT_MAX})
        self.assertIn("more than", self.echo("size", says=size % (OUTPUT_MAX + 1))["error"])

    def test_errors_and_media_of_a_server_are_results(self):
        self.assertEqual(self.echo("fails"), {"error": "no such city"})
        self.assertEqual(self.echo("refuses"),
                         {"error": "the server refused the call: no such city"})
        self.assertEqual(self.echo("image")["content"][0]["mimeType"], "image/png")

    def test_a_server_that_cannot_be_used_is_named_before_anything_is_stored(self):
        for command, wanted in ((self.server("broken"), "status 1: no module named weather"),
                                (self.server("newer"), "none of the revisions"),
                                (self.server("endless"), "lists no tools"),
                                ("no-such-server", "cannot be started: No such file"),
                                ("cat", "refused to initialize"), ("true", "it ended"),
                                ("x | y", "sh -c"), ("1x=cat", "cannot be started")):
            with self.subTest(command):
                err = self.ask("x", "--yes", "--mcp", command, code=None).err
                self.assertIn(wanted, err)
        self.assertEqual(self.run_quipu("ls", code=None).out.count("k "), 0)

    def test_names_that_no_provider_takes_are_left_out(self):
        err = self.ask("fine", "--yes", "--mcp", self.server("names")).err
        names = [t["function"]["name"] for t in self.requests()[-1]["tools"]]
        self.assertEqual(names, ["fine", "x" * 64])
        self.assertEqual(err.count("is left out"), 7)
        self.ask("s_fine", "--yes", "--mcp", f"s={self.server('names')}")
        self.assertEqual(self.requests()[-1]["tools"][0]["function"]["name"], "s_fine")

    def test_all_pages_are_listed_and_the_number_is_limited(self):
        self.ask("page2", "--yes", "--mcp", self.server("pages"))
        self.assertEqual(len(self.requests()[-1]["tools"]), 3)
        self.ask("t127", "--yes", "--mcp", self.server(f"many{TOOLS_MAX}"), "--budget", "100000")
        self.assertEqual(len(self.requests()[-1]["tools"]), TOOLS_MAX)
        err = self.ask("x", "--yes", "--mcp", self.server(f"many{TOOLS_MAX + 1}"), code=2).err
        self.assertIn("at most 128 tools", err)
        for count, code, wanted in ((TOOLS_MAX, 0, "left out"), (TOOLS_MAX + 1, 2, "at most 128")):
            err = self.ask("x", "--yes", "--mcp", self.server(f"bad{count}"), code=code).err
            self.assertEqual((wanted in err, err.count("left out")), (True, TOOLS_MAX))
        servers = [word for number in range(16)
                   for word in ("--mcp", f"s{number}={self.server('good')}")]
        self.ask("s15_echo", "--yes", *servers)
        err = self.ask("x", "--yes", *servers, "--mcp", f"more={self.server('good')}", code=2).err
        self.assertIn("at most 16 MCP servers", err)


class Examples(Tools):
    def test_the_examples_offer_their_tools(self):
        page = (harness.ROOT / "docs/man/quipu-chat.1").read_text(encoding="utf-8")
        shown = page.split(".SH EXAMPLES")[1].replace("\\-", "-").splitlines()
        bin_dir = self.folder / "bin"
        bin_dir.mkdir()
        (bin_dir / "quipu").symlink_to(harness.program())
        self.env["PATH"] = f"{bin_dir}:{self.env['PATH']}"
        for option, tool in (("--tool ", "today"), ("--mcp ", "recall")):
            line, = [line for line in shown if option in line]
            words = shlex.split(line)[1:]
            self.run_quipu(*words, env={"QUIPU_BASE_URL": f"{self.url}/one"})
            offered = [t["function"]["name"] for t in self.requests()[-1]["tools"]]
            self.assertIn(tool, offered)


class Files(Tools):
    def declare(self, value):
        path = self.folder / "tools.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return ("--tools", path)

    def test_a_file_declares_descriptions_schemas_and_servers(self):
        schema = {"type": "object", "properties": {"city": {"type": "string"}},
                  "required": ["city"]}
        args = self.declare({
            "tools": [{"name": "weather", "description": "The weather of a city.",
                       "inputSchema": schema, "command": "cat"},
                      {"name": "words", "command": "echo", "args": ["a  b", "|"]}],
            "mcpServers": {"other": {"type": "stdio", "command": sys.executable,
                                     "args": [str(SERVER), "good"], "env": {"CITY": "Lima"}}}})
        self.assertEqual(self.result('weather {"city":"Oslo"}', *args), {"city": "Oslo"})
        offered = self.requests()[-1]["tools"][0]["function"]
        self.assertEqual((offered["description"], offered["parameters"]),
                         ("The weather of a city.", schema))
        self.assertEqual(self.result("words", *args), {"result": "a  b |"})
        self.assertEqual(self.result("other_echo", *args)["city"], "Lima")

    def test_wrong_files_are_named(self):
        tool = {"name": "a", "command": "cat"}
        for value, wanted in (("{", "is not JSON"), ("{}", 'neither "tools" nor "mcpServers"'),
                              ("[]", "neither"), ({"tools": [7]}, '"command"'),
                              ({"tools": [{"name": "a"}]}, '"a" cannot be used'),
                              ({"tools": [{**tool, "inputSchema": 1}]}, '"inputSchema"'),
                              ({"tools": [{**tool, "inputSchema": {}}]}, '"type": "object"'),
                              ({"tools": [{**tool, "args": [1]}]}, '"args"'),
                              ({"tools": [tool, tool]}, "two tools"),
                              ({"tools": [{**tool, "name": "a b"}]}, 'no tool "a b"'),
                              ({"mcpServers": {"x": {"url": "http://x"}}}, '"command"'),
                              ({"mcpServers": {"x y": {"command": "cat"}}}, '"x y"'),
                              ({"mcpServers": {"x": {"command": "cat", "env": {"A": 1}}}}, "env")):
            with self.subTest(value):
                self.assertIn(wanted, self.ask("x", "--yes", *self.declare(value), code=2).err)
        self.ask("x", "--yes", "--tools", self.folder / "none.json", code=3)
        whole = json.dumps({"tools": [tool]})
        limit = 1048576
        self.ask("a", "--yes", *self.declare(whole + " " * (limit - len(whole))))
        self.assertIn("larger than 1048576",
                      self.ask("a", "--yes", *self.declare(whole + " " * (limit + 1 - len(whole))),
                               code=2).err)


if __name__ == "__main__":
    harness.main()
