"""Joules of NVTX ranges: a power log and a capture of the same run in, a row for each range out.

Both are brought onto the log's clock by marks that the program put into the capture (`CLOCK_MARK`), else by
UTC, which both may know. Time is then parted without overlap: while something runs on the GPU it belongs to
the range around its launch; while nothing runs, to the range that is open on the thread that launches. So the
energies of all rows sum to that of the whole.

A range's stretches may be shorter than what the sensor resolves. Then its energy by the counter is anything
between bounds that are far apart, and it is declined; where ranges come again and again in other proportions
between two updates of the counter, the mean power of each follows from all updates together (least squares,
no power negative), with an interval.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.energy.model import fit
from labcode.analysis.energy.window import Curve, curve_of
from labcode.analysis.lm.parts import range_paths
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import launch_rows, spans
from labcode.analysis.timeline.nvtx import cpu_ranges
from labcode.errors import InputError
from labcode.reports import kind_of
from labcode.reports.columns import Floats
from labcode.reports.common import MEASURED
from labcode.reports.power.schema import CLOCK_MARK
from labcode.reports.report import PowerReport, TimelineReport

NO_RANGE = "(no range)"
SHORT_NS = 1_000_000  # a gap inside of a range is the range's, whatever the thread that launches does
KEPT = 0.2  # of an energy: with a larger error it is declined
_MARKS_APART_NS = (
    5_000_000  # by which marks may disagree, besides a drift of so much of the time between them:
)
_DRIFT = 5e-4
_NUMBER = re.compile(r"\s*#?\d+$")
COLUMNS = {
    "device": "int64",
    "range": "str",
    "stretches": "int64",
    **dict.fromkeys(("seconds", "share", "energy_j", "error_j", "low_j", "high_j", "mean_w"), "float64"),
    "how": "str",
}


@dataclass(frozen=True)
class Clocks:
    """What a capture's clock shows (``capture_ns``) when the log's shows ``log_ns``, ascending."""

    capture_ns: Floats
    log_ns: Floats

    def to_log(self, capture_ns: Floats) -> Floats:
        """Times of the capture on the log's clock; between marks its drift is interpolated."""
        times = np.asarray(capture_ns, np.float64)
        return np.asarray(times + np.interp(times, self.capture_ns, self.log_ns - self.capture_ns))


def clocks(report: TimelineReport, log: PowerReport | None = None) -> Clocks:
    """The clocks of a capture and the log of its run: by the capture's marks; without any by UTC.

    `InputError` where the capture has neither, or where marks, or the log's pairs with UTC, contradict each
    other.
    """
    nvtx = report.nvtx()
    found = nvtx["name"].str.extract(rf"^{re.escape(CLOCK_MARK)} (\d{{1,18}})$", expand=False)
    there = found.notna()
    if not there.any():
        return _by_utc(report, log)
    pairs = pd.DataFrame(
        {"capture": nvtx.loc[there, "start_ns"].astype("float64"), "log": found[there].astype("float64")}
    ).sort_values("capture")
    capture, told = pairs["capture"].to_numpy(), pairs["log"].to_numpy()
    steps = np.abs(np.diff(told - capture))
    if (steps > _MARKS_APART_NS + _DRIFT * np.diff(capture)).any():
        raise InputError(
            f"{report.path}: its clock marks contradict each other by {steps.max() / 1e6:.0f} ms; it holds "
            "several runs, or its clock was set: record again"
        )
    return Clocks(capture, told)


def _by_utc(report: TimelineReport, log: PowerReport | None) -> Clocks:
    origin = report.utc_origin_ns()
    if origin is None or log is None or not len(log.clock):
        raise InputError(
            f"{report.path}: no clock marks, so it cannot be joined with a power log; let the program put "
            "nvtx.mark(labcode.meter.clock_mark()) at its start and end, and record again"
        )
    times, utc = (log.clock[name].to_numpy(np.int64) for name in ("t_ns", "utc_ns"))
    apart = int(np.ptp(utc - times))
    if apart > _MARKS_APART_NS + _DRIFT * float(np.ptp(times)):
        raise InputError(
            f"{log.path}: the system's clock was set by {apart / 1e6:.0f} ms while it was recorded, and "
            f"{report.path} has no clock marks, so they cannot be joined; record again"
        )
    return Clocks((utc - origin).astype(np.float64), times.astype(np.float64))


