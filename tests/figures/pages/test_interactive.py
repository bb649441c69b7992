"""The interactive page: what it holds, and that it works in a browser without network or errors."""

import base64
import functools
import html
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("bokeh")

from labcode import cli, store
from labcode.errors import LabError, ToolError
from labcode.experiments.lab.report_speed.big_export import make_big_export
from labcode.figures.pages import interactive, tiles
from labcode.figures.pages.interactive import bokeh_script, interactive_page
from labcode.reports.kineto.report import open_trace
from labcode.reports.nsys.report import open_report
from labcode.verbs.timeline import write_timeline
from tests.book.check_browser import complaints
from tests.support import traces
from tests.support.exports import call, kernel, make_export, memcpy, push_pop, thread
from tests.support.gpu_metrics import add_metrics

HOSTILE = '</script><img src=x onerror="window.broken=1">\'$$x$$ {{ data }} &lt;'


def page_of(path: Path, title="Timeline", **rows) -> str:
    with open_report(make_export(path / "a.sqlite", **rows)) as report:
        return interactive_page(report, title=title)


def data_of(page: str):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page).group(1))


@functools.cache
def shipped(experiment, run):
    captures = store.load_set(store.SHIPPED_SET)
    with open_report(captures.path_of(experiment, run)) as report:
        return interactive_page(report, title=run)


def test_the_page_brings_everything_along(tmp_path):
    page = page_of(tmp_path, kernels=[kernel(0, 10)])
    assert bokeh_script() in page
    own = page.replace(bokeh_script(), "")
    assert "http:" not in own
    assert "https:" not in own
    assert "src=" not in own


def test_a_page_opens_at_the_part_that_is_asked_for(tmp_path):
    made = make_export(tmp_path / "a.sqlite", kernels=[kernel(100, 200), kernel(800, 900)])
    with open_report(made) as report:
        assert data_of(interactive_page(report, window=(100, 900), view=(300, 700)))["view"] == [200, 600]
        assert "view" not in data_of(interactive_page(report, window=(100, 900)))


def test_the_legend_of_a_trace_speaks_of_annotations(tmp_path):
    with open_trace(traces.training(tmp_path)[0]) as report:
        legend = {entry["name"] for entry in data_of(interactive_page(report))["legend"]}
    assert "annotation" in legend and not any("NVTX" in name for name in legend)
    data = data_of(page_of(tmp_path, kernels=[kernel(0, 10)], nvtx=[push_pop(0, 100, "outer")]))
    assert "NVTX range" in {entry["name"] for entry in data["legend"]}


def test_lanes_nest_and_follow_the_order_of_tracks(tmp_path):
    data = data_of(
        page_of(
            tmp_path,
            kernels=[kernel(0, 10, stream=7), kernel(5, 20, stream=7), kernel(0, 10, stream=9)],
            nvtx=[push_pop(0, 100, "lab:measured"), push_pop(0, 100, "outer"), push_pop(10, 20, "inner")],
            api=[call(0, 9)],
        )
    )
    assert [lane["name"] for lane in data["lanes"]] == [
        "NVTX, main thread",
        "",
        "CUDA API, main thread",
        "stream 7",
        "",
        "stream 9",
    ]
    assert [lane["last"] - lane["first"] for lane in data["lanes"]] == [1] * 6
    places = [lane["y"] for lane in data["lanes"]]
    assert places == sorted(places)
    assert all(b - a > 0.999 for a, b in pairwise(places))
    assert "lab:measured" not in data["labels"]


def test_headings_tell_idle_time(tmp_path):
    data = data_of(page_of(tmp_path, kernels=[kernel(0, 250), kernel(750, 1000)]))
    assert [head["text"] for head in data["heads"]] == ["GPU 0, idle 50% of the window"]


def with_counters(tmp_path):
    """A kernel of 400 ns of which two samples of 200 ns tell; another counter that is always 0."""
    path = make_export(tmp_path / "a.sqlite", kernels=[kernel(0, 400)])
    return add_metrics(path, {"SMs Active": [(0, 25), (200, 75)], "Tensor": [(0, 0), (200, 0)]})


def test_counters_stand_below_the_timeline(tmp_path):
    with open_report(with_counters(tmp_path)) as report:
        data = data_of(interactive_page(report))
        cut = data_of(interactive_page(report, window=(300, 400)))
        thinned = data_of(interactive_page(report, most=0, around=0))
    (counter,) = data["counters"]
    assert (counter["name"], counter["values"]) == ("SMs Active", [25, 75])
    assert counter["y"] > data["lanes"][-1]["y"] and data["height"] == counter["y"] + 2
    assert data["heads"][-1]["text"] == "GPU 0, its own counters: % of what it can do"
    assert data["legend"][-1]["name"] == "counter of the GPU"
    assert cut["counters"][0]["values"] == [75] and thinned["counters"] == data["counters"]
    assert data_of(page_of(tmp_path, kernels=[kernel(0, 10)]))["counters"] == []


