#!/usr/bin/env python3
"""The program with a server's address as its store: http://, https:// and unix:."""

import json
import os
import subprocess
import unittest

import harness
import server
from server import message, path


class Remote(server.Case):
    """Verbs that a store behind a server has, and those that it has not."""

    def remote(self, *args, address=None, token=True, code=0, **env):
        """Run the program with the server as its store; `code` None: whatever its code is."""
        env["QUIPU_STORE"] = address or self.address
        if token:
            env["QUIPU_TOKEN"] = self.token if token is True else token
        done = subprocess.run([harness.program(), *args], capture_output=True, text=True,
                              env={**os.environ, **env}, timeout=harness.WAIT_S, check=False)
        if code is not None:
            self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done.stdout, done.stderr

    def use(self, address, **env):
        """Write, read and find through an address; each must agree with the file."""
        self.remote("append", "s", "--create", "--text", "The ferry leaves at nine.",
                    address=address, **env)
        self.remote("append", "s", "--role", "assistant", "--text", "Noted.", address=address,
                    **env)
        self.run_quipu("memory", "run", "s")
        self.run_quipu("memory", "add", "s", "Ferries are never late.", "--subject", "Ana")
        for args in (("ls", "--json"), ("show", "s", "--json"), ("export", "s"),
                     ("search", "ferry", "--json"),
                     ("recall", "--everything", "--json", "when does it leave"),
                     ("recall", "--everything", "--memories", "--json", "the ferry of Ana")):
            out, _ = self.remote(*args, address=address, **env)
            self.assertEqual(out, self.run_quipu(*args).out, args)
            self.assertNotEqual(out, "")
        self.remote("fork", "s", "f", "--at", "1", address=address, **env)
        out, _ = self.remote("show", "f", "--json", address=address, **env)
        self.assertIn("The ferry", out)
        self.assertNotIn("Noted", out)
        self.remote("rm", "f", "--yes", address=address, **env)
        self.remote("show", "f", address=address, code=3, **env)
        out, _ = self.remote("tail", "s", "--json", address=address, **env)
        self.assertEqual(out, self.run_quipu("tail", "s", "--json").out)

    def test_a_server_of_this_machine(self):
        self.serve()
        self.use(self.address)

    def test_a_unix_socket(self):
        self.serve(listen=f"unix:{self.folder / 'socket'}")
        self.use(f"unix:{self.folder / 'socket'}")

    def test_https_and_a_certificate_that_is_not_trusted(self):
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
                       capture_output=True, check=True)
        key.chmod(0o600)
        self.serve("--tls-cert", cert, "--tls-key", key)
        address = self.address.replace("127.0.0.1", "localhost")
        _, err = self.remote("ls", address=address, code=1)
        self.assertIn("certificate", err)
        self.use(address, QUIPU_CA_FILE=str(cert))

    def test_the_right_of_the_token_holds(self):
        reader = self.new_token("--verbs", "read")
        self.serve()
        self.append("s", message("e"))
        self.remote("show", "s", token=reader)
        _, err = self.remote("append", "s", "--text", "x", token=reader, code=1)
        self.assertIn("may not write", err)
        _, err = self.remote("ls", token=None, code=1)
        self.assertIn("a token is needed", err)
        self.assertEqual(self.good("GET", path("v1", "sessions", "s"))["session"]["messageCount"],
                         1)

    def test_a_key_of_dots_leads_to_no_other_session(self):
        """/v1/sessions/./export is not the session "export"."""
        self.serve()
        self.append("export", message("e", "of another session"))
        for key in (".", ".."):
            out, err = self.remote("export", key, code=None)
            self.assertNotIn("of another session", out, key)
            self.assertIn("there is no session", err, key)

    def test_what_a_server_does_not_have_is_named(self):
        self.serve()
        self.append("s", message("e"))
        for args in (("verify",), ("sweep",), ("memory", "run")):
            _, err = self.remote(*args, code=None)
            self.assertIn("behind a server", err, args)

    def test_memory_is_kept_corrected_and_forgotten_through_an_address(self):
        self.serve()
        self.remote("append", "s", "--create", "--text", "I like trains.")
        for args in (("add", "s", "likes trains", "--from", "1"), ("add", "s", "lives in Rome"),
                     ("add", "s", "a summary", "--kind", "reflections")):
            self.remote("memory", *args)
        listed, _ = self.remote("memory", "list", "s", "--json")
        self.assertEqual(listed, self.run_quipu("memory", "list", "s", "--json").out)
        known = {one["content"]: one["id"] for one in map(json.loads, listed.splitlines())}
        self.remote("memory", "edit", known["lives in Rome"], "lives in Oslo", "--who", "Eva")
        self.remote("memory", "retire", known["a summary"], "not so")
        for args in (("show", known["lives in Rome"]), ("source", known["likes trains"]),
                     ("list", "s", "--retired"), ("status",), ("status", "s")):
            out, _ = self.remote("memory", *args, "--json")
            self.assertEqual(out, self.run_quipu("memory", *args, "--json").out, args)
            self.assertNotEqual(out, "")
        out, _ = self.remote("memory", "show", known["lives in Rome"], "--json")
        self.assertIn('"Eva"', out)
        self.remote("memory", "rm", known["lives in Rome"], "--yes")
        self.remote("memory", "clear", "s", "--from", "1", "--yes")
        self.assertEqual(self.remote("memory", "list", "s", "--json")[0], "")
        self.assertIn("a summary", self.remote("memory", "list", "s", "--retired", "--json")[0])

    def test_the_next_prompt_is_that_of_the_file(self):
        self.serve()
        self.remote("append", "s", "--create", "--text", "I like trains.")
        self.remote("memory", "add", "s", "likes trains")
        out, _ = self.remote("context", "s", "--json")
        self.assertEqual(out, self.run_quipu("context", "s", "--json").out)
        self.assertIn("likes trains", out)

    def test_nobody_at_an_address_is_said_at_once(self):
        self.serve()
        self.stop()
        _, err = self.remote("ls", code=1)
        self.assertIn("onnect", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
