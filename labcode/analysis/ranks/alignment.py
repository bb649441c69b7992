"""Lanes with clocks of their own in; a common clock, and the collectives on it, out.

A collective ends on all its ranks at nearly the same moment: none can leave before the last has come. (A
broadcast's root can, so those do not count.) So the ends of the n-th collective on two ranks tell how far
their clocks are apart, and those of many collectives tell it to microseconds where network time tells it to
milliseconds. The ends of short collectives lie closest together, so only the shortest count; how late a rank
leaves a long one then shows a slow link. Where all are of one size, a rank that always leaves late cannot be
told from one whose clock is ahead. Clocks of one host agree as they are: where collectives do not bring
clocks together and Unix time does, it counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.ranks.lane import Lane, below
from labcode.reports import METERED
from labcode.reports.columns import Floats, Ints

OVERLAPPING = 0.9  # of the collectives must lie at one time on all ranks, or they are not the same ones
_FEWEST = 3  # collectives that tell the clocks apart
_SHORT = 2.0  # of the shortest collective's duration: those up to that long count
_FOR_RATE = 16  # collectives from which also the rate of a clock is told
_SURE = 11  # times the spread by the root of their number: 3 σ of the distance of two halves' medians


@dataclass(frozen=True, eq=False)
class Meetings:
    """Collectives that the same ranks take part in: ``lanes`` (places in the run's), ``names``, and matrices
    with a row for each of these lanes and a column for each collective, by time: start and end in ns of the
    common clock.
    """

    group: str
    lanes: Ints
    names: NDArray[np.object_]
    start: Floats
    end: Floats


@dataclass(frozen=True, eq=False)
class Clocks:
    """What brings each lane's clock to the common one: ``rate * t + offset_ns``.

    ``how`` is 'collectives', 'Unix time' or 'own start'; ``told_ns`` is the offset by the latter two alone.
    ``residual_ns``: how far the ends of a lane's collectives lie from the common ones in the median, nan
    where it took part in none. ``spans``: the begin and end of each lane. ``meetings`` is empty where clocks
    could not be aligned. ``notes``: that, and who is left out; ``why`` they could not be, '' where they are.
    """

    how: str
    rate: Floats
    offset_ns: Floats
    told_ns: Floats
    residual_ns: Floats
    spans: Floats
    meetings: tuple[Meetings, ...]
    notes: tuple[str, ...]
    why: str

    def common(self, lane: int, times: Floats) -> Floats:
        """Times on a lane's clock as times on the common one."""
        return np.asarray(times * self.rate[lane] + self.offset_ns[lane], np.float64)


class _Fit(NamedTuple):
    """What brings clocks together: as `Clocks` has it."""

    how: str
    rate: Floats
    offset_ns: Floats
    residual_ns: Floats


def align(lanes: Sequence[Lane]) -> Clocks:
    """Bring the lanes' clocks together by their collectives, else by Unix time, else by their starts."""
    known = all(lane.origin_ns is not None for lane in lanes)
    zero = min(lane.begin_ns + (lane.origin_ns or 0) for lane in lanes) if known else 0
    first = [(lane.origin_ns or 0) - zero if known else -lane.begin_ns for lane in lanes]
    told = np.array(first, np.float64)
    by_told = _Fit(
        "Unix time" if known else "own start", np.ones(len(lanes)), told, np.full(len(lanes), np.nan)
    )
    fallback = (
        "the clocks are as the reports tell Unix time"
        if known
        else "each rank's time counts from its own start"
    )
    families, notes = match(lanes)
    if not families:
        why = "no collective in common, so the clocks cannot be aligned" if len(lanes) > 1 else ""
        if why and lanes[0].kind not in METERED:
            notes.append(f"{why}: {fallback}, and nobody is told late")
        return _clocks(by_told, told, lanes, [], notes, why)
    fit = _fit(families[0], told)
    together = _share_together(families, fit)
    if known and together < OVERLAPPING:  # clocks of one host agree as they are
        as_told = _fit(families[0], told, as_told=True)
        if _share_together(families, as_told) >= OVERLAPPING:
            return _clocks(as_told, told, lanes, families, notes)
    if together < OVERLAPPING:
        why = (
            f"the clocks cannot be aligned: only {together:.0%} of the collectives lie at one time on all "
            "ranks"
        )
        notes.append(f"{why} (several communicators under one name?); {fallback}, and nobody is told late")
        return _clocks(by_told, told, lanes, [], notes, why)
    apart = np.isnan(fit.residual_ns)
    if apart.any():
        notes.append(
            f"{int(apart.sum())} ranks take part in no collective of the others: {fallback} for them"
        )
    return _clocks(fit, told, lanes, families, notes)


def match(lanes: Sequence[Lane]) -> tuple[list[Meetings], list[str]]:
    """Which collectives of the lanes are the same: the n-th of a name within a communicator.

    Times are still those of each lane. Lanes with another number of a name than most are left out of it.
    """
    there = [place for place, lane in enumerate(lanes) if len(lane.meetings["name"])]
    notes: list[str] = []
    if len(there) < 2:
        return [], notes
    whole = below([lanes[place].meetings for place in there], lane=there)
    counts = whole.groupby(["group", "name", "lane"]).size()
    parts: dict[tuple[str, tuple[int, ...]], list[pd.DataFrame]] = {}
    odd: set[int] = set()
    for key, mine in counts.groupby(level=[0, 1]):
        group, name = cast(tuple[str, str], key)
        usual = int(mine.mode().max())
        members = mine.index.get_level_values(2)[mine.to_numpy() == usual]
        odd |= set(mine.index.get_level_values(2)) - set(members)
        if len(members) > 1:
            chosen = (whole["group"] == group) & (whole["name"] == name) & whole["lane"].isin(members)
            parts.setdefault((str(group), tuple(sorted(members))), []).append(whole[chosen])
    if odd:
        some = ", ".join(str(lanes[place].rank) for place in sorted(odd)[:8]) + (" …" if len(odd) > 8 else "")
        notes.append(
            f"rank {some} ran another number of some collectives than most (a recording that begins or ends "
            "elsewhere?); it is compared without them"
        )
    families = [_matrices(group, members, pd.concat(tables)) for (group, members), tables in parts.items()]
    return sorted(families, key=lambda one: -len(one.lanes)), notes


def _matrices(group: str, members: tuple[int, ...], table: pd.DataFrame) -> Meetings:
    """Collectives of the same ranks, of all names, in the order in which the first rank began them."""
    table = table.assign(number=table.groupby(["name", "lane"]).cumcount())
    first = table[table["lane"] == members[0]].sort_values("start_ns", kind="stable")
    keys = pd.MultiIndex.from_frame(first[["name", "number"]])
    place = keys.get_indexer(pd.MultiIndex.from_frame(table[["name", "number"]]))
    row = np.searchsorted(members, table["lane"].to_numpy())
    made = {}
    for column in ("start_ns", "end_ns"):
        values = np.zeros((len(members), len(keys)))
        values[row, place] = table[column].to_numpy(np.float64)
        made[column.removesuffix("_ns")] = values
    return Meetings(group, np.array(members, np.int64), first["name"].to_numpy(object), **made)


def _fit(one: Meetings, told: Floats, *, as_told: bool = False) -> _Fit:
    """What brings the ends of a family's collectives together, or, ``as_told``, how far they are apart."""
    lasted = (one.end - one.start).min(axis=0)
    enough = np.sort(lasted)[:_FEWEST]
    chosen = np.flatnonzero(lasted <= max(_SHORT * enough[0], enough[-1]))
    ends = one.end[:, chosen] + told[one.lanes][:, None]
    apart = np.median(ends - ends[0], axis=1)
    middle = ends[np.argsort(apart, kind="stable")[len(apart) // 2]]
    difference = middle - ends
    shift = np.zeros(len(one.lanes)) if as_told else np.median(difference, axis=1)
    slope = np.zeros(len(one.lanes))
    if len(chosen) >= _FOR_RATE and not as_told:
        half = len(chosen) // 2
        early, late = difference[:, :half], difference[:, -half:]
        between = np.median(middle[-half:]) - np.median(middle[:half])
        drift = np.median(late, axis=1) - np.median(early, axis=1)
        spread = np.median(np.abs(difference - shift[:, None]), axis=1)
        sure = np.abs(drift) > _SURE * spread / np.sqrt(len(chosen))
        slope = np.where(sure, drift, 0.0) / max(between, 1.0)
        shift = np.median(difference - slope[:, None] * ends, axis=1)
    rate, moved, residual = np.ones(told.shape), told.copy(), np.full(len(told), np.nan)
    rate[one.lanes] = 1 + slope
    moved[one.lanes] = told[one.lanes] * (1 + slope) + shift
    left = middle - (ends * (1 + slope)[:, None] + shift[:, None])
    residual[one.lanes] = np.median(np.abs(left), axis=1)
    return _Fit("Unix time" if as_told else "collectives", rate, moved, residual)


def _share_together(families: list[Meetings], fit: _Fit) -> float:
    together = total = 0
    for one in families:
        start, end = (
            values * fit.rate[one.lanes][:, None] + fit.offset_ns[one.lanes][:, None]
            for values in (one.start, one.end)
        )
        together += int((start.max(axis=0) < end.min(axis=0)).sum())
        total += start.shape[1]
    return together / max(total, 1)


def _clocks(
    fit: _Fit,
    told: Floats,
    lanes: Sequence[Lane],
    families: list[Meetings],
    notes: list[str],
    why: str = "",
) -> Clocks:
    """The clocks with everything on them, 0 where the first lane begins."""
    rate, offset = fit.rate, fit.offset_ns
    ends = np.array([(lane.begin_ns, lane.end_ns) for lane in lanes], np.float64).reshape(-1, 2)
    spans = ends * rate[:, None] + offset[:, None]
    zero = float(spans[:, 0].min())
    moved = []
    for one in families:
        scale, shift = rate[one.lanes][:, None], offset[one.lanes][:, None] - zero
        start, end = one.start * scale + shift, one.end * scale + shift
        moved.append(Meetings(one.group, one.lanes, one.names, start, end))
    return Clocks(
        fit.how, rate, offset - zero, told, fit.residual_ns, spans - zero, tuple(moved), tuple(notes), why
    )


def table(ranks: Ints, files: Sequence[str], clocks: Clocks) -> pd.DataFrame:
    """A row for each rank: rank, file, how, offset_ns (how far its clock was behind, beyond what was told of
    it, against the rank in the middle), rate_ppm, residual_ns.
    """
    moved = clocks.offset_ns - clocks.told_ns
    return pd.DataFrame(
        {
            "rank": ranks,
            "file": list(files),
            "how": np.where(
                np.isnan(clocks.residual_ns) & (clocks.how == "collectives"), "not aligned", clocks.how
            ),
            "offset_ns": np.rint(moved - np.median(moved)).astype(np.int64),
            "rate_ppm": (clocks.rate - 1) * 1e6,
            "residual_ns": clocks.residual_ns,
        }
    ).astype({"how": "str", "file": "str"})
