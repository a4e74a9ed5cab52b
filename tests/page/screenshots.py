#!/usr/bin/env python3
"""Screenshots of every view of the page, of the store that `quipu demo --serve` fills.

    screenshots.py PROGRAM FOLDER    in both themes and two widths, named VIEW-THEME-WIDTH.png

Runs in the environment of run.py, which makes it. FOLDER/index.html shows them all."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.parse

import run

THEMES = ("light", "dark")
WIDTHS = {"wide": (1280, 800), "narrow": (390, 844)}
TRIP = "adk:travel/ana/trip-to-cusco"
GUIDE = "adk:travel/ana/guide"
# A view: its address, and what is there when it is complete.
VIEWS = {
    "sessions": ((), ".row"),
    "search": (("search", "seats"), ".hit"),
    "conversation": (("s", TRIP), "article"),
    "pictures": (("s", "museum tour"), "article img"),
    "long": (("s", "night watch", "300"), "article.current"),
    "prompt": (("s", GUIDE, "prompt", "15"), ".piece"),
    "prompt-diff": (("s", GUIDE, "prompt", "15", "9"), ".diff"),
    "state": (("s", TRIP, "state"), "tbody tr"),
    "state-past": (("s", TRIP, "state", "3"), "tbody tr"),
    "forks": (("s", TRIP, "forks", "trip-to-cusco/by-bus"), ".columns article"),
    "memory": (("s", GUIDE, "memory"), ".memory"),
    "usage": (("usage",), ".bars"),
    "store": (("store",), ".tile"),
}


def shoot(browser, address, token, folder):
    """All of them; gives the names of the files."""
    for theme in THEMES:
        for width, (x, y) in WIDTHS.items():
            page = browser.new_page(viewport={"width": x, "height": y}, color_scheme=theme,
                                    device_scale_factor=1, reduced_motion="reduce")
            page.goto(f"{address}#token={token}")
            page.wait_for_selector(".row", state="attached")
            for name, (place, ready) in VIEWS.items():
                parts = "/".join(urllib.parse.quote(part, safe="") for part in place)
                page.evaluate("place => { location.hash = place; }", f"#/{parts}")
                page.wait_for_selector(ready)
                page.wait_for_function("() => !document.querySelector('[aria-busy], .loading')")
                page.screenshot(path=folder / f"{name}-{theme}-{width}.png")
                yield f"{name}-{theme}-{width}.png"
            page.close()


def main():
    program, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    run.inside()
    import browser  # pylint: disable=import-outside-toplevel
    with tempfile.TemporaryDirectory() as store:
        process = subprocess.Popen([program, "demo", "--serve", "--listen", "127.0.0.1:0"],
                                   stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "TMPDIR": store, "DISPLAY": ""})
        try:
            for line in process.stdout:
                if found := re.match(r"the page is (\S+/)#token=(\S+)", line):
                    break
            with browser.started() as chromium:
                names = list(shoot(chromium, *found.groups(), folder))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    images = "\n".join(f'<figure><img src="{name}"><figcaption>{name}</figcaption></figure>'
                       for name in names)
    (folder / "index.html").write_text(f"<!doctype html><title>quipu</title>\n{images}\n",
                                       encoding="utf-8")
    print(f"{len(names)} screenshots in {folder}")


if __name__ == "__main__":
    main()
