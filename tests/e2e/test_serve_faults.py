#!/usr/bin/env python3
"""quipu serve when things go wrong: killed and stopped under load, clients that are slow, hang up
or never read, and every limit at its maximum and one above. And tails, which resume without a gap
or a repeat."""

import contextlib
import functools
import http.client
import json
import os
import resource
import select
import signal
import sqlite3
import threading
import time
import unittest

import harness
import server
from server import Tail, message, path

LONG = os.environ.get("QUIPU_LONG") == "1"
CLIENTS = 4
KILLS = 20 if LONG else 3
APPENDS_BEFORE_KILL = 30  # acknowledged ones, until the server is killed


class Client(threading.Thread):
    """Appends numbered messages to a session of its own, each until it is acknowledged: a repeat
    with the same event id settles what a lost connection left open."""

    def __init__(self, case, name):
        super().__init__(daemon=True)
        self.case = case
        self.key = name
        self.acknowledged = 0
        self.cut = 0  # answers that ended in the middle
        self.ends = threading.Event()
        self.leaves = False  # do not repeat: stop at the first failure

    def try_once(self, number):
        body = {"messages": [message(f"{self.key}-{number}", str(number))], "create": True}
        answer = self.case.ask("POST", path("v1", "sessions", self.key, "messages"), body)
        return answer.status == 200

    def run(self):
        number = 0
        end = time.monotonic() + harness.WAIT_S
        while not self.ends.is_set() and time.monotonic() < end:
            try:
                done = self.try_once(number)
            except (http.client.IncompleteRead, json.JSONDecodeError):
                self.cut += 1
                done = False
            except (OSError, http.client.HTTPException):
                done = False
            if done:
                number += 1
                self.acknowledged = number
            elif self.leaves:
                return


class Follower(threading.Thread):
    """Follows a session, through as many connections as it takes: each goes on with the id of the
    last event that came whole."""

    def __init__(self, case, key):
        super().__init__(daemon=True)
        self.case = case
        self.key = key
        self.seen = []  # (number, content)
        self.connections = 0
        self.ends = threading.Event()

    def follow(self):
        """One connection, until it breaks."""
        tail = Tail(self.case, self.key, last=self.seen[-1][0] if self.seen else None)
        self.connections += tail.status == 200
        with contextlib.closing(tail):
            while tail.status == 200 and (event := tail.next()) is not None:
                self.seen.append((int(event[1]), event[2]["content"]))

    def run(self):
        end = time.monotonic() + harness.WAIT_S
        while not self.ends.is_set() and time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError, IndexError, KeyError, AssertionError):
                self.follow()  # a line that was cut is no event


class Load(server.Case):
    """A server with clients that write all the time."""

    def start_clients(self):
        clients = [Client(self, f"c{i}") for i in range(CLIENTS)]
        for client in clients:
            client.start()
        return clients

    def wait_for(self, condition):
        """Poll until it holds."""
        end = time.monotonic() + harness.WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), end, "it never came to that")
            time.sleep(0.005)

    def stored(self, client):
        """The numbers of a client's session, in order."""
        return [int(text) for text in self.contents(client.key)]

    def test_killed_in_a_loop_nothing_is_lost_and_nothing_doubled(self):
        self.serve()
        port = self.port
        clients = self.start_clients()
        followers = [Follower(self, client.key) for client in clients]
        for follower in followers:
            follower.start()
        for _ in range(KILLS):
            wanted = sum(client.acknowledged for client in clients) + APPENDS_BEFORE_KILL
            self.wait_for(lambda: sum(c.acknowledged for c in clients) >= wanted)
            self.process.kill()
            self.process.wait()
            self.serve(listen=f"127.0.0.1:{port}")
        for client in clients:
            client.ends.set()
        for client in clients:
            client.join(harness.WAIT_S)
            numbers = self.stored(client)
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertGreaterEqual(len(numbers), client.acknowledged)
            self.assertLessEqual(len(numbers), client.acknowledged + 1)
        for client, follower in zip(clients, followers):
            numbers = self.stored(client)
            self.wait_for(lambda wanted=len(numbers), one=follower: len(one.seen) >= wanted)
            follower.ends.set()
            self.assertEqual(follower.seen, [(i + 1, str(i)) for i in numbers])
            self.assertGreater(follower.connections, 1)
        self.stop()
        self.assertEqual(self.run_quipu("verify", "--json").json()["problems"], [])

    def test_stopped_under_load_no_answer_is_cut_and_no_write_lost(self):
        self.serve()
        clients = self.start_clients()
        for client in clients:
            client.leaves = True
        self.wait_for(lambda: all(client.acknowledged > 5 for client in clients))
        self.stop()
        for client in clients:
            client.join(harness.WAIT_S)
            self.assertEqual(client.cut, 0)
        self.serve()
        for client in clients:
            numbers = self.stored(client)
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertGreaterEqual(len(numbers), client.acknowledged)


