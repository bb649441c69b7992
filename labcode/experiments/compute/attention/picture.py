"""Nothing in; drawings of attention out: where scores live, and how groups of warps work in time."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labcode.figures.diagrams.sketch import (
    arrow,
    box,
    canvas,
    heading,
    lane,
    rungs,
    shade,
    span,
    text,
    time_axis,
)
from labcode.figures.style import styled

LEFT, RIGHT = 1.3, 7.4


@styled
def ladder() -> Figure:
    """The rungs: where scores live, what multiplies, and what each step changes."""
    rows = (
        ("materialized", "memory", "fp32 units", "the definition: scores, softmax, weighted values"),
        ("online", "registers", "fp32 units", "the softmax is corrected tile by tile"),
        ("tiled", "registers", "fp32 units", "8 × 8 squares: few shared loads for a multiply-add"),
        ("mma_sync", "registers", "mma.sync", "sums of one matmul are operands of the next"),
        ("double_buffer", "registers", "mma.sync", "the next tile comes while this one is used"),
        ("specialized", "registers", "wgmma", "one thread fetches; two groups multiply"),
        ("ping_pong", "registers", "wgmma", "softmax under the matmuls; groups take turns"),
        ("no_turns", "registers", "wgmma", "the same, and nobody waits for a turn"),
        ("three_groups", "registers", "wgmma", "more warps in place of more registers"),
        ("lazy", "registers", "wgmma", "corrections only where a score has grown by 2⁸"),
    )
    return rungs(("step", "scores live in", "multiplied by", "what is new"), rows)


@styled
def tensor_ladder() -> Figure:
    """The rungs on tensor cores: queries of a block, who fetches, and what hides a group's softmax."""
    rows = (
        ("mma_sync", "128 by 4 warps", "every thread", "nothing: all wait for each tile"),
        ("double_buffer", "128 by 4 warps", "every thread", "nothing; the next tile comes meanwhile"),
        ("specialized", "2 groups of 64", "one thread: TMA", "the other group, when it happens to"),
        ("ping_pong", "2 groups of 64", "one thread: TMA", "its own matmuls, and the other's, in turns"),
        ("no_turns", "2 groups of 64", "one thread: TMA", "the same, without waiting for a turn"),
        (
            "three_groups",
            "3 groups of 64",
            "one thread: TMA",
            "two other groups; with dim 64 its own matmuls",
        ),
        ("lazy", "3 groups of 64", "one thread: TMA", "the same, with fewer corrections to hide"),
    )
    return rungs(("step", "queries of a block", "tiles fetched by", "what hides a softmax"), rows)


@styled
def tiles() -> Figure:
    """A block's queries pass all keys and values, a tile at a time; what is kept between tiles."""
    figure, axes = canvas(2.6)
    box(axes, 0.3, 1.35, 1.2, "queries\n128 × dim", "kernel", height=1.1)
    for k in range(4):
        x = 2.2 + 0.95 * k
        box(axes, x, x + 0.85, 0.6, f"keys {k}", "h2d", height=0.4)
        box(axes, x, x + 0.85, 1.9, f"values {k}", "d2h", height=0.4)
        box(axes, x, x + 0.85, 1.25, "scores,\nweights", "sync" if k == 1 else "idle", height=0.6)
        arrow(axes, (x + 0.42, 0.82), (x + 0.42, 0.93))
        arrow(axes, (x + 0.42, 1.57), (x + 0.42, 1.68))
    arrow(axes, (1.4, 1.2), (2.12, 1.2))
    box(axes, 6.25, 7.35, 1.2, "base, total,\nsums: dim", "kernel", height=0.8)
    text(
        axes,
        0.3,
        2.4,
        "Only one tile of scores exists at a time. Between tiles three things a query are kept.",
        muted=True,
    )
    return figure


def _work(axes: Axes, y: float, at: float, words: str, role: str, wide: float) -> float:
    box(axes, at, at + wide - 0.03, y, words, role, height=0.24)
    return at + wide


@styled
def groups_in_time() -> Figure:
    """Two groups of warps and the tensor cores: one after another, overlapped, and with turns."""
    figure, axes = canvas(5.6)
    product, soft = 0.5, 0.62

    heading(axes, 0.14, "specialized: scores, softmax, values; the other group fills in where it happens to")
    for group in range(2):
        y = 0.45 + 0.36 * group
        lane(axes, y, f"group {group}", LEFT, RIGHT)
        at = 1.4 + (product + 0.1) * group
        for tile in range(3):
            at = _work(axes, y, at, f"Q·K{tile}", "kernel", product)
            at = _work(axes, y, at, "softmax", "sync", soft)
            at = _work(axes, y, at, f"W·V{tile}", "series2", product)
            if group and tile < 2:
                shade(axes, at, at + 0.17, y, height=0.24)
                at += 0.2
    heading(axes, 1.55, "ping_pong: the next scores and these values multiply under the softmax, in turns")
    for group in range(2):
        y = 1.86 + 0.62 * group
        lane(axes, y, f"group {group}", LEFT, RIGHT)
        lane(axes, y + 0.27, "its softmax", LEFT, RIGHT)
        at = 1.4 + 1.04 * group
        for tile in range(3 - group):
            _work(axes, y, at, f"Q·K{tile + 1}", "kernel", product)
            end = _work(axes, y, at + product, f"W·V{tile}", "series2", product)
            _work(axes, y + 0.27, at + product, f"of tile {tile + 1}", "sync", soft + 0.4)
            if tile < 2:
                shade(axes, end, at + 2.05, y, "turn", height=0.24)
            at += 2.08
    heading(axes, 3.35, "three_groups: one softmax at a time is computed while two others multiply")
    for group in range(3):
        y = 3.66 + 0.36 * group
        lane(axes, y, f"group {group}", LEFT, RIGHT)
        at = 1.4 + 0.54 * group
        for tile in range(3):
            at = _work(axes, y, at, f"Q·K{tile}", "kernel", product)
            at = _work(axes, y, at, "softmax", "sync", soft)
            at = _work(axes, y, at, f"W·V{tile}", "series2", product)
    span(axes, 1.4, 3.0, 4.85, "a tile of keys and values, read once for 192 queries")
    time_axis(axes, 5.3, LEFT, RIGHT)
    return figure
