"""What no other page shows: the prompt of a turn, state with blame, forks side by side; and what is
known, what was used, and the store. By mouse and by keyboard, on the store of the demo."""

import atexit
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import browser
import harness
from server import message, path
from views import event

GUIDE = "adk:travel/ana/guide"
TRIP = "adk:travel/ana/trip-to-cusco"
BUS = "trip-to-cusco/by-bus"


def fill(folder):
    """Let `quipu demo --serve` make its store; returns the file."""
    command = [harness.program(), "demo", "--serve", "--listen", "127.0.0.1:0", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": ""}) as process:
        for line in process.stdout:
            if line.startswith("the page is "):
                break
        process.terminate()
    return folder / "store.db"


class Demo(browser.Case):
    """A copy of the store that `quipu demo --serve` fills."""

    FILLED = None  # where the demo's store is, once it was made; each test gets a copy

    def setUp(self):
        if Demo.FILLED is None:
            folder = tempfile.TemporaryDirectory(prefix="quipu-page-")
            atexit.register(folder.cleanup)
            Demo.FILLED = fill(pathlib.Path(folder.name) / "demo")
        super().setUp()

    def serve(self, *args, **more):
        shutil.copy(Demo.FILLED, self.store)
        return super().serve(*args, **more)

    def view(self, *parts):
        """Open a view and wait until it is complete."""
        self.enter(*parts)
        self.page.locator("#main h1").wait_for()
        self.whole()
        return self.page.locator("#main")

    def whole(self):
        """Wait until the view has all that it asked for."""
        self.until("() => document.querySelector('.page') &&"
                   " !document.querySelector('[aria-busy]')")

    def ask_context(self, at):
        """The prompt of a turn, as /v1 answers it."""
        return self.good("GET", path("v1", "sessions", GUIDE, "context", at=at))

    def texts(self, selector):
        """The texts of all elements."""
        return self.page.locator(selector).all_inner_texts()


class Prompts(Demo):
    """What the model saw."""

    def test_a_prompt_is_shown_as_it_was_sent_with_its_cached_part_shaded(self):
        now, before = self.ask_context(15), self.ask_context(14)
        self.assertTrue(now["exact"])
        main = self.view("s", GUIDE, "prompt", 15)
        main.get_by_text("What the model saw, up to message 15").wait_for()
        shown = self.texts(".piece .text")
        for text in [*now["system"], *[part["text"] for content in now["contents"]
                                       for part in content["parts"] if "text" in part]]:
            self.assertIn(text, shown)
        shared = 0
        while now["contents"][shared] == before["contents"][shared]:
            shared += 1
            if shared == len(before["contents"]):
                break
        self.assertEqual(shared, len(before["contents"]))  # the demo's prompts only grow here
        count = self.page.locator(".piece").count()
        cached = self.page.locator(".piece.cached").count()
        self.assertEqual(count - cached, len(now["contents"]) - shared)
        self.assertFalse(self.page.locator(".piece").last.evaluate(
            "piece => piece.classList.contains('cached')"))
        main.get_by_text(f"{now['reportedInput']} tokens, {now['reportedCached']} of them cached")\
            .wait_for()

    def test_a_memory_that_was_edited_since_says_that_the_prompt_is_not_what_was_sent(self):
        known = self.good("GET", path("v1", "sessions", GUIDE, "memory"))["memories"]
        one = next(one for one in known if one.get("priority") == "standing")
        self.good("PATCH", path("v1", "sessions", GUIDE, "memory", one["id"]),
                  {"kind": one["kind"], "content": "Answer in verse."})
        main = self.view("s", GUIDE, "prompt", 15)
        main.get_by_text("These are not the bytes that were sent").wait_for()

    def test_two_turns_are_compared_line_by_line(self):
        self.view("s", GUIDE, "prompt", 15, 9)
        added = self.texts(".diff ins")
        self.assertIn("+ And what do we do on Sunday, the 22nd of March?", added)
        self.assertEqual(self.texts(".diff del"), [])
        self.page.get_by_text(re.compile(r"^\d+ equal lines$")).first.click()
        self.page.locator(".diff span", has_text="Where could we sleep in Cusco?").wait_for()
        self.view("s", GUIDE, "prompt", 9, 15)
        self.assertIn("- And what do we do on Sunday, the 22nd of March?",
                      self.texts(".diff del"))

    def test_keys_and_buttons_lead_from_turn_to_turn_and_from_a_message(self):
        self.enter("s", GUIDE, 9)
        self.until("() => document.activeElement.dataset.seq === '9'")
        self.page.keyboard.press("p")
        heading = self.page.get_by_text("What the model saw, up to message")
        self.page.get_by_text("up to message 9", exact=False).wait_for()
        self.page.keyboard.press("k")
        self.page.get_by_text("up to message 7", exact=False).wait_for()
        self.page.keyboard.press("j")
        self.page.get_by_text("up to message 9", exact=False).wait_for()
        self.page.get_by_label("Turn of message", exact=True).fill("13")
        self.page.keyboard.press("Enter")
        self.page.get_by_text("up to message 13", exact=False).wait_for()
        self.page.get_by_role("button", name="Next prompt").click()
        self.page.get_by_role("heading", name="The next prompt").wait_for()
        self.assertEqual(heading.count(), 0)

    def test_a_turn_that_was_not_logged_says_so_and_shows_the_next_prompt(self):
        main = self.view("s", "museum tour", "prompt", 3)
        main.get_by_text("No prompt is logged for the turn of message 3").wait_for()
        self.page.locator(".piece", has_text="Read the third cord").wait_for()

    def test_the_next_prompt_has_the_tools_and_the_memory_block(self):
        self.view("s", GUIDE, "prompt", "next")
        self.page.locator(".piece.tools", has_text="Hotels of a town").wait_for()
        self.page.locator(".piece.system", has_text="Ana is a vegetarian").wait_for()


class States(Demo):
    """State with blame."""

    def rows(self, page=None):
        return [[cell.strip() for cell in row.locator("th, td").all_inner_texts()]
                for row in (page or self.page).locator("tbody tr").all()]

    def test_each_name_has_its_scope_its_value_and_who_set_it(self):
        self.view("s", TRIP, "state")
        rows = {row[1]: row for row in self.rows()}
        self.assertEqual({name: row[0] for name, row in rows.items()},
                         {"seats": "session", "train": "session", "user:likes_trains": "user",
                          "app:searches": "app"})
        self.assertEqual((rows["seats"][2], rows["train"][2]), ("3", '"06:10"'))
        self.assertRegex(rows["seats"][3], "message 7.*planner")
        self.assertRegex(rows["app:searches"][3], "message 3.*researcher")
        self.page.get_by_role("link", name="message 3").first.click()
        self.until("() => document.activeElement.dataset.seq === '3'")

    def test_the_state_at_a_message_comes_from_recorded_events(self):
        self.enter("s", TRIP, 5)
        self.until("() => document.activeElement.dataset.seq === '5'")
        self.page.keyboard.press("s")
        self.page.get_by_text("State of the session after message 5").wait_for()
        self.assertEqual([row[:3] for row in self.rows()], [["session", "train", '"06:10"']])
        self.page.get_by_label("State after message").fill("7")
        self.page.keyboard.press("Enter")
        self.page.get_by_text("State of the session after message 7").wait_for()
        self.assertEqual([row[1] for row in self.rows()], ["seats", "train"])
        self.page.locator(".timeline a").last.click()
        self.page.get_by_text("State of the session after message 3").wait_for()
        self.page.get_by_role("button", name="Now").click()
        self.page.get_by_role("heading", name="State now").wait_for()

    def test_a_change_without_a_recorded_event_says_so(self):
        self.good("PATCH", path("v1", "sessions", TRIP, "state"), {"seats": 5})
        self.view("s", TRIP, "state")
        row = next(row for row in self.rows() if row[1] == "seats")
        self.assertEqual(row[2], "5")
        self.assertIn("not recorded", row[3])

    def test_a_fork_says_where_its_state_is(self):
        self.view("s", BUS, "state")
        self.page.get_by_role("link", name="recorded up to message 9").click()
        self.page.get_by_role("heading", name="State of the session after message 9").wait_for()
        self.assertIn("bus", [row[1] for row in self.rows()])

    def test_many_changes_and_names_are_cut_and_counted(self):
        self.append("many", *[event(i, [], members={"actions": {"stateDelta": {"n": i}}})
                              for i in range(250)],
                    event("wide", [], members={"actions": {"stateDelta": {
                        f"name{i}": i for i in range(3000)}}}))
        self.view("s", "many", "state")
        self.page.get_by_text("251 recorded changes in all messages; the newest 200 are listed.")\
            .wait_for()
        self.assertEqual(self.page.locator(".timeline li").count(), 200)
        self.assertLess(len(self.page.locator(".timeline a").first.inner_text()), 200)
        self.go("s", "many", 251)
        self.assertLess(len(self.message(251).locator("summary").inner_text()), 200)

    def test_a_long_history_is_looked_at_in_parts(self):
        self.append("long", event(1, [], members={"actions": {"stateDelta": {"first": 1}}}),
                    *[message(f"m{i}") for i in range(2100)],
                    event(2, [], members={"actions": {"stateDelta": {"last": 2}}}))
        self.view("s", "long", "state", 2102)
        self.assertEqual([row[1] for row in self.rows()], ["last"])
        self.page.get_by_text("in the messages from 103 on").wait_for()
        self.page.get_by_role("button", name="Look at older messages").click()
        self.page.get_by_text("2 recorded changes in all messages").wait_for()
        self.assertEqual([row[1] for row in self.rows()], ["first", "last"])


class Forks(Demo):
    """The tree, and two sessions side by side."""

    def side(self, index):
        """The numbers of the messages of a column."""
        found = self.page.locator(".column").nth(index).locator("article")
        return found.evaluate_all("all => all.map((one) => Number(one.dataset.seq))")

    def test_two_sessions_part_after_their_last_common_message(self):
        self.view("s", TRIP, "forks")
        self.page.get_by_text("They share messages up to 5 and part after it").wait_for()
        self.assertEqual((self.side(0), self.side(1)), ([6, 7], [6, 7, 8, 9]))
        rows = {row[0]: row[1:] for row in States.rows(self)}
        self.assertEqual(rows["seats"], ["3", "2", "differs"])
        self.assertEqual(rows["bus"], ["–", '"05:00"', "differs"])
        self.page.locator(".tree").get_by_role("link", name="The same trip by bus",
                                               exact=True).click()
        self.message(9)

    def test_forks_of_forks_are_a_tree_and_cousins_are_compared(self):
        self.append("root", *[message(f"r{i}", f"root {i}") for i in range(1, 11)])
        for parent, key, seq in (("root", "a", 8), ("root", "b", 4), ("a", "c", 6)):
            self.good("POST", path("v1", "sessions", parent, "fork"), {"key": key, "seq": seq},
                      status=201)
            self.append(key, message(f"own-{key}", f"only in {key}"))
        self.view("s", "c", "forks", "b")
        self.page.get_by_text("They share messages up to 4 and part after it").wait_for()
        self.assertEqual((self.side(0), self.side(1)), ([5, 6, 7], [5]))
        tree = self.page.locator(".tree")
        self.assertEqual(tree.locator("ul ul li").count(), 1)
        self.assertEqual(tree.locator("li").count(), 4)
        tree.get_by_role("link", name="Compare with a").or_(
            tree.locator("a.action").nth(0)).first.click()
        self.whole()

    def test_a_fork_of_a_session_that_has_expired_is_shown(self):
        self.append("old", *[message(f"o{i}") for i in range(3)])
        self.good("POST", path("v1", "sessions", "old", "fork"), {"key": "young", "seq": 2},
                  status=201)
        self.good("PATCH", path("v1", "sessions", "old"), {"ttlMs": 1})
        self.view("s", "young", "forks")
        self.page.get_by_text("The session that it was forked from is deleted or has expired.")\
            .wait_for()

    def test_a_session_without_forks_says_how_to_make_one(self):
        self.view("s", "night watch", "forks")
        self.page.get_by_text("This session has no forks").wait_for()


class Memories(Demo):
    """What is known."""

    def test_memories_lead_to_their_messages_and_retired_ones_come_on_request(self):
        self.view("s", GUIDE, "memory")
        self.page.get_by_text("Observed up to message 16 of 16").wait_for()
        peanuts = self.page.locator(".memory", has_text="allergic to peanuts")
        peanuts.wait_for()
        self.assertEqual(self.page.locator(".memory.retired").count(), 0)
        self.page.get_by_label("retired ones too").check()
        gone = self.page.locator(".memory.retired")
        gone.wait_for()
        self.assertIn("she stays until Sunday", gone.inner_text())
        self.assertEqual(gone.get_by_role("button").count(), 0)
        peanuts.get_by_role("link", name="message 9").click()
        self.until("() => document.activeElement.dataset.seq === '9'")

    def test_a_memory_is_retired_with_a_reason_and_says_by_whom(self):
        token = self.new_token("--note", "the page of Eva")
        self.enter("s", GUIDE, "memory", token=token)
        one = self.page.locator(".memory", has_text="name prices in soles")
        one.get_by_role("button", name="Retire").click()
        box = self.page.get_by_role("dialog")
        box.get_by_text("is in no prompt from now on").wait_for()
        box.get_by_label("Why").fill("she asked again")
        self.page.keyboard.press("Enter")
        self.page.get_by_text("Retired", exact=True).wait_for()
        one.wait_for(state="detached")
        known = self.good("GET", path("v1", "sessions", GUIDE, "memory", retired="true"))
        retired = [memory for memory in known["memories"]
                   if memory.get("retiredWhy") == "she asked again"]
        self.assertEqual(len(retired), 1)
        self.assertEqual(retired[0]["editedBy"], "the page of Eva")

    def test_a_memory_is_corrected(self):
        self.view("s", GUIDE, "memory")
        self.page.locator(".memory", has_text="We decided on two nights")\
            .get_by_role("button", name="Edit").click()
        box = self.page.get_by_role("dialog")
        box.get_by_label("What is known").fill("They stay three nights.")
        box.get_by_label("Priority").select_option("standing")
        box.get_by_role("button", name="Save").click()
        changed = self.page.locator(".memory", has_text="They stay three nights.")
        changed.locator(".standing").wait_for()
        self.assertIn("changed by", changed.inner_text())

    def test_memories_of_the_users_other_sessions_come_on_request(self):
        self.run_quipu("memory", "add", TRIP, "Ana gets sick on buses.")
        self.view("s", GUIDE, "memory")
        self.assertEqual(self.page.get_by_text("sick on buses").count(), 0)
        self.page.get_by_label("of all sessions of the user").check()
        self.page.get_by_text("sick on buses").wait_for()

    def test_a_token_that_may_only_read_offers_no_change(self):
        self.enter("s", GUIDE, "memory", token=self.new_token("--verbs", "read"))
        self.page.locator(".memory").first.wait_for()
        for name in ("Edit", "Retire", "Rename", "Delete"):
            self.assertEqual(self.page.get_by_role("button", name=name).count(), 0)


class Store(Demo):
    """The store, and what was used."""

    def test_the_store_shows_its_figures_and_its_jobs(self):
        self.run_quipu("append", "museum tour", "--text", "Thank you!")
        stats = self.good("GET", "/v1/stats")
        self.enter("store")
        self.whole()
        tiles = " ".join(self.texts(".tile"))
        self.assertRegex(tiles, rf"Sessions\s+{stats['sessions']}\s")
        self.assertRegex(tiles, rf"Messages\s+{stats['messages']}\s")
        self.assertIn("Every page has a checksum", self.page.locator(".health").inner_text())
        row = self.page.locator("tbody tr", has_text="museum tour")
        self.assertIn("7 of 8", row.inner_text())
        self.assertIn("1 message", row.inner_text())
        row.get_by_role("link").click()
        self.page.get_by_text("Observed up to message 7 of 8").wait_for()

    def test_a_token_of_an_app_sees_neither_store_nor_others(self):
        self.enter("store", token=self.new_token("--app", "travel"))
        self.page.get_by_text("Choose a session").wait_for()
        self.assertEqual(self.page.locator("#places a").all_inner_texts(), ["Sessions", "Usage"])


class Usage(Demo):
    """What the answers of models used."""

    def test_tokens_and_money_stand_by_day_by_model_and_by_session(self):
        sums = self.good("GET", "/v1/usage?by=all")["usage"][0]
        self.enter("usage")
        self.whole()
        status = self.page.get_by_role("status").first.inner_text()
        self.assertIn(f"{sums['answers']} answers of", status)
        self.assertIn(f"{sums['promptTokens']:,} tokens of prompts", status)
        days = self.good("GET", "/v1/usage?by=day")["usage"]
        self.assertEqual(self.page.locator(".bars time").all_inner_texts(),
                         sorted((one["day"] for one in days), reverse=True))
        models, sessions = (self.page.locator("tbody").nth(i) for i in (0, 1))
        self.assertRegex(models.inner_text(), r"gpt-4o-mini\s+8\s")
        self.assertRegex(sessions.inner_text(), rf"{GUIDE}\s+8\s")
        sessions.get_by_role("link", name=GUIDE).click()
        self.message(16)

    def test_a_store_without_reported_tokens_says_so(self):
        for key in (GUIDE, "night watch"):
            self.good("DELETE", path("v1", "sessions", key), status=204)
        self.enter("usage")
        self.page.get_by_text("has an answer whose provider reported its tokens").wait_for()


class Actions(browser.Case):
    """What changes the store."""

    def test_a_fork_from_a_message_is_opened(self):
        self.append("s", *[message(f"e{i}", f"text {i}") for i in range(1, 6)])
        self.enter("s", "s", 3)
        self.until("() => document.activeElement.dataset.seq === '3'")
        self.page.keyboard.press("f")
        field = self.page.get_by_label("Key of the fork")
        field.fill("another way")
        self.page.keyboard.press("Enter")
        self.page.get_by_text("Forked as another way").wait_for()
        self.until("() => document.querySelector('.facts code')?.textContent === 'another way'")
        self.message(3)
        self.assertEqual(self.seqs(), [1, 2, 3])
        made = self.good("GET", path("v1", "sessions", "another way"))["session"]
        self.assertEqual((made["parentKey"], made["forkSeq"]), ("s", 3))

    def test_a_title_is_given(self):
        self.append("s", message("e", "words"))
        self.enter("s", "s")
        self.message(1)
        self.page.get_by_role("button", name="Rename").click()
        self.page.get_by_label("Title of the session").fill("A name")
        self.page.keyboard.press("Enter")
        self.page.get_by_role("heading", name="A name").wait_for()
        self.until("() => document.querySelector('.row .title').textContent === 'A name'")

    def test_a_delete_names_what_goes_and_asks(self):
        self.append("s", message("e1", "first words"), message("e2"))
        self.good("POST", path("v1", "sessions", "s", "fork"), {"key": "kept", "seq": 1},
                  status=201)
        self.enter("s", "s")
        self.message(2)
        self.page.get_by_role("button", name="Delete").click()
        box = self.page.get_by_role("dialog")
        for text in ("first words", "2 messages of about", "1 fork of it (kept) stay"):
            self.assertIn(text, box.inner_text())
        box.get_by_role("button", name="Cancel").click()
        self.good("GET", path("v1", "sessions", "s"))
        self.page.get_by_role("button", name="Delete").click()
        self.page.get_by_role("button", name="Delete 2 messages").click()
        self.until("() => location.hash === '#/'")
        self.assertEqual(self.ask("GET", path("v1", "sessions", "s")).status, 404)
        self.good("GET", path("v1", "sessions", "kept"))

    def test_a_refused_change_says_why_and_changes_nothing(self):
        self.append("s", message("e"))
        self.append("taken", message("e"))
        self.enter("s", "s", 1)
        self.until("() => document.activeElement.dataset.seq === '1'")
        self.page.keyboard.press("f")
        self.page.get_by_label("Key of the fork").fill("taken")
        self.page.keyboard.press("Enter")
        self.page.locator(".wrong").get_by_text(re.compile("exists")).wait_for()
        self.page.keyboard.press("Escape")
        self.until("() => !document.querySelector('dialog')")

    def test_every_view_is_copied_as_json_and_exported(self):
        self.append("s", event(1, [], members={"actions": {"stateDelta": {"seats": 3}}}))
        self.run_quipu("memory", "add", "s", "Known.")
        page = self.new_page(permissions=["clipboard-read", "clipboard-write"],
                             accept_downloads=True)
        for view, check in (("prompt", lambda got: got["contents"]),
                            ("state", lambda got: got == {}),
                            ("state/1", lambda got: got == {"seats": 3}),
                            ("memory", lambda got: got[0]["content"] == "Known."),
                            ("forks", lambda got: got["session"]["key"] == "s")):
            self.enter("s", "s", *view.split("/"), page=page)
            bar = page.locator(".bar")
            bar.get_by_role("button", name="Copy JSON").wait_for()
            self.until("() => !document.querySelector('[aria-busy]')", page=page)
            bar.get_by_role("button", name="Copy JSON").click()
            page.locator("#note", has_text="copied").wait_for()
            got = json.loads(page.evaluate("navigator.clipboard.readText()"))
            self.assertTrue(check(got), (view, got))
            page.evaluate("() => { document.getElementById('note').textContent = ''; }")
            if view == "forks":
                continue
            with page.expect_download() as download:
                bar.get_by_role("button", name="Export").click()
            with open(download.value.path(), encoding="utf-8") as file:
                self.assertEqual(json.load(file), got)

    def test_a_demo_that_is_not_kept_leaves_nothing(self):
        process = self.start_quipu("demo", "--serve", "--listen", "127.0.0.1:0",
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.read_line(process).startswith("the page is "):
            pass
        self.assertNotEqual(list(self.folder.glob("quipu-demo.*")), [])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(list(self.folder.glob("quipu-demo.*")), [])
