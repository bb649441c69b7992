"""Hidden cases of part a (occupancy): a generator in, kernels on multiprocessors out."""

import numpy as np

from labcode.analysis.kernel.occupancy import LIMITS, REGISTER_UNIT, REGISTERS_PER_SM, Limits, Occupancy
from labcode.analysis.kernel.occupancy import occupancy as computed
from labcode.grading.cases import Case

Rng = np.random.Generator
Sm = dict[str, int]
CHIPS = ("8.0", "8.6", "8.9", "9.0", "12.0")
_NAMES = {"warps": "warps", "blocks": "blocks", "registers": "registers", "shared memory": "shared"}


def _as_given(sm: Limits) -> Sm:
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


def _kernels(rng: Rng) -> list[tuple[str, str, int, int, int]]:
    """What is special about a kernel, its compute capability, threads, registers and shared memory."""

    def some() -> tuple[int, int, int]:
        threads = 32 * int(rng.integers(1, 17))
        registers = int(rng.integers(16, 100))
        return threads, registers, int(rng.integers(0, 30_000))

    scenes = [(f"a kernel on compute capability {cc}", cc, *some()) for cc in CHIPS]
    threads, registers, _ = some()
    uneven = 72 + 8 * int(rng.integers(0, 4))
    return [
        *scenes,
        ("no shared memory", "9.0", 256, registers, 0),
        ("a block that is no whole number of warps", "8.0", 32 * int(rng.integers(2, 7)) + 7, 32, 0),
        ("registers that are no multiple of 8", "9.0", 256, 8 * int(rng.integers(4, 12)) + 3, 0),
        ("parts of the register file that do not divide evenly", "9.0", 128, uneven, 0),
        ("small blocks", "8.6", 32, 24, int(rng.integers(0, 500))),
        ("much shared memory", "9.0", threads, 32, int(rng.integers(40_000, 110_000))),
        ("shared memory that just does not fit twice", "9.0", 128, 32, 233472 // 2 - 1024 + 1),
        ("shared memory that fits seven times if it is not rounded up", "9.0", 128, 32, 233472 // 7 - 1024),
        ("full, by registers and warps", "9.0", 256, 32, 0),
    ]


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, the first three on the same kinds of kernels."""
    made = []
    for function in ("blocks_that_fit", "occupancy", "limiters"):
        for name, cc, threads, registers, shared in _kernels(rng):
            sm = _as_given(LIMITS[cc])
            summary = (
                f"{threads} threads, {registers} registers a thread, {shared} bytes of shared memory, {sm}"
            )
            made.append(
                Case(name, summary, function, (sm, threads, registers, shared), share=function == "occupancy")
            )
    odd = {**_as_given(LIMITS["9.0"]), "reserved_bytes": 1000}
    size = 233472 // int(rng.integers(4, 9)) // 128 * 128 - 1000  # fits just so often
    made.append(
        Case(
            "a driver that keeps 1,000 bytes",
            f"128 threads, 32 registers a thread, {size} bytes of shared memory, {odd}",
            "blocks_that_fit",
            (odd, 128, 32, size),
        )
    )
    for cc, threads, shared, wanted in (
        ("9.0", 256, 0, 1.0),
        ("9.0", 32 * int(rng.integers(2, 16)), 0, 0.5),
        ("8.0", 128, 0, 0.75),
        ("8.6", 32 * int(rng.integers(2, 12)), int(rng.integers(0, 4000)), 0.25),
        ("8.9", 1024, 0, 1.0),
        ("9.0", 32, 0, 0.01),
        ("9.0", 64, 60_000, 0.9),
    ):
        sm = _as_given(LIMITS[cc])
        summary = f"{threads} threads, {shared} bytes of shared memory, at least {wanted:g}, {sm}"
        made.append(Case("the most registers", summary, "most_registers", (sm, threads, shared, wanted)))
    return made


def _computed(sm: Sm, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    cc = next(cc for cc, limits in LIMITS.items() if _as_given(limits) == sm)
    return computed(cc, threads, registers, shared_bytes)


def _most_registers(sm: Sm, threads: int, shared_bytes: int, wanted: float) -> int:
    fitting = [r for r in range(1, 256) if _computed(sm, threads, r, shared_bytes).share >= wanted]
    return max(fitting, default=0)


def _blocks(sm: Sm, threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
    kept = {_as_given(one)["reserved_bytes"] for one in LIMITS.values()}
    if sm["reserved_bytes"] not in kept:  # made up: as a smaller block of a real one
        shared_bytes += sm["reserved_bytes"] - 1024
        sm = {**sm, "reserved_bytes": 1024}
    return {_NAMES[k]: most for k, most in _computed(sm, threads, registers, shared_bytes).limits.items()}


AGREES_WITH = {
    "blocks_that_fit": _blocks,
    "occupancy": lambda *given: _computed(*given).share,
    "limiters": lambda *given: sorted(_NAMES[name] for name in _computed(*given).limiters),
    "most_registers": _most_registers,
}
