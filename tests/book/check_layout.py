"""Where things stand on pages of the built book: pictures, boxes of claims, type in pictures, the door,
switches, the sidebar, paper, and the first key of those who have no mouse.
"""

import itertools
import re
import time
from functools import cache
from pathlib import Path
from typing import Any

from tests.book.check_browser import LOAD_S, Browser

LOWEST = 900  # pixels from the top that a first picture begins above, 1280 wide
MOST_CLAIMS = 8  # boxes that a page shows before somebody asks
SMALLEST = 12.0  # pixels, of type in pictures
SMALLEST_ON_PHONES = 10.0  # of what phones show
DOORS = {1280: 900, 390: 844}  # what is seen of the front page: width, height
_SHOWN = """
(() => {
  const seen = (e) => e.checkVisibility();
  const top = (e) => Math.round(e.getBoundingClientRect().top + scrollY);
  const large = (e) => e.getBoundingClientRect().width > 200 && e.getBoundingClientRect().height > 60;
  const all = [...document.querySelectorAll("main :is(img, iframe, svg, canvas)")];
  const pictures = all.filter((e) => seen(e) && large(e));
  const images = pictures.filter((e) => e.tagName === "IMG" && e.src.endsWith(".svg"));
  return {
    first: pictures.length ? Math.min(...pictures.map(top)) : null,
    claims: [...document.querySelectorAll("main .lab-claim")].filter(seen).length,
    images: images.map((e) => [decodeURIComponent(new URL(e.src).pathname), e.getBoundingClientRect().width]),
  };
})()
"""
_ON_PHONE = """
[...document.querySelectorAll("main .lab-figure-frame")].map((frame) => [...frame.querySelectorAll("img")]
  .filter((e) => e.checkVisibility()).map((e) => [
  decodeURIComponent(new URL(e.src).pathname), e.getBoundingClientRect().width, frame.clientWidth,
])).filter((images) => images.length)
"""
_COMING = """
[...document.querySelectorAll("main .lab-figure-frame img")].some((e) => e.checkVisibility() && !e.complete)
"""
_DOOR = """
(() => {
  const end = (e) => e ? Math.round(e.getBoundingClientRect().bottom + scrollY) : null;
  const article = document.querySelector("main article");
  const picture = [...article.querySelectorAll("img")].find((e) => e.checkVisibility());
  return {
    sentence: end(article.querySelector("p")),
    ways: end(article.querySelector(".lab-ways")),
    picture: end(picture),
  };
})()
"""
_ON_PAPER = """
(() => {
  const seen = (e) => e.checkVisibility() && e.getBoundingClientRect().height > 1;
  return {
    levels: [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(seen)
      .map((e) => Number(e.tagName[1])),
    told: [...document.querySelectorAll("summary")].filter(seen).map((e) => e.textContent.trim())
      .filter((text) => text.startsWith("Show code")),
    cut: [...document.querySelectorAll("main pre")]
      .filter((e) => seen(e) && e.scrollWidth > e.clientWidth + 1).length,
    doubled: [...document.querySelectorAll("main img.only-dark")].filter(seen).length,
  };
})()
"""
_PARTS = """
[...document.querySelectorAll("nav.bd-links details")].map((part) => {
  const links = [...part.querySelectorAll("a")];
  const seen = (e) => e.checkVisibility();
  return [links.length, links.filter(seen).length, links.some((e) => seen(e) && e.matches(".current"))];
})
"""
_CODE = "[...document.querySelectorAll('main .lab-code')].filter((e) => e.checkVisibility()).length"
_ALL_CODE = "document.querySelectorAll('main .lab-code').length"


def complaints_about_page(tab: Browser, folder: Path) -> list[str]:
    """Complaints about the page that a tab shows, 1280 pixels wide, of the book in a folder."""
    found: list[str] = []
    seen: dict[str, Any] = tab.evaluate(_SHOWN)
    if seen["first"] is not None and seen["first"] > LOWEST:
        found.append(f"its first picture begins at {seen['first']} pixels")
    if seen["claims"] > MOST_CLAIMS:
        found.append(f"shows {seen['claims']} claims")
    for path, width in seen["images"]:
        type_and_width = smallest_type(folder / path.lstrip("/"))
        if type_and_width is not None:
            size = type_and_width[0] * width / type_and_width[1]
            if size < SMALLEST - 0.05:
                found.append(f"type of {size:.1f} pixels in {Path(path).name}")
    return found


def complaints_about_figures(tab: Browser, folder: Path) -> list[str]:
    """Complaints about a page's figures on a phone: one copy of each that is seen whole, its type legible."""
    found = []
    tab.evaluate('document.querySelectorAll("main img").forEach((e) => { e.loading = "eager"; })')
    until = time.monotonic() + LOAD_S
    while tab.evaluate(_COMING) and time.monotonic() < until:
        time.sleep(0.1)  # an image that has not come yet has no width
    frames: list[list[tuple[str, float, float]]] = tab.evaluate(_ON_PHONE)
    for seen in frames:
        if len(seen) > 1:
            found.append(f"shows {len(seen)} copies of {Path(seen[0][0]).name}")
        for path, width, room in seen:
            if width > room + 1:
                found.append(f"shows {Path(path).name} of {width:.0f} pixels in {room:.0f}")
            type_and_width = smallest_type(folder / path.lstrip("/"))
            if type_and_width is None:
                continue
            size = type_and_width[0] * width / type_and_width[1]
            if size < SMALLEST_ON_PHONES - 0.05:
                found.append(f"type of {size:.1f} pixels in {Path(path).name}")
    return found


