#!/usr/bin/env python3
"""quipu mcp, by the program: what a client sees on the pipes, and what the options allow."""

import json
import os
import unittest

import harness

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(method, number=1, **params):
    """A request of the newest revision, as a line."""
    message = {"jsonrpc": "2.0", "id": number, "method": method,
               "params": {"_meta": META, **params}}
    return json.dumps(message) + "\n"


def call(tool, number=1, **arguments):
    """A call of a tool, as a line."""
    return request("tools/call", number, name=tool, arguments=arguments)


class Mcp(harness.Case):
    def setUp(self):
        super().setUp()
        for key, app, user in (("ann-1", "shop", "ann"), ("bob-1", "shop", "bob")):
            self.run_quipu("append", key, "--create", "--app", app, "--user", user,
                           "--text", f"words of {user} about harbours")

    def ask(self, lines, *options):
        """Every response to some lines."""
        return self.run_quipu("mcp", *options, stdin="".join(lines)).lines()

    def result(self, line, *options):
        """The result of one tool's call."""
        return self.ask([line], *options)[0]["result"]

    def test_wrong_lines_are_answered_and_the_next_one_works(self):
        answers = self.ask(["{\n", "[]\n", "\n", '{"jsonrpc":"2.0","method":"x"}\n', "\udcff\n",
                            request("no/such"), request("tools/list", 2)])
        codes = [answer.get("error", {}).get("code") for answer in answers]
        self.assertEqual(codes, [-32700, -32600, -32700, -32601, None])
        self.assertEqual(len(answers[-1]["result"]["tools"]), 6)

    def test_an_older_client_begins_with_initialize(self):
        hello = {"protocolVersion": "2025-06-18", "capabilities": {},
                 "clientInfo": {"name": "c", "version": "1"}}
        answers = self.ask([
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n",
            '{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
            '{"jsonrpc":"2.0","id":2,"method":"tools/list"}',
        ])
        self.assertEqual(answers[0]["result"]["protocolVersion"], "2025-06-18")
        self.assertEqual([answer["id"] for answer in answers], [1, 2])

    def test_the_options_are_the_scope(self):
        hits = lambda *options: {
            hit["session"] for hit in
            self.result(call("search_sessions", query="harbours"), *options)
            ["structuredContent"]["hits"]
        }
        self.assertEqual(hits(), {"ann-1", "bob-1"})
        self.assertEqual(hits("--app", "shop"), {"ann-1", "bob-1"})
        self.assertEqual(hits("--app", "shop", "--user", "ann"), {"ann-1"})
        self.assertEqual(hits("--session", "bob-1"), {"bob-1"})
        self.assertEqual(hits("--tenant", "other"), set())
        outside = self.result(call("read_messages", session="bob-1"), "--app", "shop", "--user",
                              "ann")
        self.assertTrue(outside["isError"])

    def test_only_write_writes(self):
        line = call("append_note", session="ann-1", text="a note")
        self.assertEqual(self.ask([line])[0]["error"]["code"], -32602)
        self.assertEqual(self.result(line, "--write")["structuredContent"]["seq"], 2)
        self.assertIn("a note", self.run_quipu("show", "ann-1").out)

    def test_a_search_that_cannot_index_names_the_tool_that_needs_no_index(self):
        failed = self.result(call("search_sessions", query="harbours"), "--read-only")
        self.assertTrue(failed["isError"])
        self.assertIn("recall needs no index", failed["content"][0]["text"])

    def test_a_store_that_is_read_only_is_read(self):
        self.run_quipu("search", "harbours")  # indexes
        before = self.store.read_bytes()
        found = self.result(call("recall", question="harbours"), "--read-only")
        self.assertEqual(len(found["structuredContent"]["hits"]), 2)
        self.assertEqual(self.store.read_bytes(), before)

    def test_wrong_options_and_stores_end_it_before_it_serves(self):
        self.run_quipu("mcp", "--user", "ann", code=2)
        self.run_quipu("mcp", "--write", "--read-only", code=2)
        self.run_quipu("mcp", "--store", self.folder / "none.db", code=3)

    def test_it_answers_while_other_processes_write(self):
        server = self.start_quipu("mcp")
        for number in range(1, 4):
            self.run_quipu("append", "ann-1", "--text", f"message {number} of another process")
            server.stdin.write(call("read_messages", number, session="ann-1").encode())
            server.stdin.flush()
            answer = json.loads(self.read_line(server))
            texts = [m["text"] for m in answer["result"]["structuredContent"]["messages"]]
            self.assertEqual(texts[-1], f"message {number} of another process")
        server.stdin.close()
        self.assertEqual(server.wait(harness.WAIT_S), 0)

    def test_a_client_that_stops_reading_ends_it(self):
        server = self.start_quipu("mcp")
        server.stdout.close()
        server.stdin.write(request("tools/list").encode())
        server.stdin.flush()  # and stays open
        self.assertEqual(server.wait(harness.WAIT_S), 0)
        self.assertEqual(os.read(server.stderr.fileno(), 1000), b"")


if __name__ == "__main__":
    unittest.main()
