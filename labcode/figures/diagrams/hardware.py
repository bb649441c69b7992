"""Units, accesses or issue slots in; drawings of a GPU by the names that its counters have out."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from labcode.figures.diagrams.sketch import arrow, box, canvas, guide, heading, rectangle, shade, text
from labcode.figures.style import SMALL_PT, TEXT_PT, current, styled

PARTITIONS = 4
SECTOR_BYTES = 32
LINE_BYTES = 128
BANKS = 32
BANK_BYTES = 4
SHOWN_LINES = 8
STALLED, ELIGIBLE, SELECTED = 0, 1, 2
LEFT, RIGHT = 1.0, 7.45


@styled
def units_and_counters() -> Figure:
    """An SM with its four partitions, the L1, the way to L2 and DRAM, each with its counters' prefix."""
    figure, axes = canvas(4.05)
    _frame(axes, 0.05, 5.75, 0.05, 2.42, "streaming multiprocessor (SM)", "sm__")
    for part in range(PARTITIONS):
        left = 0.17 + 1.4 * part
        _frame(axes, left, left + 1.28, 0.42, 1.54, "", "")
        text(axes, left + 0.64, 0.56, "smsp__", align="center", bold=True)
        for row, words in enumerate(
            ("warp scheduler", "register file", "pipes: FMA, ALU,\nFP64, tensor, XU")
        ):
            high = 0.24 if row < 2 else 0.36
            middle = 0.77 + 0.26 * row + (0.05 if row == 2 else 0)
            role = ("sync", "series2", "kernel")[row]
            box(axes, left + 0.06, left + 1.23, middle, words, role, height=high)
    box(axes, 0.17, 1.52, 1.74, "load/store pipe (LSU)", "kernel", height=0.24)
    box(axes, 1.57, 2.92, 1.74, "TMA (from cc 9.0)", "kernel", height=0.24)
    text(axes, 3.05, 1.74, "shared by the four partitions", muted=True)
    box(
        axes,
        0.17,
        5.66,
        2.17,
        "L1 cache and shared memory: l1tex__   (one memory, divided by a launch)",
        "h2d",
    )
    _frame(axes, 5.95, 7.45, 0.05, 2.42, "", "")
    text(axes, 6.7, 0.95, "more SMs,\neach the same", align="center", muted=True)
    text(axes, 6.7, 1.5, "several make\na GPC: gpc__", align="center", muted=True)
    arrow(axes, (1.2, 2.42), (1.2, 2.76))
    text(axes, 1.3, 2.58, "sectors that missed in the L1")
    arrow(axes, (6.7, 2.42), (6.7, 2.76))
    box(axes, 0.05, 7.45, 2.88, "crossbar", "idle", height=0.22)
    for half in range(2):
        left = 0.05 + 3.75 * half
        arrow(axes, (left + 1.8, 3.0), (left + 1.8, 3.13))
        box(axes, left, left + 3.65, 3.27, f"L2, partition {half}: slices, lts__", "d2h")
        arrow(axes, (left + 1.8, 3.41), (left + 1.8, 3.7))
        text(axes, left + 1.9, 3.55, "sectors that missed in the L2")
        box(axes, left, left + 3.65, 3.84, "memory: dram__", "nccl")
    axes.plot([3.69, 3.8], [3.27, 3.27], color=current().line, linewidth=2.5, zorder=3)
    return figure


@styled
def metric_anatomy() -> Figure:
    """Three metric names cut into unit, quantity, which of them, roll-up, and what it is set against."""
    figure, axes = canvas(2.55)
    rows = [
        ("l1tex__", "t_sectors", "_pipe_lsu_mem_global_op_ld", ".sum", ""),
        ("smsp__", "issue_active", "", ".avg", ".per_cycle_active"),
        ("dram__", "throughput", "", ".avg", ".pct_of_peak_sustained_elapsed"),
    ]
    columns = [
        (0.05, 0.8, "unit", "sync"),
        (0.83, 1.85, "quantity", "series2"),
        (1.88, 4.0, "which of them", "idle"),
        (4.03, 4.5, "roll-up", "h2d"),
        (4.53, 7.45, "set against", "d2h"),
    ]
    for start, _, words, _ in columns:
        text(axes, start, 0.14, words, bold=True)
    for number, parts in enumerate(rows):
        y = 0.45 + 0.36 * number
        for (start, end, _, role), part in zip(columns, parts, strict=True):
            if part:
                box(axes, start, end if end < 7 else start + 2.3, y, part, role)
    notes = [
        "sectors that global loads asked the L1 for: all of them, over all L1s of the GPU",
        "of the cycles with a warp on a scheduler, how many issued an instruction; mean over schedulers",
        "the DRAM's busiest part against its best rate, over all cycles of the kernel; mean over channels",
    ]
    for number, (note, letter) in enumerate(zip(notes, ("first", "second", "third"), strict=True)):
        y = 1.58 + 0.28 * number
        text(axes, 0.05, y, f"{letter}:", bold=True)
        text(axes, 0.65, y, note)
    text(
        axes,
        0.05,
        2.43,
        "roll-ups: .sum .avg .min .max, over all instances of the unit on the chip",
        muted=True,
    )
    return figure


