"""The roofline against counts by hand, ncu's own metrics, and the datasheet."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.kernel.roofline import (
    counter_ceilings,
    datasheet_ceilings,
    dominant,
    measured_ceilings,
    rates,
    roofline,
)
from labcode.errors import InputError, LabError
from tests.support import ncu
from tests.support.ncu import launch


@pytest.mark.parametrize(
    ("kernel", "precision", "flops"),
    [
        # blocks × threads × rounds × operations a round, from tests/golden/ncu_kernels.cu
        ("doubles", "fp64", 1056 * 256 * (512 * 4 * 2 + 3)),
        ("fma_chain", "fp32", 132 * 256 * 4096 * 2),
        ("fma_independent", "fp32", 1056 * 256 * (1024 * 8 * 2 + 8)),
        ("halves", "fp16", 1056 * 256 * 1024 * 4),
        ("tensor", "fp16_tensor", 528 * 4 * 256 * 4 * (16 * 16 * 16 * 2)),
        ("shared_limited", "fp32", 300 * 128 * 512 * 2),
    ],
)
def test_operations_counted_by_hand(kernel: str, precision: str, flops: int) -> None:
    one = launch(kernel)
    counted = rates(one)[precision] * one.number("duration_ns") * 1e-9
    assert counted == pytest.approx(flops, rel=0.01)
    assert dominant(one) == precision


def test_bytes_of_a_copy() -> None:
    table = roofline(ncu.opened("full").select(kernel="copy_scalar")).set_index("level")
    moved = table["bytes_per_s"] * launch("copy_scalar").number("duration_ns") * 1e-9
    asked = 2 * 4 * (1 << 24)
    # every element crosses the L1 once each way (of which the counter sees the loads) and the L2
    assert moved["L1"] == pytest.approx(asked / 2, rel=0.05)
    assert moved["L2"] == pytest.approx(asked / 2, rel=0.05)
    assert asked / 2 < moved["DRAM"] < 1.1 * asked  # what is written stays in the L2 for a while
    assert (table["bound"] == "memory").all() and (table["flops_per_s"] == 0).all()
    assert 0.3 < table.loc["DRAM", "share_of_roof"] < 0.95


def test_bounds() -> None:
    table = roofline(ncu.opened("full"))
    assert list(table["level"].unique()) == ["L1", "L2", "DRAM"]
    dram = table[table["level"] == "DRAM"].set_index("kernel")
    for kernel in ("doubles", "fma_independent", "tensor", "halves"):
        assert dram.loc[kernel, "bound"] == "compute"
    assert dram.loc["doubles", "share_of_roof"] > 0.9
    assert dram.loc["fma_independent", "share_of_roof"] > 0.75
    assert dram.loc["fma_chain", "share_of_roof"] < 0.5  # one chain a thread, one block an SM
    finite = table[np.isfinite(table["share_of_roof"])]
    assert (finite["share_of_roof"] < 1.02).all()
    assert table["intensity"].ge(0).all()


def test_intensity_falls_towards_the_core() -> None:
    table = roofline(ncu.opened("full").select(kernel="spills"), precision="fp32").set_index("level")
    assert table.loc["L1", "intensity"] < table.loc["DRAM", "intensity"]


def test_ceilings_of_the_counters() -> None:
    found = {(one.kind, one.of): one.value for one in counter_ceilings(launch("doubles"))}
    sm_clock = launch("doubles").metric("smsp__cycles_elapsed.avg.per_second")
    assert found["compute", "fp64"] == pytest.approx(132 * 64 * 2 * sm_clock)
    assert found["compute", "fp32"] == pytest.approx(132 * 128 * 2 * sm_clock)
    assert found["compute", "fp16_tensor"] == pytest.approx(132 * 4096 * sm_clock)
    assert found["memory", "DRAM"] == pytest.approx(4.8e12, rel=0.01)
    assert found["memory", "L1"] == pytest.approx(132 * 128 * launch("doubles").number("l1_clock_hz"))


def test_ceilings_of_the_datasheet() -> None:
    found = {(one.kind, one.of): one for one in datasheet_ceilings("NVIDIA H200")}
    assert found["memory", "DRAM"].value == 4.8e12
    assert found["compute", "fp64"].value == 34e12 and "datasheet" in found["compute", "fp64"].note
    assert datasheet_ceilings("NVIDIA NoSuch") == []
    table = roofline(ncu.opened("full").select(kernel="doubles"), ceilings=list(found.values()))
    dram = table[table["level"] == "DRAM"].iloc[0]
    assert dram["roof_flops_per_s"] == 34e12 and dram["bound"] == "compute"


def test_measured_ceilings(tmp_path: Path) -> None:
    file = tmp_path / "ceilings.json"
    rows = [
        {"kind": "memory", "of": "DRAM", "value": 4.2e12, "note": "copy"},
        {"kind": "compute", "of": "fp32", "value": 6e13},
    ]
    file.write_text(json.dumps({"ceilings": rows}))
    found = measured_ceilings(file)
    assert [(one.of, one.value, one.origin, one.note) for one in found] == [
        ("DRAM", 4.2e12, "measured", "copy"),
        ("fp32", 6e13, "measured", ""),
    ]


def test_ceilings_from_the_record_of_the_program_that_measures_them(tmp_path: Path) -> None:
    rows = [
        {"name": "dram_copy", "kind": "bandwidth", "level": "dram", "unit": "GB/s", "value": 3800.0},
        {"name": "dram_read", "kind": "bandwidth", "level": "dram", "unit": "GB/s", "value": 4160.0},
        {"name": "shared_read", "kind": "bandwidth", "level": "shared", "unit": "GB/s", "value": 32000.0},
        {"name": "mma_bf16", "kind": "compute", "level": "bf16 tensor", "unit": "TFLOP/s", "value": 630.0},
    ]
    file = tmp_path / "record.json"
    for entries in (rows, {row["name"]: row for row in rows}):
        file.write_text(json.dumps({"program": "roofline_kernels", "results": {"ceilings": entries}}))
        found = {(one.kind, one.of): (one.value, one.note) for one in measured_ceilings(file)}
        assert found == {
            ("memory", "DRAM"): (4160e9, "dram_read"),
            ("compute", "fp16_tensor"): (630e12, "mma_bf16"),
        }
    file.write_text(json.dumps({"program": "x", "results": {}}))
    with pytest.raises(InputError, match="not a table of ceilings"):
        measured_ceilings(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "not a table of ceilings"),
        ("no", "not a table of ceilings"),
        ('{"ceilings": [{"kind": "memory", "of": "L9", "value": 1}]}', "a ceiling of kind 'memory' of 'L9'"),
        ('{"ceilings": [{"kind": "compute", "of": "fp32", "value": -1}]}', "values positive"),
    ],
)
def test_bad_ceilings(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        measured_ceilings(file)


def test_missing_ceilings_and_precision(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        measured_ceilings(tmp_path / "none.json")
    with pytest.raises(LabError, match="'fp12' is not a precision; choose one of fp64, fp32"):
        roofline(ncu.opened("full"), precision="fp12")


def test_a_report_without_the_sections() -> None:
    with pytest.raises(InputError, match=r"collect it with `ncu --section SpeedOfLight_RooflineChart`"):
        roofline(ncu.opened("basic"))


def test_shares_of_the_peaks_equal_ncus_roofline_rule() -> None:
    compared = 0
    for one in ncu.opened("full").list:
        rule = next((rule for rule in one.rules if rule.rule == "SOLFPRoofline" and rule.message), None)
        said = re.search(
            r"achieved +(?:close to )?([\d.]+)% of this device's FP32 peak .* ([\d.]+)% of its FP64",
            rule.message if rule else "",
        )
        if said is None:
            continue
        peaks = {c.of: c.value for c in counter_ceilings(one) if c.kind == "compute"}
        ours = [100 * rates(one)[precision] / peaks[precision] for precision in ("fp32", "fp64")]
        assert ours == pytest.approx([float(said[1]), float(said[2])], abs=0.51), one.function
        compared += 1
    assert compared == 14
