"""Hits, misses, alarms, gains and lines of cases of diagnosis, on made-up verdicts."""

import re
from pathlib import Path
from typing import Any

import pytest

from labcode.bench import diagnosis
from labcode.bench.diagnosis import RULES, Case, Told, first, place_of, read_cases, row_of, summary
from labcode.errors import LabError
from labcode.store import repository_root

FOLDER = repository_root() / diagnosis.FOLDER
LINE = {"file": "fault.py", "function": "main", "text": "loss.item()"}


def verdict(rule: str, gain: float | None = 0.5, message: str = "", status: str = "found") -> dict[str, Any]:
    least, most = (None, None) if gain is None else (gain - 0.1, gain + 0.1)
    told = {"rule": rule, "status": status, "message": message}
    return {**told, "gain": gain, "gain_at_least": least, "gain_at_most": most}


def case(cause: str = "host-sync", accept: tuple[str, ...] = (), line: dict[str, str] | None = None) -> Case:
    return Case("one", cause, accept, 1, False, line or {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "fault.py").write_text("import torch\n\ndef main():\n    x = 1\n    loss.item()\n")
    return tmp_path


def test_every_cause_of_the_cases_has_rules_or_others_that_do() -> None:
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", (FOLDER / "README.md").read_text(), re.MULTILINE))
    assert set(RULES) == listed
    for one in read_cases(FOLDER):
        assert one.rules or one.cause == "none", one.name


def test_the_first_verdict_that_promises_a_gain_counts() -> None:
    verdicts = [
        verdict("low-utilization", None),
        verdict("gil", status="not found"),
        verdict("sync-in-loop", 0.4, "for 1 ms; 99 % of that in `main`, fault.py:5, 1 % in `f`, fault.py:9"),
        verdict("host-code", 0.3),
    ]
    told = first(verdicts)
    assert (told.rule, told.gain, told.function, told.line) == ("sync-in-loop", 0.4, "main", 5)
    assert (told.least, told.most) == pytest.approx((0.3, 0.5))
    assert first(verdicts, frozenset(["host-code"])).gain == 0.3
    assert first(verdicts[:2]) == Told()


def test_a_hit_is_the_planted_cause_or_one_that_is_accepted(folder: Path) -> None:
    seconds = {"one-fault": 0.02, "one-mended": 0.01}
    mended = [verdict("sync-in-loop", 0.12)]
    for rule, one, hit in (
        ("sync-in-loop", case(), True),
        ("host-code", case(), False),
        ("host-code", case(accept=("host-code",)), True),
    ):
        row = row_of(one, folder, {"one-fault": [verdict(rule)], "one-mended": mended}, seconds)
        assert (row.hit, row.gained, row.again) == (hit, 0.5, 0.12)


def test_a_good_program_that_is_promised_much_is_a_false_alarm(folder: Path) -> None:
    for gain, hit in ((0.05, True), (0.2, False)):
        row = row_of(case("none"), folder, {"one-good": [verdict("host-code", gain)]}, {})
        assert row.hit is hit and row.gained is None


def test_a_place_is_right_by_line_or_by_function(folder: Path) -> None:
    for line, function, place in (
        (5, "main", "line"),
        (4, "main", "line"),
        (1, "main", "function"),
        (1, "step", "no"),
        (0, "", "no"),
    ):
        assert place_of(case(line=LINE), folder, Told("x", function=function, line=line)) == place


def test_rows_add_up(folder: Path) -> None:
    seconds = {"one-fault": 0.02, "one-mended": 0.01}
    verdicts = {"one-fault": [verdict("sync-in-loop", 0.55)], "one-mended": [verdict("sync-in-loop", 0.3)]}
    hit = row_of(case(line=LINE), folder, verdicts, seconds)
    miss = row_of(case(), folder, {**verdicts, "one-fault": []}, seconds)
    alarm = row_of(case("none"), folder, {"one-good": [verdict("host-code")]}, {})
    assert summary([hit, miss, alarm]) == (
        "1 of 2 causes named first; of these the gain within its bounds in 1, off by 5 points in the median; "
        "line right in 0 of 1, function in 0 more; "
        "false alarms in 1 of 1 good programs, 2 mended ones told the same"
    )


def test_a_place_without_cases_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no cases of diagnosis here; they lie in the repository"):
        read_cases(tmp_path)
