"""Every view of the page, by mouse and by keyboard, and what happens while it is open."""

import json
import signal

import browser
from server import message, path

# A picture of one red dot.
PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5E"
       "rkJggg==")


def event(number, parts, content="", **more):
    """A message as an ADK event leaves it: `parts` is the layout of its parts."""
    members = more.pop("members", {})
    return {"role": "assistant", "author": "planner", "eventId": f"ev-{number}",
            "content": content, "extra": {"adk": {"f": "", "e": members, "p": parts}}, **more}


class Sessions(browser.Case):
    """The list of sessions and the search."""

    def test_a_session_shows_its_title_or_first_words_or_key(self):
        self.good("POST", "/v1/sessions", {"key": "a", "title": "A title"}, status=201)
        self.append("b", message("e1", "How are you?\nFine?"))
        self.good("POST", "/v1/sessions", {"key": "only a key"}, status=201)
        self.enter()
        self.assertEqual(self.rows(), ["only a key", "How are you? Fine?", "A title"])

    def test_pages_follow_while_one_scrolls(self):
        for i in range(130):
            self.append(f"s{i:03}", message(f"e{i}", f"words {i}"))
        self.enter()
        self.until("() => document.querySelectorAll('.row').length >= 50")
        self.page.locator("#side .list").focus()
        # Keys run at most a page ahead of what has arrived, so each waits for its row.
        for i in reversed(range(130)):
            self.page.keyboard.press("j")
            self.until("text => document.activeElement.textContent.startsWith(text)", f"words {i}")

    def test_filters_are_the_servers(self):
        for app, user in (("travel", "ana"), ("travel", "bob"), ("shop", "ana")):
            self.good("POST", "/v1/sessions", {"key": f"{app} {user}", "appName": app,
                                               "userId": user, "sessionId": "1"}, status=201)
        self.enter()
        self.page.get_by_text("Filters").click()
        self.page.get_by_label("App", exact=True).fill("travel")
        self.page.keyboard.press("Enter")
        self.until("() => document.querySelectorAll('.row').length === 2")
        self.page.get_by_label("User", exact=True).fill("nobody")
        self.page.keyboard.press("Enter")
        self.page.get_by_text("No session fits the filters.").wait_for()

    def test_a_session_that_another_program_writes_to_comes_up_and_is_live(self):
        for key in ("old", "new"):
            self.append(key, message(f"e-{key}", f"words of {key}"))
        self.enter()
        self.assertEqual(self.rows(), ["words of new", "words of old"])
        self.run_quipu("append", "old", "--text", "again")
        self.until("() => document.querySelector('.row')?.textContent.startsWith('words of old')")
        self.until("() => document.querySelector('.row').classList.contains('now')")

    def test_the_keyboard_stays_at_its_session_when_another_one_comes_up(self):
        for key in ("a", "b", "c"):
            self.append(key, message(f"e-{key}", f"words of {key}"))
        self.enter()
        self.page.locator("body").press("j")
        self.page.keyboard.press("j")
        self.until("() => document.activeElement.textContent.startsWith('words of b')")
        self.append("a", message("again"))
        self.until("() => document.querySelector('.row')?.dataset.key === 'a'")
        self.until("() => document.activeElement.textContent.startsWith('words of b')")

    def test_words_are_found_and_marked_also_beside_brackets(self):
        self.append("s", message("e1", "The [old] ferry leaves at nine."), message("e2", "Noted."))
        self.enter()
        self.page.keyboard.press("/")
        self.page.keyboard.type("ferry")
        self.page.keyboard.press("Enter")
        hit = self.page.locator(".hit")
        hit.wait_for()
        self.assertEqual(hit.locator("mark").all_inner_texts(), ["ferry"])
        self.assertIn("The [old] ferry leaves", hit.inner_text())
        hit.click()
        self.until("() => document.activeElement.dataset.seq === '1'")


