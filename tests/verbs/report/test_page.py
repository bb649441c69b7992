"""The page of `labcode report`: self-contained, escaped, and working in a browser, light, dark and narrow."""

import re
from pathlib import Path
from typing import Any

import pytest

from labcode import store
from labcode.analysis.rules import finding
from labcode.experiments.lab.report_speed.big_export import make_big_export
from labcode.figures.pages import interactive
from labcode.verbs.report import page as report
from tests.analysis.timeline.test_iterations import steps
from tests.book.check_browser import Browser, complaints
from tests.support import exports as x
from tests.support import histories
from tests.support.command import labcode

HOSTILE = '<script>window.broken=1</script><img src=x onerror="window.broken=1">"\'&{{ 7*7 }}'


def shipped(experiment: str, file: str) -> Path:
    return store.sets_root() / store.SHIPPED_SET / experiment / file


def hostile(path: Path) -> Path:
    rows = steps([20] * 6, name=HOSTILE + " {}")
    rows["kernels"] = [
        {**row, **x.kernel(row["start"], row["end"], HOSTILE, short=HOSTILE, correlation=place + 1)}
        for place, row in enumerate(rows["kernels"])
    ]
    rows["api"] += [x.call(0, 10, HOSTILE, tid=101)]
    more = {"gpus": [x.gpu(name=HOSTILE)], "threads": [x.thread(100, 101, HOSTILE)]}
    return x.make_export(path / "run.sqlite", **more, **rows)


def test_the_page_holds_everything_and_asks_for_nothing(tmp_path: Path) -> None:
    file, page = hostile(tmp_path), tmp_path / "report.html"
    done = labcode("report", file, "--before", file, "--title", HOSTILE, "-o", page)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{page}\n", "")
    text = page.read_text(encoding="utf-8")
    outside = re.sub(r' srcdoc="[^"]*"', "", text)
    assert outside.count("<script") == 1 and "<img src=x" not in text and HOSTILE not in text
    assert "{{ 7*7 }}" in outside and "49" not in re.sub(r"[\d.,]*49[\d.,]*", "", outside)
    addresses = re.findall(r'(?:src|href|srcset)="([^"]{0,40})', outside)
    assert {one.partition(":")[0] for one in addresses if not one.startswith(("#", ".."))} == {"data"}
    for title in (
        "What was run on what",
        "Before and after",
        "Iterations",
        "Timeline",
        "Kernels",
        "Calls of CUDA",
    ):
        assert f"{title}</h2>" in outside
    assert len(text) < 10_000_000


def test_verdicts_come_worst_first_with_evidence_bound_and_the_page_of_the_book(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    report.write_report([shipped("timeline_basics", "baseline.nsys.xz")], page, book="https://example.org/b")
    text = page.read_text(encoding="utf-8")
    bounds = [float(one) for one in re.findall(r'class="gain">([\d.]+) % of an iteration', text)]
    assert len(bounds) >= 3 and bounds == sorted(bounds, reverse=True)
    assert 'href="https://example.org/b/nsys/timeline-basics.html"' in text
    assert "Where an iteration&#39;s time goes" in text and "idle: loading data" in text
    assert "evidence, 5 of " in text and "idle-gaps" in text


def test_links_lead_to_pages_that_are_there(tmp_path: Path) -> None:
    pages = report.book_pages(None, tmp_path)
    assert (tmp_path / pages("nsys/timeline-basics")).is_file() and pages("nsys/none") == ""
    assert finding.Verdict("", "", "found", "").book == ""


def test_launches_memory_and_traces_have_their_sections(tmp_path: Path) -> None:
    history = histories.write(tmp_path, histories.leaking())
    for files, wanted in (
        (
            [shipped("ncu_softmax", "steps.ncu-rep.xz")],
            ("Roofline of", "What warps wait for", "Occupancy"),
        ),
        ([history], ("Memory in use over time", "What was in use at the peak")),
        (
            [shipped("torch_profiler", "baseline.trace.json.gz")],
            (
                "Operators, calls and kernels",
                "Time by nn.Module",
                "Memory by the trace",
                "tokens per iteration",
                "MFU",
            ),
        ),
    ):
        page = tmp_path / "a.html"
        report.write_report(files, page)
        text = page.read_text(encoding="utf-8")
        assert [one for one in wanted if one not in text] == []


def test_without_bokeh_the_timeline_is_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise interactive.ToolError("interactive pages are drawn by Bokeh, which is not installed")

    monkeypatch.setattr(interactive, "require_bokeh", absent)
    page = tmp_path / "a.html"
    report.write_report([hostile(tmp_path)], page)
    text = page.read_text(encoding="utf-8")
    assert "<iframe" not in text and "A still picture: interactive pages are drawn by Bokeh" in text
    assert "Timeline of the measured part" in text


def test_a_capture_without_gpu_work_is_reported_too(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    report.write_report([x.make_export(tmp_path / "a.sqlite", nvtx=[x.push_pop(0, 100, "load")])], page)
    text = page.read_text(encoding="utf-8")
    assert "No rule found anything." in text and "<iframe" in text
    report.write_report([x.make_export(tmp_path / "b.sqlite")], page)
    assert "<iframe" not in page.read_text(encoding="utf-8")


# ---- in a browser


def ready(tab: Browser, page: Path, scheme: str, width: int) -> Any:
    """Open the page from disk, wait for its timeline, give what is wrong."""
    tab.scheme(scheme)
    tab.size(width)
    tab.open(page.as_uri())
    tab.evaluate("document.getElementById('timeline').scrollIntoView()")
    inside = "document.querySelector('iframe').contentDocument.documentElement.dataset"
    tab.wait(f"{inside}.ready === 'true'")
    assert tab.evaluate(f"{inside}.theme") == scheme
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate("[...document.images].every((one) => one.naturalWidth > 0 && one.alt)")
    return complaints(tab.events, "file:")


def test_it_works_in_light_dark_and_on_a_phone_and_runs_no_hostile_name(tab: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    report.write_report([hostile(tmp_path)], page, title=HOSTILE)
    seen = []
    for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 390)):
        assert ready(tab, page, scheme, width) == []
        assert tab.evaluate("window.broken ?? document.querySelector('iframe').contentWindow.broken") is None
        seen.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen == ["rgb(255, 255, 255)", "rgb(18, 18, 18)", "rgb(18, 18, 18)"]
    ids = "[...document.querySelectorAll('nav a')].every((one) => document.querySelector(one.hash))"
    assert tab.evaluate(ids) and tab.evaluate("document.title") == HOSTILE


def test_a_long_run_is_joined_outside_of_one_stretch(tab: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    report.write_report([make_big_export(tmp_path / "big.sqlite", 80_000)], page)
    assert ready(tab, page, "light", 1280) == []
    inner = "document.querySelector('iframe').contentWindow"
    assert "each of its own from" in tab.evaluate(f"{inner}.document.querySelector('h1').textContent")
    assert tab.evaluate(f"{inner}.labTimeline.boxes.data.left.length") > 500
    assert page.stat().st_size < 10_000_000


def test_names_in_a_message_are_code_and_nothing_else_is_markup() -> None:
    assert report._coded("in `f<x>`, a.py:3; <b>") == "in <code>f&lt;x&gt;</code>, a.py:3; &lt;b&gt;"
    assert report._coded("a lone ` <i>") == "a lone ` &lt;i&gt;"
