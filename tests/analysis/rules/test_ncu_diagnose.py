"""Rules on launches: each finds the kernel made for it, none cries wolf on the others, bounds hold."""

import io
import json
from dataclasses import replace

import pandas as pd
import pytest

from labcode.analysis.rules.ncu import ARITHMETIC, ESTIMATES, weak_fp64
from labcode.analysis.rules.registry import own_rules
from labcode.errors import LabError
from labcode.reports.ncu.names import METRICS
from labcode.reports.ncu.report import Launch, Reading
from labcode.verbs.diagnose.verdicts import diagnose, list_rules, run, verdict_table
from tests.support import ncu


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(ncu.folder() / "cache"))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return verdict_table(ncu.opened("full"))


def found(table: pd.DataFrame, rule: str) -> set[str]:
    return set(table[(table["rule"] == rule) & (table["status"] == "found")]["kernel"])


@pytest.mark.parametrize(
    ("rule", "kernels"),
    [
        ("memory-bound", {"copy_vector", "strided", "transpose_naive", "conflicts", "spills"}),
        ("compute-bound", {"fma_independent", "doubles", "halves", "tensor", "diverge"}),
        ("latency-bound", {"copy_scalar", "fma_chain", "atomics", "shared_limited"}),
        ("uncoalesced", {"strided", "transpose_naive"}),
        ("bank-conflicts", {"conflicts"}),
        ("low-occupancy", {"shared_limited"}),
        ("spills", {"spills"}),
        ("divergence", {"diverge"}),
        ("atomics", {"atomics"}),
        ("weak-fp64", set()),
        ("short-launch", set()),
    ],
)
def test_each_rule_finds_its_kernels_and_no_others(table: pd.DataFrame, rule: str, kernels: set[str]) -> None:
    assert found(table, rule) == kernels


def test_tails(table: pd.DataFrame) -> None:
    assert {"fma_chain", "atomics", "shared_limited"} <= found(table, "tail")
    assert "doubles" not in found(table, "tail")  # exactly one wave


def test_one_limit_for_each_launch(table: pd.DataFrame) -> None:
    limits = table[table["rule"].isin(["memory-bound", "compute-bound", "latency-bound"])]
    assert limits[limits["status"] == "found"].groupby("launch").size().tolist() == [1] * 14


def test_bounds_are_shares(table: pd.DataFrame) -> None:
    known = table["gain"].dropna()
    assert known.between(0, 1).all()
    # the same work cannot save more than what is missing to the busiest unit's peak
    busy = {
        one.id: max(one.number("compute_pct"), one.number("memory_pct")) for one in ncu.opened("full").list
    }
    for rule in ("tail", "uneven-occupancy", "low-occupancy", "latency-bound"):
        rows = table[(table["rule"] == rule) & (table["status"] == "found")]
        assert len(rows), rule
        assert all(
            gain <= 1 - busy[launch] / 100 + 1e-9
            for launch, gain in zip(rows["launch"], rows["gain"], strict=True)
        )


def test_waste_counts_no_more_than_what_units_with_other_work_leave(table: pd.DataFrame) -> None:
    beside = {
        "uncoalesced": ("compute_pct",),
        "bank-conflicts": ("compute_pct", "l2_pct", "dram_pct"),
        "divergence": ("dram_pct",),
        "atomics": ("dram_pct", *ARITHMETIC),
        "spills": ARITHMETIC,
    }
    launches = {one.id: one for one in ncu.opened("full").list}
    for rule, meanings in beside.items():
        rows = table[(table["rule"] == rule) & (table["status"] == "found")]
        assert len(rows)
        for launch, gain in zip(rows["launch"], rows["gain"], strict=True):
            busiest = max(launches[launch].number(name) for name in meanings)
            assert gain <= 1 - busiest / 100 + 1e-9


def changed(kernel: str, **percent: float) -> Launch:
    """A launch of a kernel with other percentages of some meanings."""
    launch = next(one for one in ncu.opened("full").list if one.function == kernel)
    readings = dict(launch.readings)
    for meaning, value in percent.items():
        name = next(name for name in METRICS[meaning].names if name in readings)
        readings[name] = Reading(value, "%", "")
    return replace(launch, readings=readings)


def test_waste_beside_a_busy_unit_is_worth_little() -> None:
    gains = {
        busy: next(v.gain for v in diagnose(changed("strided", compute_pct=busy)) if v.rule == "uncoalesced")
        for busy in (5.0, 94.0)
    }
    assert gains[5.0] == pytest.approx(0.75, abs=0.2) and gains[94.0] == pytest.approx(0.06)


