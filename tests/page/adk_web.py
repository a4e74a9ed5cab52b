"""ADK Web, the page inside of google-adk, unmodified on `quipu serve`: somebody browses the
sessions of an app. ADK's own server sends the page and answers its questions from one address; so
does the proxy here, which has the page's files and hands everything else to quipu."""

import contextlib
import http.client
import http.server
import mimetypes
import pathlib
import re
import sysconfig
import threading
import urllib.parse

import browser
import harness
import server

FILES = pathlib.Path(sysconfig.get_path("purelib"), "google/adk/cli/browser")
PLACE = "/dev-ui/"
SESSIONS = "/apps/app/users/user/sessions"  # "user" is whom ADK Web asks for


class Handler(http.server.BaseHTTPRequestHandler):
    """A file of the page, or quipu's answer."""

    def do_GET(self):  # pylint: disable=invalid-name
        self.answer()

    def do_POST(self):  # pylint: disable=invalid-name
        self.answer()

    def answer(self):
        """The page asks its server for its configuration, too: that is no file of it here."""
        name = urllib.parse.urlsplit(self.path).path.removeprefix(PLACE)
        file = FILES / (name or "index.html")
        if self.path.startswith(PLACE) and "runtime-config" not in name and file.is_file():
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            self.send(200, kind, file.read_bytes())
        else:
            self.send(*self.ask())

    def ask(self):
        """What quipu answers: status, type and body."""
        sent = int(self.headers.get("Content-Length") or 0)
        headers = {name: self.headers[name] for name in ("Content-Type", "Accept")
                   if name in self.headers}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream,
                                              timeout=harness.WAIT_S)
        with contextlib.closing(upstream):
            upstream.request(self.command, self.path, self.rfile.read(sent), headers)
            got = upstream.getresponse()
            self.server.asked.append((self.command, self.path, got.status))
            return got.status, got.headers.get("Content-Type", "text/plain"), got.read()

    def send(self, status, kind, body):
        """One answer to the browser."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the browser went on to another page
            self.wfile.write(body)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """Nothing: a test's output is its own."""


class Browsing(server.Case):
    """Without a token: the app is open."""

    OPTIONS = ("--adk-open", "app")

    def setUp(self):
        super().setUp()
        self.serve()
        self.site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.site.upstream, self.site.asked = self.port, []
        self.addCleanup(self.site.server_close)
        self.addCleanup(self.site.shutdown)
        threading.Thread(target=self.site.serve_forever, daemon=True).start()
        self.home = f"http://127.0.0.1:{self.site.server_port}{PLACE}"
        context = browser.BROWSER.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(browser.WAIT_MS)
        # Its fonts are elsewhere; a test asks nobody but this machine.
        context.route(lambda url: not url.startswith(self.home.removesuffix(PLACE)),
                      lambda route: route.abort())
        self.addCleanup(context.close)
        self.page = context.new_page()

    def create(self, session, words):
        """A session of a question and its answer."""
        self.good("POST", SESSIONS, {"sessionId": session, "state": {"mood": f"of {session}"},
                                     "events": [
            {"author": "user", "timestamp": 1700000000.0,
             "content": {"role": "user", "parts": [{"text": words}]}},
            {"author": "app", "timestamp": 1700000001.0, "invocationId": "i-1",
             "content": {"role": "model", "parts": [{"text": f"The answer to: {words}"}]}}]},
                  token=None)

    def test_sessions_are_listed_and_their_events_are_shown(self):
        self.create("first", "What is the weather?")
        self.create("second", "Tell me a joke")
        self.page.goto(f"{self.home}?app=app")
        self.page.get_by_role("button", name="No Thanks").click()
        self.page.get_by_text("New Session", exact=False).first.click()
        self.page.get_by_text("second", exact=True).first.click()
        self.page.get_by_text("The answer to: Tell me a joke").first.wait_for()
        self.page.goto(f"{self.home}?app=app&session=first&userId=user")
        for words in ("What is the weather?", "The answer to: What is the weather?"):
            self.page.get_by_text(words, exact=True).first.wait_for()
        asked = {(method, re.sub(r"\?.*", "", path)) for method, path, status in self.site.asked
                 if status == 200}
        for path in (f"{PLACE}assets/config/runtime-config.json", "/list-apps", "/version",
                     SESSIONS, f"{SESSIONS}/second", f"{SESSIONS}/first"):
            self.assertIn(("GET", path), asked)
        # What is not served is missing, and no failure: 404 and nothing else.
        self.assertEqual({status for _, _, status in self.site.asked} - {200, 404}, set())
