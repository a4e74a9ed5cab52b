"""Texts from outside stay texts, wherever they stand; and screen readers find their way."""

import json

import browser
from axe_playwright_python.base import AXE_SCRIPT
from insight import Demo
from screenshots import VIEWS
from server import message, path
from views import event

# What has broken pages: markup, scripts, ways out of attributes, styles, URLs, templates, odd text.
CORPUS = (
    "<script>window.harm=1</script>",
    "<img src=x onerror=window.harm=1>",
    '"><svg onload=window.harm=1>',
    "' onmouseover='window.harm=1' autofocus onfocus='window.harm=1",
    "</textarea></title></style><iframe srcdoc='<script>parent.harm=1</script>'>",
    "javascript:window.harm=1",
    "data:text/html,<script>window.harm=1</script>",
    "<a href=//evil.example/x>x</a><link rel=stylesheet href=//evil.example/x>",
    "<style>@import '//evil.example/x'</style>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.harm=1>",
    "{{constructor.constructor('window.harm=1')()}} ${window.harm=1}",
    "<!--<img src='--><img src=x onerror=window.harm=1>//'>",
    "\u202e\u2066evil\u2069 \ufeff\u200b\u0001 <b>bold</b>",
    "__proto__",
    "%3Cimg%20src=x%20onerror=window.harm=1%3E",
)


