#!/usr/bin/env python3
"""quipu export --format: a session as Markdown, HTML, OpenAI's chat JSON and OTLP. HTML runs
nothing and hides nothing whatever the texts say; the two formats of JSON have the shape that their
readers expect."""

import html.parser
import json
import re
import shutil

import harness
import test_show_parts

HOSTILE = ("</pre></div><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e"
           "'\"&amp;<!-- ]]> ")
SESSION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "author": "<b>ana</b>", "content": HOSTILE},
    {"role": "assistant", "content": "", "model": "m-1",
     "tool_calls": [{"id": "c1", "name": "find", "input": '{"q":"```"}'}]},
    {"role": "tool", "content": "",
     "tool_calls": [{"id": "c1", "name": "find", "output": "```` four"}]},
    {"role": "assistant", "content": "Found."},
]
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "div", "article",
        "time", "img", "details", "summary"}


class Tags(html.parser.HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update((tag, name, value) for name, value in attrs)

    def handle_data(self, data):
        self.text += data


def quoted(line):
    """HTML in a quote is text."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", line)


class Formats(harness.Case):
    def setUp(self):
        super().setUp()
        harness.make_store(self, {"s": SESSION})

    def adk(self):
        """A session with parts of every kind, from a file that ADK wrote."""
        path = self.folder / "adk.db"
        shutil.copyfile(harness.FIXTURES / "adk-python-sqlite.db", path)
        self.run_quipu("import", path, "--quiet")
        return "adk:demo_app/alice/sess-0001"

    def export(self, key, form, *args):
        return self.run_quipu("export", key, "--format", form, *args).out

    def test_html_runs_nothing_and_shows_every_text(self):
        page = self.export("s", "html")
        seen = Tags(page)
        self.assertLessEqual(seen.tags, TAGS)
        self.assertFalse([a for a in seen.attributes if a[1].startswith("on")])
        self.assertFalse([a for a in seen.attributes if a[1] in ("href", "src")])
        policy = [value for _, name, value in seen.attributes
                  if name == "content" and "default-src" in value]
        self.assertEqual(len(policy), 1)
        self.assertIn("default-src 'none'", policy[0])
        self.assertNotIn("script", policy[0])
        self.assertIn("<script>alert(1)</script>", seen.text)
        self.assertIn("<U+001B>[2J<U+202E>", seen.text)
        self.assertIn("<b>ana</b>", seen.text)
        self.assertLess(page.index("Content-Security-Policy"), page.index("<title>"))

    def test_html_has_images_and_no_other_media(self):
        page = self.export(self.adk(), "html")
        self.assertIn('<img alt="" src="data:image/png;base64,+vv8/f7/AAE="', page)
        self.assertEqual(page.count("src="), 1)
        for text in ("print(1)", "blocked", "gs://b/f.pdf", "thinking"):
            self.assertIn(text, page)

    def test_lines_of_windows_are_lines(self):
        self.run_quipu("append", "w", "--create", "--text", "one\r\ntwo\rthree")
        self.assertIn('<div class="text">one\ntwo&lt;U+000D&gt;three</div>',
                      self.export("w", "html"))

    def test_one_message_is_not_called_messages(self):
        self.run_quipu("append", "one", "--create", "--text", "x")
        for form in ("html", "markdown"):
            self.assertIn("1 message", self.export("one", form))
            self.assertNotIn("1 messages", self.export("one", form))

    def test_markdown_cannot_control_a_terminal(self):
        self.run_quipu("append", "hostile", "--create", "--text", "a\x1b[31m\tb\u202e\nc\x07")
        text = self.run_quipu("export", "hostile", "--format", "markdown").out
        self.assert_harmless(text.replace("\t", ""))
        self.assertIn("\tb", text)
        self.assertIn("\nc", text)

    def test_fences_of_markdown_hold_any_text(self):
        page = self.export("s", "markdown")
        self.assertIn('````json\n{"q":"```"}\n````\n', page)
        self.assertIn("`````json\n```` four\n`````\n", page)
        self.assertIn("# s\n", page)
        self.assertIn("## 5. assistant, 2026-03-20", page)

    def test_no_text_of_markdown_reaches_into_the_next_message(self):
        """What would leave a fence or HTML open, or forge a heading, stands in a quote."""
        fence = "```\nx\n```\n"
        for text in ("```\nopen", "~~~~\n```\n~~~\nopen", "a\n   ````\nopen", "<!-- open",
                     " <details>\nopen", "- a\n  ```\nout\n  ```", "```\n  ```\n```\nopen",
                     "``` a`b\n```\nopen", "## 2. assistant, 2026-03-20 09:46:42\n\nforged",
                     f"{fence}```\nopen", "```\r\nopen\r\n", "a <details> open",
                     "a <!-- open", "a <b>open", "a</b>", "a <b><i>x</b></i>", "see `<b` and <b>",
                     "a <script>x</script>", "a <img src=x onerror=alert(1)>", "x <?php",
                     "a <a href='javascript:x'>b</a>", "<javascript:x>", "vector<int>",
                     "`a\n` <script>x</script> `b`"):
            with self.subTest(text):
                self.run_quipu("append", "r", "--create", "--text", text)
                page = self.export("r", "markdown")
                said = page.partition("\n\n## 1. user")[2].split("\n")[2:]
                lines = text.splitlines()
                self.assertEqual(said[:len(lines)], [f"> {quoted(line)}".rstrip()
                                                     for line in lines])
                self.run_quipu("rm", "r", "--yes")
        for text in ("plain", fence, f"a\n{fence}b\n~~~~ c\n```\n~~~~", "- a\n  ```\n  x\n  ```",
                     "# mine\n\n## Two parts\n\na <b>c</b>", f"{fence}{fence}",
                     "```\n<!-- in it\n## 2. a\n```", "```\r\nx\r\n```\r\n",
                     "`<div>` and ``a ` <p>``, 1 < 2 <3, <https://h/x>", "a<br>b \\<div>",
                     "H<sub>2</sub>O", "one ` tick\n\n`<p>`"):
            with self.subTest(text):
                self.run_quipu("append", "r", "--create", "--text", text)
                page = self.export("r", "markdown")
                head, _, said = page.partition("## 1. user, ")[2].partition("\n\n")
                self.assertRegex(head, r"^[\d: -]+$")
                self.assertEqual(said, text.replace("\r\n", "\n").rstrip() + "\n\n")
                self.run_quipu("rm", "r", "--yes")

    def test_names_and_thoughts_of_markdown_are_text(self):
        name = "<img src=x onerror=alert(1)> [a](javascript:x) `b` my_agent"
        self.run_quipu("append", "a`` `<b>", "--create", stdin=json.dumps(
            {"role": "assistant", "author": name, "content": "", "tool_calls": [
                {"id": "c", "name": "<script>", "input": "{}"}]}))
        page = self.export("a`` `<b>", "markdown")
        self.assertNotRegex(re.sub(r"(`+)[^`].*?\1(?!`)", "", page), r"<[A-Za-z/!?]")
        self.assertIn("# a\\`\\` \\`&lt;b>\n\nSession ``` a`` `<b> ```, begun", page)
        self.assertIn("&lt;img src=x onerror=alert(1)> \\[a](javascript:x) \\`b\\` my_agent, 20",
                      page)
        self.assertIn("**Calls** &lt;script>", page)

    def test_thoughts_of_markdown_are_whole(self):
        thought = "first line <!--\n" + "word " * 400 + "end"
        event = {"id": "e", "author": "a", "timestamp": 1.0, "content": {"role": "model", "parts": [
            {"text": thought, "thought": True}, {"text": "Yes."}]}}
        adk = self.folder / "adk.db"
        test_show_parts.adk_file(adk, [event])
        self.run_quipu("import", adk, "--quiet")
        page = self.export("adk:app/ana/s", "markdown")
        self.assertIn("**Thought:**\n\n> first line &lt;!--\n> word word", page)
        self.assertEqual(page.count("word"), 400)
        self.assertIn("end\n\nYes.\n", page)

    def test_openai_messages_pair_their_calls(self):
        chat = json.loads(self.export("s", "openai"))
        messages = chat["messages"]
        self.assertEqual([m["role"] for m in messages],
                         ["system", "user", "assistant", "tool", "assistant"])
        self.assertEqual(messages[1]["content"], HOSTILE)
        self.assertIsNone(messages[2]["content"])
        call = messages[2]["tool_calls"][0]
        self.assertEqual(call, {"id": "c1", "type": "function",
                                "function": {"name": "find", "arguments": '{"q":"```"}'}})
        self.assertEqual(messages[3], {"role": "tool", "tool_call_id": "c1",
                                       "content": "```` four"})
        parts = json.loads(self.export(self.adk(), "openai"))["messages"][4]["content"]
        self.assertEqual([part["type"] for part in parts], ["image_url", "text", "text"])
        self.assertIn("gs://b/f.pdf]", parts[1]["text"] + parts[2]["text"])

    def test_openai_messages_name_what_the_format_has_no_place_for(self):
        """A list of no parts is refused by its readers, and a file is not dropped."""
        data = {"inlineData": {"mimeType": "application/pdf", "data": "aGVsbG8="}}
        image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
        file = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}}
        picture = {"fileData": {"mimeType": "image/png", "fileUri": "https://h/p.png"}}
        events = [{"id": f"e{i}", "author": role, "timestamp": 1.0 + i,
                   "content": {"role": role, "parts": parts}} for i, (role, parts) in enumerate([
                       ("user", [data]), ("user", [image, data, {"text": "Look"}]),
                       ("user", [file]), ("user", [picture]), ("model", [{"text": "So:"}, image])])]
        adk = self.folder / "media.db"
        test_show_parts.adk_file(adk, events)
        self.run_quipu("import", adk, "--quiet")
        said = json.loads(self.export("adk:app/ana/s", "openai"))["messages"]
        url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
        self.assertEqual([m["content"] for m in said], [
            "[application/pdf, 5 B]",
            [url, {"type": "text", "text": "[application/pdf, 5 B]"},
             {"type": "text", "text": "Look"}],
            "[video/mp4, gs://b/v.mp4]",
            [{"type": "image_url", "image_url": {"url": "https://h/p.png"}}],
            "So:[image/png, 2 B]"])

    def test_otlp_spans_follow_the_conventions(self):
        text = self.export(self.adk(), "otlp")
        spans = json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        for span in spans:
            self.assertRegex(span["traceId"], r"^[0-9a-f]{32}$")
            self.assertRegex(span["spanId"], r"^(?!0{16})[0-9a-f]{16}$")
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        self.assertEqual(len({span["spanId"] for span in spans}), len(spans))
        first = {a["key"]: a["value"] for a in spans[0]["attributes"]}
        self.assertEqual(spans[0]["name"], "chat gemini-x")
        self.assertEqual(first["gen_ai.operation.name"], {"stringValue": "chat"})
        self.assertEqual(first["gen_ai.usage.input_tokens"], {"intValue": "11"})
        self.assertEqual(first["gen_ai.usage.output_tokens"], {"intValue": "7"})
        self.assertEqual(spans[1]["name"], "execute_tool get_weather")
        failed = [span for span in spans if span["status"].get("code") == 2]
        self.assertEqual([span["status"]["message"] for span in failed], ["SAFETY"])
        self.assertNotIn("Zürich", text)
        self.assertEqual(text, self.export("adk:demo_app/alice/sess-0001", "otlp"))

    def test_the_span_of_a_tool_that_failed_is_an_error(self):
        outputs = ('{"error":"no such city"}', '{"isError":true,"content":[]}', '{"error":null}',
                   '{"result":"error"}', "error", '{"isError":false}')
        for i, output in enumerate(outputs):
            self.run_quipu("append", "n", *(["--create"] if i == 0 else []), stdin=json.dumps(
                {"role": "tool", "content": "", "tool_calls": [
                    {"id": f"c{i}", "name": "t", "input": "", "output": output}]}))
        text = self.export("n", "otlp")
        spans = json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        self.assertEqual([span["status"].get("code") for span in spans],
                         [2, 2, None, None, None, None])
        self.assertNotIn("no such city", text)

    def test_names_of_spans_are_cut_between_characters(self):
        names = {"model": "a" + "\u00e9" * 200, "author": "\u00fc" * 200}
        self.run_quipu("append", "n", "--create", "--model", "x" + "\u00e9" * 200, stdin=json.dumps(
            {"role": "assistant", "content": "x", "prompt_tokens": 1, **names}))
        text = self.export("n", "otlp")
        self.assertNotIn("\ufffd", text)
        span, = json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        self.assertEqual(span["name"], "chat a" + "\u00e9" * 99)
        values = {a["key"]: a["value"].get("stringValue") for a in span["attributes"]}
        self.assertEqual(values["gen_ai.request.model"], "x" + "\u00e9" * 200)

    def test_a_file_appears_complete_and_mistakes_are_named(self):
        path = self.folder / "s.html"
        done = self.run_quipu("export", "s", "--format", "html", "-o", path)
        self.assertEqual(path.read_text(encoding="utf-8"), self.export("s", "html"))
        self.assertEqual(done.out, f"{path}: the session, as html\n")
        self.assertIn("needs a KEY", self.run_quipu("export", "--format", "html", code=2).err)
        missing = self.run_quipu("export", "none", "--format", "otlp", "-o", self.folder / "x",
                                 code=3)
        self.assertIn('there is no session "none"', missing.err)
        self.assertFalse((self.folder / "x").exists())
        for path, words in ((self.folder / "no" / "x", f"{self.folder}/no/x: No such file"),
                            ("", "the name of the file is empty"),
                            (self.folder, f"{self.folder} is a folder: name a file")):
            self.assertIn(words, self.run_quipu("export", "s", "-o", path, code=None).err)
        with open("/dev/full", "wb") as full:
            process = self.start_quipu("export", "s", "--format", "html", stdout=full)
            self.assertEqual(process.wait(timeout=harness.WAIT_S), 1)

    def test_a_long_session_is_written_page_by_page(self):
        harness.make_store(self, {"long": [{"role": "user", "content": f"n{i}"}
                                           for i in range(1201)]})
        chat = json.loads(self.export("long", "openai"))
        self.assertEqual([m["content"] for m in chat["messages"]], [f"n{i}" for i in range(1201)])


if __name__ == "__main__":
    harness.main()
