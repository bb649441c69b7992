"""A term of the glossary in; the small drawing that its entry and its hover card show out.

Each is as wide as a phone, and the same on every screen. They hold no data and no measured number: lengths
mean no more than their order.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch
from matplotlib.path import Path

from labcode.figures.diagrams.sketch import arrow, box, canvas, shade, span, text
from labcode.figures.style import NARROW_IN, current, styled

_LEFT, _RIGHT = 0.08, 3.52
_ROW_IN = 0.2  # how high a piece of work is
_EMPTY = "empty"  # of cells: nothing is there
_LANE_IN = 0.78  # where rows with a name begin


@dataclass(frozen=True)
class Drawing:
    """How high a drawing is, in inches, what it shows in words, and what paints it."""

    height: float
    alt: str
    paint: Callable[[Axes], None]


DRAWINGS: dict[str, Drawing] = {}  # by term


@styled
def term_drawing(term: str) -> Figure:
    """What a term means, drawn."""
    drawing = DRAWINGS[term]
    figure, axes = canvas(drawing.height, NARROW_IN)
    drawing.paint(axes)
    return figure


def _shows(*terms: str, height: float) -> Callable[[Callable[[Axes], None]], Callable[[Axes], None]]:
    """What paints these terms; its docstring says what the drawing shows."""

    def keep(paint: Callable[[Axes], None]) -> Callable[[Axes], None]:
        alt = " ".join((paint.__doc__ or "").split())
        DRAWINGS.update(dict.fromkeys(terms, Drawing(height, alt, paint)))
        return paint

    return keep


def _cells(
    axes: Axes, corners: Iterable[tuple[float, float]], width: float, height: float, role: str
) -> None:
    """Equal boxes without words, by their upper left corners."""
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY]
    paths = [
        Path([(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)], codes)
        for x, y in corners
    ]
    palette = current()
    color = palette.grid if role == _EMPTY else palette.fill(role)
    axes.add_patch(PathPatch(Path.make_compound_path(*paths), facecolor=color, linewidth=0, zorder=2))


def _row(
    axes: Axes, y: float, name: str, *pieces: tuple[float, float, str, str], waits: tuple[float, ...] = ()
) -> None:
    """A name, pieces of work (from, to, words, role) and, as pairs, the times between them that are lost."""
    if name:
        text(axes, _LANE_IN - 0.07, y, name, align="right")
    for start, end in zip(waits[::2], waits[1::2], strict=True):
        shade(axes, start, end, y, height=_ROW_IN)
    for start, end, words, role in pieces:
        box(axes, start, end, y, words, role, height=_ROW_IN)


def _note(axes: Axes, y: float, words: str) -> None:
    text(axes, _LEFT, y, words, muted=True)


# The hardware ---------------------------------------------------------------------------------------------


@_shows("warp", height=0.78)
def _warp(axes: Axes) -> None:
    """A row of 32 cells under one instruction: the threads of a warp."""
    box(axes, 1.1, 2.5, 0.16, "one instruction", "nvtx1", height=_ROW_IN)
    arrow(axes, (1.8, 0.27), (1.8, 0.37))
    _cells(axes, [(_LEFT + 0.1075 * k, 0.39) for k in range(32)], 0.095, 0.16, "kernel")
    _note(axes, 0.67, "32 threads carry it out together")


@_shows("divergence", height=0.92)
def _divergence(axes: Axes) -> None:
    """Two rows of 32 threads. In the first, those that take the branch are active; in the second, the
    others."""
    for y, name, active in ((0.1, "if", range(12)), (0.38, "else", range(12, 32))):
        text(axes, _LEFT, y + 0.08, name)
        places = {k: (0.45 + 0.096 * k, y) for k in range(32)}
        _cells(axes, [places[k] for k in active], 0.084, 0.16, "kernel")
        _cells(axes, [place for k, place in places.items() if k not in active], 0.084, 0.16, _EMPTY)
    _note(axes, 0.72, "Paths run one after the other, each with the\nother threads idle.")


@_shows("coalesced", height=1.12)
def _coalesced(axes: Axes) -> None:
    """Eight sectors of memory, twice. Neighboring words fill four of them; every other word touches all
    eight."""
    for top, words, step in (
        (0.12, "neighboring words: 4 sectors, all of each used", 1),
        (0.66, "every other word: 8 sectors, half of each used", 2),
    ):
        text(axes, _LEFT, top, words)
        sectors = [(_LEFT + 0.434 * k, top + 0.11) for k in range(8)]
        _cells(axes, sectors[:4], 0.4, 0.2, "kernel" if step == 1 else "idle")
        _cells(axes, sectors[4:], 0.4, 0.2, _EMPTY if step == 1 else "idle")
        if step > 1:
            _cells(axes, [(x + 0.1 * k, y) for x, y in sectors for k in range(4)], 0.05, 0.2, "kernel")


@_shows("sector", height=0.72)
def _sector(axes: Axes) -> None:
    """A cache line of 128 bytes: four sectors of 32 bytes, one of them fetched."""
    for k in range(4):
        words, role = ("32 bytes", "kernel") if k == 1 else ("", "nvtx3")
        box(axes, _LEFT + 0.86 * k, _LEFT + 0.86 * (k + 1), 0.17, words, role, height=_ROW_IN)
    span(axes, _LEFT, _RIGHT, 0.39, "a cache line; the sector is what is fetched")


@_shows("bank", height=0.98)
def _bank(axes: Axes) -> None:
    """Words in columns: word 0 and word 32 lie in bank 0, word 1 and word 33 in bank 1."""
    for k, (name, low, high) in enumerate(
        (("bank 0", "0", "32"), ("bank 1", "1", "33"), ("…", "…", "…"), ("bank 31", "31", "63"))
    ):
        x = _LEFT + 0.86 * k
        text(axes, x + 0.42, 0.12, name, align="center", muted=True)
        box(axes, x, x + 0.85, 0.34, low, "nvtx1", height=_ROW_IN)
        box(axes, x, x + 0.85, 0.56, high, "nvtx2", height=_ROW_IN)
    _note(axes, 0.82, "words of four bytes; a bank delivers one per cycle")


@_shows("bank conflict", height=1.05)
def _bank_conflict(axes: Axes) -> None:
    """Left, one word from each of eight banks: one wavefront. Right, four words from each of two banks: four
    wavefronts."""
    for left, heights, words in (
        (_LEFT, [1] * 8, "1 wavefront"),
        (1.92, [4, 0, 0, 0, 4, 0, 0, 0], "4 wavefronts"),
    ):
        taken = [(left + 0.2 * b, 0.64 - 0.13 * n) for b, high in enumerate(heights) for n in range(high)]
        _cells(axes, taken, 0.17, 0.11, "kernel" if len(set(heights)) == 1 else "sync")
        _cells(axes, [(left + 0.2 * b, 0.79) for b in range(8)], 0.17, 0.03, "idle")
        text(axes, left, 0.93, words)
    text(axes, _LEFT, 0.12, "8 threads, 8 banks", muted=True)
    text(axes, 1.92, 0.12, "8 threads, 2 banks", muted=True)


@_shows("swizzle", height=1.22)
def _swizzle(axes: Axes) -> None:
    """Two squares of four rows. Stored plainly, a column's chunks lie below each other; swizzled, they lie on
    a diagonal."""
    for left, words, place in (
        (0.2, "plain: one bank", lambda _: 0),
        (1.95, "swizzled: four banks", lambda r: r),
    ):
        every = [(left + 0.33 * c, 0.3 + 0.17 * r, c == place(r)) for r in range(4) for c in range(4)]
        _cells(axes, [(x, y) for x, y, own in every if own], 0.3, 0.15, "kernel")
        _cells(axes, [(x, y) for x, y, own in every if not own], 0.3, 0.15, _EMPTY)
        text(axes, left, 0.14, words)
    arrow(axes, (1.55, 0.62), (1.88, 0.62))
    text(axes, 0.2, 1.1, "blue: the chunks of one column", muted=True)


@_shows("occupancy", height=0.74)
def _occupancy(axes: Axes) -> None:
    """Sixteen places for warps on an SM: ten are taken, six are free."""
    places = [(_LEFT + 0.216 * k, 0.1) for k in range(16)]
    _cells(axes, places[:10], 0.19, 0.2, "kernel")
    _cells(axes, places[10:], 0.19, 0.2, _EMPTY)
    span(axes, _LEFT, places[9][0] + 0.19, 0.4, "resident warps")
    span(axes, places[10][0], places[15][0] + 0.19, 0.4, "free places")


@_shows("wave", "tail", height=1.22)
def _wave(axes: Axes) -> None:
    """Four SMs over time: two full waves of blocks, then a tail in which one SM works and three have no
    block."""
    for k in range(4):
        y = 0.14 + 0.19 * k
        text(axes, _LEFT, y, f"SM {k}")
        shade(axes, 2.5, 3.5, y, height=0.16)
    _cells(axes, [(0.5 + n, 0.06 + 0.19 * k) for n in range(2) for k in range(4)], 0.98, 0.16, "kernel")
    _cells(axes, [(2.5, 0.06)], 0.98, 0.16, "kernel")
    for n, words in enumerate(("a wave", "a wave", "the tail")):
        span(axes, 0.5 + n, 1.48 + n, 0.88, words)


@_shows("tile", height=1.0)
def _tile(axes: Axes) -> None:
    """A matrix cut into twelve squares; one of them, a tile of the result, belongs to one block."""
    places = [(0.2 + 0.34 * c, 0.1 + 0.28 * r) for r in range(3) for c in range(4)]
    _cells(axes, places[:6] + places[7:], 0.32, 0.26, _EMPTY)
    _cells(axes, places[6:7], 0.32, 0.26, "kernel")
    arrow(axes, (1.9, 0.5), (1.24, 0.5))
    text(axes, 1.95, 0.5, "one tile of the result:\none block computes it")


@_shows("cluster", height=1.0)
def _cluster(axes: Axes) -> None:
    """Two blocks on two SMs, each with shared memory; each reads the other's."""
    for left, name in ((_LEFT, "block 0"), (2.2, "block 1")):
        box(axes, left, left + 1.32, 0.16, name, "kernel", height=_ROW_IN)
        box(axes, left, left + 1.32, 0.62, "shared memory", "series3", height=_ROW_IN)
        arrow(axes, (left + 0.66, 0.28), (left + 0.66, 0.51))
    arrow(axes, (1.2, 0.27), (2.4, 0.52))
    arrow(axes, (2.4, 0.27), (1.2, 0.52))
    _note(axes, 0.87, "two SMs, one cluster: resident at the same time")


