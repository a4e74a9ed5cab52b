#!/usr/bin/env python3
"""ADK's own api_server and `quipu serve`, asked the same: status, form of the body and type of
every answer are the same. ADK's runs on its SQLite service, from the environment of run.py."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
# pylint: disable=wrong-import-position
import harness
import run
import server

APP = "/apps/app/users/u"
SESSIONS = APP + "/sessions"
EVENT = {
    "author": "user", "timestamp": 1700000000.125,
    "content": {"role": "user", "parts": [{"text": "hello"}]},
}
ANSWER = {
    "author": "agent", "invocation_id": "i-1", "content": {"role": "model", "parts": [
        {"text": "a thought", "thought": True},
        {"function_call": {"id": "c1", "name": "look", "args": {"snake_case": [1, None]}}}]},
    "usage_metadata": {"prompt_token_count": 7}, "finish_reason": "STOP", "turn_complete": True,
    "custom_metadata": {"kept": {"a_b": 1}, "__adk_internal_forged": True}, "branch": None,
    "timestamp": 1700000000.25, "id": "event-2",
}
SECRET = {"requestedAuthConfigs": {"f": {"authScheme": {"type": "apiKey"}, "rawAuthCredential": {
    "authType": "apiKey", "apiKey": "secret-1"}}}}
AGENT = """
from google.adk.agents import BaseAgent

class Silent(BaseAgent):
    pass

