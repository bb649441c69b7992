"""The built book in a browser: ``python -m tests.book.check_browser [FOLDER] [--shots FOLDER]``.

Serves ``_build/html`` to a headless Chromium and reports, for wide and narrow screens, in light and dark:
errors on the console, requests to other hosts, files that do not load, pages that scroll sideways, images
that are broken or say nothing to those who do not see them, doubled ids, links that lead nowhere. Of the
whole book also whether its search works, served and from disk, whether predictions are kept and no answer
stands above its question, and pages that load too much.
Exit code 1 when there is something to report.
"""

import argparse
import base64
import functools
import http.server
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--remote-debugging-port=0",
)
DOMAINS = ("Page", "Network", "Runtime", "Log")
THEMES = ("light", "dark")
WIDTHS = (1280, 390)
VIEWS = (1280, 1280, 390, 390)  # of a page, the widths
HEIGHT = 900
TALLEST = 12_000  # of a picture
LOAD_S = 60.0
EXAMINE = (Path(__file__).parent / "examine.js").read_text(encoding="utf-8")


def find_browser() -> str | None:
    """The path of a Chromium, or ``None``."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class Browser:
    """A tab of a Chromium, spoken to over its debugging port."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come meanwhile are kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=LOAD_S))
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, address: str, *, scripts: bool = True, width: int | None = None) -> None:
        """Load a page and wait until it has settled: for the frames after its end, where it runs scripts.

        The screen gets its width when the page before is gone, which would be laid out anew for it.
        """
        self.events.clear()
        self.call("Page.navigate", url=address)
        if width is not None:
            self.size(width)
        end = time.monotonic() + LOAD_S
        while time.monotonic() < end:
            if (
                self.evaluate("document.readyState") == "complete"
                and self.evaluate("location.href") == address
            ):
                break
            time.sleep(0.02)
        if scripts:
            self.settled("1")
        self.evaluate("1")  # fetches the events that are still under way

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript condition holds."""
        end = time.monotonic() + LOAD_S
        while self.evaluate(condition) is not True:
            assert time.monotonic() < end, (condition, complaints(self.events, "file:"))
            time.sleep(0.05)

    def settled(self, expression: str) -> Any:
        """The value of an expression after the next frames."""
        frames = "for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);"
        code = f"(async () => {{ {frames} return {expression}; }})()"
        found = self.call("Runtime.evaluate", awaitPromise=True, returnByValue=True, expression=code)
        return found["result"].get("value")

    def key(self, name: str) -> None:
        """Press a key."""
        event = f"new KeyboardEvent('keydown', {{key: {name!r}, bubbles: true}})"
        self.evaluate(f"document.dispatchEvent({event})")

    def size(self, width: int, height: int = HEIGHT) -> None:
        """Make the screen as large; a narrow one is a phone's."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **sizes)

    def scheme(self, name: str, *, media: str = "") -> None:
        """What the system prefers, light or dark; and what it shows pages on, if that is no screen."""
        preferred = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", media=media, features=[preferred])


@contextmanager
def browser(path: str) -> Iterator[str]:
    """Start a Chromium of its own, with an empty profile, and end it afterwards; gives where it listens."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "DevTools listening on" in line)
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield f"127.0.0.1:{line.rsplit(':', 1)[1].split('/')[0]}"
        finally:
            process.terminate()
            process.wait(timeout=600)


@contextmanager
def new_tab(chromium: str) -> Iterator[Browser]:
    """A tab of its own that tells of all its events, closed afterwards."""
    with urllib.request.urlopen(
        urllib.request.Request(f"http://{chromium}/json/new?about:blank", method="PUT")
    ) as answer:
        address = json.load(answer)["webSocketDebuggerUrl"]
    with connect(address, max_size=None) as socket:
        tab = Browser(socket)
        for domain in DOMAINS:
            tab.call(f"{domain}.enable")
        tab.call("Page.bringToFront")
        yield tab
        tab.call("Page.close")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; gives the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def complaints(events: list[dict[str, Any]], host: str) -> list[str]:
    """What the browser's events tell of errors and of other hosts."""
    found = []
    for event in events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            address = parameters["request"]["url"]
            if not address.startswith((host, "data:", "blob:", "about:")):
                found.append(f"request to another host: {address}")
        elif method == "Network.responseReceived" and parameters["response"]["status"] >= 400:
            found.append(f"{parameters['response']['status']} for {parameters['response']['url']}")
        elif method == "Network.loadingFailed" and not parameters.get("canceled"):
            found.append(f"not loaded: {parameters['errorText']}")
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            found.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            texts = [
                str(argument.get("value", argument.get("description"))) for argument in parameters["args"]
            ]
            found.append(f"console {parameters['type']}: {' '.join(texts)}")
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            found.append(f"console {parameters['entry']['level']}: {parameters['entry']['text']}")
    return found


def check(folder: Path, shots: Path | None = None, only: str = "") -> list[str]:
    """All complaints about the pages of a folder, each with its page and views."""
    found: dict[str, list[str]] = {}
    pages = sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html"))
    left = deque(page for page in pages if not page.startswith("_") and only in page)
    look = functools.partial(_see, folder, shots, left)
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:  # each a browser of its own, that takes the next page
        for told in sorted(itertools.chain.from_iterable(pool.map(look, range(workers))), key=_in_order):
            found.setdefault(told[0], []).append(told[1])
    return [f"{text} ({', '.join(views)})" for text, views in found.items()]


