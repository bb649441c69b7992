"""The optimization loop: each round's machine code is what its hypothesis says; results on a GPU."""

import json
from pathlib import Path

import numpy as np
import pytest

from labcode.experiments.compute.optimization_loop.cuda import program as wrapper
from labcode.kernels.topics import optimization_loop as topic
from tests.cuda import ncu_programs
from tests.cuda.conftest import ARCHITECTURES, Assemble, Built

PROGRAM = "optimization_loop"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_is_spilled(assembled: Assemble, architecture: str) -> None:
    found = ncu_programs.resources(assembled(PROGRAM, architecture).report)
    assert set(found) == {f"round{n}" for n in range(10) if n != 8}  # round 8 is round 7 on another grid
    assert {name for name, kernel in found.items() if kernel.spilled_bytes} == set()


def test_wrapper_knows_the_flags(built: Built) -> None:
    ncu_programs.check_wrapper(built(PROGRAM), wrapper)


def test_bad_use_is_one_line(built: Built, tmp_path: Path) -> None:
    ncu_programs.check_bad_use(built(PROGRAM), tmp_path)


def test_reference_is_the_formula() -> None:
    image = np.random.default_rng(1).normal(size=(7, 9))
    row, column = 0, 3  # at the border, so that rows are repeated
    total = weights = 0.0
    for dy in range(-4, 5):
        for dx in range(-4, 5):
            value = image[min(max(row + dy, 0), 6), min(max(column + dx, 0), 8)]
            difference = value - image[row, column]
            weight = np.exp(-(dy * dy + dx * dx) / 8 - difference**2 / (2 * topic.SIGMA**2))
            total += weight * value
            weights += weight
    assert topic.bilateral(image)[row, column] == pytest.approx(total / weights, rel=1e-12)


def test_rounds_that_did_not_help_are_kept_and_named() -> None:
    assert [step.name for step in topic.BILATERAL.steps] == [f"round{n}" for n in range(10)]
    assert [step.name for step in topic.BILATERAL.steps if not step.helped] == ["round6", "round7"]


@pytest.mark.gpu
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 200), (200, 1), (33, 57), (129, 300)])
def test_results_match_the_host(tmp_path: Path, height: int, width: int) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    flags = ["--height", height, "--width", width, "--repetitions", "1", "--warmup", "1"]
    done = ncu_programs.run([build(PROGRAM), *flags, "--json", path])
    assert done.returncode == 0, done.stderr
    record = json.loads(path.read_text())
    assert len(record["results"]["rounds"]) == 10
    assert all(check["passed"] for check in record["checks"].values())


@pytest.mark.gpu
def test_rounds_end_far_ahead_of_where_they_began(tmp_path: Path) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    done = ncu_programs.run([build(PROGRAM), "--json", path])
    assert done.returncode == 0, done.stderr
    rounds = json.loads(path.read_text())["results"]["rounds"]
    times = {name: entry["time_us"] for name, entry in rounds.items()}
    assert times["round0"] > 10 * times["round5"]
    assert times["round6"] > times["round5"]
    assert min(times, key=lambda name: times[name]) == "round9"
