#!/usr/bin/env python3
"""quipu chat, in a pipe and in a pseudo-terminal, with the peer of tests/provider as its model."""

import ctypes
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

import harness
import test_every_verb

PEER = harness.ROOT / "tests" / "provider" / "peer.py"
KEY = "sk-e2e-0123456789"


class Model(harness.Case):
    """Each test has a peer of its own; `self.url` is its address."""

    def setUp(self):
        super().setUp()
        self.log = self.folder / "log"
        self.peer = subprocess.Popen(
            [sys.executable, str(PEER), str(self.log)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end_peer)
        self.url = f"http://127.0.0.1:{self.peer.stdout.readline().strip()}"
        tried = self.run_quipu("chat", "--model", "m", "--text", "x", "--base-url",
                               f"{self.url}/talk", "try", code=None)
        if "without libcurl" in tried.err:
            print("SKIP: quipu was built without libcurl")
            self.skipTest("quipu was built without libcurl")

    def end_peer(self):
        self.peer.stdin.close()
        self.peer.kill()  # our own child: some of its threads may still sleep
        self.peer.wait()
        self.peer.stdout.close()

    def chat(self, how, *args, **more):
        """Run it in a pipe, with session "k"."""
        return self.run_quipu("chat", "k", "--base-url", f"{self.url}/{how}", *args, **more)

    def open_chat(self, how, *args, **more):
        """Start it in a terminal, with session "k", and wait for the prompt."""
        terminal = self.terminal("chat", "k", "--base-url", f"{self.url}/{how}", "--model", "m",
                                 *args, **more)
        terminal.expect("> ")
        return terminal

    def history(self):
        """(role, content, mark) of each message of session "k"."""
        lines = self.run_quipu("show", "k", "--json").lines()
        return [(m["role"], m["content"], m.get("mark")) for m in lines]

    def requests(self):
        """The bodies that the peer got."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(json.loads(line)["body"] or "null") for line in lines]


class Chat(Model):
    def test_one_text_is_answered_and_kept(self):
        result = self.chat("talk", "--model", "m", "--text", "hello")
        self.assertEqual(result.out, "You said: hello.\n")
        self.assertRegex(result.err, r"\[\d+ tokens in, 3 of them cached, 9 out\]")
        self.assertEqual(self.history(), [("user", "hello", None),
                                          ("assistant", "You said: hello.", None)])
        self.assertEqual(self.chat("talk", "--text", "x", "--quiet").err, "")

    def test_a_worker_refuses_what_a_model_says_in_another_form(self):
        """The peer talks instead of observing: nothing is kept, and the status says why."""
        self.run_quipu("append", "k", "--create", "--role", "user", "--text", "I prefer trains.")
        model = ("--model", "m", "--base-url", f"{self.url}/talk")
        ran = self.run_quipu("memory", "run", "k", *model, "--tokens", "1", "--json").json()
        self.assertEqual((ran["failed"], ran["observations"], ran["model_calls"]), (1, 0, 1))
        status = self.run_quipu("memory", "status", "k", "--json").json()
        self.assertIn("no JSON", status["last_error"])
        self.assertEqual((status["watermark"], status["model_calls"]), (0, 1))
        self.assertGreater(status["model_input"], 0)
        self.assertIn("[1 user ", json.dumps(self.requests()[-1]))
        shown = self.run_quipu("memory", "status", "k").out
        self.assertIn("asked a model 1 times", shown)
        self.run_quipu("memory", "run", "k", "--ask", "500", code=2)

    def test_an_agent_has_a_prompt_of_its_own(self):
        """A worker for an app asks with the prompt of a file, and with our form behind it."""
        self.run_quipu("append", "k", "--create", "--role", "user", "--text", "I prefer trains.")
        prompt = self.folder / "prompt.txt"
        model = ("--model", "m", "--base-url", f"{self.url}/talk", "--tokens", "1")
        run = ("memory", "run", "k", *model, "--observer-prompt")
        prompt.write_text("Write down the trains.\n", encoding="utf-8")
        self.run_quipu(*run, prompt, "--reflector-prompt", prompt)
        sent = self.requests()[-1]["messages"][0]
        self.assertEqual(sent["role"], "system")
        self.assertTrue(sent["content"].startswith("Write down the trains.\n\nAn observation is"))
        self.run_quipu(*run, "-", stdin="From stdin.")
        limit = 16384
        prompt.write_text("x" * limit, encoding="utf-8")
        self.run_quipu(*run, prompt)
        prompt.write_text("x" * (limit + 1), encoding="utf-8")
        self.assertIn("longer than 16384 bytes", self.run_quipu(*run, prompt, code=2).err)
        prompt.write_text("", encoding="utf-8")
        self.assertIn("is empty", self.run_quipu(*run, prompt, code=2).err)
        prompt.write_bytes(b"\xff")
        self.assertIn("not UTF-8", self.run_quipu(*run, prompt, code=1).err)
        self.run_quipu(*run, "missing.txt", code=3)
        alone = self.run_quipu("memory", "run", "--reflector-prompt", prompt, code=2)
        self.assertIn("--model", alone.err)

    def test_a_chat_that_observes_by_a_model_takes_its_prompts(self):
        prompt = self.folder / "prompt.txt"
        prompt.write_text("Write down the boats.\n", encoding="utf-8")
        self.run_quipu("append", "k", "--create", "--role", "user", "--text", "tea " * 5000)
        terminal = self.open_chat("watch", "--observe-model", "mute", "--observer-prompt",
                                  str(prompt), "--reflector-prompt", str(prompt))
        terminal.send("one\n")
        terminal.expect("You said: one.")
        end = time.monotonic() + harness.WAIT_S
        asked = []
        while not asked:
            self.assertLess(time.monotonic(), end, "no worker has asked")
            time.sleep(0.01)
            asked = [request for request in self.requests() if request["model"] == "mute"]
        self.assertTrue(asked[0]["messages"][0]["content"].startswith("Write down the boats.\n"))
        terminal.send("\x04")
        terminal.finish()
        for name in ("--observer-prompt", "--reflector-prompt"):
            err = self.chat("k", "--model", "m", "--text", "x", name, prompt, code=2).err
            self.assertIn("give --observe-model, too", err)
            err = self.chat("k", "--model", "m", "--text", "x", "--observe-model", "m", name, "-",
                            code=2).err
            self.assertIn("stdin", err)

    def test_a_question_in_other_words_finds_a_message_by_its_vector(self):
        for text in ("my puppy chewed the sofa", "the railway is slow", "coffee is ready"):
            self.run_quipu("append", "k", "--create", "--role", "user", "--text", text)
        embed = ("--embed", "m", "--base-url", f"{self.url}/meaning")
        ask = ("recall", "--session", "k", "--json", "--parts")
        self.assertEqual(self.run_quipu(*ask, "locomotives").lines(), [])
        none = self.run_quipu(*ask, *embed, "slow")
        self.assertIn("memory run --embed m", none.err)
        ran = self.run_quipu("memory", "run", "k", *embed, "--embed-only", "--json").json()
        self.assertEqual((ran["embedded"], ran["failed"], ran["sessions"]), (3, 0, 0))
        hit = self.run_quipu(*ask, *embed, "locomotives").lines()[0]
        self.assertEqual((hit["content"], hit["words"]), ("the railway is slow", 0))
        self.assertAlmostEqual(hit["vector"], 0.4)
        self.assertIn("vector 0.4", self.run_quipu("recall", "--session", "k", "--parts", *embed,
                                                   "locomotives").out)
        more = self.run_quipu("memory", "run", "k", "--embed", "n", *embed[2:], "--replace").out
        self.assertIn("3 messages embedded", more)
        self.assertIn("memory run --embed m", self.run_quipu(*ask, *embed, "slow").err)

    def test_options_of_an_embedder_need_one(self):
        for args in (("recall", "--everything", "x", "--base-url", "u"),
                     ("memory", "run", "--embed-only"), ("memory", "run", "--replace"),
                     ("memory", "run", "--base-url", "u")):
            self.assertIn("--embed", self.run_quipu(*args, code=2).err)

    def test_an_answer_that_cannot_be_printed_is_a_failure(self):
        process = self.start_quipu("chat", "k", "--base-url", f"{self.url}/talk", "--model", "m",
                                   "--text", "hello", preexec_fn=lambda: os.close(1))
        self.assertEqual(process.wait(harness.WAIT_S), 1)
        self.assertIn(b"could not be written", process.stderr.read())

    def test_whole_input_is_one_turn(self):
        result = self.chat("talk", "--model", "m", stdin="two\nlines\n")
        self.assertEqual(result.out, "You said: two\nlines.\n")
        self.assertEqual(len(self.history()), 2)

    def test_each_line_is_a_turn_when_asked(self):
        result = self.chat("talk", "--model", "m", "--lines", stdin="one\n\ntwo")
        self.assertEqual(result.out, "You said: one.\nYou said: two.\n")
        self.assertEqual(len(self.history()), 4)

    def test_the_talk_goes_on_by_its_key_with_its_model(self):
        self.chat("talk", "--model", "m1", "--text", "first", "--system", "Be kind.")
        self.chat("talk", "--text", "second")
        last = self.requests()[-1]
        self.assertEqual(last["model"], "m1")
        self.assertEqual([m["content"] for m in last["messages"]],
                         ["Be kind.", "first", "You said: first.", "second"])
        before = self.requests()[-2]
        self.assertEqual(before["messages"][0], {"role": "system", "content": "Be kind."})
        self.chat("talk", "--text", "third", "--model", "m2", "--max-tokens", "7")
        self.assertEqual(self.requests()[-1]["model"], "m2")
        self.assertEqual(self.requests()[-1]["max_tokens"], 7)
        self.chat("talk", "--text", "fourth")
        self.assertEqual(self.requests()[-1]["model"], "m2")

    def test_what_no_longer_fits_is_recalled(self):
        self.chat("talk", "--model", "m", "--text", "the quince costs 27 coins")
        for number in range(20):
            self.run_quipu("append", "k", "--text", f"line {number}" + " of wind and rain" * 50)
        asks = ("--budget", "1000", "--text", "What did the quince cost?")
        self.chat("talk", *asks)
        self.assertIn("the quince costs 27 coins", str(self.requests()[-1]["messages"][-1]))
        self.assertEqual(self.history()[-2][1], "What did the quince cost?")
        self.chat("talk", "--no-recall", *asks)
        self.assertNotIn("27", str(self.requests()[-1]["messages"][-1]))

    def test_with_an_embedder_what_was_said_in_other_words_is_recalled(self):
        """The chat makes vectors of what is said, and asks by them."""
        self.run_quipu("append", "k", "--create", "--text", "the railway is slow")
        for number in range(20):
            self.run_quipu("append", "k", "--text", f"line {number}" + " of wind and rain" * 50)
        asks = ("--model", "m", "--budget", "1000", "--text", "Tell me about locomotives")
        self.chat("meaning", "--embed", "e", *asks)
        self.chat("meaning", *asks)
        self.assertNotIn("railway", str(self.requests()[-1]["messages"]))
        self.chat("meaning", "--embed", "e", *asks)
        talks = [request for request in self.requests() if "messages" in request]
        self.assertIn("the railway is slow", str(talks[-1]["messages"][-1]))
        asked = [request for request in self.requests() if "input" in request]
        self.assertTrue(asked and all(request["model"] == "e" for request in asked))

    def test_what_was_added_to_memory_is_sent_and_the_past_is_shown_again(self):
        """`memory add` reaches the next turn; each prompt begins with the one before it."""
        self.chat("talk", "--model", "m", "--system", "Be kind.", "--text", "first")
        plain = self.requests()[-1]["messages"]
        self.assertNotIn("Memory", str(plain))
        self.run_quipu("context", "k", "--at", 1, code=3)
        self.run_quipu("memory", "add", "k", "Ana prefers trains.")
        talk = ("talk", "--model", "m", "--system", "Be kind.", "--text")
        self.chat(*talk, "second")
        second = self.requests()[-1]["messages"]
        self.assertEqual(second[:len(plain)], plain)
        self.assertIn("- Ana prefers trains.\n\nsecond", second[-1]["content"])
        ident = self.run_quipu("memory", "add", "k", "Prices in euros.", "--json").json()["id"]
        result = self.chat(*talk, "third")
        self.assertRegex(result.err, r"3 of them cached \(\d+ expected\)")
        third = self.requests()[-1]["messages"]
        self.assertEqual(third[:len(second)], second)
        self.assertIn("- Prices in euros.", third[-1]["content"])
        self.run_quipu("memory", "retire", ident, "she pays in soles")
        shown = self.run_quipu("context", "k", "--json").json()
        self.assertEqual(shown["reason"], "memory")
        asked = [c for c in shown["contents"] if c["role"] == "user"]  # the peer repeats them
        self.assertNotIn("euros", str([shown["system"], asked]))
        self.chat(*talk, "fourth")
        asked = [m for m in self.requests()[-1]["messages"] if m["role"] != "assistant"]
        self.assertNotIn("euros", str(asked))
        self.assertEqual(self.run_quipu("context", "k", "--json").json()["reason"], "same")
        self.chat(*talk, "fifth", "--no-memory")
        asked = [m for m in self.requests()[-1]["messages"] if m["role"] != "assistant"]
        self.assertNotIn("trains", str(asked))
        for at, sent in ((3, second), (4, second), (5, third), (6, third)):
            past = self.run_quipu("context", "k", "--at", at, "--json").json()
            self.assertEqual("\n".join(past["system"]), sent[0]["content"])
            self.assertEqual(["".join(part["text"] for part in content["parts"])
                              for content in past["contents"]],
                             [message["content"] for message in sent[1:]])
            self.assertTrue(past["exact"])
        self.assertIn("Ana prefers trains.", self.run_quipu("context", "k").out)
        self.run_quipu("context", "kk", code=3)

    def test_what_is_said_is_observed_beside_the_chat_when_asked(self):
        """A wish of one chat holds in the next; without --observe nothing is made."""
        self.chat("talk", "--model", "m", "--text", "I prefer boats.")
        self.assertEqual(self.run_quipu("memory", "list", "k", "--json").lines(), [])
        self.chat("talk", "--observe", "--text", "I prefer trains.")
        known = [m["content"] for m in self.run_quipu("memory", "list", "k", "--json").lines()]
        self.assertEqual(sorted(known), ["I prefer boats.", "I prefer trains."])
        self.chat("talk", "--text", "hello")
        self.assertIn("- I prefer boats.\n- I prefer trains.\n\nhello",
                      self.requests()[-1]["messages"][-1]["content"])
        self.run_quipu("append", "new", "--create", "--role", "user", "--text", "hi")
        self.run_quipu("memory", "add", "new", "I am Ana.")
        shown = self.run_quipu("context", "new", "--json").json()
        self.assertIn("### Standing\n- I am Ana.", shown["system"][0])

    def test_a_chat_never_waits_for_the_model_that_observes_it(self):
        """The model's worker hangs; the talk goes on, and ends at once."""
        self.run_quipu("append", "k", "--create", "--role", "user", "--text", "tea " * 5000)
        terminal = self.open_chat("watch", "--observe-model", "mute")
        terminal.send("one\n")
        terminal.expect("You said: one.")
        end = time.monotonic() + harness.WAIT_S
        while not any(request["model"] == "mute" for request in self.requests()):
            self.assertLess(time.monotonic(), end, "no worker has asked")
            time.sleep(0.01)
        terminal.send("two\n")
        terminal.expect("You said: two.")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)
        status = self.run_quipu("memory", "status", "k", "--json").json()
        self.assertEqual((status["watermark"], status["model_calls"]), (0, 1))
        self.assertNotIn("last_error", status)  # it was cancelled, and has not failed
        self.assertNotIn("owner", status)

    def test_the_only_model_is_found_and_several_are_reported(self):
        self.chat("one", "--text", "hi")
        self.assertEqual(self.requests()[-1]["model"], "only")
        result = self.run_quipu("chat", "new", "--base-url", f"{self.url}/list", "--text", "hi",
                                code=2)
        self.assertIn("--model NAME", result.err)
        self.assertIn("m1", result.err)
        self.assertIn("m2", result.err)

    def test_other_formats_are_spoken(self):
        for kind in ("anthropic", "gemini"):
            result = self.chat("talk", "--model", "m", "--provider", kind, "--text", kind,
                               env={"ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY})
            self.assertEqual(result.out, f"You said: {kind}.\n")
        self.assertEqual(len(self.history()), 4)

    def test_the_key_comes_from_a_file_or_a_variable_and_stays_there(self):
        path = self.folder / "key"
        path.write_text(f"{KEY}\n", encoding="utf-8")
        for args, env in ((["--key-file", path], {}), (["--key-env", "MINE"], {"MINE": KEY})):
            result = self.chat("bad", "--model", "m", "--text", "hi", *args, env=env, code=1)
            self.assertIn("not with Bearer", result.err)
            self.assertNotIn(KEY, result.err + result.out)
        heads = [json.loads(line)["headers"] for line in self.log.read_text().splitlines()]
        self.assertEqual([h.get("authorization") for h in heads[-2:]], [f"Bearer {KEY}"] * 2)
        self.assertNotIn(KEY.encode(), self.store.read_bytes())
        self.chat("talk", "--model", "m", "--text", "hi", "--key-file", "missing", code=3)

    def test_errors_say_what_happened(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            result = self.run_quipu("chat", "k", "--model", "m", "--text", "hi", "--base-url",
                                    f"http://127.0.0.1:{port}", code=1)
        self.assertIn(f"127.0.0.1 port {port}", result.err)
        self.assertIn("lost it", self.chat("error", "--model", "m", "--text", "hi", code=1).err)
        self.assertEqual(self.history()[-1], ("assistant", "So", "timeout"))
        self.chat("talk", "--model", "m", stdin=" \n", code=2)
        self.chat("talk", "--model", "m", "--text", " ", code=2)
        self.chat("talk", "--budget", "0", "--text", "x", code=2)
        result = self.chat("stall", "--model", "m", "--text", "hi", "--timeout", "1", code=5)
        self.assertEqual(result.out, "So\n")

    def test_a_person_talks_and_leaves(self):
        terminal = self.open_chat("talk")
        self.assertIn("0 messages so far", terminal.text())
        terminal.send("hello\n")
        terminal.expect("You said: hello.")
        terminal.expect("3 of them cached")
        terminal.send("again\n")
        terminal.expect("You said: again.")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)
        self.assertEqual(len(self.history()), 4)
        terminal = self.open_chat("talk")
        self.assertIn("4 messages so far", terminal.text())
        terminal.send("\x03")  # at the prompt it ends the talk
        terminal.finish()
        self.assertEqual(terminal.code, 0)

    def test_a_talk_is_harmless_at_every_width_and_in_every_locale(self):
        hostile = "\x1b]0;owned\x07\u202e\x9b " + "\u6771\u4eac" * 60
        self.run_quipu("memory", "add", "try", hostile)
        for columns in (40, 80, 120):
            for locale in ("C", "C.UTF-8"):
                with self.subTest(columns=columns, locale=locale):
                    terminal = self.terminal(
                        "chat", "try", "--base-url", f"{self.url}/talk", "--model", "m", "--tool",
                        "say=cat", columns=columns,
                        env={"LC_ALL": locale, "NO_COLOR": "1", "QUIPU_EDITOR_LIBRARY": "none"})
                    terminal.expect("> ")
                    for line, wanted in (("/help", "//text"), ("/memory", "- "),
                                         ("/tools", "- say: "), ("/nonsense", "no command"),
                                         ("hello", "out]")):
                        terminal.send(f"{line}\n")
                        terminal.expect(wanted)
                    terminal.send("\x04")
                    text = terminal.finish()
                    self.assertEqual(terminal.code, 0)
                    self.assert_harmless(text.replace("^D\b\b", ""))
                    for line in text.partition("no command")[0].splitlines():
                        if line.startswith("- "):
                            self.assertLessEqual(test_every_verb.wide(line), columns)

    def test_a_paste_of_several_lines_is_one_message(self):
        terminal = self.open_chat("talk")
        terminal.send("one\ntwo\n\nfour\n")
        terminal.expect("You said: one")
        terminal.send("/quit\n")
        terminal.finish()
        self.assertEqual([m[1] for m in self.history() if m[0] == "user"], ["one\ntwo\n\nfour"])

    def edited(self, library):
        """A chat whose lines this library edits; skips where it is not installed."""
        try:
            ctypes.CDLL(library)
        except OSError:
            self.skipTest(f"{library} is not installed")
        return self.open_chat("talk", env={"LC_ALL": "C.UTF-8", "QUIPU_EDITOR_LIBRARY": library})

    def say(self, terminal, keys, answer):
        """Type, and wait for the answer and the next prompt: keys before it are the terminal's."""
        terminal.out = b""
        terminal.send(keys)
        terminal.expect(answer)
        terminal.out = terminal.out[terminal.out.index(answer.encode()):]
        terminal.expect("out]")
        terminal.expect("> ")

    def test_a_line_is_edited_and_comes_back_by_its_history(self):
        for library in ("libreadline.so.8", "libedit.so.2"):
            with self.subTest(library):
                terminal = self.edited(library)
                self.say(terminal, "wrold\x7f\x7f\x7f\x7forld\x01hello \r",  # Backspace, Ctrl-A
                         "You said: hello world.")
                self.say(terminal, "\x1b[A\x05 again\r",  # Up, Ctrl-E
                         "You said: hello world again.")
                self.say(terminal, "g\xfc\u2603\x7fn\r", "You said: g\xfcn.")
                terminal.send("\x04")
                terminal.finish()
                self.assertEqual(terminal.code, 0)
                said = [m[1] for m in self.history() if m[0] == "user"]
                self.assertEqual(said, ["hello world", "hello world again", "g\xfcn"])
                # The session is the history of the next chat: no file keeps what was said.
                terminal = self.edited(library)
                self.say(terminal, "\x1b[A\x1b[A\r", "You said: hello world again.")
                terminal.send("\x03")  # Ctrl-C at the prompt ends it
                terminal.finish()
                self.assertEqual(terminal.code, 0)
                self.run_quipu("rm", "k", "--yes")

    def test_a_bracketed_paste_is_edited_as_one_line(self):
        terminal = self.edited("libreadline.so.8")
        self.say(terminal, "\x1b[200~one\ntwo\x1b[201~!\r", "You said: one")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual([m[1] for m in self.history() if m[0] == "user"], ["one\ntwo!"])

    def test_lines_are_read_plainly_where_no_library_is(self):
        terminal = self.open_chat("talk", env={"LC_ALL": "C.UTF-8", "QUIPU_EDITOR_LIBRARY": "none"})
        terminal.send("plain\n")
        terminal.expect("You said: plain.")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)

    def test_commands_fork_undo_and_change_the_model(self):
        terminal = self.open_chat("talk")
        for line, wanted in (("one", "You said: one."), ("two", "You said: two."),
                             ("/undo", 'goes on in "k~2", which has messages 1 to 2'),
                             ("three", "You said: three."),
                             ("/fork k/other", 'goes on in "k/other"'),
                             ("/model m2", "the model is now m2"),
                             ("//slash", "You said: /slash."),
                             ("/memory", "nothing is remembered"),
                             ("/nonsense", 'there is no command "/nonsense"'),
                             ("/help", "/undo")):
            terminal.send(f"{line}\n")
            terminal.expect(wanted)
        saved = self.folder / "talk.md"
        terminal.send(f"/save {saved}\n")
        terminal.expect("saved to")
        terminal.send("/quit\n")
        terminal.finish()
        self.assertEqual(terminal.code, 0)
        self.assertIn("You said: /slash.", saved.read_text(encoding="utf-8"))
        texts = {key: [m["content"] for m in self.run_quipu("show", key, "--json").lines()]
                 for key in ("k", "k~2", "k/other")}
        self.assertEqual(texts["k"][2:], ["two", "You said: two."])
        self.assertEqual(texts["k~2"][2:], ["three", "You said: three."])
        self.assertEqual(texts["k/other"][4:], ["/slash", "You said: /slash."])
        self.assertEqual(self.requests()[-1]["model"], "m2")

    def test_the_first_question_can_be_undone(self):
        terminal = self.open_chat("talk")
        for line, wanted in (("/undo", "there is no question to undo yet"),
                             ("one", "You said: one."),
                             ("/undo", 'goes on in "k~2", which is empty'),
                             ("two", "You said: two."), ("/quit", "")):
            terminal.send(f"{line}\n")
            terminal.expect(wanted)
        terminal.finish()
        self.assertEqual([m["content"] for m in self.run_quipu("show", "k~2", "--json").lines()],
                         ["two", "You said: two."])

    def test_commands_that_take_nothing_say_so(self):
        terminal = self.open_chat("talk")
        for command in ("undo", "memory", "tools", "help", "quit"):
            terminal.send(f"/{command} now\n")
            terminal.expect(f'/{command} takes nothing behind it')
        terminal.send("/help\n")
        terminal.expect("quipu chat: commands:\r\n/help            this list\r\n")
        terminal.send("/quit\n")
        terminal.finish()
        self.assertEqual(terminal.code, 0)

    def test_a_text_of_any_suffix_can_be_sent_and_must_be_utf_8(self):
        (self.folder / "note").write_text("caf\u00e9 {}\n", encoding="utf-8")
        (self.folder / "latin.txt").write_bytes(b"caf\xe9\n")
        (self.folder / "data.bin").write_bytes(b"a\0b")
        self.env["HOME"] = str(self.folder)
        terminal = self.open_chat("talk")
        for name in ("latin.txt", "data.bin"):
            terminal.send(f"/file {self.folder / name}\n")
            terminal.expect(f"{name} is not UTF-8 text")
        terminal.send("/file ~/note\n")
        terminal.expect("/note goes with the next message")
        terminal.send("look\n")
        terminal.expect("out]")
        terminal.send("/save ~/talk.md\n")
        terminal.expect("saved to")
        terminal.send("/quit\n")
        terminal.finish()
        parts = self.requests()[-1]["messages"][-1]["content"]
        self.assertIn("caf\u00e9 {}", json.dumps(parts, ensure_ascii=False))
        self.assertIn("look", (self.folder / "talk.md").read_text(encoding="utf-8"))

    def test_a_system_instruction_stays_with_its_session(self):
        self.chat("talk", "--model", "m", "--text", "a", "--system", "Be kind.")
        self.run_quipu("set", "k", "--tag", "travel")
        for text in ("b", "c"):
            self.chat("talk", "--text", text)
            first = self.requests()[-1]["messages"][0]
            self.assertEqual((first["role"], first["content"]), ("system", "Be kind."))
        self.chat("talk", "--text", "d", "--system", "Be brief.")
        self.assertEqual(self.requests()[-1]["messages"][0]["content"], "Be brief.")
        self.chat("talk", "--text", "e", "--system", "")
        self.assertNotEqual(self.requests()[-1]["messages"][0]["role"], "system")
        line = self.run_quipu("ls", "--json").lines()[0]
        self.assertEqual(line["metadata"], {"tags": ["travel"]})

    def test_a_file_goes_with_the_next_message_only(self):
        image = self.folder / "p.png"
        image.write_bytes(b"\x89PNG")
        terminal = self.open_chat("talk")
        terminal.send(f"/file {self.folder / 'none.png'}\n")
        terminal.expect("No such file")
        terminal.send("/file\n")
        terminal.expect("name a file: /file photo.png")
        image = image.rename(self.folder / "P.PNG")
        terminal.send(f"/file {image}\n")
        terminal.expect("goes with the next message")
        for line in ("look", "again"):
            terminal.send(f"{line}\n")
            terminal.expect("out]")
            terminal.out = b""
        terminal.send("\x04")
        terminal.finish()
        parts = self.requests()[-2]["messages"][-1]["content"]
        self.assertEqual([part["type"] for part in parts], ["text", "image_url"])
        self.assertEqual(self.requests()[-1]["messages"][-1]["content"], "again")
        self.assertIn("media      image/png, 4 B", self.run_quipu("show", "k").out)

    def test_an_endpoint_that_is_not_there_names_the_options(self):
        err = self.run_quipu("chat", "--model", "m", "--text", "x", "--base-url",
                             "http://127.0.0.1:1/v1", code=1).err
        self.assertIn("--base-url URL or $QUIPU_BASE_URL", err)
        self.assertIn("$OPENAI_API_KEY", err)
        err = self.run_quipu("chat", "--text", "x", "--provider", "anthropic", "--base-url",
                             "http://127.0.0.1:1/v1", code=None).err
        self.assertIn("$ANTHROPIC_API_KEY", err)
        err = self.chat("denied", "--model", "m", "--text", "hi", code=1).err
        self.assertIn("no such key", err)
        self.assertIn("$OPENAI_API_KEY", err)

    def test_ctrl_c_interrupts_an_answer_and_the_talk_goes_on(self):
        terminal = self.open_chat("stall")
        terminal.send("hello\n")
        terminal.expect("So")
        terminal.send("\x03")
        terminal.expect("interrupted; the answer so far is stored")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)
        self.assertEqual(self.history(), [("user", "hello", None), ("assistant", "So", "timeout")])
        self.assertEqual(self.chat("talk", "--text", "well?").out, "You said: well?.\n")
        self.assertEqual([m["content"] for m in self.requests()[-1]["messages"]],
                         ["hello", "So", "well?"])

    def test_ctrl_c_interrupts_an_answer_after_a_file_was_saved_too(self):
        terminal = self.open_chat("stall")
        terminal.send(f"/save {self.folder / 'talk.md'}\n")
        terminal.expect("saved to")
        terminal.send(f"/save {self.folder / 'none' / 'talk.md'}\n")
        terminal.expect(f"{self.folder / 'none' / 'talk.md'}: No such file")
        terminal.send("hello\n")
        terminal.expect("So")
        terminal.send("\x03")
        terminal.expect("interrupted; the answer so far is stored")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)

    def test_a_failed_turn_does_not_end_the_talk(self):
        terminal = self.open_chat("bad")
        terminal.send("hello\n")
        terminal.expect("not with")
        terminal.send("\x04")
        terminal.finish()
        self.assertEqual(terminal.code, 0)

    def test_a_signal_in_a_pipe_keeps_what_was_said(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start_quipu("chat", "k", "--model", "m", "--base-url",
                                       f"{self.url}/stall", "--text", "hi")
            ready, _, _ = select.select([process.stdout], [], [], harness.WAIT_S)
            self.assertTrue(ready)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=harness.WAIT_S), 1)
            self.assertEqual(self.history()[-1], ("assistant", "So", "timeout"))

    def test_hostile_answers_are_harmless_on_a_terminal_and_whole_in_a_pipe(self):
        hostile = "\x1b]0;owned\x07\u202e\x9b31m"
        text = self.run_terminal("chat", "k", "--model", "m", "--base-url", f"{self.url}/talk",
                                 "--text", hostile, "--color", "never")
        self.assert_harmless(text)
        self.assertIn("<U+202E>", text)
        result = self.chat("talk", "--model", "m", "--text", hostile)
        self.assertEqual(result.out, f"You said: {hostile}.\n")


if __name__ == "__main__":
    unittest.main()
