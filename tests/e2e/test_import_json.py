#!/usr/bin/env python3
"""quipu import of JSON that other programs wrote: Claude Code's and Codex's session files,
ChatGPT's export, and chat messages. The files here are made by hand, small, in the form that the
programs write. Counts are exact, a second run changes nothing, and a wrong file changes nothing
either."""

import json
import shutil
import subprocess

import harness

CLAUDE_ID = "6f0c0f0e-0000-4000-8000-000000000001"


def claude(kind, uuid, content, **more):
    """A line of Claude Code."""
    role = "assistant" if kind == "assistant" else "user"
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {"type": kind, "sessionId": CLAUDE_ID, "uuid": uuid, "parentUuid": None,
            "isSidechain": False, "cwd": "/srv/trip", "version": "2.0.1",
            "timestamp": "2026-03-20T09:00:00.500Z", "message": message, **more}


USAGE = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2,
         "output_tokens": 7}
CLAUDE = [
    {"type": "summary", "summary": "A trip", "leafUuid": "u4"},
    claude("user", "u1", "Find trains"),
    claude("assistant", "u2", [{"type": "thinking", "thinking": "I look.", "signature": "c2ln"}],
           message={"id": "msg_1", "model": "claude-x", "usage": USAGE}),
    claude("assistant", "u3", [{"type": "tool_use", "id": "t1", "name": "Bash",
                                "input": {"command": "ls"}}],
           message={"id": "msg_1", "model": "claude-x", "usage": USAGE}),
    claude("user", "u4", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}]),
    claude("assistant", "u5", [{"type": "text", "text": "There is a.txt."}],
           message={"id": "msg_2", "model": "claude-x", "usage": USAGE}),
    claude("user", "u1", "Find trains"),  # repeated, as in a file that was resumed
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
]


def codex(kind, payload):
    return {"timestamp": "2026-03-20T09:00:00.500Z", "type": kind, "payload": payload}


CODEX = [
    codex("session_meta", {"id": "0199-abc", "cwd": "/x", "originator": "codex_cli_rs"}),
    codex("turn_context", {"model": "gpt-x", "cwd": "/x"}),
    codex("response_item", {"type": "message", "role": "developer",
                            "content": [{"type": "input_text", "text": "Be brief."}]}),
    codex("response_item", {"type": "message", "role": "user",
                            "content": [{"type": "input_text", "text": "List files"}]}),
    codex("event_msg", {"type": "user_message", "message": "List files"}),
    codex("response_item", {"type": "reasoning", "encrypted_content": "x",
                            "summary": [{"type": "summary_text", "text": "I run ls."}]}),
    codex("response_item", {"type": "function_call", "name": "shell", "call_id": "c1",
                            "arguments": '{"command":["ls"]}'}),
    codex("response_item", {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}),
    codex("response_item", {"type": "message", "role": "assistant",
                            "content": [{"type": "output_text", "text": "a.txt"}]}),
]


def node(ident, parent, role, content, **more):
    message = None
    if role is not None:
        message = {"id": f"m-{ident}", "author": {"role": role}, "create_time": 1774000000.5,
                   "content": content, "metadata": {"model_slug": "gpt-y"}, **more}
    return {"id": ident, "parent": parent, "children": [], "message": message}


def text(words):
    return {"content_type": "text", "parts": [words]}


