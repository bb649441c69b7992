"""What a notebook shows of results: cards of reports, tables of verdicts, what changed; all of it escaped."""

from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

import labcode
from labcode.analysis.compare.timelines import compare
from labcode.analysis.rules.finding import Verdict, Verdicts
from labcode.reports import FORMATS
from labcode.verbs.diagnose.verdicts import diagnose
from tests.support.exports import kernel, make_export

ROOT = Path(__file__).parents[2]
SET = ROOT / "captures" / "h200"
HOSTILE = '</td><script>alert("x")</script>\x1b[31m\u202e'
FILES = {
    "nsys": "timeline_basics/baseline.nsys.xz",
    "kineto": "torch_profiler/baseline.trace.json.gz",
    "ncu": "ncu_softmax/steps.ncu-rep.xz",
    "power": "energy_ranges/phases.power.json.xz",
    "memory": "torch_memory/leak.memory.json.xz",
}


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(html: str) -> set[str]:
    """The elements of a piece of HTML, checked to be closed in order."""
    parser = _Elements()
    parser.feed(html)
    assert parser.open == []
    return parser.seen


@pytest.mark.parametrize("kind", FILES)
def test_a_report_of_each_kind_is_a_card(kind: str) -> None:
    report = labcode.open(SET / FILES[kind])
    html = report._repr_html_()
    assert FORMATS[kind].what in html and Path(FILES[kind]).name in html  # type: ignore[index]
    assert elements(html) <= {"p", "strong", "table", "tr", "th", "td"}
    assert kind == "memory" or "H200" in html


def test_what_is_closed_or_damaged_is_said_in_place_of_the_facts() -> None:
    with labcode.open(SET / FILES["nsys"]) as report:
        pass
    html = report._repr_html_()
    assert "baseline.nsys.xz" in html and "GPU operations" not in html and html.count("<p>") == 2


def test_names_out_of_files_are_escaped_and_cannot_steer(tmp_path: Path) -> None:
    folder = tmp_path / "<b>&"
    folder.mkdir()
    for place, (name, took) in enumerate((("one", 10), (HOSTILE, 400))):
        rows = [kernel(i * 1000, i * 1000 + took, name, correlation=i) for i in range(8)]
        make_export(folder / f"{place}.sqlite", kernels=rows)
    before, after = (labcode.open(folder / f"{place}.sqlite") for place in range(2))
    verdicts = Verdicts([Verdict(HOSTILE, HOSTILE, "found", HOSTILE, "high", gain=0.5, advice=HOSTILE)])
    changed = compare(before, after)
    for one in (before, after, verdicts, verdicts[0], changed):
        html = one._repr_html_()
        assert "<script" not in html and "<b>" not in html and not {"\x1b", "\u202e"} & set(html)
        assert not elements(html) & {"script", "b"}
    assert "&lt;script" in changed._repr_html_() and "vanished" in changed._repr_html_()


def test_verdicts_show_what_was_found_and_name_the_others() -> None:
    with labcode.open(SET / FILES["nsys"]) as report:
        verdicts = diagnose(report)
    html, found = verdicts._repr_html_(), [one for one in verdicts if one.status == "found"]
    assert isinstance(verdicts, list) and html.count("<tr>") == 1 + len(found) > 1
    assert f"{len(found)} of {len(verdicts)} found" in html and "not found: " in html
    assert all(one.title in found[0]._repr_html_() for one in found[:1])
    bound = Verdict("a", "A", "found", "m", gain=0.25, evidence=pd.DataFrame())
    assert "at most 25" in bound._repr_html_()
    assert "Verdict" not in Verdicts([])._repr_html_()