def test_details_of_a_copy(tmp_path):
    data = data_of(page_of(tmp_path, memcpys=[memcpy(0, 1000, 16 << 20, src=0)]))
    assert data["details"] == ["16 MiB, pageable to device, 16,800 GB/s"]


def test_too_many_events_for_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(interactive, "MOST_EVENTS", 3)
    with pytest.raises(LabError, match=r"more than 3 events are too many .* \.json for Perfetto"):
        page_of(tmp_path, kernels=[kernel(i, i + 1) for i in range(4)])


def test_a_window_without_events(tmp_path):
    report = open_report(make_export(tmp_path / "a.sqlite", kernels=[kernel(0, 10)]))
    with pytest.raises(LabError, match="no events in this window"):
        interactive_page(report, window=(100, 200))


def test_without_bokeh_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bokeh", None)
    with pytest.raises(ToolError, match="pip install bokeh"):
        page_of(tmp_path, kernels=[kernel(0, 10)])


def test_hostile_names_stay_text(tmp_path):
    page = page_of(
        tmp_path,
        title=HOSTILE,
        kernels=[kernel(0, 10, HOSTILE, short=HOSTILE)],
        nvtx=[push_pop(0, 20, HOSTILE)],
        threads=[thread(100, 101, HOSTILE)],
        api=[call(0, 9, HOSTILE, tid=101)],
    )
    assert HOSTILE not in page
    assert "<img" not in page.replace(bokeh_script(), "")
    assert page.count("</script>") == page.replace(bokeh_script(), "").count("</script>") == 3
    assert HOSTILE in data_of(page)["labels"]


# ---- in a browser


def test_a_shipped_capture_opens_without_complaint(opened):
    tab = opened(shipped("timeline_basics", "improved"))
    assert tab.settled("labTimeline.boxes.data.left.length") > 100
    assert complaints(tab.events, "file:") == []
    assert tab.evaluate("document.querySelectorAll('#legend li').length") >= 5


def test_counters_are_as_high_as_their_mean(opened, tmp_path):
    with open_report(with_counters(tmp_path)) as report:
        tab = opened(interactive_page(report))
    drawn = "labTimeline.boxes.data.%s.slice(-2)"
    assert tab.settled("[...labTimeline.boxes.data.index].slice(-2)") == [-1, -1]
    tops, bottoms = (tab.settled(f"[...{drawn % name}]") for name in ("top", "bottom"))
    heights = [bottom - top for top, bottom in zip(tops, bottoms, strict=True)]
    assert heights[1] == pytest.approx(3 * heights[0]) and bottoms[0] == bottoms[1]
    tab.evaluate(f"window.labHover([{tab.settled('labTimeline.boxes.data.left.length')} - 1])")
    assert "SMs Active: 75 %" in tab.evaluate("document.getElementById('tip').textContent")
    assert complaints(tab.events, "file:") == []


def test_keys_zoom_move_and_fit(opened):
    tab = opened(shipped("timeline_basics", "improved"))
    whole = tab.settled("labTimeline.range.end - labTimeline.range.start")
    tab.key("w")
    assert tab.settled("labTimeline.range.end - labTimeline.range.start") < 0.8 * whole
    before = tab.settled("labTimeline.range.start")
    tab.key("d")
    assert tab.settled("labTimeline.range.start") > before
    tab.key("0")
    assert tab.settled("labTimeline.range.end - labTimeline.range.start") == pytest.approx(whole)
    assert complaints(tab.events, "file:") == []


def test_search_finds_and_steps(opened, tmp_path):
    rows = [kernel(i * 1000, i * 1000 + 500, f"k{i % 2}(int)") for i in range(20)]
    tab = opened(page_of(tmp_path, kernels=rows))
    tab.evaluate("labTimeline.search('K1')")
    assert tab.evaluate("document.getElementById('found').textContent") == "10 found"
    faint = "Array.from(labTimeline.boxes.data.alpha).filter(a => a < 0.5).length"
    assert tab.settled(faint) == 10
    tab.evaluate("labTimeline.step(1); labTimeline.step(1)")
    assert tab.evaluate("document.getElementById('found').textContent") == "2 of 10"
    shown = tab.settled("[labTimeline.range.start, labTimeline.range.end]")
    assert shown[0] <= 3000
    assert shown[1] >= 3500


