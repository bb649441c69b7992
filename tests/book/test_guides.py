"""The guides name exercises, rules, reports, commands and files that exist; every page has a topic, and every
topic of the lists that readers come with has a place.
"""

import importlib.util
import re
import sqlite3
from pathlib import Path

import pytest

from labcode.analysis.kernel.stalls import STATES
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.stats.nsys.reports import TABLES
from labcode.cli import program
from labcode.grading.catalogue import find
from tests.support import exports

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
    commands = {c.callback.__name__ for c in program().registered_commands if c.callback} | {
        "captures",
        "bench",
    }
    used = set(re.findall(r"`labcode (\w+)", text))
    assert used and used <= commands
    assert all(importlib.util.find_spec(name) for name in re.findall(r"python -m (labcode[\w.]+)", text))
    assert all((ROOT / name).is_dir() for name in re.findall(r"`(cuda/\w+)`", text))


def test_variables_of_the_lab_are_read() -> None:
    named = set(re.findall(r"LABCODE_\w+", GUIDES["environment.md"]))
    files = (ROOT / "conf.py", *(ROOT / "labcode").rglob("*.py"))
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    assert named and named <= set(re.findall(r"LABCODE_\w+", source))


def test_every_page_has_a_topic() -> None:
    linked = set(re.findall(r"\(\.\./([\w/-]+)\.md", "".join(GUIDES.values())))
    pages = {p.relative_to(BOOK).with_suffix("").as_posix() for p in BOOK.rglob("*.md") if p.parent != BOOK}
    assert not sorted(page for page in pages - linked if page.split("/")[0] not in APART)


def test_the_door_has_a_path_a_role_and_its_questions_in_six_groups() -> None:
    door = (BOOK / "index.md").read_text(encoding="utf-8")
    asked = [rows(part.split("\n:::")[0]) for part in door.split(":::{dropdown}")[1:]]
    assert len(asked) == 6 and all(3 < len(group) <= 12 for group in asked) and sum(map(len, asked)) >= 36
    paths = [line for line in door.splitlines() if line.count(") → [") >= 2]
    assert len(paths) == 4  # a training engineer's, a kernel author's, an instructor's, a student's
    links = re.findall(r"\]\(([\w./-]+\.md)", door)
    assert len(links) > 80 and not [link for link in links if not (BOOK / link).is_file()]


def test_rules_and_reports_exist() -> None:
    text = "".join(GUIDES.values())
    rules = set(re.findall(r"rule \*([\w-]+)\*", text))
    assert rules and rules <= {rule.id for rule in (*own_rules(), *own_rules("counters"))}
    assert set(re.findall(r"`((?:cuda|nvtx|osrt)_\w+_(?:sum|trace))`", text)) <= set(TABLES)


def section(page: str, title: str) -> str:
    return GUIDES[page].split(f"# {title}\n")[1].split("\n#")[0]


def test_older_names_of_stalls_lead_to_all_of_todays() -> None:
    text = section("by-symptom.md", "Stall reasons by their older names")
    today = " ".join(row.split("|")[2] for row in rows(text))
    no_stall, newer = {"selected", "not selected", "sleeping"}, {"branch resolving", "warpgroup matmul"}
    titles = {state.title for state in STATES.values()} - no_stall - newer
    assert len(titles) == 14 and not [title for title in titles if title not in today]


def test_errors_of_sql_are_as_the_guide_says(tmp_path: Path) -> None:
    text = section("by-symptom.md", "SQL errors")
    path = exports.make_export(tmp_path / "a.sqlite", kernels=[exports.kernel(0, 10, "k(int)")])
    with sqlite3.connect(path) as db:
        with pytest.raises(sqlite3.OperationalError, match="no such column: name") as raised:
            db.execute("SELECT name FROM CUPTI_ACTIVITY_KIND_KERNEL")
        assert f"`{raised.value}`" in text
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            db.execute("SELECT * FROM OSRT_API")
        join = re.search(r"`(JOIN StringIds s ON [^`]+)`", text)
        assert join
        found = db.execute(f"SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k {join[1]}").fetchall()
        assert found == [("k",)]
        assert db.execute("SELECT 1 / 0, 1 / NULLIF(0, 0), 7 / 2, 1.0 * 7 / 2").fetchone() == (
            None,
            None,
            3,
            3.5,
        )
    db.close()


def test_the_glossary_has_many_terms() -> None:
    glossary = (BOOK / "reference" / "glossary.md").read_text(encoding="utf-8").split("```{glossary}\n")[1]
    assert len(re.findall(r"(?m)^[^\s`:].*$", glossary)) >= 120
