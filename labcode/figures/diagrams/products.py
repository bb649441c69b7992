"""Nothing in; drawings of matmuls out: tiles, warps and stages in space and time."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labcode.figures.diagrams.sketch import (
    arrow,
    box,
    canvas,
    heading,
    lane,
    rectangle,
    rungs,
    shade,
    span,
    text,
    time_axis,
)
from labcode.figures.style import current, styled

CHUNKS = 8  # of 16 bytes, in a row of 128
LEFT, RIGHT = 1.3, 7.4


def _tile(axes: Axes, x: float, y: float, wide: float, high: float, role: str, *, edge: bool = True) -> None:
    palette = current()
    rectangle(axes, (x, y), wide, high, palette.fill(role), edge=palette.line if edge else "none", zorder=2)


def _grid(axes: Axes, x: float, y: float, wide: float, high: float, rows: int, columns: int) -> None:
    color = current().line
    for i in range(rows + 1):
        axes.plot([x, x + wide], [y + high * i / rows] * 2, color=color, linewidth=0.5, zorder=3)
    for i in range(columns + 1):
        axes.plot([x + wide * i / columns] * 2, [y, y + high], color=color, linewidth=0.5, zorder=3)


@styled
def fp32_ladder() -> Figure:
    """The rungs of the fp32 ladder: what a thread computes, and what it fetches for that."""
    figure, axes = canvas(4.15)
    columns = (0.05, 1.5, 2.75, 4.15)
    for x, words in zip(columns, ("step", "sums a thread", "fetched by it from", "what is new"), strict=True):
        text(axes, x, 0.14, words, bold=True)
    unit = 0.028
    rows = (
        ("naive", 1, 1, "L1: 2 for 1", "a warp's lanes go down a column of C", "h2d"),
        ("coalesced", 1, 1, "L1: 2 for 1", "lanes go along a row: two letters change", "h2d"),
        ("shared tile", 1, 1, "shared: 2 for 1", "32 × 32 tiles: memory is read a 32nd as often", "sync"),
        ("strips", 8, 1, "shared: 9 for 8", "a word of B waits in a register for 8 uses", "kernel"),
        ("squares", 8, 8, "shared: 16 for 64", "8 words of A and 8 of B, 8 uses each", "kernel"),
        ("vectorized", 8, 8, "shared: 4 for 64", "four words a load; A turned on its way in", "kernel"),
        (
            "warp tiles",
            8,
            8,
            "shared: 4 for 64",
            "a warp's lanes close together: fewer different words",
            "kernel",
        ),
        ("double buffer", 8, 8, "shared: 4 for 64", "the next tile comes while this one is used", "kernel"),
        ("autotuned", 8, 16, "shared: 6 for 128", "the best of a dozen tilings: 3 stages, 16 deep", "kernel"),
    )
    for number, (name, down, across, fetched, new, role) in enumerate(rows):
        y = 0.45 + 0.42 * number
        text(axes, columns[0], y, name)
        x = columns[1] + 0.1
        _tile(axes, x, y - unit * down / 2, unit * across, unit * down, role, edge=False)
        text(axes, x + 0.55, y, f"{down} × {across}", muted=True)
        text(axes, columns[2], y, fetched)
        text(axes, columns[3], y, new)
    return figure


@styled
def tiles_of_a_product() -> Figure:
    """C cut into blocks' tiles, a block's tile into warps', a warp's into threads'; what each reads."""
    figure, axes = canvas(2.7)
    side, top = 1.35, 0.85
    panels = (
        (0.75, "a block: 128 × 128 of C", 4, 4, "strips of A and B\nthrough shared memory", "h2d"),
        (3.3, "a warp: 64 × 32 of it", 2, 4, "rows and columns of the\ntiles in shared memory", "sync"),
        (5.85, "a thread: 8 × 8 of that", 8, 4, "8 + 8 words\nin registers", "kernel"),
    )
    for x, title, rows, across, words, role in panels:
        text(axes, x + side / 2, 0.14, title, align="center", bold=True)
        _grid(axes, x, top, side, side, rows, across)
        high, wide = side / rows, side / across
        _tile(axes, x + wide, top + high, wide, high, role)
        _tile(axes, x - 0.42, top + high, 0.34, high, "idle", edge=False)
        _tile(axes, x + wide, top - 0.42, wide, 0.34, "idle", edge=False)
        text(axes, x - 0.25, top + high * 1.5, "A", align="center")
        text(axes, x + wide * 1.5, top - 0.25, "B", align="center")
        text(axes, x + side / 2, top + side + 0.28, words, align="center", muted=True)
    for x in (2.35, 4.9):
        arrow(axes, (x, top + side / 2), (x + 0.35, top + side / 2))
    return figure


