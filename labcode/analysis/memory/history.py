"""A history of the allocator in; live bytes over time, the largest allocations, the peak, what stays, out.

A block lives from its allocation until its free is requested, which is what ``torch.cuda.memory_allocated``
counts; its bytes are those that were asked for.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.reports.columns import Ints
from labcode.reports.memory.history import ALLOCATE, FREE
from labcode.reports.report import MemoryReport

BEFORE = "before the recording"
NO_STACK = "no Python stack"
_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|torch|lib/python[\d.]+)/|^<|^\?\?|^:|^\S*\.(?:cc?|cpp|cu|hp?p?):\d"
)
QUARTERS = 4  # of a recording: what leaks is allocated in each of them


def site(stack: Sequence[str]) -> str:
    """Where in the program an allocation was made: its innermost frame outside of libraries."""
    for frame in stack:
        if not _LIBRARY.search(frame.rsplit(" ", 1)[0]):
            return frame
    return stack[0] if stack else NO_STACK


def stack_text(stack: Sequence[str]) -> str:
    """A stack in one line, the outermost frame first."""
    return "; ".join(reversed(stack))


def lifetimes(history: MemoryReport) -> pd.DataFrame:
    """A row for each block: addr, size, stream, stack, begin (row of ``events``; -1: before the recording),
    end (row at which its free was requested; -1: never), begin_us, end_us (Int64), site.

    A second allocation at an address that was never freed ends the first: the recorder lost its free.
    """
    live: dict[int, int] = {}
    rows: list[list[int]] = []
    for addr, size, stream, stack in history.live_before[["addr", "size", "stream", "stack"]].to_numpy():
        live[addr] = len(rows)
        rows.append([addr, size, stream, stack, -1, -1])
    events = history.events
    columns = (events[name].to_list() for name in ("action", "addr", "size", "stream", "stack"))
    for place, (action, addr, size, stream, stack) in enumerate(zip(*columns, strict=True)):
        if action == ALLOCATE:
            if addr in live:
                rows[live[addr]][5] = place
            live[addr] = len(rows)
            rows.append([addr, size, stream, stack, place, -1])
        elif action in FREE and addr in live:
            rows[live.pop(addr)][5] = place
    names = ["addr", "size", "stream", "stack", "begin", "end"]
    table = pd.DataFrame(rows, columns=names).astype("int64")
    times = np.append(events["t_us"].to_numpy(np.int64), 0)
    begin, end = table["begin"].to_numpy(), table["end"].to_numpy()
    table["begin_us"] = np.where(begin >= 0, times[begin], 0)
    table["end_us"] = pd.array(np.where(end >= 0, times[end], 0), dtype="Int64")
    table.loc[end < 0, "end_us"] = pd.NA
    places = [site(stack) for stack in history.stacks]
    found = [
        places[stack] if first >= 0 else BEFORE for stack, first in zip(table["stack"], begin, strict=True)
    ]
    return table.assign(site=pd.Series(found, dtype="str"))


def live_bytes(history: MemoryReport, blocks: pd.DataFrame | None = None) -> pd.DataFrame:
    """Bytes in use after each event that changed them: t_us, live_bytes, live_blocks; first those before."""
    blocks = lifetimes(history) if blocks is None else blocks
    count = len(history.events) + 1
    size = blocks["size"].to_numpy(np.int64)
    begin, end = blocks["begin"].to_numpy() + 1, blocks["end"].to_numpy() + 1
    over = end > 0
    changed, number = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(changed, begin, size)
    np.add.at(changed, end[over], -size[over])
    np.add.at(number, begin, 1)
    np.add.at(number, end[over], -1)
    moved = np.zeros(count, np.bool_)
    moved[0] = True
    moved[begin] = moved[end[over]] = True
    first = int(history.events["t_us"].iloc[0]) if len(history.events) else 0
    times = np.concatenate(([first], history.events["t_us"].to_numpy(np.int64)))
    table = pd.DataFrame({"t_us": times, "live_bytes": np.cumsum(changed), "live_blocks": np.cumsum(number)})
    return table[moved].reset_index(drop=True)


def peak(history: MemoryReport) -> pd.DataFrame:
    """What was in use at the peak, by site, the most first: site, blocks, bytes, share, at_us (of the peak),
    stack (of the largest block).
    """
    blocks = lifetimes(history)
    at = _peak_row(history, blocks)
    inside = (blocks["begin"] < at) & ((blocks["end"] < 0) | (blocks["end"] >= at))
    times = np.concatenate(([0], history.events["t_us"].to_numpy(np.int64)))
    return _by_site(history, blocks[inside]).assign(at_us=int(times[at]))[
        ["site", "blocks", "bytes", "share", "at_us", "stack"]
    ]


def allocations(history: MemoryReport) -> pd.DataFrame:
    """Every block, the largest first: bytes, begin_us, end_us (Int64: missing where never freed), site, stack
    (outermost first), stream.
    """
    blocks = lifetimes(history).sort_values(["size", "begin"], ascending=[False, True], kind="stable")
    texts = [stack_text(stack) for stack in history.stacks]
    table = blocks.rename(columns={"size": "bytes"})
    table["stack"] = pd.Series([texts[number] for number in blocks["stack"]], dtype="str", index=blocks.index)
    columns = ["bytes", "begin_us", "end_us", "site", "stack", "stream"]
    return table[columns].reset_index(drop=True)


def sites(history: MemoryReport) -> pd.DataFrame:
    """Allocations by site, the most bytes first: site, allocations, allocated_bytes, freed, live_bytes and
    live_blocks (at the end), most_bytes (in use at once).
    """
    blocks = lifetimes(history)
    rows = []
    for name, mine in blocks.groupby("site", sort=True):
        stays = mine[mine["end"] < 0]
        most = int(live_bytes(history, mine)["live_bytes"].max())
        sums = (len(mine), int(mine["size"].sum()), len(mine) - len(stays))
        rows.append((name, *sums, int(stays["size"].sum()), len(stays), most))
    columns = ["site", "allocations", "allocated_bytes", "freed", "live_bytes", "live_blocks", "most_bytes"]
    table = pd.DataFrame(rows, columns=columns)
    table = table.astype({"site": "str", **dict.fromkeys(columns[1:], "int64")})
    return table.sort_values(["most_bytes", "site"], ascending=[False, True], ignore_index=True)


def leaks(history: MemoryReport) -> pd.DataFrame:
    """Sites whose blocks pile up: of each stack what was never freed, if some of that was allocated in every
    quarter of the recording, the most bytes first.

    site; blocks; bytes; share (of what is in use at the end); every_us (median time between two);
    first_us, last_us; freed (blocks of the same stack that were freed); stack. What is made once (a model, an
    optimizer's state), a cache that is full, and what the last step has not yet freed are not among them.
    """
    blocks = lifetimes(history)
    times = history.events["t_us"]
    first, last = (int(times.min()), int(times.max())) if len(times) else (0, 0)
    stays = blocks[blocks["end"] < 0]
    whole = int(stays["size"].sum())
    rows = []
    for number, mine in stays[stays["begin"] >= 0].groupby("stack"):
        begun = mine["begin_us"].to_numpy(np.int64)
        quarters = np.minimum(QUARTERS * (begun - first) // max(last - first, 1), QUARTERS - 1)
        if len(np.unique(quarters)) < QUARTERS:
            continue
        same = blocks[(blocks["stack"] == number) & (blocks["begin"] >= 0)]
        size = int(mine["size"].sum())
        rows.append(
            (
                *(mine["site"].iloc[0], len(mine), size, size / whole if whole else np.nan),
                *(float(np.median(np.diff(begun))), int(begun.min()), int(begun.max())),
                *(int((same["end"] >= 0).sum()), stack_text(history.stacks[mine["stack"].iloc[0]])),
            )
        )
    columns = ["site", "blocks", "bytes", "share", "every_us", "first_us", "last_us", "freed", "stack"]
    words = ("site", "stack")
    shares = ("share", "every_us")
    types = {c: "str" if c in words else "float64" if c in shares else "int64" for c in columns}
    table = pd.DataFrame(rows, columns=columns).astype(types)
    return table.sort_values(["bytes", "site"], ascending=[False, True], ignore_index=True)


def stacked(history: MemoryReport, most: int = 8, points: int = 1000) -> tuple[Ints, dict[str, Ints]]:
    """Live bytes by site over time, for a picture: times (µs) and, for each site, bytes at each of them.

    The ``most`` sites with the most bytes at once: first what was in use before, then those that hold most at
    the end, so that what stays lies below what comes and goes; the others together as 'other sites'. Each of
    ``points`` stretches of time shows the moment in it at which the most was in use, so that no peak is lost.
    """
    blocks = lifetimes(history)
    total = live_bytes(history, blocks)
    if len(total) > points:
        low, high = int(total["t_us"].min()), int(total["t_us"].max())
        stretch = ((total["t_us"] - low) * points // max(high - low + 1, 1)).to_numpy()
        chosen = total["live_bytes"].groupby(stretch).idxmax().to_numpy()
    else:
        chosen = np.arange(len(total))
    order = sites(history)["site"].to_list()
    shown = order[:most]
    rows = _rows_of(history, blocks)[chosen]
    times = total["t_us"].to_numpy(np.int64)[chosen]
    found: dict[str, Ints] = {}
    rest = np.zeros(len(rows), np.int64)
    for name, mine in blocks.groupby("site", sort=False):
        values = _at(history, mine, rows)
        if name in shown:
            found[str(name)] = values
        else:
            rest += values
    lowest = sorted(shown, key=lambda name: (name != BEFORE, -found[name][-1]))
    ordered = {name: found[name] for name in lowest}
    if len(order) > len(shown):
        ordered["other sites"] = rest
    return times, ordered


def _rows_of(history: MemoryReport, blocks: pd.DataFrame) -> Ints:
    """For each row of `live_bytes` its place among the events, counted from 1; 0 is before them."""
    moved = np.zeros(len(history.events) + 1, np.bool_)
    moved[0] = True
    moved[blocks["begin"].to_numpy() + 1] = True
    end = blocks["end"].to_numpy() + 1
    moved[end[end > 0]] = True
    return np.flatnonzero(moved)


def _at(history: MemoryReport, blocks: pd.DataFrame, rows: Ints) -> Ints:
    changed = np.zeros(len(history.events) + 1, np.int64)
    size, end = blocks["size"].to_numpy(np.int64), blocks["end"].to_numpy() + 1
    np.add.at(changed, blocks["begin"].to_numpy() + 1, size)
    np.add.at(changed, end[end > 0], -size[end > 0])
    return np.asarray(np.cumsum(changed)[rows], np.int64)


def _peak_row(history: MemoryReport, blocks: pd.DataFrame) -> int:
    """How many events lie before the first moment at which the most is in use."""
    table = live_bytes(history, blocks)
    return int(_rows_of(history, blocks)[int(table["live_bytes"].to_numpy().argmax())])


def _by_site(history: MemoryReport, blocks: pd.DataFrame) -> pd.DataFrame:
    largest = blocks.sort_values("size", ascending=False, kind="stable").groupby("site").first()
    grouped = blocks.groupby("site")["size"].agg(["size", "sum"])
    table = grouped.rename(columns={"size": "blocks", "sum": "bytes"}).reset_index()
    whole = int(table["bytes"].sum())
    table["share"] = table["bytes"] / whole if whole else np.nan
    texts = [stack_text(history.stacks[number]) for number in largest["stack"].loc[table["site"]]]
    table = table.assign(stack=pd.Series(texts, dtype="str"))
    return table.sort_values(["bytes", "site"], ascending=[False, True], ignore_index=True)
