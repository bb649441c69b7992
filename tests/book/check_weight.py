"""What pages of the built book load before anybody touches them: all of it, and what every page shares."""

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