@styled
def way_of_a_load() -> Figure:
    """A load from instruction to DRAM: what is counted at each station, under the name of its counter."""
    figure, axes = canvas(2.1)
    stations = [
        ("instruction", "smsp", "smsp__inst_executed\n_op_global_ld", "1 for a warp", "sync"),
        ("request", "L1", "l1tex__t_requests\n_…_op_ld", "1", "series2"),
        ("sectors, asked", "L1", "l1tex__t_sectors\n_…_op_ld", "1 to 32", "h2d"),
        ("sectors, missed", "L2", "lts__t_sectors\n_srcunit_tex", "what the L1 had not", "d2h"),
        ("sectors, missed", "DRAM", "dram__sectors_read", "what the L2 had not", "nccl"),
    ]
    step = 1.5
    for number, (what, where, counter, count, role) in enumerate(stations):
        left = 0.03 + step * number
        middle = left + 0.61
        text(axes, middle, 0.16, where, align="center", bold=True, size=TEXT_PT)
        box(axes, left, left + 1.23, 0.5, what, role, height=0.34)
        text(axes, middle, 0.94, counter, align="center")
        text(axes, middle, 1.27, count, align="center", muted=True)
        if number:
            arrow(axes, (left - 0.25, 0.5), (left - 0.03, 0.5))
    for start, end, words in (
        (1.53, 4.26, "cut into wavefronts: what fits in one turn"),
        (4.53, 7.29, "a hit goes no further"),
    ):
        axes.plot([start, end], [1.5, 1.5], color=current().line, linewidth=1.0)
        for x in (start, end):
            axes.plot([x, x], [1.44, 1.5], color=current().line, linewidth=1.0)
        text(axes, (start + end) / 2, 1.64, words, align="center", muted=True)
    text(
        axes,
        0.03,
        1.97,
        "_…_ stands for _pipe_lsu_mem_global; every name ends in .sum for the total",
        muted=True,
    )
    return figure


@styled
def clusters_and_bulk_copies() -> Figure:
    """Blocks of a cluster read each other's shared memory; the TMA copies tiles without registers."""
    figure, axes = canvas(2.85)
    _frame(axes, 0.05, 4.55, 0.05, 1.62, "GPC: the blocks of a cluster run at the same time", "")
    for k in range(3):
        left = 0.2 + 1.48 * k
        box(axes, left, left + 1.25, 0.55, f"SM {k}: block {k}", "kernel")
        box(axes, left, left + 1.25, 0.92, "shared memory", "h2d")
        if k:
            arrow(axes, (left - 0.24, 0.92), (left - 0.02, 0.92))
            arrow(axes, (left - 0.02, 0.84), (left - 0.24, 0.84))
    text(axes, 2.8, 1.24, "distributed shared memory: loads, stores and atomics", align="center")
    text(axes, 2.8, 1.42, "from SM to SM, without the L2", align="center")
    box(axes, 0.05, 4.55, 2.05, "L2 and DRAM", "d2h")
    arrow(axes, (0.82, 1.92), (0.82, 1.06))
    text(axes, 0.92, 1.77, "TMA: a tile, one copy or one for all blocks (multicast)")
    heading(axes, 0.16, "A load through registers", 4.8)
    steps = [
        ("each thread computes an address", 0.42),
        ("request, sectors, L1, registers", 0.64),
        ("each thread stores to shared memory", 0.86),
    ]
    for words, y in steps:
        text(axes, 4.8, y, f"·  {words}")
    heading(axes, 1.3, "A bulk copy by the TMA", 4.8)
    for words, y in [
        ("one thread names the tile", 1.56),
        ("the engine makes all the addresses", 1.78),
        ("data go straight to shared memory", 2.0),
        ("a barrier in shared memory says", 2.22),
    ]:
        text(axes, 4.8, y, f"·  {words}")
    text(axes, 4.93, 2.4, "when all bytes have arrived")
    text(axes, 0.05, 2.5, "Bytes on the way take no registers, and no warp has to wait for them.", muted=True)
    return figure


