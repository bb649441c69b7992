"""Hidden cases of compute-ex03, part a (points under the roofline): a generator in, counters out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task

Rng = np.random.Generator
LATENCY_BELOW = 0.6


@dataclass(frozen=True)
class Counters:
    """A kernel's row of the table."""

    kernel: str
    duration_ns: int
    ffma: int
    fadd: int
    fmul: int
    dram_read_bytes: int
    dram_write_bytes: int

    def intensity(self, *, fused: int = 2, written: bool = True) -> float:
        """FLOP/byte; the arguments leave something out."""
        moved = self.dram_read_bytes + (self.dram_write_bytes if written else 0)
        return self.flop(fused) / moved if moved else math.inf

    def flop(self, fused: int = 2) -> int:
        """Operations."""
        return fused * self.ffma + self.fadd + self.fmul

    def rate(self, fused: int = 2) -> float:
        """FLOP/s."""
        return self.flop(fused) / (self.duration_ns * 1e-9)

    def roof(self, memory: float, compute: float) -> float:
        """The most FLOP/s."""
        return min(self.intensity() * memory, compute)


def _kernel(rng: Rng, name: str, intensity: float, share: float, memory: float, compute: float) -> Counters:
    """A kernel of about this intensity that reaches about this share of its roof."""
    moved = int(rng.integers(10**8, 4 * 10**9))
    flop = intensity * moved
    duration = flop / (share * min(intensity * memory, compute)) * 1e9
    fused = int(0.4 * flop)
    added = int((flop - 2 * fused) * rng.uniform(0.2, 0.8))
    read = int(moved * rng.uniform(0.4, 0.8))
    return Counters(
        name, max(1, int(duration)), fused, added, int(flop) - 2 * fused - added, read, moved - read
    )


