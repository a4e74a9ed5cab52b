"""Shared by the tests of quipu serve: a server of the test's own on a free port, and clients that
speak to it as other programs would."""

import functools
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.parse

import harness


class Answer:
    """A status, headers and a body."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        """The body as JSON."""
        return json.loads(self.body)


class Raw(str):
    """A body that is sent as it is."""


def path(*segments, **parameters):
    """A path of escaped segments and a query."""
    text = "/" + "/".join(urllib.parse.quote(segment, safe="") for segment in segments)
    return text + ("?" + urllib.parse.urlencode(parameters) if parameters else "")


def message(event_id, content="hello", role="user"):
    """A message of a body."""
    return {"role": role, "content": content, "eventId": event_id}


class Case(harness.Case):
    """A test with a server; `self.token` may do everything."""

    OPTIONS = ()

    def setUp(self):
        super().setUp()
        if "without libevent" in self.run_quipu("token", "ls", code=None).err:
            self.skipTest("this build has no libevent")
        self.token = self.new_token()
        self.process = None
        self.port = 0

    def new_token(self, *args):
        """Make a token."""
        return self.run_quipu("token", "new", *args).out.strip()

    def serve(self, *args, listen="127.0.0.1:0", files=None):
        """Start the server and wait until it says where it listens; `files` are the soft and the
        hard limit of its open files."""
        limit = None
        if files is not None:
            limit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, files)
        self.log = self.folder / "log"
        with open(self.log, "ab") as log:
            self.process = self.start_quipu(
                "serve", "--listen", listen, *self.OPTIONS, *args,
                stdin=subprocess.DEVNULL, stderr=log, preexec_fn=limit,
            )
        line = self.read_line(self.process)
        self.assertTrue(line.startswith("quipu serves "), line)
        self.address = line.split()[-1]
        if self.address.startswith("http"):
            self.port = int(self.address.rsplit(":", 1)[1])
        return self.process

    def stop(self, number=signal.SIGTERM, code=0):
        """End the server by a signal."""
        self.process.send_signal(number)
        self.assertEqual(self.process.wait(timeout=harness.WAIT_S), code)

    def connect(self):
        """A connection for raw bytes."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=harness.WAIT_S)
        self.addCleanup(sock.close)
        return sock

    def ask(self, method, target, body=None, token=True, headers=None, connection=None):
        """One request; `token` is the test's own, another one, or None."""
        client = connection or http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=harness.WAIT_S
        )
        sent = dict(headers or {})
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token if token is True else token}")
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, Raw) else json.dumps(body)
        try:
            client.request(method, target, body=body, headers=sent)
            response = client.getresponse()
            try:
                return Answer(response.status, response.headers, response.read())
            except ConnectionError as error:  # in the middle of an answer
                raise http.client.IncompleteRead(b"") from error
        finally:
            if connection is None:
                client.close()

    def good(self, method, target, body=None, status=200, **more):
        """One request that must succeed; returns the JSON."""
        answer = self.ask(method, target, body, **more)
        self.assertEqual(answer.status, status, (method, target, answer.body))
        return answer.json() if answer.body else None

    def append(self, key, *messages, **more):
        """Append messages, and create the session."""
        body = {"messages": list(messages), "create": True}
        return self.good("POST", path("v1", "sessions", key, "messages"), body, **more)

    def contents(self, key):
        """The contents of all messages of a session."""
        got = self.good("GET", path("v1", "sessions", key, limit=10000))
        return [one["content"] for one in got["messages"]]

    def wait_for_metric(self, line):
        """Ask until the metrics have a line: a connection's end is noticed a moment later."""
        end = time.monotonic() + harness.WAIT_S
        while line + "\n" not in self.ask("GET", "/metrics").body.decode():
            self.assertLess(time.monotonic(), end, line)

    def resident(self):
        """Bytes of the server in memory."""
        pages = (pathlib.Path("/proc") / str(self.process.pid) / "statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def raw(self, data):
        """Send bytes and read until the server closes; returns the statuses and the bytes."""
        sock = self.connect()
        sock.sendall(data)
        got = b""
        while True:
            piece = sock.recv(65536)
            if not piece:
                break
            got += piece
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)], got


class Tail:
    """A client of a stream of server-sent events."""

    def __init__(self, case, key, last=None, after=None, token=True):
        self.sock = case.connect()
        lines = [
            f"GET {path('v1', 'sessions', key, 'tail', **({'after': after} if after else {}))}"
            " HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {case.token if token is True else token}",
        ]
        if last is not None:
            lines.append(f"Last-Event-ID: {last}")
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value

    def next(self):
        """The next event as (event, id, data), or None at the end; comments are passed over."""
        fields = {}
        while (line := self.file.readline()):
            text = line.decode().rstrip("\n")
            if text == "" and fields:
                return fields.get("event"), fields.get("id"), json.loads(fields["data"])
            if text and not text.startswith(":"):
                name, _, value = text.partition(": ")
                fields[name] = value
        return None

    def close(self):
        """Hang up."""
        self.file.close()
        self.sock.close()