@_shows("TMA", "bulk copy", height=1.05)
def _tma(axes: Axes) -> None:
    """One thread asks the TMA, which copies a tile from global memory to shared memory."""
    box(axes, _LEFT, 1.0, 0.17, "one thread", "nvtx1", height=_ROW_IN)
    arrow(axes, (1.02, 0.17), (1.4, 0.17))
    box(axes, 1.42, 2.18, 0.17, "TMA", "kernel", height=_ROW_IN)
    box(axes, _LEFT, 1.2, 0.63, "global memory", "series1", height=_ROW_IN)
    box(axes, 2.35, _RIGHT, 0.63, "shared memory", "series3", height=_ROW_IN)
    arrow(axes, (1.22, 0.63), (2.33, 0.63))
    arrow(axes, (1.8, 0.29), (1.8, 0.58), dashed=True)
    _note(axes, 0.9, "a tile at a time, and not through registers")


@_shows("warpgroup", height=0.9)
def _warpgroup(axes: Axes) -> None:
    """Four warps, and below them one multiplication that they issue together."""
    for k in range(4):
        x = _LEFT + 0.86 * k
        box(axes, x, x + 0.84, 0.16, f"warp {k}", "nvtx2", height=_ROW_IN)
        arrow(axes, (x + 0.42, 0.27), (x + 0.42, 0.4))
    box(axes, _LEFT, _LEFT + 3.42, 0.53, "one wgmma, on the tensor cores", "kernel", height=_ROW_IN)
    _note(axes, 0.77, "each warp holds a quarter of the result's rows")


