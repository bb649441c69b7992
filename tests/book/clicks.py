"""How far answers are from the front page: a built book and questions in, clicks out.

Only links of the articles count, since navigation lists every page for those who know its name. To open what
is folded is a click, too; to scroll is none.
"""

import heapq
import posixpath
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MOST = 3
TASKS = {  # a question: pages that answer it, each with the place on it and words that stand there
    "why is my GPU idle": (("nsys/timeline-basics.html", "what-was-the-cpu-doing", "idle"),),
    "which tool": (("guides/which-tool.html", "decide", "Nsight Systems"),),
    "ERR_NVGPUCTRPERM": (("start/setting-up.html", "permissions", "ERR_NVGPUCTRPERM"),),
    "how many sequences fit": (("serving/throughput.html", "what-a-batch-costs", "fit into"),),
    "is 60 % of peak good": (
        ("compute/nsight-compute.html", "tables-of-good-values-checked", "good values"),
        ("lm/timing.html", "five-sizes", "MFU"),
    ),
}


class _Article(HTMLParser):
    """The links of a page's article with the clicks that each takes, the article's places, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, int] = {}
        self.places: set[str] = set()
        self.words: list[str] = []
        self._depth = {"article": 0, "details": 0}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in self._depth:
            self._depth[tag] += 1
        if self._depth["article"]:
            self.places.add(given.get("id") or "")
            if tag == "a" and (href := given.get("href")):
                cost = 1 + self._depth["details"]
                self.links[href] = min(cost, self.links.get(href, cost))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._depth:
            self._depth[tag] -= 1

    def handle_data(self, data: str) -> None:
        if self._depth["article"]:
            self.words.append(data)


def clicks(folder: Path, start: str = "index.html", most: int = MOST) -> dict[str, int]:
    """Pages within so many clicks of the first one, and how many each takes."""
    found: dict[str, int] = {}
    queue = [(0, start)]
    while queue:
        cost, page = heapq.heappop(queue)
        if page in found or not (folder / page).is_file():
            continue
        found[page] = cost
        for href, more in _read(folder / page).links.items():
            address = urlsplit(href)
            if cost + more <= most and address.path and not address.netloc:
                target = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(address.path)))
                heapq.heappush(queue, (cost + more, target))
    return found


def check_tasks(folder: Path) -> list[str]:
    """Complaints about questions whose answer is gone, or more than `MOST` clicks from the front page."""
    near = clicks(folder)
    found = []
    for question, answers in TASKS.items():
        for page, place, words in answers:
            article = _read(folder / page)
            if page not in near:
                found.append(f"“{question}”: {page} is more than {MOST} clicks from the front page")
            if place not in article.places or words not in " ".join("".join(article.words).split()):
                found.append(f"“{question}”: {page}#{place} does not say “{words}”")
    return found


def _read(path: Path) -> _Article:
    article = _Article()
    if path.suffix == ".html" and path.is_file():
        article.feed(path.read_text(encoding="utf-8"))
    return article
