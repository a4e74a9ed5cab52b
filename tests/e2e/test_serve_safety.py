#!/usr/bin/env python3
"""quipu serve is safe by default: hostile bytes over a real connection, every route for everybody
who has not the right, clients that hold on to what they have, and TLS."""

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import time
import unittest

import harness
import server
from server import Tail, message, path

HARD_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
IDLE = min(10000, (HARD_FILES - 300) // 2)  # the server keeps two files for each connection


def hostile():
    """Requests that two programs could read in two ways, or that are no HTTP: (name, first line,
    headers, body). None of them may be answered with success, and nothing behind them at all."""
    get, post = "GET /v1/sessions HTTP/1.1", "POST /v1/sessions HTTP/1.1"
    chunked = ("Transfer-Encoding: chunked",)
    chunk = b"3\r\nabc\r\n0\r\n\r\n"
    hidden = b"0\r\n\r\nGET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield "both lengths", post, ("Content-Length: 4", *chunked), hidden
    for name, lengths in (
        ("equal lengths", ("3", "3")), ("two lengths", ("3", "30")), ("a plus", ("+3",)),
        ("a minus", ("-1",)), ("hexadecimal", ("0x3",)), ("two numbers", ("3 3",)),
        ("a list", ("3,3",)), ("65 bits", ("18446744073709551619",)), ("9 MiB", ("9437184",)),
        ("an empty length", ("",)),
    ):
        yield name, post, tuple(f"Content-Length: {one}" for one in lengths), b"abc"
    for name, codings in (
        ("xchunked", ("xchunked",)), ("gzip", ("gzip, chunked",)),
        ("identity last", ("chunked, identity",)), ("two codings", ("chunked", "identity")),
    ):
        yield name, post, tuple(f"Transfer-Encoding: {one}" for one in codings), chunk
    yield "chunks of 1.0", post.replace("1.1", "1.0"), chunked, chunk
    for name, body in (
        ("chunk 0x3", b"0x3\r\nabc\r\n0\r\n\r\n"), ("chunk -3", b"-3\r\nabc\r\n0\r\n\r\n"),
        ("chunk +3", b"+3\r\nabc\r\n0\r\n\r\n"),
        ("chunk of 68 bits", b"ffffffffffffffff3\r\nabc\r\n0\r\n\r\n"),
        ("chunk extension", b"3;a=b\r\nabc\r\n0\r\n\r\n"),
        ("chunk without an end", b"3\r\nabcXX0\r\n\r\n"),
        ("a trailer", b"3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\n\r\n"),
    ):
        yield name, post, chunked, body
    for name, header in (
        ("space before the colon", "X-A : 1"), ("a folded line", "X-A: 1\r\n folded"),
        ("CR alone", "X-A: a\rX-B: b"), ("NUL", "X-A: a\0b"), ("no colon", "garbage"),
        ("no name", ": x"), ("a second host", "Host: localhost"),
        ("17 KiB of headers", "X: " + "a" * 17000),
    ):
        yield name, get, (header,), b""
    for name, line in (
        ("NUL in the path", "GET /v1/sessions\0 HTTP/1.1"),
        ("%00 in the path", "GET /v1/sessions%00 HTTP/1.1"),
        ("another host", "GET http://evil.example/v1/sessions HTTP/1.1"),
        ("HTTP/1.9", "GET /v1/sessions HTTP/1.9"), ("HTTP/2.0", "GET /v1/sessions HTTP/2.0"),
        ("small letters", "GET /v1/sessions http/1.1"), ("tabs", "GET\t/v1/sessions\tHTTP/1.1"),
        ("two spaces", "GET  /v1/sessions HTTP/1.1"), ("CONNECT", "CONNECT localhost:80 HTTP/1.1"),
        ("no method", "G@T /v1/sessions HTTP/1.1"),
    ):
        yield name, line, (), b""


class Bytes(server.Case):
    """Hostile bytes over a real connection."""

    def setUp(self):
        super().setUp()
        self.serve()

    def test_hostile_requests_are_refused_and_nothing_behind_them_is_answered(self):
        good = f"Authorization: Bearer {self.token}"
        behind = f"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n{good}\r\n\r\n".encode()
        cases = list(hostile())
        self.assertGreaterEqual(len(cases), 40)
        for name, line, headers, body in cases:
            head = "\r\n".join((line, "Host: localhost", good, "Content-Type: application/json",
                                *headers))
            statuses, got = self.raw(head.encode("latin1") + b"\r\n\r\n" + body + behind)
            self.assertEqual(len(statuses), 1, (name, got))
            self.assertGreaterEqual(statuses[0], 400, name)
            self.assertIn(b"\r\nConnection: close\r\n", got)
        for name, data in (
            ("no host", f"GET /v1/sessions HTTP/1.1\r\n{good}\r\n\r\n".encode()),
            ("LF alone", f"GET /v1/sessions HTTP/1.1\nHost: localhost\n{good}\n\n".encode()),
        ):
            statuses, _ = self.raw(data + behind)
            self.assertEqual(statuses, [400], name)
        self.assertEqual(self.good("GET", "/v1/sessions")["sessions"], [])

    def test_nothing_of_a_request_or_a_store_gets_into_a_head(self):
        """Line ends in keys, titles and parameters stay in bodies, or are refused."""
        evil = "x\r\nSet-Cookie: a=b\r\n\r\n<script>"
        self.good("POST", "/v1/sessions", {"key": "s", "title": evil}, status=201)
        answer = self.ask("GET", path("v1", "sessions", "s"))
        self.assertEqual(answer.json()["session"]["title"], evil)
        self.assertNotIn("Set-Cookie", answer.headers)
        for target in (path("v1", "sessions", evil), path("v1", "search", q=evil),
                       path("apps", evil, "users", "u", "sessions")):
            answer = self.ask("GET", target)
            self.assertEqual(answer.status, 400, target)
            self.assertNotIn("Set-Cookie", answer.headers)
            self.assertNotIn(b"Set-Cookie", answer.body)

    def test_no_id_leaves_its_place(self):
        for key in ("../../etc/passwd", "..", "a/../../b", "..\\..\\b"):
            for target in (path("v1", "sessions", key), path("page", key),
                           path("apps", key, "users", "u", "sessions"),
                           path("apps", "a", "users", key, "sessions"),
                           path("apps", "a", "users", "u", "sessions", key)):
                self.assertEqual(self.ask("GET", target).status, 400, target)
        for name in ("/etc/passwd", "index.html/", "store.db", "%2e%2e"):
            self.assertEqual(self.ask("GET", path("page", name)).status, 404, name)
        self.assertEqual(self.ask("GET", "//v1/sessions").status, 404)


class Matrix(server.Case):
    """The table of routes times everybody who has not the right."""

    names = {"{key}": "s", "{app_name}": "app", "{user_id}": "u", "{session_id}": "1",
             "{artifact_name}": "a", "{version_id}": "0", "{id}": "0" * 32, "{name}": "a"}
    # Bodies that would change something if the token had the right.
    BODIES = {"SessionNew": {"key": "new", "appName": "app", "userId": "u"},
              "SessionPatch": {"title": "changed"}, "Append": {"messages": [message("x", "added")]},
              "Fork": {"key": "fork", "seq": 1}, "State": {"changed": True},
              "AdkSessionNew": {"sessionId": "new"}, "AdkState": {"changed": True},
              "AdkSessionPatch": {"stateDelta": {"changed": True}},
              "AdkMemoryPatch": {"sessionId": "1"}, "AdkArtifact": {}, "AdkRun": {},
              "Artifact": {"name": "a", "text": "x"},
              "OwnedArtifact": {"app": "app", "user": "u", "key": "s", "name": "a", "text": "x"},
              "Compaction": {"coversTo": 1, "summary": "changed"},
              "MemoryPatch": {"kind": "observation", "retire": True},
              "OwnedMemoryPatch": {"kind": "observation", "retire": True},
              "Memory": {"kind": "observation", "sessionKey": "s", "content": "added"},
              "ContextRequest": {"log": True},
              "McpMessage": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                  "name": "read_messages", "arguments": {"key": "adk:app/u/1"}}}}

    def routes(self):
        """Each route as (name, method, target, body, what it needs)."""
        paths = self.good("GET", "/openapi.json", token=None)["paths"]
        for template, methods in paths.items():
            target = re.sub("{[a-z_]+}", lambda found: self.names[found[0]], template)
            for method, operation in methods.items():
                if template == "/v1/sessions/{key}/tail":
                    target += "?after=0"
                known = {one["name"] for one in operation.get("parameters", ())}
                query = {name: value for name, value in (("budget", 9), ("q", "secret"),
                                                           ("kind", "observation"))
                         if name in known}
                if template == "/v1/memories":
                    query["key"] = "s"
                schema = operation.get("requestBody", {}).get("content", {}).get(
                    "application/json", {}).get("schema", {}).get("$ref", "")
                body = self.BODIES[schema.rsplit("/", 1)[-1]] if schema else None
                if query:
                    target += "?" + "&".join(f"{name}={value}" for name, value in query.items())
                yield operation["operationId"], method.upper(), target, body, operation[
                    "x-quipu-need"]
                target = target.partition("?")[0]

    def expire(self, token_id):
        """Give a token an end in the past, as its file has it then."""
        file = self.folder / "store.db.tokens"
        tokens = json.loads(file.read_text(encoding="utf-8"))
        for one in tokens["tokens"]:
            if one["hash"].startswith(token_id):
                one["expires"] = "2020-01-01T00:00:00Z"
        file.write_text(json.dumps(tokens), encoding="utf-8")

    def last_id(self):
        """The id of the newest token."""
        return self.run_quipu("token", "ls", "--json").lines()[-1]["id"]

    def test_no_route_answers_who_has_not_the_right(self):
        removed = self.new_token()
        self.run_quipu("token", "rm", self.last_id())
        expired = self.new_token("--days", "1")
        self.expire(self.last_id())
        tenant = self.new_token("--tenant", "other")
        strangers = {"none": None, "empty": "", "wrong": "qpt_" + "A" * 43,
                     "cut": self.token[:-1], "long": self.token + "A", "removed": removed,
                     "expired": expired, "tenant": tenant}
        reader, writer = self.new_token("--verbs", "read"), self.new_token("--verbs", "write")
        others = {"user": self.new_token("--app", "app", "--user", "v"),
                  "app": self.new_token("--app", "elsewhere")}
        self.serve()
        session = {"key": "s", "appName": "app", "userId": "u", "sessionId": "1", "title": "T",
                   "messages": [message("e", "the secret")]}
        self.good("POST", "/v1/sessions", session, status=201)
        self.good("POST", "/apps/app/users/u/sessions", {"sessionId": "1"})
        known = {"kind": "observation", "sessionKey": "s", "content": "the secret wish"}
        self.names["{id}"] = self.good("POST", "/v1/memories", known, status=201)["memory"]["id"]
        before = self.snapshot()
        needs = {}
        for name, method, target, body, need in self.routes():
            needs.setdefault(need, []).append(name)
            if need == "none":
                continue
            for who, token in strangers.items():
                self.refused(method, target, body, token, (401,), (name, who))
            self.refused(method, target, body, reader if need == "write" else writer, (403,),
                         (name, "verb"))
            for who, token in others.items():
                if need == "whole":
                    self.refused(method, target, body, token, (403,), (name, who))
                else:
                    answer = self.ask(method, target, body, token=token)
                    self.assertNotIn(b"the secret", answer.body, (name, who))
        self.assertEqual(self.snapshot(), before)
        self.assertGreaterEqual(len(needs["read"]) + len(needs["write"]), 30)

    def refused(self, method, target, body, token, statuses, what):
        """A request that must be refused, with nothing of the store in its answer."""
        answer = self.ask(method, target, body, token=token)
        self.assertIn(answer.status, statuses, (what, answer.body))
        self.assertNotIn(b"the secret", answer.body, what)

    def snapshot(self):
        """What a token without the right must not change: the sessions of the user u."""
        listed = self.good("GET", "/v1/sessions?app=app&user=u")["sessions"]
        known = self.good("GET", "/v1/memories?kind=observation&key=s&retired=true")["memories"]
        return sorted((one["key"], one["revision"], one["messageCount"]) for one in listed), \
            self.contents("s"), known

    def test_a_token_of_another_tenant_opens_nothing(self):
        acme = self.new_token("--tenant", "acme")
        listed = self.run_quipu("token", "ls", "--json").lines()
        self.assertEqual([one.get("tenant") for one in listed], [None, "acme"])
        self.serve("--tenant", "acme")
        self.append("s", message("e"), token=acme)
        self.assertEqual(self.ask("GET", "/v1/sessions").status, 401)
        self.stop()
        self.serve()
        self.assertEqual(self.ask("GET", "/v1/sessions", token=acme).status, 401)
        self.assertEqual(self.good("GET", "/v1/sessions")["sessions"], [])


