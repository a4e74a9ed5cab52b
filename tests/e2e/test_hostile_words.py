#!/usr/bin/env python3
"""What people and programs may ask for, however odd: quipu search, quipu recall, the tools of
quipu mcp and the routes of quipu serve answer each of it, or refuse it in quipu's own words. Never
with a syntax error of the engine, and never with another scope than the one that was asked for."""

import json
import re
import unittest

import server
from server import message, path
from test_mcp import call

LONG = 1 << 20
WORDS = (  # each is a query and a question
    "what is that", "the", "und der die das", "AND", "OR", "NOT", "NOT NOT", "OR OR harbours",
    "NEAR(a b, 2)", "harbours NEAR harbours", "a NEAR/2 b", "text:harbours", "^harbours", "harb*",
    "*", '"', '"""', '"harbours', "(", ")", "(harbours", "harbours)", "{a b}: c", "-harbours",
    "harbours + words", "a:b:c", "'; DROP TABLE messages; --", "\\", "%", "_", "[", "|", "&", "!",
    "<->", ":*", "'a':1", "harbours:*", "a & !b", "\t\n", "\u3000", "\u200b", "\ufeff", "\u0301",
    "한국어 harbours 東京 Привет", "東", "한", "e\u0301", "\U0001f600", "\U0010ffff", "\ufffe",
    "src/store/recall.c", "foo_bar(x)->y", "C:\\temp\\a.txt", "192.168.0.1:8080", "-1.5e-7",
    "x" * 300, "a " * 600, "NOT " * 300 + "a", '"' * 999, "(" * 999, "\u0301" * 400,
)
ENGINE = re.compile(r"fts5|syntax|sqlite|tsquery|SQLSTATE|unterminated|malformed|no such col", re.I)


class Words(server.Case):
    """Every way to ask."""

    def setUp(self):
        super().setUp()
        self.run_quipu("append", "ann", "--create", "--app", "shop", "--user", "ann", "--role",
                       "user", "--text", "words of ann about harbours")

    def plain(self, text, what):
        """No word of an engine in an answer."""
        self.assertIsNone(ENGINE.search(text), f"{what!r}: {text!r}")

    def test_the_program_answers_every_text(self):
        for text in WORDS:
            for verb in (("search",), ("recall", "--session", "ann")):
                if verb == ("search",) and len(text.encode()) > 4096:
                    continue
                done = self.run_quipu(*verb, "--", text, code=None)
                self.assertIn(done.code, (0, 1, 2, 3), (verb, text, done.err))
                self.plain(done.err, (verb, text))
        self.assertIn("harbours", self.run_quipu("search", "--", "harbours)").out)

    def test_the_program_refuses_what_is_no_question(self):
        for verb in (("search",), ("recall", "--everything")):
            self.assertEqual(self.run_quipu(*verb, code=2).out, "")
            for text in ("", b"\xff\xfe", b"\xed\xa0\x80"):
                text = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
                done = self.run_quipu(*verb, "--", text, code=None)
                self.plain(done.err, (verb, text))
                self.assertEqual(done.out, "", (verb, text))
        long = "harbours " * (1 << 13)  # beyond what either takes
        for verb in (("search",), ("recall", "--everything")):
            done = self.run_quipu(*verb, "--", long, code=None)
            self.assertNotEqual(done.code, 0, verb)
            self.assertRegex(done.err, "at most|too long|longer")
        done = self.run_quipu("recall", "harbours", code=2)
        self.assertRegex(done.err, "session|everything")
        self.run_quipu("recall", "--session", "nobody", "harbours", code=3)
        self.run_quipu("search", "--session", "nobody", "harbours", code=3)
        self.assertEqual(self.run_quipu("recall", "--app", "none", "harbours").out, "")

    def test_the_tools_answer_every_text(self):
        lines, asked = [], []
        for text in (*WORDS, "", "a\0b", "\ud800", "a\udfff", "harbours " * (LONG // 9)):
            for tool, name in (("search_sessions", "query"), ("recall", "question")):
                lines.append(call(tool, len(lines) + 1, **{name: text}))
                asked.append((tool, text[:40]))
        answers = self.run_quipu("mcp", stdin="".join(lines)).lines()
        self.assertEqual(len(answers), len(asked))
        for answer, what in zip(answers, asked):
            self.assertTrue("result" in answer or "error" in answer, what)
            self.plain(json.dumps(answer.get("error", answer.get("result", {}).get("content"))),
                       what)

    def test_the_routes_answer_every_text(self):
        self.serve()
        for text in (*WORDS, "", "a\0b", "x" * 60000):
            for route, more in (("search", {}), ("recall", {"key": "ann"})):
                answer = self.ask("GET", path("v1", route, q=text, **more))
                self.assertIn(answer.status, (200, 400, 413, 414, 431), (route, text[:40]))
                self.plain(answer.body.decode(), (route, text[:40]))
        for raw in ("%ff", "%ed%a0%80", "%00", "%"):
            for route in ("search", "recall"):
                answer = self.ask("GET", f"/v1/{route}?q={raw}&key=ann")
                self.assertEqual(answer.status, 400, (route, raw))
                self.plain(answer.body.decode(), (route, raw))
        for route in ("search", "recall"):
            answer = self.ask("GET", path("v1", route, q="harbours", key="nobody"))
            self.assertEqual(answer.status, 404, route)
        self.append("plain", message("p1"))  # it still serves
        hits = self.good("GET", path("v1", "search", q="harbours"))["hits"]
        self.assertEqual([hit["key"] for hit in hits], ["ann"])


if __name__ == "__main__":
    unittest.main()
