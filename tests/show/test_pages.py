"""Hostile and endless names in what is made of a recording: pages, pictures, Markdown on kernels."""

import dataclasses
import html
import io
import json
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from labcode.analysis.rules.writing_launches import write_launches
from labcode.figures.pages.flame import flame_page
from labcode.reports.columns import LONGEST
from labcode.verbs.diagnose.verdicts import judge, rules_on
from labcode.verbs.report.page import write_report
from labcode.verbs.stats import print_all
from labcode.verbs.timeline import write_timeline
from tests.support import exports as e
from tests.support import ncu

HOSTILE = "<script>a</script> [x](javascript:y) ![z](http://w.org/z.png) @mallory \x1b[31m \u202e \u2066"
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\x1b]")


def export(path: Path, name: str) -> Path:
    return e.make_export(
        path,
        kernels=[e.kernel(at, at + 5, correlation=at, name=name) for at in range(100, 900, 10)],
        api=[e.call(at - 5, at - 3, correlation=at) for at in range(100, 900, 10)],
        nvtx=[e.push_pop(at, at + 90, name) for at in range(100, 900, 100)],
    )


@pytest.mark.parametrize("output", ["report.html", "timeline.html", "timeline.svg"])
def test_no_name_turns_or_scripts_a_page(tmp_path: Path, output: str) -> None:
    file, page = export(tmp_path / "a.sqlite", HOSTILE), tmp_path / output
    if output == "report.html":
        write_report([file], page, title=HOSTILE)
    else:
        write_timeline(file, page)
    text = page.read_text()
    data = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', html.unescape(text), re.DOTALL
    )
    assert bool(data) == page.name.endswith(".html")
    if data:
        text = text.replace(data[1], "")
        assert not TURNING.search(json.dumps(json.loads(data[1]), ensure_ascii=False))
    assert not TURNING.search(text)
    assert "<script>a" not in text and "&amp;lt;script>" not in text


def test_no_frame_turns_a_flame_graph() -> None:
    import pandas as pd

    page = flame_page(pd.DataFrame({"stack": [("main", HOSTILE)], "weight": [1], "count": [1]}))
    assert "\\\\u202e" in page and "<script>a" not in page


@pytest.mark.parametrize("what", ["stats", "diagnose"])
def test_markdown_on_kernels_is_text(what: str) -> None:
    report = ncu.opened("basic")
    first = dataclasses.replace(report.list[0], function=HOSTILE, demangled=HOSTILE)
    made = type(report)(report.path, (first,), report.extract, report.warnings)
    output = io.StringIO()
    if what == "diagnose":
        write_launches(made, [(first, judge(first, rules_on("ncu")[0]))], "md", output)
    else:
        from labcode.analysis.stats import ncu as reports
        from labcode.analysis.stats.writer import write

        for of in reports.SHELF.reports.values():
            try:
                write(of(made), "md", output, exact=True)
            except Exception as error:  # what this report lacks
                assert "has no" in str(error) or "lacks" in str(error) or "collect" in str(error), error
            output.write("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(output.getvalue())
    inner = [one for token in tokens for one in token.children or []]
    assert "mallory" in output.getvalue() and not TURNING.search(output.getvalue())
    assert {one.type for one in inner} <= {"text", "text_special", "code_inline", "softbreak"}
    assert not [one for one in tokens if one.type == "html_block"]
    assert not [one for one in inner if one.type == "text" and "@" in one.content]


def test_endless_names_are_cut_and_told_so(tmp_path: Path) -> None:
    file = export(tmp_path / "a.sqlite", "k" * 300_000)
    for fmt in ("table", "md"):
        output = io.StringIO()
        print_all([file], ["cuda_gpu_kern_sum"], fmt, output)
        assert "… (300,000 characters)" in output.getvalue() and len(output.getvalue()) < 20_000
    output = io.StringIO()
    print_all([file], ["cuda_gpu_kern_sum"], "csv", output)
    assert "k" * LONGEST + "… (300,000 characters, " in output.getvalue()  # told apart by their checksums
    for name in ("timeline.svg", "timeline.html"):
        write_timeline(file, tmp_path / name)
    write_report([file], tmp_path / "report.html")
    write_report([file], tmp_path / "report.md")
    assert "k" * 10_000 not in (tmp_path / "timeline.svg").read_text()
    assert "k" * 10_000 not in (tmp_path / "timeline.html").read_text()
    assert "k" * 10_000 not in (tmp_path / "report.html").read_text()
    assert "k" * 10_000 not in (tmp_path / "report.md").read_text()
