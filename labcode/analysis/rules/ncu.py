"""Expert rules on what limits a launch: a launch of an Nsight Compute report in, a finding for each rule out.

They are made with the same decorator as those on nsys captures. A gain is a share of the launch's time,
argued in the rule's docstring: of the rules here an upper bound, if the busiest unit keeps its work. Bounds
overlap and may not be added.
"""

import math
from collections.abc import Callable

import pandas as pd

from labcode.analysis.kernel.occupancy import LIMITS, occupancy
from labcode.analysis.kernel.stalls import main_stall
from labcode.analysis.rules.finding import CannotJudgeError, Finding, Rule, rule
from labcode.errors import LabError
from labcode.reports.ncu.report import Launch

BUSY = 60.0  # percent of a unit's peak from which it counts as the limit; ncu's own rules take 60 and 80
LOW_OCCUPANCY = 50.0
TAIL = 0.10
WASTE = 0.20  # share of sectors or wavefronts beyond the necessary ones
THREADS = 24.0  # of the 32 of a warp
SHORT_NS = 10_000.0
WEAK_FP64 = 16
ARITHMETIC = ("pipe_fma_pct", "pipe_alu_pct", "pipe_fp64_pct", "pipe_tensor_pct", "pipe_xu_pct")
ESTIMATES = frozenset({"uncoalesced", "bank-conflicts", "spills", "divergence", "weak-fp64", "atomics"})


