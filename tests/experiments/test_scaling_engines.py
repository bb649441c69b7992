"""Sums by copy engines, without any: ranks of one process that write into each other's memory in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.analysis.lm import decoder  # noqa: E402
from labcode.errors import InputError  # noqa: E402
from labcode.experiments.nsys.multi_gpu.data_parallel import Member  # noqa: E402
from labcode.experiments.scaling.hiding import program as hiding  # noqa: E402
from labcode.experiments.scaling.hiding.engines import BACK, OUT, ByCopyEngines  # noqa: E402
from labcode.experiments.scaling.hiding.exchanges import LATE, Bucket  # noqa: E402
from labcode.experiments.scaling.hiding.registered import Windows  # noqa: E402
from labcode.experiments.scaling.training.program import Task  # noqa: E402
from tests.experiments.test_scaling import TINY, record  # noqa: E402

SHAPES = ((7, 40), (5,), (3, 100), (1,), (64, 9))


class Shared:
    """A transport whose ranks are objects; a wait for what was not told is an error."""

    def __init__(self, ranks: dict[int, Shared], member: Member, elements: int) -> None:
        self.ranks, self.rank = ranks, member.rank
        self.memory = torch.full((elements,), float("nan"))
        self.told = dict.fromkeys((OUT, BACK), 0)
        ranks[member.rank] = self

    def follow(self, lane: str) -> None:
        pass

    def copy(self, lane: str, rank: int, place: int, values: Any) -> None:
        assert rank != self.rank and place + values.numel() <= self.memory.numel()
        self.ranks[rank].memory[place : place + values.numel()] = values

    def signal(self, lane: str, number: int) -> None:
        self.told[lane] = number

    def wait(self, lane: str, number: int, on: str) -> None:
        assert all(other.told[lane] >= number for other in self.ranks.values())

    @contextmanager
    def within(self, lane: str) -> Iterator[None]:
        yield

    def mark(self, on: str) -> int:
        return self.told[BACK]

    def join(self, mark: int) -> None:
        assert mark <= self.told[BACK]

    def close(self) -> None:
        pass


def group_of(world: int, bucket_bytes: float) -> list[ByCopyEngines]:
    ranks: dict[int, Shared] = {}
    found = []
    for rank in range(world):
        parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
        member = Member(torch, rank, world, torch.device("cpu"))
        found.append(ByCopyEngines(member, parameters, bucket_bytes, lambda m, n: Shared(ranks, m, n)))
    return found


def parameters_of(exchange: ByCopyEngines) -> list[Any]:
    return [parameter for bucket in exchange.buckets for parameter in bucket.parameters]


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("bucket_bytes", [1.0, 1200.0])
def test_every_rank_gets_the_sums_of_all(world: int, bucket_bytes: float) -> None:
    ranks = group_of(world, bucket_bytes)
    for _ in range(2):  # the memory of the step before is written over
        for exchange in ranks:
            exchange.prepare()
            for parameter in parameters_of(exchange):
                parameter.grad = torch.randn(parameter.shape)
        grads = [[parameter.grad.clone() for parameter in parameters_of(exchange)] for exchange in ranks]
        for number in range(len(ranks[0].buckets)):
            for phase in (ByCopyEngines.send, ByCopyEngines.add):
                for exchange in ranks:
                    phase(exchange, exchange.buckets[number])
        for exchange in ranks:
            exchange.finish(late=False)
            exchange.finish(late=True)
            for parameter, *own in zip(parameters_of(exchange), *grads, strict=True):
                assert torch.allclose(parameter.grad, sum(own), atol=1e-6)
                assert parameter.grad.shape == parameter.shape


def test_buckets_leave_in_their_order_and_not_while_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    (exchange,) = group_of(1, 1.0)
    started: list[int] = []
    monkeypatch.setattr(exchange, "launch", lambda bucket: started.append(exchange.buckets.index(bucket)))
    loss = sum((parameter * parameter).sum() for parameter in parameters_of(exchange))
    exchange.prepare()
    loss.backward()
    assert started == list(range(len(exchange.buckets)))
    with exchange.paused():
        exchange.prepare()
        sum((p * p).sum() for p in parameters_of(exchange)).backward()
    assert len(started) == len(exchange.buckets)


def test_a_part_starts_on_256_bytes_and_parts_hold_all() -> None:
    for bucket in group_of(3, 1200.0)[0].buckets:
        assert isinstance(bucket, Bucket) and bucket.part % 64 == bucket.offset % 64 == 0
        assert 3 * bucket.part >= sum(parameter.numel() for parameter in bucket.parameters)


def test_too_few_buckets_are_refused() -> None:
    with pytest.raises(InputError, match=r"1 buckets of 1 MiB: at least 3 are needed; make them smaller"):
        group_of(2, 2.0**20)


@pytest.mark.parametrize(
    ("text", "message"), [("magic", "magic: no such way"), ("naive:0", "0 is not above 0")]
)
def test_ways_that_are_none(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        hiding.command_line().parse_args(["--ways", text])
    assert ended.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.slow
def test_every_way_without_copy_engines_gives_the_same_losses(tmp_path: Path) -> None:
    names = [name + how for name in ("bucketed", "symmetric", "gathered") for how in ("", "+split")]
    ways = ",".join(["naive", "flat", *(f"{name}:0.01" for name in names)])
    found = record("hiding", tmp_path, "--batches", "2", "--seen", "--ways", ways, *TINY)
    cases = [case for case in found["results"]["cases"] if case["count"] == 2]
    assert [case["strategy"] for case in cases] == ["naive", "flat", *names]
    assert len({case["last_loss"] for case in cases}) == 1
    for case in cases:
        assert case["gradient_error"] < 1e-6 and case["all_reduce_ms"] > 0 and case["seen"] == []


def alone_in_its_group() -> Member:
    def everyone(told: list[Any], mine: Any) -> None:
        told[:] = [mine]

    torch_alone = SimpleNamespace(
        distributed=SimpleNamespace(
            all_gather_object=everyone, all_reduce=lambda *_, **__: None, ReduceOp=torch.distributed.ReduceOp
        ),
        tensor=torch.tensor,
        float64=torch.float64,
    )
    return Member(torch_alone, 0, 1, torch.device("cpu"))


def test_a_way_that_cannot_be_taken_says_why_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradients(_member: Member, way: hiding.Way, *_: Any) -> list[Any]:
        if way[0] != "bucketed":
            raise RuntimeError("/src/torch/Memory.cu:9, no windows\n  here Exception raised from f at /src")
        return [torch.ones(2)]

    monkeypatch.setattr(hiding, "_gradients", gradients)
    member, wanted = alone_in_its_group(), [torch.ones(2)]
    task, windows = Task(decoder.SIZES["tiny"], 8, 1, 1), Windows(member)
    told = hiding._tried(member, ("gathered+split", 12.0), task, wanted, windows)
    assert told == {"failed": "RuntimeError: Memory.cu:9, no windows here"}
    assert hiding._tried(member, ("bucketed", 12.0), task, wanted, windows) == {"gradient_error": 0.0}
    with pytest.raises(RuntimeError):  # what must be there is not passed over
        hiding._tried(member, ("engines", 12.0), task, wanted, windows)
    given = hiding.command_line().parse_args([])
    assert hiding.finish(given, [{"last_loss": 4.0, "gradient_error": 0.0}, told], {}) == 0


def test_of_a_trace_what_moved_data() -> None:
    kernel: dict[str, Any] = {"cat": "kernel", "dur": 5, "args": {"grid": [24, 1, 1]}}
    events: list[dict[str, Any]] = [
        kernel | {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
        kernel | {"name": "nvjet_tst_128x256"},
        {"cat": "gpu_memcpy", "name": "Memcpy PtoP (Device -> Device)", "dur": 2.5, "args": {}},
        {"name": "process_name", "ph": "M"},
    ]
    assert hiding.moved(events) == [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, 5.0),
        ("Memcpy PtoP (Device -> Device)", 0, 2.5),
    ]


def test_the_optimizer_is_split_where_the_way_says_so() -> None:
    member = Member(torch, 0, 1, torch.device("cpu"))
    for name, groups in (("bucketed", [4]), ("bucketed+split", [2, LATE])):
        model = torch.nn.Sequential(torch.nn.Linear(40, 40), torch.nn.Linear(40, 40))
        strategy = hiding.make((name, 1e-6), member, model, Windows(member))
        assert [len(one.param_groups[0]["params"]) for one in strategy._optimizers] == groups
        hiding.release(strategy)


@pytest.mark.parametrize(("error", "code"), [(1e-4, 0), (0.7, 1)])
def test_gradients_that_differ_fail_the_record(error: float, code: int) -> None:
    given = hiding.command_line().parse_args([])
    assert hiding.finish(given, [{"last_loss": 4.0, "gradient_error": error}], {}) == code
    assert hiding.finish(given, [{"last_loss": 4.0}], {}) == 1  # nothing was compared


def test_released_models_can_be_freed() -> None:
    """Hooks would keep them: a cycle through what autograd holds."""
    import gc
    import weakref

    member = Member(torch, 0, 1, torch.device("cpu"))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    strategy = hiding.make(("flat", 1.0), member, model, Windows(member))
    seen = weakref.ref(model)
    hiding.release(strategy)
    del strategy, model
    gc.collect()
    assert seen() is None
