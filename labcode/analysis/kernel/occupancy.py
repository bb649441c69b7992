"""Theoretical occupancy: compute capability, threads, registers, shared memory in; blocks, warps, limits out.

An SM gives a block its warps, registers and shared memory whole or not at all. Registers go to warps, in
units of 256, from the register file of one of four partitions; shared memory goes to blocks, in units of
128 bytes (256 before compute capability 8.0), with 1 KiB that the driver keeps in each block from 8.0 on.
How many blocks fit is the smallest of what each resource allows.

Sources: *CUDA C++ Programming Guide* 13.0, section *Compute Capabilities*, table of technical specifications,
for the limits; the same and each architecture's tuning guide for the sizes the shared memory can have;
``cuda_occupancy.h`` of CUDA 13.0, against which the tests compare every compute capability, for the units.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from labcode.errors import LabError

WARP = 32
MOST_THREADS = 1024
REGISTERS_PER_SM = 65_536
MOST_REGISTERS = 255
REGISTER_UNIT = 256
PARTITIONS = 4
_KIB = 1024

_CARVEOUTS_100 = (0, 8, 16, 32, 64, 100)
_CARVEOUTS_164 = (*_CARVEOUTS_100, 132, 164)
_CARVEOUTS_228 = (*_CARVEOUTS_164, 196, 228)


@dataclass(frozen=True)
class Limits:
    """What an SM of a compute capability has: sizes in bytes, barriers for all its blocks together.

    ``shared_unit`` is the unit of allocation; ``reserved_bytes`` what the driver keeps in each block;
    ``carveout_bytes`` the sizes shared memory can be given out of what it shares with the L1.
    """

    cc: str
    chips: str
    warps: int
    blocks: int
    shared_bytes: int
    shared_block_bytes: int
    reserved_bytes: int
    shared_unit: int
    barriers: int
    carveout_bytes: tuple[int, ...]


def _limits(
    cc: str, chips: str, warps: int, blocks: int, carveouts_kib: tuple[int, ...], barriers: int = 2
) -> Limits:
    old = float(cc) < 8
    shared = carveouts_kib[-1] * _KIB
    reserved = 0 if old else _KIB
    return Limits(
        cc=cc,
        chips=chips,
        warps=warps,
        blocks=blocks,
        shared_bytes=shared,
        shared_block_bytes=shared - reserved,
        reserved_bytes=reserved,
        shared_unit=256 if old else 128,
        barriers=barriers * blocks,
        carveout_bytes=tuple(size * _KIB for size in carveouts_kib),
    )


LIMITS: Mapping[str, Limits] = {
    one.cc: one
    for one in (
        _limits("7.0", "V100", 64, 32, (0, 8, 16, 32, 64, 96)),
        _limits("7.2", "Xavier", 64, 32, (0, 8, 16, 32, 64, 96)),
        _limits("7.5", "T4, RTX 20", 32, 16, (32, 64)),
        _limits("8.0", "A100, A30", 64, 32, _CARVEOUTS_164),
        _limits("8.6", "A10, A40, RTX 30", 48, 16, _CARVEOUTS_100, barriers=1),
        _limits("8.7", "Orin", 48, 16, _CARVEOUTS_164, barriers=1),
        _limits("8.9", "L4, L40S, RTX 40", 48, 24, _CARVEOUTS_100, barriers=1),
        _limits("9.0", "H100, H200, GH200", 64, 32, _CARVEOUTS_228),
        _limits("10.0", "B200, GB200", 64, 32, _CARVEOUTS_228),
        _limits("10.3", "B300, GB300", 64, 32, _CARVEOUTS_228),
        _limits("11.0", "Thor", 48, 24, _CARVEOUTS_228, barriers=1),
        _limits("12.0", "RTX 50, RTX PRO Blackwell", 48, 24, _CARVEOUTS_100, barriers=1),
        _limits("12.1", "GB10", 48, 24, _CARVEOUTS_100, barriers=1),
    )
}


@dataclass(frozen=True)
class Occupancy:
    """How much of an SM a launch can fill.

    ``blocks`` and ``warps`` fit at once; ``share`` is warps ÷ the most there can be. ``limits`` says how
    many blocks each resource allows ('warps', 'blocks', 'registers', 'shared memory', 'barriers'),
    ``limiters`` names those that allow no more than ``blocks``. ``registers_per_thread`` is what a thread
    is given, ``shared_per_block`` what a block is given, in bytes, with the driver's part.
    """

    cc: str
    blocks: int
    warps: int
    share: float
    limits: Mapping[str, int]
    limiters: tuple[str, ...]
    registers_per_thread: int
    shared_per_block: int


def occupancy(
    cc: str,
    threads: int,
    registers: int,
    shared_bytes: int = 0,
    *,
    carveout_bytes: int | None = None,
    barriers: int = 0,
) -> Occupancy:
    """Theoretical occupancy of blocks of ``threads`` with ``registers`` per thread, ``shared_bytes`` each.

    ``shared_bytes`` is static and dynamic shared memory together, without the driver's part.
    ``carveout_bytes`` is the shared memory an SM is set up with (by default the most it can have; less
    where a launch asks for more L1); too little for one block is raised to the next size that holds one.
    ``barriers`` counts the block's barriers; it limits from compute capability 9.0 on. Raises `LabError`
    for a compute capability without an entry in `LIMITS` and for numbers that no launch can have.
    """
    sm = limits_of(cc)
    if not 1 <= threads <= MOST_THREADS:
        raise LabError(f"{threads} threads: a block has 1 to {MOST_THREADS}")
    if not 0 <= registers <= MOST_REGISTERS + 1:
        raise LabError(f"{registers} registers: a thread has at most {MOST_REGISTERS}")
    if shared_bytes < 0 or barriers < 0:
        raise LabError("shared memory and barriers cannot be negative")
    warps = _up(threads, WARP) // WARP
    shared = _up(shared_bytes + sm.reserved_bytes, sm.shared_unit)
    warp_registers = _up(registers * WARP, REGISTER_UNIT)
    limits = {
        "warps": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": _by_registers(warp_registers, warps, sm),
        "shared memory": _by_shared(shared, sm, carveout_bytes),
    }
    if barriers and float(sm.cc) >= 9:
        limits["barriers"] = sm.barriers // barriers
    blocks = min(limits.values())
    return Occupancy(
        cc=sm.cc,
        blocks=blocks,
        warps=blocks * warps,
        share=blocks * warps / sm.warps,
        limits=limits,
        limiters=tuple(name for name, most in limits.items() if most == blocks),
        registers_per_thread=warp_registers // WARP,
        shared_per_block=shared,
    )


def limits_of(cc: str) -> Limits:
    """The limits of a compute capability; `LabError` names those there are."""
    try:
        return LIMITS[cc]
    except KeyError:
        raise LabError(
            f"no occupancy limits for compute capability {cc}; there are: {', '.join(LIMITS)}"
        ) from None


def _by_registers(warp_registers: int, warps: int, sm: Limits) -> int:
    """Blocks that fit by registers: none when the block is refused, as all partitions are checked at once."""
    if warp_registers == 0:
        return sm.blocks
    if warp_registers * _up(warps, PARTITIONS) > REGISTERS_PER_SM:
        return 0
    return REGISTERS_PER_SM // PARTITIONS // warp_registers * PARTITIONS // warps


def _by_shared(shared: int, sm: Limits, carveout: int | None) -> int:
    if shared > sm.shared_block_bytes + sm.reserved_bytes:
        return 0
    if shared == 0:
        return sm.blocks
    size = sm.shared_bytes if carveout is None else carveout
    if size < shared:
        size = min(step for step in sm.carveout_bytes if step >= shared)
    return size // shared


def _up(number: int, unit: int) -> int:
    return (number + unit - 1) // unit * unit


def curve(
    cc: str, over: str, threads: int, registers: int, shared_bytes: int = 0, carveout_bytes: int | None = None
) -> pd.DataFrame:
    """Occupancy while one quantity varies and the others stay: columns x, blocks, warps, share, limiter.

    ``over`` is 'threads', 'registers' or 'shared_bytes'.
    """
    sm = limits_of(cc)
    ranges = {
        "threads": range(WARP, MOST_THREADS + 1, WARP),
        "registers": range(16, MOST_REGISTERS + 1),
        "shared_bytes": range(0, sm.shared_block_bytes + 1, _KIB),
    }
    if over not in ranges:
        raise LabError(f"{over!r}: the curve is over one of {', '.join(ranges)}")
    fixed = {"threads": threads, "registers": registers, "shared_bytes": shared_bytes}
    rows = []
    for x in ranges[over]:
        found = occupancy(cc, **{**fixed, over: x}, carveout_bytes=carveout_bytes)
        rows.append((x, found.blocks, found.warps, found.share, ", ".join(found.limiters)))
    return pd.DataFrame(rows, columns=["x", "blocks", "warps", "share", "limiter"]).astype(
        {"x": np.int64, "blocks": np.int64, "warps": np.int64, "share": np.float64, "limiter": "str"}
    )


def tables() -> dict[str, object]:
    """Everything the calculator needs as plain data, for the page that computes in the browser."""
    return {
        "warp": WARP,
        "most_threads": MOST_THREADS,
        "registers": REGISTERS_PER_SM,
        "most_registers": MOST_REGISTERS,
        "register_unit": REGISTER_UNIT,
        "partitions": PARTITIONS,
        "limits": {
            cc: {**asdict(one), "carveout_bytes": list(one.carveout_bytes)} for cc, one in LIMITS.items()
        },
    }