def ncu_rule(
    id: str, *, title: str, advice: str, book: str = ""
) -> Callable[[Callable[[Launch], Finding]], Rule[Launch]]:
    """Make a rule of a function that takes a launch; missing metrics become “could not judge”."""

    def decorate(judge: Callable[[Launch], Finding]) -> Rule[Launch]:
        def judged(launch: Launch) -> Finding:
            try:
                return judge(launch)
            except CannotJudgeError:
                raise
            except LabError as missing:
                text = str(missing)
                raise CannotJudgeError(text.removeprefix(f"{launch.path}: ")) from None

        judged.__doc__ = judge.__doc__
        return rule(id, title=title, book=book, advice=advice)(judged)

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
    advice="Move fewer bytes: reuse in registers or shared memory, fuse with a neighboring kernel, smaller "
    "types, no redundant or uncoalesced accesses. More arithmetic costs nothing here.",
)
def memory_bound(launch: Launch) -> Finding:
    """The busiest memory unit reaches 60 % of its peak and more than the SMs do.

    Bound: what is missing to its peak; with the same traffic the launch cannot take less than the busy share.
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
    advice="Do less work, or on another pipe: tensor cores, packed halves, cheaper functions; lift common "
    "terms out of loops. Better memory access costs nothing here.",
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
    advice="Give each thread more independent work (several loads in flight, several accumulators), or more "
    "warps; look at what they wait for: `labcode stats --report stalls`.",
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
    "uncoalesced",
    title="Global accesses touch more sectors than they need",
    book="compute/memory-metrics",
    advice="Let neighboring threads access neighboring addresses: exchange loops or indices, transpose "
    "through shared memory, structures of arrays instead of arrays of structures.",
)
def uncoalesced(launch: Launch) -> Finding:
    """Sectors of 32 bytes that accesses ask for, against those that the same bytes would need side by side.

    Estimate: the share of superfluous sectors, as if all time went with sectors, and not more than what is
    missing to the SMs' peak, whose instructions stay. It can be too low: memory reads pieces larger than a
    sector, and has to complete sectors of which a part was written.
    """
    asked, ideal = launch.number("sectors_asked"), launch.number("sectors_ideal")
    excess = max(asked - ideal, 0.0)
    share = excess / asked if asked else 0.0
    rows = [
        (word, launch.number_or(f"global_{op}_sectors"), launch.number_or(f"global_{op}_requests"))
        for op, word in (("ld", "loads"), ("st", "stores"))
    ]
    evidence = pd.DataFrame(rows, columns=["access", "sectors", "requests"])
    evidence["sectors a request"] = evidence["sectors"] / evidence["requests"].where(evidence["requests"] > 0)
    return Finding(
        share >= WASTE,
        f"{100 * share:.1f} % of the sectors asked for are superfluous",
        excess,
        "superfluous sectors",
        asked,
        "sectors asked for",
        min(share, left_beside(launch, "compute_pct")),
        evidence,
    )


@ncu_rule(
    "bank-conflicts",
    title="Shared-memory accesses conflict in banks",
    book="compute/compute-metrics",
    advice="Let the threads of a warp access different banks: pad rows by one element, swizzle columns by "
    "XOR, or change which thread takes which element.",
)
def bank_conflicts(launch: Launch) -> Finding:
    """Wavefronts of shared memory against those that accesses without conflicts would need.

    Estimate: the share of superfluous wavefronts, as if all time went with wavefronts, and not more than what
    is missing to the peak of the SMs, the L2 or the DRAM, whose work stays.
    """
    made, ideal = launch.number("wavefronts_shared"), launch.number("wavefronts_shared_ideal")
    excess = max(made - ideal, 0.0)
    share = excess / made if made else 0.0
    return Finding(
        share >= WASTE,
        f"{100 * share:.1f} % of the wavefronts of shared memory are conflicts"
        if made
        else "no shared-memory accesses",
        excess,
        "superfluous wavefronts",
        made,
        "wavefronts",
        min(share, left_beside(launch, "compute_pct", "l2_pct", "dram_pct")),
    )


@ncu_rule(
    "low-occupancy",
    title="Few warps fit an SM",
    book="compute/occupancy",
    advice="Lower what limits (registers: __launch_bounds__, shorter live ranges; shared memory: smaller "
    "tiles; block size), if warps wait for latency; a kernel with much independent work a thread needs no "
    "more warps.",
)
def low_occupancy(launch: Launch) -> Finding:
    """Theoretical occupancy below one half. Bound: what is missing to the higher peak, if warps hid all."""
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
    advice="Blocks of equal work, a larger grid, or work taken from a common queue; a short kernel spends "
    "its time starting and draining.",
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
    "spills",
    title="Registers spill to local memory",
    book="compute/sass",
    advice="Fewer live values: smaller tiles a thread, shorter unrolling, a larger register limit "
    "(__launch_bounds__, -maxrregcount), no arrays indexed by variables.",
)
def spills(launch: Launch) -> Finding:
    """Requests to local memory that spilled registers cause, of all requests to the L1.

    Estimate: their share, as if time went with requests to the L1, and not more than what is missing to the
    peak of an arithmetic pipe.
    """
    requests = launch.number("spill_requests")
    share = launch.number_or("spill_requests_pct", 0.0) / 100
    return Finding(
        requests > 0,
        f"{requests:,.0f} requests to local memory come from spilled registers, {100 * share:.1f} % of "
        f"those to the L1",
        requests,
        "requests from spills",
        requests / share if share else 0.0,
        "requests to the L1",
        min(share, left_beside(launch, *ARITHMETIC)),
    )


@ncu_rule(
    "divergence",
    title="Instructions run with few of a warp's threads",
    book="compute/compute-metrics",
    advice="Let the threads of a warp take the same path: sort or group the work, move conditions to warps "
    "or blocks, make branches short enough for predication.",
)
def divergence(launch: Launch) -> Finding:
    """Threads that take part in an executed instruction, of the 32 of a warp.

    Estimate: 1 − threads ÷ 32, as if time went with instructions and full warps needed fewer for the same
    work, and not more than what is missing to the peak of the DRAM, whose traffic stays.
    """
    threads = launch.number("predicated_threads_per_instruction")
    return Finding(
        threads < THREADS,
        f"{threads:.1f} of 32 threads take part in an instruction, on average",
        32 - threads,
        "threads idle",
        32.0,
        "threads of a warp",
        min(1 - threads / 32, left_beside(launch, "dram_pct")),
    )


@ncu_rule(
    "tail",
    title="The grid does not fill the GPU evenly",
    book="compute/occupancy",
    advice="A grid of whole waves (SMs × blocks an SM), smaller blocks, or a persistent kernel that takes "
    "work in a loop; a grid smaller than a wave: more, smaller pieces of work.",
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


# ---- how a launch does its work: accesses, conflicts, spills, divergence, atomics, precision
#
# Gains here are estimates, not bounds: the share of the work that need not be done, as if all of it cost the
# same, and not more than what is missing to the peak of a unit whose work stays.


@ncu_rule(
    "weak-fp64",
    title="Double precision on a chip with little of it",
    book="compute/compute-metrics",
    advice="Compute in FP32 where the accuracy allows; look for literals without f and for double functions.",
)
def weak_fp64(launch: Launch) -> Finding:
    """The FP64 pipe is busy on a chip whose FP32 rate is 16 times or more the FP64 rate.

    Estimate: the pipe's busy share, as if the same work in FP32 took no time.
    """
    ratio = launch.device().get("single_to_double_precision_perf_ratio")
    if not isinstance(ratio, int):
        raise CannotJudgeError("the report does not say the chip's ratio of FP32 to FP64")
    busy = launch.number("pipe_fp64_pct")
    return Finding(
        ratio >= WEAK_FP64 and busy >= 20,
        f"the FP64 pipe is busy {busy:.1f} % of the time; this chip's FP32 rate is {ratio} times its "
        f"FP64 rate",
        busy,
        "% the FP64 pipe is busy",
        100.0,
        "%",
        min(busy, 100.0) / 100,
    )


@ncu_rule(
    "atomics",
    title="Atomics make up much of the memory traffic",
    book="compute/compute-metrics",
    advice="Reduce in registers, warps (shuffles) and blocks (shared memory) first, and do one atomic a "
    "block; spread counters over several addresses.",
)
def atomics(launch: Launch) -> Finding:
    """Requests of global atomics and reductions, of all global requests.

    Estimate: their share, as if time went with requests, and not more than what is missing to the peak of the
    DRAM or of an arithmetic pipe. It is too low where atomics meet on one address, for these take longer than
    other requests.
    """
    counts = {op: launch.number(f"global_{op}_requests") for op in ("ld", "st", "red", "atom")}
    ours, whole = counts["red"] + counts["atom"], sum(counts.values())
    share = ours / whole if whole else 0.0
    return Finding(
        share >= 0.25,
        f"{100 * share:.1f} % of the requests to global memory are atomics",
        ours,
        "requests of atomics",
        whole,
        "requests to global memory",
        min(share, left_beside(launch, "dram_pct", *ARITHMETIC)),
    )


@ncu_rule(
    "short-launch",
    title="The launch is too short to measure well",
    book="foundations/measuring",
    advice="Profile a larger problem: in so short a launch starting, draining and clocks that are "
    "rising weigh most.",
)
def short_launch(launch: Launch) -> Finding:
    """A launch of less than 10 µs. There is nothing to gain: the profile is at fault."""
    duration = launch.number("duration_ns")
    return Finding(
        duration < SHORT_NS,
        f"the launch takes {duration / 1000:.1f} µs",
        duration,
        "ns",
        SHORT_NS,
        "ns from which times are steadier",
        None,
    )