def test_hostile_names_run_nothing_and_ask_nothing(opened, tmp_path):
    rows = {"kernels": [kernel(0, 10, HOSTILE, short=HOSTILE)], "nvtx": [push_pop(0, 20, HOSTILE, tid=101)]}
    tab = opened(page_of(tmp_path, title=HOSTILE, threads=[thread(100, 101, HOSTILE)], **rows))
    tab.evaluate("labHover([0], {})")
    assert HOSTILE in tab.settled("document.getElementById('tip').textContent")
    assert tab.evaluate("window.broken") is None
    assert tab.evaluate("document.querySelectorAll('img').length") == 0
    assert complaints(tab.events, "file:") == []


def test_light_and_dark_follow_the_system_and_the_button(opened, tmp_path):
    tab = opened(page_of(tmp_path, kernels=[kernel(0, 10)]), scheme="dark")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate("document.documentElement.dataset.theme") == "light"


def test_inside_a_page_it_follows_that_page(opened, tmp_path):
    inner = page_of(tmp_path, kernels=[kernel(0, 10)])
    outer = (
        '<!doctype html><html data-ready="true" data-theme="dark"><link rel="icon" href="data:,">'
        f'<body><iframe srcdoc="{html.escape(inner)}"></iframe></body></html>'
    )
    tab = opened(outer)
    inside = "document.querySelector('iframe').contentDocument.documentElement.dataset"
    tab.wait(f"{inside}.ready === 'true'")
    assert tab.evaluate(f"{inside}.theme") == "dark"
    tab.evaluate("document.documentElement.dataset.theme = 'light'")
    assert tab.settled(f"{inside}.theme") == "light"


def test_a_hundred_thousand_events_stay_smooth(opened, tmp_path):
    """Moving through 100,000 events takes a few frames a step even without a GPU and on a busy machine."""
    with open_report(make_big_export(tmp_path / "big.sqlite", 48_000)) as report:
        page = interactive_page(report)
    count = int(re.search(r">([\d,]+) events\.", page).group(1).replace(",", ""))
    assert count >= 100_000
    tab = opened(page)
    moved = tab.call(
        "Runtime.evaluate",
        awaitPromise=True,
        returnByValue=True,
        expression="""(async () => {
          const t = labTimeline, frame = () => new Promise(requestAnimationFrame), taken = [];
          for (let i = 0; i < 30; i++) {
            const begin = performance.now(), width = t.span * 0.8 ** i;
            t.show(t.span * 0.4, t.span * 0.4 + width);
            await frame(); await frame();
            taken.push(performance.now() - begin);
          }
          return [taken.sort((a, b) => a - b)[15], t.boxes.data.left.length];
        })()""",
    )["result"]["value"]
    assert moved[0] < 250, "milliseconds for two frames; 33 is the least"
    assert complaints(tab.events, "file:") == []


@pytest.fixture(scope="module")
def beside(tmp_path_factory) -> Path:
    """A page of 2,000 kernels in tiles of 100, with what lies beside it."""
    folder = tmp_path_factory.mktemp("tiles")
    rows = [kernel(i * 1000, i * 1000 + 10 + i % 500, f"k{i % 7}(int)", correlation=i) for i in range(2000)]
    calls = [call(0, 1_999_900, "cudaDeviceSynchronize"), call(5000, 5010, "cudaMalloc", tid=101)]
    make_export(folder / "a.sqlite", kernels=rows, api=calls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interactive, "MOST_EVENTS", 100)
        patch.setattr(tiles, "LEAF", 100)
        patch.setattr(tiles, "_BINS", (100, 100))
        write_timeline(folder / "a.sqlite", folder / "a b.html", window="all")
    return folder / "a b.html"


def tile_of(file: Path):
    name, held = re.fullmatch(r"labTile\((.*?),(\{.*\})\);\n", file.read_text()).groups()
    return json.loads(name), json.loads(held)


def numbers(text: str):
    return np.frombuffer(base64.b64decode(text[1:]), {"B": "u1", "H": "<u2", "I": "<u4", "d": "<f8"}[text[0]])


def test_tiles_hold_each_event_once_and_the_overview_all_of_them(beside):
    data = data_of(beside.read_text())
    nodes, root = data["tiles"]["nodes"], data["tiles"]["root"]
    assert int(numbers(root["count"]).sum()) == data["tiles"]["count"] == 2002
    starts, longest = [], 0
    for number, (_, begin, _, pixel) in list(enumerate(nodes))[1:]:
        name, held = tile_of(beside.with_suffix(".tiles") / f"{number}.js")
        assert name == str(number)
        own = numbers(held["start"]) + held["from"]
        longest += sum(label == "cudaDeviceSynchronize" for label in held["labels"])
        if not pixel:
            starts += own[own >= begin].tolist()
            assert len(own) <= 103
    assert len(starts) == 2002 - 1 + (nodes[0][1] == 0)
    assert longest == len(nodes) - 1, "a call over the whole window is in every part"
    _, index = tile_of(beside.with_suffix(".tiles") / "index.js")
    assert int(numbers(index["count"]).sum()) == 2002 and index["whole"]
    assert sorted(index["labels"]) == ["cudaDeviceSynchronize", "cudaMalloc", *(f"k{n}" for n in range(7))]


