"""How the page is sent, and how `quipu serve --open` leads to it."""

import gzip
import os
import pathlib
import re
import stat
import subprocess
import time

import harness
import server

WEB = harness.ROOT / "web"
SIZE_MAX = 120_000  # bytes
# Ways from text to markup or code, and cookies.
WAYS = (r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML"
        r"|DOMParser|createContextualFragment|document\.cookie")


class Sending(server.Case):
    """The files over plain HTTP."""

    def get(self, target, method="GET", **headers):
        """A file, as a browser asks for it."""
        sent = {"Accept-Encoding": "gzip, br"} | {
            name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(method, target, token=None, headers=sent)

    def test_all_files_together_are_small(self):
        files = [path for path in WEB.iterdir() if path.is_file()]
        self.assertIn(WEB / "index.html", files)
        self.assertLessEqual(sum(path.stat().st_size for path in files), SIZE_MAX)

    def test_files_hold_no_inline_script_or_style_and_no_way_to_write_markup(self):
        page = (WEB / "index.html").read_text(encoding="utf-8")
        self.assertNotRegex(page, r"<style|style=|\son\w+=|<script(?![^>]*src=)")
        for path in WEB.glob("*.js"):
            code = path.read_text(encoding="utf-8")
            self.assertNotRegex(code, WAYS, path.name)

    def test_every_file_is_sent_compressed_with_an_etag(self):
        self.serve()
        names = {"/": "index.html", **{f"/page/{path.name}": path.name for path in WEB.iterdir()}}
        for target, name in names.items():
            answer = self.get(target)
            self.assertEqual(answer.status, 200, target)
            self.assertEqual(answer.headers["Content-Encoding"], "gzip")
            self.assertEqual(gzip.decompress(answer.body), (WEB / name).read_bytes())
            again = self.get(target, If_None_Match=f'"other", {answer.headers["ETag"]}')
            self.assertEqual((again.status, again.body), (304, b""))
            self.assertEqual(again.headers["ETag"], answer.headers["ETag"])
            head = self.get(target, "HEAD")
            self.assertEqual((head.status, head.body), (200, b""))

    def test_the_policy_allows_this_server_alone_and_trusted_types(self):
        self.serve()
        headers = self.get("/").headers
        policy = headers["Content-Security-Policy"]
        for rule in ("default-src 'none'", "script-src 'self';", "connect-src 'self';",
                     "require-trusted-types-for 'script'", "trusted-types 'none'",
                     "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"):
            self.assertIn(rule, policy)
        self.assertNotRegex(policy, r"unsafe|https?:|\*|data:")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        self.assertNotIn("Set-Cookie", headers)
        self.assertEqual(self.ask("GET", "/v1/sessions").headers["Content-Security-Policy"],
                         "default-src 'none'")

    def test_a_client_that_takes_no_gzip_is_refused(self):
        self.serve()
        answer = self.get("/", Accept_Encoding="identity")
        self.assertEqual(answer.status, 406)
        self.assertIn("gzip", answer.json()["error"]["message"])

    def test_other_paths_are_not_files(self):
        self.serve()
        for target in ("/page/", "/page/app.mjs", "/page/index.html/x", "/index.html",
                       "/page/%2e%2e"):
            self.assertIn(self.ask("GET", target, token=None).status, (400, 404), target)
        self.assertEqual(self.ask("POST", "/", {}, token=None).status, 405)

    def test_the_identity_says_what_a_token_may_do(self):
        mine = self.new_token("--app", "a", "--user", "u", "--verbs", "read")
        self.serve()
        self.assertEqual(self.good("GET", "/v1/me"), {"verbs": ["read", "write"]})
        self.assertEqual(self.good("GET", "/v1/me", token=mine),
                         {"verbs": ["read"], "app": "a", "user": "u"})


class Opening(server.Case):
    """quipu serve --open."""

    def open(self, *args):
        """Start it; returns the address with its token."""
        self.serve("--open", *args)
        line = self.read_line(self.process)
        found = re.fullmatch(r"the page is (http://\S+/)#token=(qpt_\S+)", line.strip())
        self.assertTrue(found, line)
        return found.groups()

    def wait_for(self, condition):
        """Wait until it holds."""
        end = time.monotonic() + harness.WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def notes(self):
        """The notes of all tokens."""
        lines = self.run_quipu("token", "ls", "--json").lines()
        return [line.get("note") for line in lines if line.get("note")]

    def test_the_address_has_a_token_that_goes_away_with_the_run(self):
        address, token = self.open()
        self.assertEqual(address, self.address + "/")
        self.good("GET", "/v1/me", token=token)
        self.assertEqual(self.notes(), [f"the page of process {self.process.pid}"])
        expires = self.run_quipu("token", "ls", "--json").lines()[-1]
        self.assertIn("expires_at", expires)  # also when the process is killed
        self.stop()
        self.assertEqual(self.notes(), [])
        self.serve()
        self.assertEqual(self.ask("GET", "/v1/me", token=token).status, 401)

    def test_the_token_is_of_the_tenant_that_is_served(self):
        _, token = self.open("--tenant", "acme")
        self.good("GET", "/v1/me", token=token)
        self.stop()
        self.assertEqual(self.notes(), [])

    def test_a_browser_is_opened_by_a_private_file_without_a_token_on_its_command_line(self):
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        opener = bin_folder / "xdg-open"
        opener.write_text('#!/bin/sh\ncp "$1" "$TMPDIR/seen.new"; echo "$@" > "$TMPDIR/said"\n'
                          'mv "$TMPDIR/seen.new" "$TMPDIR/seen"\n', encoding="utf-8")
        opener.chmod(0o755)
        self.env["PATH"] = f"{bin_folder}:{self.env['PATH']}"
        self.env["DISPLAY"] = ":0"
        _, token = self.open()
        seen = self.folder / "seen"
        self.wait_for(seen.exists)
        self.assertIn(f"url={self.address}/#token={token}", seen.read_text(encoding="utf-8"))
        said = (self.folder / "said").read_text(encoding="utf-8").strip()
        self.assertNotIn(token, said)
        self.assertEqual(stat.S_IMODE(os.stat(said).st_mode), 0o600)
        self.stop()
        self.assertFalse(pathlib.Path(said).exists())

    def test_a_unix_socket_has_no_page_to_open(self):
        process = self.start_quipu("serve", "--open", "--listen", f"unix:{self.folder}/s",
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=harness.WAIT_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"--open needs an address that a browser reaches", err)
        self.assertEqual(self.notes(), [])
