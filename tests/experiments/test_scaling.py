"""Scaling on the CPU: every strategy gives what one process gives, groups grow, collectives are right."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.errors import InputError  # noqa: E402
from labcode.experiments.nsys.multi_gpu.data_parallel import Member  # noqa: E402
from labcode.experiments.scaling import group  # noqa: E402
from labcode.experiments.scaling.collectives import program as collectives  # noqa: E402
from labcode.experiments.scaling.overlap import program as overlap  # noqa: E402
from labcode.experiments.scaling.shots import program as shots  # noqa: E402
from labcode.experiments.scaling.tensor_parallel import program as tensor_parallel  # noqa: E402
from labcode.experiments.scaling.training import program as training  # noqa: E402
from labcode.experiments.scaling.training import strategies  # noqa: E402
from labcode.experiments.shared import common  # noqa: E402
from tests.support.programs import in_ranks  # noqa: E402

TINY = ("--size", "tiny", "--context", "8", "--steps", "2", "--warmup", "1")


def record(program: ModuleType, folder: Path, *flags: str, count: int = 2) -> dict[str, Any]:
    path = folder / "r.json"
    words = ("--device", "cpu", "--gpus", str(count), *flags, "--json", str(path))
    assert in_ranks(program, group._MEETING_PLACE, count, *words) == [0] * count
    content: dict[str, Any] = json.loads(path.read_text())
    assert all(check["passed"] for check in content["checks"].values())
    return content


def test_every_strategy_gives_the_gradients_and_losses_of_one_process(tmp_path: Path) -> None:
    found = record(training, tmp_path, "--variant", "strong", "--batch", "4", "--parts", "1,2,4", *TINY)
    cases = found["results"]["cases"]
    assert [(c["count"], c["batch"]) for c in cases if c["strategy"] == "single"] == [(1, 4), (1, 2), (1, 1)]
    several = {case["strategy"]: case for case in cases if case["count"] == 2}
    assert tuple(several) == strategies.STRATEGIES
    for name, case in several.items():
        assert case["gradient_error"] < 1e-5 and case["loss_error"] < 1e-5, name
        assert case["batch"] == 2 and len(case["step_ms"]) == 2
        assert bool(case["alone_ms"]) == (name not in ("fsdp2", "zero")), name
    losses = {case["last_loss"] for case in several.values()}
    assert max(losses) - min(losses) < 1e-4
    assert several["flat"]["calls"] == 1
    assert several["naive"]["calls"] == several["overlapped"]["calls"] > several["bucketed"]["calls"] >= 1


def test_collectives_are_right_on_each_number_of_processes(tmp_path: Path) -> None:
    flags = ("--least", "8", "--most", "8", "--repetitions", "2")
    found = record(collectives, tmp_path, *flags, count=3)
    cases = found["results"]["cases"]
    assert [(c["count"], c["operation"]) for c in cases] == [
        (count, operation) for count in (2, 3) for operation in collectives.OPERATIONS
    ]
    assert {c["bytes"] for c in cases} == {256, 252}  # a whole number of floats for each rank
    assert all(len(c["times_us"]) == 2 and min(c["times_us"]) > 0 for c in cases)


def test_a_layer_in_parts_gives_what_the_whole_gives_and_pairing_sends_less(tmp_path: Path) -> None:
    flags = ("--counts", "2", "--steps", "2", "--warmup", "1", "--width", "8", "--tokens", "2,4")
    cases = record(tensor_parallel, tmp_path, *flags)["results"]["cases"]
    assert {case["layer"]: case["exchanged_bytes"] for case in cases if case["tokens"] == 4} == {
        # 4 bytes · 4 tokens · (two gathers of 32 and 8 columns, two sums of 32 and 8; two sums of 8)
        "gathered": 4 * 4 * 80,
        "paired": 4 * 4 * 16,
    }


def test_settings_of_nccl_change_times_and_not_losses(tmp_path: Path) -> None:
    flags = ("--settings", "0:0,8:8", "--batch", "2", "--bucket-mib", "0.01", *TINY)
    cases = record(overlap, tmp_path, *flags)["results"]["cases"]
    assert [(case["ctas"], case["reserved_sms"], case["count"]) for case in cases] == [(0, 0, 2), (8, 8, 2)]
    assert all(len(case["step_ms"]) == len(case["alone_ms"]) == 2 and case["calls"] > 1 for case in cases)


@pytest.mark.parametrize(("losses", "code"), [((4.0, 4.001), 0), ((4.0, 4.1), 1), ((), 1)])
def test_settings_whose_losses_differ_fail_the_record(losses: tuple[float, ...], code: int) -> None:
    given = overlap.command_line().parse_args([])
    assert overlap.finish(given, [{"last_loss": loss} for loss in losses], {}) == code


@pytest.mark.parametrize("text", ["8", "8:8:8", "a:b", "8:129"])
def test_settings_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        overlap.command_line().parse_args(["--settings", text])
    assert ended.value.code == 2 and "argument --settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--counts", "4"), "--counts asks for a group of 4 and there are 2 processes"),
        (("--strategies", "naive,magic"), "magic: no such strategy (there are: naive,"),
        (("--counts", "0"), "0 is not between 1 and"),
    ],
)
def test_bad_flags_are_one_line(
    flags: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["training", "--device", "cpu", *flags, *TINY])
    with pytest.raises(SystemExit) as ended:
        common.run(training.PROGRAM, training.main)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_what_only_a_rank_can_say_is_one_line(tmp_path: Path) -> None:
    given = training.command_line().parse_args(["--device", "cpu", "--batch", "3", *TINY])
    with pytest.raises(InputError, match="--batch 3 cannot be shared evenly by 2 GPUs"):
        training.work(Member(torch, 0, 2, torch.device("cpu")), given)


def test_started_plainly_it_starts_its_processes_and_the_worst_code_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import os, pathlib, sys
said = os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"], *sys.argv[1:]
pathlib.Path(sys.argv[1] + os.environ["RANK"]).write_text(" ".join(said))
assert os.path.isdir(os.path.dirname(os.environ["LABCODE_SCALING_STORE"]))
sys.exit(3 * (os.environ["RANK"] == sys.argv[2]))
"""
    (tmp_path / "a_rank.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert group._start("a_rank", [f"{tmp_path}/", "none"], 2) == 0
    assert [(tmp_path / str(rank)).read_text().split() for rank in range(2)] == [
        [str(rank), str(rank), "2", f"{tmp_path}/", "none"] for rank in range(2)
    ]
    assert group._start("a_rank", [f"{tmp_path}/", "1"], 2) == 3


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    given = training.command_line().parse_args(["--gpus", "4"])
    with pytest.raises(Exception, match="needs 4 GPUs and PyTorch sees 2"):
        group.run(training.MODULE, given, [], training.work, training.finish)


@pytest.mark.parametrize(("most", "counts"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_groups_grow_by_doubling(most: int, counts: tuple[int, ...]) -> None:
    assert group.counts_up_to(most) == counts


def test_numbers_are_sorted_and_not_repeated() -> None:
    assert group.numbers("4,1,4,2") == (1, 2, 4)


def cases_with(**errors: float) -> list[group.Case]:
    return [{"strategy": "naive", "count": 2, "last_loss": 4.0, **errors}]


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ({"gradient_error": 1e-6, "loss_error": 1e-6}, 0),
        ({"gradient_error": 0.5, "loss_error": 1e-6}, 1),  # for instance a sum where a mean is meant
        ({"gradient_error": 1e-6, "loss_error": 0.1}, 1),
    ],
)
def test_a_strategy_that_differs_fails_the_record(errors: dict[str, float], code: int) -> None:
    given = training.command_line().parse_args(["--device", "cpu"])
    assert training.finish(given, cases_with(**errors), {}) == code


def test_a_wrong_collective_and_none_at_all_fail_the_record() -> None:
    given = collectives.command_line().parse_args([])
    case = {"operation": "all_reduce", "count": 2, "bytes": 4, "times_us": [1.0]}
    assert collectives.finish(given, [case | {"right": True}], {}) == 0
    assert collectives.finish(given, [case | {"right": False}], {}) == 1
    assert collectives.finish(given, [], {}) == 1


def test_a_layer_that_differs_fails_the_record() -> None:
    given = tensor_parallel.command_line().parse_args(["--device", "cpu"])
    assert tensor_parallel.finish(given, [{"error": 0.01}], {}) == 1


def test_a_batch_is_the_ranks_rows_of_one_whole() -> None:
    parts = []
    for rank in range(2):
        member = Member(torch, rank, 2, torch.device("cpu"))
        task = training.Task(training.decoder.SIZES["tiny"], 8, 3, 1)
        parts.append(task.tokens(member, 5))
    assert torch.equal(torch.cat(parts), task.tokens(member, 5, all_ranks=True))
    assert not torch.equal(parts[0], task.tokens(Member(torch, 0, 2, torch.device("cpu")), 6))


def test_a_count_beyond_the_processes_is_an_input_error() -> None:
    given = training.command_line().parse_args(["--counts", "1,8"])
    with pytest.raises(InputError, match="a group of 8 and there are 2"):
        group._counts(given, 2)


def test_an_algorithm_is_told_as_long_as_a_communicator_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "before")
    with shots._told("Tree"):
        assert os.environ["NCCL_ALGO"] == "Tree"
    assert os.environ["NCCL_ALGO"] == "before"
    monkeypatch.delenv("NCCL_ALGO")
    with shots._told("Ring"):
        assert os.environ["NCCL_ALGO"] == "Ring"
    assert "NCCL_ALGO" not in os.environ


def test_kernels_that_reduce_over_gpus_are_told_by_name_and_blocks_in_their_order() -> None:
    def kernel(name: str, blocks: int, ts: float) -> dict[str, Any]:
        return {"cat": "kernel", "name": name, "ts": ts, "args": {"grid": [blocks, 1, 1]}}

    ring = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 2, 5.0)
    shot = kernel("void c10d::one_shot_all_reduce_kernel<float, 16, 4>(float**, float*)", 24, 1.0)
    assert shots.reducing([ring, kernel("add", 1, 2.0), {"cat": "cpu_op"}, shot]) == [
        {"name": "one_shot_all_reduce_kernel", "blocks": 24},
        {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "blocks": 2},
    ]


def test_a_wrong_sum_fails_the_record_and_a_way_that_cannot_be_taken_does_not() -> None:
    given = shots.command_line().parse_args([])
    taken, refused = {"way": "ring", "count": 2, "bytes": 4}, {"way": "one_shot", "count": 2, "failed": "no"}
    assert shots.finish(given, [taken | {"right": True}, refused], {}) == 0
    assert shots.finish(given, [taken | {"right": False}], {}) == 1
    assert shots.finish(given, [refused], {}) == 1
