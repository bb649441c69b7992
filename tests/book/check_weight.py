"""What pages of the built book load before anybody touches them: all of it, what every page shares, and what
has to come before anything is seen.
"""

import gzip
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.book.check_browser import Browser

MOST = 3_000_000  # bytes
MOST_SHARED = 1_000_000
LINE = 1_600_000 // 8  # bytes per second of a slow line
PAINTED_S, TRIP_S, TRIPS = (
    2.0,
    0.15,
    4,
)  # something is seen by then; name, connection, page, styles take a trip each
MOST_BEFORE = round(LINE * (PAINTED_S - TRIPS * TRIP_S))  # compressed, as hosts of static pages send it
_HOLDING = """
performance.getEntriesByType("resource").filter((e) => e.renderBlockingStatus === "blocking")
  .map((e) => e.name).concat(location.href)
"""


def complaints_about_weight(tab: Browser, address: str, folder: Path) -> list[str]:
    """Complaints about the page that was opened last, of a folder served there, if it loads too much."""
    sizes = loaded(tab, address, folder)
    whole = sum(sizes.values())
    shared = sum(size for file, size in sizes.items() if file.startswith("_static/"))
    found = [f"loads {whole / 1e6:.2f} MB before it is used"] if whole > MOST else []
    before = sum(_compressed(folder / file) for file in _files(tab.evaluate(_HOLDING), address, folder))
    found += [f"loads {before / 1e3:.0f} kB before anything is seen"] if before > MOST_BEFORE else []
    return found + ([f"loads {shared / 1e6:.2f} MB of scripts and styles"] if shared > MOST_SHARED else [])


def check_without_scripts(tab: Browser, address: str, page: str) -> list[str]:
    """Complaints about a page, served at an address, in a browser that runs no scripts."""
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(f"{address}/{page}", scripts=False)
    time.sleep(0.5)
    shown = tab.evaluate(
        "[...document.querySelectorAll('main img')].filter((e) => e.classList.contains('only-dark')"
        " && getComputedStyle(e).display !== 'none').length"
    )
    color = tab.evaluate("getComputedStyle(document.querySelector('main a[href]')).color")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    found = [f"{page}: without scripts {shown} pictures are shown twice"] if shown else []
    return [*found, *([f"{page}: without scripts links have no color"] if color == "rgb(0, 0, 0)" else [])]


def loaded(tab: Browser, address: str, folder: Path) -> dict[str, int]:
    """The bytes of each file of a folder that the last page has asked for so far, cached or not."""
    asked = (
        event["params"]["request"]["url"]
        for event in tab.events
        if event.get("method") == "Network.requestWillBeSent"
    )
    return {file: (folder / file).stat().st_size for file in _files(asked, address, folder)}


def _files(urls: Iterable[str], address: str, folder: Path) -> set[str]:
    """Which files of a folder that is served at an address these are."""
    names = {unquote(urlsplit(url).path).removeprefix("/") for url in urls if url.startswith(address)}
    return {name for name in names if (folder / name).is_file()}


@cache
def _compressed(file: Path) -> int:
    return len(gzip.compress(file.read_bytes(), compresslevel=6))