@_shows("warp specialization", height=0.8)
def _specialization(axes: Axes) -> None:
    """Two rows over time: producer warps load tiles 1 to 4, consumer warps compute them one step later."""
    _row(
        axes, 0.16, "producer", *((0.8 + 0.54 * k, 1.32 + 0.54 * k, f"load {k + 1}", "h2d") for k in range(4))
    )
    compute = ((1.34 + 0.54 * k, 1.86 + 0.54 * k, str(k + 1), "kernel") for k in range(4))
    _row(axes, 0.42, "consumer", *compute, waits=(0.8, 1.33))
    _note(axes, 0.66, "different warps; barriers hand the tiles over")


@_shows("pipeline stage", height=1.02)
def _stages(axes: Axes) -> None:
    """Three buffers in shared memory over time. While one is computed from, the next two are being filled."""
    for k in range(3):
        start = _LANE_IN + 0.4 * k
        pieces = [(start, start + 0.78, "load", "h2d"), (start + 0.8, start + 1.18, "use", "kernel")]
        pieces += [(start + 1.2, min(start + 1.98, 3.5), "load", "h2d")] if k < 2 else []
        _row(axes, 0.16 + 0.25 * k, f"buffer {k}", *pieces)
    _note(axes, 0.9, "three stages: loads stay in flight while one is used")


