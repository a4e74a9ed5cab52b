"""Long conversations and long lists: few nodes, flat memory. Times are for the long form."""

import os

import browser
import harness

MESSAGES = 100_000
SESSIONS = 100_000 if os.environ.get("QUIPU_LONG") == "1" else 3_000
NODES_MAX = 3_000
CPU_S_MAX = 1.0
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

    def cpu(self):
        """Seconds that the renderer's main thread has worked."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

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
        before = self.cpu()
        self.go("s", "long")
        self.message(MESSAGES)
        opened = self.cpu()
        self.nodes()
        self.go("s", "long", MESSAGES // 2)
        self.at(MESSAGES // 2)
        jumped = self.cpu()
        self.nodes()
        if os.environ.get("QUIPU_LONG") == "1":
            self.assertLess(opened - before, CPU_S_MAX)
            self.assertLess(jumped - opened, CPU_S_MAX)
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

    def test_a_long_list_of_sessions_is_few_nodes_to_its_end(self):
        harness.make_store(self, {f"session {i}": [] for i in range(SESSIONS)})
        self.enter()
        self.until("() => document.querySelectorAll('.row').length >= 50")
        while self.page.get_by_text("session 0", exact=True).count() == 0:
            self.page.evaluate("""() => { const list = document.querySelector("#side .list");
              list.scrollTop = list.scrollHeight; }""")
            self.until("() => !document.querySelector('#side .loading')")
            self.nodes()