class Tails(server.Case):
    """Streams of server-sent events."""

    def setUp(self):
        super().setUp()
        self.serve()

    def texts(self, tail, count):
        """The contents of the next events; their ids are the messages' numbers."""
        got = []
        for _ in range(count):
            event, number, data = tail.next()
            self.assertEqual((event, int(number)), ("message", data["seq"]))
            got.append(data["content"])
        return got

    def test_a_tail_shows_what_exists_and_what_is_added(self):
        self.append("s", message("e1", "one"), message("e2", "two"))
        tail = Tail(self, "s")
        self.assertEqual((tail.status, tail.headers["content-type"]), (200, "text/event-stream"))
        self.assertEqual(self.texts(tail, 2), ["one", "two"])
        self.append("s", message("e3", "three"))
        self.assertEqual(self.texts(tail, 1), ["three"])
        # Another process, which the server hears of by itself.
        self.run_quipu("append", "s", "--text", "four")
        self.assertEqual(self.texts(tail, 1), ["four"])

    def test_a_tail_goes_on_after_the_last_event_that_a_client_saw(self):
        self.append("s", *[message(f"e{i}", f"m{i}") for i in range(5)])
        tail = Tail(self, "s")
        self.assertEqual(self.texts(tail, 2), ["m0", "m1"])
        tail.close()
        self.append("s", message("e5", "m5"))
        self.process.kill()
        self.process.wait()
        self.serve()
        tail = Tail(self, "s", last=2, after=4)  # the header comes before the parameter
        self.assertEqual(self.texts(tail, 4), ["m2", "m3", "m4", "m5"])
        tail = Tail(self, "s", after=5)
        self.assertEqual(self.texts(tail, 1), ["m5"])
        self.assertEqual(Tail(self, "s", last="x").status, 400)
        self.assertEqual(Tail(self, "s", last=6).status, 200)
        self.assertEqual(Tail(self, "missing").status, 404)

    def test_a_client_that_saw_more_than_there_is_begins_again(self):
        """Its session was deleted and made again, or the store is an older copy: to wait for its
        number would leave out all before it."""
        self.append("s", message("e1"), message("e2"))
        self.assertEqual(Tail(self, "s", last=3).status, 409)
        self.assertEqual(Tail(self, "s", last=10 ** 17).status, 409)
        self.assertEqual(Tail(self, "s", last=2).status, 200)

    def test_many_tails_see_every_message_once(self):
        self.append("s", message("first", "first"))
        tails = [Tail(self, "s", after=1) for _ in range(20)]
        for i in range(10):
            self.append("s", message(f"e{i}", f"m{i}"))
        for tail in tails:
            self.assertEqual(self.texts(tail, 10), [f"m{i}" for i in range(10)])

    def test_a_tail_ends_with_its_session(self):
        self.append("s", message("e", "one"))
        tail = Tail(self, "s")
        self.assertEqual(self.texts(tail, 1), ["one"])
        self.good("DELETE", path("v1", "sessions", "s"), status=204)
        self.assertEqual(tail.next(), ("end", None, {"status": "NOT_FOUND"}))
        self.assertIsNone(tail.next())

    def test_a_tail_ends_with_its_token(self):
        """Removed: what is added later does not reach it. The tails of others go on."""
        self.append("s", message("e", "one"))
        token = self.new_token("--verbs", "read")
        removed = Tail(self, "s", token=token)
        kept = Tail(self, "s")
        for tail in (removed, kept):
            self.assertEqual(self.texts(tail, 1), ["one"])
        listed = self.run_quipu("token", "ls", "--json").lines()
        self.run_quipu("token", "rm", listed[-1]["id"])
        self.assertIsNone(removed.next())
        self.append("s", message("e2", "two"))
        self.assertEqual(self.texts(kept, 1), ["two"])

    def test_a_tail_ends_when_its_token_expires(self):
        self.append("s", message("e", "one"))
        token = self.new_token("--verbs", "read")
        tail = Tail(self, "s", token=token)
        self.assertEqual(self.texts(tail, 1), ["one"])
        file = self.folder / (self.store.name + ".tokens")
        tokens = json.loads(file.read_text())
        tokens["tokens"][-1]["expires"] = "2020-01-01T00:00:00Z"
        fresh = self.folder / "fresh"
        fresh.write_text(json.dumps(tokens))
        fresh.chmod(0o600)
        fresh.rename(file)
        self.assertIsNone(tail.next())

    def test_a_tail_ends_when_its_token_expires_and_the_file_cannot_be_read(self):
        self.append("s", message("e", "one"))
        token = self.new_token("--verbs", "read")
        kept = Tail(self, "s")
        file = self.folder / (self.store.name + ".tokens")
        tokens = json.loads(file.read_text())
        at = time.time() + 5
        tokens["tokens"][-1]["expires"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        kept_file, loop = self.folder / "kept", self.folder / "loop"
        kept_file.write_text(json.dumps(tokens))
        kept_file.chmod(0o600)
        loop.symlink_to(file)  # in the file's place nobody can open it
        os.link(kept_file, self.folder / "fresh")
        (self.folder / "fresh").rename(file)
        tail = Tail(self, "s", token=token)
        for one in (tail, kept):
            self.assertEqual(self.texts(one, 1), ["one"])
        loop.rename(file)
        self.assertIsNone(tail.next())
        self.assertGreaterEqual(time.time(), int(at))
        kept_file.rename(file)
        self.append("s", message("e2", "two"))  # the tails of others go on
        self.assertEqual(self.texts(kept, 1), ["two"])

    def test_a_stop_ends_tails(self):
        self.append("s", message("e", "one"))
        tail = Tail(self, "s")
        self.assertEqual(self.texts(tail, 1), ["one"])
        self.stop()
        self.assertIsNone(tail.next())

    def test_a_client_that_never_reads_delays_nobody(self):
        """The server sends what the connection takes, keeps a bounded rest, and goes on."""
        text = "x" * 100000
        for i in range(40):
            self.append("s", message(f"e{i}", text))
        stuck = [Tail(self, "s") for _ in range(3)]
        self.append("other", message("o", "hello"))
        live = Tail(self, "other")
        self.assertEqual(self.texts(live, 1), ["hello"])
        self.assertEqual(len(self.contents("s")), 40)
        for tail in stuck:  # it was slow, and still gets everything
            self.assertEqual(self.texts(tail, 40), [text] * 40)


    def test_clients_that_never_read_cost_little_memory(self):
        """What a tail holds for a slow client is bounded by bytes, not by messages."""
        for i in range(24):
            self.append("s", *[message(f"e{i}-{k}", "x" * 10000) for k in range(100)])
        before = self.resident()
        tails = [Tail(self, "s") for _ in range(40)]  # 24 MB each, if all were read
        self.wait_for_metric("quipu_tails 40")
        time.sleep(1)  # for whatever is read ahead
        self.assertLess(self.resident() - before, 120 << 20)
        self.assertEqual(len(self.texts(tails[0], 2400)), 2400)


class Answers(server.Case):
    """Answers that workers give to the socket themselves, in the ways in which a client can take
    them."""

    def setUp(self):
        super().setUp()
        self.serve()
        for i in range(8):
            self.append("s", message(f"e{i}", f"{i}" * 1000000))

    def get(self, key, **parameters):
        """The bytes of a request."""
        return (f"GET {path('v1', 'sessions', key, **parameters)} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.token}\r\n\r\n").encode()

    @staticmethod
    def read(file):
        """The status and the JSON of the next answer."""
        status = int(file.readline().split()[1])
        size = 0
        while (line := file.readline().strip()):
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        return status, json.loads(file.read(size))

    def texts(self, body):
        return [one["content"][0] + str(len(one["content"])) for one in body["messages"]]

    def test_a_client_that_takes_its_answer_in_pieces_gets_every_byte(self):
        """More than the socket takes at once: what a worker has begun, the loop ends."""
        expected = [f"{i}1000000" for i in range(8)]
        sock = self.connect()
        with sock.makefile("rb") as file:
            for _ in range(3):
                sock.sendall(self.get("s"))
                select.select([sock], [], [], harness.WAIT_S)
                time.sleep(0.05)  # for the socket to be full
                status, body = self.read(file)
                self.assertEqual((status, self.texts(body)), (200, expected))

    def test_requests_that_are_sent_ahead_are_answered_in_their_order(self):
        """At once, and one while the one before is at a worker or just answered."""
        sock = self.connect()
        wanted = [(i, "s" if i % 3 else "none") for i in range(60)]
        with sock.makefile("rb") as file:
            sock.sendall(b"".join(self.get(key, limit=1, after=i % 8) for i, key in wanted))
            for i, key in wanted:
                status, body = self.read(file)
                self.assertEqual(status, 200 if key == "s" else 404, i)
                if key == "s":
                    self.assertEqual(self.texts(body), [f"{i % 8}1000000"], i)
            for i in range(200):
                sock.sendall(self.get("s", limit=0))
                if i % 7 == 0:
                    time.sleep(0.0001 * (i % 11))
                sock.sendall(self.get("none", limit=0))
                self.assertEqual(self.read(file)[0], 200)
                self.assertEqual(self.read(file)[0], 404)

    def test_an_answer_is_counted_before_it_is_read(self):
        line = 'quipu_requests_total{method="GET",route="/v1/sessions/{key}",code="2xx"} '
        for number in range(1, 30):
            self.good("GET", path("v1", "sessions", "s", limit=0))
            self.assertIn(f"{line}{number}\n", self.ask("GET", "/metrics").body.decode())

    def test_a_client_that_leaves_behind_its_answer_has_not_left_early(self):
        for _ in range(30):
            self.good("GET", path("v1", "sessions", "s", limit=0))
        self.wait_for_metric("quipu_connections 1")
        self.wait_for_metric("quipu_requests_left_total 0")

    def test_the_idle_time_begins_with_the_answer(self):
        self.stop()
        self.serve("--idle", "1")
        sock = self.connect()
        with sock.makefile("rb") as file:
            sock.sendall(self.get("s", limit=0))
            self.assertEqual(self.read(file)[0], 200)
            self.assertEqual(file.read(), b"")  # closed by the server, without a word


class Limits(server.Case):
    """Limits at their maximum and one above, and clients that misbehave."""

    def append_of(self, size):
        """The status of an append whose body has exactly so many bytes."""
        body = {"messages": [message("e", "")], "create": True}
        body["messages"][0]["content"] = "x" * (size - len(json.dumps(body)))
        self.assertEqual(len(json.dumps(body)), size)
        return self.ask("POST", path("v1", "sessions", f"s{size}", "messages"), body).status

    def test_the_body_limit(self):
        self.serve("--max-body", "1000")
        self.assertEqual(self.append_of(1000), 200)
        self.assertEqual(self.append_of(1001), 413)
        self.assertEqual([one["key"] for one in self.good("GET", "/v1/sessions")["sessions"]],
                         ["s1000"])

    def test_the_connection_limit(self):
        self.serve("--connections", "2")
        held = [http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.WAIT_S)
                for _ in range(2)]
        for client in held:
            self.good("GET", "/readyz", connection=client)
        answer = self.ask("GET", "/readyz")
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
        held[0].close()
        end = time.monotonic() + harness.WAIT_S
        while self.ask("GET", "/readyz").status != 200:
            self.assertLess(time.monotonic(), end)
        held[1].close()

    def test_a_full_queue_answers_503_and_stores_what_it_took(self):
        """One worker waits for a lock that another program holds, one request waits for the worker:
        the others are asked to come again."""
        self.serve("--workers", "1", "--queue", "1")
        self.append("s", message("e0"))
        other = sqlite3.connect(self.store, isolation_level=None)
        other.execute("begin immediate")
        waiting = {}
        for i in range(5):
            body = json.dumps({"messages": [message("e")], "create": True})
            waiting[f"c{i}"] = self.connect()
            waiting[f"c{i}"].sendall((
                f"POST /v1/sessions/c{i}/messages HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        refused = set()
        while len(refused) < 3:
            ready, _, _ = select.select(
                [sock for key, sock in waiting.items() if key not in refused], [], [],
                harness.WAIT_S)
            self.assertTrue(ready)
            for key, sock in waiting.items():
                if sock in ready:
                    answer = sock.recv(4096)
                    self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
                    self.assertIn(b"\r\nRetry-After: 1\r\n", answer)
                    self.assertIn(b'"status":"BUSY"', answer)
                    refused.add(key)
        other.execute("rollback")
        other.close()
        taken = set()
        for key in waiting.keys() - refused:
            if waiting[key].recv(4096).startswith(b"HTTP/1.1 200 "):
                taken.add(key)
        self.assertTrue(taken)
        keys = {one["key"] for one in self.good("GET", "/v1/sessions")["sessions"]}
        self.assertEqual(keys, taken | {"s"})

    def test_health_and_metrics_take_no_worker_from_others(self):
        """The only worker waits for a lock and the queue is full: both are answered, and however
        many ask for the health, one waits."""
        self.serve("--workers", "1", "--queue", "1")
        self.append("s", message("e0"))
        self.good("GET", "/healthz", token=None)
        self.ask("GET", "/metrics")
        other = sqlite3.connect(self.store, isolation_level=None)
        other.execute("begin immediate")
        self.addCleanup(other.close)
        body = json.dumps({"messages": [message("e1")]})
        post = (f"POST /v1/sessions/s/messages HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        waiting = []
        while len(waiting) < 2 or b"quipu_queue_length 1\n" not in self.ask("GET", "/metrics").body:
            waiting.append(self.connect())
            waiting[-1].sendall(post)  # refused, if the worker has not taken the one before yet
        end = time.monotonic() + 2  # longer than a result is fresh
        while time.monotonic() < end:
            self.good("GET", "/healthz", token=None)
        self.assertIn(b"quipu_store_up 1\n", self.ask("GET", "/metrics").body)
        other.execute("rollback")
        self.assertTrue(waiting[0].recv(4096).startswith(b"HTTP/1.1 200 "))

    def test_tails_leave_requests_a_part_of_the_queue(self):
        """The only worker waits for a lock, and more tails want to look than the queue holds."""
        self.serve("--workers", "1", "--queue", "2")
        self.append("s", message("e0"))
        tails = [Tail(self, "s") for _ in range(8)]
        for tail in tails:
            self.assertIsNotNone(tail.next())
        other = sqlite3.connect(self.store, isolation_level=None)
        other.execute("begin immediate")
        self.addCleanup(other.close)
        body = json.dumps({"messages": [message("e1")]})
        waiting = self.connect()
        waiting.sendall((
            f"POST /v1/sessions/s/messages HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        end = time.monotonic() + 6  # all of them have looked then
        while time.monotonic() < end:
            self.assertNotIn(b"quipu_queue_length 2\n", self.ask("GET", "/metrics").body)
        self.wait_for_metric("quipu_queue_length 1")
        get = self.connect()
        get.sendall((f"GET /v1/sessions/s HTTP/1.1\r\nHost: localhost\r\n"
                     f"Authorization: Bearer {self.token}\r\n\r\n").encode())
        self.wait_for_metric("quipu_queue_length 2")
        other.execute("rollback")
        for sock in (waiting, get):
            self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 200 "))

    def test_a_store_whose_file_was_replaced_takes_no_writes_and_says_so(self):
        """By a backup, while it is served: what would be written would lie in the old file."""
        self.serve()
        self.append("s", message("e1"))
        other = self.folder / "other.db"
        self.run_quipu("init", "--store", str(other))
        os.replace(other, self.store)
        time.sleep(0.2)  # a busy writer looks every 0.1 s, one that was idle at once
        body = {"messages": [message("e2", "lost")]}
        answer = self.ask("POST", path("v1", "sessions", "s", "messages"), body)
        self.assertEqual((answer.status, answer.json()["error"]["status"]), (500, "IO"))
        self.assertEqual(self.ask("GET", "/healthz", token=None).status, 503)
        answer = self.ask("GET", path("v1", "sessions", "s"))  # which opens the file once more
        self.assertEqual((answer.status, answer.json()["error"]["status"]), (500, "IO"))
        self.assertNotIn(str(self.folder), answer.body.decode())
        failed = [(one["route"], one["status"]) for one in
                  map(json.loads, self.log.read_text().splitlines())
                  if one["event"] == "store_failed"]
        self.assertEqual(failed, [("/v1/sessions/{key}/messages", "IO"), ("/healthz", "IO"),
                                  ("/v1/sessions/{key}", "IO")])

    def test_health_says_that_the_store_takes_no_writes(self):
        self.serve("--workers", "4")
        self.good("GET", "/healthz", token=None)
        other = sqlite3.connect(self.store, isolation_level=None)
        other.execute("begin immediate")
        self.addCleanup(other.close)
        end = time.monotonic() + harness.WAIT_S
        while self.ask("GET", "/healthz", token=None).status != 503:
            self.assertLess(time.monotonic(), end)
        other.execute("rollback")
        while self.ask("GET", "/healthz", token=None).status != 200:
            self.assertLess(time.monotonic(), end)

    def test_a_request_that_does_not_come_in_time_ends(self):
        self.serve("--timeout", "1", "--idle", "1")
        slow = self.connect()
        slow.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        idle = self.connect()
        self.good("GET", "/readyz")
        self.assertTrue(slow.recv(1000).startswith(b"HTTP/1.1 408 Request Timeout\r\n"))
        self.assertEqual(idle.recv(1000), b"")

    def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(self):
        self.serve()
        body = json.dumps({"messages": [message("e")], "create": True})
        for cut in (1, len(body) // 2, len(body) - 1):
            sock = self.connect()
            sock.sendall((
                "POST /v1/sessions/s/messages HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body[:cut]}").encode())
            sock.close()
        # One that leaves before it reads its answer: what was acknowledged to nobody is stored or
        # not, and the same event id settles it.
        sock = self.connect()
        sock.sendall((
            "POST /v1/sessions/s/messages HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        sock.close()
        self.append("s", message("e"))
        self.assertEqual(self.contents("s"), ["hello"])

    def test_what_a_client_that_left_had_asked_for_is_not_done(self):
        """A worker waits for a lock; the requests behind it are of clients that hang up. When the
        lock is free, nothing of them is done, and those that stayed are answered."""
        self.serve("--workers", "1")
        self.append("s", message("e0"))
        other = sqlite3.connect(self.store, isolation_level=None)
        other.execute("begin immediate")
        body = json.dumps({"messages": [message("e")], "create": True})
        waiting = {}
        for key in ("first", "left0", "left1", "left2", "stays"):
            waiting[key] = self.connect()
            waiting[key].sendall((
                f"POST /v1/sessions/{key}/messages HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            self.wait_for_metric(f"quipu_queue_length {len(waiting) - 1}")
        for key in ("left0", "left1", "left2"):
            waiting[key].close()
        self.wait_for_metric("quipu_requests_left_total 3")
        other.execute("rollback")
        other.close()
        for key in ("first", "stays"):
            self.assertTrue(waiting[key].recv(4096).startswith(b"HTTP/1.1 200 "))
        keys = {one["key"] for one in self.good("GET", "/v1/sessions")["sessions"]}
        self.assertEqual(keys, {"s", "first", "stays"})

    def test_a_request_is_refused_before_its_body_is_sent(self):
        """Who may not ask sends no body: the head decides, also for one who asks first."""
        self.serve()
        good = f"Authorization: Bearer {self.token}"
        for target, host, token, status in (
            ("/v1/sessions", "localhost", "X-None: 1", 401),
            ("/v1/sessions", "localhost", "Authorization: Bearer wrong", 401),
            ("/v1/sessions", "evil.example", good, 403),
            ("/v1/nothing", "localhost", good, 404),
            ("/v1/stats", "localhost", good, 405),
            ("/v1/sessions?x=1", "localhost", good, 400),
        ):
            for frame in ("Content-Length: 1000000", "Transfer-Encoding: chunked",
                          "Content-Length: 1000000\r\nExpect: 100-continue"):
                statuses, got = self.raw((
                    f"POST {target} HTTP/1.1\r\nHost: {host}\r\n{token}\r\n"
                    f"Content-Type: application/json\r\n{frame}\r\n\r\n").encode())
                self.assertEqual(statuses, [status], (target, host, frame))
                self.assertIn(b"\r\nConnection: close\r\n", got)

    def test_a_client_that_sends_its_whole_body_reads_why_it_is_refused(self):
        self.serve()
        body = {"key": "s", "title": "x" * 4000000}
        self.assertEqual(self.ask("POST", "/v1/sessions", body, token="wrong").status, 401)
        self.assertEqual(self.good("GET", "/v1/sessions")["sessions"], [])

    def hold_and_use(self, count):
        """Open so many connections, and use every kind of file behind them."""
        early = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.WAIT_S)
        self.good("GET", "/readyz", connection=early)
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(early))
            for _ in range(count):
                stack.enter_context(contextlib.closing(self.connect()))
            # A change of the token file is a file to read, too.
            self.new_token()
            self.append("s", message("e"), connection=early)
            self.good("GET", path("v1", "sessions", "s"), connection=early)
            answer = self.ask("GET", path("v1", "sessions", "s", "export"), connection=early)
            self.assertEqual(answer.status, 200)

    def logged(self, event):
        """The entries of the log that have this event."""
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [entry for entry in entries if entry["event"] == event]

    def test_a_low_soft_limit_of_files_is_raised_for_the_connections(self):
        self.serve("--connections", "300", files=(128, 1024))
        self.hold_and_use(290)
        self.assertEqual(self.logged("accept_failed") + self.logged("connections_lowered"), [])

    def test_connections_leave_the_store_its_files(self):
        self.serve("--connections", "1000", files=(256, 256))
        fewer = self.logged("connections_lowered")
        self.assertEqual([entry["files"] for entry in fewer], [256])
        self.assertLess(fewer[0]["connections"], 128)
        self.hold_and_use(400)
        self.assertEqual(self.logged("accept_failed"), [])

    def test_too_few_files_for_the_workers_are_refused(self):
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (100, 100))
        process = self.start_quipu("serve", "--listen", "127.0.0.1:0", preexec_fn=limit)
        _, err = process.communicate(timeout=harness.WAIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(b"100 open files are too few for 16 workers", err)

    def test_two_servers_cannot_share_an_address(self):
        self.serve()
        second = self.run_quipu("serve", "--listen", f"127.0.0.1:{self.port}", code=None)
        self.assertNotEqual(second.code, 0)
        self.assertIn("in use", second.err)

    def test_many_idle_connections_are_held_and_cost_no_answer(self):
        self.serve()
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(contextlib.closing(self.connect()))
            self.good("GET", "/readyz")
            self.wait_for_metric("quipu_connections 201")
        self.stop(signal.SIGINT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