@styled
def double_buffer_in_time() -> Figure:
    """A tile at a time with two barriers; and the next tile's copies under this tile's multiplications."""
    figure, axes = canvas(2.75)
    heading(axes, 0.16, "One tile: fetch, barrier, multiply, barrier")
    lane(axes, 0.5, "memory", LEFT, RIGHT)
    lane(axes, 0.82, "multiply-adds", LEFT, RIGHT)
    for k in range(4):
        x = 1.4 + 1.5 * k
        box(axes, x, x + 0.65, 0.5, f"tile {k}", "h2d")
        box(axes, x + 0.75, x + 1.4, 0.82, f"tile {k}", "kernel")
        shade(axes, x, x + 0.73, 0.82, "wait")
        for at in (x + 0.7, x + 1.45):
            axes.plot([at, at], [0.36, 0.96], color=current().line, linewidth=1.2, zorder=3)
    heading(axes, 1.3, "Two tiles: while one is multiplied, the other is on its way")
    lane(axes, 1.64, "memory", LEFT, RIGHT)
    lane(axes, 1.96, "multiply-adds", LEFT, RIGHT)
    shade(axes, 1.4, 2.08, 1.96, "wait")
    for k in range(5):
        x = 1.4 + 0.72 * k
        box(axes, x, x + 0.65, 1.64, f"tile {k}", "h2d" if k % 2 == 0 else "d2h")
        if k < 4:
            box(axes, x + 0.75, x + 1.4, 1.96, f"tile {k}", "kernel")
        axes.plot([x + 0.7] * 2, [1.5, 2.1], color=current().line, linewidth=1.2, zorder=3)
    span(axes, 4.98, 7.35, 2.3, "time saved", color=current().good)
    time_axis(axes, 2.6, LEFT, RIGHT)
    return figure


@styled
def bf16_ladder() -> Figure:
    """The rungs of the bf16 ladder: a block's tile, where operands come from, what is new."""
    rows = (
        ("mma.sync", "128 × 128", "registers", "ldmatrix from swizzled tiles, three stages"),
        (
            "wgmma and TMA",
            "128 × 128",
            "shared memory",
            "one thread asks for tiles, groups of warps multiply",
        ),
        ("specialized", "128 × 256", "shared memory", "a producer, two consumers, a ring of four stages"),
        ("persistent", "128 × 256", "shared memory", "a block stays; it fetches while C is written"),
        ("cluster", "2 × 128 × 256", "shared memory", "two blocks fetch half of B each, for both"),
        ("order", "2 × 128 × 256", "shared memory", "tiles in bands: L2 holds what they share"),
        ("store", "2 × 128 × 256", "shared memory", "C leaves by the copy engine, in whole lines"),
        ("alone", "128 × 256", "shared memory", "the cluster taken back, bands twice as tall"),
    )
    return rungs(("step", "tile of a block", "operands from", "what is new"), rows)