def _in_order(told: tuple[str, str]) -> tuple[str, bool]:
    """By page; what is wrong on a wide screen first."""
    return told[0].partition(":")[0], told[1].endswith(str(WIDTHS[1]))


def _see(folder: Path, shots: Path | None, left: deque[str], _: int) -> list[tuple[str, str]]:
    """Complaints about the pages that are left, each with the view that it was seen in.

    A page is loaded once, on a wide screen, and told afterwards that the system prefers the other theme and
    that the screen is a narrow one: that is for styles alone, no script asks for it when a page is loaded.
    """
    from tests.book.check_layout import (
        complaints_about_figures,
        complaints_about_page,
        complaints_about_paper,
    )
    from tests.book.check_weight import complaints_about_weight

    path = find_browser()
    if path is None:
        raise FileNotFoundError("no Chromium on this machine")
    found = []
    with served(folder) as host, browser(path) as chromium, new_tab(chromium) as tab:
        while left:
            try:
                page = left.popleft()
            except IndexError:  # another browser was faster
                break
            themes = THEMES if len(left) % 2 == 0 else THEMES[::-1]  # half of them are loaded in the dark
            for number, (width, theme) in enumerate(zip(VIEWS, themes * 2, strict=True)):
                tab.scheme(theme)
                if number == 0:
                    tab.open(f"{host}/{page}", width=width)
                else:
                    tab.events.clear()
                    if width != VIEWS[number - 1]:
                        tab.size(width)
                    tab.settled("1")
                said = tab.evaluate(EXAMINE)
                if number == 0:
                    said += complaints_about_weight(tab, host, folder)
                if tab.evaluate("document.documentElement.dataset.theme") != theme:
                    said.append("theme ignored")
                if not page.startswith("reference/api/"):
                    if number == 0:
                        said += complaints_about_page(tab, folder)
                    if width < 600:
                        said += complaints_about_figures(tab, folder)
                if shots is not None:
                    name = f"{page.removesuffix('.html').replace('/', '-')}-{theme}-{width}.png"
                    _shoot(tab, shots / name, width)
                if number == 1:
                    paper = f"paper {width}"
                    found += [(f"{page}: {text}", paper) for text in complaints_about_paper(tab, theme)]
                view = f"{theme} {width}"
                found += [(f"{page}: {text}", view) for text in [*complaints(tab.events, host), *said]]
    return found


def check_use(folder: Path) -> list[str]:
    """Complaints about the search of the whole book, its predictions, and a page without scripts."""
    from tests.book.check_predictions import check_predictions, check_spoilers
    from tests.book.check_search import check_search
    from tests.book.check_weight import check_without_scripts

    path = find_browser()
    assert path is not None
    pages = sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html"))
    spoiled = check_spoilers(folder, [page for page in pages if not page.startswith("_")])
    with served(folder) as host, browser(path) as chromium, new_tab(chromium) as tab:
        tab.size(1280)
        found = check_search(tab, host) + check_search(tab, folder.resolve().as_uri())
        found += check_without_scripts(tab, host, "nsys/timeline-basics.html")
        found += check_predictions(tab, host, "nsys/timeline-basics.html")
        return found + spoiled


def check_look(folder: Path) -> list[str]:
    """Complaints about the front page, switches, the sidebar and the first key (`tests.book.check_layout`),
    and about answers that are far from the front page (`tests.book.clicks`).
    """
    from tests.book.check_layout import check_door, check_first_key, check_sidebar, check_switches
    from tests.book.check_terms import check_terms
    from tests.book.clicks import check_tasks

    path = find_browser()
    assert path is not None
    with served(folder) as host, browser(path) as chromium, new_tab(chromium) as tab:
        found = check_door(tab, host) + check_switches(tab, host, "nsys/timeline-basics.html")
        found += check_sidebar(tab, host, "nsys/timeline-basics.html")
        found += check_first_key(tab, host, "nsys/timeline-basics.html") + check_tasks(folder)
        for address in (host, folder.resolve().as_uri()):
            found += check_terms(tab, address, "nsys/patterns.html")
        return found


def _shoot(tab: Browser, path: Path, width: int) -> None:
    """Write a picture of the whole page."""
    tab.size(width, min(int(tab.evaluate("document.documentElement.scrollHeight")), TALLEST))
    picture = tab.call("Page.captureScreenshot")
    tab.size(width)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(picture["data"]))


def main() -> int:
    """Check, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", default="_build/html", type=Path)
    parser.add_argument(
        "--shots", type=Path, help="also write a picture of every page and view into this folder"
    )
    parser.add_argument("--only", default="", help="only pages whose path contains this")
    given = parser.parse_args()
    found = check(given.folder, given.shots, given.only)
    if not given.only:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for more in pool.map(lambda asked: asked(given.folder), (check_use, check_look)):
                found += more
    for line in found:
        print(line)
    print(f"{len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
