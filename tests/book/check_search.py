"""The search of the built book in a browser, served and from disk: keys, results, and what is loaded when."""

import time

from tests.book.check_browser import LOAD_S, Browser

QUESTION = "cuda out of memory"
OPTIONS = "document.querySelectorAll('#pst-search-dialog [role=option]')"
CHOSEN = "document.querySelector('#pst-search-dialog [aria-selected=true]')"
OPEN = "document.getElementById('pst-search-dialog').open"
LOADED = "performance.getEntriesByType('resource').some(({ name }) => name.includes('search-index.js'))"
CODES = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Escape": 27, "k": 75}


def press(tab: Browser, key: str, *, control: bool = False) -> None:
    """Press and release a key, as a keyboard does."""
    event = {"key": key, "windowsVirtualKeyCode": CODES[key], "modifiers": 2 if control else 0}
    if key == "Enter":
        event["text"] = "\r"
    tab.call("Input.dispatchKeyEvent", type="keyDown", **event)
    tab.call("Input.dispatchKeyEvent", type="keyUp", **event)


def check_search(tab: Browser, address: str) -> list[str]:
    """Complaints about the search of the book at an address (of its folder), each in words."""
    tab.open(f"{address}/nsys/patterns.html")
    found = []

    def hold(condition: str, otherwise: str) -> None:
        end = time.monotonic() + LOAD_S
        while tab.evaluate(condition) is not True:
            if time.monotonic() > end:
                found.append(f"search: {otherwise}")
                return
            time.sleep(0.05)

    hold(f"!({LOADED})", "the index is loaded before anybody searches")
    press(tab, "k", control=True)
    hold(OPEN, "Ctrl+K does not open the dialog")
    tab.call("Input.insertText", text=QUESTION)
    hold(f"{OPTIONS}.length > 3", "no results while typing")
    first = tab.evaluate(f"{OPTIONS}[0].href")
    if "pytorch/memory.html" not in str(first):
        found.append(f"search: {QUESTION!r} leads to {first}")
    hold(f"{OPTIONS}[0].querySelector('mark') !== null", "no words are marked in excerpts")
    hold(
        "document.querySelector('#pst-search-dialog [role=status]').textContent.includes('pages')",
        "the number of results is not said",
    )
    press(tab, "ArrowDown")
    press(tab, "ArrowDown")
    press(tab, "ArrowUp")
    hold(f"{CHOSEN} === {OPTIONS}[1]", "arrow keys do not choose")
    hold(
        f"document.activeElement.getAttribute('aria-activedescendant') === {CHOSEN}.id",
        "the choice is not said",
    )
    press(tab, "Escape")
    hold(f"!{OPEN}", "Escape does not close the dialog")
    press(tab, "k", control=True)
    hold(OPEN, "Ctrl+K does not open the dialog again")
    tab.call("Input.insertText", text=QUESTION)
    hold(f"{OPTIONS}.length > 3", "no results the second time")
    press(tab, "ArrowDown")
    second = str(tab.evaluate(f"{CHOSEN}.href"))
    press(tab, "Enter")
    hold(
        f"location.href === {second!r} && document.readyState === 'complete'", f"Enter does not open {second}"
    )

    tab.open(f"{address}/search.html?q=warp%20divergence")
    hold(
        "document.querySelectorAll('.lab-search-page [role=option]').length > 3", "its page shows no results"
    )
    hold(
        "document.querySelector('.lab-search-page [role=option]').href.includes('compute-metrics')",
        "its page does not put first what was asked for",
    )
    return found
