"""Links to the glossary in a browser: what a card shows, with a mouse and with the keyboard alone."""

import time
from typing import Any

from tests.book.check_browser import LOAD_S, Browser

CARD = "document.getElementById('lab-term-card')"
DRAWN = ("warp", "occupancy", "CUDA graph", "launch-bound", "pinned memory", "stream", "straggler", "gap")
_LINK = f"""
[...document.querySelectorAll("main a:has(> .std-term)")]
  .find((link) => {list(DRAWN)}.some((term) => link.hash === "#term-" + term.replaceAll(" ", "-")))
"""
_SEEN = f"""
(() => {{
  const card = {CARD}, image = card?.querySelector("img");
  if (!image?.naturalWidth) return null;
  const box = card.getBoundingClientRect();
  return {{ words: card.innerText, right: box.right, left: box.left }};
}})()
"""


def check_terms(tab: Browser, address: str, page: str) -> list[str]:
    """Complaints about the card at a term of a page of the book at an address (of its folder)."""
    found = []
    tab.size(1280)
    tab.open(f"{address}/{page}")
    if tab.evaluate(f"(window.labTerm = {_LINK}) === undefined"):
        return [f"{page}: no link to a term that is drawn"]
    tab.evaluate("labTerm.scrollIntoView({block: 'center', behavior: 'instant'})")
    x, y = tab.evaluate("(({left, top}) => [left + 4, top + 6])(labTerm.getClientRects()[0])")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    seen = _card(tab)
    if seen is None:
        found.append(f"{page}: no card at a term that is pointed at")
    elif len(seen["words"]) < 40 or seen["left"] < 0 or seen["right"] > 1280:
        found.append(f"{page}: the card of a term shows {seen}")
    tab.key("Escape")
    if tab.evaluate(f"{CARD} !== null"):
        found.append(f"{page}: Escape does not close the card of a term")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    tab.evaluate("labTerm.focus({focusVisible: true})")
    if _card(tab) is None:
        found.append(f"{page}: no card at a term that has the focus")
    elif tab.evaluate(f"labTerm.getAttribute('aria-describedby') !== {CARD}.id"):
        found.append(f"{page}: a term's card does not describe its link")
    tab.evaluate("labTerm.blur()")
    return found


def _card(tab: Browser) -> Any:
    """What the card shows once its picture is there; ``None`` where none comes."""
    end = time.monotonic() + LOAD_S
    while (seen := tab.evaluate(_SEEN)) is None and time.monotonic() < end:
        time.sleep(0.05)
    return seen
