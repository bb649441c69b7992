"""What pages of the built book load before anybody touches them: all of it, and what every page shares."""

import time

from tests.book.check_browser import Browser

MOST = 3_000_000  # bytes
MOST_SHARED = 1_000_000


def check_weight(tab: Browser, address: str, pages: list[str]) -> list[str]:
    """Complaints about pages, served at an address, that load too much."""
    found = []
    tab.call("Network.setCacheDisabled", cacheDisabled=True)
    for page in pages:
        tab.open(f"{address}/{page}")
        sizes = loaded(tab)
        whole = sum(sizes.values())
        shared = sum(size for file, size in sizes.items() if "/_static/" in file)
        if whole > MOST:
            found.append(f"{page}: loads {whole / 1e6:.2f} MB before it is used")
        if shared > MOST_SHARED:
            found.append(f"{page}: loads {shared / 1e6:.2f} MB of scripts and styles")
    tab.call("Network.setCacheDisabled", cacheDisabled=False)
    return found


def check_without_scripts(tab: Browser, address: str, page: str) -> list[str]:
    """Complaints about a page, served at an address, in a browser that runs no scripts."""
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(f"{address}/{page}")
    time.sleep(0.5)
    shown = tab.evaluate(
        "[...document.querySelectorAll('main img')].filter((e) => e.classList.contains('only-dark')"
        " && getComputedStyle(e).display !== 'none').length"
    )
    color = tab.evaluate("getComputedStyle(document.querySelector('main a[href]')).color")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    found = [f"{page}: without scripts {shown} pictures are shown twice"] if shown else []
    return [*found, *([f"{page}: without scripts links have no color"] if color == "rgb(0, 0, 0)" else [])]


def loaded(tab: Browser) -> dict[str, int]:
    """The bytes of each file that the last page has loaded so far."""
    addresses: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for event in tab.events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            addresses[parameters["requestId"]] = parameters["request"]["url"]
        elif method == "Network.loadingFinished" and parameters["requestId"] in addresses:
            file = addresses[parameters["requestId"]]
            sizes[file] = sizes.get(file, 0) + int(parameters["encodedDataLength"])
    return sizes