def per_range(
    log: PowerReport, report: TimelineReport, *, names: Sequence[str] | None = None
) -> pd.DataFrame:
    """The energy of each range on each GPU: columns are `COLUMNS`; the most energy first, without one last.

    ``range`` is a name without the number at its end; ``names`` says which ranges count, by default the
    innermost around each launch. ``stretches`` is how often it came, ``share`` its part of the time, ``how``
    'counter', 'fit' (by all updates together) or 'declined' (energy_j and error_j are nan). The counter's
    bounds ``low_j`` and ``high_j`` hold for each; rows of one device sum to the energy of the measured part.
    ``device`` is the log's number. Raises `InputError` where the two files are not of one run.
    """
    clock = clocks(report, log)
    ops = report.gpu_ops()
    begin, end = (float(t) for t in clock.to_log(np.array(report.window(), np.float64)))
    ops = ops.assign(
        path=range_paths(report.nvtx(), report.api(), ops),
        start_ns=clock.to_log(ops["start_ns"].to_numpy(np.float64)).astype(np.int64),
        end_ns=clock.to_log(ops["end_ns"].to_numpy(np.float64)).astype(np.int64),
    )
    ops = ops[(ops["end_ns"] > begin) & (ops["start_ns"] < end)]
    metered = _refuse_strangers(log, report, ops, (begin, end))
    waits = _open_ranges(report, ops, names)
    for column in ("start_ns", "end_ns"):
        waits[column] = clock.to_log(waits[column].to_numpy(np.float64)).astype(np.int64)
    ops["range"] = [_label(path, names) for path in ops["path"]]
    parts = [
        _of_device(log, metered[int(str(device))], mine, waits, (begin, end))
        for device, mine in ops.groupby("device")
    ]
    return pd.concat(parts, ignore_index=True).astype(COLUMNS)


def whole(log: PowerReport, report: TimelineReport) -> pd.DataFrame:
    """The energy of the measured part on each GPU of the log: device, energy_j, error_j, seconds."""
    begin, end = clocks(report, log).to_log(np.array(report.window(), np.float64))
    rows = []
    for device in log.devices.loc[log.devices["samples"] > 0, "device"]:
        one = curve_of(log.of(int(device))).energy(int(begin), int(end))
        rows.append((int(device), one.counter_j, one.error_j, one.seconds))
    return pd.DataFrame(rows, columns=["device", "energy_j", "error_j", "seconds"])


def stretches(
    running: pd.DataFrame, waiting: pd.DataFrame, window: tuple[float, float], *, short_ns: int = SHORT_NS
) -> tuple[Floats, list[str]]:
    """The window parted: edges (one more than parts) and the range of each part, neighbors merged.

    Both tables have start_ns, end_ns, range; ``running`` comes first, the innermost where they overlap.
    ``waiting`` counts where nothing runs, but for gaps of up to ``short_ns`` inside of a range; a gap that is
    left belongs to the range on both of its sides.
    """
    low, high, name = _disjoint(running)
    same = np.array([one == other for one, other in pairwise(name)], np.bool_)
    filled = np.flatnonzero(same & (low[1:] - high[:-1] <= short_ns))
    high[filled] = low[filled + 1]
    other_low, other_high, other = _disjoint(waiting)
    free_low, free_high = intervals.complement(low, high, (int(window[0]), int(window[1]) + 1))
    row, place = intervals.expand(
        np.searchsorted(other_high, free_low, "right"), np.searchsorted(other_low, free_high, "left")
    )
    starts = np.concatenate([low, np.maximum(free_low[row], other_low[place])])
    ends = np.concatenate([high, np.minimum(free_high[row], other_high[place])])
    labels = [*name, *(other[p] for p in place.tolist())]
    edges: list[float] = [window[0]]
    names: list[str] = []

    def put(until: float, label: str) -> None:
        until = min(max(until, edges[-1]), window[1])
        if until <= edges[-1]:
            return
        if names and names[-1] == label:
            edges[-1] = until
            return
        names.append(label)
        edges.append(until)

    for at in np.argsort(starts, kind="stable").tolist():
        put(float(starts[at]), labels[at] if names and names[-1] == labels[at] else NO_RANGE)
        put(float(ends[at]), labels[at])
    put(window[1], NO_RANGE)
    return np.array(edges), names