@styled
def bf16_in_time() -> Figure:
    """Four rungs of the bf16 ladder in time: who fetches, who multiplies, who writes, and who waits."""
    figure, axes = canvas(6.15)
    step, copy = 0.42, "copy engine"

    def work(y: float, start: float, count: int, role: str, first: int = 0) -> None:
        for k in range(count):
            box(axes, start + step * k, start + step * k + step - 0.03, y, str(first + k), role, height=0.22)

    def title(y: float, words: str) -> None:
        heading(axes, y, words)

    title(0.14, "wgmma and TMA: one stage, ask and wait")
    lane(axes, 0.42, copy, LEFT, RIGHT)
    lane(axes, 0.7, "tensor cores", LEFT, RIGHT)
    for k in range(5):
        x = 1.4 + 2 * step * k
        box(axes, x, x + step - 0.03, 0.42, str(k), "h2d", height=0.22)
        box(axes, x + step, x + 2 * step - 0.03, 0.7, str(k), "kernel", height=0.22)
        shade(axes, x, x + step - 0.03, 0.7, height=0.22)
    box(axes, 5.65, 6.6, 0.7, "write C", "d2h", height=0.22)

    title(1.14, "specialized: a ring of four stages between a producer and two consumers")
    lane(axes, 1.42, copy, LEFT, RIGHT)
    lane(axes, 1.7, "tensor cores", LEFT, RIGHT)
    work(1.42, 1.4, 6, "h2d")
    work(1.7, 1.4 + step, 6, "kernel")
    shade(axes, 1.4, 1.4 + step - 0.03, 1.7, height=0.22)
    box(axes, 1.4 + 7 * step, 1.4 + 7 * step + 0.95, 1.7, "write C", "d2h", height=0.22)
    text(axes, 5.4, 1.56, "then a new block: fill the ring", muted=True)

    title(2.14, "persistent: the next tile's stages come while C is written")
    lane(axes, 2.42, copy, LEFT, RIGHT)
    lane(axes, 2.7, "tensor cores", LEFT, RIGHT)
    work(2.42, 1.4, 6, "h2d")
    work(2.42, 1.4 + 6 * step, 4, "h2d")
    work(2.42, 1.4 + 12 * step - 0.26, 2, "h2d", 4)
    work(2.7, 1.4 + step, 6, "kernel")
    box(axes, 1.4 + 7 * step, 1.4 + 7 * step + 0.95, 2.7, "write C", "d2h", height=0.22)
    work(2.7, 1.4 + 7 * step + 0.98, 4, "kernel")
    text(axes, 4.35, 2.94, "no multiplying while sums are written two by two", muted=True)

    title(3.3, "store: sums go to shared memory, the copy engine writes them")
    lane(axes, 3.58, "copy engine, in", LEFT, RIGHT)
    lane(axes, 3.86, "tensor cores", LEFT, RIGHT)
    lane(axes, 4.14, "copy engine, out", LEFT, RIGHT)
    work(3.58, 1.4, 6, "h2d")
    work(3.58, 1.4 + 6 * step, 6, "h2d")
    work(3.86, 1.4 + step, 6, "kernel")
    box(axes, 1.4 + 7 * step, 1.4 + 7 * step + 0.38, 3.86, "pack", "sync", height=0.22)
    work(3.86, 1.4 + 7 * step + 0.41, 6, "kernel")
    box(axes, 1.4 + 7 * step + 0.2, 1.4 + 7 * step + 1.3, 4.14, "C, in whole lines", "d2h", height=0.22)

    title(4.6, "The ring: a slot is full when its bytes have come, empty when all its readers have said so")
    y = 5.2
    for k, (words, role) in enumerate(
        (("full: read now", "kernel"), ("full", "h2d"), ("on its way", "idle"), ("empty: ask", "idle"))
    ):
        x = 2.3 + 1.05 * k
        box(axes, x, x + 1.0, y, words, role, height=0.36)
    text(axes, 0.15, y, "consumers: wait\n“full”, multiply,\ngive back", muted=False)
    arrow(axes, (1.55, y), (2.25, y))
    text(axes, 7.35, y, "producer:\nwait “empty”,\nask for tiles", align="right")
    span(axes, 2.3, 6.45, 5.6, "four stages, each 128 × 64 of A and 64 × 256 of B")
    return figure


