"""`labcode timeline`: the three kinds of files, whole or not at all, and windows."""

import gzip
import json
import xml.etree.ElementTree as ET

import pytest

from labcode import store
from labcode.errors import InputError, LabError
from labcode.figures.timeline import overlay
from labcode.reports.nsys.report import open_report
from labcode.verbs import timeline as verb
from labcode.verbs.timeline import choose_window, write_timeline
from tests.support.exports import call, domain, kernel, make_export, push_pop


@pytest.fixture
def capture(tmp_path):
    return make_export(
        tmp_path / "a.sqlite",
        kernels=[kernel(1_000_000 * i, 1_000_000 * i + 400_000, f"k{i}(int)") for i in range(1, 10)],
        api=[call(500_000, 20_000_000)],
        nvtx=[
            push_pop(900_000, 9_500_000, "lab:measured"),
            domain(1, "lib"),
            *(push_pop(1_000_000 * i, 1_000_000 * i + 500_000, "step") for i in range(1, 5)),
            push_pop(6_000_000, 6_100_000, "inner", domain=1),
        ],
    )


def test_a_picture(capture, tmp_path):
    path = write_timeline(capture, tmp_path / "x.svg")
    assert path == tmp_path / "x.svg"
    assert ET.parse(path).getroot().tag.endswith("svg")
    assert "step" in path.read_text(encoding="utf-8")


def test_a_page(capture, tmp_path):
    text = write_timeline(capture, tmp_path / "x.HTML").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>a.sqlite</title>" in text


def test_a_trace_plain_and_packed(capture, tmp_path):
    plain = write_timeline(capture, tmp_path / "x.json").read_bytes()
    packed = write_timeline(capture, tmp_path / "x.json.gz").read_bytes()
    assert gzip.decompress(packed) == plain
    assert len(json.loads(plain)["traceEvents"]) > 10
    again = write_timeline(capture, tmp_path / "y.json.gz").read_bytes()
    assert again == packed, "the same capture gives the same bytes"


@pytest.mark.parametrize("suffix", [".json", ".pftrace"])
def test_of_very_many_operations_the_path_is_left_out_and_that_said(
    capture, tmp_path, suffix, monkeypatch, capsys
):
    write_timeline(capture, tmp_path / f"whole{suffix}")
    assert not capsys.readouterr().err
    for part in (overlay, verb):
        monkeypatch.setattr(part, "MOST_WALKED", 0)
    write_timeline(capture, tmp_path / f"less{suffix}")
    assert capsys.readouterr().err == (
        "note: the critical path is left out: more than 0 GPU operations; --window FROM..TO of fewer has it\n"
    )
    whole, less = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("whole", "less"))
    assert b"critical path" in whole and b"critical path" not in less


@pytest.mark.parametrize("name", ["x.png", "x", "x.gz", ".json"])
def test_an_unknown_suffix_names_the_others(capture, tmp_path, name):
    with pytest.raises(LabError, match=r"is not a kind of timeline; .* \.svg, \.html, \.pftrace or \.json"):
        write_timeline(capture, tmp_path / name)


@pytest.mark.parametrize("suffix", [".svg", ".html", ".json", ".json.gz", ".pftrace"])
def test_without_events_there_is_no_file(tmp_path, suffix):
    empty = make_export(tmp_path / "empty.sqlite")
    with pytest.raises(LabError, match=r"empty\.sqlite: no events to draw"):
        write_timeline(empty, tmp_path / f"x{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.sqlite"]


def test_a_capture_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"missing\.sqlite"):
        write_timeline(tmp_path / "missing.sqlite", tmp_path / "x.svg")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        (None, (900_000, 9_500_000)),
        ("all", (500_000, 20_000_000)),
        ("1ms..2.5ms", (1_900_000, 3_400_000)),
        ("..300 us", (900_000, 1_200_000)),
        ("300µs..", (1_200_000, 9_500_000)),
        ("100ns..0.001s", (900_100, 1_900_000)),
        ("1ms..99s", (1_900_000, 9_500_000)),
        ("step", (1_000_000, 1_500_000)),
        ("step#3", (3_000_000, 3_500_000)),
        ("inner", (6_000_000, 6_100_000)),
        ("lib:inner", (6_000_000, 6_100_000)),
    ],
)
def test_windows(capture, text, window):
    with open_report(capture) as report:
        assert choose_window(report, text) == window


@pytest.mark.parametrize("text", ["2ms..1ms", "1s..2s", "5ms..5ms"])
def test_a_window_without_width(capture, text):
    with open_report(capture) as report, pytest.raises(LabError, match=r"from 0 ms to 8\.600 ms"):
        choose_window(report, text)


@pytest.mark.parametrize("text", ["nothing", "step#9", "step#0", "1..2", "1ms...2ms", ""])
def test_a_window_that_is_none(capture, text):
    with open_report(capture) as report, pytest.raises(LabError, match=r"no NVTX range .*step.*10ms\.\.25ms"):
        choose_window(report, text)


def test_the_nearest_ranges_are_named_first(capture):
    with open_report(capture) as report, pytest.raises(LabError, match=r"those there are \(lib:inner, "):
        choose_window(report, "lib:iner")


def test_a_window_holds_for_every_kind(capture, tmp_path):
    events = json.loads(write_timeline(capture, tmp_path / "x.json", window="step#2").read_bytes())
    kernels = [event["name"] for event in events["traceEvents"] if event.get("cat") == "kernel"]
    assert kernels == ["k2"]
    page = write_timeline(capture, tmp_path / "x.html", window="step#2").read_text(encoding="utf-8")
    assert ">3 events." in page, "the kernel, its range, and the call around"


def test_a_shipped_capture(tmp_path):
    captures = store.load_set(store.SHIPPED_SET)
    file = captures.path_of("timeline_basics", "improved")
    for suffix in (".svg", ".html", ".json.gz"):
        assert write_timeline(file, tmp_path / f"x{suffix}").stat().st_size > 10_000