def _frame(axes: Axes, left: float, right: float, top: float, bottom: float, words: str, prefix: str) -> None:
    """A unit that contains others, with its name and its counters' prefix at the top."""
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": current().line, "linewidth": 0.9}
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, **look))
    if words:
        text(axes, left + 0.12, top + 0.18, words, bold=True, size=TEXT_PT)
    if prefix:
        text(axes, right - 0.12, top + 0.18, prefix, align="right", bold=True, size=SMALL_PT)


def bytes_by_sector(addresses: Sequence[int], size: int) -> dict[int, int]:
    """Bytes that a warp wants of each 32-byte sector it touches, by the sector's number.

    ``addresses`` are byte addresses, one per thread, aligned to ``size``; the same bytes count once.
    """
    wanted: dict[int, set[int]] = defaultdict(set)
    for address in addresses:
        for byte in range(address, address + size):
            wanted[byte // SECTOR_BYTES].add(byte)
    return {sector: len(found) for sector, found in sorted(wanted.items())}


def conflict_ways(addresses: Sequence[int]) -> int:
    """Wavefronts that a warp's 4-byte accesses to shared memory take: the most distinct words in one bank."""
    words = {address // BANK_BYTES for address in addresses}
    return max(Counter(word % BANKS for word in words).values(), default=0)


@styled
def sector_map(patterns: Mapping[str, Sequence[int]], size: int = 4) -> Figure:
    """One row per pattern: the sectors of eight cache lines, filled by the share of each that the warp wants.

    ``patterns`` maps a name to byte addresses, one per thread. Addresses beyond the drawn lines count, too.
    """
    palette = current()
    figure, axes = canvas(0.62 + 0.52 * len(patterns))
    left, cell, gap = 1.42, 0.128, 0.075
    text(axes, left, 0.12, f"{SHOWN_LINES} cache lines of four sectors", muted=True)
    for x, words in ((6.17, "sectors"), (6.85, "used")):
        text(axes, x, 0.12, words, muted=True)
    for row, (name, addresses) in enumerate(patterns.items()):
        y = 0.42 + 0.52 * row
        wanted = bytes_by_sector(addresses, size)
        text(axes, 0.05, y, name, size=TEXT_PT)
        for sector in range(SHOWN_LINES * LINE_BYTES // SECTOR_BYTES):
            x = left + sector * cell + sector // (LINE_BYTES // SECTOR_BYTES) * gap
            touched = wanted.get(sector, 0)
            face = palette.tint if touched else palette.grid
            rectangle(axes, (x, y - 0.16), cell - 0.015, 0.32, face)
            high = 0.32 * touched / SECTOR_BYTES
            rectangle(axes, (x, y + 0.16 - high), cell - 0.015, high, palette.fill("kernel"), zorder=2)
        text(axes, 6.17, y, str(len(wanted)), size=TEXT_PT, bold=True)
        share = sum(wanted.values()) / (SECTOR_BYTES * len(wanted))
        text(axes, 6.85, y, f"{share:.3g}" if share < 0.2 else f"{share:.2g}", size=TEXT_PT, bold=True)
    y = 0.42 + 0.52 * len(patterns) - 0.08
    text(
        axes,
        left,
        y,
        "filled: bytes the warp wants   ·   tinted: bytes that come along   ·   gray: not touched",
        muted=True,
    )
    return figure


@styled
def bank_map(patterns: Mapping[str, Sequence[int]]) -> Figure:
    """One panel per pattern: which of the 32 banks each thread of a warp uses, and the turns it takes."""
    palette = current()
    count = len(patterns)
    side = min(1.6, (7.2 - 0.2 * count) / count)
    step = (7.3 - side) / max(1, count - 1) if count > 1 else 0.0
    figure, axes = canvas(side + 1.06)
    dot = side / BANKS
    for column, (name, addresses) in enumerate(patterns.items()):
        left, top = 0.12 + column * step, 0.36
        ways = conflict_ways(addresses)
        text(axes, left + side / 2, 0.16, name, align="center", bold=True)
        axes.add_patch(Rectangle((left, top), side, side, facecolor=palette.grid, linewidth=0, zorder=0.5))
        busiest = Counter(word % BANKS for word in {address // BANK_BYTES for address in addresses})
        for thread, address in enumerate(addresses):
            bank = address // BANK_BYTES % BANKS
            role = "sync" if busiest[bank] > 1 else "kernel"
            corner = (left + thread * dot, top + bank * dot)
            rectangle(axes, corner, dot, dot, palette.fill(role), zorder=2)
        text(axes, left + side / 2, top + side + 0.14, "thread 0 … 31", align="center", muted=True)
        turns = "1 wavefront" if ways == 1 else f"{ways} wavefronts"
        color = palette.good if ways == 1 else palette.warn
        text(axes, left + side / 2, top + side + 0.38, turns, align="center", bold=True, color=color)
    text(axes, 0.12, side + 0.97, "rows of each panel: bank 0 at the top … bank 31", muted=True)
    return figure


@styled
def scheduler_strip(panels: Sequence[tuple[str, NDArray[np.int_]]]) -> Figure:
    """One panel each: a title and an array, warps × cycles, of `STALLED`, `ELIGIBLE` or `SELECTED`.

    Below the warps stands the scheduler's issue slot: filled in cycles in which a warp was selected.
    """
    lane = 0.17
    heights = [0.32 + lane * (len(states) + 1.7) + 0.1 for _, states in panels]
    figure, axes = canvas(sum(heights) + 0.3)
    top = 0.0
    for (title, states), height in zip(panels, heights, strict=True):
        busy = (states == SELECTED).any(axis=0)
        heading(axes, top + 0.15, f"{title}: an instruction in {busy.sum()} of {busy.size} cycles")
        cell = (RIGHT - LEFT) / states.shape[1]
        for warp, row in enumerate(states):
            y = top + 0.32 + lane * (warp + 0.5)
            text(axes, LEFT - 0.08, y, f"warp {warp}", align="right")
            for cycle, state in enumerate(row):
                _cell(axes, LEFT + cycle * cell, y, cell, int(state), lane)
        y = top + 0.32 + lane * (len(states) + 0.9)
        text(axes, LEFT - 0.08, y, "issue slot", align="right", bold=True)
        for cycle, used in enumerate(busy):
            color = current().fill("kernel") if used else current().tint
            corner = (LEFT + cycle * cell, y - 0.07)
            axes.add_patch(Rectangle(corner, cell * 0.92, 0.14, facecolor=color, linewidth=0))
        top += height
    y, x = top + 0.12, LEFT
    for words, state, wide in (
        ("selected", SELECTED, 1.0),
        ("eligible, not selected", ELIGIBLE, 1.75),
        ("stalled", STALLED, 0.85),
    ):
        _cell(axes, x, y, 0.15, state, lane)
        text(axes, x + 0.2, y, words, muted=True)
        x += wide
    axes.add_patch(Rectangle((x, y - 0.07), 0.14, 0.14, facecolor=current().tint, linewidth=0))
    text(axes, x + 0.2, y, "issue slot unused", muted=True)
    text(axes, RIGHT, y, "cycles →", align="right", muted=True)
    return figure


def _cell(axes: Axes, x: float, y: float, width: float, state: int, lane: float) -> None:
    palette = current()
    high = {STALLED: 0.03, ELIGIBLE: lane * 0.5, SELECTED: lane * 0.86}[state]
    role = {STALLED: "idle", ELIGIBLE: "launch", SELECTED: "kernel"}[state]
    corner = (x, y - high / 2)
    axes.add_patch(Rectangle(corner, width * 0.92, high, facecolor=palette.fill(role), linewidth=0, zorder=2))


@styled
def block_waves(panels: Sequence[tuple[str, NDArray[np.float64]]]) -> Figure:
    """One panel each: a title and an array of blocks × (slot, start, end); lanes are places for a block.

    What is left of the time after a slot's last block is shaded: the tail.
    """
    lane = 0.2
    slots = [int(blocks[:, 0].max()) + 1 for _, blocks in panels]
    figure, axes = canvas(sum(0.42 + lane * count for count in slots) + 0.3)
    longest = max(float(blocks[:, 2].max()) for _, blocks in panels)
    scale = (RIGHT - LEFT - 0.1) / longest
    top = 0.0
    for (title, blocks), count in zip(panels, slots, strict=True):
        end = float(blocks[:, 2].max())
        used = float((blocks[:, 2] - blocks[:, 1]).sum()) / (count * end)
        heading(axes, top + 0.15, f"{title}: {used:.0%} of the places' time used")
        for slot in range(count):
            y = top + 0.42 + lane * slot
            text(axes, LEFT - 0.08, y, f"place {slot}", align="right")
            mine = blocks[blocks[:, 0] == slot]
            for _, start, stop in mine:
                box(axes, LEFT + start * scale, LEFT + stop * scale, y, "", "kernel", height=lane * 0.8)
            last = float(mine[:, 2].max()) if len(mine) else 0.0
            if end - last > 1e-9:
                shade(axes, LEFT + last * scale, LEFT + end * scale, y, height=lane * 0.8)
        guide(axes, LEFT + end * scale, top + 0.3, top + 0.35 + lane * count)
        top += 0.42 + lane * count
    arrow(axes, (LEFT, top + 0.12), (RIGHT - 0.5, top + 0.12))
    text(axes, RIGHT, top + 0.12, "time", align="right", muted=True, size=TEXT_PT)
    return figure
