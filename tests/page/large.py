"""Long conversations and long lists: few nodes, flat memory. What they cost is in bench/bars.txt."""

import os

import browser
import harness

MESSAGES = 100_000
SESSIONS = 100_000
SCROLLED = SESSIONS if os.environ.get("QUIPU_LONG") == "1" else 2_000  # sessions of the list
NODES_MAX = 3_000
BATCH = 10_000

# All nodes of the document, texts too.
COUNT = """() => {
  let count = 0;
  for (const walker = document.createTreeWalker(document); walker.nextNode();) count++;
  return count;
}"""


class Large(browser.Case):
    """What is long."""

    OPTIONS = ("--durability", "relaxed")

    def nodes(self):
        """Nodes of the document, and the check that they are few."""
        count = self.page.evaluate(COUNT)
        self.assertLess(count, NODES_MAX)
        return count

    def heap(self):
        """Bytes of the page's own objects after a collection."""
        return self.page.evaluate("() => { gc(); gc(); return performance.memory.usedJSHeapSize; }")

    def make_messages(self):
        """A conversation of many turns."""
        for start in range(0, MESSAGES, BATCH):
            self.append("long", *[
                {"role": "user" if i % 2 == 0 else "assistant", "eventId": f"e{i}",
                 "content": f"message {i + 1}" + " and so on" * (i % 7)}
                for i in range(start, start + BATCH)])

    def at(self, seq):
        """Wait until a message has the focus."""
        self.until("seq => document.activeElement.dataset.seq === String(seq)", seq)

    def test_a_hundred_thousand_messages_are_few_nodes_and_flat_memory(self):
        self.make_messages()
        self.enter()
        self.go("s", "long")
        self.message(MESSAGES)
        self.nodes()
        self.go("s", "long", MESSAGES // 2)
        self.at(MESSAGES // 2)
        self.nodes()
        self.scroll_through()

    def scroll_through(self):
        """From the beginning to the end: what was shown is forgotten."""
        heaps = []
        for part in range(0, 41):
            self.page.evaluate("""part => { const list = document.querySelector(".view .list");
              list.scrollTop = part * list.scrollHeight / 40; }""", part)
            self.until("() => !document.querySelector('.view .loading') && "
                       "document.querySelector('.view article')")
            self.nodes()
            if part % 10 == 0:
                heaps.append(self.heap())
        self.assertLess(heaps[-1], heaps[0] + (4 << 20), heaps)
        self.message(MESSAGES)

    def test_a_hundred_thousand_sessions_are_few_nodes_while_one_scrolls(self):
        harness.make_store(self, {f"session {i}": [] for i in range(SESSIONS)},
                           "--durability", "relaxed")
        self.enter()
        self.until("() => document.querySelectorAll('.row').length >= 50")
        last = f"session {SESSIONS - SCROLLED}"
        while self.page.get_by_text(last, exact=True).count() == 0:
            self.page.evaluate("""() => { const list = document.querySelector("#side .list");
              list.scrollTop = list.scrollHeight; }""")
            self.until("() => !document.querySelector('#side .loading')")
            self.nodes()
