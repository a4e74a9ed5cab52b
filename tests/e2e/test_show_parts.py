#!/usr/bin/env python3
"""quipu show: every kind of part and fact of an event is shown, at every width, as golden files say
(QUIPU_GOLDEN=1 writes them anew): of a file that ADK wrote, of one event for each kind, and of what
each provider answers. --save writes media into one folder and nowhere else."""

import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import sqlite3
import threading

import harness

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VECTORS = harness.ROOT / "tests" / "vectors" / "providers"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))

# Each kind of part and fact that ADK's events have, in the snake_case that ADK for Python writes.
KINDS = {
    "text": {"content": {"parts": [{"text": "Plain words."}]}},
    "thought": {"content": {"parts": [
        {"text": "They ask for the weather, so I will have to look it up somewhere, and soon.",
         "thought": True},
        {"text": "I look."}]}},
    "hidden thought": {"content": {"parts": [
        {"text": "", "thought": True, "thought_signature": "c2ln"}, {"text": "Done."}]}},
    "code": {"content": {"parts": [
        {"executable_code": {"language": "PYTHON", "code": "for i in range(3):\n    print(i)"}},
        {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "0\n1\n2\n"}}]}},
    "code that failed": {"content": {"parts": [
        {"code_execution_result": {"outcome": "OUTCOME_FAILED", "output": "NameError: x"}}]}},
    "image": {"content": {"parts": [
        {"text": "Look:"},
        {"inline_data": {"mime_type": "image/png", "data": base64.b64encode(PNG).decode()}},
        {"inline_data": {"mime_type": "text/plain", "data": "aGk",
                         "display_name": "../../a b.txt"}},
    ]}},
    "file": {"content": {"parts": [
        {"file_data": {"mime_type": "application/pdf", "file_uri": "gs://bucket/f.pdf"}}]}},
    "image of a tool": {"content": {"role": "user", "parts": [{"function_response": {
        "id": "c9", "name": "paint", "response": {"ok": True},
        "parts": [{"inline_data": {"mime_type": "image/png",
                                   "data": base64.urlsafe_b64encode(PNG).decode()}}]}}]}},
    "tool of the provider": {"content": {"parts": [
        {"tool_call": {"id": "s1", "tool_type": "GOOGLE_SEARCH", "args": {"q": "trains"}}}]}},
    "safety stop": {"error_code": "SAFETY", "error_message": "The answer was withheld.",
                    "finish_reason": "SAFETY"},
    "length": {"content": {"parts": [{"text": "It goes on and"}]}, "finish_reason": "MAX_TOKENS"},
    "interrupted": {"interrupted": True, "output_transcription": {"text": "I was about", "finished":
                                                                  False}},
    "transfer": {"actions": {"transfer_to_agent": "billing", "transfer_reason": "an invoice"}},
    "escalation": {"actions": {"escalate": True}},
    "state": {"actions": {"state_delta": {"city": "Cusco", "user:lang": "es"}}},
    "artifact": {"actions": {"artifact_delta": {"plan.md": 2, "map.png": 0}}},
    "credentials": {"actions": {"requested_auth_configs": {"c1": {"secret": "hunter2"}}}},
    "confirmation": {"actions": {"requested_tool_confirmations": {"c2": {"hint": "sure?"}}}},
    "workflow": {"output": {"score": 3}, "node_info": {"path": "wf/rate"}},
    "usage": {"content": {"parts": [{"text": "Counted."}]}, "model_version": "m-1",
              "usage_metadata": {"prompt_token_count": 812, "candidates_token_count": 120,
                                 "cached_content_token_count": 30, "thoughts_token_count": 12}},
    "branch": {"content": {"parts": [{"text": "Aside."}]}, "branch": "root.aside"},
    "model alone": {"content": {"parts": [{"text": "Unpriced."}]}, "model_version": "m-2"},
    "metadata": {"content": {"parts": [{"text": "Traced."}]}, "custom_metadata": {"trace": "abc"},
                 "avg_logprobs": -0.25},
    "unknown": {"content": {"parts": [{"hologram": {"size": 3}}]}},
    "hostile": {"content": {"parts": [
        {"executable_code": {"language": "\x1b[2J", "code": "\x1b]0;owned\x07"}},
        {"inline_data": {"mime_type": "\x1b[31m", "data": "AA==", "display_name": "\u202e.exe"}}]},
        "error_code": "\x1b[5m", "custom_metadata": {"\x1b[1m": "\x9b"}},
}


def adk_file(path, events):
    """A file as ADK's SqliteSessionService writes it: a copy of its fixture with these events."""
    shutil.copyfile(harness.FIXTURES / "adk-python-sqlite.db", path)
    with sqlite3.connect(path) as db:
        for table in ("events", "sessions", "app_states", "user_states"):
            db.execute(f"DELETE FROM {table}")
        db.execute("INSERT INTO sessions VALUES ('app', 'ana', 's', '{}', 1774000000, 1774000000)")
        for number, event in enumerate(events, 1):
            text = json.dumps({"id": f"e{number}", "invocation_id": "i", "author": "agent",
                               "timestamp": 1774000000.0 + number, **event})
            db.execute("INSERT INTO events VALUES (?, 'app', 'ana', 's', 'i', ?, ?)",
                       (f"e{number}", 1774000000.0 + number, text))
    db.close()