class Harmless(browser.Case):
    """The corpus in every field that comes from outside."""

    def check_harmless(self):
        """No element, script or request came out of a text."""
        self.assertIsNone(self.page.evaluate("window.harm ?? null"))
        made = "script, iframe, style, link, svg, math, object, embed, base, meta"
        self.assertEqual(self.page.locator(made).count(), 5)  # what index.html has
        self.assertEqual(self.page.locator("#main b:text-is('bold')").count(), 0)
        images = "img:not([src^='page/']):not([src^='blob:'])"
        self.assertEqual(self.page.locator(images).count(), 0)

    def make(self, number, text):
        """A session with the text in all of its fields."""
        key = f"{number} {text}".replace("\u0001", "")  # paths take no control characters
        self.good("POST", "/v1/sessions", {
            "key": key, "title": text, "appName": text, "userId": text, "sessionId": text,
            "agentId": text, "model": text, "channelType": text, "channelId": text,
            "metadata": {text: text}}, status=201)
        self.append(key,
            {"role": "user", "content": f"{text} findme", "author": text, "eventId": text,
             "invocationId": text, "branch": text},
            event(number, [[{"thought": True}, len(text.encode())], "c", {text: text},
                           {"inlineData": {"mimeType": text, "data": text}},
                           {"inlineData": {"mimeType": "image/svg+xml", "data": "PHN2Zy8+"}},
                           {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                           {"fileData": {"mimeType": text, "fileUri": text}},
                           {"executableCode": {"code": text}}], text,
                  toolCalls=[{"id": text, "name": text, "input": text}],
                  members={"errorCode": text, "errorMessage": text,
                           "actions": {"stateDelta": {text: text}, "transferToAgent": text}}),
            {"role": "tool", "content": text, "author": text, "eventId": f"t{text}",
             "toolCalls": [{"id": text, "name": text, "input": "", "output": text}]},
            {"role": "assistant", "content": text, "eventId": f"u{text}", "model": text,
             "promptTokens": 5, "answerTokens": 5},
            event(f"s{number}", [], author=text,
                  members={"actions": {"stateDelta": {text: {text: text}}}}))
        fork = self.good("POST", path("v1", "sessions", key, "fork"),
                         {"key": f"fork {key}", "title": text, "seq": 5}, status=201)["session"]
        self.append(fork["key"], event(f"f{number}", [], author=text,
                                       members={"actions": {"stateDelta": {text: [text]}}}))
        known = self.run_quipu("memory", "add", key, f"{text} known", "--subject", text, "--json")
        self.good("PATCH", path("v1", "sessions", key, "memory", known.lines()[0]["id"]),
                  {"kind": "observation", "priority": "high", "why": text})
        self.append(f"plain {key}", {"role": "user", "content": text, "author": text},
                    {"role": "assistant", "content": text,
                     "toolCalls": [{"id": "c", "name": text, "input": json.dumps({text: text})}]})
        return key

    def look(self, key, text):
        """Every view of a session."""
        self.go("s", key)
        self.until("key => document.querySelector('.facts code')?.textContent === key", key)
        self.message(4)
        for fold in self.page.locator("article details").all():
            fold.evaluate("box => { box.open = true; }")
        self.until("() => [...document.querySelectorAll('article details')]"
                   ".every((box) => box.children.length > 1)")
        self.assertEqual(self.page.locator("h1").inner_text(), text.strip())
        self.check_harmless()
        for name, view, ready in ((f"plain {key}", "prompt", ".piece"),
                                  (key, "state", ".timeline a"), (key, "memory", ".memory"),
                                  (key, "forks", ".columns article")):
            self.go("s", name, view)
            self.page.locator(ready).first.wait_for()
            self.until("() => !document.querySelector('[aria-busy]')")
            self.check_harmless()

    def test_no_text_becomes_markup_a_script_or_a_request(self):
        keys = [self.make(number, text) for number, text in enumerate(CORPUS)]
        self.enter()
        self.until("count => document.querySelectorAll('.row').length === count", 3 * len(keys))
        self.check_harmless()
        for key, text in zip(keys, CORPUS):
            self.look(key, text)
        for place, ready in (("usage", ".bars"), ("store", ".tile")):
            self.go(place)
            self.page.locator(ready).first.wait_for()
            self.check_harmless()
        self.go("search", "findme")
        self.until("count => document.querySelectorAll('.hit').length >= count", len(keys))
        self.check_harmless()

    def test_an_address_is_no_way_in(self):
        self.append("s", message("e"))
        self.enter()
        for text in CORPUS:
            for place in (("s", text), ("search", text), (text,), ("s", "s", text),
                          ("s", "s", "prompt", text, text), ("s", "s", "state", text),
                          ("s", "s", "forks", text)):
                self.go(*place)
        self.page.evaluate("() => { location.hash = '#/s/%E0%A4%A'; }")
        self.go("s", "s", 1)
        self.message(1)
        self.check_harmless()

    def test_trusted_types_refuse_markup_from_a_script(self):
        self.append("s", message("e"))
        page = self.enter()
        self.away = True  # the console says that it was refused
        refused = page.evaluate("""() => {
          try { document.body.innerHTML = "<b>x</b>"; return false; }
          catch (error) { return error instanceof TypeError; }
        }""")
        self.assertTrue(refused)
        page.evaluate("() => { window.refused = []; }")


class Readers(Demo):
    """axe-core finds nothing serious in any view, in both themes."""

    def axe(self, page, what):
        """Serious findings fail."""
        found = page.evaluate("""async () => {
          const result = await axe.run({ resultTypes: ["violations"] });
          return result.violations.filter((one) => ["serious", "critical"].includes(one.impact))
            .map((one) => one.id + ": " + one.nodes.slice(0, 3).map((node) =>
              node.html + " " + (node.any[0]?.message ?? "")).join(" | "));
        }""")
        self.assertEqual(found, [], what)

    def test_no_view_has_a_serious_finding(self):
        for scheme in ("light", "dark"):
            # axe writes styles of its own while it measures: its page has no policy.
            page = self.new_page(color_scheme=scheme, bypass_csp=True)
            page.add_init_script(AXE_SCRIPT)
            page.goto(f"{self.address}/")
            page.get_by_label("Token").wait_for()
            self.axe(page, f"token, {scheme}")
            for name, (place, ready) in VIEWS.items():
                self.enter(*place, page=page)
                page.locator(ready).first.wait_for()
                self.until("() => !document.querySelector('[aria-busy], .loading')", page=page)
                self.axe(page, f"{name}, {scheme}")
            page.locator("body").press("?")
            page.get_by_role("dialog").wait_for()
            self.axe(page, f"keys, {scheme}")
