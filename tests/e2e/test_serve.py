#!/usr/bin/env python3
"""quipu serve and quipu token: every route over a real connection, who may ask for what, and what
of HTTP is accepted."""

import contextlib
import http.client
import json
import os
import re
import socket
import sqlite3
import stat
import time
import threading
import unittest
import uuid

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
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                 "params": {"name": "recall", "arguments": {"question": "marked text"}}}
        tool = self.ask("POST", "/mcp", asked)
        self.assertIn("CORRUPT: ", tool.body.decode())
        for one in (answer, tool):
            self.assertNotIn(str(self.folder), one.body.decode())
            self.assertNotIn(self.store.name, one.body.decode())
        self.stop()
        failed = [one for one in map(json.loads, self.log.read_text().splitlines())
                  if one["event"] == "store_failed"]
        self.assertEqual([(one["level"], one["route"], one["status"]) for one in failed],
                         [("error", "/v1/sessions/{key}", "CORRUPT"), ("error", "/mcp", "CORRUPT")])

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

    def test_recall_finds_what_is_known_when_it_is_asked_for(self):
        self.append("s", message("e1", "The ferry leaves at nine."))
        self.run_quipu("memory", "add", "s", "Ana likes ferries.", "--from", "1", "--subject",
                       "Ana")
        question = "Who likes ferries?"
        plain = self.good("GET", path("v1", "recall", q=question))
        self.assertEqual([hit["seq"] for hit in plain["hits"]], [1])
        self.assertEqual(plain["memories"], 0)
        answer = self.good("GET", path("v1", "recall", q=question, memories="true"))
        self.assertEqual(answer["memories"], 1)
        first, second = answer["hits"]
        (known,) = self.good("GET", path("v1", "sessions", "s", "memory"))["memories"]
        self.assertEqual(first["memory"], known)
        self.assertEqual((first["key"], first["content"]), ("s", "Ana likes ferries."))
        self.assertNotIn("seq", first)
        self.assertNotIn("role", first)
        self.assertNotIn("memory", second)
        wrong = self.ask("GET", path("v1", "recall", q=question, memories="yes"))
        self.assertEqual(wrong.status, 400)

    def test_state_is_set_and_read(self):
        self.append("s", message("e"))
        target = path("v1", "sessions", "s", "state")
        self.assertEqual(self.good("GET", target), {"state": {}})
        self.assertEqual(self.good("PATCH", target, {"a": 1, "b": {"c": []}})["state"],
                         {"a": 1, "b": {"c": []}})
        self.assertEqual(self.good("GET", target)["state"], {"a": 1, "b": {"c": []}})
        self.assertEqual(self.contents("s"), ["hello"])  # a change of state is no message

    def test_state_says_who_set_it_last(self):
        self.good("POST", "/v1/sessions", {"key": "adk:a/u/1", "appName": "a", "userId": "u",
                                           "sessionId": "1"}, status=201)
        target = path("v1", "sessions", "adk:a/u/1", "state")
        self.good("PATCH", target, {"x": 1, "user:y": None})
        found = self.good("GET", target + "?blame=true")["blame"]
        self.assertEqual([(one["scope"], one["name"], one["value"], one["setBy"], one.get("setIn"))
                          for one in found],
                         [("user", "y", None, "user", "adk:a/u/1"),
                          ("session", "x", 1, "user", None)])
        self.assertRegex(found[0]["setAt"], r"^\d{4}-\d\d-\d\dT")
        self.assertNotIn("setSeq", found[1])  # the event only changed state

    def test_an_append_changes_settings_in_its_transaction(self):
        self.append("s", message("e1"))
        target = path("v1", "sessions", "s", "messages")
        body = {"messages": [message("e2")], "settings": {"title": "T", "ttlMs": 3600000}}
        got = self.good("POST", target, body)
        session = self.good("GET", path("v1", "sessions", "s"))["session"]
        self.assertEqual((session["title"], session["revision"]), ("T", got["revision"]))
        self.assertIn("expiresAt", session)
        body["settings"]["title"] = "another"  # of a repeat nothing is written
        self.assertTrue(self.good("POST", target, body)["repeated"])
        self.assertEqual(self.good("GET", path("v1", "sessions", "s"))["session"]["title"], "T")
        for settings in ([], {"nonsense": 1}, {"title": "x" * 513}):
            answer = self.ask("POST", target, {"messages": [message("e3")], "settings": settings})
            self.assertIn(answer.status, (400, 413), settings)
        self.assertEqual(len(self.contents("s")), 2)

    def test_artifacts_are_saved_listed_read_and_deleted(self):
        self.good("POST", "/v1/sessions", {"key": "s", "appName": "a", "userId": "u"}, status=201)
        target = path("v1", "sessions", "s", "artifacts")
        self.assertEqual(self.good("GET", target), {"artifacts": []})
        made = self.good("POST", target, {"name": "x/y.bin", "data": "AP8=", "mimeType": "a/b",
                                          "metadata": {"n": 1}}, status=201)["artifact"]
        self.assertEqual((made["version"], made["size"], made["metadata"]), (0, 2, {"n": 1}))
        self.assertNotIn("data", made)
        self.good("POST", target, {"name": "x/y.bin", "text": "tüxt"}, status=201)
        self.good("POST", target, {"name": "user:z", "data": ""}, status=201)
        names = [(one["name"], one["version"]) for one in self.good("GET", target)["artifacts"]]
        self.assertEqual(names, [("user:z", 0), ("x/y.bin", 1)])
        self.assertEqual(len(self.good("GET", target + "?versions=true")["artifacts"]), 3)
        one = path("v1", "sessions", "s", "artifacts", "x/y.bin")
        got = self.good("GET", one)["artifact"]
        self.assertEqual((got["data"], got["kind"]), ("dMO8eHQ=", "text"))
        self.assertEqual(self.good("GET", one + "?version=0")["artifact"]["data"], "AP8=")
        self.assertEqual(self.ask("GET", one + "?version=2").status, 404)
        self.assertEqual(self.good("GET", "/v1/stats")["artifacts"], 3)
        for body in ({"name": "n"}, {"data": ""}, {"name": "", "data": ""}, {"name": 1, "data": ""},
                     {"name": "n", "data": "%"}, {"name": "n", "data": "", "more": 1},
                     {"name": "n", "data": "", "metadata": []}):
            self.assertEqual(self.ask("POST", target, body).status, 400, body)
        self.assertEqual(self.good("DELETE", one), {"removed": 2})
        self.assertEqual(self.ask("GET", one).status, 404)
        missing = path("v1", "sessions", "none", "artifacts")
        self.assertEqual(self.ask("GET", missing).status, 404)
        self.assertEqual(self.ask("POST", missing, {"name": "n", "data": ""}).status, 404)
        mine = self.new_token("--app", "a", "--user", "other")
        self.assertEqual(self.ask("GET", target, token=mine).status, 404)

    def test_artifacts_of_an_app_and_a_user_need_no_session(self):
        body = {"app": "a", "user": "u", "key": "none", "name": "n", "data": "AA==",
                "kind": "uri"}
        made = self.good("POST", "/v1/artifacts", body, status=201)["artifact"]
        self.assertEqual((made["kind"], made["sessionKey"], made["userId"]), ("uri", "none", "u"))
        self.good("POST", "/v1/artifacts", {"app": "a", "user": "u", "name": "user:n", "text": ""},
                  status=201)
        listed = path("v1", "artifacts", app="a", user="u", key="none")
        self.assertEqual([one["name"] for one in self.good("GET", listed)["artifacts"]],
                         ["n", "user:n"])
        one = path("v1", "artifacts", "n", app="a", user="u", key="none")
        self.assertEqual(self.good("GET", one)["artifact"]["data"], "AA==")
        # A token's user is who it is for: without names it gets its own, with others nothing.
        mine = self.new_token("--app", "a", "--user", "u")
        other = self.new_token("--app", "a", "--user", "v")
        self.assertEqual(len(self.good("GET", "/v1/artifacts", token=mine)["artifacts"]), 1)
        self.assertEqual(self.good("GET", "/v1/artifacts", token=other), {"artifacts": []})
        for method, target in (("GET", listed), ("GET", one), ("DELETE", one)):
            self.assertEqual(self.ask(method, target, token=other).status, 404, target)
        self.assertEqual(self.ask("POST", "/v1/artifacts", body, token=other).status, 404)
        for wrong in ({"name": ".."}, {"name": "a/./b"}, {"kind": "x"}, {"key": "../x"},
                      {"app": 1}):
            self.assertEqual(self.ask("POST", "/v1/artifacts", body | wrong).status, 400, wrong)
        self.assertEqual(self.ask("GET", "/v1/artifacts").status, 400)
        self.assertEqual(self.good("DELETE", one, token=mine), {"removed": 1})
        self.assertEqual(self.good("DELETE", one), {"removed": 0})

    def test_a_session_is_compacted_and_pruned(self):
        self.append("s", message("e1", "one"), message("e2", "two", "assistant"), message("e3"))
        target = path("v1", "sessions", "s", "compact")
        for wrong in ({}, {"coversTo": 1}, {"summary": "s"}, {"coversTo": 1, "summary": ""},
                      {"coversTo": -1, "summary": "s"}, {"coversTo": 1, "summary": "s", "x": 1},
                      {"coversTo": 9, "summary": "s"}):
            self.assertEqual(self.ask("POST", target, wrong).status, 400, wrong)
        self.assertEqual(self.good("POST", target, {"coversTo": 2, "summary": "so far"},
                                   status=201), {"seq": 4})
        view = self.good("GET", path("v1", "sessions", "s") + "?view=true")["messages"]
        self.assertEqual([one["seq"] for one in view], [4, 3])
        self.good("DELETE", target, status=204)
        self.assertEqual(self.ask("DELETE", target).status, 404)
        self.good("POST", target, {"coversTo": 2, "summary": "so far"}, status=201)
        prune = path("v1", "sessions", "s", "prune")
        self.assertEqual(self.good("POST", prune), {"removed": 2})
        self.assertEqual(self.good("POST", prune), {"removed": 0})
        self.assertEqual(self.ask("POST", path("v1", "sessions", "none", "prune")).status, 404)

    def test_the_feed_is_for_tokens_of_the_whole_store(self):
        self.append("s", message("e1"))
        page = self.good("GET", "/v1/feed?limit=5")
        self.assertEqual(page["changes"], [])  # the server's store records none
        self.assertEqual(self.good("GET", "/v1/feed?fromNow=true")["next"], page["next"])
        self.assertEqual(self.ask("GET", "/v1/feed?after=x").status, 400)
        self.assertEqual(self.ask("GET", "/v1/feed?limit=10001").status, 400)

    def test_a_server_records_a_feed_with_its_option(self):
        self.serve()
        self.append("unseen", message("e"))
        self.assertEqual(self.good("GET", "/v1/feed")["changes"], [])
        self.stop()
        self.serve("--feed")
        self.append("s", message("e1"))
        self.append("s", message("e2"))
        page = self.good("GET", "/v1/feed?limit=1")
        self.assertEqual([(one["kind"], one["key"]) for one in page["changes"]], [("created", "s")])
        rest = self.good("GET", path("v1", "feed", after=page["next"]))["changes"]
        self.assertEqual({(one["kind"], one["key"]) for one in rest}, {("appended", "s")})

    def test_usage_is_summed_up_by_session_model_and_day(self):
        answer = message("e1", "hi", "assistant") | {
            "model": "m", "promptTokens": 100, "cachedTokens": 40, "answerTokens": 7,
            "timestamp": "2026-03-01T23:59:59Z"}
        later = answer | {"eventId": "e2", "timestamp": "2026-03-02T00:00:00Z"}
        self.append("s", answer, later, message("e3"))
        self.append("t", answer | {"model": "n"})
        session = self.good("GET", path("v1", "sessions", "s"))
        self.assertEqual((session["session"]["promptTotal"], session["session"]["answerCount"]),
                         (200, 2))
        self.assertEqual((session["messages"][0]["model"], session["messages"][0]["promptTokens"]),
                         ("m", 100))
        used = self.good("GET", path("v1", "usage", by="day,model,session"))
        self.assertEqual([(one["day"], one["model"], one["sessionKey"], one["promptTokens"])
                          for one in used["usage"]],
                         [("2026-03-01", "m", "s", 100), ("2026-03-01", "n", "t", 100),
                          ("2026-03-02", "m", "s", 100)])
        late = {"by": "all", "from": "2026-03-02T12:00:00Z"}
        used = self.good("GET", path("v1", "usage", **late))
        self.assertEqual(used["usage"], [{"promptTokens": 100, "cachedTokens": 40,
                                          "answerTokens": 7, "answers": 1, "cost": 0,
                                          "unpriced": 1}])
        used = self.good("GET", path("v1", "usage", key="t"))["usage"]
        self.assertEqual([(one["model"], one["answers"]) for one in used], [("n", 1)])
        first = self.good("GET", path("v1", "usage", limit=1))
        self.assertEqual((first["sessions"], first["usage"][0]["model"]), (1, "n"))
        rest = self.good("GET", path("v1", "usage", limit=1, after=first["next"]))
        self.assertEqual((rest["usage"][0]["answers"], rest.get("next")), (2, None))
        for query in ("by=week", "by=day,", "from=now", "limit=0", "after=x",
                      "from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z"):
            self.assertEqual(self.ask("GET", "/v1/usage?" + query).status,
                             400 if query != "by=day," else 200, query)
        self.assertEqual(self.ask("GET", "/v1/usage?key=none").status, 404)

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
        for sent, status in (
            ("application/json;charset=utf-8", 200),
            ("Application/JSON ; charset=utf-8", 200),
            ("application/jsonX", 400),
            ("application/json-patch+json", 400),
            ("application/json charset=utf-8", 400),
        ):
            answer = self.ask("PATCH", target, headers={"Content-Type": sent}, body={"title": "T"})
            self.assertEqual(answer.status, status, sent)
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
        self.assertNotIn(b"healthz", self.run_quipu("export").raw_out)

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

    def figure(self, name):
        """One figure of the metrics; None when it is missing."""
        text = self.ask("GET", "/metrics").body.decode()
        found = re.search(rf"^quipu_{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else None

    def wait_for_figure(self, name, holds):
        """The store is asked at most once a second."""
        end = time.monotonic() + harness.WAIT_S
        while (value := self.figure(name)) is None or not holds(value):
            self.assertLess(time.monotonic(), end, (name, value))
        return value

    def test_metrics_show_commits_syncs_and_the_size_of_the_store(self):
        names = ("commit_writes_count", "commit_writes_sum", 'commit_writes_bucket{le="1"}',
                 'commit_writes_bucket{le="+Inf"}', "syncs_total", "store_log_bytes")
        before = {name: self.figure(name) for name in names}
        self.assertEqual(self.figure("store_up"), 1)
        for i in range(5):
            self.append("s", message(f"e{i}", "x" * 100000))
        for name in names[:4]:
            self.wait_for_figure(name, lambda value, name=name: value == before[name] + 5)
        for name in names[4:]:
            self.wait_for_figure(name, lambda value, name=name: value > before[name])

    def test_metrics_show_the_jobs_of_memory(self):
        self.append("s", message("e", "I prefer trains."))
        self.run_quipu("memory", "run", "s")
        for name in ("pending", "leased", "failed"):
            self.assertEqual(self.figure(f"memory_jobs_{name}"), 0)
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:
            changed = db.execute("UPDATE jobs SET next_at = updated_at, last_error = 'no money' "
                                 "WHERE kind = 'observe'")
            self.assertEqual(changed.rowcount, 1)
        self.wait_for_figure("memory_jobs_pending", lambda value: value == 1)
        self.assertEqual(self.figure("memory_jobs_failed"), 1)

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

    def test_a_fork_of_anothers_session_does_not_name_it(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {"key": user, "appName": "app", "userId": user,
                                               "messages": [message("e")]}, status=201)
            self.good("POST", path("v1", "sessions", user, "fork"), {
                "key": f"from {user}", "seq": 1, "appName": "app", "userId": "me"}, status=201)
        for source, key in (("me", "from me"), ("you", "from you")):
            target = path("v1", "sessions", key)
            self.assertEqual(self.good("GET", target)["session"]["parentKey"], source)
            shown = [self.good("GET", target, token=token)["session"],
                     self.good("GET", target + "/window?budget=9", token=token)["session"]]
            shown += [one for state in ("", "?state=true") for one in self.good(
                "GET", "/v1/sessions" + state, token=token)["sessions"] if one["key"] == key]
            self.assertEqual([one.get("parentKey") for one in shown],
                             [source if source == "me" else None] * 4, key)

    def test_a_taken_key_says_nothing_of_its_session(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        for user, key in (("me", "mine"), ("you", "yours")):
            self.good("POST", "/v1/sessions", {"key": key, "appName": "app", "userId": user,
                                               "messages": [message("e")]}, status=201)
        said = set()
        for key in ("mine", "yours"):
            for target, body in (("/v1/sessions", {"key": key}),
                                 ("/v1/sessions/mine/fork", {"key": key, "seq": 1})):
                answer = self.ask("POST", target, body, token=token)
                self.assertEqual(answer.status, 409)
                said.add(answer.body)
        self.assertEqual(len(said), 1, said)
        self.assertIn(b"choose another", said.pop())

    def test_whose_a_session_is_and_what_is_in_it_are_of_one_moment(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        ends = threading.Event()
        failed = []

        def write():
            while not ends.is_set():
                for user in ("me", "you"):
                    self.good("POST", "/v1/sessions", {
                        "key": "s", "appName": "app", "userId": user,
                        "messages": [message("e", user)]}, status=201)
                    self.good("DELETE", "/v1/sessions/s", status=204)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(300):
                answer = self.ask("GET", "/v1/sessions/s?state=true", token=token)
                if answer.status != 404 and b'"content":"me"' not in answer.body:
                    failed.append(answer.body)
        finally:
            ends.set()
            writer.join()
        self.assertEqual(failed, [])

    def test_a_user_brings_no_state_of_the_app_by_any_way(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        mine = [{"scope": "user", "name": "u", "value": 1}]
        apps = [{"scope": "app", "name": "a", "value": 1}]
        self.good("POST", "/v1/sessions", {"key": "me", "state": mine}, status=201, token=token)
        target = path("v1", "sessions", "me")
        for method, where, body in (
                ("POST", "/v1/sessions", {"key": "b", "state": apps}),
                ("POST", target + "/messages", {"messages": [message("e")],
                                                "event": {"changes": apps}}),
                ("POST", target + "/messages", {"event": {"changes": apps, "eventId": "x"}})):
            answer = self.ask(method, where, body, token=token)
            self.assertEqual(answer.status, 400, (where, answer.body))
        self.assertEqual(self.good("GET", target)["session"]["messageCount"], 0)
        # The whole store's token may; and who set it, or when, is not for the user's.
        self.good("POST", "/v1/sessions", {"key": "you", "appName": "app", "userId": "you",
                                           "state": apps}, status=201)
        (app, user) = self.good("GET", target + "?state=true", token=token)["state"]
        self.assertEqual(app, {"scope": "app", "name": "a", "value": 1})
        self.assertEqual((user["name"], "setAt" in user), ("u", True))
        self.assertEqual(self.good("GET", "/v1/state", token=token)["state"], {"u": 1})
        for query in ("user=you", "app=other"):
            self.assertEqual(self.ask("GET", "/v1/state?" + query, token=token).status, 404)

    def test_a_token_of_a_user_sees_and_changes_that_user_alone(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {
                "key": user, "appName": "app", "userId": user, "sessionId": "1",
                "messages": [message("e", f"the secret of {user}")]}, status=201)
            self.run_quipu("memory", "add", user, f"{user} told it to somebody")
        self.append("plain", message("e", "the secret of all"))
        listed = self.good("GET", "/v1/sessions", token=token)["sessions"]
        self.assertEqual([one["key"] for one in listed], ["me"])
        for target in ("/v1/sessions?user=you", "/v1/sessions?app=other",
                       "/v1/search?q=secret&user=you", "/v1/recall?q=secret&app=other",
                       "/v1/search?q=secret&key=you", "/v1/recall?q=secret&key=plain",
                       "/v1/usage?user=you", "/v1/usage?key=you", "/v1/usage?app=other",
                       "/v1/sessions/you/artifacts", "/v1/sessions/you/state?blame=true"):
            self.assertEqual(self.ask("GET", target, token=token).status, 404, target)
        for target in ("/v1/search?q=secret", "/v1/recall?q=secret",
                       "/v1/recall?q=told&memories=true"):
            hits = self.good("GET", target, token=token)["hits"]
            self.assertEqual([hit["key"] for hit in hits], ["me"])
        for key in ("you", "plain"):
            for method, rest, body in (
                ("GET", "", None), ("GET", "/window?budget=9", None), ("GET", "/context", None),
                ("GET", "/state", None), ("GET", "/export", None), ("GET", "/tail", None),
                ("GET", "/state/changes", None), ("GET", "/memory", None),
                ("PATCH", f"/memory/{harness.uuid(1)}", {"kind": "observation", "retire": True}),
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

    def test_a_token_of_a_user_does_not_learn_who_set_the_apps_state(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {"key": f"adk:app/{user}/1", "appName": "app",
                                               "userId": user, "sessionId": "1"}, status=201)
        self.good("PATCH", path("v1", "sessions", "adk:app/you/1", "state"), {"app:x": 1})
        target = path("v1", "sessions", "adk:app/me/1", "state") + "?blame=true"
        (entry,) = self.good("GET", target, token=token)["blame"]
        self.assertEqual((entry["name"], entry["value"]), ("x", 1))
        self.assertFalse({"setBy", "setIn", "setSeq"} & entry.keys(), entry)
        self.assertEqual(self.good("GET", target)["blame"][0]["setIn"], "adk:app/you/1")

    def test_a_token_of_a_user_sees_how_far_its_own_sessions_are_observed(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {"key": user, "appName": "app", "userId": user,
                                               "sessionId": "1"}, status=201)
        self.assertEqual([one["key"] for one in self.good("GET", "/v1/memory")["sessions"]],
                         ["me", "you"])
        seen = self.good("GET", "/v1/memory", token=token)["sessions"]
        self.assertEqual([one["key"] for one in seen], ["me"])
        for query in ("key=you", "app=other", "app=app&user=you"):
            self.assertEqual(self.ask("GET", f"/v1/memory?{query}", token=token).status, 404)

    def test_a_token_of_a_user_does_not_learn_why_a_worker_failed(self):
        token = self.new_token("--app", "app", "--user", "me")
        self.serve()
        self.good("POST", "/v1/sessions", {"key": "me", "appName": "app", "userId": "me",
                                           "sessionId": "1",
                                           "messages": [message("e", "I prefer trains.")]},
                  status=201)
        self.run_quipu("memory", "run", "me")
        with contextlib.closing(sqlite3.connect(self.store)) as db, db:
            changed = db.execute("UPDATE jobs SET last_error = 'model.internal: no money' "
                                 "WHERE scope = 'me' AND kind = 'observe'")
            self.assertEqual(changed.rowcount, 1)
        (all_of_it,) = self.good("GET", "/v1/memory")["sessions"]
        self.assertEqual(all_of_it["lastError"], "model.internal: no money")
        (seen,) = self.good("GET", "/v1/memory", token=token)["sessions"]
        self.assertEqual(seen["lastError"], "the worker failed")

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


class Insight(server.Case):
    """What the page shows besides messages."""

    def memories(self, key="s", **query):
        """What is known of a session."""
        return self.good("GET", path("v1", "sessions", key, "memory", **query))["memories"]

    def change(self, one, body, status=200, key="s", **more):
        """Change a memory."""
        return self.good("PATCH", path("v1", "sessions", key, "memory", one["id"]),
                         {"kind": one["kind"], **body}, status=status, **more)

    def test_memories_are_listed_corrected_and_retired_by_a_named_token(self):
        token = self.new_token("--note", "Eva")
        self.serve()
        self.append("s", message("e"))
        self.run_quipu("memory", "add", "s", "likes trains", "--from", "1")
        self.run_quipu("memory", "add", "s", "a summary", "--kind", "reflections")
        known = self.memories()
        self.assertEqual([(one["kind"], one["content"]) for one in known],
                         [("reflection", "a summary"), ("observation", "likes trains")])
        self.assertEqual((known[1]["priority"], known[1]["sourceStart"]), ("standing", 1))
        changed = self.change(known[1], {"content": "likes buses", "priority": "low",
                                         "subject": "Ana", "why": "she said so"}, token=token)
        self.assertEqual([changed["memory"][name] for name in
                          ("content", "priority", "subject", "editedBy", "editedWhy")],
                         ["likes buses", "low", "Ana", "Eva", "she said so"])
        self.assertIsNone(self.change(known[1], {"subject": None}).get("subject"))
        gone = self.change(known[1], {"retire": True, "why": "moved"})["memory"]
        self.assertEqual(gone["retiredWhy"], "moved")
        self.assertEqual([one["kind"] for one in self.memories()], ["reflection"])
        self.assertEqual(len(self.memories(retired="true")), 2)

    def test_wrong_changes_of_a_memory_are_refused(self):
        self.serve()
        self.append("s", message("e"))
        self.append("other", message("e"))
        self.run_quipu("memory", "add", "s", "known")
        one = self.memories()[0]
        for body, status in (({}, 400), ({"retire": False}, 400), ({"priority": "x"}, 400),
                             ({"content": 5}, 400), ({"content": ""}, 400), ({"who": "x"}, 400),
                             ({"why": "x" * 513, "retire": True}, 400)):
            target = path("v1", "sessions", "s", "memory", one["id"])
            answer = self.ask("PATCH", target, {"kind": one["kind"], **body})
            self.assertEqual(answer.status, status, (body, answer.body))
        for key, number, kind in (("other", one["id"], one["kind"]),
                                  ("s", harness.uuid(9), one["kind"]),
                                  ("s", "no-id", one["kind"]), ("s", one["id"], "reflection")):
            target = path("v1", "sessions", key, "memory", number)
            self.assertEqual(self.ask("PATCH", target, {"kind": kind, "retire": True}).status, 404)
        self.assertEqual(self.memories(), [one])
        writer = self.new_token("--verbs", "write")
        self.change(one, {"retire": True}, status=204, token=writer)

    def test_memories_have_a_limit_and_say_that_there_are_more(self):
        self.serve()
        self.append("s", message("e"))
        for i in range(3):
            self.run_quipu("memory", "add", "s", f"fact {i}")
        got = self.good("GET", path("v1", "sessions", "s", "memory", limit=2))
        self.assertEqual(([one["content"] for one in got["memories"]], got["more"]),
                         (["fact 1", "fact 2"], True))
        self.assertFalse(self.good("GET", path("v1", "sessions", "s", "memory", limit=3))["more"])
        for limit in (0, 10001):
            answer = self.ask("GET", path("v1", "sessions", "s", "memory", limit=limit))
            self.assertEqual(answer.status, 400)
        self.assertEqual(self.ask("GET", path("v1", "sessions", "no", "memory")).status, 404)

    def keep(self, content, key="s", **more):
        """Save an observation by its session's key."""
        status = more.pop("status", 201)
        token = more.pop("token", True)
        return self.good("POST", "/v1/memories", {"kind": "observation", "sessionKey": key,
                                                  "content": content, **more},
                         status=status, token=token)["memory"]

    def test_memories_are_saved_found_and_deleted_by_key_and_by_ids(self):
        self.serve()
        self.append("s", message("e"))
        one = self.keep("likes trains", priority="standing", topic="preference", subject="Ana",
                        saidAt="2026-01-02T03:04:05Z", sourceStart=1, sourceEnd=1, origin="mine/1")
        self.assertEqual((one["priority"], one["topic"], one["subject"], one["saidAt"]),
                         ("standing", "preference", "Ana", "2026-01-02T03:04:05Z"))
        self.assertEqual(self.keep("likes trains", origin="mine/1")["times"], 2)
        two = self.keep("of a session to come", key="later")
        def find(**query):
            return [found["content"] for found in self.good(
                "GET", path("v1", "memories", kind="observation", **query))["memories"]]
        self.assertEqual(find(key="s"), ["likes trains"])
        self.assertEqual(find(key="later"), ["of a session to come"])
        self.assertEqual(find(ids=f"{one['id']},{two['id']}"),
                         ["likes trains", "of a session to come"])
        self.assertEqual(find(key="s", **{"from": 2}), [])
        changed = self.good("PATCH", path("v1", "memories", two["id"]),
                            {"kind": "observation", "content": "changed", "who": "Eva"})
        self.assertEqual(changed["memory"]["editedBy"], "Eva")
        gone = self.good("DELETE", path("v1", "memories", kind="observation",
                                        ids=f"{two['id']},{harness.uuid(9)}"))
        self.assertEqual((gone["removed"], find(key="later")), (1, []))

    def test_wrong_questions_for_memories_are_refused(self):
        self.serve()
        self.append("s", message("e"))
        for query in ({}, {"kind": "x", "key": "s"}, {"kind": "observation"},
                      {"kind": "observation", "key": "s", "ids": harness.uuid(1)},
                      {"kind": "observation", "ids": "no-id"},
                      {"kind": "observation", "ids": harness.uuid(1) + ","*2 + harness.uuid(2)},
                      {"kind": "observation", "key": "s", "from": 3, "to": 2}):
            for method in ("GET", "DELETE"):
                answer = self.ask(method, path("v1", "memories", **query))
                self.assertEqual(answer.status, 400, (method, query, answer.body))
        for limit, status in ((200, 200), (201, 413)):
            ids = ",".join(harness.uuid(i) for i in range(limit))
            answer = self.ask("GET", "/v1/memories?kind=observation&ids=" + ids)
            self.assertEqual(answer.status, status, limit)
        for body in ({}, {"kind": "x"}, {"kind": "observation", "content": "x"},
                     {"kind": "observation", "sessionKey": "s"},
                     {"kind": "observation", "sessionKey": "s", "content": "x", "times": 2},
                     {"kind": "observation", "sessionKey": "s", "content": "x", "id": "no-id"},
                     {"kind": "observation", "sessionKey": "s", "content": "x", "saidAt": "soon"},
                     {"kind": "observation", "sessionKey": "s", "content": "x", "buffered": 1},
                     {"kind": "observation", "sessionKey": "s", "content": "x", "topic": "?"}):
            answer = self.ask("POST", "/v1/memories", body)
            self.assertEqual(answer.status, 400, (body, answer.body))
        answer = self.ask("POST", "/v1/memories",
                          {"kind": "observation", "sessionKey": "s", "content": ""})
        self.assertEqual((answer.status, answer.json()["error"]["field"]), (400, "content"))

    def test_a_token_of_a_user_reaches_memories_of_that_user_alone(self):
        ana = self.new_token("--app", "app", "--user", "ana", "--note", "Ana")
        self.serve()
        for key, user in (("a", "ana"), ("b", "bob")):
            self.good("POST", "/v1/sessions", {"key": key, "appName": "app", "userId": user},
                      status=201)
        own, other = self.keep("of ana", key="a"), self.keep("of bob", key="b")
        loose = self.keep("of nobody yet", key="none")
        ids = ",".join(one["id"] for one in (other, own, loose))
        found = self.good("GET", path("v1", "memories", kind="observation", ids=ids),
                          token=ana)["memories"]
        self.assertEqual([one["content"] for one in found], ["of ana"])
        for key in ("b", "none"):
            for method, target, body in (
                    ("GET", path("v1", "memories", kind="observation", key=key), None),
                    ("DELETE", path("v1", "memories", kind="observation", key=key), None),
                    ("POST", "/v1/memories", {"kind": "observation", "sessionKey": key,
                                              "content": "by ana"})):
                self.assertEqual(self.ask(method, target, body, token=ana).status, 404, target)
        missing = {one: self.ask("PATCH", path("v1", "memories", one),
                                 {"kind": "observation", "retire": True}, token=ana)
                   for one in (other["id"], loose["id"], str(uuid.uuid4()))}
        self.assertEqual({one.status for one in missing.values()}, {404})
        self.assertEqual(len({one.body for one in missing.values()}), 1)
        changed = self.good("PATCH", path("v1", "memories", own["id"]),
                            {"kind": "observation", "priority": "low", "who": "Bob"}, token=ana)
        self.assertEqual(changed["memory"]["editedBy"], "Ana")
        gone = self.good("DELETE", path("v1", "memories", kind="observation", ids=ids), token=ana)
        self.assertEqual(gone["removed"], 1)
        kept = self.good("GET", path("v1", "memories", kind="observation", ids=ids))["memories"]
        self.assertEqual({one["content"] for one in kept}, {"of bob", "of nobody yet"})
        answer = self.ask("POST", "/v1/memories", {"kind": "observation", "sessionKey": "a",
                                                   "content": "x", "supersedes": other["id"]},
                          token=ana)
        self.assertEqual(answer.status, 404)

    def test_a_prompt_is_logged_by_who_may_write(self):
        reader = self.new_token("--verbs", "read")
        self.serve()
        self.append("s", message("e", "I like trains."))
        self.keep("likes trains")
        target = path("v1", "sessions", "s", "context")
        body = {"request": {"system": [{"kind": "text", "text": "Be brief."}],
                            "tools": [{"name": "t", "schema": {"type": "object"}}]}}
        got = self.good("POST", target, body, token=reader)["context"]
        self.assertEqual(got["contents"][0]["parts"][0]["text"], "I like trains.")
        self.assertEqual(got["system"][0]["text"], "Be brief.")
        self.assertIn("likes trains", got["block"])
        for more in ({"log": True}, {"usage": {"input": 1}}):
            self.assertEqual(self.ask("POST", target, {**body, **more}, token=reader).status, 403)
        logged = self.good("POST", target, {**body, "log": True})["context"]
        self.assertEqual(logged["promptHash"], got["promptHash"])
        again = self.good("POST", target, {"at": 1}, token=reader)["context"]
        self.assertTrue(again["exact"])
        for wrong in ({"log": 1}, {"nothing": 1}, {"request": []}, {"models": {}}, {"budget": "x"},
                      {"request": {"system": [{"kind": "?"}]}}, {"at": -1}, {"usage": 5},
                      {"models": [{"prefix": "x", "cache": 9}]}, {"models": [[None]]},
                      {"budget": None}, {"request": {"system": ["x"]}},
                      {"models": [{"prefix": "x", "asOf": 2**31}]}):
            answer = self.ask("POST", target, wrong)
            self.assertEqual(answer.status, 400, (wrong, answer.body))
        self.assertEqual(self.ask("POST", path("v1", "sessions", "no", "context"), {}).status, 404)

    def test_changes_of_state_come_newest_first_in_parts(self):
        self.serve()
        def event(number, **delta):
            return {"role": "assistant", "author": "agent", "eventId": f"ev{number}", "content": "",
                    "extra": {"adk": {"f": "", "e": {"actions": {"stateDelta": delta}}, "p": []}}}
        self.append("s", event(1, a=1), message("m1"), event(2, a=2, b=None), message("m2"))
        target = ("v1", "sessions", "s", "state", "changes")
        got = self.good("GET", path(*target))
        self.assertEqual([(one["seq"], one["author"], one["delta"]) for one in got["changes"]],
                         [(3, "agent", {"a": 2, "b": None}), (1, "agent", {"a": 1})])
        self.assertNotIn("next", got)
        got = self.good("GET", path(*target, limit=2))
        self.assertEqual(([one["seq"] for one in got["changes"]], got["next"]), ([3], 3))
        got = self.good("GET", path(*target, limit=2, before=3))
        self.assertEqual(([one["seq"] for one in got["changes"]], got.get("next")), ([1], None))

    def test_a_message_that_only_looks_like_an_event_changes_no_state(self):
        self.serve()
        self.append("s", {"role": "user", "content": "x", "eventId": "e", "extra": {
            "adk": {"f": "", "e": {"actions": {"stateDelta": {"a": 1}}}, "p": [99, "c"]}}},
            {"role": "user", "content": "stateDelta", "eventId": "f",
             "extra": {"note": "stateDelta"}})
        got = self.good("GET", path("v1", "sessions", "s", "state", "changes"))
        self.assertEqual(got["changes"], [])

    def test_the_figures_of_the_store_say_how_it_is_kept(self):
        self.serve()
        self.append("long one", message("a"), message("b"))
        stats = self.good("GET", "/v1/stats")
        self.assertEqual((stats["largestKey"], stats["largestMessages"], stats["checksums"]),
                         ("long one", 2, "on"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
