#!/usr/bin/env python3
"""quipu serve and quipu token: every route over a real connection, who may ask for what, and what
of HTTP is accepted."""

import http.client
import json
import os
import socket
import stat
import time
import unittest

import harness
import server
from server import message, path


class Routes(server.Case):
    """What the routes answer."""

    def setUp(self):
        super().setUp()
        self.serve()

    def test_sessions_are_created_appended_to_listed_and_deleted(self):
        made = self.good("POST", "/v1/sessions", {
            "key": "a/b", "title": "First", "metadata": {"x": [1, 2.50]}, "appName": "app",
            "userId": "u", "sessionId": "1", "messages": [message("e1", "one")],
        }, status=201)["session"]
        self.assertEqual((made["key"], made["title"], made["messageCount"]), ("a/b", "First", 1))
        self.assertEqual(made["metadata"], {"x": [1, 2.5]})
        more = {"messages": [message("e2", "two"), message("e3", "three")]}
        got = self.good("POST", path("v1", "sessions", "a/b", "messages"), more)
        self.assertEqual((got["firstSeq"], got["repeated"]), (2, False))
        got = self.good("POST", path("v1", "sessions", "a/b", "messages"), more)
        self.assertEqual((got["firstSeq"], got["repeated"]), (2, True))
        self.assertEqual(self.contents("a/b"), ["one", "two", "three"])
        self.append("plain", message("p1"))
        keys = [one["key"] for one in self.good("GET", "/v1/sessions")["sessions"]]
        self.assertEqual(sorted(keys), ["a/b", "plain"])
        mine = self.good("GET", path("v1", "sessions", app="app", user="u"))["sessions"]
        self.assertEqual([one["key"] for one in mine], ["a/b"])
        self.good("DELETE", path("v1", "sessions", "a/b"), status=204)
        self.assertEqual(self.ask("GET", path("v1", "sessions", "a/b")).status, 404)

    def test_pages_of_a_list_follow_by_their_cursor(self):
        for i in range(5):
            self.append(f"s{i}", message(f"e{i}"))
        seen = []
        target = path("v1", "sessions", limit=2)
        while target:
            page = self.good("GET", target)
            seen += [one["key"] for one in page["sessions"]]
            target = path("v1", "sessions", limit=2, after=page["next"]) if "next" in page else None
        self.assertEqual(seen, ["s4", "s3", "s2", "s1", "s0"])

    def test_a_range_of_messages_is_read(self):
        self.append("s", *[message(f"e{i}", f"m{i}") for i in range(10)])
        for parameters, expected in (
            ({"limit": 2}, ["m0", "m1"]),
            ({"limit": 2, "last": "true"}, ["m8", "m9"]),
            ({"after": 3, "before": 6}, ["m3", "m4"]),
        ):
            got = self.good("GET", path("v1", "sessions", "s", **parameters))
            self.assertEqual([one["content"] for one in got["messages"]], expected)
        self.assertNotIn("messages", self.good("GET", path("v1", "sessions", "s", limit=0)))

    def test_settings_change_and_a_stale_revision_conflicts(self):
        self.append("s", message("e"))
        target = path("v1", "sessions", "s")
        revision = self.good("PATCH", target, {"title": "T", "ttlMs": 3600000})["revision"]
        session = self.good("GET", target)["session"]
        self.assertEqual(session["title"], "T")
        self.assertIn("expiresAt", session)
        body = {"title": "U", "expectedRevision": revision - 1}
        answer = self.ask("PATCH", target, body)
        self.assertEqual((answer.status, answer.json()["error"]["status"]), (409, "CONFLICT"))
        self.good("PATCH", target, {"title": None})
        self.assertNotIn("title", self.good("GET", target)["session"])

    def test_a_time_to_live_of_null_never_ends(self):
        self.append("s", message("e"))
        target = path("v1", "sessions", "s")
        self.good("PATCH", target, {"ttlMs": 3600000})
        self.good("PATCH", target, {"ttlMs": None})
        self.assertNotIn("expiresAt", self.good("GET", target)["session"])
        made = self.good("POST", "/v1/sessions", {"key": "t", "ttlMs": None}, status=201)
        self.assertNotIn("expiresAt", made["session"])

    def test_a_member_that_comes_twice_is_refused(self):
        self.append("s", message("e"))
        target = path("v1", "sessions", "s")
        many = ",".join(f'"n{i}":1' for i in range(20))
        for method, where, body in (
            ("PATCH", target, '{"title":"a","title":"b"}'),
            ("PATCH", target, r'{"title":"a","\u0074itle":"b"}'),
            ("PATCH", target + "/state", '{' + many + ',"n7":2}'),
            ("POST", "/v1/sessions", '{"key":"a","key":"b"}'),
            ("POST", target + "/messages",
             '{"messages":[{"role":"user","content":"a","content":"b"}]}'),
            ("POST", target + "/fork", '{"key":"f","seq":1,"seq":0}'),
        ):
            answer = self.ask(method, where, server.Raw(body))
            self.assertEqual(answer.status, 400, body)
            self.assertIn("twice", answer.json()["error"]["message"])
        self.good("PATCH", target + "/state", server.Raw("{" + many + "}"))
        # Values are the caller's own: what stands inside of one is kept as it is.
        self.good("PATCH", target, server.Raw('{"metadata":{"a":1,"a":2}}'))
        self.assertEqual(self.contents("s"), ["hello"])

    def test_a_key_that_no_path_can_have_is_refused(self):
        for key in (".", "..", "a/../b", "./a", "a/.."):
            answer = self.ask("POST", "/v1/sessions", {"key": key})
            self.assertEqual(answer.status, 400, key)
            self.assertIn("between slashes", answer.json()["error"]["message"])
        sessions = "/apps/app/users/u/sessions"
        self.assertEqual(self.ask("POST", sessions, {"sessionId": ".."}).status, 400)
        for key in ("...", "a.b/.c", "v1.2"):
            self.good("POST", "/v1/sessions", {"key": key}, status=201)
            self.good("GET", path("v1", "sessions", key))

    def test_a_fault_of_the_store_does_not_show_where_it_lies(self):
        self.append("s", *[message(f"e{i}", f"marked text {i} " + "x" * 3000) for i in range(20)])
        self.stop()
        data = bytearray(self.store.read_bytes())
        at = data.index(b"marked text 7 ")
        data[at] ^= 1
        self.store.write_bytes(data)
        self.serve()
        answer = self.ask("GET", path("v1", "sessions", "s"))
        self.assertEqual((answer.status, answer.json()["error"]["status"]), (500, "CORRUPT"))
        self.assertNotIn(str(self.folder), answer.body.decode())
        self.assertNotIn(self.store.name, answer.body.decode())

    def test_window_context_search_and_recall_find_what_was_said(self):
        self.append("s", message("e1", "The ferry leaves at nine."),
                    message("e2", "Noted.", "assistant"))
        window = self.good("GET", path("v1", "sessions", "s", "window", budget=1000))
        self.assertEqual(len(window["messages"]), 2)
        context = self.good("GET", path("v1", "sessions", "s", "context"))
        self.assertEqual(context["contents"][0]["parts"][0]["text"], "The ferry leaves at nine.")
        answer = self.ask("GET", path("v1", "sessions", "s", "context", at=1))
        self.assertEqual(answer.status, 404)  # no turn was sent yet
        hits = self.good("GET", path("v1", "search", q="ferry"))["hits"]
        self.assertEqual([(hit["key"], hit["seq"]) for hit in hits], [("s", 1)])
        hits = self.good("GET", path("v1", "recall", q="When does the ferry leave?"))["hits"]
        self.assertEqual(hits[0]["content"], "The ferry leaves at nine.")
        self.assertEqual(self.good("GET", "/v1/stats")["messages"], 2)

    def test_state_is_set_and_read(self):
        self.append("s", message("e"))
        target = path("v1", "sessions", "s", "state")
        self.assertEqual(self.good("GET", target), {"state": {}})
        self.assertEqual(self.good("PATCH", target, {"a": 1, "b": {"c": []}})["state"],
                         {"a": 1, "b": {"c": []}})
        self.assertEqual(self.good("GET", target)["state"], {"a": 1, "b": {"c": []}})
        self.assertEqual(self.contents("s"), ["hello"])  # a change of state is no message

    def test_state_of_another_session_is_not_reached_by_names(self):
        for key in ("adk:a/u/1", "other"):
            self.good("POST", "/v1/sessions", {"key": key, "appName": "a", "userId": "u",
                                               "sessionId": "1"}, status=201)
        answer = self.ask("PATCH", path("v1", "sessions", "other", "state"), {"x": 1})
        self.assertEqual(answer.status, 404, answer.body)
        self.assertEqual(self.good("GET", path("v1", "sessions", "adk:a/u/1", "state")),
                         {"state": {}})

    def test_a_fork_shares_the_past(self):
        self.append("s", *[message(f"e{i}", f"m{i}") for i in range(4)])
        made = self.good("POST", path("v1", "sessions", "s", "fork"), {"key": "f", "seq": 2},
                         status=201)["session"]
        self.assertTrue(made["isFork"])
        self.append("f", message("x", "other"))
        self.assertEqual(self.contents("f"), ["m0", "m1", "other"])
        self.assertEqual(self.contents("s"), ["m0", "m1", "m2", "m3"])

    def test_a_fork_names_its_parent_and_a_parent_lists_its_forks(self):
        self.append("s", message("e1"), message("e2"))
        for key, seq in (("f", 1), ("g", 2)):
            made = self.good("POST", path("v1", "sessions", "s", "fork"),
                             {"key": key, "seq": seq}, status=201)["session"]
            self.assertEqual((made["parentKey"], made["forkSeq"]), ("s", seq))
        page = self.good("GET", "/v1/sessions?parent=s&limit=1")
        self.assertEqual([one["key"] for one in page["sessions"]], ["g"])
        page = self.good("GET", f"/v1/sessions?parent=s&limit=1&after={page['next']}")
        self.assertEqual([one["key"] for one in page["sessions"]], ["f"])
        self.assertEqual(self.good("GET", "/v1/sessions?parent=f"), {"sessions": []})
        self.assertEqual(self.ask("GET", "/v1/sessions?parent=none").status, 404)
        self.good("DELETE", path("v1", "sessions", "s"), status=204)
        session = self.good("GET", path("v1", "sessions", "f"))["session"]
        self.assertTrue(session["isFork"])
        self.assertNotIn("parentKey", session)

    def test_an_export_is_what_the_program_exports(self):
        self.append("s", message("e1"), message("e2", "ä\u0000ß"))
        answer = self.ask("GET", path("v1", "sessions", "s", "export"))
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.body, self.run_quipu("export", "s").raw_out)

    def test_wrong_input_is_named(self):
        self.append("s", message("e"))
        target = path("v1", "sessions", "s")
        for method, where, body, expected in (
            ("GET", "/v1/sessions?limit=x", None, "limit must be a number"),
            ("GET", "/v1/sessions?limit=10001", None, "limit must be a number from 1 to 10000"),
            ("GET", "/v1/sessions?nonsense=1", None, "unknown"),
            ("GET", target + "/window", None, "budget must be a number"),
            ("GET", "/v1/search", None, "q is missing"),
            ("PATCH", target, {"titel": "x"}, "unknown"),
            ("PATCH", target, {"title": 7}, "title has a value of a wrong type"),
            ("PATCH", target, [], "must be a JSON object"),
            ("POST", target + "/messages", {"messages": []}, "must not be empty"),
            ("POST", target + "/messages", {"messages": [{"content": "x"}]}, "role"),
            ("POST", target + "/fork", {"key": "f"}, "seq is required"),
        ):
            answer = self.ask(method, where, body)
            self.assertEqual(answer.status, 400, (where, answer.body))
            self.assertIn(expected, answer.json()["error"]["message"])
        answer = self.ask("PATCH", target, headers={"Content-Type": "text/plain"}, body={})
        self.assertIn("application/json", answer.json()["error"]["message"])
        answer = self.ask("PUT", target, {})
        self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, PATCH, DELETE"))
        self.assertEqual(self.ask("GET", "/v2").status, 404)

    def test_health_writes_and_ready_answers_without_a_token(self):
        before = self.good("GET", "/v1/stats")["commits"]
        for target in ("/healthz", "/readyz"):
            self.good("GET", target, token=None)
        self.assertEqual(self.good("GET", "/v1/stats")["commits"], before + 1)
        self.good("GET", "/healthz", token=None)  # within a second: not again
        self.assertLessEqual(self.good("GET", "/v1/stats")["commits"], before + 2)
        self.assertEqual(self.good("GET", "/v1/sessions")["sessions"], [])

    def test_metrics_count_requests(self):
        self.append("s", message("e"))
        self.ask("GET", path("v1", "sessions", "missing"))
        text = self.ask("GET", "/metrics").body.decode()
        for line in (
            'quipu_requests_total{method="POST",route="/v1/sessions/{key}/messages",code="2xx"} 1',
            'quipu_requests_total{method="GET",route="/v1/sessions/{key}",code="4xx"} 1',
            "quipu_request_seconds_count 2", "quipu_tails 0",
        ):
            self.assertIn(line + "\n", text)
        self.wait_for_metric("quipu_connections 1")

    def test_the_log_has_no_word_of_a_conversation(self):
        self.stop()
        self.serve("--log", "debug")
        self.append("key-zebra", message("id-zebra", "text-zebra"))
        self.ask("GET", path("v1", "search", q="zebra"))
        self.ask("GET", path("v1", "sessions", "other-zebra"))
        self.stop()
        log = self.log.read_text(encoding="utf-8")
        self.assertIn('"route":"/v1/sessions/{key}/messages","code":200', log)
        self.assertNotIn("zebra", log)
        self.assertNotIn(self.token, log)
        for line in log.splitlines():
            json.loads(line)


