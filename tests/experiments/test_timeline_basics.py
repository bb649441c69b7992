"""The training loop: all variants compute the same; the loader that works ahead keeps batches in order."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from labcode.errors import LabError  # noqa: E402
from labcode.experiments.nsys.timeline_basics import loaders  # noqa: E402
from labcode.experiments.nsys.timeline_basics import program as timeline_basics  # noqa: E402
from labcode.experiments.nsys.timeline_basics.loaders import Ahead, InTurn  # noqa: E402
from labcode.experiments.nsys.timeline_basics.pictures import (  # noqa: E402
    CHANNELS,
    CLASSES,
    CROPPED,
    BatchPlan,
    Pictures,
    make_pictures,
    prepare,
)
from labcode.experiments.nsys.timeline_basics.program import Outcome  # noqa: E402

CPU = torch.device("cpu")
PLAN = BatchPlan(batch=24, cpu_work=2, seed=3)
SMALL = ["--device", "cpu", "--width", "64", "--batch", "64", "--steps", "26", "--warmup", "2"]


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return make_pictures(3, count=200)


def prepared(pictures: Pictures, plan: BatchPlan, step: int) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.full((plan.batch, CHANNELS, CROPPED, CROPPED), np.nan, np.float32)
    targets = np.full((plan.batch, CLASSES), np.nan, np.float32)
    prepare(pictures, plan, step, inputs, targets)
    return inputs, targets


def test_batch_depends_on_seed_and_step_alone(pictures: Pictures) -> None:
    inputs, targets = prepared(pictures, PLAN, 5)
    again = prepared(pictures, PLAN, 5)
    assert np.array_equal(inputs, again[0])
    assert np.array_equal(targets, again[1])
    assert not np.array_equal(inputs, prepared(pictures, PLAN, 6)[0])
    assert not np.array_equal(inputs, prepared(pictures, replace(PLAN, seed=4), 5)[0])


@pytest.mark.parametrize("cpu_work", [1, 3])
def test_batch_is_normalized_and_its_labels_are_shares(pictures: Pictures, cpu_work: int) -> None:
    inputs, targets = prepared(pictures, BatchPlan(200, cpu_work, 1), 0)
    assert np.isfinite(inputs).all()
    assert abs(inputs.mean()) < 0.1
    assert 0.4 < inputs.std() < 1.2
    assert np.allclose(targets.sum(axis=1), 1, atol=1e-5)
    assert (targets.max(axis=1) == 1).all() == (cpu_work == 1)


def test_each_picture_is_a_crop_of_its_class(pictures: Pictures) -> None:
    inputs, targets = prepared(pictures, BatchPlan(4, 1, 2), 0)
    for crop, label in zip(inputs, targets.argmax(axis=1), strict=True):
        found = False
        for picture in pictures.pixels[pictures.labels == label]:
            wanted = (picture.astype(np.float32) - pictures.mean) * pictures.scale
            for flipped in (crop, crop[:, :, ::-1]):
                windows = np.lib.stride_tricks.sliding_window_view(wanted[0], (CROPPED, CROPPED))
                numerator = np.einsum("abij,ij->ab", windows, flipped[0])
                lengths = np.sqrt(np.einsum("abij,abij->ab", windows, windows)) * np.linalg.norm(flipped[0])
                found = found or bool((numerator / lengths > 0.9999).any())  # contrast is only a factor
        assert found


@pytest.mark.parametrize(("workers", "slots"), [(1, 2), (3, 3), (3, 5)])
def test_working_ahead_gives_the_same_batches_in_order(pictures: Pictures, workers: int, slots: int) -> None:
    last = 17
    plain = InTurn(torch, pictures, PLAN, CPU, wait=False)
    ahead = Ahead(torch, pictures, PLAN, CPU, last, workers=workers, slots=slots)
    for step in range(last):
        expected, batch = plain.get(step), ahead.get(step)
        assert torch.equal(batch.inputs, expected.inputs), step
        assert torch.equal(batch.targets, expected.targets), step
        ahead.used(batch)
    ahead.close()


def test_batches_stay_in_order_however_the_threads_are_switched(
    pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbered(_: Pictures, plan: BatchPlan, step: int, inputs: np.ndarray, targets: np.ndarray) -> None:
        inputs[:], targets[:] = step, 0

    monkeypatch.setattr(loaders, "prepare", numbered)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            ahead = Ahead(torch, pictures, PLAN, CPU, 40, workers=4, slots=5)
            for step in range(40):
                batch = ahead.get(step)
                assert batch.inputs[0, 0] == step
                ahead.used(batch)
            ahead.close()
    finally:
        sys.setswitchinterval(interval)


def test_more_threads_than_slots_are_refused(pictures: Pictures) -> None:
    with pytest.raises(
        LabError, match="3 loading threads need as many buffers and there are 2; raise --slots"
    ):
        Ahead(torch, pictures, PLAN, CPU, 5, workers=3, slots=2)


def test_a_loader_that_fails_fails_the_loop(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("torn picture")

    monkeypatch.setattr(loaders, "prepare", broken)
    ahead = Ahead(torch, pictures, PLAN, CPU, 5, workers=2, slots=2)
    with pytest.raises(RuntimeError, match="torn picture"):
        ahead.get(0)
    ahead.close()


def test_closing_early_ends_the_threads(pictures: Pictures) -> None:
    ahead = Ahead(torch, pictures, PLAN, CPU, 100, workers=2, slots=3)
    ahead.used(ahead.get(0))
    ahead.close()
    assert not any(thread.is_alive() for thread in ahead._threads)


def test_all_variants_compute_the_same_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = []
    for variant in timeline_basics.VARIANTS:
        path = tmp_path / f"{variant}.json"
        assert timeline_basics.main(["--variant", variant, *SMALL, "--json", str(path)]) == 0
        record = json.loads(path.read_text())
        assert set(record) == {"program", "variant", "parameters", "results", "checks", "gpu"}
        assert record["checks"]["losses_match_plain_loop"]["passed"]
        assert len(record["results"]["step_host_ms"]) == 26
        losses.append(record["results"]["losses"])
    assert len(losses[0]) == 28
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] == pytest.approx(losses[2], rel=1e-5)
    assert "pictures a second" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mine", "failing"),
    [
        ([2.0, 1.0], set()),
        ([2.0, 1.001], {"losses_match_plain_loop"}),
        ([2.0, float("nan")], {"losses_match_plain_loop", "loss_falls"}),
    ],
)
def test_check_notices_other_losses(mine: list[float], failing: set[str]) -> None:
    checks = timeline_basics.check(Outcome(mine, [], 0), Outcome([2.0, 1.0], [], 0))
    assert {name for name, check in checks.items() if not check.passed} == failing


def test_check_notices_that_nothing_is_learned() -> None:
    same = Outcome([2.0, 1.99], [], 0)
    assert not timeline_basics.check(same, same)["loss_falls"].passed


@pytest.mark.gpu
@pytest.mark.parametrize("variant", timeline_basics.VARIANTS)
def test_on_the_gpu(variant: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    flags = ["--width", "512", "--batch", "256", "--steps", "20", "--json", str(path)]
    assert timeline_basics.main(["--variant", variant, *flags]) == 0
    assert json.loads(path.read_text())["gpu"]["sm_count"] > 0
