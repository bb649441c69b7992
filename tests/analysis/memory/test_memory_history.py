"""Histories of the allocator: every number by hand; bad files told in one line."""

import io
import lzma
import pickle
from pathlib import Path
from typing import Any

import pytest

from labcode import store
from labcode.analysis.memory import history as analysis
from labcode.errors import InputError, LabError
from labcode.figures.charts.memory import memory_timeline, write_memory_timeline
from labcode.reports.memory.history import MemoryHistory, open_history
from labcode.verbs.stats import print_all, write_all
from tests.support import histories
from tests.support.histories import KEPT, LEAK, LINEAR, MODEL, event, leaking


def opened(folder: Path, content: Any, name: str = "run.memory.json.xz") -> MemoryHistory:
    return open_history(histories.write(folder, content, name))


def test_live_bytes(tmp_path: Path) -> None:
    table = analysis.live_bytes(opened(tmp_path, leaking(2)))
    assert table["live_bytes"].tolist() == [4096, 5096, 5120, 4120, 5120, 5144, 4144]
    assert table["t_us"].tolist() == [0, 1, 2, 50, 101, 102, 150]
    assert table["live_blocks"].tolist() == [1, 2, 3, 2, 3, 4, 3]


def test_peak(tmp_path: Path) -> None:
    table = analysis.peak(opened(tmp_path, leaking(3)))
    assert table["site"].tolist() == [analysis.BEFORE, MODEL, LEAK]
    assert table["bytes"].tolist() == [4096, 1000, 72] and table["at_us"].unique().tolist() == [202]
    assert table["share"].sum() == pytest.approx(1)
    assert table["stack"].tolist()[1].startswith("labcode/workloads/train.py:40 step; labcode/")


def test_allocations_and_sites(tmp_path: Path) -> None:
    history = opened(tmp_path, leaking(4))
    table = analysis.allocations(history)
    assert table["bytes"].tolist() == [4096, *[1000] * 4, *[24] * 4]
    assert table["end_us"].isna().tolist() == [True, *[False] * 4, *[True] * 4]
    sites = analysis.sites(history).set_index("site")
    assert sites.loc[MODEL].to_dict() == {
        "allocations": 4,
        "allocated_bytes": 4000,
        "freed": 4,
        "live_bytes": 0,
        "live_blocks": 0,
        "most_bytes": 1000,
    }
    assert sites.loc[LEAK, "live_bytes"] == sites.loc[LEAK, "most_bytes"] == 96


def test_the_site_lies_outside_of_cpp() -> None:
    """As with ``stacks="all"``, which PyTorch records by default."""
    cpp = (
        "??:0 torch::unwind::unwind()",
        "RegisterCUDA.cpp:0 at::(anonymous namespace)::empty",
        ":0 c10::raw",
    )
    assert analysis.site((*cpp, "model.py:39 forward", "train.py:2 <module>")) == "model.py:39 forward"


def test_leaks(tmp_path: Path) -> None:
    (row,) = analysis.leaks(opened(tmp_path, leaking(10))).to_dict("records")
    assert (row["site"], row["blocks"], row["bytes"], row["every_us"]) == (LEAK, 10, 240, 100.0)
    assert (row["freed"], row["first_us"], row["last_us"]) == (0, 2, 902)
    clean = leaking(10)
    clean["events"] += [event(990, "free_requested", 100 + step, 24, KEPT) for step in range(10)]
    assert len(analysis.leaks(opened(tmp_path, clean))) == 0


def test_what_stays_but_does_not_pile_up_is_no_leak(tmp_path: Path) -> None:
    """An optimizer's state, a cache that is full after half of the steps, and the last step's gradients."""
    state, cache, gradients = [[0, number] for number in (1, 2, 3)]
    content = leaking(12)
    for number in range(4):
        content["events"].insert(2 + number, event(1, "alloc", 500 + number, 64, state))
    for step in range(12):
        at = 100 * step + 60
        if step < 6:
            content["events"].append(event(at, "alloc", 600 + step, 512, cache))
        if step:
            content["events"] += [event(at, "free_requested", 700 + n, 4096, gradients) for n in range(5)]
        content["events"] += [event(at + 1, "alloc", 700 + n, 4096, gradients) for n in range(5)]
    content["events"].sort(key=lambda one: one["t_us"])
    (row,) = analysis.leaks(opened(tmp_path, content)).to_dict("records")
    assert (row["site"], row["blocks"]) == (LEAK, 12)