@_shows("ping-pong", height=0.8)
def _ping_pong(axes: Axes) -> None:
    """Two groups of warps over time: while one multiplies, the other does something else."""

    def turns(first: int) -> list[tuple[float, float, str, str]]:
        words = (("multiply", "kernel"), ("softmax", "nvtx3"))
        return [(0.8 + 0.68 * k, 1.46 + 0.68 * k, *words[(k + first) % 2]) for k in range(4)]

    _row(axes, 0.16, "group 0", *turns(0))
    _row(axes, 0.42, "group 1", *turns(1))
    _note(axes, 0.66, "the tensor cores always have one of the two")


# Many GPUs ------------------------------------------------------------------------------------------------


def _parts(axes: Axes, before: Callable[[int, int], str], after: Callable[[int, int], str]) -> None:
    """Three GPUs with three parts each, before and after a collective operation."""
    for left, words, role in ((0.75, "before", before), (2.25, "after", after)):
        text(axes, left, 0.12, words, muted=True)
        places = {(g, c): (left + 0.37 * c, 0.24 + 0.22 * g) for g in range(3) for c in range(3)}
        for kind in dict.fromkeys(role(g, c) for g, c in places):
            _cells(axes, [at for (g, c), at in places.items() if role(g, c) == kind], 0.34, 0.18, kind)
    for g in range(3):
        text(axes, _LEFT, 0.33 + 0.22 * g, f"GPU {g}")
    arrow(axes, (1.9, 0.55), (2.2, 0.55))


@_shows("all-reduce", height=1.1)
def _all_reduce(axes: Axes) -> None:
    """Three GPUs with three parts each. Before, each has its own; after, each has all sums."""
    _parts(axes, lambda g, c: f"nvtx{g + 1}", lambda g, c: "nccl")
    _note(axes, 1.0, "orange: the sum over all GPUs")


@_shows("reduce-scatter", height=1.1)
def _reduce_scatter(axes: Axes) -> None:
    """Three GPUs with three parts each. After, each has the sum of one part."""
    _parts(axes, lambda g, c: f"nvtx{g + 1}", lambda g, c: "nccl" if g == c else _EMPTY)
    _note(axes, 1.0, "orange: the sum over all GPUs, one part each")


@_shows("all-gather", height=1.1)
def _all_gather(axes: Axes) -> None:
    """Three GPUs. Before, each has one part of three; after, each has all three."""
    _parts(axes, lambda g, c: f"nvtx{g + 1}" if g == c else _EMPTY, lambda g, c: f"nvtx{c + 1}")
    _note(axes, 1.0, "each part travels to every GPU")


