"""Nothing in; drawings that explain how CPU and GPU work together out: no data, no measured number."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from labcode.figures.diagrams.sketch import (
    arrow,
    box,
    canvas,
    guide,
    heading,
    lane,
    shade,
    span,
    text,
    time_axis,
)
from labcode.figures.style import NARROW_IN, TEXT_PT, current, is_narrow, page_width, styled

LEFT, RIGHT = 1.3, 7.4


@styled
def asynchronous_launch() -> Figure:
    """A launch call returns before its kernel has begun; kernels queue up; synchronize waits for them."""
    figure, axes = canvas(2.45)
    cpu, gpu = 0.46, 1.32
    lane(axes, cpu, "CPU thread", LEFT, RIGHT)
    lane(axes, gpu, "GPU, one stream", LEFT, RIGHT)
    box(axes, 3.5, 4.4, cpu, "other work", "cpu")
    box(axes, 4.4, 6.9, cpu, "cudaDeviceSynchronize: the CPU waits", "sync")
    text(axes, 1.4, cpu - 0.27, "each call returns as soon as its kernel is in the queue", muted=True)
    for k, name in enumerate("ABC"):
        call, begin = 1.4 + 0.7 * k, 2.35 + 1.5 * k
        box(axes, call, call + 0.7, cpu, f"launch {name}", "launch")
        box(axes, begin, begin + 1.4, gpu, f"kernel {name}", "kernel")
        arrow(axes, (call + 0.35, cpu + 0.15), (begin + 0.06, gpu - 0.15), dashed=True)
    shade(axes, 1.4, 2.35, gpu, "idle")
    guide(axes, 1.4, cpu + 0.13, 1.68)
    span(axes, 1.4, 2.35, 1.68, "launch latency:\ncall to kernel start", side="left")
    span(axes, 3.74, 3.85, 1.68, "small gap between\ntwo kernels")
    text(axes, 4.75, 1.92, "B and C wait in the queue,\nso the GPU has no reason to idle")
    time_axis(axes, 2.32, LEFT, RIGHT)
    return figure


@styled
def streams_in_order() -> Figure:
    """One stream runs its work in order; two streams may overlap; an event lets one wait for the other."""
    figure, axes = canvas(2.75)
    heading(axes, 0.16, "One stream: in the order of the calls, one after the other")
    lane(axes, 0.5, "stream 1", LEFT, RIGHT)
    for i, name in enumerate("ABCD"):
        box(axes, 1.4 + i * 1.3, 2.66 + i * 1.3, 0.5, name, "kernel")
    heading(axes, 0.98, "Two streams: in order within each, no order between them")
    lane(axes, 1.32, "stream 1", LEFT, 4.1)
    lane(axes, 1.66, "stream 2", LEFT, RIGHT)
    box(axes, 1.4, 2.66, 1.32, "A", "kernel")
    box(axes, 2.7, 3.96, 1.32, "C", "kernel")
    box(axes, 1.5, 2.76, 1.66, "B", "kernel")
    shade(axes, 2.78, 4.04, 1.66, "waits for C")
    box(axes, 4.06, 5.32, 1.66, "D", "kernel")
    arrow(axes, (3.96, 1.4), (4.12, 1.53))
    text(axes, 4.2, 1.32, "event recorded after C; stream 2 waits for it before D", muted=True)
    text(axes, LEFT + 0.1, 2.05, "A and B overlap only if the GPU has room for both at once:", muted=True)
    text(
        axes,
        LEFT + 0.1,
        2.22,
        "a kernel that fills all multiprocessors leaves nothing to share.",
        muted=True,
    )
    time_axis(axes, 2.5, LEFT, RIGHT)
    return figure


@styled
def copy_engines() -> Figure:
    """Copies in each direction and kernels use three different engines, which can work at once."""
    figure, axes = canvas(3.3)
    names = ("copies to the GPU", "kernels", "copies to the host")
    roles = ("h2d", "kernel", "d2h")
    left = 1.55
    heading(axes, 0.16, "All at once: one engine works, two wait")
    whole = [(1.65, 3.25), (3.25, 4.65), (4.65, 6.25)]
    for k, (name, role) in enumerate(zip(names, roles, strict=True)):
        y = 0.5 + 0.32 * k
        lane(axes, y, name, left, RIGHT)
        box(axes, *whole[k], y, ("input", "compute", "output")[k], role)
    heading(axes, 1.68, "In four chunks on streams: three engines work at once")
    lengths = (0.4, 0.35, 0.4)
    free = [1.65, 0.0, 0.0]
    for chunk in range(4):
        ready = 0.0
        for k, role in enumerate(roles):
            start = max(free[k], ready)
            box(axes, start, start + lengths[k], 2.02 + 0.32 * k, str(chunk + 1), role)
            ready = free[k] = start + lengths[k]
    for k, name in enumerate(names):
        lane(axes, 2.02 + 0.32 * k, name, left, RIGHT)
    guide(axes, free[2], 1.85, 3.0)
    guide(axes, 6.25, 0.35, 3.0)
    span(axes, free[2], 6.25, 2.34, "time saved", color=current().good)
    time_axis(axes, 3.1, left, RIGHT)
    return figure


@styled
def ring_all_reduce() -> Figure:
    """Four GPUs in a ring: partial sums travel until each GPU owns one full sum; then those travel on."""
    figure, axes = canvas(2.85)
    center, radius = (1.05, 1.3), 0.68
    spots = [
        (
            center[0] + radius * math.sin(math.pi / 2 * k),
            center[1] - radius * math.cos(math.pi / 2 * k),
        )
        for k in range(4)
    ]
    for k, (x, y) in enumerate(spots):
        nx, ny = spots[(k + 1) % 4]
        dx, dy = nx - x, ny - y
        length = math.hypot(dx, dy)
        tail = (x + dx / length * 0.27, y + dy / length * 0.27)
        head = (nx - dx / length * 0.27, ny - dy / length * 0.27)
        color = current().fill("nccl")
        axes.add_patch(
            FancyArrowPatch(
                tail,
                head,
                arrowstyle="-|>",
                mutation_scale=10,
                linewidth=1.8,
                color=color,
                shrinkA=0,
                shrinkB=0,
            )
        )
        axes.add_patch(Circle((x, y), 0.23, facecolor=current().fill("kernel"), linewidth=0))
        text(axes, x, y, f"GPU {k}", align="center", color=current().on("kernel"))
    text(
        axes, center[0], 2.45, "each GPU sends only to\nthe next one in the ring", align="center", muted=True
    )
    states = [
        ("Before", [[1] * 4 for _ in range(4)], "own gradients,\ncut into 4 chunks"),
        (
            "After reduce-scatter",
            [[4 if (c + 3) % 4 == g else (g - c) % 4 + 1 for c in range(4)] for g in range(4)],
            "3 steps: each GPU owns\nthe full sum of 1 chunk",
        ),
        ("After all-gather", [[4] * 4 for _ in range(4)], "3 more steps: everyone\nhas all full sums"),
    ]
    for k, (title, counts, words) in enumerate(states):
        x = 2.7 + k * 1.72
        _draw_chunks(axes, x, 0.5, counts)
        text(axes, x + 0.56, 0.22, title, align="center", bold=True, size=TEXT_PT)
        text(axes, x + 0.56, 1.93, words, align="center", muted=True)
        if k:
            arrow(axes, (x - 0.53, 1.05), (x - 0.33, 1.05))
    text(axes, 2.4, 2.32, "number in a cell: how many GPUs' gradients are summed in it", muted=True)
    text(axes, 2.4, 2.5, "with N GPUs, each sends 2 (N − 1) / N times the size of the gradients", muted=True)
    return figure


def _draw_chunks(axes: Axes, x: float, y: float, counts: list[list[int]]) -> None:
    """One row per GPU, one column per chunk; full sums are filled."""
    palette = current()
    for g, row in enumerate(counts):
        text(axes, x - 0.06, y + 0.14 + g * 0.3, str(g), align="right", muted=True)
        for c, count in enumerate(row):
            full = count == 4
            color = palette.fill("nccl") if full else palette.grid
            corner = (x + c * 0.28, y + g * 0.3)
            axes.add_patch(Rectangle(corner, 0.26, 0.28, facecolor=color, linewidth=0))
            ink = palette.on("nccl") if full else palette.text
            text(axes, corner[0] + 0.13, corner[1] + 0.14, str(count), align="center", color=ink)


@styled
def bucketed_overlap() -> Figure:
    """Gradients reduced after the backward pass, and in buckets while it still runs."""
    figure, axes = canvas(2.95)
    layers = [f"layer {n}" for n in (4, 3, 2, 1)]
    heading(axes, 0.16, "Reduced after the backward pass")
    lane(axes, 0.5, "compute", LEFT, RIGHT)
    lane(axes, 0.82, "communication", LEFT, RIGHT)
    for k, name in enumerate(layers):
        box(axes, 1.4 + 0.7 * k, 2.1 + 0.7 * k, 0.5, name, "kernel")
    box(axes, 4.2, 6.4, 0.82, "all-reduce of all gradients", "nccl")
    shade(axes, 4.2, 6.4, 0.5, "compute waits")
    box(axes, 6.4, 7.1, 0.5, "optimizer", "kernel")
    span(axes, 4.2, 6.4, 1.06, "exposed: all of it")
    heading(axes, 1.55, "Reduced in buckets while the backward pass runs")
    lane(axes, 1.89, "compute", LEFT, RIGHT)
    lane(axes, 2.21, "communication", LEFT, RIGHT)
    for k, name in enumerate(layers):
        box(axes, 1.4 + 0.7 * k, 2.1 + 0.7 * k, 1.89, name, "kernel")
    box(axes, 2.84, 3.94, 2.21, "bucket 4 + 3", "nccl")
    box(axes, 4.24, 5.34, 2.21, "bucket 2 + 1", "nccl")
    arrow(axes, (2.79, 2.02), (2.88, 2.09))
    arrow(axes, (4.19, 2.02), (4.28, 2.09))
    shade(axes, 4.2, 5.34, 1.89, "waits")
    box(axes, 5.34, 6.04, 1.89, "optimizer", "kernel")
    span(axes, 2.84, 3.94, 2.45, "hidden")
    span(axes, 4.24, 5.34, 2.45, "exposed: the last bucket")
    time_axis(axes, 2.78, LEFT, RIGHT)
    return figure


@styled
def host_timer_and_events() -> Figure:
    """What a host timer measures without and with synchronize, and what CUDA events measure."""
    figure, axes = canvas(2.75)
    cpu, gpu = 0.28, 0.78
    lane(axes, cpu, "CPU thread", LEFT, RIGHT)
    lane(axes, gpu, "GPU", LEFT, RIGHT)
    box(axes, 1.5, 2.3, cpu, "launch", "launch")
    box(axes, 2.3, 6.5, cpu, "synchronize", "sync")
    box(axes, 2.9, 6.2, gpu, "kernel", "kernel")
    for x in (2.86, 6.22):
        axes.plot(x, gpu, marker="D", markersize=6, color=current().text, markeredgewidth=0, zorder=4)
    arrow(axes, (1.9, cpu + 0.15), (2.76, gpu - 0.08), dashed=True)
    text(axes, LEFT - 0.1, 1.2, "CUDA events", align="right", size=TEXT_PT)
    span(axes, 2.86, 6.22, 1.2, "the kernel, timed by the GPU between two events in its stream")
    text(axes, LEFT - 0.1, 1.65, "host timer\nwith synchronize", align="right", size=TEXT_PT)
    span(axes, 1.5, 6.5, 1.65, "launch, kernel, and the way back to the CPU")
    text(axes, LEFT - 0.1, 2.1, "host timer,\nno synchronize", align="right", size=TEXT_PT)
    span(axes, 1.5, 2.3, 2.1, "the launch call only, however long the kernel takes", side="right")
    for x, bottom in ((1.5, 2.1), (2.3, 2.1), (6.5, 1.65)):
        guide(axes, x, cpu + 0.13, bottom)
    for x in (2.86, 6.22):
        guide(axes, x, gpu + 0.08, 1.2)
    time_axis(axes, 2.5, LEFT, RIGHT)
    return figure


@styled
def nvtx_projection() -> Figure:
    """An NVTX range lies where the CPU launched; projected to the GPU it lies where the work ran."""
    figure, axes = canvas(2.7)
    lane(axes, 0.28, "NVTX, on the CPU", LEFT + 0.35, 4.3)
    lane(axes, 0.6, "CUDA API", LEFT + 0.35, 4.3)
    lane(axes, 1.34, "NVTX, on the GPU", LEFT + 0.35, RIGHT)
    lane(axes, 1.66, "GPU stream", LEFT + 0.35, RIGHT)
    forward, backward = (1.75, 2.95), (2.98, 4.18)
    box(axes, *forward, 0.28, "forward", "nvtx1")
    box(axes, *backward, 0.28, "backward", "nvtx2")
    pairs = [
        (1.8, 2.4, 3.5),
        (2.2, 3.55, 4.3),
        (2.6, 4.5, 4.9),
        (3.05, 4.95, 6.0),
        (3.5, 6.05, 6.6),
        (3.9, 6.65, 7.2),
    ]
    for call, start, end in pairs:
        role = "nvtx1" if call < 2.95 else "nvtx2"
        box(axes, call, call + 0.25, 0.6, "", "launch")
        box(axes, start, end, 1.66, "", "kernel")
        axes.plot(
            [start, end - 0.012],
            [1.82, 1.82],
            color=current().fill(role),
            linewidth=2.2,
            solid_capstyle="butt",
        )
        arrow(axes, (call + 0.12, 0.75), (start + 0.06, 1.18), dashed=True)
    box(axes, 2.4, 4.9, 1.34, "forward", "nvtx1")
    box(axes, 4.95, 7.2, 1.34, "backward", "nvtx2")
    shade(axes, 4.3, 4.49, 1.66)
    words = (
        "“forward” on the GPU: from the start of its first kernel\nto the end of its last, the gap included"
    )
    span(axes, 2.4, 4.9, 1.98, words)
    text(
        axes, 4.45, 0.44, "the CPU has left both ranges before\nmost of their kernels have begun", muted=True
    )
    time_axis(axes, 2.5, LEFT + 0.35, RIGHT)
    return figure


@styled
def energy_by_clock() -> Figure:
    """Energy of a fixed amount of work by the clock it runs at: two parts that move apart, and their sum."""
    width = NARROW_IN if is_narrow() else page_width()
    figure, axes = canvas(2.35, width)
    palette = current()
    left, right, bottom = 0.35, width - (1.25 if is_narrow() else 2.1), 2.05
    clocks = [0.3 + 0.7 * k / 60 for k in range(61)]
    constant = [0.3 / clock for clock in clocks]
    switching = [max(0.62, 0.2 + 0.8 * clock) ** 2 for clock in clocks]
    both = [one + other for one, other in zip(constant, switching, strict=True)]
    places = [left + 0.1 + (right - left - 0.1) * (clock - 0.3) / 0.7 for clock in clocks]
    axes.plot([left, left, right + 0.1], [0.1, bottom, bottom], color=palette.line, linewidth=0.8)
    for values, role, words in (
        (both, "kernel", "both"),
        (
            switching,
            "series3",
            "switching:\nV² per operation" if is_narrow() else "switching: V² per operation",
        ),
        (constant, "idle", "idle power\n× time" if is_narrow() else "idle power × time"),
    ):
        heights = [bottom - 1.32 * value for value in values]
        axes.plot(places, heights, color=palette.fill(role), linewidth=2, solid_capstyle="round")
        text(axes, right + 0.1, heights[-1], words)
    low = both.index(min(both))
    guide(axes, places[low], bottom - 1.32 * both[low], bottom)
    text(axes, places[low] + 0.07, bottom - 0.16, "least energy")
    text(axes, left + 0.06, 0.12, "energy for the same work", muted=True)
    text(axes, right, bottom + 0.15, "clock", align="right", muted=True)
    return figure
