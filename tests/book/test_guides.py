"""The guides name exercises, rules and reports that exist, and every page of the book has a topic."""

from __future__ import annotations

import re
from pathlib import Path

from labcode.analysis.rules.counters import RULES as COUNTER_RULES
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.stats.nsys.reports import TABLES
from labcode.grading.catalogue import find

BOOK = Path(__file__).resolve().parents[2] / "book"
GUIDES = {path.name: path.read_text(encoding="utf-8") for path in (BOOK / "guides").glob("*.md")}
APART = {"start", "reference", "guides", "_static"}  # not taught, but used


def test_exercises_exist() -> None:
    named = re.findall(r"`(\w+-ex\d\d\w?)`", GUIDES["where-topics-live.md"])
    assert named and all(find(name) for name in named)


def test_every_page_has_a_topic() -> None:
    linked = set(re.findall(r"\(\.\./([\w/-]+)\.md\)", "".join(GUIDES.values())))
    pages = {p.relative_to(BOOK).with_suffix("").as_posix() for p in BOOK.rglob("*.md") if p.parent != BOOK}
    assert not sorted(page for page in pages - linked if page.split("/")[0] not in APART)


def test_rules_and_reports_exist() -> None:
    text = "".join(GUIDES.values())
    rules = set(re.findall(r"rule \*([\w-]+)\*", text))
    assert rules and rules <= {rule.id for rule in (*own_rules(), *COUNTER_RULES)}
    assert set(re.findall(r"`((?:cuda|nvtx|osrt)_\w+_(?:sum|trace))`", text)) <= set(TABLES)
