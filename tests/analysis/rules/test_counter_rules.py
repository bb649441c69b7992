"""Rules on the GPU's own counters: found and not found, with exact numbers; where they are asked at all."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.rules import Verdict
from labcode.analysis.rules.registry import own_rules
from labcode.reports.nsys.report import open_report
from labcode.verbs.diagnose.verdicts import diagnose, list_rules, run
from tests.support import exports as x
from tests.support.gpu_metrics import add_metrics

MS = 1_000_000
FULL = [x.kernel(0, 40 * MS, "gemm(float)"), x.kernel(40 * MS, 100 * MS, "relu(float)")]
TIMES = [10 * MS * n for n in range(10)]


def samples(*values: int) -> list[tuple[int, int]]:
    return list(zip(TIMES, values, strict=True))


def export(tmp_path: Path, kernels: list[dict[str, Any]] = FULL, **metrics: list[tuple[int, int]]) -> Path:
    path = x.make_export(
        tmp_path / "a.sqlite", kernels=kernels, nvtx=[x.push_pop(0, 100 * MS, "lab:measured")]
    )
    return add_metrics(path, {name.replace("_", " "): values for name, values in metrics.items()})


def judged(tmp_path: Path, rule: str, **given: Any) -> Verdict:
    with open_report(export(tmp_path, **given)) as report:
        return {one.rule: one for one in diagnose(report)}[rule]


def test_a_busy_gpu_with_few_multiprocessors_at_work(tmp_path: Path) -> None:
    found = judged(tmp_path, "unused-multiprocessors", SMs_Active=samples(*[10] * 4, *[90] * 6))
    assert found.status == "found" and found.numerator == pytest.approx((4 * 0.9 + 6 * 0.1) * 10 * MS)
    assert found.gain == pytest.approx(0.42) and "58 % of its multiprocessors" in found.message
    assert found.evidence["sms_active_percent"].tolist() == [90, 10]
    assert found.evidence["name"].tolist() == ["relu", "gemm"]


def test_an_idle_gpu_has_no_unused_multiprocessors(tmp_path: Path) -> None:
    half = [x.kernel(0, 5 * MS, "gemm(float)")]  # half of the first sample, with all multiprocessors
    found = judged(tmp_path, "unused-multiprocessors", kernels=half, SMs_Active=samples(50, *[0] * 9))
    assert found.status == "not found" and found.numerator == 0


def test_memory_that_gives_all_it_can(tmp_path: Path) -> None:
    given = {"DRAM_Read": samples(*[50] * 5, *[20] * 5), "DRAM_Write": samples(*[35] * 5, *[20] * 5)}
    found = judged(tmp_path, "memory-saturated", **given)
    assert found.status == "found" and found.numerator == 50 * MS and found.gain == 0.5
    assert found.evidence["dram_percent"].tolist() == pytest.approx([(85 + 5 * 40) / 6, 85])
    quiet = judged(tmp_path, "memory-saturated", DRAM_Read=samples(*[79] * 10))
    assert quiet.status == "not found" and quiet.numerator == 0 and "79 % in the mean" in quiet.message


def test_a_full_link_matters_while_multiprocessors_wait(tmp_path: Path) -> None:
    link = {"PCIe_RX": samples(*[80] * 6, *[0] * 4), "PCIe_TX": samples(*[0] * 9, 55)}
    found = judged(tmp_path, "link-saturated", SMs_Active=samples(*[90] * 4, *[20] * 6), **link)
    assert found.status == "found" and found.numerator == 20 * MS
    assert found.evidence["full_ns"].tolist() == [20 * MS, 10 * MS] and "PCIe RX" in found.message
    hidden = judged(tmp_path, "link-saturated", SMs_Active=samples(*[90] * 10), **link)
    assert hidden.status == "not found" and hidden.numerator == 0


def test_a_link_that_was_not_sampled(tmp_path: Path) -> None:
    found = judged(tmp_path, "link-saturated", SMs_Active=samples(*[9] * 10))
    assert found.status == "could not judge" and "no samples of PCIe or NVLink throughput" in found.message


def test_products_without_tensor_cores(tmp_path: Path) -> None:
    found = judged(tmp_path, "idle-tensor-cores", Tensor_Active=samples(*[2] * 4, *[0] * 6))
    assert found.status == "found" and found.numerator == 40 * MS
    assert found.evidence["name"].tolist() == ["gemm"]  # relu is no matmul
    used = judged(tmp_path, "idle-tensor-cores", Tensor_Active=samples(*[60] * 4, *[0] * 6))
    assert used.status == "not found" and "matmuls take 40.0 % of the window" in used.message


def test_captures_without_counters_are_not_asked(tmp_path: Path) -> None:
    path = x.make_export(tmp_path / "a.sqlite", kernels=FULL)
    with open_report(path) as report:
        assert not {one.id for one in own_rules("counters")} & {verdict.rule for verdict in diagnose(report)}
    text = io.StringIO()
    run(path, fmt="json", only=["idle-tensor-cores"], output=text)  # but when it is named
    (verdict,) = json.loads(text.getvalue())["verdicts"]
    assert verdict["status"] == "could not judge" and "--gpu-metrics-devices=all" in verdict["message"]


def test_they_are_listed_apart() -> None:
    text = io.StringIO()
    list_rules(text)
    part = text.getvalue().split("more rules on captures with the GPU's own counters\n")[1].split("\n\n")[0]
    assert [line.split()[0] for line in part.splitlines()[2:]] == [one.id for one in own_rules("counters")]