def test_tiles_are_loaded_as_they_are_zoomed_and_searched(tab, beside):
    tab.size(1000)
    tab.open(beside.as_uri())
    tab.wait("document.documentElement.dataset.ready === 'true'")
    assert tab.settled("labTimeline.kept.size") < 10
    assert sum(tab.settled("[...labTimeline.boxes.data.count]")) >= 2002
    tab.evaluate("labTimeline.show(1000000, 1010000)")
    tab.wait("labTimeline.boxes.data.left.length === 11")
    assert set(tab.settled("[...labTimeline.boxes.data.count]")) == {1}
    tab.evaluate("labHover([5], {})")
    assert "ns, from 1" in tab.settled("document.getElementById('tip').textContent")
    tab.evaluate("labTimeline.search('CUDAM')")
    tab.wait("document.getElementById('found').textContent === '1 found'")
    tab.evaluate("labTimeline.step(1)")
    tab.wait(
        "labTimeline.range.start < 5000 && labTimeline.range.end > 5010 && labTimeline.range.end < 50000"
    )
    tab.evaluate("labTimeline.search('k3')")
    tab.wait("document.getElementById('found').textContent === '286 found'")
    for _ in range(2):
        tab.evaluate("labTimeline.step(-1)")
    tab.wait("labTimeline.range.start <= 1991000 && labTimeline.range.end > 1991010")
    assert tab.evaluate("document.getElementById('found').textContent") == "285 of 286"
    assert complaints(tab.events, "file:") == []


def test_tiles_of_an_earlier_page_go_and_what_others_put_there_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(interactive, "MOST_EVENTS", 100)
    monkeypatch.setattr(tiles, "LEAF", 100)
    for name, count in (("many", 900), ("few", 150), ("none", 50)):
        rows = [kernel(i * 1000, i * 1000 + 10, correlation=i) for i in range(count)]
        make_export(tmp_path / f"{name}.sqlite", kernels=rows)
    page, folder = tmp_path / "x.html", tmp_path / "x.tiles"
    write_timeline(tmp_path / "many.sqlite", page, window="all")
    before = {path.name for path in folder.iterdir()}
    (folder / "notes.txt").write_text("mine")
    (folder / "77.js").write_text("mine, too")
    write_timeline(tmp_path / "few.sqlite", page, window="all")
    after = {path.name for path in folder.iterdir()}
    assert after < {*before, "notes.txt", "77.js"} and {"index.js", "notes.txt", "77.js"} <= after
    assert len(data_of(page.read_text())["tiles"]["nodes"]) == len(after - {"notes.txt", "77.js"})
    write_timeline(tmp_path / "none.sqlite", page, window="all")
    assert {path.name for path in folder.iterdir()} == {"notes.txt", "77.js"}
    for name in ("notes.txt", "77.js"):
        (folder / name).rename(tmp_path / name)
    (folder / "index.js").write_text(tiles.script("index", {}))
    tiles.remove(folder)
    assert not folder.exists()


def test_a_page_without_its_tiles_says_so(opened, beside):
    tab = opened(beside.read_text())
    tab.evaluate("labTimeline.show(1000000, 1010000)")
    tab.wait("document.getElementById('found').textContent.includes('keep that folder beside this page')")


def test_more_events_than_tiles_take(tmp_path, monkeypatch):
    monkeypatch.setattr(interactive, "MOST_TILED", 3)
    make_export(tmp_path / "a.sqlite", kernels=[kernel(i, i + 1) for i in range(4)])
    with pytest.raises(LabError, match=r"more than 3 events are too many"):
        write_timeline(tmp_path / "a.sqlite", tmp_path / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]


@pytest.mark.parametrize(
    "command", [["timeline", "{}", "-o", "x.html"], ["flame", "{}", "--of", "launches", "-o", "x.html"]]
)
def test_without_bokeh_one_line_and_no_file(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = store.load_set(store.SHIPPED_SET).path_of("python_backtraces", "baseline")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "bokeh", None)
    monkeypatch.setattr(sys, "argv", ["labcode", *(word.format(capture) for word in command)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "drawn by Bokeh, which is not installed" in said and len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
