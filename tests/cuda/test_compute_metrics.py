"""Compute metrics: the compiler makes of the kernels what they are there to show; results on a GPU."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from labcode.experiments.compute.compute_metrics.cuda import program as wrapper
from labcode.kernels.topics import compute_metrics as topic
from tests.cuda import ncu_programs
from tests.cuda.conftest import ARCHITECTURES, Assemble, Built

PROGRAM = "compute_metrics"
TINY = ["--waves", "1", "--work", "0.05", "--lines", "4096", "--repetitions", "2", "--warmup", "1"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_registers_and_spills_are_those_the_kernels_are_about(assembled: Assemble, architecture: str) -> None:
    found = ncu_programs.resources(assembled(PROGRAM, architecture).report)
    held = {count: found[f"chase<{count},1>"].registers for count in (0, 40, 96, 200)}
    assert all(held[count] > count for count in held)
    assert held[0] <= 32
    assert found["chase<200,0>"].registers <= 64  # loaded late: none of the 200 is held through the chain
    assert found["hadamard<1>"].registers > topic.POINTS
    assert found["hadamard<8>"].spilled_bytes > found["hadamard<1>"].spilled_bytes == 0
    assert found["hadamard<8>"].registers == (64 if architecture == "75" else 32)
    spilling = {name for name, kernel in found.items() if kernel.spilled_bytes}
    assert spilling == {"hadamard<4>", "hadamard<8>"}


def test_names_are_shortened() -> None:
    assert ncu_programs.short("_ZN3lab15compute_metrics5chaseILi200ELb1EEEvPKjS3_Pjii") == "chase<200,1>"
    assert ncu_programs.short("_ZN3lab15compute_metrics12chase_sharedEPKjS2_Pjii") == "chase_shared"
    assert ncu_programs.short("_ZN3lab15compute_metrics7mix_fmaIdEEvPKfPfif") == "mix_fma<d>"


def test_wrapper_knows_the_flags(built: Built) -> None:
    ncu_programs.check_wrapper(built(PROGRAM), wrapper)


def test_bad_use_is_one_line(built: Built, tmp_path: Path) -> None:
    ncu_programs.check_bad_use(built(PROGRAM), tmp_path)


def test_reference_of_paths_takes_every_step() -> None:
    values = np.random.default_rng(1).normal(size=70)
    expected = values.copy()
    for i in range(values.size):
        path = i % topic.PATHS + 1
        for _ in range(topic.PATH_STEPS):
            expected[i] = expected[i] * (1 - path / 256) + path / 128
    np.testing.assert_allclose(topic.follow_paths(values), expected, rtol=1e-9)


def test_reference_of_columns_visits_each_as_often_as_the_warp_does() -> None:
    values = np.random.default_rng(2).normal(size=2048)
    tile = values.reshape(2, 32, 32)
    warp, lane = 5, 17
    expected = sum(
        2.0**-r * tile[1, lane, 8 * ((warp + turn) % 4) + r] for turn in range(topic.TURNS) for r in range(8)
    )
    assert topic.column_sums(values).reshape(2, 32, 32)[1, warp, lane] == pytest.approx(expected, rel=1e-12)


def test_reference_of_the_transform_keeps_lengths() -> None:
    values = np.random.default_rng(3).normal(size=64 * 256)
    transformed = topic.hadamard(values)
    assert np.linalg.norm(transformed) == pytest.approx(np.linalg.norm(values), rel=1e-12)
    assert not np.allclose(transformed, values)


@pytest.mark.gpu
def test_results_match_the_host(tmp_path: Path) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    done = ncu_programs.run([build(PROGRAM), *TINY, "--json", path])
    assert done.returncode == 0, done.stderr
    record = json.loads(path.read_text())
    cases = list(record["results"]["cases"].values())
    assert len(record["checks"]) == len(cases) > 30
    assert all(check["passed"] for check in record["checks"].values())
    assert {case["family"] for case in cases} == set(wrapper.variants) - {"all"}
    assert all(math.isfinite(case["time_us"]) and case["time_us"] > 0 for case in cases)


@pytest.mark.gpu
def test_conflicts_divergence_and_chains_cost_what_the_machine_says(tmp_path: Path) -> None:
    from labcode.kernels.build import build

    for variant, name in (
        ("bank_strides", "stride_32"),
        ("divergence", "in_order_32_paths"),
        ("dependency_chains", "chains_1"),
    ):
        path = tmp_path / f"{variant}.json"
        done = ncu_programs.run([build(PROGRAM), "--variant", variant, "--json", path])
        assert done.returncode == 0, done.stderr
        case = json.loads(path.read_text())["results"]["cases"][name]
        assert case["measured_ratio"] == pytest.approx(case["predicted_ratio"], rel=0.3)