@_shows("NVLink", height=1.15)
def _nvlink(axes: Axes) -> None:
    """Four GPUs in a ring; each sends to the next one over NVLink."""
    spots = ((0.5, 0.28), (2.1, 0.28), (2.1, 0.86), (0.5, 0.86))
    for k, (x, y) in enumerate(spots):
        axes.add_patch(Circle((x, y), 0.21, facecolor=current().fill("kernel"), linewidth=0))
        text(axes, x, y, f"GPU {k}", align="center", color=current().on("kernel"))
    for tail, head in (
        ((0.74, 0.28), (1.86, 0.28)),
        ((2.1, 0.5), (2.1, 0.63)),
        ((1.86, 0.86), (0.74, 0.86)),
        ((0.5, 0.63), (0.5, 0.5)),
    ):
        arrow(axes, tail, head)
    text(axes, 1.3, 0.57, "a ring over NVLink", align="center", muted=True)
    text(axes, 2.45, 0.57, "each link both\nways at once", muted=True)


@_shows("exposed communication", "bucket", height=0.98)
def _exposed(axes: Axes) -> None:
    """Computing above, communication below. The first bucket is hidden behind computing, the last one is
    exposed."""
    _row(
        axes,
        0.16,
        "compute",
        (0.8, 2.4, "backward", "kernel"),
        (3.0, 3.5, "step", "kernel"),
        waits=(2.4, 3.0),
    )
    _row(axes, 0.42, "sending", (1.5, 2.2, "bucket 1", "nccl"), (2.3, 3.0, "bucket 2", "nccl"))
    span(axes, 1.5, 2.38, 0.66, "hidden", color=current().good)
    span(axes, 2.42, 3.0, 0.66, "exposed", color=current().warn)


@_shows("straggler", height=1.0)
def _straggler(axes: Axes) -> None:
    """Three ranks. Two are early and wait inside the all-reduce; the last one arrives late, and its
    all-reduce is the shortest."""
    for k, ready in enumerate((1.9, 2.1, 2.8)):
        words = "all-reduce" if ready < 2.5 else ""
        _row(
            axes,
            0.14 + 0.24 * k,
            f"rank {k}",
            (0.8, ready, "compute", "kernel"),
            (ready, 3.45, words, "nccl"),
        )
    _note(axes, 0.88, "rank 2 is late; the others wait in their kernels")


def _two_gpus(axes: Axes, *rows: tuple[str, str], exchanged: str, often: str) -> None:
    """Two GPUs with their part of the batch and of the model, and what they exchange."""
    for k, (batch, model) in enumerate(rows):
        edge = 2.0 if len(batch) > len(model) else 1.9
        pieces = (0.8, edge, batch, "h2d"), (edge + 0.05, 3.5, model, "kernel")
        _row(axes, 0.16 + 0.5 * k, f"GPU {k}", *pieces)
    arrow(axes, (2.77, 0.28), (2.77, 0.54))
    arrow(axes, (2.77, 0.54), (2.77, 0.28))
    text(axes, 2.68, 0.41, exchanged, align="right", muted=True)
    _note(axes, 0.87, often)


@_shows("data parallelism", height=0.98)
def _data_parallelism(axes: Axes) -> None:
    """Two GPUs, each with the whole model and half of the batch; they sum their gradients."""
    rows = [(f"{half} half of batch", "whole model") for half in ("first", "second")]
    _two_gpus(axes, *rows, exchanged="sum of gradients", often="once per step")


@_shows("tensor parallelism", height=0.98)
def _tensor_parallelism(axes: Axes) -> None:
    """Two GPUs, each with the same batch and half of every matrix; they exchange activations."""
    rows = [("whole batch", f"{half} half of a matrix") for half in ("left", "right")]
    _two_gpus(axes, *rows, exchanged="activations", often="in every layer")


@_shows("FSDP", "ZeRO", height=0.98)
def _fsdp(axes: Axes) -> None:
    """Three GPUs, each with a third of a layer's parameters, gathered shortly before the layer computes."""
    for g in range(3):
        text(axes, _LEFT, 0.17 + 0.22 * g, f"GPU {g}")
        _cells(axes, [(0.6 + 0.3 * g, 0.08 + 0.22 * g)], 0.28, 0.18, f"nvtx{g + 1}")
        for c in range(3):
            _cells(axes, [(2.15 + 0.3 * c, 0.08 + 0.22 * g)], 0.28, 0.18, f"nvtx{c + 1}")
    arrow(axes, (1.6, 0.39), (2.1, 0.39))
    _note(axes, 0.84, "kept: a third each. To compute: gathered, then freed.")


