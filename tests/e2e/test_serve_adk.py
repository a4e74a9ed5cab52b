#!/usr/bin/env python3
"""ADK's routes of quipu serve: who may use them, and that they lead to the sessions of the store.
What they answer is compared with ADK's own server by tests/python/adk_server.py."""

import time
import unittest

import server
from server import Tail, message, path

SESSIONS = "/apps/app/users/u/sessions"


class Open(server.Case):
    """--adk-open: one app, without a token."""

    def test_the_open_app_needs_no_token_and_everything_else_does(self):
        self.serve("--adk-open", "app")
        line = self.read_line(self.process)
        self.assertIn("/apps/app needs no token", line)
        made = self.good("POST", SESSIONS, {"sessionId": "1", "state": {"a": 1}}, token=None)
        self.assertEqual(made["state"], {"a": 1})
        self.assertEqual(self.good("GET", "/list-apps", token=None), ["app"])
        self.assertEqual([one["id"] for one in self.good("GET", SESSIONS, token=None)], ["1"])
        for method, target in (
            ("GET", "/apps/other/users/u/sessions"), ("GET", "/apps/app%2F/users/u/sessions"),
            ("GET", "/v1/sessions"), ("GET", "/v1/stats"), ("GET", "/metrics"), ("POST", "/mcp"),
            ("GET", path("v1", "sessions", "adk:app/u/1")),
        ):
            self.assertEqual(self.ask(method, target, token=None).status, 401, target)
        self.assertEqual(self.ask("GET", SESSIONS, token="wrong").status, 401)
        answer = self.ask("GET", SESSIONS, token=None, headers={"Origin": "https://evil.example"})
        self.assertEqual(answer.status, 403)

    def test_without_the_option_every_adk_route_needs_a_token(self):
        self.serve()
        answer = self.ask("GET", SESSIONS, token=None)
        self.assertEqual((answer.status, list(answer.json())), (401, ["detail"]))
        self.assertEqual(self.good("GET", SESSIONS), [])
        for target in ("/health", "/version", "/dev-ui/assets/config/runtime-config.json"):
            self.good("GET", target, token=None)

    def test_the_name_of_the_open_app_has_a_limit(self):
        for name, good in (("a" * 255, True), ("a" * 256, False), ("", False)):
            if good:
                self.serve("--adk-open", name)
                self.stop()
            else:
                got = self.run_quipu("serve", "--listen", "127.0.0.1:0", "--adk-open", name, code=1)
                self.assertIn("1 to 255 bytes", got.err)


