"""What the power meter costs a training loop: seconds to measure in; the cost of a reading out.

A reading can only delay the steps during which it runs, and the next one. Those steps are compared with the
others of the same tenth of a second; and so are the steps half a period later, where nothing is read, for
what chance alone gives. The difference, over the period, is the overhead.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from labcode.errors import LabError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.meter import Meter, open_gpus
from labcode.meter.gpus import Reading
from labcode.timing import quantile

PROGRAM = "meter_overhead"
VARIANTS = ("record",)
PERIOD_S = 0.1
FEWEST = 20  # readings
LOOPS = {  # width, layers, batch: one that waits for Python, and one that waits for the GPU
    "launch-bound": (128, 24, 64),
    "GPU-bound": (4096, 8, 4096),
}
_RESAMPLES = 2000


class Watched:
    """A GPU for a meter that notes when it is read: ``reads`` holds the nanoseconds of begin and end."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self.reads: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gpu, name)

    def read(self) -> Reading:
        """One sample."""
        began = time.perf_counter_ns()
        reading: Reading = self._gpu.read()
        self.reads.append((began, time.perf_counter_ns()))
        return reading


def measure(torch: Any, gpus: list[Any], seconds: float) -> dict[str, Any]:
    """The GPUs, and a row for each loop: a step, a reading, what it costs, and the overhead."""
    rows = []
    for name, size in LOOPS.items():
        watched = [Watched(gpu) for gpu in gpus]
        ends = _steps(torch, training(torch, *size), watched, seconds / len(LOOPS))
        reads = [
            (first[0], last[1]) for first, last in zip(watched[0].reads, watched[-1].reads, strict=False)
        ]
        costs = costs_of_readings(ends, reads)
        if not costs:
            raise LabError(f"{name}: no reading fell among enough steps; measure longer (--seconds)")
        low, high = _interval(costs)
        period_ns = PERIOD_S * 1e9
        rows.append(
            {
                "loop": name,
                "period_ms": PERIOD_S * 1e3,
                "readings": len(costs),
                "step_ms": statistics.median(after - before for before, after in pairwise(ends)) / 1e6,
                "reading_us": statistics.median(end - begin for begin, end in reads) / 1e3,
                "cost_us": statistics.fmean(costs) / 1e3,
                "overhead": statistics.fmean(costs) / period_ns,
                "overhead_low": low / period_ns,
                "overhead_high": high / period_ns,
            }
        )
    return {"gpu": gpus[0].name, "gpus": len(gpus), "rows": rows}


def costs_of_readings(ends: Sequence[int], reads: Sequence[tuple[int, int]]) -> list[int]:
    """Nanoseconds by which each reading delayed the loop, of the times at which steps ended.

    Readings that leave fewer than four steps beside them to compare with are left out, as are the first and
    the last.
    """
    costs = []
    for (begin, end), (then, _) in pairwise(reads[1:]):
        half = (then - begin) // 2
        real, sham = _touched(ends, begin, end), _touched(ends, begin + half, end + half)
        around = range(bisect_right(ends, begin - half), bisect_left(ends, then + half))
        others = [ends[step] - ends[step - 1] for step in around if step > 0 and step not in (*real, *sham)]
        if len(others) < 4 or not real or not sham or real[-1] >= sham[0]:
            continue
        usual = round(statistics.median(others))
        costs.append(
            sum(ends[step] - ends[step - 1] - usual for step in real)
            - sum(ends[step] - ends[step - 1] - usual for step in sham)
        )
    return costs


def _touched(ends: Sequence[int], begin: int, end: int) -> range:
    """The steps that run between two times, and the one after; a step is named by the place of its end."""
    first, last = bisect_right(ends, begin), bisect_left(ends, end) + 1
    return range(first, last + 1) if first > 0 and last < len(ends) else range(0)


def _interval(costs: Sequence[int]) -> tuple[float, float]:
    """Of their mean, 95 %, by bootstrap."""
    drawn = random.Random(1)
    means = [statistics.fmean(drawn.choices(costs, k=len(costs))) for _ in range(_RESAMPLES)]
    return quantile(means, 0.025), quantile(means, 0.975)


def training(torch: Any, width: int, layers: int, batch: int) -> Callable[[], None]:
    """One step of training a stack of linear layers in bf16, forward, backward and update."""
    torch.manual_seed(1)
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = torch.nn.Sequential(*parts).to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()

    return step


def _steps(torch: Any, step: Callable[[], None], gpus: list[Any], seconds: float) -> list[int]:
    """When each step ended, in nanoseconds, while the meter runs."""
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    ends: list[int] = []
    with Meter(gpus, period_s=PERIOD_S):
        stop = time.perf_counter_ns() + round(seconds * 1e9)
        while not ends or ends[-1] < stop:
            step()
            torch.cuda.synchronize()
            ends.append(time.perf_counter_ns())
    return ends


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Times training loops beside the power meter.", VARIANTS)
    parser.add_argument("--seconds", type=common.positive, default=60.0, help="of all loops (default 60)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    results = measure(torch, open_gpus(), given.seconds)
    for row in results["rows"]:
        print(f"  {row['loop']}: {row['overhead_low']:+.3%} to {row['overhead_high']:+.3%}", flush=True)
    readings = min(row["readings"] for row in results["rows"])
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        {"readings": Check(readings >= FEWEST, f"{readings} readings at the fewest, wanted {FEWEST}")},
        common.gpu_info(torch, torch.device("cuda", 0)),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