# A program over time --------------------------------------------------------------------------------------


@_shows("gap", "idle share", height=0.86)
def _gap(axes: Axes) -> None:
    """CPU and GPU over time. While the CPU does other work, the GPU is idle."""
    _row(
        axes,
        0.16,
        "CPU",
        (0.8, 1.3, "launch", "launch"),
        (1.3, 2.3, "other work", "cpu"),
        (2.3, 2.8, "launch", "launch"),
    )
    _row(axes, 0.42, "GPU", (1.0, 1.7, "kernel", "kernel"), (2.6, 3.5, "kernel", "kernel"))
    shade(axes, 1.7, 2.6, 0.42, "idle", height=_ROW_IN)
    _note(axes, 0.7, "the gap's cause stands above it, on the CPU")


@_shows("busy time", height=1.02)
def _busy(axes: Axes) -> None:
    """Two streams whose kernels overlap; the busy time is the length of their union."""
    _row(axes, 0.14, "stream 1", (0.8, 2.0, "A", "kernel"), (2.7, 3.2, "C", "kernel"))
    _row(axes, 0.38, "stream 2", (1.5, 2.3, "B", "kernel"))
    span(axes, 0.8, 2.3, 0.6, "busy", color=current().good)
    span(axes, 2.7, 3.2, 0.6, "busy", color=current().good)
    _note(axes, 0.92, "A and B at once count once")


@_shows("stream", height=0.86)
def _stream(axes: Axes) -> None:
    """Two streams over time. Each runs its kernels in order; the two overlap."""
    _row(
        axes,
        0.16,
        "stream 1",
        (0.8, 1.6, "A", "kernel"),
        (1.65, 2.6, "B", "kernel"),
        (2.65, 3.4, "C", "kernel"),
    )
    _row(axes, 0.42, "stream 2", (1.1, 2.2, "D", "kernel"), (2.25, 3.0, "E", "kernel"))
    _note(axes, 0.7, "in order within a stream, in any order between two")


@_shows("CUDA event", height=0.92)
def _event(axes: Axes) -> None:
    """Two markers in a stream, before and after a kernel; the GPU notes the time at each."""
    _row(axes, 0.2, "stream", (1.2, 2.8, "kernel", "kernel"))
    for x in (1.1, 2.9):
        axes.plot(x, 0.2, marker="D", markersize=6, color=current().text, markeredgewidth=0, zorder=4)
    span(axes, 1.1, 2.9, 0.44, "elapsed time, by the GPU's clock")
    _note(axes, 0.8, "a diamond: an event")


@_shows("launch queue", height=0.92)
def _queue(axes: Axes) -> None:
    """The CPU launches kernels A to D faster than the GPU runs them: the others wait in a queue."""
    _row(
        axes, 0.16, "CPU", *((0.8 + 0.3 * k, 1.08 + 0.3 * k, name, "launch") for k, name in enumerate("ABCD"))
    )
    _row(
        axes, 0.5, "GPU", *((1.0 + 0.62 * k, 1.6 + 0.62 * k, name, "kernel") for k, name in enumerate("ABCD"))
    )
    for k in range(4):
        arrow(axes, (0.95 + 0.3 * k, 0.27), (1.06 + 0.62 * k, 0.39), dashed=True)
    _note(axes, 0.77, "B, C and D wait their turn: no gap on the GPU")


@_shows("launch-bound", height=0.86)
def _launch_bound(axes: Axes) -> None:
    """The CPU launches one kernel after another; the GPU finishes each before the next arrives."""
    calls = [(0.8 + 0.65 * k, 1.43 + 0.65 * k, "launch", "launch") for k in range(4)]
    _row(axes, 0.16, "CPU", *calls)
    kernels = [(1.2 + 0.65 * k, 1.4 + 0.65 * k, "", "kernel") for k in range(4)]
    _row(axes, 0.42, "GPU", *kernels, waits=(0.8, 3.4))
    _note(axes, 0.7, "the GPU is done before the next launch")


