"""Rules are declared where they are written: each once, in a module that is asked for them."""

import re
from pathlib import Path

import pytest

from labcode.analysis import rules
from labcode.analysis.rules.registry import GROUPS, TOGETHER, judges, own_rules
from labcode.reports import FORMATS

BOOK = Path(__file__).parents[3] / "book"


def test_every_module_with_rules_is_asked_for_them() -> None:
    written = {
        path.stem: re.findall(r"^@\w*rule\($", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in Path(str(rules.__file__)).parent.glob("*.py")
    }
    asked = [module for group in GROUPS.values() for module in group.modules]
    assert sorted(asked) == sorted(name for name, found in written.items() if found)
    assert sum(len(own_rules(group)) for group in GROUPS) == sum(map(len, written.values())) > 60


@pytest.mark.parametrize("group", GROUPS)
def test_a_declaration_says_all(group: str) -> None:
    found = own_rules(group)
    assert len({one.id for one in found}) == len(found)
    for one in found:
        assert re.fullmatch(r"[a-z0-9-]+", one.id) and one.title and one.advice.endswith((".", ")")), one.id
        assert (BOOK / f"{one.book}.md").is_file(), one.id
        text = one.judge.__doc__ or ""
        if group in ("timelines", "counters"):
            assert "Numerator" in text, one.id
            assert "Bound:" in text or "Gain:" in text or "nothing to gain" in text, one.id
        assert set(one.of) <= {*FORMATS, TOGETHER} and text, one.id


def test_a_rule_says_what_it_is_of() -> None:
    gil = next(one for one in own_rules() if one.id == "gil")
    idle = next(one for one in own_rules() if one.id == "idle-gaps")
    assert [judges(gil, kind) for kind in ("nsys", "kineto", "")] == [True, False, True]
    assert judges(idle, "nsys") and judges(idle, "kineto")
    assert [one.id for one in own_rules("ranks", "power")] == ["slow-clock", "missing-ranks"]
    assert [one.id for one in own_rules("ranks", TOGETHER)] == ["late-rank", "slow-link"]