class Sessions(server.Case):
    """The same sessions by both kinds of routes."""

    def setUp(self):
        super().setUp()
        self.serve()

    def test_a_session_of_adk_is_one_of_the_store(self):
        event = {"author": "user", "content": {"role": "user", "parts": [{"text": "Ahoy"}]}}
        self.good("POST", SESSIONS, {"sessionId": "a/b", "events": [event]})
        self.assertEqual(self.contents("adk:app/u/a%2Fb"), ["Ahoy"])
        self.append("plain", message("e"))
        self.assertEqual(self.good("GET", "/list-apps"), ["app"])
        detailed = self.good("GET", "/list-apps?detailed=true")["apps"]
        self.assertEqual([one["rootAgentName"] for one in detailed], ["app"])
        hits = self.good("GET", path("v1", "recall", q="ahoy", app="app", user="u"))["hits"]
        self.assertEqual([hit["content"] for hit in hits], ["Ahoy"])

    def test_a_change_of_state_reaches_tails_at_once(self):
        self.good("POST", SESSIONS, {"sessionId": "1"})
        tail = Tail(self, "adk:app/u/1")
        self.assertEqual(tail.status, 200)
        self.good("PATCH", SESSIONS + "/1", {"stateDelta": {"a": 1}})
        event, number, _ = tail.next()
        self.assertEqual((event, number), ("message", "1"))
        self.good("DELETE", SESSIONS + "/1")
        self.assertEqual(tail.next()[0], "end")

    def test_a_session_whose_events_are_refused_is_not_created(self):
        events = [{"author": "user", "id": "twice"}, {"author": "other", "id": "twice"}]
        answer = self.ask("POST", SESSIONS, {"sessionId": "1", "events": events})
        self.assertGreaterEqual(answer.status, 400, answer.body)
        self.assertEqual(self.ask("GET", SESSIONS + "/1").status, 404)
        self.assertEqual(self.good("GET", SESSIONS), [])

    def test_what_is_not_served_says_so(self):
        for method, target in (("POST", "/run"), ("POST", "/run_sse")):
            answer = self.ask(method, target, {} if method == "POST" else None)
            self.assertEqual(answer.status, 501, target)
            self.assertIn("detail", answer.json())
        self.assertIn("runs no agent", self.ask("POST", "/run", {}).json()["detail"])

    def test_tokens_of_a_user_reach_that_user_alone(self):
        mine = self.new_token("--app", "app", "--user", "u")
        self.good("POST", SESSIONS, {"sessionId": "1"}, token=mine)
        other = SESSIONS.replace("/u/", "/other/")
        self.good("POST", other, {"sessionId": "1"})
        for method, target, body in (
            ("GET", other, None), ("GET", other + "/1", None), ("DELETE", other + "/1", None),
            ("PATCH", other + "/1", {"stateDelta": {}}), ("POST", other, {"sessionId": "2"}),
            ("PATCH", "/apps/app/users/other/memory", {"sessionId": "1"}),
            ("GET", "/apps/more/users/u/sessions", None),
        ):
            answer = self.ask(method, target, body, token=mine)
            self.assertEqual(answer.status, 404, (method, target, answer.body))
        self.good("GET", other + "/1")  # nobody deleted it
        self.assertEqual(self.good("GET", "/list-apps", token=mine), ["app"])
        for method, target, body in (
            ("PATCH", SESSIONS + "/1", {"stateDelta": {"app:x": 1}}),
            ("POST", SESSIONS, {"state": {"\u0061pp:x": 1}}),
        ):
            answer = self.ask(method, target, body, token=mine)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn("state of the app", answer.json()["detail"])

    def test_artifacts_of_an_expired_session_are_hidden(self):
        self.good("POST", SESSIONS, {"sessionId": "1"})
        part = {"inlineData": {"data": "AA==", "mimeType": "a/b"}}
        target = SESSIONS + "/1/artifacts"
        for name in ("own", "user:all"):
            self.good("POST", target, {"filename": name, "artifact": part})
        self.assertEqual(self.good("GET", target), ["own", "user:all"])
        self.good("PATCH", server.path("v1", "sessions", "adk:app/u/1"), {"ttlMs": 1})
        time.sleep(0.01)
        self.assertEqual(self.good("GET", target), ["user:all"])
        self.assertEqual(self.good("GET", target + "/own/versions"), [])
        owner = {"app": "app", "user": "u", "key": "adk:app/u/1"}
        listed = self.good("GET", server.path("v1", "artifacts", **owner))["artifacts"]
        self.assertEqual([one["name"] for one in listed], ["user:all"])
        own = server.path("v1", "artifacts", "own", **owner)
        self.assertEqual(self.ask("GET", own).status, 404)
        answer = self.ask("POST", "/v1/artifacts", owner | {"name": "own", "data": "AA=="})
        self.assertEqual(answer.status, 410)
        for sub in ("/own", "/own/versions/0", "/own/versions/0/metadata"):
            self.assertEqual(self.ask("GET", target + sub).status, 404, sub)
        answer = self.ask("POST", target, {"filename": "own", "artifact": part})
        self.assertEqual(answer.status, 404)
        self.assertIsNone(self.good("DELETE", target + "/own"))
        self.good("GET", target + "/user%3Aall")
        self.good("POST", target, {"filename": "user:more", "artifact": part})

    def test_a_token_that_only_writes_is_shown_nothing(self):
        write = self.new_token("--verbs", "write")
        answer = self.ask("POST", SESSIONS, {"sessionId": "1", "state": {"a": 1}}, token=write)
        self.assertEqual((answer.status, answer.body), (204, b""))
        answer = self.ask("PATCH", SESSIONS + "/1", {"stateDelta": {"a": 2}}, token=write)
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(self.good("GET", SESSIONS + "/1")["state"], {"a": 2})

    def test_the_number_of_first_events_has_a_limit(self):
        event = {"author": "user"}
        self.good("POST", SESSIONS, {"sessionId": "max", "events": [event] * 10000})
        answer = self.ask("POST", SESSIONS, {"sessionId": "more", "events": [event] * 10001})
        self.assertEqual(answer.status, 400)
        self.assertIn("10000 events", answer.json()["detail"])


if __name__ == "__main__":
    unittest.main()
