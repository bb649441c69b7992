"""The guides name exercises, rules, reports, commands and files that exist; every page has a topic, and every
topic of the lists that readers come with has a place.
"""

import importlib.util
import re
from pathlib import Path

from labcode.analysis.rules.counters import RULES as COUNTER_RULES
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.stats.nsys.reports import TABLES
from labcode.cli import app
from labcode.grading.catalogue import find

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
GUIDES = {path.name: path.read_text(encoding="utf-8") for path in (BOOK / "guides").glob("*.md")}
TOPICS = GUIDES["where-topics-live.md"]
APART = {"start", "reference", "guides", "_static"}  # not taught, but used
ELSEWHERE = (Path(__file__).parent / "topics.txt").read_text(encoding="utf-8").splitlines()


def rows(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line for place, line in enumerate(lines) if "---" not in line and not _heads(lines, place)]


def _heads(lines: list[str], place: int) -> bool:
    return place + 1 < len(lines) and lines[place + 1].startswith("|---")


def test_what_other_lists_name_has_a_place() -> None:
    table = "\n".join(rows(TOPICS)).lower()
    assert len(ELSEWHERE) > 80 and not [name for name in ELSEWHERE if name.lower() not in table]


def test_every_topic_leads_somewhere() -> None:
    assert len(rows(TOPICS)) > 100
    assert not [row for row in rows(TOPICS) if not re.search(r"\]\([\w./#-]+\)|\{exercise\}|`labcode ", row)]


def test_links_lead_to_files() -> None:
    links = {
        (name, link) for name, text in GUIDES.items() for link in re.findall(r"\]\(([\w./-]+\.md)", text)
    }
    assert len(links) > 80
    assert not [(name, link) for name, link in links if not (BOOK / "guides" / link).is_file()]


def test_exercises_exist() -> None:
    text = "".join(GUIDES.values())
    assert not re.search(r"(?<!\})`\w+-ex\d\d", TOPICS)  # each is a link to its card
    assert all(find(name) for name in re.findall(r"\{exercise\}`([^`]+)`", text))


def test_commands_programs_and_modules_exist() -> None:
    text = "".join(GUIDES.values())
    commands = {c.callback.__name__ for c in app.registered_commands if c.callback} | {"captures", "bench"}
    used = set(re.findall(r"`labcode (\w+)", text))
    assert used and used <= commands
    assert all(importlib.util.find_spec(name) for name in re.findall(r"python -m (labcode[\w.]+)", text))
    assert all((ROOT / name).is_dir() for name in re.findall(r"`(cuda/\w+)`", text))


def test_variables_of_the_lab_are_read() -> None:
    named = set(re.findall(r"LABCODE_\w+", GUIDES["environment.md"]))
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "labcode").rglob("*.py"))
    assert named and named <= set(re.findall(r"LABCODE_\w+", source))


def test_every_page_has_a_topic() -> None:
    linked = set(re.findall(r"\(\.\./([\w/-]+)\.md", "".join(GUIDES.values())))
    pages = {p.relative_to(BOOK).with_suffix("").as_posix() for p in BOOK.rglob("*.md") if p.parent != BOOK}
    assert not sorted(page for page in pages - linked if page.split("/")[0] not in APART)


def test_rules_and_reports_exist() -> None:
    text = "".join(GUIDES.values())
    rules = set(re.findall(r"rule \*([\w-]+)\*", text))
    assert rules and rules <= {rule.id for rule in (*own_rules(), *COUNTER_RULES)}
    assert set(re.findall(r"`((?:cuda|nvtx|osrt)_\w+_(?:sum|trace))`", text)) <= set(TABLES)


def test_the_glossary_has_many_terms() -> None:
    glossary = (BOOK / "reference" / "glossary.md").read_text(encoding="utf-8").split("```{glossary}\n")[1]
    assert len(re.findall(r"(?m)^[^\s`:].*$", glossary)) >= 120
