"""Sums by copy engines, without any: ranks of one process that write into each other's memory in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.errors import InputError  # noqa: E402
from labcode.workloads.models.data_parallel import Member  # noqa: E402
from labcode.workloads.scaling import hiding  # noqa: E402
from labcode.workloads.scaling.engines import BACK, OUT, Bucket, Exchange  # noqa: E402

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


def group_of(world: int, bucket_bytes: float) -> list[Exchange]:
    ranks: dict[int, Shared] = {}
    found = []
    for rank in range(world):
        parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
        member = Member(torch, rank, world, torch.device("cpu"))
        found.append(Exchange(member, parameters, bucket_bytes, lambda m, n: Shared(ranks, m, n)))
    return found


def parameters_of(exchange: Exchange) -> list[Any]:
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
            for phase in (Exchange.send, Exchange.add):
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
    strategy = hiding.make(("bucketed", 1.0), member, model)
    seen = weakref.ref(model)
    hiding.release(strategy)
    del strategy, model
    gc.collect()
    assert seen() is None
