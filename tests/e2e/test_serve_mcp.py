#!/usr/bin/env python3
"""POST /mcp of quipu serve: the Model Context Protocol with the scope and the rights of a token."""

import unittest

import server
from server import message

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Mcp(server.Case):
    def setUp(self):
        super().setUp()
        self.serve()
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {
                "key": user, "appName": "app", "userId": user, "sessionId": "1",
                "messages": [message("e", f"the secret of {user}")]}, status=201)

    def post(self, method, token=True, headers=None, **params):
        """A request of the newest revision with the headers that mirror it."""
        mirrored = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
        if "name" in params:
            mirrored["Mcp-Name"] = params["name"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
        return self.ask("POST", "/mcp", body, token=token, headers={**mirrored, **(headers or {})})

    def call(self, tool, token=True, **arguments):
        """The result of a tool."""
        answer = self.post("tools/call", token=token, name=tool, arguments=arguments)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["result"]

    def test_the_token_is_the_scope_of_every_tool(self):
        token = self.new_token("--app", "app", "--user", "me")
        found = self.call("search_sessions", token, query="secret")["structuredContent"]
        self.assertEqual([hit["session"] for hit in found["hits"]], ["me"])
        listed = self.call("list_sessions", token)["structuredContent"]["sessions"]
        self.assertEqual([one["key"] for one in listed], ["me"])
        for tool in ("read_messages", "session_overview", "get_state"):
            self.assertTrue(self.call(tool, token, session="you")["isError"], tool)
        self.assertTrue(self.call("append_note", token, session="you", text="x")["isError"])
        self.assertEqual(self.contents("you"), ["the secret of you"])

    def test_tools_that_write_need_the_right_to_write(self):
        token = self.new_token("--verbs", "read")
        tools = self.post("tools/list", token).json()["result"]["tools"]
        self.assertNotIn("append_note", [tool["name"] for tool in tools])
        answer = self.post("tools/call", token, name="append_note",
                           arguments={"session": "me", "text": "x"})
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (400, -32602))
        self.assertEqual(self.call("append_note", session="me", text="x")["structuredContent"],
                         {"session": "me", "seq": 2, "repeated": False})

    def test_statuses_are_those_of_the_protocol(self):
        self.assertEqual(self.post("server/discover").status, 200)
        self.assertEqual(self.post("no/such").status, 404)
        wrong = self.post("tools/list", headers={"Mcp-Method": "tools/call"})
        self.assertEqual((wrong.status, wrong.json()["error"]["code"]), (400, -32020))
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        done = self.ask("POST", "/mcp", note, headers={"MCP-Protocol-Version": "2025-11-25"})
        self.assertEqual((done.status, done.body), (202, b""))
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
                 "params": {"protocolVersion": "2025-11-25"}}
        self.assertEqual(self.good("POST", "/mcp", hello)["result"]["protocolVersion"],
                         "2025-11-25")
        for method in ("GET", "DELETE"):
            self.assertEqual(self.ask(method, "/mcp").status, 405)


if __name__ == "__main__":
    unittest.main()