@_shows("CUDA graph", height=0.86)
def _graph(axes: Axes) -> None:
    """One launch on the CPU; four kernels follow one another on the GPU."""
    _row(axes, 0.16, "CPU", (0.8, 1.5, "launch", "launch"))
    _row(
        axes, 0.42, "GPU", *((1.3 + 0.5 * k, 1.79 + 0.5 * k, name, "graph") for k, name in enumerate("ABCD"))
    )
    _note(axes, 0.7, "one launch for all four kernels")


@_shows("synchronize", "asynchronous", height=0.86)
def _synchronize(axes: Axes) -> None:
    """The launch returns at once; synchronize makes the CPU wait until the kernel has ended."""
    _row(
        axes,
        0.16,
        "CPU",
        (0.8, 1.3, "launch", "launch"),
        (1.3, 1.8, "work", "cpu"),
        (1.8, 3.2, "synchronize", "sync"),
    )
    _row(axes, 0.42, "GPU", (1.05, 3.1, "kernel", "kernel"))
    _note(axes, 0.7, "a launch returns at once, synchronize at the end")


@_shows("critical path", height=1.06)
def _critical(axes: Axes) -> None:
    """CPU and GPU over time. The chain of pieces that decides the end is in color, work beside it is gray."""
    _row(axes, 0.16, "CPU", (0.8, 1.3, "launch", "launch"), (1.3, 2.2, "log", "idle"))
    _row(axes, 0.42, "GPU", (1.3, 2.7, "matmul", "kernel"), (2.9, 3.5, "step", "kernel"))
    _row(axes, 0.68, "copies", (1.3, 1.9, "copy", "idle"))
    arrow(axes, (1.25, 0.27), (1.35, 0.33))
    arrow(axes, (2.69, 0.42), (2.9, 0.42))
    _note(axes, 0.94, "in color: shorten one of these, and the step ends sooner")


@_shows("projected range", height=0.96)
def _projected(axes: Axes) -> None:
    """A range on the CPU around two launches; on the GPU it reaches from the first kernel's start to the last
    one's end."""
    _row(axes, 0.14, "CPU", (0.8, 1.7, "forward", "nvtx1"))
    _row(axes, 0.4, "GPU", (1.5, 3.3, "forward, projected", "nvtx1"))
    _row(axes, 0.64, "", (1.5, 2.2, "kernel", "kernel"), (2.5, 3.3, "kernel", "kernel"))
    _note(axes, 0.86, "from its first kernel's start to its last one's end")


@_shows("flame graph", "self time", height=1.0)
def _flame(axes: Axes) -> None:
    """Boxes below each other: a step calls forward and backward, and keeps some time for itself."""
    box(axes, _LEFT, _RIGHT, 0.16, "step", "nvtx1", height=_ROW_IN)
    box(axes, _LEFT, 1.3, 0.38, "forward", "nvtx2", height=_ROW_IN)
    box(axes, 1.3, 2.7, 0.38, "backward", "nvtx2", height=_ROW_IN)
    box(axes, 1.3, 2.2, 0.6, "matmul", "nvtx3", height=_ROW_IN)
    span(axes, 2.72, _RIGHT, 0.38, "self time\nof step")
    _note(axes, 0.87, "wide: much of the time; below: what it calls")


@_shows("pinned memory", "pageable memory", height=0.98)
def _pinned(axes: Axes) -> None:
    """Pinned memory is copied straight to the GPU; pageable memory goes through a staging buffer first."""
    box(axes, _LEFT, 0.9, 0.18, "pinned", "h2d", height=_ROW_IN)
    arrow(axes, (0.92, 0.18), (2.8, 0.18))
    text(axes, 1.85, 0.08, "copy engine", align="center", muted=True)
    box(axes, _LEFT, 0.9, 0.6, "pageable", "cpu", height=_ROW_IN)
    arrow(axes, (0.92, 0.6), (1.3, 0.6))
    box(axes, 1.32, 2.4, 0.6, "staging buffer", "h2d", height=_ROW_IN)
    arrow(axes, (2.42, 0.6), (2.8, 0.6))
    box(axes, 2.82, 3.5, 0.39, "GPU", "kernel", height=0.62)
    _note(axes, 0.86, "with pageable memory the call waits, too")


# Kernels and models ---------------------------------------------------------------------------------------