@styled
def swizzled_rows() -> Figure:
    """Eight rows of 128 bytes in shared memory, plain and swizzled: where the chunks of one column lie."""
    figure, axes = canvas(2.75)
    palette = current()
    cell = 0.26
    for panel, (x0, title, note) in enumerate(
        (
            (0.75, "as in memory", "chunk 2 of eight rows: one group of banks,\neight turns"),
            (4.6, "swizzled: chunk XOR (row mod 8)", "eight\ngroups,\none turn"),
        )
    ):
        text(axes, x0 + 4 * cell, 0.14, title, align="center", bold=True)
        for row in range(CHUNKS):
            top, middle = 0.45 + cell * row, 0.45 + cell * (row + 0.5)
            text(axes, x0 - 0.1, middle, f"row {row}", align="right", muted=True)
            rectangle(axes, (x0, top), CHUNKS * cell, cell - 0.015, palette.grid)
            for place in range(CHUNKS):
                chunk = place ^ row if panel else place
                mine = chunk == 2
                if mine:
                    _tile(axes, x0 + cell * place, top, cell, cell - 0.015, "kernel", edge=False)
                color = palette.on("kernel") if mine else palette.text
                text(axes, x0 + cell * (place + 0.5), middle, str(chunk), align="center", color=color)
        for place in range(CHUNKS):
            text(axes, x0 + cell * (place + 0.48), 0.36, str(place), align="center", muted=True)
        text(axes, x0 + CHUNKS * cell + 0.08, 0.36, "banks ÷ 4", muted=True)
        text(axes, x0 + CHUNKS * cell + 0.08, 1.5, note.replace(", ", ",\n").replace(": ", ":\n"), muted=True)
    return figure


@styled
def operands_of_tensor_cores() -> Figure:
    """The ways of an operand to the tensor cores: through registers for mma.sync, past them for wgmma."""
    figure, axes = canvas(2.5)
    columns = (1.35, 2.85, 4.35, 5.85)
    wide = 1.15
    for y, name, ways in (
        (0.55, "mma.sync", ("cp.async", "ldmatrix", "mma.sync")),
        (1.45, "wgmma", ("one thread: TMA", "wgmma: 64 × 256 × 16", "")),
    ):
        text(axes, 0.05, y, name, bold=True)
        box(axes, columns[0], columns[0] + wide, y, "memory, L2", "h2d", height=0.34)
        box(axes, columns[1], columns[1] + wide, y, "shared memory", "sync", height=0.34)
        if name == "mma.sync":
            box(axes, columns[2], columns[2] + wide, y, "registers", "series2", height=0.34)
        box(axes, columns[3], columns[3] + wide, y, "tensor core", "kernel", height=0.34)
        ends = (columns[0], columns[1], columns[2], columns[3])
        arrow(axes, (ends[0] + wide, y), (ends[1] - 0.03, y))
        if name == "mma.sync":
            arrow(axes, (ends[1] + wide, y), (ends[2] - 0.03, y))
            arrow(axes, (ends[2] + wide, y), (ends[3] - 0.03, y))
            for k, way in enumerate(ways):
                text(axes, (ends[k] + wide + ends[k + 1]) / 2, y - 0.27, way, align="center", muted=True)
        else:
            arrow(axes, (ends[1] + wide, y), (ends[3] - 0.03, y))
            text(axes, (ends[0] + wide + ends[1]) / 2, y - 0.27, ways[0], align="center", muted=True)
            text(axes, (ends[1] + wide + ends[3]) / 2, y - 0.14, ways[1], align="center", muted=True)
    text(
        axes,
        0.05,
        2.05,
        "Sums stay in registers either way. With mma.sync a warp fetches both operands into registers\n"
        "first; wgmma, issued by four warps together, reads them where the copy engine has put them.",
        muted=True,
    )
    return figure