class Conversation(browser.Case):
    """The conversation."""

    def fill(self, count, key="s"):
        """A session of numbered messages."""
        self.append(key, *[message(f"{key}-{i}", f"text {i}") for i in range(1, count + 1)])

    def test_authors_calls_thoughts_media_and_errors_are_shown(self):
        self.append("s",
            {"role": "user", "content": "Look at this:\n```\na < b\n```", "eventId": "u"},
            event(1, [[{"thought": True}, 5], 7, "c"], "Hmm..Because",
                  toolCalls=[{"id": "c", "name": "weigh", "input": '{"kg": 2}'}]),
            {"role": "tool", "author": "scales", "content": "", "eventId": "t",
             "toolCalls": [{"id": "c", "name": "weigh", "input": "", "output": '{"ok": true}'}]},
            event(2, [{"inlineData": {"mimeType": "image/png", "data": PNG}},
                      {"inlineData": {"mimeType": "text/html", "data": "PGI+"}}]),
            event(3, [], members={"errorCode": "QUOTA", "errorMessage": "no more",
                                  "actions": {"stateDelta": {"seats": 3}}}))
        self.enter("s", "s")
        first = self.message(1)
        self.assertEqual(first.locator("pre").inner_text(), "a < b")
        planner = self.message(2)
        self.assertEqual(planner.locator(".author").inner_text(), "planner")
        self.assertEqual(planner.locator(".text").inner_text(), "Because")
        folded = planner.locator("details")
        self.assertEqual(folded.locator("summary b").all_inner_texts(), ["thought", "weigh"])
        folded.nth(0).locator("summary").click()
        folded.nth(0).get_by_text("Hmm..", exact=True).wait_for()
        folded.nth(1).locator("summary").click()
        self.assertEqual(json.loads(folded.nth(1).locator("pre").inner_text()), {"kg": 2})
        self.message(3).locator("summary", has_text="weigh").click()
        self.assertIn('"ok": true', self.message(3).locator("pre").inner_text())
        self.until("() => document.querySelector('img.media').naturalWidth === 1")
        self.message(4).get_by_text("text/html · 3 bytes · download").wait_for()
        self.assertEqual(self.message(5).locator(".error").inner_text(), "QUOTA no more")
        self.message(5).locator("summary", has_text="seats").wait_for()

    def test_an_address_leads_to_a_message(self):
        self.fill(300)
        self.enter("s", "s", 120)
        self.until("() => document.activeElement.dataset.seq === '120'")
        box = self.message(120).bounding_box()
        self.assertTrue(100 < box["y"] < 700, box)
        self.go("s", "s", 299)
        self.until("() => document.activeElement.dataset.seq === '299'")

    def test_without_a_number_the_newest_message_is_shown(self):
        self.fill(300)
        self.enter("s", "s")
        self.message(300)
        self.until("() => { const list = document.querySelector('.view .list');"
                   " return list.scrollTop + list.clientHeight >= list.scrollHeight - 8; }")
        self.assertLessEqual(len(self.seqs()), 300)

    def test_what_another_process_appends_appears_at_once_and_in_order(self):
        self.fill(3)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        for i in range(4, 10):
            self.run_quipu("append", "s", "--text", f"text {i}")
        self.message(9)
        self.assertEqual(self.seqs(), list(range(1, 10)))

    def test_a_reader_who_scrolled_up_stays_there_and_is_notice(self):
        self.fill(200)
        self.enter("s", "s", 100)
        self.until("() => document.activeElement.dataset.seq === '100'")
        self.page.get_by_text("live", exact=True).wait_for()
        before = self.message(100).bounding_box()["y"]
        self.append("s", message("new", "fresh"))
        notice = self.page.get_by_text("1 new ↓")
        notice.wait_for()
        self.assertAlmostEqual(self.message(100).bounding_box()["y"], before, delta=2)
        notice.click()
        self.message(201)

    def test_a_tail_goes_on_after_the_server_was_killed(self):
        self.fill(3)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        self.away = True
        self.stop(signal.SIGKILL, -signal.SIGKILL)
        self.page.get_by_text("reconnecting").wait_for()
        self.run_quipu("append", "s", "--text", "text 4")
        self.serve(listen=f"127.0.0.1:{self.port}")
        self.message(4)
        self.append("s", message("late", "text 5"))
        self.message(5)
        self.assertEqual(self.seqs(), [1, 2, 3, 4, 5])

    def test_a_session_that_is_deleted_says_so(self):
        self.fill(2)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        self.good("DELETE", path("v1", "sessions", "s"), status=204)
        self.page.get_by_text("ended", exact=True).wait_for()

    def test_an_action_on_a_session_that_is_gone_says_why(self):
        self.fill(2)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        self.good("DELETE", path("v1", "sessions", "s"), status=204)
        self.page.get_by_text("ended", exact=True).wait_for()
        for name in ("Export", "Delete"):
            self.page.evaluate("() => { document.getElementById('note').textContent = ''; }")
            self.page.get_by_role("button", name=name).click()
            self.page.locator("#note", has_text="no such session").wait_for()

    def test_what_failed_while_the_server_was_away_can_be_tried_again(self):
        self.fill(500)
        self.enter("s", "s")
        self.message(500)
        self.away = True
        self.stop(signal.SIGKILL, -signal.SIGKILL)
        self.page.get_by_text("reconnecting").wait_for()
        again = self.page.get_by_role("button", name="Try again")
        self.page.keyboard.press("Home")
        again.first.wait_for()  # of a block
        self.serve(listen=f"127.0.0.1:{self.port}")
        again.first.click()
        self.message(1)
        self.stop(signal.SIGKILL, -signal.SIGKILL)
        self.page.keyboard.press("3")
        again.wait_for()  # of a view
        self.serve(listen=f"127.0.0.1:{self.port}")
        again.click()
        self.page.get_by_role("heading", name="State now").wait_for()

    def test_the_figures_above_a_conversation_grow_with_it(self):
        self.fill(3)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        lists = []
        self.page.on("request", lambda one: "/v1/sessions?" in one.url and lists.append(one.url))
        for i in range(4, 44):
            self.append("s", message(f"more-{i}", f"text {i}"))
        self.page.locator(".facts", has_text="43 messages").wait_for()
        made = self.good("GET", path("v1", "sessions", "s"))["session"]
        self.assertIn(f"{made['tokenCount']} tokens", self.page.locator(".facts").inner_text())
        self.assertLess(len(lists), 40)  # a message is no reason to ask for the list

    def test_a_message_that_comes_while_older_ones_load_is_shown(self):
        self.fill(3)
        self.page.add_init_script("""
          const real = window.fetch;
          window.fetch = async (target, options) => {
            const answer = await real(target, options);
            if (String(target).includes("limit=51") && !window.release)
              await new Promise((resolve) => { window.release = resolve; });
            return answer;
          };""")
        self.enter("s", "s")
        self.until("() => window.release")
        self.append("s", message("late", "text 4"))
        self.page.locator(".facts", has_text="4 messages").wait_for()
        self.page.evaluate("() => window.release()")
        self.message(4).get_by_text("text 4").wait_for()
        self.assertEqual(self.seqs(), [1, 2, 3, 4])

    def test_an_address_of_a_message_that_is_not_there_says_so(self):
        self.fill(60)
        self.run_quipu("compact", "s", "--summary", "They talked.", "--through", "20")
        self.run_quipu("prune", "s", "-y")
        self.enter("s", "s", 5)
        self.page.locator("#note", has_text="Message 5 is not there: the first is 21").wait_for()
        self.until("() => document.activeElement.dataset.seq === '21'")
        self.go("s", "s", 999)
        self.page.locator("#note", has_text="Message 999 is not there: the last is 61").wait_for()

    def test_numbers_are_shown_as_they_were_written(self):
        large, key = "9007199254740993", "adk:a/u/1"  # more than a double holds
        self.good("POST", "/v1/sessions", {"key": key, "appName": "a", "userId": "u",
                                           "sessionId": "1"}, status=201)
        self.append(key, event(1, ["c"], toolCalls=[
            {"id": "c", "name": "f", "input": f'{{"id": {large}, "x": 1.0}}'}]))
        self.good("PATCH", path("v1", "sessions", key, "state"), {"id": int(large)})
        self.enter("s", key)
        self.message(1).locator("summary").click()
        shown = self.message(1).locator("pre").inner_text()
        self.assertEqual(shown, f'{{\n  "id": {large},\n  "x": 1.0\n}}')
        self.go("s", key, "prompt")
        self.page.locator(".piece pre", has_text=large).wait_for()
        self.go("s", key, "state")
        self.page.locator("td.value", has_text=large).wait_for()

    def test_a_hidden_tab_leaves_its_connection_to_others(self):
        self.fill(3)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        self.wait_for_metric("quipu_tails 1")
        hide = """hidden => {
          Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        self.page.evaluate(hide, True)
        self.wait_for_metric("quipu_tails 0")
        self.append("s", message("late", "text 4"))
        self.page.evaluate(hide, False)
        self.message(4)
        self.page.get_by_text("live", exact=True).wait_for()

    def test_what_is_empty_is_said_to_screen_readers(self):
        self.good("POST", "/v1/sessions", {"key": "s"}, status=201)
        self.enter("s", "s")
        self.page.get_by_text("live", exact=True).wait_for()
        self.assertIn("This session has no messages yet.",
                      self.page.locator("main").aria_snapshot())

    def test_the_keyboard_is_enough(self):
        self.fill(120)
        self.append("t", event(1, ["c"], toolCalls=[{"id": "c", "name": "f", "input": "{}"}]))
        self.enter()
        self.page.locator("body").press("j")
        self.until("() => document.activeElement.textContent.includes('t')")
        self.page.keyboard.press("j")
        self.until("() => document.activeElement.textContent.includes('text 1')")
        self.page.keyboard.press("Enter")
        self.message(120)
        self.until("() => document.querySelector('.view').contains(document.activeElement)")
        self.page.keyboard.press("g")
        self.page.keyboard.type("60")
        self.page.keyboard.press("Enter")
        self.until("() => document.activeElement.dataset.seq === '60'")
        for key, seq in (("j", 61), ("j", 62), ("k", 61), ("G", None), ("Home", 1), ("j", 2)):
            self.page.keyboard.press(key)
            if seq:
                self.until("seq => document.activeElement.dataset.seq === String(seq)", seq)
        self.page.keyboard.press("?")
        self.page.get_by_role("dialog").wait_for()
        self.page.keyboard.press("Escape")
        self.until("() => !document.querySelector('dialog')")
        self.page.keyboard.press("t")
        self.assertEqual(self.page.evaluate("document.documentElement.dataset.theme"), "light")
        self.page.keyboard.press("u")
        self.until("() => location.hash === '#/'")
        self.go("usage")
        self.page.get_by_role("heading", name="Usage").wait_for()
        self.page.keyboard.press("u")
        self.until("() => location.hash === '#/'")
        self.go("s", "t")
        self.message(1)
        self.page.keyboard.press("j")
        self.until("() => document.activeElement.dataset.seq === '1'")
        self.page.keyboard.press("o")
        self.until("() => document.querySelector('article details').open")

    def test_a_message_is_copied_as_json_and_a_session_is_exported(self):
        self.fill(2)
        page = self.enter("s", "s", 2, page=self.new_page(
            permissions=["clipboard-read", "clipboard-write"], accept_downloads=True))
        self.until("() => document.activeElement.dataset.seq === '2'", page=page)
        page.keyboard.press("c")
        page.get_by_text("Message 2 copied").wait_for()
        got = json.loads(page.evaluate("navigator.clipboard.readText()"))
        self.assertEqual((got["seq"], got["content"]), (2, "text 2"))
        page.keyboard.press("l")
        page.get_by_text("Link copied").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        self.assertEqual(link, f"{self.address}/#/s/s/2")
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        with open(download.value.path(), "rb") as file:
            self.assertEqual(file.read(), self.run_quipu("export", "s").raw_out)

    def test_times_are_the_readers_and_the_exact_instant_is_the_title(self):
        self.append("s", {"role": "user", "content": "x", "eventId": "e",
                          "timestamp": "2026-03-21T02:30:00.123456789Z"})
        page = self.enter("s", "s", page=self.new_page(timezone_id="America/Lima", locale="en-GB"))
        time = self.message(1, page=page).locator("time")
        self.assertEqual(time.inner_text(), "21:30:00")
        self.assertEqual(time.get_attribute("title"), "2026-03-21T02:30:00.123456789Z")
        self.assertEqual(self.message(1, page=page).get_attribute("data-day"), "20 Mar 2026")

    def test_narrow_screens_show_the_list_or_the_session(self):
        self.fill(2)
        page = self.enter(page=self.new_page(viewport={"width": 390, "height": 780}))
        self.assertFalse(page.locator("main").is_visible())
        page.locator(".row").click()
        self.message(2, page=page)
        self.assertFalse(page.locator("#side").is_visible())
        wide = page.evaluate("document.documentElement.scrollWidth")
        self.assertLessEqual(wide, 390)
        page.get_by_label("Back to the sessions").click()
        self.until("() => document.querySelector('#side').offsetParent !== null", page=page)

    def test_on_narrow_screens_no_word_is_crushed_or_cut_off(self):
        text = "only the seats of the morning are left, and a taxi from the valley at four"
        self.append("s", {"role": "user", "content": text, "eventId": "e", "author": "researcher"})
        page = self.enter("s", "s", "1", page=self.new_page(viewport={"width": 390, "height": 780}))
        self.message(1, page=page).get_by_role("button", name="Fork").wait_for()
        for part in (".author", ".role", ".acts", "time"):
            box = page.locator(f".message header {part}").bounding_box()
            self.assertLess(box["height"], 30, part)
            self.assertLessEqual(box["x"] + box["width"], 390, part)
        self.go("search", "seats", page=page)
        for part in (".snippet", ".where time"):
            page.locator(part).wait_for()
            box = page.locator(part).bounding_box()
            self.assertLessEqual(box["x"] + box["width"], 390, part)

    def test_dark_and_light_follow_the_system_and_the_button(self):
        script = "getComputedStyle(document.body).backgroundColor"
        for scheme in ("light", "dark"):
            page = self.enter(page=self.new_page(color_scheme=scheme))
            colour = page.evaluate(script)
            self.assertEqual(colour == "rgb(252, 251, 249)", scheme == "light", colour)
            page.locator("#theme").click()
            self.assertEqual(page.evaluate(script), "rgb(252, 251, 249)")


class Tokens(browser.Case):
    """Where the token is."""

    def test_the_token_leaves_the_address_and_stays_in_the_tab(self):
        self.append("s", message("e"))
        self.enter()
        self.assertEqual(self.page.url, f"{self.address}/#/")
        self.page.reload()
        self.page.locator(".row").wait_for()
        self.assertEqual(self.page.context.cookies(), [])
        self.assertEqual(self.page.evaluate("Object.keys(localStorage)"), ["quipu-theme"])

    def test_a_page_without_a_token_asks_for_one(self):
        self.append("s", message("e", "behind a token"))
        self.page.goto(f"{self.address}/#/s/s")
        field = self.page.get_by_label("Token")
        field.fill("qpt_wrong")
        self.page.keyboard.press("Enter")
        self.page.get_by_text("does not accept this token").wait_for()
        self.assertEqual(self.page.locator("article").count(), 0)
        self.page.get_by_label("Token").fill(self.token)
        self.page.keyboard.press("Enter")
        self.message(1)

    def test_a_token_that_is_removed_while_the_page_is_open_is_asked_for_again(self):
        self.append("s", message("e"))
        token = self.new_token()
        self.enter("s", "s", token=token)
        self.message(1)
        ids = [line["id"] for line in self.run_quipu("token", "ls", "--json").lines()]
        self.run_quipu("token", "rm", ids[-1])
        self.page.get_by_label("Token").wait_for()

    def test_a_token_that_is_being_typed_stays(self):
        self.append("s", message("e"))
        token = self.new_token()
        self.page.clock.install()
        self.enter("s", "s", token=token)
        self.message(1)
        ids = [line["id"] for line in self.run_quipu("token", "ls", "--json").lines()]
        self.run_quipu("token", "rm", ids[-1])
        self.page.get_by_label("Token").fill("qpt_half")
        self.page.clock.run_for(20000)
        self.page.evaluate("() => fetch('v1/me')")
        self.assertEqual(self.page.get_by_label("Token").input_value(), "qpt_half")

    def test_a_token_of_a_user_sees_its_own_sessions_and_no_way_to_write(self):
        for user in ("me", "you"):
            self.good("POST", "/v1/sessions", {"key": user, "appName": "a", "userId": user,
                                               "sessionId": "1"}, status=201)
        token = self.new_token("--app", "a", "--user", "me", "--verbs", "read")
        self.enter("s", "me", token=token)
        self.page.get_by_role("heading", name="me").wait_for()
        self.assertEqual(self.rows(), ["me"])
        self.assertEqual(self.page.get_by_role("button", name="Delete").count(), 0)
        self.go("s", "you")
        self.page.get_by_text("there is no session of this key").wait_for()