def _disjoint(table: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    low, high, which = intervals.innermost(*spans(table))
    return low, high, table["range"].iloc[which].to_list()


def _open_ranges(report: TimelineReport, ops: pd.DataFrame, names: Sequence[str] | None) -> pd.DataFrame:
    """The ranges of the thread that launches most: start_ns, end_ns, range."""
    api = report.api()
    rows = launch_rows(ops, api)
    ranges = cpu_ranges(report.nvtx())
    name = ranges["name"].str.replace(_NUMBER, "", regex=True)
    wanted = name.isin(list(names)) if names is not None else ~name.isin([MEASURED, CLOCK_MARK])
    if (rows >= 0).any():
        pid, tid = api.iloc[rows[rows >= 0]][["pid", "tid"]].value_counts().reset_index().iloc[0, :2]
        wanted &= (ranges["pid"] == pid) & (ranges["tid"] == tid)
    return ranges.loc[wanted, ["start_ns", "end_ns"]].assign(range=name[wanted])


def _of_device(
    log: PowerReport, device: int, ops: pd.DataFrame, waits: pd.DataFrame, window: tuple[float, float]
) -> pd.DataFrame:
    curve = curve_of(log.of(device))
    edges, names = stretches(ops, waits, window)
    known = np.array([curve.counter(edge) for edge in edges])
    estimate = np.diff(known[:, 0])
    lowest = np.maximum(known[1:, 1] - known[:-1, 2], 0.0)
    highest = known[1:, 2] - known[:-1, 1]
    lengths = np.diff(edges) / 1e9
    order = list(dict.fromkeys(names))
    codes = np.array([order.index(name) for name in names], np.int64)
    powers = _fitted(curve, edges, codes, len(order))
    rows = []
    for code, name in enumerate(order):
        mine = codes == code
        seconds, joules = float(lengths[mine].sum()), float(estimate[mine].sum())
        least, most = float(lowest[mine].sum()), float(highest[mine].sum())
        error = max(joules - least, most - joules)
        how = "counter"
        if error > KEPT * joules:
            how = "declined"
            if powers is not None:
                watts, low, high = powers[code]
                if high - low <= 2 * KEPT * watts:
                    how, joules = "fit", watts * seconds
                    error = max(high - watts, watts - low) * seconds
        if how == "declined":
            joules = error = float("nan")
        rows.append((device, name, int(mine.sum()), seconds, joules, error, least, most, how))
    table = pd.DataFrame(rows, columns=[name for name in COLUMNS if name not in ("share", "mean_w")])
    table["share"] = table["seconds"] / table["seconds"].sum()
    table["mean_w"] = table["energy_j"] / table["seconds"]
    last = table["range"] == NO_RANGE
    table = table.assign(last=last).sort_values(["last", "energy_j"], ascending=[True, False])
    return table[list(COLUMNS)]


def _fitted(
    curve: Curve, edges: Floats, codes: NDArray[np.int64], count: int
) -> list[tuple[float, float, float]] | None:
    """Mean power of each label with its interval, from the energy between updates; None with too few."""
    inside = (curve.knots_ns >= edges[0]) & (curve.knots_ns <= edges[-1])
    knots, joules = curve.knots_ns[inside], curve.knots_j[inside]
    if len(knots) - 1 < 4 * count:
        return None
    spent = np.zeros((len(knots) - 1, count))
    for code in range(count):
        lengths = np.where(codes == code, np.diff(edges), 0.0)
        until = np.interp(knots, edges, np.concatenate([[0.0], np.cumsum(lengths)]))
        spent[:, code] = np.diff(until) / 1e9
    scale = np.linalg.norm(spent, axis=0)
    if (scale == 0).any() or np.linalg.cond(spent / scale) > 50:
        return None  # between all updates the same proportions: nothing tells one range from another
    found = fit(spent, np.diff(joules))
    return list(zip(found.values.tolist(), found.low.tolist(), found.high.tolist(), strict=True))


def _label(path: str, names: Sequence[str] | None) -> str:
    """The range that an operation counts for, of the ranges around its launch, the outermost first."""
    around = [_NUMBER.sub("", part) or part for part in path.split("/") if part]
    if names is not None:
        around = [part for part in around if part in names]
    return around[-1] if around else NO_RANGE


def _refuse_strangers(
    log: PowerReport, report: TimelineReport, ops: pd.DataFrame, window: tuple[float, float]
) -> dict[int, int]:
    """The log's device for each that the capture ran on; `InputError` where they cannot be of one run.

    nsys numbers GPUs as the machine does, torch.profiler as CUDA does.
    """
    if not len(log.samples):
        raise InputError(f"{log.path}: no samples, so there is nothing to join with {report.path}")
    first, last = float(log.samples["t_ns"].min()), float(log.samples["t_ns"].max())
    if window[1] < first or window[0] > last:
        apart = max(first - window[1], window[0] - last) / 1e9
        raise InputError(
            f"{report.path}: was recorded {apart:,.1f} s outside of {log.path}: they are of different runs; "
            "give the two files of one run"
        )
    if window[0] < first or window[1] > last:
        covered = (min(window[1], last) - max(window[0], first)) / (window[1] - window[0])
        raise InputError(
            f"{log.path}: covers only {covered:.0%} of what {report.path} measured; start the meter before "
            "and stop it after"
        )
    if not len(ops):
        raise InputError(f"{report.path}: no GPU operations in the measured part; record --trace=cuda,nvtx")
    numbers = log.devices["device"]
    if kind_of(report.path) == "nsys":
        numbers = log.devices["nvml_index"].fillna(numbers)
    places = {int(number): place for place, number in enumerate(numbers)}
    found: dict[int, int] = {}
    seen = report.gpus()
    for device in ops["device"].unique():
        if int(device) not in places:
            raise InputError(
                f"{log.path}: GPU {device}, on which {report.path} ran, was not metered; record both with "
                "the same CUDA_VISIBLE_DEVICES"
            )
        own = log.devices.iloc[places[int(device)]]
        names = seen.loc[seen["device"] == device, "name"]
        if len(names) and str(names.iloc[0]) and str(names.iloc[0]) != own["name"]:
            raise InputError(
                f"{report.path}: ran on {names.iloc[0]}, but {log.path} is of {own['name']}: they are of "
                "different runs; give the two files of one run"
            )
        found[int(device)] = int(own["device"])
    return found