CHATGPT = [{
    "title": "Cusco", "conversation_id": "conv-1", "create_time": 1774000000.0,
    "current_node": "d",
    "mapping": {
        "root": node("root", None, None, None),
        "a": node("a", "root", "user", text("When does it leave?")),
        "b": node("b", "a", "assistant", text("Another answer")),
        "c": node("c", "a", "assistant", {"content_type": "code", "language": "python",
                                          "text": "print(1)"}),
        "d": node("d", "c", "assistant", {
            "content_type": "multimodal_text",
            "parts": ["At six.", {"content_type": "image_asset_pointer",
                                  "asset_pointer": "file-service://f1"}]}),
    },
}]

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look"},
                                 {"type": "image_url",
                                  "image_url": {"url": "data:image/png;base64,aGk="}}]},
    {"role": "assistant", "content": None,
     "tool_calls": [{"id": "c1", "type": "function",
                     "function": {"name": "find", "arguments": '{"q":1}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "Done."},
]


class Case(harness.Case):
    def write(self, name, lines):
        path = self.folder / name
        if isinstance(lines, list) and name.endswith(".jsonl"):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        else:
            path.write_text(json.dumps(lines), encoding="utf-8")
        return path

    def load(self, path, *args, **more):
        return self.run_quipu("import", path, "--json", *args, **more).json()

    def counts(self, report):
        return (report["kind"], report["sessions"], report["messages"], report["skipped"],
                report["orphans"])

    def dump(self):
        return self.run_quipu("export").out

    def check(self, path, key, counts):
        """Import it twice; the dry run says the same and writes nothing."""
        dry = self.load(path, "--dry-run")
        self.assertEqual(self.counts(dry), counts)
        self.assertFalse(self.store.exists())
        self.assertEqual(self.counts(self.load(path)), counts)
        self.run_quipu("verify")
        before = self.dump()
        again = self.load(path)
        self.assertEqual((again["sessions"], again["messages"], again["skipped"]), (0, 0, 1))
        self.assertEqual(self.dump(), before)
        return self.run_quipu("show", key, "--width", 80).out


class Kinds(Case):
    def test_claude_code_comes_in_with_thoughts_calls_and_usage(self):
        path = self.write("c.jsonl", CLAUDE)
        shown = self.check(path, f"claude-code:{CLAUDE_ID}", ("claude-code", 1, 5, 0, 2))
        self.assertIn("thought    I look.", shown)
        self.assertRegex(shown, r'▸ Bash \{"command": ?"ls"\} ← \{"result":"a.txt"\}')
        self.assertIn("34 tokens of prompts (10 cached), 14 of 2 answers", shown)
        self.assertIn("There is a.txt.", shown)
        line = self.run_quipu("ls", "--json").lines()[0]
        self.assertEqual(line["model"], "claude-x")
        self.assertEqual(line["metadata"], {"imported": {"kind": "claude-code", "id": CLAUDE_ID}})
        self.assertEqual(line["title"], "A trip")

    def test_a_session_that_grew_is_completed(self):
        self.load(self.write("c.jsonl", CLAUDE[:3]))
        report = self.load(self.write("c.jsonl", CLAUDE))
        self.assertEqual((report["sessions"], report["messages"]), (1, 3))
        self.assertEqual(self.run_quipu("ls", "--json").lines()[0]["messages"], 5)
        self.run_quipu("append", f"claude-code:{CLAUDE_ID}", "--text", "Here it goes on.")
        report = self.load(self.write("c.jsonl", [*CLAUDE, claude("user", "u9", "There, too")]))
        self.assertEqual((report["sessions"], report["skipped"]), (0, 1))

    def test_codex_comes_in(self):
        path = self.write("rollout.jsonl", CODEX)
        shown = self.check(path, "codex:0199-abc", ("codex", 1, 6, 0, 3))
        self.assertIn("thought    I run ls.", shown)
        self.assertRegex(shown, r'▸ shell .* ← \{"result": ?"a.txt"\}')
        self.assertRegex(shown, r"(?m)^ *1  system ")

    def usage_of_codex(self, total, last):
        return codex("event_msg", {"type": "token_count", "info": {
            "total_token_usage": {"total_tokens": total},
            "last_token_usage": {"input_tokens": last[0], "cached_input_tokens": last[1],
                                 "output_tokens": last[2]}}})

    def test_usage_of_codex_is_that_of_the_answer_before_it(self):
        first = self.usage_of_codex(120, (100, 40, 20))
        second = self.usage_of_codex(280, (150, 0, 10))
        lines = [*CODEX[:8], first, first, *CODEX[8:], second,
                 codex("event_msg", {"type": "token_count", "info": None})]
        self.load(self.write("rollout.jsonl", lines))
        self.run_quipu("verify")
        used = [(m["prompt_tokens"], m.get("cached_tokens", 0), m["answer_tokens"])
                for m in self.run_quipu("show", "codex:0199-abc", "--json").lines()
                if "prompt_tokens" in m]
        self.assertEqual(used, [(100, 40, 20), (150, 0, 10)])
        total = self.run_quipu("usage", "--by", "total", "--json").lines()[0]
        self.assertEqual((total["prompt_tokens"], total["answer_tokens"]), (250, 30))

    def test_a_result_has_the_name_of_its_call_and_says_that_it_failed(self):
        lines = [*CLAUDE[:4], claude("user", "u4", [{"type": "tool_result", "tool_use_id": "t1",
                                                     "content": "no such file", "is_error": True}])]
        self.load(self.write("c.jsonl", lines))
        self.load(self.write("talk.jsonl", CHAT))
        for key, name in ((f"claude-code:{CLAUDE_ID}", "Bash"), ("chat:talk", "find")):
            call, result = [m["tool_calls"][0] for m in self.run_quipu(
                "show", key, "--json").lines() if "tool_calls" in m]
            self.assertEqual((call["name"], result["name"]), (name, name))
        self.assertIn('← {"error":"no such file"}',
                      self.run_quipu("show", f"claude-code:{CLAUDE_ID}").out.replace(": ", ":"))

    def test_an_agent_of_claude_code_has_a_session_of_its_own(self):
        """Its file names the session that started it, too."""
        own = [claude("user", "a1", "Look around", isSidechain=True, agentId="9f")]
        self.load(self.write("c.jsonl", CLAUDE))
        path = self.write("agent-9f.jsonl", own)
        self.assertEqual(self.counts(self.load(path)), ("claude-code", 1, 1, 0, 0))
        self.run_quipu("show", f"claude-code:{CLAUDE_ID}/9f")

    def test_a_call_of_openai_s_older_form_comes_in(self):
        self.load(self.write("t.jsonl", [
            {"role": "assistant", "content": None,
             "function_call": {"name": "find", "arguments": '{"q":1}'}},
            {"role": "function", "name": "find", "content": "found"}]))
        calls = [m["tool_calls"][0] for m in self.run_quipu("show", "chat:t", "--json").lines()]
        self.assertEqual([(c["name"], c["input"]) for c in calls],
                         [("find", '{"q":1}'), ("find", "")])

    def test_chatgpt_comes_in_by_its_current_branch(self):
        path = self.write("conversations.json", CHATGPT)
        shown = self.check(path, "chatgpt:conv-1", ("chatgpt", 1, 3, 0, 2))
        self.assertIn("print(1)", shown)
        self.assertIn("file-service://f1", shown)
        self.assertNotIn("Another answer", shown)
        self.assertEqual(self.run_quipu("ls", "--json").lines()[0]["title"], "Cusco")

    def test_chat_messages_come_in_and_go_out_again(self):
        path = self.write("talk.jsonl", CHAT)
        shown = self.check(path, "chat:talk", ("chat", 1, 5, 0, 0))
        self.assertIn("media      image/png, 2 B", shown)
        chat = json.loads(self.run_quipu("export", "chat:talk", "--format", "openai").out)
        self.assertEqual([m["role"] for m in chat["messages"]], [m["role"] for m in CHAT])
        self.assertEqual(chat["messages"][2]["tool_calls"], CHAT[2]["tool_calls"])

    def test_other_names_are_mapped_and_sessions_are_separate(self):
        path = self.write("x.jsonl", [{"who": "human", "says": "Hi", "talk": "a"},
                                      {"who": "ai", "says": "Ho", "talk": "b"}])
        report = self.load(path, "--map", "role=who,content=says,session_id=talk")
        self.assertEqual(self.counts(report), ("chat", 2, 2, 0, 0))
        path = self.write("tuning.jsonl", [{"messages": CHAT}, {"messages": CHAT[:2]}])
        self.assertEqual(self.counts(self.load(path)), ("chat", 2, 7, 0, 0))

    def test_many_files_and_stdin(self):
        first = self.write("a.jsonl", CHAT)
        second = self.write("b.jsonl", CODEX)
        reports = self.run_quipu("import", first, second, "--json").lines()
        self.assertEqual([report["kind"] for report in reports], ["chat", "codex"])
        lines = "".join(json.dumps(line) + "\n" for line in CHAT)
        self.run_quipu("import", "-", "--prefix", "piped/", stdin=lines)
        self.run_quipu("show", "piped/stdin")


class Forms(Case):
    """The same talk in the forms that people have it in."""

    def test_a_list_or_one_object_comes_in_whatever_its_lines(self):
        for name, value in (("list.json", CHAT), ("one.json", {"model": "m", "messages": CHAT}),
                            ("many.json", [{"messages": CHAT}, {"messages": CHAT[:2]}])):
            for indent in (None, 2):
                with self.subTest(name=name, indent=indent):
                    path = self.folder / name
                    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
                    counts = ("chat", 2, 7, 0, 0) if name == "many.json" else ("chat", 1, 5, 0, 0)
                    self.assertEqual(self.counts(self.load(path)), counts)
                    self.assertEqual(self.load(path)["sessions"], 0)
                    self.store.unlink()
        path.write_text(json.dumps(CHATGPT[0], indent=2), encoding="utf-8")
        self.assertEqual(self.counts(self.load(path)), ("chatgpt", 1, 3, 0, 2))
        path = self.write("who.json", [{"who": "human", "says": "Hi"}])
        self.load(path, "--map", "role=who,content=says")
        self.run_quipu("show", "chat:who")

    def test_a_byte_order_mark_and_line_ends_of_windows_do_not_matter(self):
        path = self.folder / "talk.jsonl"
        lines = "".join(json.dumps(line) + "\r\n" for line in CHAT)
        path.write_bytes(b"\xef\xbb\xbf" + lines.encode())
        self.assertEqual(self.counts(self.load(path)), ("chat", 1, 5, 0, 0))

    def test_times_in_milliseconds_and_finer_are_times(self):
        for factor in (1, 1000, 1000000, 1000000000):
            path = self.write(f"t{factor}.jsonl", [
                {"role": "user", "content": "x", "timestamp": 1774000000 * factor}])
            self.load(path)
            line = self.run_quipu("show", f"chat:t{factor}", "--json").lines()[0]
            self.assertEqual(line["timestamp"], "2026-03-20T09:46:40Z")

    def test_a_pipe_with_a_name_is_read_as_stdin_is(self):
        path = self.write("talk.jsonl", CHAT)
        for line in (f"cat {path} | {{}} import --json /dev/stdin",
                     f"{{}} import --json --prefix p <(cat {path})"):
            done = subprocess.run(["bash", "-c", line.format(harness.program())], env=self.env,
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(json.loads(done.stdout)["messages"], 5)
        adk = harness.FIXTURES / "adk-python-sqlite.db"
        result = self.run_quipu("import", "-", stdin=adk.read_bytes(), code=1)
        self.assertIn("a database cannot be read from a pipe: name its file", result.err)
        done = subprocess.run(["bash", "-c", f"{harness.program()} import <(cat {adk})"],
                              env=self.env, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a database cannot be read from a pipe: name its file", done.stderr)

    def test_a_wrong_file_does_not_keep_the_others_out(self):
        first = self.write("a.jsonl", [{"a": 1}])
        second = self.write("b.jsonl", CHAT)
        result = self.run_quipu("import", self.folder / "none", first, second, "--json", code=3)
        self.assertEqual(result.json()["messages"], 5)
        self.assertIn("a.jsonl is of no known kind", result.err)
        self.run_quipu("import", first, second, code=1)

    def test_a_conversation_of_any_length_is_read_in_one_go(self):
        """Nodes and sessions are found by their names, not by looking at all of them."""
        many = 100000
        nodes = {f"n{i}": node(f"n{i}", f"n{i - 1}" if i else None, "user", text("x"))
                 for i in range(many)}
        path = self.write("long.json", [{"id": "c", "current_node": f"n{many - 1}",
                                         "mapping": nodes}])
        self.assertEqual(self.load(path, "--dry-run")["messages"], many)
        path = self.write("many.jsonl", [{"role": "user", "content": "x", "session_id": f"s{i}"}
                                         for i in range(many)] * 2)
        self.assertEqual(self.load(path, "--dry-run")["sessions"], many)


class Conflicts(Case):
    def test_a_file_of_another_kind_says_which(self):
        files = {"chat": self.write("a.jsonl", CHAT), "codex": self.write("b.jsonl", CODEX),
                 "claude-code": self.write("c.jsonl", CLAUDE),
                 "chatgpt": self.write("d.json", CHATGPT)}
        for kind, path in files.items():
            for wanted in files:
                code = 0 if wanted == kind else 1
                err = self.run_quipu("import", path, "--kind", wanted, "--dry-run", code=code).err
                self.assertIn("" if code == 0 else f": it is {kind}, not {wanted}", err)

    def test_a_key_in_the_way_fails_is_skipped_or_gets_a_number(self):
        self.run_quipu("append", "chat:talk", "--create", "--text", "Mine")
        path = self.write("talk.jsonl", CHAT)
        before = self.dump()
        failed = self.run_quipu("import", path, code=4)
        self.assertIn('another session has the key "chat:talk"; nothing was imported', failed.err)
        skipped = self.load(path, "--on-conflict", "skip")
        self.assertEqual((skipped["sessions"], skipped["skipped"]), (0, 1))
        self.assertEqual(self.dump(), before)
        for _ in range(2):
            self.load(path, "--on-conflict", "rename")
        self.assertEqual({line["key"] for line in self.run_quipu("ls", "--json").lines()},
                         {"chat:talk", "chat:talk-2"})
        self.load(path, "--prefix", "old/")
        self.run_quipu("show", "old/talk")

    def test_another_conversation_of_the_same_name_is_not_mixed_with_the_first(self):
        """Files named alike, and all of stdin, make one key; what they say distinguishes them."""
        one = [{"role": "user", "content": "a\0b"}, {"role": "assistant", "content": "a2"}]
        other = [{"role": "user", "content": f"b{i}"} for i in range(3)]
        first = self.write("talk.jsonl", one)
        (self.folder / "more").mkdir()
        self.load(first)
        self.assertEqual(self.load(first)["skipped"], 1)
        before = self.dump()
        for n in (1, 3):
            failed = self.run_quipu("import", self.write("more/talk.jsonl", other[:n]), code=4)
            self.assertIn('another session has the key "chat:talk"', failed.err)
            self.assertEqual(self.dump(), before)
        for skipped in (0, 1):
            report = self.load(self.folder / "more" / "talk.jsonl", "--on-conflict", "rename")
            self.assertEqual(report["skipped"], skipped)
        self.assertEqual([m["content"] for m in self.run_quipu("show", "chat:talk-2",
                                                               "--json").lines()],
                         ["b0", "b1", "b2"])
        self.load(self.write("talk.jsonl", one + other[:1]))
        self.assertEqual(len(self.run_quipu("show", "chat:talk", "--json").lines()), 3)

    def test_a_file_goes_on_after_its_beginning_was_pruned_in_the_store(self):
        path = self.write("talk.jsonl", CHAT[:2])
        self.load(path)
        self.run_quipu("compact", "chat:talk", "--through", "1", "--summary", "s")
        self.run_quipu("prune", "chat:talk", "--yes")
        self.assertEqual(self.load(path)["skipped"], 1)

    def test_a_key_of_adk_in_the_way_gets_advice_that_holds(self):
        paths = [self.folder / name for name in ("adk-python-sqlite.db", "adk-go-database.db")]
        for path in paths:
            shutil.copyfile(harness.FIXTURES / path.name, path)
        self.load(paths[0])
        err = self.run_quipu("import", paths[1], code=4).err
        self.assertIn("--on-conflict skip leaves it out", err)
        self.assertIn("only sessions of chat programs", err)
        self.assertEqual(self.load(paths[1], "--on-conflict", "skip")["skipped"], 1)

    def test_a_map_of_unknown_names_is_refused(self):
        path = self.write("x.jsonl", CHAT)
        for wrong in ("time=when", "role=role,sesion_id=x", "role", "role=", "=who", ",",
                      f"role={'x' * 128}"):
            with self.subTest(wrong):
                err = self.run_quipu("import", path, "--map", wrong, code=2).err
                self.assertIn("role content timestamp session_id id name model", err)
        self.assertFalse(self.store.exists())
        self.load(path, "--map", f"role=role,name={'x' * 127}")

    def test_options_for_other_files_are_refused(self):
        path = self.folder / "adk.db"
        shutil.copyfile(harness.FIXTURES / "adk-python-database.db", path)
        self.assertIn("--map goes with JSON",
                      self.run_quipu("import", path, "--map", "role=who", code=2).err)
        for more in (("--prefix", "x"), ("--on-conflict", "rename")):
            self.assertIn("sessions of adk-database keep their keys",
                          self.run_quipu("import", path, *more, code=2).err)
        export = self.run_quipu("export").raw_out
        self.assertIn("--prefix goes with files of other programs, not with an export",
                      self.run_quipu("import", "-", "--prefix", "x", stdin=export, code=2).err)


class Hostile(Case):
    def refused(self, name, data, words, *args):
        path = self.folder / name
        path.write_bytes(data)
        result = self.run_quipu("import", path, *args, code=None)
        self.assertNotEqual(result.code, 0)
        self.assertIn(words, result.err)
        self.assert_harmless(result.err)
        self.assertFalse(self.store.exists(), "it made a store")

    def test_a_line_that_is_cut_off_is_named(self):
        whole = "".join(json.dumps(line) + "\n" for line in CLAUDE).encode()
        self.refused("c.jsonl", whole[:-30], "line 8: it is not JSON: the file seems to be cut off")

    def test_wrong_types_are_named_with_their_line(self):
        lines = [*CHAT, {"role": 7, "content": "x"}]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        self.refused("t.jsonl", data, "line 6: its role is not")
        self.refused("t.jsonl", b'{"role":"user","content":"x"}\n[1]\n',
                     "line 2: it is not a JSON object")
        self.refused("t.jsonl", b'{"role":"user","content":"x"}\n{"role":"user"}\n',
                     "line 2: it has no content")

    def test_a_cycle_in_chatgpt_s_mapping_is_named(self):
        talk = json.loads(json.dumps(CHATGPT))
        talk[0]["mapping"]["a"]["parent"] = "d"
        self.refused("c.json", json.dumps(talk).encode(),
                     'the conversation "Cusco" has a cycle in its "mapping"')
        talk[0]["mapping"]["a"]["parent"] = "gone"
        self.refused("c.json", json.dumps(talk).encode(), "names a message that it does not have")
        self.refused("c.json", b'[{"title":"x"}]', "this is not ChatGPT's conversations.json",
                     "--kind", "chatgpt")
        self.refused("c.json", json.dumps(talk).encode()[:-9], "it is not JSON, or is cut off")

    def test_an_id_that_makes_no_key_is_refused_before_anything_is_written(self):
        first = b'{"role":"user","content":"x","session_id":"a"}\n'
        line = b'{"role":"user","content":"x","session_id":"%s"}\n'
        for ident in (b"b\\u0000c", b"b\xff", b"b" * 257, "\u00e9".encode() * 129):
            self.refused("t.jsonl", first + line % ident, "line 2: the id of a session")
        path = self.folder / "t.jsonl"
        path.write_bytes(first + line % (b"b" * 256))
        self.assertEqual(self.load(path)["sessions"], 2)

    def test_what_is_no_number_is_no_json(self):
        for number in ("1-+2", "01", "1.", ".5", "1e", "-", "+1", "1.e5", "0x1"):
            data = '{"role":"user","content":"x"}\n{"role":"user","content":"x","n":%s}\n' % number
            self.refused("n.jsonl", data.encode(), "line 2: it is not JSON")
        path = self.folder / "n.jsonl"
        numbers = "[0,-0,10,1.5,-2e10,3E-2,0.0e+0]"
        path.write_text('{"role":"user","content":"x","n":%s}\n' % numbers, encoding="utf-8")
        self.load(path)

    def test_counts_of_tokens_have_a_limit(self):
        most = 10**15
        for n, used in ((most, 2 * most), (most + 1, None), (2**63 - 1, None), (2**64, None)):
            path = self.write("t.jsonl", [{"role": "assistant", "content": "x", "usage": {
                "input_tokens": n, "cache_read_input_tokens": n, "output_tokens": 1}}])
            self.load(path, "--prefix", f"{n}/")
            line, = self.run_quipu("show", f"{n}/t", "--json").lines()
            self.assertEqual(line.get("prompt_tokens"), used)

    def test_an_empty_file_makes_no_store(self):
        for data in (b"", b" \n\n"):
            self.refused("empty", data, "is of no known kind")

    def test_a_line_of_100_megabytes_is_refused(self):
        line = b'{"role":"user","content":"' + b"x" * 100_000_000 + b'"}\n'
        self.refused("big.jsonl", line, "bytes, and at most 67108864 are read", "--kind", "chat")

    def test_deep_nesting_is_refused(self):
        line = b'{"role":"user","content":' + b"[" * 2000 + b"]" * 2000 + b"}\n"
        self.refused("deep.jsonl", line, "line 1:", "--kind", "chat")

    def test_an_unknown_file_lists_what_is_known(self):
        for data in (b"hello\n", b'{"a":1}\n', b"\xff\xfe\x00", b"[1,2]", b'[{"title":"x"}]'):
            self.refused("x", data, "known kinds: adk-database adk-v0 adk-sqlite adk-go lango llm "
                         "openai-agents langgraph (databases), claude-code codex chatgpt chat "
                         "(JSON), export")

    def test_control_characters_in_a_file_are_harmless(self):
        path = self.write("t.jsonl", [{"role": "user", "content": "\x1b[2J \u202e",
                                       "name": "\x07"}])
        self.load(path)
        self.assert_harmless(self.run_quipu("show", "chat:t").out)


if __name__ == "__main__":
    harness.main()
