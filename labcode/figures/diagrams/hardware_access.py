"""Addresses of one warp in; drawings of the sectors and the banks of shared memory they touch out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labcode.figures.diagrams.sketch import canvas, text
from labcode.figures.style import TEXT_PT, current, styled

SECTOR_BYTES = 32
LINE_BYTES = 128
BANKS = 32
BANK_BYTES = 4
SHOWN_LINES = 8


def bytes_by_sector(addresses: Sequence[int], size: int) -> dict[int, int]:
    """Bytes that a warp wants of each 32-byte sector it touches, by the sector's number.

    ``addresses`` are byte addresses, one a thread, aligned to ``size``; the same bytes count once.
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
    """A row a pattern: the sectors of eight cache lines, filled by the share of each that the warp wants.

    ``patterns`` maps a name to byte addresses, one a thread. Addresses beyond the lines drawn count as well.
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
            axes.add_patch(Rectangle((x, y - 0.16), cell - 0.015, 0.32, facecolor=face, linewidth=0))
            high = 0.32 * touched / SECTOR_BYTES
            axes.add_patch(
                Rectangle(
                    (x, y + 0.16 - high),
                    cell - 0.015,
                    high,
                    facecolor=palette.fill("kernel"),
                    linewidth=0,
                    zorder=2,
                )
            )
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
    """A panel a pattern: which of the 32 banks each thread of a warp goes to, and the turns that takes."""
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
            axes.add_patch(
                Rectangle(
                    (left + thread * dot, top + bank * dot),
                    dot,
                    dot,
                    facecolor=palette.fill(role),
                    linewidth=0,
                    zorder=2,
                )
            )
        text(axes, left + side / 2, top + side + 0.14, "thread 0 … 31", align="center", muted=True)
        turns = "1 wavefront" if ways == 1 else f"{ways} wavefronts"
        color = palette.good if ways == 1 else palette.warn
        text(axes, left + side / 2, top + side + 0.38, turns, align="center", bold=True, color=color)
    text(axes, 0.12, side + 0.97, "rows of each panel: bank 0 at the top … bank 31", muted=True)
    return figure