def _scenes(rng: Rng) -> dict[str, tuple[list[Counters], float, float]]:
    memory, compute = float(rng.uniform(1e12, 5e12)), float(rng.uniform(15e12, 70e12))
    ridge = compute / memory

    def some(name: str, where: float, share: float) -> Counters:
        return _kernel(rng, name, ridge * where, share, memory, compute)

    high, low = float(rng.uniform(0.7, 0.95)), float(rng.uniform(0.1, 0.5))
    cached = Counters("cached", int(rng.integers(10**5, 10**6)), 10**9, 0, 0, 0, 0)
    slow = some("slow_but_small", 0.2, 0.05)
    small = Counters(slow.kernel, max(1, slow.duration_ns // 4000), *(n // 4000 for n in _counts(slow)))
    return {
        "left of the ridge": ([some("left", float(rng.uniform(0.01, 0.5)), high)], memory, compute),
        "right of the ridge": ([some("right", float(rng.uniform(2, 20)), high)], memory, compute),
        "far below its roof": ([some("far", float(rng.uniform(0.05, 0.5)), low)], memory, compute),
        "several kernels": (
            [
                some("one", 0.1, high),
                some("two", 3.0, 0.8),
                some("three", 0.4, low),
                some("four", 5.0, low),
            ],
            memory,
            compute,
        ),
        "the worst kernel takes little time": ([small, some("long", 0.3, 0.65)], memory, compute),
        "a kernel that moves nothing": ([cached, some("other", 0.2, high)], memory, compute),
        "a GPU with slow memory": (
            [_kernel(rng, "here", 20.0, high, 3e11, 3e13), _kernel(rng, "there", 300.0, high, 3e11, 3e13)],
            3e11,
            3e13,
        ),
    }


def _counts(one: Counters) -> tuple[int, int, int, int, int]:
    return one.ffma, one.fadd, one.fmul, one.dram_read_bytes, one.dram_write_bytes


def _table(kernels: list[Counters]) -> pd.DataFrame:
    return pd.DataFrame([vars(one) for one in kernels])


def _verdict(one: Counters, memory: float, compute: float) -> str:
    if one.rate() < LATENCY_BELOW * one.roof(memory, compute):
        return "latency"
    return "memory" if one.intensity() < compute / memory else "compute"


def _point_case(name: str, kernels: list[Counters]) -> Case:
    mistakes = (
        Mistake(
            "a fused multiply-add is two operations",
            {k.kernel: (k.intensity(fused=1), k.rate(1)) for k in kernels},
        ),
        Mistake(
            "bytes are written, too", {k.kernel: (k.intensity(written=False), k.rate()) for k in kernels}
        ),
        Mistake(
            "the rate is in FLOP/ns; FLOP/s are asked for",
            {k.kernel: (k.intensity(), k.rate() * 1e-9) for k in kernels},
        ),
        Mistake("first the intensity, then the rate", {k.kernel: (k.rate(), k.intensity()) for k in kernels}),
    )
    right = {k.kernel: (k.intensity(), k.rate()) for k in kernels}
    table = _table(kernels)
    return Case(name, f"{len(table)} kernels", "points", (table,), right, mistakes, table=table)


def _verdict_case(name: str, kernels: list[Counters], memory: float, compute: float) -> Case:
    right = {k.kernel: _verdict(k, memory, compute) for k in kernels}
    sides = {k.kernel: "memory" if k.intensity() < compute / memory else "compute" for k in kernels}
    peaks = {k.kernel: "latency" if k.rate() < LATENCY_BELOW * compute else sides[k.kernel] for k in kernels}
    mistakes = (
        Mistake("a kernel far below its roof is held back by neither of the two", sides),
        Mistake("left of the ridge the roof is the memory's, not the peak of arithmetic", peaks),
        Mistake(
            "left of the ridge it is the memory",
            {
                k: {"memory": "compute", "compute": "memory", "latency": "latency"}[v]
                for k, v in right.items()
            },
        ),
    )
    table = _table(kernels)
    summary = f"{len(table)} kernels, memory {memory:.4g} bytes/s, compute {compute:.4g} FLOP/s"
    return Case(name, summary, "verdicts", (table, memory, compute), right, mistakes, table=table)


def _first_case(name: str, kernels: list[Counters], memory: float, compute: float) -> Case:
    share = {k.kernel: k.rate() / k.roof(memory, compute) for k in kernels}
    saved = {k.kernel: k.duration_ns * (1 - share[k.kernel]) for k in kernels}
    mistakes = (
        Mistake(
            "this kernel is farthest below its roof, but takes little time",
            min(share, key=lambda k: share[k]),
        ),
        Mistake(
            "this kernel takes longest, but has less to win",
            max(kernels, key=lambda one: one.duration_ns).kernel,
        ),
    )
    table = _table(kernels)
    summary = f"{len(table)} kernels, memory {memory:.4g} bytes/s, compute {compute:.4g} FLOP/s"
    right = max(saved, key=lambda kernel: saved[kernel])
    return Case(name, summary, "first", (table, memory, compute), right, mistakes, table=table)


def _roof_cases(rng: Rng) -> list[Case]:
    memory, compute = float(rng.uniform(1e12, 5e12)), float(rng.uniform(15e12, 70e12))
    ridge = compute / memory
    places = {"left of the ridge": 0.1 * ridge, "right of it": 7 * ridge, "no byte moved": math.inf}
    cases = []
    for name, intensity in places.items():
        mistakes = (
            Mistake("this is the roof of the memory alone", intensity * memory),
            Mistake("this is the roof of arithmetic alone", compute),
        )
        summary = f"{intensity:.4g} FLOP/byte, memory {memory:.4g} bytes/s, compute {compute:.4g} FLOP/s"
        right = min(intensity * memory, compute)
        cases.append(Case(name, summary, "roof", (intensity, memory, compute), right, mistakes))
    return cases


def _generated(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    cases = [_point_case(name, kernels) for name, (kernels, _, _) in scenes.items()]
    cases += _roof_cases(rng)
    cases += [_verdict_case(name, *scene) for name, scene in scenes.items()]
    more = {
        f"{count} kernels": [
            _kernel(rng, f"k{i}", float(rng.uniform(0.5, 60)), float(rng.uniform(0.1, 0.95)), 3e12, 4e13)
            for i in range(count)
        ]
        for count in (5, 8, 12)
    }
    several = {name: scene for name, scene in scenes.items() if len(scene[0]) > 1}
    cases += [_first_case(name, *scene) for name, scene in several.items()]
    return cases + [_first_case(name, kernels, 3e12, 4e13) for name, kernels in more.items()]


ROOFLINE = Task(generated=_generated)
