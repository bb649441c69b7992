"""Hidden cases of compute-ex02, part a (occupancy): a generator in, kernels on multiprocessors out."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcode.analysis.kernel.occupancy import (
    LIMITS,
    PARTITIONS,
    REGISTER_UNIT,
    REGISTERS_PER_SM,
    Limits,
    occupancy,
)
from labcode.exercises.cases import Case, Mistake, Task

Rng = np.random.Generator
CHIPS = ("8.0", "8.6", "8.9", "9.0", "12.0")
_NAMES = {"warps": "warps", "blocks": "blocks", "registers": "registers", "shared memory": "shared"}


def as_given(sm: Limits) -> dict[str, int]:
    """The limits of a multiprocessor as the exercise hands them out."""
    return {
        "warps": sm.warps,
        "blocks": sm.blocks,
        "registers": REGISTERS_PER_SM,
        "register_unit": REGISTER_UNIT,
        "shared_bytes": sm.shared_bytes,
        "shared_unit": sm.shared_unit,
        "reserved_bytes": sm.reserved_bytes,
    }


def _fit(cc: str, threads: int, registers: int, shared: int) -> dict[str, int]:
    found = occupancy(cc, threads, registers, shared)
    return {_NAMES[name]: most for name, most in found.limits.items()}


def _kernels(rng: Rng) -> list[tuple[str, str, int, int, int]]:
    def some(cc: str) -> tuple[int, int, int]:
        threads = 32 * int(rng.integers(1, 17))
        registers = int(rng.integers(16, 100))
        return threads, registers, int(rng.integers(0, 30_000))

    scenes = [(f"a kernel on compute capability {cc}", cc, *some(cc)) for cc in CHIPS]
    threads, registers, _ = some("9.0")
    return [
        *scenes,
        ("no shared memory", "9.0", 256, registers, 0),
        ("a block that is no whole number of warps", "8.0", 32 * int(rng.integers(2, 9)) + 7, 32, 0),
        ("registers that are no multiple of 8", "9.0", 256, 8 * int(rng.integers(4, 12)) + 3, 0),
        (
            "parts of the register file that do not divide evenly",
            "9.0",
            128,
            72 + 8 * int(rng.integers(0, 4)),
            0,
        ),
        ("small blocks", "8.6", 32, 24, int(rng.integers(0, 500))),
        ("much shared memory", "9.0", threads, 32, int(rng.integers(40_000, 110_000))),
        ("shared memory that just does not fit twice", "9.0", 128, 32, 233472 // 2 - 1024 + 1),
        ("full, by registers and warps", "9.0", 256, 32, 0),
    ]


def _case(
    name: str, summary: str, function: str, arguments: tuple[Any, ...], right: Any, *wrong: Mistake
) -> Case:
    return Case(name, summary, function, arguments, right, wrong)


def _cases(rng: Rng) -> list[Case]:
    cases = []
    for function in ("blocks_that_fit", "occupancy", "limiters"):
        for name, cc, threads, registers, shared in _kernels(rng):
            sm = as_given(LIMITS[cc])
            summary = (
                f"{threads} threads, {registers} registers a thread, {shared} bytes of shared memory, {sm}"
            )
            fit = _fit(cc, threads, registers, shared)
            warps = -(-threads // 32)
            blocks = min(fit.values())
            arguments = (sm, threads, registers, shared)
            each = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
            if function == "blocks_that_fit":
                whole = {**fit, "registers": REGISTERS_PER_SM // each // warps}
                exact = {
                    **fit,
                    "registers": PARTITIONS * (REGISTERS_PER_SM // PARTITIONS // (registers * 32)) // warps,
                }
                step = sm["shared_unit"]
                bare = -(-shared // step) * step
                mistakes: tuple[Mistake, ...] = (
                    Mistake("a warp takes its registers from one of four parts of the file", whole),
                    Mistake("a warp gets registers in whole units: round up", exact),
                    Mistake(
                        "the driver keeps some shared memory in every block: reserved_bytes",
                        {**fit, "shared": sm["shared_bytes"] // bare if bare else fit["shared"]},
                    ),
                    Mistake(
                        "a block has whole warps: round its threads up",
                        {**fit, "warps": sm["warps"] * 32 // threads},
                    ),
                )
                cases.append(_case(name, summary, function, arguments, fit, *mistakes))
            elif function == "occupancy":
                right = blocks * warps / sm["warps"]
                mistakes = (
                    Mistake(
                        "this is the number of warps; the share of the most is asked for",
                        float(blocks * warps),
                    ),
                    Mistake("this is the share of the blocks; warps are asked for", blocks / sm["blocks"]),
                    Mistake(
                        "only the registers are looked at", min(1.0, fit["registers"] * warps / sm["warps"])
                    ),
                )
                cases.append(_case(name, summary, function, arguments, right, *mistakes))
            else:
                right_names = sorted(key for key, most in fit.items() if most == blocks)
                mistakes = (
                    Mistake("several may allow no more than there are: name them all", right_names[:1]),
                )
                cases.append(_case(name, summary, function, arguments, right_names, *mistakes))
    return cases


def _register_cases(rng: Rng) -> list[Case]:
    cases = []
    for cc, threads, shared, wanted in (
        ("9.0", 256, 0, 1.0),
        ("9.0", 32 * int(rng.integers(2, 16)), 0, 0.5),
        ("8.0", 128, 0, 0.75),
        ("8.6", 32 * int(rng.integers(2, 12)), int(rng.integers(0, 4000)), 0.25),
        ("8.9", 1024, 0, 1.0),
        ("9.0", 64, 60_000, 0.9),
    ):
        sm = as_given(LIMITS[cc])
        fitting = [r for r in range(1, 256) if occupancy(cc, threads, r, shared).share >= wanted]
        right = max(fitting, default=0)
        mistakes = (
            Mistake(
                "this is the registers over the threads; a warp gets whole units, and limits other than "
                "registers count, too",
                min(255, int(REGISTERS_PER_SM // (wanted * sm["warps"] * 32))),
            ),
            Mistake("it may be the most that still reaches it: one more would not", max(0, right - 8)),
        )
        summary = f"{threads} threads, {shared} bytes of shared memory, at least {wanted:g}, {sm}"
        cases.append(
            Case(
                "the most registers",
                summary,
                "most_registers",
                (sm, threads, shared, wanted),
                right,
                mistakes,
            )
        )
    return cases


def _generated(rng: Rng) -> list[Case]:
    return [*_cases(rng), *_register_cases(rng)]


OCCUPANCY = Task(generated=_generated)