root_agent = Silent(name="app")
"""


def steps():
    """Requests in their order: method, target, body, headers, or the raw body."""
    def ask(method, target, body=None, raw=None, kind="application/json"):
        return (method, target, json.dumps(body) if raw is None and body is not None else raw, kind)

    yield from (ask("GET", target) for target in (
        "/health", "/version", "/list-apps?detailed=x", SESSIONS, SESSIONS + "/none",
        "/apps/other/users/u/sessions/x", "/apps/app/nothing", "/apps"))
    yield ask("POST", SESSIONS)
    yield ask("POST", SESSIONS, raw="null")
    for body in (
        {"sessionId": "s1", "state": {"a": 1, "app:b": {"x": [1.50]}, "user:c": 3, "temp:d": 4}},
        {"sessionId": "s1"}, {"session_id": "s2", "state": {}}, {"unknown": 1},
        {"sessionId": " strip "}, {"sessionId": ""}, {"sessionId": "a/b"}, {"sessionId": None},
        {"sessionId": "adk-eval-session-1"}, {"sessionId": "___eval___session___2"},
        {"sessionId": "ü ✓", "state": {"ключ": "знач\u0000ение"}},
        {"sessionId": 7}, {"session_id": 7}, {"state": []}, {"events": {}}, {"options": []}, [],
        "x",
        {"sessionId": 7, "state": 1, "events": 2, "options": 3},
        {"sessionId": "o1", "options": {"state": 1, "app_name": 2}},
        {"sessionId": "o2", "options": {"x": 1}}, {"sessionId": "o3", "options": {}},
        {"sessionId": "e1", "events": [EVENT, ANSWER]}, {"sessionId": "e2", "events": []},
        {"sessionId": "e3", "events": [{"author": "user", "nonsense": 1}]},
        {"sessionId": "e4", "events": [3]}, {"sessionId": "e5", "events": [{}]},
        {"sessionId": "e6", "events": [EVENT, {**EVENT, "actions": {"stateDelta": {"a": 1}}}]},
        {"sessionId": "e7", "events": [{**EVENT, "actions": {"stateDelta": {}, "escalate": None}}]},
        {"sessionId": "e8", "events": [{**EVENT, "longRunningToolIds": ["x"]}]},
        {"sessionId": "e9", "events": [{"author": "m", "content": {"parts": [
            {"functionResponse": {"name": "adk_request_input", "response": {}}}]}}]},
        {"sessionId": "e10", "events": [{"author": 7, "content": "x", "timestamp": "y",
                                         "partial": "maybe", "customMetadata": 3}]},
        {"sessionId": "e11", "events": [{**EVENT, "actions": {"bogus": 1}}]},
        {"sessionId": "e12", "events": [{"content": {"parts": [{"bogus": 1}, 5], "more": 1}}]},
        {"sessionId": "e13", "events": [{**EVENT, "actions": SECRET}]},
    ):
        yield ask("POST", SESSIONS, body)
    yield ask("POST", SESSIONS + "/s3", {"x": 1})
    yield ask("POST", SESSIONS + "/s3", {"x": 1})
    yield ask("POST", SESSIONS + "/s4")
    yield ask("POST", SESSIONS + "/s5", [])
    for session in ("s1", "e1", "e3", "e5", "e7", "strip", "%C3%BC%20%E2%9C%93", "s3"):
        yield ask("GET", f"{SESSIONS}/{session}?ignored=1")
    for body in (
        {"stateDelta": {"a": 5, "n": None, "app:z": 1, "user:y": "ü"}}, {"state_delta": {"a": 6}},
        {"stateDelta": {}}, {}, {"stateDelta": []}, {"stateDelta": None}, [], "x", None,
        {"stateDelta": {"credential": {"authType": "oauth2", "oauth2": {
            "clientId": "shown", "clientSecret": "secret-2", "accessToken": "secret-3"}}}},
        {"stateDelta": {"call": {"name": "adk_request_credential", "args": {
            "token": "shown",
            "authConfig": {"token": "secret-4", "x": [{"apiKey": "secret-5"}]}}}}},
        {"stateDelta": {"token": "shown", "rawAuthCredential": {"password": "secret-6"}}},
    ):
        yield ask("PATCH", SESSIONS + "/s1", body)
    yield ask("PATCH", SESSIONS + "/none", {"stateDelta": {}})
    yield ask("PATCH", SESSIONS + "/s1", raw="{bad")
    yield ask("PATCH", SESSIONS + "/s1", raw='{"stateDelta":{}}', kind="text/plain")
    yield ask("PATCH", SESSIONS + "/s1", raw="")
    yield ask("GET", SESSIONS + "/s1")
    yield ask("GET", SESSIONS)
    for body in ({"sessionId": "s1"}, {"session_id": "s1"}, {"sessionId": "none"}, {},
                 {"sessionId": 3}, {"sessionId": None}):
        yield ask("PATCH", APP + "/memory", body)
    yield from (ask(*one) for one in artifact_steps())
    for session in ("s1", "s1", "never"):
        yield ask("DELETE", f"{SESSIONS}/{session}")
        yield ask("GET", f"{SESSIONS}/{session}")
    yield ask("PUT", SESSIONS + "/s1", {})
    yield ask("DELETE", SESSIONS)
    yield ask("GET", "/list-apps")
    yield ask("GET", "/list-apps?detailed=true")


def artifact_steps():
    """The same for artifacts: of a session that exists, and of one that does not."""
    for session in ("s2", "nowhere"):
        artifacts = f"{SESSIONS}/{session}/artifacts"
        yield "GET", artifacts
        for body in (
            {"filename": "a.png", "artifact": {"inlineData": {"mimeType": "image/png",
                                                              "data": "-_9oZWxsbw=="}}},
            {"filename": "a.png", "artifact": {"inline_data": {"mime_type": "x/y", "data": ""}},
             "customMetadata": {"who": ["me"], "a_b": 1}},
            {"filename": "z.txt", "artifact": {"text": "tüxt"}, "custom_metadata": {}},
            {"filename": "user:mine", "artifact": {"text": ""}},
            {"filename": "f", "artifact": {"fileData": {"fileUri": "gs://b/x",
                                                        "mimeType": "a/b"}}},
            {"filename": "f", "artifact": {}}, {"filename": "f"}, {"artifact": {"text": "x"}},
            {"filename": 3, "artifact": []}, {"filename": "f", "artifact": {"nonsense": 1}},
            {"filename": "f", "artifact": {"text": "x"}, "customMetadata": 3}, [], None,
        ):
            yield "POST", artifacts, body
        yield "GET", artifacts
        for name in ("a.png", "z.txt", "user:mine", "f", "none"):
            target = f"{artifacts}/{name}"
            yield "GET", target
            yield "GET", target + "?version=0"
            yield "GET", target + "?version=7"
            for more in ("", "/0", "/latest", "/9", "/x", "/metadata", "/0/metadata",
                         "/latest/metadata", "/9/metadata", "/x/metadata"):
                yield "GET", target + "/versions" + more
        for name in ("a.png", "none"):
            yield "DELETE", f"{artifacts}/{name}"
        yield "GET", artifacts
        yield "GET", artifacts + "/a.png"
    yield "DELETE", f"{SESSIONS}/s2/artifacts/user:mine"


def normal(value, name=""):
    """A body with what differs by nature made equal: random ids, times, the texts of a parser."""
    if isinstance(value, dict):
        return {key: normal(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [normal(one, name) for one in value]
    if name == "canonicalUri":
        return re.sub(r"^[a-z]+://(/.*?(?=/apps/))?", "", value)
    times = ("timestamp", "lastUpdateTime", "createTime")
    if name in times and isinstance(value, float) and value > 1.75e9:
        return "<now>"
    if name in ("version", "language", "language_version", "error") and isinstance(value, str):
        return f"<{name}>"
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", value)
    return value


def comparable(target, body):
    """The JSON of a body; sessions of a list by their ids, since those of one moment have no order,
    and of a parser's complaint its place."""
    got = normal(json.loads(body)) if body else None
    if target == SESSIONS and isinstance(got, list):
        got.sort(key=lambda one: (one["id"], json.dumps(one, sort_keys=True)))
    if isinstance(got, dict) and isinstance(got.get("detail"), list):
        for one in got["detail"]:
            if one["type"] == "json_invalid":
                one["loc"] = one["loc"][:1]
    return got