@cache
def smallest_type(path: Path) -> tuple[float, float] | None:
    """The smallest type in an SVG file and the file's width, in its own unit; ``None`` without type."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    sizes = re.findall(r"font(?:-size)?: *(?:[a-z0-9]+ )*([\d.]+)px", text)
    box = re.search(r'viewBox="\S+ \S+ (\S+) \S+"', text)
    return (min(map(float, sizes)), float(box[1])) if sizes and box else None


def check_door(tab: Browser, address: str) -> list[str]:
    """Complaints about what is to be seen of the front page without scrolling."""
    found = []
    for width, height in DOORS.items():
        tab.size(width, height)
        tab.open(f"{address}/index.html")
        for what, end in tab.evaluate(_DOOR).items():
            if end is None or end > height:
                found.append(f"index.html: {what} ends at {end} of {height} pixels ({width})")
    tab.size(1280)
    return found


def check_switches(tab: Browser, address: str, page: str) -> list[str]:
    """Complaints about the switches of a page: they are kept, and without scripts nothing is folded."""
    found = []
    tab.open(f"{address}/{page}")
    tab.evaluate("localStorage.clear()")
    tab.open(f"{address}/{page}?1")
    button = "document.querySelector('[data-lab-switch=lab-code]')"
    if tab.evaluate(_CODE) != 0:
        found.append(f"{page}: code is shown before it is asked for")
    tab.evaluate(f"{button}.click()")
    shown, all_of_it = tab.evaluate(_CODE), tab.evaluate(_ALL_CODE)
    if not shown or shown != all_of_it:
        found.append(f"{page}: the switch shows {shown} of {all_of_it} pieces of code")
    tab.open(f"{address}/{page}?2")
    if tab.evaluate(_CODE) != all_of_it or tab.evaluate(f"{button}.ariaPressed") != "true":
        found.append(f"{page}: the switch is not kept")
    tab.evaluate("localStorage.clear()")
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(f"{address}/{page}?3", scripts=False)
    time.sleep(0.3)
    if tab.evaluate(_CODE) != all_of_it:
        found.append(f"{page}: without scripts code is folded away")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    return found


def check_sidebar(tab: Browser, address: str, page: str) -> list[str]:
    """Complaints about the parts in the sidebar: folded on the front page; on a page its own part alone shows
    its pages, this one marked; a click on a part's name unfolds it, and a second one folds it again.
    """
    tab.open(f"{address}/index.html")
    parts: list[list[Any]] = tab.evaluate(_PARTS)
    if len(parts) < 2 or any(not links or shown for links, shown, _ in parts):
        return [f"index.html: of {len(parts)} parts in the sidebar {sum(bool(p[1]) for p in parts)} are open"]
    tab.open(f"{address}/{page}")
    parts = tab.evaluate(_PARTS)
    opened = [(links, shown, current) for links, shown, current in parts if shown]
    if len(opened) != 1 or opened[0][0] != opened[0][1] or not opened[0][2]:
        return [f"{page}: the sidebar does not show the pages of its own part alone, this one marked"]
    other = next(number for number, (_, shown, _) in enumerate(parts) if not shown)
    name = f"document.querySelectorAll('nav.bd-links details')[{other}].querySelector('summary')"
    for wanted in (parts[other][0], 0):
        tab.evaluate(f"{name}.click()")
        if tab.evaluate(_PARTS)[other][1] != wanted:
            return [
                f"{page}: a click on another part in the sidebar does not show its pages, or hide them again"
            ]
    return []


def complaints_about_paper(tab: Browser, theme: str) -> list[str]:
    """Complaints about the open page when it is printed by a system that prefers a theme: headings out of
    order, what only a screen can do, doubled pictures.
    """
    tab.scheme(theme, media="print")
    seen: dict[str, Any] = tab.evaluate(_ON_PAPER)
    tab.scheme(theme)
    levels, found = seen["levels"], []
    if levels.count(1) != 1 or levels[0] != 1:
        found.append(f"on paper {levels.count(1)} main headings, the first of level {levels[:1]}")
    if any(after > before + 1 for before, after in itertools.pairwise(levels)):
        found.append("on paper a level of headings is left out")
    found += [f"on paper {text!r}" for text in sorted(set(seen["told"]))]
    if seen["cut"]:
        found.append(f"on paper {seen['cut']} pieces of code end at the edge")
    if seen["doubled"]:
        found.append(f"on paper {seen['doubled']} pictures twice")
    return found


def check_first_key(tab: Browser, address: str, page: str) -> list[str]:
    """Complaints about the tab key: the first stop leads past all navigation, into the article."""
    tab.open(f"{address}/{page}")
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    target = tab.evaluate("document.activeElement.getAttribute('href') ?? ''")
    inside = f"document.querySelector({target!r})?.parentElement.querySelector(':scope > article') !== null"
    if not str(target).startswith("#") or tab.evaluate(inside) is not True:
        return [f"{page}: the first stop of the tab key leads to {target or 'no link'!r}"]
    return []