class Greedy(server.Case):
    """Clients that hold on to what they have."""

    def test_a_request_that_comes_byte_by_byte_ends(self):
        """However lively the connection is: the whole request has its time."""
        self.serve("--timeout", "1", "--idle", "600")
        slow = self.connect()
        request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
        end = time.monotonic() + harness.WAIT_S
        with contextlib.suppress(ConnectionError):
            for byte in request + b"x" * 100000:
                slow.sendall(bytes((byte,)))
                if time.monotonic() > end or self.has_answer(slow):
                    break
                time.sleep(0.01)
        self.assertTrue(slow.recv(1000).startswith(b"HTTP/1.1 408 Request Timeout\r\n"))

    @staticmethod
    def has_answer(sock):
        """Whether bytes have come."""
        with contextlib.suppress(BlockingIOError):
            return bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return False

    def test_a_client_that_never_reads_its_answer_is_closed(self):
        self.serve("--timeout", "1")
        for i in range(20):
            self.append("s", message(f"e{i}", "x" * 1000000))
        stuck = self.connect()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.sendall((f"GET /v1/sessions/s HTTP/1.1\r\nHost: localhost\r\n"
                       f"Authorization: Bearer {self.token}\r\n\r\n").encode())
        self.wait_for_metric("quipu_connections 1")  # that of the question alone
        self.good("GET", "/readyz")

    def test_idle_connections_are_held_and_cost_little(self):
        """10,000 of them, or as many as the system's limit of open files allows."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (HARD_FILES, HARD_FILES))
        self.serve("--connections", str(IDLE + 10))
        before = self.resident()
        with contextlib.ExitStack() as stack:
            for _ in range(IDLE):
                sock = socket.create_connection(("127.0.0.1", self.port), timeout=harness.WAIT_S)
                stack.enter_context(contextlib.closing(sock))
            self.wait_for_metric(f"quipu_connections {IDLE + 1}")
            self.append("s", message("e"))
            self.assertEqual(self.contents("s"), ["hello"])
            self.assertLess(self.resident() - before, IDLE * 16384)
        self.stop(signal.SIGINT)

    def test_streams_have_a_limit_for_all_and_one_for_each_token(self):
        self.serve("--tails", "3", "--token-tails", "2")
        second = self.new_token()
        third = self.new_token()
        self.append("s", message("e"))
        tails = [Tail(self, "s"), Tail(self, "s")]
        self.wait_for_metric("quipu_tails 2")
        self.assertEqual([tail.status for tail in tails], [200, 200])
        self.assertEqual(Tail(self, "s").status, 503)
        self.assertEqual(Tail(self, "s", token=second).status, 200)
        self.wait_for_metric("quipu_tails 3")
        self.assertEqual(Tail(self, "s", token=third).status, 503)
        tails[0].close()
        self.wait_for_metric("quipu_tails 2")
        self.assertEqual(Tail(self, "s", token=third).status, 200)

    def test_streams_that_are_asked_for_at_once_have_the_same_limit(self):
        """One worker: all of them have been checked before the first one begins."""
        self.serve("--token-tails", "2", "--workers", "1")
        self.append("s", message("e"))
        request = (f"GET /v1/sessions/s/tail HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {self.token}\r\n\r\n").encode()
        socks = [self.connect() for _ in range(20)]
        for sock in socks:
            sock.sendall(request)
        lines = [sock.makefile("rb").readline() for sock in socks]
        statuses = sorted(int(line.split()[1]) for line in lines)
        self.assertEqual(statuses, [200] * 2 + [503] * 18)


class Tls(server.Case):
    """HTTPS by a certificate of the test's own."""

    def setUp(self):
        super().setUp()
        self.cert, self.key = self.folder / "cert.pem", self.folder / "key.pem"
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
             self.key, "-out", self.cert], capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.key.chmod(0o600)

    def serve_tls(self, *args, **more):
        """Start the server with the certificate."""
        if "no TLS" in self.run_quipu("serve", "--listen", "127.0.0.1:x", "--tls-cert", self.cert,
                                      "--tls-key", self.key, code=None).err:
            self.skipTest("this build has no TLS")
        return self.serve("--tls-cert", self.cert, "--tls-key", self.key, *args, **more)

    def client(self):
        """A client that trusts the certificate."""
        trust = ssl.create_default_context(cafile=self.cert)
        client = http.client.HTTPSConnection("localhost", self.port, timeout=harness.WAIT_S,
                                             context=trust)
        self.addCleanup(client.close)
        return client

    def test_https_is_served_and_http_is_not(self):
        self.serve_tls()
        self.assertTrue(self.address.startswith("https://127.0.0.1:"), self.address)
        client = self.client()
        self.append("s", *[message(f"e{i}", f"m{i} " + "x" * 100000) for i in range(20)],
                    connection=client)
        got = self.good("GET", path("v1", "sessions", "s"), connection=client)
        self.assertEqual(len(got["messages"]), 20)
        answer = self.ask("GET", path("v1", "sessions", "s", "export"), connection=client)
        self.assertEqual(answer.body, self.run_quipu("export", "s").raw_out)
        plain = self.connect()
        plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            self.assertNotIn(b"HTTP/1.1", plain.recv(1000))
        self.good("GET", "/readyz", connection=self.client())
        self.stop()

    def test_an_export_of_an_encrypted_store_is_served_over_https(self):
        secret = self.folder / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        self.env["QUIPU_KEY_FILE"] = str(secret)
        self.run_quipu("init", "--encrypt")
        self.serve_tls()
        client = self.client()
        self.append("s", *[message(f"e{i}", f"m{i} " + "x" * 100000) for i in range(20)],
                    connection=client)
        for _ in range(2):
            answer = self.ask("GET", path("v1", "sessions", "s", "export"), connection=client)
            self.assertEqual(answer.body, self.run_quipu("export", "s").raw_out)
        self.stop()

    def test_a_tail_over_https_ends_with_a_word(self):
        """The end of a stream is distinguished from a cut."""
        self.serve_tls()
        self.append("s", message("e", "one"), connection=self.client())
        trust = ssl.create_default_context(cafile=self.cert)
        sock = trust.wrap_socket(self.connect(), server_hostname="localhost",
                                 suppress_ragged_eofs=False)
        self.addCleanup(sock.close)
        sock.sendall((f"GET /v1/sessions/s/tail HTTP/1.1\r\nHost: localhost\r\n"
                      f"Authorization: Bearer {self.token}\r\n\r\n").encode())
        got = b""
        while b'"content":"one"' not in got:
            got += sock.recv(4096)
        self.good("DELETE", path("v1", "sessions", "s"), status=204, connection=self.client())
        while (piece := sock.recv(4096)):
            got += piece
        self.assertIn(b"event: end\n", got)

    def test_old_protocols_are_refused(self):
        self.serve_tls()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname = False
        old.verify_mode = ssl.CERT_NONE
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(ssl.SSLError):
            old.wrap_socket(self.connect(), server_hostname="localhost")

    def test_a_client_that_never_ends_its_handshake_is_closed(self):
        self.serve_tls("--idle", "1")
        self.assertEqual(self.connect().recv(1000), b"")

    def test_a_public_address_needs_a_certificate_a_name_and_a_token(self):
        tls = ("--tls-cert", self.cert, "--tls-key", self.key)
        name = ("--public-url", "https://sessions.example.org")
        for args, expected in (
            ((), "no TLS"), (name, "no TLS"), (tls, "public URL"),
            ((*tls, *name, "--adk-open", "app"), "no token"),
            ((*tls, *name, "--tokens", str(self.folder / "none")), "no token"),
        ):
            got = self.run_quipu("serve", "--listen", "0.0.0.0:0", *args, code=1)
            self.assertIn(expected, got.err, args)
        self.serve_tls(*name, listen="0.0.0.0:0")
        for host, status in (("sessions.example.org", 200), ("evil.example.org", 403)):
            answer = self.ask("GET", "/v1/sessions", headers={"Host": host},
                              connection=self.client())
            self.assertEqual(answer.status, status)
            self.assertEqual(answer.headers["Strict-Transport-Security"], "max-age=31536000")

    def test_a_server_without_a_public_name_binds_no_browser_to_https(self):
        """A browser would ask every server of "localhost" by HTTPS from then on."""
        self.serve_tls()
        answer = self.ask("GET", "/v1/sessions", connection=self.client())
        self.assertNotIn("Strict-Transport-Security", answer.headers)

    def test_a_wrong_certificate_is_refused_with_the_reason(self):
        other = self.folder / "other.pem"
        subprocess.run(["openssl", "genrsa", "-out", other, "2048"], check=True,
                       capture_output=True)
        other.chmod(0o600)
        empty = self.folder / "empty.pem"
        empty.write_text("", encoding="utf-8")
        for cert, key, expected in (
            (self.cert, other, "key"), (empty, self.key, "certificate"),
            (self.cert, self.folder / "missing", "cannot be read"),
        ):
            got = self.run_quipu("serve", "--listen", "127.0.0.1:0", "--tls-cert", cert,
                                 "--tls-key", key, code=None)
            self.assertNotEqual(got.code, 0)
            self.assertIn(expected, got.err)
        self.key.chmod(0o644)
        got = self.run_quipu("serve", "--listen", "127.0.0.1:0", "--tls-cert", self.cert,
                             "--tls-key", self.key, code=1)
        self.assertIn("chmod 600", got.err)
        got = self.run_quipu("serve", "--listen", "127.0.0.1:0", "--tls-cert", self.cert, code=1)
        self.assertIn("certificate and its key", got.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