class Other:
    """ADK's api_server on a free port."""

    def __init__(self, case, python, folder):
        agent = folder / "agents" / "app"
        agent.mkdir(parents=True)
        (agent / "__init__.py").write_text("from . import agent\n", encoding="utf-8")
        (agent / "agent.py").write_text(AGENT, encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = folder / "adk.log"
        command = [python.parent / "adk", "api_server", "--port", self.port]
        command += ["--session_service_uri", f"sqlite:///{folder}/adk.db"]
        command += ["--artifact_service_uri", "memory://", folder / "agents"]
        with open(self.log, "wb") as log:
            # pylint: disable=consider-using-with
            self.process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)
        end = time.monotonic() + harness.WAIT_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    case.fail(self.log.read_text(encoding="utf-8", errors="replace")[-4000:])
                time.sleep(0.05)


class Compare(server.Case):
    """The same requests to both."""

    maxDiff = None

    def test_every_answer_has_the_status_the_type_and_the_form_of_adks_own(self):
        try:
            python = run.environment()
        except run.Skip as reason:
            self.skipTest(str(reason))
        other = Other(self, python, self.folder)
        self.serve("--adk-open", "app")
        mine = self.port
        for method, target, raw, kind in steps():
            with self.subTest(method=method, target=target, body=raw):
                answers = []
                for port in (other.port, mine):
                    self.port = port
                    headers = {"Content-Type": kind} if raw is not None else {}
                    if port == mine and "/other/" in target:  # this app is not open
                        headers["Authorization"] = f"Bearer {self.token}"
                    answers.append(self.ask_raw(method, target, raw, headers))
                theirs, ours = answers
                self.assertEqual(ours.status, theirs.status, ours.body)
                self.assertEqual(ours.headers.get_content_type(),
                                 theirs.headers.get_content_type())
                if ours.status < 400 or "/apps" in target:
                    self.assertEqual(comparable(target, ours.body), comparable(target, theirs.body))
                self.assertNotIn(b"secret-", ours.body)

    def ask_raw(self, method, target, raw, headers):
        """A request with its body as it is."""
        import http.client  # pylint: disable=import-outside-toplevel
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.WAIT_S)
        try:
            client.request(method, target, body=raw, headers=headers)
            response = client.getresponse()
            return server.Answer(response.status, response.headers, response.read())
        finally:
            client.close()


if __name__ == "__main__":
    os.environ.setdefault("ADK_DISABLE_TELEMETRY", "1")
    unittest.main()
