"""Small runs of several ranks whose truth is known, an nsys export each; and functions for workers."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.exports import call, domain, kernel, make_export, push_pop

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
PERIOD, BUSY, SHORT, LONG = 1_000_000, 500_000, 20_000, 100_000  # ns
STEPS = 6


def rank(
    folder: Path,
    number: int,
    *,
    clock_ns: int = 0,
    more_ns: int = 0,
    idle_ns: int = 0,
    leaves_ns: int = 0,
    last_ns: int = 0,
    name: str | None = None,
    steps: int = STEPS,
    schema: tuple[int, int, int] = (3, 20, 3),
    talks: bool = True,
    device: int = 0,
    broadcast_ns: int | None = None,
    epoch_ns: int | None = None,
) -> Path:
    """A rank of a run with a step each ms: it computes, joins a long and then a short collective.

    It computes ``more_ns`` longer, or begins ``idle_ns`` later, and leaves the long collective ``leaves_ns``
    later than the others; all leave once the last (``last_ns`` late) is there. Its clock is ahead by
    ``clock_ns``; at its 0 Unix time is ``epoch_ns``, if the export says so. Before the first step there are
    three short broadcasts, ``broadcast_ns`` after rank 0's, which waits for nobody.
    """
    rows: dict[str, list[dict[str, object]]] = {"kernels": [], "api": [], "nvtx": []}
    zero = 10_000_000 + clock_ns
    rows["nvtx"].append(domain(1, "NCCL"))
    if broadcast_ns is not None:
        for begin in range(zero - 900_000, zero - 600_000, 100_000):
            ran = begin + broadcast_ns, begin + broadcast_ns + 3_000
            rows["kernels"].append(kernel(*ran, NCCL.replace("AllReduce_Sum_f32", "Broadcast"), stream=20))
    for step in range(steps):
        begin = zero + step * PERIOD + idle_ns
        ready = begin + BUSY + more_ns
        done = zero + step * PERIOD + BUSY + last_ns + LONG
        number_of = 10 * step
        rows["kernels"].append(kernel(begin, ready, "work(int)", correlation=number_of))
        if talks:
            rows["kernels"].append(
                kernel(ready, done + leaves_ns, NCCL, stream=20, correlation=number_of + 1)
            )
            rows["kernels"].append(
                kernel(done + LONG, done + LONG + SHORT, NCCL, stream=20, correlation=number_of + 2)
            )
            rows["api"] += [
                call(begin + 10 * k, begin + 10 * k + 5, correlation=number_of + k) for k in (1, 2)
            ]
            rows["nvtx"] += [
                push_pop(begin + 10 * k - 2, begin + 10 * k + 6, "ncclAllReduce", domain=1) for k in (1, 2)
            ]
        rows["nvtx"].append(push_pop(begin - 100, done + 2 * LONG, f"step {step}"))
    for row in rows["kernels"]:
        row["deviceId"] = device
    began = "CREATE TABLE TARGET_INFO_SESSION_START_TIME AS SELECT {} AS utcEpochNs"
    return make_export(
        folder / (name or f"run.rank{number}.sqlite"),
        schema=schema,
        extra_sql=() if epoch_ns is None else (began.format(epoch_ns),),
        **rows,
    )


def run(
    folder: Path, *, clocks: Sequence[int] = (0, 5_000_000, -3_000_000, 0), late: Mapping[str, int] = {}
) -> Path:
    """Four ranks; rank 2 as ``late`` says (more_ns, idle_ns, leaves_ns)."""
    folder.mkdir(exist_ok=True)
    last = late.get("more_ns", 0) + late.get("idle_ns", 0)
    for number, clock in enumerate(clocks):
        rank(folder, number, clock_ns=clock, last_ns=last, **(late if number == 2 else {}))
    return folder


def size(path: Path) -> int:
    """What a worker is to do: nothing much."""
    return path.stat().st_size


def dies_of_two(path: Path) -> int:
    """The process that is given ``2`` ends."""
    if path.name == "2":
        os._exit(9)
    return size(path)


def slowly(path: Path) -> int:
    """Long enough to be interrupted."""
    time.sleep(0.3)
    return size(path)
