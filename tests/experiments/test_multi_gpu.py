"""Data-parallel training on the CPU: both ways of reducing gradients lead to the same parameters."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.nsys.multi_gpu import data_parallel  # noqa: E402
from labcode.experiments.nsys.multi_gpu import program as multi_gpu  # noqa: E402
from labcode.experiments.nsys.multi_gpu.data_parallel import Member, Size  # noqa: E402
from labcode.experiments.nsys.multi_gpu.gradients import (  # noqa: E402
    AfterBackward,
    DuringBackward,
    make_reduction,
    plan_buckets,
)
from tests.support.programs import in_ranks  # noqa: E402

SIZE = Size(layers=2, width=16, batch=8, seed=1)


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labcode.workloads.multi_gpu", "--device", "cpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_both_variants_lead_two_processes_to_the_same_parameters(tmp_path: Path) -> None:
    records = {}
    for name, flags in {
        "baseline": ["--variant", "baseline"],
        "improved": ["--variant", "improved", "--bucket-mb", "0.001"],
    }.items():
        path = tmp_path / "r.json"
        words = ("--device", "cpu", *flags, "--steps", "3", "--warmup", "1", "--json", str(path))
        assert in_ranks(multi_gpu, multi_gpu._MEETING_PLACE, 2, *words) == [0, 0]
        records[name] = json.loads(path.read_text())
    for record in records.values():
        assert all(check["passed"] for check in record["checks"].values())
        assert [len(times) for times in record["results"]["step_per_rank_ms"]] == [3, 3]
        assert record["parameters"]["processes"] == 2
    results = {name: record["results"] for name, record in records.items()}
    assert len({r["fingerprint"] for r in results.values()}) == 1
    assert results["baseline"]["losses"] == results["improved"]["losses"]
    assert results["baseline"]["all_reduce_calls"] == 12
    assert 1 < results["improved"]["all_reduce_calls"] < 12
    assert len({r["reduced_bytes_per_step"] for r in results.values()}) == 1


def test_one_process_that_fails_ends_the_others(tmp_path: Path) -> None:
    done = start("--json", str(tmp_path / "none/r.json"), "--steps", "1", "--warmup", "1")
    assert done.returncode == 2
    assert f"multi_gpu: {tmp_path}/none/r.json.part: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("codes", "expected"), [([0, 0], 0), ([0, 1], 1), ([2, 60], 2), ([-9, 60], 2)])
def test_waiting_ends_at_the_first_failure(codes: list[int], expected: int) -> None:
    scripts = {60: "sleep 60", -9: "kill -9 $$"}  # the long one must not be waited for
    processes = [subprocess.Popen(["sh", "-c", scripts.get(code, f"exit {code}")]) for code in codes]
    try:
        assert multi_gpu.wait_for_all(processes) == expected
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_torchrun_can_start_it(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    flags = ["--device", "cpu", "--variant", "improved", "--steps", "2", "--warmup", "1", "--json", str(path)]
    done = subprocess.run(
        [*command, "-m", "labcode.workloads.multi_gpu", *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text())["parameters"]["processes"] == 2


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    """A group of one, in this process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield Member(torch, 0, 1, torch.device("cpu"))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("variant", multi_gpu.VARIANTS)
def test_gradient_check_passes_for_both(member: Member, variant: str) -> None:
    model = data_parallel.make_model(member, SIZE)
    reduction = make_reduction(torch, variant, model, 1000, member.device)
    assert data_parallel.check_gradients(member, SIZE, model, reduction).passed


class Halving(AfterBackward):
    """A reduction with a mistake."""

    def finish(self) -> None:
        super().finish()
        if self._active:
            self._parameters[3].grad *= 0.5


class Forgetful(DuringBackward):
    """A reduction that does not clear the gradients of the pass before."""

    def prepare(self) -> None:
        super().prepare()
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.grad = torch.ones_like(parameter)


@pytest.mark.parametrize("mistake", [Halving, Forgetful])
def test_gradient_check_notices_mistakes(member: Member, mistake: type) -> None:
    model = data_parallel.make_model(member, SIZE)
    limits = [] if mistake is Halving else [1000]
    wrong = mistake(torch, list(model.parameters()), *limits, member.device)
    assert not data_parallel.check_gradients(member, SIZE, model, wrong).passed


