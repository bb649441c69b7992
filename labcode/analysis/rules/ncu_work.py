"""Expert rules on how a launch does its work: a launch in, a finding for each rule out (accesses, conflicts,
spills, divergence, atomics, precision).

Their gains are estimates, not bounds: the share of the work that need not be done, as if all of it cost the
same, and not more than what is missing to the peak of a unit whose work stays.
"""

from __future__ import annotations

import pandas as pd

from labcode.analysis.rules.finding import CannotJudgeError, Finding, Rule
from labcode.analysis.rules.ncu import (
    compute_bound,
    latency_bound,
    left_beside,
    low_occupancy,
    memory_bound,
    ncu_rule,
    tail,
    uneven_occupancy,
)
from labcode.reports.ncu.report import Launch

WASTE = 0.20  # share of sectors or wavefronts beyond the necessary ones
THREADS = 24.0  # of the 32 of a warp
SHORT_NS = 10_000.0
WEAK_FP64 = 16
ARITHMETIC = ("pipe_fma_pct", "pipe_alu_pct", "pipe_fp64_pct", "pipe_tensor_pct", "pipe_xu_pct")
ESTIMATES = frozenset({"uncoalesced", "bank-conflicts", "spills", "divergence", "weak-fp64", "atomics"})


@ncu_rule(
    "uncoalesced",
    title="Global accesses touch more sectors than they need",
    book="compute/memory-metrics",
    advice="Let neighboring threads access neighboring addresses: exchange loops or indices, transpose "
    "through "
    "shared memory, structures of arrays instead of arrays of structures.",
)
def uncoalesced(launch: Launch) -> Finding:
    """Sectors of 32 bytes that the access pattern asks for, against those the same bytes would need side
    by side.

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
    advice="Let the threads of a warp access different banks: pad rows by one element, swizzle columns "
    "by XOR, "
    "or change which thread takes which element.",
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
    advice="Let the threads of a warp take the same path: sort or group the work, move conditions to "
    "warps or blocks, "
    "make branches short enough for predication.",
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
    "block; spread "
    "counters over several addresses.",
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


RULES: tuple[Rule, ...] = (
    *(
        memory_bound,
        compute_bound,
        latency_bound,
        uncoalesced,
        bank_conflicts,
        low_occupancy,
        uneven_occupancy,
    ),
    *(spills, divergence, tail, weak_fp64, atomics, short_launch),
)