def test_leaks_of_captures() -> None:
    """What each recorded loop of `memory_leak` keeps, by the way it keeps it."""
    captures = store.load_set(store.SHIPPED_SET)
    found = {}
    for run in captures.experiments["torch_memory"].runs:
        history = open_history(captures.path_of("torch_memory", run, ".memory.json"))
        used = captures.record("torch_memory", run)["results"]["used_bytes"]
        named = int(analysis.leaks(history)["bytes"].sum())
        found[run] = named / max(used[-1] - used[0], 512) * (len(used) - 1) / len(used)
    assert found.pop("fixed") < 0.1
    assert found and all(share == pytest.approx(1, abs=0.01) for share in found.values()), found


def test_an_address_that_is_used_again(tmp_path: Path) -> None:
    content = leaking(0)
    content["events"] = [
        event(0, "alloc", 5, 10, LINEAR),
        event(5, "alloc", 5, 20, LINEAR),  # its free was lost
        event(9, "free_completed", 5, 20, LINEAR),
        event(11, "free_requested", 77, 3, LINEAR),  # of something older than the recording
    ]
    blocks = analysis.lifetimes(opened(tmp_path, content))
    assert blocks["size"].tolist() == [4096, 10, 20]
    assert blocks["end_us"].tolist()[1:] == [5, 9]


def test_stacked_keeps_the_peak_and_the_sum(tmp_path: Path) -> None:
    history = opened(tmp_path, leaking(60))
    total = analysis.live_bytes(history)["live_bytes"]
    for most, points in ((8, 1000), (1, 7), (2, 31)):
        times, areas = analysis.stacked(history, most=most, points=points)
        whole = sum(areas.values())
        assert len(times) == len(whole) <= max(points, len(total) if points >= len(total) else points)
        assert whole.max() == total.max()
        assert list(areas)[-1] == ("other sites" if most < 3 else MODEL)
        assert next(iter(areas)) == analysis.BEFORE


def test_figure(tmp_path: Path) -> None:
    figure = memory_timeline(opened(tmp_path, leaking(20)), title="a leak")
    texts = [text.get_text() for text in figure.texts]
    assert "a leak" in texts and MODEL in texts and LEAK in texts
    assert "peak 5.45 KiB" in [text.get_text() for text in figure.axes[0].texts]
    path = histories.write(tmp_path, leaking(5))
    assert write_memory_timeline(path, tmp_path / "x.svg").read_text().startswith("<?xml")
    with pytest.raises(LabError, match=r"x\.html: the timeline of a memory history is a picture"):
        write_memory_timeline(path, tmp_path / "x.html")
    empty = leaking(0)
    empty.update(events=[], live_before=[])
    with pytest.raises(LabError, match="no events to draw"):
        write_memory_timeline(histories.write(tmp_path, empty), tmp_path / "x.svg")