def test_paused_reduction_reduces_nothing(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("reduced while paused")

    model = data_parallel.make_model(member, SIZE)
    batch = data_parallel.make_batch(member, SIZE, 0)
    for variant in multi_gpu.VARIANTS:
        reduction = make_reduction(torch, variant, model, 1000, member.device)
        with monkeypatch.context() as patch, reduction.paused():
            patch.setattr(torch.distributed, "all_reduce", refuse)
            reduction.prepare()
            data_parallel.loss_of(model, batch, 1).backward()
            reduction.finish()


def test_small_gradients_are_packed_and_large_ones_stay(member: Member) -> None:
    model = data_parallel.make_model(member, SIZE)
    reduction = DuringBackward(torch, list(model.parameters()), 1000, member.device)
    reduction.prepare()
    data_parallel.loss_of(model, data_parallel.make_batch(member, SIZE, 0), 1).backward()
    reduction.finish()
    flats = {b.flat.untyped_storage().data_ptr() for b in reduction._buckets if b.flat is not None}
    packed = {name for name, p in model.named_parameters() if p.grad.untyped_storage().data_ptr() in flats}
    assert packed == {name for name, p in model.named_parameters() if 4 * p.numel() < 1000}
    assert len(packed) == 8
    assert sum(reduction.sizes()) == sum(p.numel() for p in model.parameters())


def test_reductions_start_during_the_backward_pass(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    real = torch.distributed.all_reduce

    def noted(tensor: Any, **options: Any) -> Any:
        events.append("reduce")
        return real(tensor, **options)

    monkeypatch.setattr(torch.distributed, "all_reduce", noted)
    model = data_parallel.make_model(member, SIZE)
    reduction = DuringBackward(torch, list(model.parameters()), 1000, member.device)
    model[0].norm.weight.register_hook(lambda _: events.append("first layer reached"))
    reduction.prepare()
    data_parallel.loss_of(model, data_parallel.make_batch(member, SIZE, 0), 1).backward()
    assert events.index("first layer reached") >= 3
    assert events.count("reduce") == len(reduction.sizes())


def test_fingerprint_sees_a_single_bit_and_a_swap(member: Member) -> None:
    model = data_parallel.make_model(member, SIZE)
    before = data_parallel.fingerprint(member, model)
    weight = model[0].up.weight
    with torch.no_grad():
        weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))
    changed = data_parallel.fingerprint(member, model)
    assert not torch.equal(before, changed)
    with torch.no_grad():
        weight[:, [0, 1]] = weight[:, [1, 0]]
    assert not torch.equal(changed, data_parallel.fingerprint(member, model))
    assert not data_parallel.check_agreement(member, [before, changed]).passed


@pytest.mark.parametrize(
    ("losses", "passed"),
    [([2.0, 1.0], True), ([1.0, 2.0], False), ([2.0, float("nan")], False), ([3.0], True)],
)
def test_loss_check(losses: list[float], passed: bool) -> None:
    assert data_parallel.check_losses(losses).passed is passed


@pytest.mark.parametrize(
    ("sizes", "limit", "buckets"),
    [
        ([4, 4, 4, 4, 4], 8, [[0, 1], [2, 3], [4]]),
        ([1, 100, 1, 100], 8, [[1], [0, 2], [3]]),
        ([100, 5, 100, 5, 1], 8, [[0], [2], [1, 3], [4]]),
        ([8, 8], 8, [[0], [1]]),
        ([1, 1], 8, [[0, 1]]),
    ],
)
def test_large_gradients_travel_alone_and_small_ones_together(
    sizes: list[float], limit: float, buckets: list[list[int]]
) -> None:
    assert plan_buckets(sizes, limit) == buckets


@pytest.mark.gpu
@pytest.mark.parametrize("variant", multi_gpu.VARIANTS)
def test_on_two_gpus(variant: str, tmp_path: Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs 2 GPUs")
    path = tmp_path / "r.json"
    # Over a few steps the losses of fresh batches differ more than training lowers them; over forty, less.
    size = ["--layers", "2", "--width", "512", "--batch", "256", "--steps", "40"]
    flags = ["--gpus", "2", *size, "--json", str(path)]
    command = [sys.executable, "-m", "labcode.workloads.multi_gpu", "--variant", variant, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(check["passed"] for check in json.loads(path.read_text())["checks"].values())
