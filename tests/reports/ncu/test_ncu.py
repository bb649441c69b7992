"""Reports of Nsight Compute: launches, metrics, rules, source, device, against what ncu prints of them."""

import json
import lzma
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labcode.errors import InputError, LabError
from labcode.reports.ncu import extract
from labcode.reports.ncu.names import METRICS, STALL_ENDINGS, stall_names
from labcode.reports.ncu.report import LAUNCH_COLUMNS, open_report, plain
from tests.support import ncu

KERNELS = (
    *(
        "copy_scalar",
        "copy_vector",
        "strided",
        "transpose_naive",
        "conflicts",
        "fma_chain",
        "fma_independent",
    ),
    *("doubles", "halves", "tensor", "diverge", "spills", "atomics", "shared_limited"),
)


def test_launches() -> None:
    report = ncu.opened("full")
    table = report.launches()
    assert list(table.columns) == list(LAUNCH_COLUMNS)
    assert tuple(table["kernel"]) == KERNELS
    row = table.iloc[0]
    assert row["demangled"] == "copy_scalar(const float *, float *, unsigned long)"
    assert row["mangled"] == "_Z11copy_scalarPKfPfm"
    assert (row["grid_x"], row["block_x"], row["cc"], row["stream"]) == (1056, 256, "9.0", 7)
    assert table.loc[table["kernel"] == "shared_limited", "dynamic_shared_bytes"].item() == 100 << 10
    assert table.loc[table["kernel"] == "conflicts", "static_shared_bytes"].item() == 32 << 10
    assert (table["duration_ns"] > 1000).all() and (table["sm_clock_hz"] > 1e9).all()


def test_facts_of_the_session() -> None:
    report = ncu.opened("full")
    assert report.product_version == "2025.3.1.0" and report.warnings == ()
    assert report.clock_control == "none"
    assert report.command.startswith("ncu --clock-control none --set full")
    assert "/" not in report.command


def test_units_are_there_where_the_reader_lies_in_a_folder_with_an_umlaut(tmp_path: Path) -> None:
    """By itself it leaves nearly all of them empty there, and says nothing."""
    spec = find_spec("ncu_report")  # this process loads no native reader
    assert spec is not None and spec.origin is not None
    there = tmp_path / "Größe mit Raum" / "ncu_report"
    there.mkdir(parents=True)
    for file in Path(spec.origin).parent.iterdir():
        (there / file.name).symlink_to(file)
    report = ncu.path("few.ncu-rep")
    made = tmp_path / "few.json"
    words = [sys.executable, "-P", extract.__file__, report, made]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": f"{there.parent}"})
    metrics = json.loads(made.read_text())["launches"][0]["metrics"]
    table = ncu.opened("few").metrics()
    elsewhere = table[table["launch"] == 0].set_index("name")["unit"].to_dict()
    assert {name: metrics[name][1] for name in elsewhere} == elsewhere


def test_metrics_keep_their_exact_values() -> None:
    table = ncu.opened("few").metrics()
    assert list(table.columns) == ["launch", "name", "label", "unit", "value", "text"]
    first = table[table["launch"] == 0].set_index("name")
    assert first.loc["sm__inst_executed.sum", "unit"] == "inst"
    duration = ncu.opened("few").list[0].number("duration_ns")
    assert first.loc["gpu__time_duration.sum", "value"] == duration
    assert first.loc["gpu__time_duration.sum", "text"] == str(duration)


def test_device() -> None:
    device = ncu.opened("sol").list[0].device()
    assert device["display_name"] == "NVIDIA H200" and device["multiprocessor_count"] == 132
    assert ncu.opened("sol").list[0].compute_capability == (9, 0)


def test_rules() -> None:
    table = ncu.opened("full").rules()
    stall = table[(table["kernel"] == "transpose_naive") & (table["rule"] == "UncoalescedGlobalAccess")]
    assert len(stall) and stall["kind"].isin(["OPT", ""]).all()
    bound = table[(table["rule"] == "CPIStall") & (table["kind"] == "OPT")]
    assert (bound["speedup_pct"] > 0).all() and bound["speedup_kind"].isin(["global", "local"]).all()
    assert not table["message"].str.contains("@").any()
    assert table["focus"].str.contains(" = ").any()


def test_links_in_messages() -> None:
    text = "See @url:the guide:https://x.y/z@ and @section:Occupancy:the section@."
    assert plain(text) == "See the guide (https://x.y/z) and the section."