def test_estimates_are_told_from_bounds() -> None:
    launches = json.loads(text("full", "json", kernel="conflicts"))["launches"]
    verdicts = {one["rule"]: one for one in launches[0]["verdicts"]}
    assert verdicts["bank-conflicts"]["gain_about"] > 0.9
    assert verdicts["bank-conflicts"]["gain_at_most"] is None
    assert verdicts["memory-bound"]["gain_at_most"] is not None
    assert verdicts["memory-bound"]["gain_about"] is None
    written = text("full", kernel="conflicts")
    assert "to gain with the same accesses: at most " in written and "to gain: about 9" in written
    assert {one.id for one in own_rules("ncu")} >= ESTIMATES
    for one in own_rules("ncu"):
        doc = one.judge.__doc__ or ""
        assert ("Estimate:" in doc) == (one.id in ESTIMATES), one.id
        assert ("Bound:" in doc) == (one.id not in ESTIMATES | {"short-launch"}), one.id


def test_verdicts_lead_into_the_book() -> None:
    assert "    in the book: compute/sass\n" in text("full", "table", kernel="spills")
    verdicts = json.loads(text("full", "json", kernel="spills"))["launches"][0]["verdicts"]
    assert {one["rule"]: one["book"] for one in verdicts}["memory-bound"] == "compute/memory-metrics"


def test_evidence_has_numerator_and_denominator() -> None:
    launch = next(one for one in ncu.opened("full").list if one.function == "conflicts")
    verdict = next(one for one in diagnose(launch) if one.rule == "bank-conflicts")
    assert verdict.numerator == launch.number("wavefronts_shared") - launch.number("wavefronts_shared_ideal")
    assert verdict.denominator == launch.number("wavefronts_shared")
    assert verdict.share is not None and verdict.share > 0.95
    busiest = max(launch.number(name) for name in ("compute_pct", "l2_pct", "dram_pct"))
    assert verdict.gain == pytest.approx(min(verdict.share, 1 - busiest / 100))


def test_a_chip_with_little_fp64() -> None:
    launch = next(one for one in ncu.opened("full").list if one.function == "doubles")
    readings = dict(launch.readings)
    readings["device__attribute_single_to_double_precision_perf_ratio"] = Reading(64, "", "")
    weak = replace(launch, readings=readings)
    verdict = next(one for one in diagnose(weak, [weak_fp64]) if one.rule == "weak-fp64")
    assert verdict.status == "found" and "FP32 rate is 64 times its FP64 rate" in verdict.message


def test_what_cannot_be_judged_names_the_section() -> None:
    verdicts = {one.rule: one for one in diagnose(ncu.opened("few").list[0])}
    assert verdicts["memory-bound"].status == "could not judge"
    assert "collect it with `ncu --section SpeedOfLight`" in verdicts["memory-bound"].message
    assert verdicts["low-occupancy"].status == "not found"


def text(name: str, fmt: str = "table", **options: object) -> str:
    output = io.StringIO()
    only = options.pop("only", [])
    assert run(ncu.path(f"{name}.ncu-rep"), fmt=fmt, only=only, output=output, **options) == 0  # type: ignore[arg-type]
    return output.getvalue()


def test_text_shows_ours_beside_nvidias() -> None:
    written = text("full", kernel="transpose")
    assert written.startswith("launch 3: transpose_naive <<<128×512×1, 32×8×1>>>, ")
    assert "[high] Global accesses touch more sectors than they need (uncoalesced): 77.8 %" in written
    assert "superfluous sectors of" in written and "to gain: about 78 % of its time" in written
    assert "NVIDIA's rules:" in written and "(UncoalescedGlobalAccess, " in written and "% global)" in written
    assert "do not add them" in written
    assert "## launch 3: transpose_naive" in text("full", "md", launch=3)


def test_json() -> None:
    document = json.loads(text("full", "json", kernel="spills"))
    launch = document["launches"][0]
    assert launch["kernel"] == "spills" and launch["nvidia"]
    spilled = next(one for one in launch["verdicts"] if one["rule"] == "spills")
    assert spilled["status"] == "found" and spilled["numerator"] > 0
    only = json.loads(text("full", "json", kernel="spills", only=["tail"]))
    assert [one["rule"] for one in only["launches"][0]["verdicts"]] == ["tail"]


def test_text_names_each_rule_that_lacks_a_section_once() -> None:
    written = text("few", launch=0)
    assert "  could not judge:\n" in written
    assert "    memory-bound, compute-bound, latency-bound: no sm__throughput.avg" in written
    assert "; collect it with `ncu --section SpeedOfLight` (or --set full)\n" in written
    assert written.count("could not judge") == 1


def test_one_rule_alone_is_shown_without_nvidias() -> None:
    assert "NVIDIA's rules:" not in text("full", kernel="transpose", only=["tail"])


def test_refused() -> None:
    with pytest.raises(LabError, match=r"'tial' is not a rule of .ncu-rep files; did you mean tail\?"):
        text("few", only=["tial"])
    with pytest.raises(LabError, match="'csv' is not a format"):
        text("few", "csv")
    with pytest.raises(LabError, match="no kernel matches"):
        text("few", kernel="gemm")


def test_list() -> None:
    output = io.StringIO()
    list_rules(output)
    assert all(one.id in output.getvalue() and one.judge.__doc__ for one in own_rules("ncu"))