class Case(harness.Case):
    def compare(self, name, text):
        path = GOLDEN / name
        if os.environ.get("QUIPU_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        self.assertEqual(text, path.read_text(encoding="utf-8"))


class Parts(Case):
    def fill(self, events):
        path = self.folder / "adk.db"
        adk_file(path, events)
        self.run_quipu("import", path, "--quiet")
        return self.run_quipu("ls", "--json").lines()[0]["key"]

    def test_each_kind_of_part_is_shown(self):
        key = self.fill(KINDS.values())
        for columns in (40, 80, 120):
            text = self.run_quipu("show", key, "--width", columns).out
            self.assert_harmless(text)
            self.assertTrue(all(len(line) <= columns for line in text.splitlines()), text)
            body = text[text.index("──"):]
            blocks = body.split("\n\n")[1:]
            self.assertEqual(len(blocks), len(KINDS))
            for kind, block in zip(KINDS, blocks):
                with self.subTest(kind=kind, columns=columns):
                    self.assertGreater(len(block.strip().splitlines()), 1, "it is blank")
            shown = "".join(f"# {kind}\n{block.strip()}\n" for kind, block in zip(KINDS, blocks))
            self.compare(f"parts-{columns}.txt", shown)
        self.assertNotIn("hunter2", self.run_quipu("show", key, "--unfold").out)

    def test_unfolded_thoughts_and_values_are_whole(self):
        key = self.fill([KINDS["thought"], {"output": {"long": "x" * 200}}])
        text = self.run_quipu("show", key, "--width", 40, "--unfold").out
        self.assertIn("They ask for the weather, so I will", text)
        self.assertEqual(text.count("x"), 200)
        self.assertNotIn("…", text)

    def test_what_adk_wrote_is_shown_whole(self):
        path = self.folder / "adk.db"
        shutil.copyfile(harness.FIXTURES / "adk-python-sqlite.db", path)
        self.run_quipu("import", path, "--quiet")
        text = self.run_quipu("show", "adk:demo_app/alice/sess-0001", "--width", 80).out
        self.compare("show-adk.txt", text[text.index("──"):])

    def test_media_are_saved_into_the_folder_and_never_over_a_file(self):
        key = self.fill([KINDS["image"], KINDS["image of a tool"]])
        folder = self.folder / "media"
        result = self.run_quipu("show", key, "--save", folder)
        names = {"1-1.png": PNG, "1-2-.._.._a_b.txt": b"hi", "2-1.png": PNG}
        self.assertEqual({p.name: p.read_bytes() for p in folder.iterdir()}, names)
        self.assertIn(f"3 files written to {folder}", result.err)
        again = self.run_quipu("show", key, "--save", folder)
        self.assertIn("0 files written", again.err)
        (folder / "1-1.png").write_bytes(b"mine")
        (folder / "2-1.png").unlink()
        (folder / "2-1.png").symlink_to(self.folder / "elsewhere")
        result = self.run_quipu("show", key, "--save", folder, code=4)
        self.assertIn("1-1.png exists with other contents and was left as it is", result.err)
        self.assertEqual((folder / "1-1.png").read_bytes(), b"mine")
        self.assertFalse((self.folder / "elsewhere").exists())
        self.assertEqual({p.name for p in folder.iterdir()}, set(names))
        self.run_quipu("show", key, "--save", self.folder / "missing" / "deep", code=3)

    def test_media_that_are_no_base64_are_named(self):
        key = self.fill([{"content": {"parts": [{"inline_data": {"mime_type": "a/b",
                                                                 "data": "not base64!"}}]}}])
        result = self.run_quipu("show", key, "--save", self.folder / "media", code=1)
        self.assertIn("the media of message 1 are not base64: not written", result.err)


class Providers(Case):
    """What an answer of each provider leaves in a session, from the streams of tests/vectors."""

    STREAMS = {
        "openai": ("openai_reasoning", "openai_filter", "openai_refusal", "openai_length"),
        "anthropic": ("anthropic_thinking", "anthropic_server_tool", "anthropic_refusal",
                      "anthropic_max_tokens"),
        "gemini": ("gemini_code", "gemini_thoughts", "gemini_safety", "gemini_max_tokens"),
    }

    def serve(self):
        case = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                body = (VECTORS / f"{case.stream}.sse").read_bytes()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_each_provider_s_answers_are_shown(self):
        url = self.serve()
        for provider, streams in self.STREAMS.items():
            with self.subTest(provider=provider):
                shown = ""
                for self.stream in streams:
                    result = self.run_quipu(
                        "chat", self.stream, "--provider", provider, "--base-url", url,
                        "--model", "m", "--text", "Go on.", code=None)
                    if "without libcurl" in result.err:
                        self.skipTest("quipu was built without libcurl")
                    text = self.run_quipu("show", self.stream, "--width", 80).out
                    answer = text.split("\n\n")[3:4]  # behind the head, the day and the question
                    lines = "".join(answer).strip().splitlines() or [result.err.strip()]
                    # The clock is the only thing that differs between runs.
                    lines[0] = re.sub(r"\d\d:\d\d:\d\d$", "HH:MM:SS", lines[0])
                    shown += f"# {self.stream}\n" + "\n".join(lines) + "\n"
                self.compare(f"show-{provider}.txt", shown)


if __name__ == "__main__":
    harness.main()