class Rights(server.Case):
    """Who may ask for what."""

    def test_a_token_of_a_user_sees_and_changes_that_user_alone(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {
                "key": user, "appName": "app", "userId": user, "sessionId": "1",
                "messages": [message("e", f"the secret of {user}")]}, status=201)
        self.append("plain", message("e", "the secret of all"))
        listed = self.good("GET", "/v1/sessions", token=token)["sessions"]
        self.assertEqual([one["key"] for one in listed], ["me"])
        for target in ("/v1/sessions?user=you", "/v1/sessions?app=other",
                       "/v1/search?q=secret&user=you", "/v1/recall?q=secret&app=other",
                       "/v1/search?q=secret&key=you", "/v1/recall?q=secret&key=plain"):
            self.assertEqual(self.ask("GET", target, token=token).status, 404, target)
        for target in ("/v1/search?q=secret", "/v1/recall?q=secret"):
            hits = self.good("GET", target, token=token)["hits"]
            self.assertEqual([hit["key"] for hit in hits], ["me"])
        for key in ("you", "plain"):
            for method, rest, body in (
                ("GET", "", None), ("GET", "/window?budget=9", None), ("GET", "/context", None),
                ("GET", "/state", None), ("GET", "/export", None), ("GET", "/tail", None),
                ("PATCH", "", {"title": "x"}), ("PATCH", "/state", {"x": 1}),
                ("POST", "/messages", {"messages": [message("x")]}),
                ("POST", "/fork", {"key": "x", "seq": 1}), ("DELETE", "", None),
                ("DELETE", "?forks=true", None),
            ):
                answer = self.ask(method, f"/v1/sessions/{key}{rest}", body, token=token)
                self.assertEqual(answer.status, 404, (method, rest, answer.body))
        # What it creates is its own, whatever it says.
        answer = self.ask("POST", "/v1/sessions", {"key": "x", "appName": "app", "userId": "you"},
                          token=token)
        self.assertEqual(answer.status, 404)
        made = self.good("POST", "/v1/sessions", {"key": "mine"}, status=201, token=token)
        self.assertEqual((made["session"]["appName"], made["session"]["userId"]), ("app", "me"))
        # The app's state is every user's, in any spelling of its name.
        for body in ('{"app:x":1}', '{"\\u0061pp:x":1}'):
            answer = self.ask("PATCH", "/v1/sessions/me/state", token=token, body=json.loads(body))
            self.assertEqual(answer.status, 400)
        self.assertEqual(self.contents("you"), ["the secret of you"])

    def test_a_token_of_a_user_takes_no_key_of_anothers_agent(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        self.good("POST", "/v1/sessions", {"key": "adk:app/me/1", "sessionId": "1"}, status=201,
                  token=token)
        self.append("adk:app/me/1", message("e"))
        for key in ("adk:app/you/1", "adk:other/me/1", "adk:app/me", "adk:app/me/", "adk:",
                    "adk:app/me/1/2", "adk:app%2Fme/1"):
            for target in ("/v1/sessions", path("v1", "sessions", "adk:app/me/1", "fork")):
                body = {"key": key} if target == "/v1/sessions" else {"key": key, "seq": 1}
                answer = self.ask("POST", target, body, token=token)
                self.assertEqual(answer.status, 400, (key, target, answer.body))
        self.good("POST", "/v1/sessions", {"key": "adk:app/you/1", "appName": "app",
                                           "userId": "you"}, status=201)

    def test_a_token_of_a_user_does_not_learn_what_others_have(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        self.append("theirs", message("e"))
        self.good("POST", "/v1/sessions", {"key": "expired", "ttlMs": 1}, status=201)
        end = time.monotonic() + harness.WAIT_S
        while self.ask("GET", path("v1", "sessions", "expired")).status != 410:
            self.assertLess(time.monotonic(), end)
        for rest in ("", "/state", "/window?budget=9", "/export"):
            answers = {self.ask("GET", f"/v1/sessions/{key}{rest}", token=token).body
                       for key in ("theirs", "expired", "missing")}
            self.assertEqual(len(answers), 1, answers)
        answers = {self.ask("GET", f"/v1/sessions?parent={key}", token=token).body
                   for key in ("theirs", "expired", "missing")}
        self.assertEqual(len(answers), 1, answers)

    def test_a_token_of_a_user_does_not_delete_forks_of_others(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        self.good("POST", "/v1/sessions", {"key": "mine", "messages": [message("e")]}, status=201,
                  token=token)
        self.good("POST", path("v1", "sessions", "mine", "fork"),
                  {"key": "theirs", "seq": 1, "appName": "app", "userId": "you"}, status=201)
        target = path("v1", "sessions", "mine", forks="true")
        self.assertEqual(self.ask("DELETE", target, token=token).status, 400)
        self.assertEqual(self.ask("DELETE", path("v1", "sessions", "mine"), token=token).status,
                         204)
        self.assertEqual(self.contents("theirs"), ["hello"])

    def test_a_token_that_only_writes_is_shown_nothing(self):
        token = self.new_token("--verbs", "write")
        self.serve()
        self.append("s", message("e", "the secret"))
        self.good("PATCH", path("v1", "sessions", "s", "state"), {"pin": 1234})
        answer = self.ask("PATCH", path("v1", "sessions", "s", "state"), {"x": 1}, token=token)
        self.assertEqual((answer.status, answer.body), (204, b""))
        answer = self.ask("POST", path("v1", "sessions", "s", "fork"), {"key": "f", "seq": 1},
                          token=token)
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(self.contents("f"), ["the secret"])

    def test_a_removed_and_an_expired_token_end_while_the_server_runs(self):
        self.serve()
        token = self.new_token("--note", "short")
        self.good("GET", "/v1/sessions", token=token)
        listed = self.run_quipu("token", "ls", "--json").lines()
        self.assertEqual([one.get("note") for one in listed], [None, "short"])
        self.run_quipu("token", "rm", listed[1]["id"])
        self.assertEqual(self.ask("GET", "/v1/sessions", token=token).status, 401)
        self.run_quipu("token", "rm", listed[1]["id"], code=3)
        token = self.new_token("--days", "1")
        tokens = pathlib_text(self.folder / "store.db.tokens")
        tokens["tokens"][-1]["expires"] = "2020-01-01T00:00:00Z"
        write_private(self.folder / "store.db.tokens", tokens)
        self.assertEqual(self.ask("GET", "/v1/sessions", token=token).status, 401)
        self.good("GET", "/v1/sessions")

    def test_the_file_holds_hashes_and_is_private(self):
        file = self.folder / "store.db.tokens"
        self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
        self.assertNotIn(self.token.encode(), file.read_bytes())
        os.chmod(file, 0o644)
        for args in (("token", "ls"), ("serve", "--listen", "127.0.0.1:0")):
            self.assertIn("chmod 600", self.run_quipu(*args, code=1).err)

    def test_a_damaged_token_file_lets_nobody_in(self):
        self.serve()
        self.good("GET", "/v1/sessions")
        write_private(self.folder / "store.db.tokens", {"quipu": "tokens"})
        self.assertEqual(self.ask("GET", "/v1/sessions").status, 401)

    def test_tokens_need_a_verb_and_an_app_for_a_user(self):
        self.assertIn("app", self.run_quipu("token", "new", "--user", "u", code=2).err)
        self.run_quipu("token", "new", "--verbs", "all", code=2)
        self.run_quipu("token", "rm", code=2)
        self.run_quipu("token", "new", "--note", "n" * 200)
        self.assertIn("200 bytes", self.run_quipu("token", "new", "--note", "n" * 201, code=1).err)

    def test_a_public_address_is_refused_with_the_reason(self):
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:80"):
            got = self.run_quipu("serve", "--listen", address, code=1)
            self.assertIn("no TLS", got.err)
        for address in ("example.org:80", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", ":1",
                        "unix:"):
            self.assertNotEqual(self.run_quipu("serve", "--listen", address, code=None).code, 0)

    def test_a_foreign_host_or_origin_is_refused(self):
        self.serve("--public-url", "https://Sessions.example.org:8443/x")
        for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:9", 200),
                             ("sessions.example.org:8443", 200), ("evil.example.org", 403),
                             ("localhost.evil.example.org", 403), ("sessions.example.org", 403),
                             ("127.0.0.1.evil.example.org", 403),
                             ("[::1].evil.example.org", 403), ("[::1]evil", 403),
                             ("localhost:evil", 403), ("localhost:", 403)):
            self.assertEqual(self.ask("GET", "/v1/sessions", headers={"Host": host}).status,
                             status, host)
        for origin, status in (("http://localhost:5173", 200), ("https://localhost", 200),
                               ("https://sessions.example.org:8443", 200), ("null", 403),
                               ("https://evil.example.org", 403), ("file://", 403),
                               ("http://localhost.evil.example.org", 403)):
            answer = self.ask("GET", "/v1/sessions", headers={"Origin": origin})
            self.assertEqual(answer.status, status, origin)
            self.assertNotIn("Access-Control-Allow-Origin", answer.headers)


def pathlib_text(file):
    """The JSON of a file."""
    return json.loads(file.read_text(encoding="utf-8"))


def write_private(file, value):
    """Replace a file as the program does, so that the server sees another one."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text(json.dumps(value), encoding="utf-8")
    os.chmod(fresh, 0o600)
    os.replace(fresh, file)


class Protocol(server.Case):
    """What of HTTP is accepted, over a real connection."""

    def setUp(self):
        super().setUp()
        self.serve()

    def head(self, line="GET /v1/sessions HTTP/1.1", *more):
        """The bytes of a request."""
        lines = [line, "Host: localhost", f"Authorization: Bearer {self.token}", *more]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def test_a_connection_takes_many_requests_also_at_once(self):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.WAIT_S)
        for _ in range(3):
            self.good("GET", "/v1/sessions", connection=client)
        client.close()
        statuses, _ = self.raw(
            self.head() + self.head("GET /v2 HTTP/1.1") + self.head("GET /readyz HTTP/1.1",
                                                                     "Connection: close"))
        self.assertEqual(statuses, [200, 404, 200])

    def test_a_head_request_gets_no_body(self):
        statuses, got = self.raw(self.head("HEAD /v1/sessions HTTP/1.1", "Connection: close"))
        self.assertEqual(statuses, [200])
        self.assertIn(b"Content-Length: 15\r\n", got)
        self.assertTrue(got.endswith(b"\r\n\r\n"))

    def test_a_client_may_ask_before_it_sends_a_body(self):
        sock = self.connect()
        body = json.dumps({"key": "s"}).encode()
        sock.sendall(self.head("POST /v1/sessions HTTP/1.1", "Expect: 100-continue",
                               "Content-Type: application/json", f"Content-Length: {len(body)}"))
        self.assertTrue(sock.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
        sock.sendall(body)
        self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 201 Created\r\n"))

    def test_chunks_are_taken(self):
        body = b'5\r\n{"key\r\n6\r\n":"s"}\r\n0\r\n\r\n'
        statuses, _ = self.raw(self.head(
            "POST /v1/sessions HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close",
            "Content-Type: application/json") + body)
        self.assertEqual(statuses, [201])

    def test_a_smuggled_request_is_never_answered(self):
        """One answer, then the connection closes: what follows is no request."""
        hidden = self.head("DELETE /v1/sessions/s HTTP/1.1")
        self.append("s", message("e"))
        post = "POST /v1/sessions/s/messages HTTP/1.1"
        for case, status in (
            (self.head(post, "Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
             400),
            (self.head(post, "Transfer-Encoding: xchunked") + b"0\r\n\r\n", 501),
            (self.head(post, "Content-Length: 3", "Content-Length: 30") + b"abc", 400),
            (self.head(post, "Content-Length: +3") + b"abc", 400),
            (self.head(post, "X: 1", " folded"), 400),
            (self.head(post, "X : 1"), 400),
            (self.head("GET /v1/sessions/%00 HTTP/1.1"), 400),
            (self.head("GET /v1/sessions/..%2f..%2fetc HTTP/1.1"), 400),
            (self.head("GET http://evil.example.org/ HTTP/1.1"), 400),
            (b"GET /\n\n", 400), (b"\x16\x03\x01\x02\x00", 400),
            (self.head("GET /" + "a" * 9000 + " HTTP/1.1"), 414),
            (self.head("GET / HTTP/1.1", "X: " + "a" * 17000), 431),
            (self.head("GET / HTTP/2.0"), 505),
        ):
            statuses, got = self.raw(case + hidden)
            self.assertEqual(statuses, [status], case)
            self.assertIn(b"Connection: close\r\n", got)
        self.assertEqual(self.contents("s"), ["hello"])


class UnixSocket(server.Case):
    """A socket in the file system."""

    def test_a_unix_socket_is_private_and_removed(self):
        file = self.folder / "socket"
        self.serve(listen=f"unix:{file}")
        self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
        sock = socket.socket(socket.AF_UNIX)
        self.addCleanup(sock.close)
        sock.settimeout(harness.WAIT_S)
        sock.connect(str(file))
        sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n"))
        sock.close()
        second = self.run_quipu("serve", "--listen", f"unix:{file}", code=None)
        self.assertNotEqual(second.code, 0)  # it is taken
        self.process.kill()
        self.process.wait()
        self.serve(listen=f"unix:{file}")  # what a killed server left is replaced
        self.stop()
        self.assertFalse(file.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
