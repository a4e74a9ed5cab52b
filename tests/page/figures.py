#!/usr/bin/env python3
"""What a conversation of 100,000 messages costs the page, for bench/page_bench.py.

    figures.py ROUNDS    prints {"open": [...], "jump": [...], "nodes": [...]} as JSON: seconds of CPU
                         time of the renderer's main thread until the newest messages are shown and
                         until the middle is shown, and nodes of the document then

Runs in the environment of run.py, which makes it; the program is that of $QUIPU_BINARY_DIR."""

import json
import sys

import run

MESSAGES = 100_000


class Clock:
    """How long the renderer's main thread of a page has worked, from now on."""

    def __init__(self, page):
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read(self):
        """Seconds of CPU time."""
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def main():
    run.inside()
    import large  # pylint: disable=import-outside-toplevel
    import browser  # pylint: disable=import-outside-toplevel

    class Figures(large.Large):
        """A server with the long conversation, and a new page for each round."""

        def runTest(self):  # pylint: disable=invalid-name
            """All rounds."""
            found = {"open": [], "jump": [], "nodes": []}
            self.make_messages()
            for _ in range(int(sys.argv[1])):
                self.page = self.new_page()
                self.enter()
                clock = Clock(self.page)
                begin = clock.read()
                self.go("s", "long")
                self.message(MESSAGES)
                opened = clock.read()
                self.go("s", "long", MESSAGES // 2)
                self.at(MESSAGES // 2)
                found["open"].append(opened - begin)
                found["jump"].append(clock.read() - opened)
                found["nodes"].append(self.nodes())
                self.page.context.close()
            print(json.dumps(found))

    with browser.started():
        result = Figures().run()
    for _, text in [*result.errors, *result.failures]:
        print(text, file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