def test_stats(tmp_path: Path) -> None:
    path, output, notes = histories.write(tmp_path, leaking()), io.StringIO(), io.StringIO()
    print_all([path], ["leaks"], "csv", output, notes=notes)
    assert output.getvalue().startswith(
        f"site,blocks,bytes,share,every_us,first_us,last_us,freed,stack\n{LEAK},"
    )
    made = write_all([path], [], "json", tmp_path / "out")
    assert [file.name for file in made.files] == ["run_peak.json", "run_sites.json", "run_leaks.json"]
    for words, message in (
        (([path], ["leak"], "csv"), "did you mean leaks"),
        (([path], [], "xml"), "'xml' is not a format"),
    ):
        with pytest.raises(LabError, match=message):
            print_all(*words, output)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**leaking(), "schema": 2}, "memory history of schema 2, newer than this labcode knows (1); update"),
        ({**leaking(), "schema": "x"}, "its schema is no number ('x')"),
        ({"events": []}, "JSON, but no memory history: it has no schema"),
        ({"schema": 1}, "JSON, but no memory history (Object missing required field `events`)"),
        ({**leaking(), "events": [{"t_us": "x"}]}, "JSON, but no memory history (Expected `int`, got `str`"),
        (b"[1, 2]", "JSON, but no memory history"),
        (b'{"schema": 1, "events": [', "not valid JSON, or cut off"),
        (b"", "not valid JSON, or cut off"),
        (b'{"schema": 1, "a": ' + b"[" * 1_000_000, "nested too deep"),
        (pickle.dumps({"segments": []}), "a pickle, as torch.cuda.memory._dump_snapshot writes it"),
    ],
)
def test_refused(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        opened(tmp_path, content)
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)


def test_missing_and_damaged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.memory\.json: no such file"):
        open_history(tmp_path / "none.memory.json")
    packed = lzma.compress(b"x" * 100_000)
    for name, content in (("a.memory.json.xz", packed[:40]), ("b.memory.json.gz", b"\x1f\x8b1234567890")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="cannot be unpacked"):
            open_history(tmp_path / name)


def test_what_is_odd_is_said(tmp_path: Path) -> None:
    content = leaking(3)
    content["torch"] = "9.9"
    content["events"] += [
        event(400, "teleport", 1, 5, LINEAR),
        event(401, "alloc", 500, -5, LINEAR),
        event(30, "alloc", 501, 5, [99]),
    ]
    warnings = "\n".join(opened(tmp_path, content).warnings)
    assert "1 events of kinds that this labcode does not know (teleport), recorded by torch 9.9" in warnings
    assert "1 events have a negative size" in warnings and "1 frames of stacks are missing" in warnings
    assert "time goes backward 1 times" in warnings


def test_what_a_recording_is_converted_to_is_read(tmp_path: Path) -> None:
    from labcode.experiments.shared.memory_history import convert, live_blocks

    frames = [{"filename": "labcode/workloads/train.py", "line": 51, "name": "remember"}]
    block = {
        "address": 4096,
        "size": 512,
        "requested_size": 500,
        "state": "active_allocated",
        "frames": frames,
    }
    segment = {
        "address": 4096,
        "total_size": 2 << 20,
        "stream": 0,
        "segment_type": "small",
        "blocks": [block],
    }
    before = live_blocks({"segments": [segment]})
    trace = [
        {"action": "alloc", "addr": 8192, "size": 300, "stream": 0, "time_us": 1000, "frames": frames},
        {"action": "free_requested", "addr": 4096, "size": 500, "stream": 0, "time_us": 1500, "frames": []},
    ]
    content = convert({"segments": [segment], "device_traces": [[], trace]}, "2.11.0", before)
    history = opened(tmp_path, content)
    assert history.warnings == () and history.torch == "2.11.0"
    table = analysis.live_bytes(history)
    assert table["live_bytes"].tolist() == [512, 812, 300] and table["t_us"].tolist() == [0, 0, 500]
    assert analysis.allocations(history)["site"].tolist() == [analysis.BEFORE, LEAK]


def test_numbers_that_no_gpu_has_are_left_out(tmp_path: Path) -> None:
    content = histories.leaking(2)
    before = open_history(histories.write(tmp_path, content))
    odd = [(1, 2**63), (2**64 - 1, 8), (1, 2**62)]
    content["events"] += [histories.event(500, "alloc", addr, size, []) for addr, size in odd]
    content["live_before"].append({"addr": 8, "size": 2**63, "stream": 0, "frames": []})
    found = open_history(histories.write(tmp_path, content))
    assert found.events.equals(before.events) and found.live_before.equals(before.live_before)
    assert [line for line in found.warnings if "4 events or blocks have numbers that no GPU has" in line]
