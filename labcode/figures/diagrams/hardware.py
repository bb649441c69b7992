"""Nothing in; drawings of a GPU by the names its counters have out: units, metric names, clusters."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labcode.figures.diagrams.sketch import arrow, box, canvas, heading, text
from labcode.figures.style import SMALL_PT, TEXT_PT, current, styled

PARTITIONS = 4


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
    palette = current()
    axes.add_patch(
        Rectangle(
            (left, top),
            right - left,
            bottom - top,
            facecolor="none",
            edgecolor=palette.line,
            linewidth=0.9,
            zorder=1,
        )
    )
    if words:
        text(axes, left + 0.12, top + 0.18, words, bold=True, size=TEXT_PT)
    if prefix:
        text(axes, right - 0.12, top + 0.18, prefix, align="right", bold=True, size=SMALL_PT)
