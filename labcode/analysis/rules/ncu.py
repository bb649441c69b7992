"""Expert rules on what limits a launch: a launch of an Nsight Compute report in, a finding for each rule
out.

They are made with the same decorator as those on nsys captures. A gain is a share of the launch's time,
argued in the rule's docstring: of the rules here an upper bound, if the busiest unit keeps its work. Bounds
overlap and may not be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pandas as pd

from labcode.analysis.kernel.occupancy import LIMITS, occupancy
from labcode.analysis.kernel.stalls import main_stall
from labcode.analysis.rules.finding import CannotJudgeError, Finding, Rule, rule
from labcode.errors import LabError
from labcode.reports.ncu.report import Launch

BUSY = 60.0  # percent of a unit's peak from which it counts as the limit; ncu's own rules take 60 and 80
LOW_OCCUPANCY = 50.0
TAIL = 0.10


def ncu_rule(
    id: str, *, title: str, advice: str, book: str = ""
) -> Callable[[Callable[[Launch], Finding]], Rule]:
    """Make a rule of a function that takes a launch; missing metrics become «could not judge»."""

    def decorate(judge: Callable[[Launch], Finding]) -> Rule:
        def judged(launch: Launch) -> Finding:
            try:
                return judge(launch)
            except CannotJudgeError:
                raise
            except LabError as missing:
                text = str(missing)
                raise CannotJudgeError(text.removeprefix(f"{launch.path}: ")) from None

        judged.__doc__ = judge.__doc__
        return rule(id, title=title, book=book, advice=advice)(cast(Any, judged))

    return decorate


def _idle(launch: Launch) -> float:
    """What is missing to the higher of the two peaks: the same work cannot save more time than that."""
    busy = max(launch.number_or("compute_pct", 0.0), launch.number_or("memory_pct", 0.0))
    return 1 - min(busy, 100.0) / 100


def left_beside(launch: Launch, *meanings: str) -> float:
    """What is missing to the peak of the busiest of these units (meanings in percent), which keep their work
    when something else goes; units that were not measured don't count.
    """
    return 1 - min(max(launch.number_or(name, 0.0) for name in meanings), 100.0) / 100


def _shares(launch: Launch) -> tuple[float, float]:
    return launch.number("compute_pct"), launch.number("memory_pct")


@ncu_rule(
    "memory-bound",
    title="A memory unit is the limit",
    book="compute/memory-metrics",
    advice="Move fewer bytes: reuse in registers or shared memory, fuse with a neighboring kernel, "
    "smaller types, "
    "no redundant or uncoalesced accesses. More arithmetic costs nothing here.",
)
def memory_bound(launch: Launch) -> Finding:
    """The busiest memory unit reaches 60 % of its peak and more than the SMs do.

    Bound: what is missing to its peak; with the same traffic the launch cannot take less than the busy
    share.
    """
    compute, memory = _shares(launch)
    units = {name: launch.number_or(f"{name.lower()}_pct", 0.0) for name in ("L1", "L2", "DRAM")}
    worst = max(units, key=lambda name: units[name])
    return Finding(
        memory >= BUSY and memory >= compute,
        f"memory reaches {memory:.1f} % of its peak (the highest of L1, L2 and DRAM is {worst}), "
        f"the SMs {compute:.1f} %",
        memory,
        "% of the memory's peak",
        100.0,
        "%",
        1 - min(memory, 100.0) / 100,
        pd.DataFrame({"unit": list(units), "percent of peak": list(units.values())}),
    )


@ncu_rule(
    "compute-bound",
    title="An SM pipe is the limit",
    book="compute/roofline",
    advice="Do less work, or on another pipe: tensor cores, packed halves, cheaper functions; lift "
    "common terms out "
    "of loops. Better memory access costs nothing here.",
)
def compute_bound(launch: Launch) -> Finding:
    """The SMs reach 60 % of their peak and more than memory does. Bound: what is missing to the peak."""
    compute, memory = _shares(launch)
    pipes = {
        name: launch.number_or(f"pipe_{name}_pct", math.nan)
        for name in ("fma", "fmaheavy", "alu", "fp64", "tensor", "lsu", "xu", "adu")
    }
    known = {name: value for name, value in pipes.items() if not math.isnan(value)}
    busiest = f"; the busiest pipe is {max(known, key=lambda n: known[n])}" if known else ""
    return Finding(
        compute >= BUSY and compute > memory,
        f"the SMs reach {compute:.1f} % of their peak, memory {memory:.1f} %{busiest}",
        compute,
        "% of the SMs' peak",
        100.0,
        "%",
        1 - min(compute, 100.0) / 100,
        pd.DataFrame({"pipe": list(known), "percent of peak": list(known.values())}),
    )


@ncu_rule(
    "latency-bound",
    title="Neither memory nor the SMs are busy: warps wait",
    book="compute/stalls",
    advice="Give each thread more independent work (several loads in flight, several accumulators), or "
    "more warps; "
    "look at what they wait for: `labcode stats --report stalls`.",
)
def latency_bound(launch: Launch) -> Finding:
    """Both stay below 60 % of their peaks. Bound: what is missing to the higher of the two peaks."""
    compute, memory = _shares(launch)
    try:
        state, share = main_stall(launch)
        waits = f"; {100 * share:.0f} % of the time between two instructions is {state}" if state else ""
    except LabError:
        waits = ""
    best = max(compute, memory)
    return Finding(
        best < BUSY,
        f"memory reaches {memory:.1f} % and the SMs {compute:.1f} % of their peaks{waits}",
        best,
        "% of the busier one's peak",
        100.0,
        "%",
        1 - best / 100,
    )


@ncu_rule(
    "low-occupancy",
    title="Few warps fit an SM",
    book="compute/occupancy",
    advice="Lower what limits (registers: __launch_bounds__, shorter live ranges; shared memory: "
    "smaller tiles; "
    "block size), if warps wait for latency; a kernel with much independent work a thread needs no more "
    "warps.",
)
def low_occupancy(launch: Launch) -> Finding:
    """Theoretical occupancy below one half. Bound: what is missing to the higher of the two peaks, as if
    more warps hid all latency.
    """
    theoretical = launch.number("theoretical_occupancy_pct")
    cc = "{}.{}".format(*launch.compute_capability)
    limit = ""
    most = 64.0
    if cc in LIMITS:
        shared = launch.whole("launch__shared_mem_per_block_static")
        found = occupancy(
            cc,
            launch.whole("launch__block_size"),
            launch.whole("launch__registers_per_thread"),
            shared + launch.whole("launch__shared_mem_per_block_dynamic"),
        )
        limit, most = f", limited by {' and '.join(found.limiters)}", float(LIMITS[cc].warps)
    return Finding(
        theoretical < LOW_OCCUPANCY,
        f"theoretical occupancy is {theoretical:.1f} %{limit}",
        launch.number("theoretical_warps"),
        "warps that fit",
        most,
        "warps an SM can hold",
        _idle(launch),
    )


@ncu_rule(
    "uneven-occupancy",
    title="Fewer warps were active than fit",
    book="compute/occupancy",
    advice="Blocks of equal work, a larger grid, or work taken from a common queue; a short kernel "
    "spends its time "
    "starting and draining.",
)
def uneven_occupancy(launch: Launch) -> Finding:
    """Achieved occupancy 20 points below the theoretical, and a tenth of the time to gain.

    Bound: 1 − achieved ÷ theoretical, as if time went with the number of active warps, and not more than
    what is missing to the higher of the two peaks.
    """
    theoretical, achieved = (launch.number(f"{kind}_occupancy_pct") for kind in ("theoretical", "achieved"))
    gain = min(1 - achieved / theoretical if theoretical else 0.0, _idle(launch))
    return Finding(
        theoretical - achieved >= 20 and gain >= TAIL,
        f"achieved occupancy is {achieved:.1f} % of {theoretical:.1f} % that fit",
        achieved,
        "% achieved",
        theoretical,
        "% theoretical",
        gain,
    )


@ncu_rule(
    "tail",
    title="The grid does not fill the GPU evenly",
    book="compute/occupancy",
    advice="A grid of whole waves (SMs × blocks an SM), smaller blocks, or a persistent kernel that "
    "takes work in a "
    "loop; a grid smaller than a wave: more, smaller pieces of work.",
)
def tail(launch: Launch) -> Finding:
    """Waves of blocks: a grid of 1.2 waves takes as long as one of 2 when blocks take equal time.

    Bound: what the last wave leaves empty, of all waves, and not more than what is missing to the higher of
    the two peaks.
    """
    waves = launch.number("waves")
    rounds = max(math.ceil(waves - 1e-9), 1)
    share = min(1 - waves / rounds, _idle(launch))
    return Finding(
        share >= TAIL,
        f"the grid is {waves:.2f} waves, which take the time of {rounds}",
        rounds - waves,
        "waves left empty",
        float(rounds),
        "waves",
        share,
    )