@_shows("roofline", "ridge", "arithmetic intensity", height=1.42)
def _roofline(axes: Axes) -> None:
    """Attainable FLOP/s over FLOPs per byte: a slope where memory is the limit, a flat roof where arithmetic
    is, and the ridge between them."""
    palette = current()
    axes.plot([0.3, 0.3, 3.5], [0.1, 1.12, 1.12], color=palette.line, linewidth=0.8)
    axes.plot([0.4, 1.7, 3.4], [1.05, 0.3, 0.3], color=palette.fill("kernel"), linewidth=2)
    axes.plot(1.7, 0.3, marker="o", markersize=6, color=palette.text, markeredgewidth=0, zorder=4)
    text(axes, 1.7, 0.15, "ridge", align="center")
    text(axes, 0.42, 0.42, "memory-bound")
    text(axes, 3.4, 0.45, "compute-bound", align="right")
    axes.plot([1.2, 1.2], [0.6, 0.85], color=palette.warn, linewidth=1.2, linestyle=(0, (2, 1.5)))
    axes.plot(1.2, 0.87, marker="o", markersize=5, color=palette.fill("sync"), markeredgewidth=0, zorder=4)
    text(axes, 1.3, 0.9, "a kernel, below its roof")
    text(axes, 3.5, 1.27, "FLOPs per byte: arithmetic intensity", align="right", muted=True)
    text(axes, 0.36, 0.12, "FLOP/s", muted=True)


@_shows("key-value cache", height=1.0)
def _pages(axes: Axes) -> None:
    """A pool of pages: five belong to sequence A, three to sequence B, in any order; the others are free."""
    owners = "ABA-ABA--B-A"
    for k, owner in enumerate(owners):
        x, y = _LEFT + 0.575 * (k % 6), 0.17 + 0.27 * (k // 6)
        if owner == "-":
            _cells(axes, [(x, y - 0.1)], 0.55, 0.2, _EMPTY)
        else:
            box(axes, x, x + 0.562, y, owner, {"A": "h2d", "B": "d2h"}[owner], height=_ROW_IN)
    _note(axes, 0.76, "pages of sequences A and B in one pool;\ngray ones are free")


@_shows("prefill", "decode", height=0.92)
def _prefill(axes: Axes) -> None:
    """Prefill: a whole prompt in one pass. Decode: one token per pass, one pass after the other."""
    box(axes, _LEFT, 1.5, 0.17, "prompt: one pass", "kernel", height=0.24)
    _cells(axes, [(1.6 + 0.33 * k, 0.05) for k in range(6)], 0.1, 0.24, "series3")
    span(axes, _LEFT, 1.49, 0.4, "prefill")
    span(axes, 1.6, 3.35, 0.4, "decode: a pass per token")
    _note(axes, 0.8, "the first token comes at the end of prefill")


@_shows("continuous batching", height=0.98)
def _continuous(axes: Axes) -> None:
    """Three places of a batch over time. Where a sequence ends, the next one takes its place at once."""
    rows = (
        ((0.8, 1.7, "A"), (1.72, 3.5, "D")),
        ((0.8, 2.9, "B"), (2.92, 3.5, "F")),
        ((0.8, 2.2, "C"), (2.22, 3.5, "E")),
    )
    for k, pieces in enumerate(rows):
        first, second = pieces
        _row(axes, 0.14 + 0.24 * k, f"place {k}", (*first, "nvtx2"), (*second, "improved"))
    _note(axes, 0.86, "D starts when A ends, while B and C go on")


@_shows("speculative decoding", height=1.02)
def _speculative(axes: Axes) -> None:
    """Four guessed tokens, verified in one pass: the first three agree and are kept, the fourth is not."""
    _row(axes, 0.14, "guess", *((0.8 + 0.4 * k, 1.18 + 0.4 * k, str(k + 1), "nvtx3") for k in range(4)))
    _row(axes, 0.4, "verify", (0.8, 2.38, "one pass over the model", "kernel"))
    kept = [(0.8 + 0.4 * k, 1.18 + 0.4 * k, "ok", "improved") for k in range(3)]
    _row(axes, 0.66, "keep", *kept, (2.0, 2.38, "no", "sync"))
    _note(axes, 0.92, "three tokens for one pass over the weights")
