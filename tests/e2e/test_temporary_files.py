#!/usr/bin/env python3
"""Temporary files of an encrypted store show nothing that is stored: the export that a server
sends, and the heads of a backup that is compared. Both are read through /proc while the program
waits for its reader. The same look at a plain store finds the texts: it can see."""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import secrets
import socket
import sys

import harness
import server

PLANTED = "a-text-that-no-temporary-file-may-show"
MESSAGES = 40
MESSAGE = (PLANTED + " ") * 8000  # all of them are more than the buffers of a connection hold
SESSIONS = 30  # the report of so many that are lost is more than a pipe of a page holds


class TemporaryFiles(server.Case):
    def setUp(self):
        if not pathlib.Path("/proc/self/fd").exists():
            self.skipTest("no /proc")
        super().setUp()

    def give_key(self):
        """The stores of this test are encrypted from now on."""
        key = self.folder / "key"
        key.write_bytes(secrets.token_bytes(32))
        key.chmod(0o600)
        self.env["QUIPU_KEY_FILE"] = str(key)

    def init(self, *args):
        self.run_quipu("init", *(["--encrypt"] if "QUIPU_KEY_FILE" in self.env else []), *args)

    def temporary(self, process):
        """What the files without a name of a process hold: their places and bytes."""
        found = []
        for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            name = os.readlink(link)
            if name.endswith(" (deleted)") and (data := link.read_bytes()):
                found.append((name, data))
        self.assertNotEqual(found, [])
        return found

    def shows(self, found):
        return any(PLANTED.encode() in data for _, data in found)

    def serve_an_export(self):
        """Serve a session; returns its export."""
        self.init()
        lines = f'{{"role":"user","content":"{MESSAGE}"}}\n' * MESSAGES
        self.run_quipu("append", "s", "-", "--create", stdin=lines)
        self.serve()
        return self.run_quipu("export", "s").raw_out

    @contextlib.contextmanager
    def slow_client(self):
        """A client that has asked for the export and has read the head of the answer."""
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(harness.WAIT_S)
            client.connect(("127.0.0.1", self.port))
            client.sendall(f"GET /v1/sessions/s/export HTTP/1.1\r\nHost: localhost\r\n"
                           f"Authorization: Bearer {self.token}\r\n"
                           "Connection: close\r\n\r\n".encode())
            stream = client.makefile("rb")
            self.assertIn(b" 200 ", stream.readline())
            while stream.readline() != b"\r\n":
                pass
            yield stream

    def look_at_an_export(self):
        """What lies in the temporary files while a client reads slowly."""
        export = self.serve_an_export()
        with self.slow_client() as stream:
            found = self.temporary(self.process)
            self.assertEqual(stream.read(), export)
        for name, data in found:
            self.assertTrue(name.startswith(str(self.folder)), name)  # $TMPDIR
            self.assertGreaterEqual(len(data), len(export))
        # The connection goes on behind an export; a HEAD has its size and no body.
        target = server.path("v1", "sessions", "s", "export")
        with contextlib.closing(http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=harness.WAIT_S)) as client:
            head = self.ask("HEAD", target, connection=client)
            self.assertEqual(int(head.headers["Content-Length"]), len(export))
            for _ in range(2):
                self.assertEqual(self.ask("GET", target, connection=client).body, export)
        self.stop()
        return found

    def test_an_export_that_is_sent_slowly_shows_no_text(self):
        self.give_key()
        self.assertFalse(self.shows(self.look_at_an_export()))

    def test_the_look_at_a_plain_store_finds_the_export(self):
        self.assertTrue(self.shows(self.look_at_an_export()))

    def test_what_was_changed_in_an_export_is_not_sent(self):
        self.give_key()
        export = self.serve_an_export()
        with self.slow_client() as stream:
            for link in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
                if os.readlink(link).startswith(f"{self.folder}/quipu-"):
                    with open(link, "r+b") as file:
                        file.seek(-1000, os.SEEK_END)
                        file.write(bytes(100))
            got = stream.read()
        self.assertLess(len(got), len(export))  # what its Content-Length has promised
        self.assertGreater(len(got), len(export) - 2 * 16384)
        self.assertTrue(export.startswith(got))
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.assertIn("CORRUPT", [entry.get("status") for entry in entries])
        self.good("GET", "/v1/sessions")  # the server goes on
        self.stop()

    def look_at_heads(self):
        """What lies in the temporary files while the sessions of a backup are reported as lost."""
        self.init()
        for i in range(SESSIONS):
            self.run_quipu("append", f"{PLANTED}-{i:03}-{'k' * 900}", "--create", "--text", "one")
        other = self.folder / "other.db"
        self.init("--store", other)
        checking = self.start_quipu("verify", "--store", other, "--against", self.store, "--json")
        fcntl.fcntl(checking.stdout, fcntl.F_SETPIPE_SZ, 4096)
        # The first bytes come when the comparison has begun; the last ones wait for this reader.
        first = os.read(checking.stdout.fileno(), 1)
        found = self.temporary(checking)
        text = first + checking.stdout.read()
        self.assertEqual(checking.wait(timeout=harness.WAIT_S), 1)
        self.assertEqual(text.count(b"it is not in the store"), SESSIONS)
        return found

    def test_the_heads_of_a_backup_show_no_session(self):
        self.give_key()
        self.assertFalse(self.shows(self.look_at_heads()))

    def test_the_look_at_a_plain_store_finds_the_heads(self):
        self.assertTrue(self.shows(self.look_at_heads()))


if __name__ == "__main__":
    if not sys.platform.startswith("linux"):
        print("SKIP: no /proc")
        sys.exit(77)
    harness.main()
