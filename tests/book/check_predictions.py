"""Questions of the built book: no answer stands above its question, and the browser keeps predictions."""

import json
import re
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag

from tests.book.check_browser import Browser

NEAR = 0.01  # of a number: so close to the answer says it


def check_spoilers(folder: Path, pages: list[str]) -> list[str]:
    """Complaints about built pages that give an answer away before they ask."""
    return [
        f"{page}: {line}" for page in pages for line in spoilers((folder / page).read_text(encoding="utf-8"))
    ]


def spoilers(page: str) -> list[str]:
    """The answers of a page (as HTML) that stand above their questions."""
    if 'class="lab-predict"' not in page:
        return []
    soup = BeautifulSoup(page, "html.parser")
    article = soup.select_one("article") or soup
    found, above = [], ""
    for one in article.descendants:
        if isinstance(one, Tag) and "lab-predict" in one.get_attribute_list("class"):
            script = one.find("script")
            question = json.loads(script.get_text()) if script else {}
            if "id" not in question:
                found.append(f"a question without an answer: {one.get_text()[:80]!r}")
            elif told := given_away(above, question):
                found.append(
                    f"the answer to {question['id']} ({question['shown']}) stands above it: {told!r}"
                )
        above += _seen(one)
    return found


def given_away(text: str, question: dict[str, Any]) -> str:
    """Where a text tells the answer to a question: its number in its unit, or that choice alone."""
    if question["value"] is None:
        named = [choice for choice in question["choices"] if choice.casefold() in text.casefold()]
        return question["shown"] if named == [question["shown"]] else ""
    unit = re.escape(question["unit"])
    after = (
        r"\s?(?:×(?! ?\d)|times\b|-?fold\b)"
        if unit == "×"
        else rf"\s?{unit}(?!\w)"
        if unit
        else r"(?! ?[\w%×/])"
    )
    for match in re.finditer(rf"(?<![\w.,^×·])(\d[\d,]*(?:\.\d+)?){after}", text):
        if abs(float(match[1].replace(",", "")) / question["value"] - 1) < NEAR:
            return text[max(0, match.start() - 40) : match.end() + 20].strip()
    return ""


def _seen(one: PageElement) -> str:
    """What a reader sees of an element: a text, and what a picture says to those who do not see it."""
    if isinstance(one, Tag):
        return (
            f" {one.get('alt', '')} "
            if one.name == "img"
            else " "
            if one.name in ("p", "td", "li", "div")
            else ""
        )
    if not isinstance(one, NavigableString) or isinstance(one, PreformattedString):
        return ""
    for parent in one.parents:
        classes = parent.get_attribute_list("class")
        if parent.name in ("script", "style", "noscript", "math") or "cell_input" in classes:
            return ""
        if (
            parent.name == "details"
            and parent.parent
            and "lab-predict" in parent.parent.get_attribute_list("class")
        ):
            return ""
    return re.sub(r"\s+", " ", one)


def check_predictions(
    tab: Browser, address: str, page: str, mine: str = "reference/predictions.html"
) -> list[str]:
    """Complaints about a page with a question, served at an address, when somebody predicts there."""
    found = []
    tab.open(f"{address}/{page}")
    first = "document.querySelector('.lab-predict')"
    tab.evaluate("localStorage.clear()")
    tab.open(f"{address}/{page}?asked")
    if not tab.evaluate(f"!{first}.querySelector('form').hidden && {first}.querySelector('output').hidden"):
        found.append("no form at the question")
    tab.evaluate(
        f"(() => {{ const box = {first}, input = box.querySelector('form input');"
        "if (input.type === 'radio') input.checked = true; else input.value = '3';"
        "box.querySelector('form').requestSubmit(); })()"
    )
    for again in ("", "?later"):
        if again:
            tab.open(f"{address}/{page}{again}")
        text = tab.evaluate(f"{first}.querySelector('output').innerText")
        if "You:" not in text or "Measured:" not in text:
            found.append(f"a prediction is not shown beside the measurement: {text!r}")
    tab.open(f"{address}/{mine}")
    text = tab.evaluate("document.querySelector('.lab-predictions').innerText")
    if "of 1 right" not in text or "Export as JSON" not in text:
        found.append(f"the page of one's predictions says {text[:80]!r}")
    tab.evaluate("document.querySelector('.lab-predictions td button').click()")
    if "nothing yet" not in tab.evaluate("document.querySelector('.lab-predictions').innerText"):
        found.append("a prediction that was forgotten is still there")
    return [f"{page}: {line}" for line in found]
