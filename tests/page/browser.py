"""One browser for all tests of the page, and what they share: a server, a page in it, and rules
that hold in every test: no request to anywhere else, no script error, nothing that the policy
refused."""

import contextlib
import os
import urllib.parse

from playwright.sync_api import sync_playwright

import harness
import server

WAIT_MS = harness.WAIT_S * 1000
BROWSER = None

# The page cannot see what its own policy refused: this notes it down.
WATCH = """
window.refused = [];
addEventListener("securitypolicyviolation", (event) =>
  window.refused.push(event.violatedDirective + " " + event.blockedURI));
"""


@contextlib.contextmanager
def started():
    """Start the browser; tests use it until the end."""
    global BROWSER  # pylint: disable=global-statement
    with sync_playwright() as playwright:
        # A container's root has no sandbox; the page under test is our own.
        BROWSER = playwright.chromium.launch(
            executable_path=os.environ["QUIPU_CHROMIUM"],
            args=["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
        )
        yield BROWSER
        BROWSER.close()


class Case(server.Case):
    """A test with a server and a page. `self.away` is set while the server is meant to be gone."""

    CONTEXT = {}

    def setUp(self):
        super().setUp()
        self.serve()
        self.away = False
        self.page = self.new_page()

    def new_page(self, **more):
        """A page in a context of its own, watched."""
        options = {"viewport": {"width": 1280, "height": 800}, **self.CONTEXT, **more}
        context = BROWSER.new_context(**options)
        context.set_default_timeout(WAIT_MS)
        context.add_init_script(WATCH)
        self.addCleanup(context.close)
        page = context.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda line: self.away or self.heard(problems, line))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        context.on("request", lambda request: self.asked(problems, request))
        self.addCleanup(self.check, page, problems)
        return page

    @staticmethod
    def heard(problems, line):
        """Statuses that a test provokes are written to the console, too."""
        answered = "the server responded with a status" in line.text
        if line.type in ("error", "warning") and not answered:
            problems.append(f"console: {line.text}")

    def asked(self, problems, request):
        """Every request goes to the server itself."""
        if not request.url.startswith((self.address + "/", "blob:" + self.address)):
            problems.append(f"foreign request: {request.url}")

    def check(self, page, problems):
        """Nothing that never may be has happened."""
        if not page.is_closed():
            problems += [f"refused: {one}" for one in page.evaluate("window.refused ?? []")]
        self.assertEqual(problems, [])

    # ---- places ----------------------------------------------------------------------------------

    def hash(self, *parts):
        """The fragment of a place of the page."""
        return "#/" + "/".join(urllib.parse.quote(str(part), safe="") for part in parts)

    def enter(self, *parts, page=None, token=None):
        """Open a place with a token, in a document of its own: a change of the fragment alone loads
        nothing, and what a test waits for could be what was there before."""
        page = page or self.page
        if page.url.startswith(self.address):
            self.assertEqual(page.evaluate("window.refused"), [])  # goes with its document
            page.goto("about:blank")
        page.goto(f"{self.address}/#token={token or self.token}&/{self.hash(*parts)[2:]}")
        page.wait_for_selector(".row, .sidelist .empty", state="attached")
        return page

    def go(self, *parts, page=None):
        """Another place of the open page; returns when the page has noticed it."""
        (page or self.page).evaluate("""place => new Promise((done) => {
          const before = location.href;
          addEventListener("hashchange", done, { once: true });
          location.hash = place;
          if (location.href === before) done();
        })""", self.hash(*parts))

    def message(self, seq, page=None):
        """The element of a message, once it is there."""
        found = (page or self.page).locator(f'article[data-seq="{seq}"]')
        found.wait_for()
        return found

    def seqs(self, page=None):
        """The numbers of all messages in the document, in their order."""
        script = "all => all.map((one) => Number(one.dataset.seq))"
        return (page or self.page).locator("article").evaluate_all(script)

    def rows(self, page=None):
        """The titles of the sessions in the document."""
        return (page or self.page).locator(".row .title").all_inner_texts()

    def until(self, script, *args, page=None):
        """Wait until a script is true."""
        (page or self.page).wait_for_function(script, arg=args[0] if args else None)