def test_source_equals_ncus_source_page() -> None:
    report = ncu.opened("full")
    rows = ncu.page("full", "source")
    starts = [place for place, row in enumerate(rows) if row and row[0] == "Kernel Name"]
    blocks = [rows[a:b] for a, b in pairwise([*starts, len(rows)])]
    seen = set()
    for block in blocks:
        name, header = block[0][1].split("(")[0], block[1]
        body = [row for row in block[2:] if row and row[0].startswith("0x")]
        if name in seen or not body:
            continue
        seen.add(name)
        launch = next(one.id for one in report.list if one.function == name)
        ours = report.source(launch)
        assert [f"0x{a:x}" for a in ours["address"]] == [row[0] for row in body]
        assert list(ours["sass"]) == [row[1].strip() for row in body]
        for column, title in (("executed", "Instructions Executed"), ("samples", "# Samples")):
            place = header.index(title)
            assert [str(value) for value in ours[column]] == [row[place] for row in body], (name, column)
        place = header.index("stall_long_sb")
        assert [str(value) for value in ours["stall_long_scoreboard"]] == [row[place] for row in body]
    assert seen == set(KERNELS)


def test_source_names_lines() -> None:
    report = ncu.opened("full")
    table = report.source(0)
    assert set(table["file"]) == {"ncu_kernels.cu"} and "ncu_kernels.cu" in report.files
    lines = report.files["ncu_kernels.cu"].split("\n")
    load = table[table["sass"].str.contains("LDG")].iloc[0]
    assert "to[i] = from[i]" in lines[load["line"] - 1]
    assert load["sectors"] == load["sectors_ideal"] > 0
    assert (table["offset"].diff().dropna() == 16).all()


def test_selection() -> None:
    report = ncu.opened("full")
    assert [one.function for one in report.select(kernel="^copy").list] == ["copy_scalar", "copy_vector"]
    assert [one.id for one in report.select(launch=3).list] == [3]
    with pytest.raises(
        LabError, match=r"no kernel matches 'gemm'; there are: copy_scalar, copy_vector, strided"
    ):
        report.select(kernel="gemm")
    with pytest.raises(LabError, match="no launch 99; there are: 0 copy_scalar"):
        report.select(launch=99)
    with pytest.raises(LabError, match=r"--kernel \(: not a regular expression"):
        report.select(kernel="(")


def test_a_section_that_was_not_collected() -> None:
    launch = ncu.opened("few").list[0]
    with pytest.raises(InputError) as caught:
        launch.number("achieved_occupancy_pct")
    text = str(caught.value)
    assert "launch 0 (copy_scalar) has no sm__warps_active" in text
    assert "collect it with `ncu --section Occupancy` (or --set full)" in text
    with pytest.raises(LabError, match="has no metric dram__foo; collect it with `ncu --metrics dram__foo`"):
        launch.metric("dram__foo")
    assert np.isnan(launch.number_or("achieved_occupancy_pct"))


def test_a_compressed_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    packed = tmp_path / "few.ncu-rep.xz"
    packed.write_bytes(lzma.compress(ncu.path("few.ncu-rep").read_bytes()))
    report = open_report(packed)
    pd.testing.assert_frame_equal(report.launches(), ncu.opened("few").launches())
    assert report.path == packed
    again = open_report(packed)  # from the cache
    pd.testing.assert_frame_equal(report.metrics(), again.metrics())


def test_every_meaning_has_a_name_in_the_captures() -> None:
    reports = [ncu.opened(name) for name in ncu.REPORTS]
    missing = [m for m in METRICS if not any(one.has(m) for report in reports for one in report.list)]
    assert missing == []
    readings = ncu.opened("full").list[0].readings
    for state in STALL_ENDINGS:
        for names in stall_names(state):
            assert any(name in readings for name in names), state


# What chips lack: tensor formats they do not have, and warp states of other generations.
_LACKS = {
    "tu102": {
        "tensor_bf16_per_cycle",
        "tensor_tf32_per_cycle",
        "tensor_fp8_per_cycle",
        "tensor_fp64_per_cycle",
    }
    | {"tensor_fp16_peak_per_cycle", "pipe_fmaheavy_pct"},  # an FMA pipe in one piece
    "ga100": {"tensor_fp8_per_cycle", "pipe_fmaheavy_pct"},
    "ga102": {"tensor_fp8_per_cycle"},
    "ad102": set(),
    "gb100": set(),
    "gb202": set(),
}
# collected by the profiler itself, so not in the lists that --query-metrics prints
_OWN = ("launch__", "derived__", "memory_", "inst_", "sm__maximum_warps", "smsp__pcsamp")


@pytest.mark.parametrize("chip", sorted(_LACKS))
def test_names_on_other_chips(chip: str) -> None:
    names = set(ncu.path(f"chip.{chip}.txt").read_text().split())
    lacking = {
        meaning
        for meaning, metric in METRICS.items()
        if not any(name.startswith(_OWN) or name.split(".")[0] in names for name in metric.names)
    }
    assert lacking == _LACKS[chip]


def test_bytes_that_are_no_text_do_not_reach_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gives them as lone surrogates, which a table of Arrow's refuses."""
    monkeypatch.setattr(extract, "extract", lambda _: {"sass": ["MOV \udcea R1", "größer"]})
    made = tmp_path / "made.json"
    assert extract.main(["a.ncu-rep", str(made)]) == 0
    assert json.loads(made.read_text(encoding="utf-8"))["sass"] == ["MOV ? R1", "größer"]
