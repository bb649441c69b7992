"""One report of a run in; for each GPU in it a `Lane`, all that comparing ranks needs of it, out.

A lane is small however long the report is, so that a worker can hold one report and hand on its lanes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode import reports
from labcode.analysis.ledger.steady import steady
from labcode.analysis.ledger.view import kept
from labcode.analysis.ranks.spread import guarded
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import spans
from labcode.analysis.timeline.overlap import is_communication, is_meeting
from labcode.errors import InputError
from labcode.inputs import name_of
from labcode.reports.columns import Bools, Floats, Ints, Objects
from labcode.reports.frames import codes_of, frame, is_any
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.naming import rank_in_name
from labcode.reports.power.log import PowerLog, open_log
from labcode.reports.report import TimelineReport

Columns = dict[str, NDArray[Any]]  # a small table: a DataFrame takes longer to make and to send than to fill
Piece = tuple[Callable[..., Columns], *tuple[str, ...]]  # makes a table of an open report and words
Made = list[tuple[Columns | None, str | None]]  # of pieces: the table, or why there is none
NO_GPU = "no GPU operations"
POINTS = 512  # of a curve: exact where fewer intervals make it
MOSTLY = 0.5  # of a report is the steady state, or it is looked at alone
FEWEST = 5  # iterations of a steady state that is worth leaving the rest out
KERNELS = 64  # names of kernels that are kept, those with the most time


@dataclass(frozen=True, eq=False)
class Curve:
    """A sum that grows over time, linear between its points: ``total[i]`` by ``times[i]``."""

    times: NDArray[np.float64]
    total: NDArray[np.float64]

    def within(self, edges: Floats) -> Floats:
        """How much it grows between each two edges; what is outside of its points adds nothing."""
        if not len(self.times):
            return np.zeros(len(edges) - 1)
        return np.diff(np.interp(edges, self.times, self.total))


@dataclass(frozen=True, eq=False)
class Lane:
    """What one GPU did, in ns on its report's own clock.

    ``rank`` and ``world`` are -1 and 0 where the report does not tell; ``origin_ns`` is the Unix time of the
    clock's 0, None where unknown. ``made_by``: what wrote the report. From ``begin_ns`` to ``end_ns`` it was
    looked at, ``apart`` where that is the steady state alone. ``busy_ns`` (any operation), ``compute_ns``
    (kernels that are not NCCL's), ``comm_ns`` (NCCL's) and ``hidden_ns`` (both) are times with at least one
    running; ``curves`` has the first, the second, the third and 'exposed' (only NCCL's) over time, of power
    logs 'energy' in J. ``meetings``: a row for each collective that all wait in (`is_meeting`), in the order
    of their starts: group (its communicator, '' where unknown), name, start_ns, end_ns. ``kernels``: name,
    count, total_ns, NCCL's left out. ``power``: of power logs alone, what
    `labcode.analysis.energy.reports.power_sum` says, and held_share, of the samples in which something held
    the clocks down.
    """

    file: str
    kind: str
    made_by: str
    rank: int
    world: int
    device: int
    gpu: str
    origin_ns: int | None
    begin_ns: int
    end_ns: int
    apart: bool
    busy_ns: int
    compute_ns: int
    comm_ns: int
    hidden_ns: int
    curves: dict[str, Curve]
    meetings: Columns
    kernels: Columns
    power: dict[str, float]
    warnings: tuple[str, ...]


def lanes_of(path: Path, whole: bool = False) -> list[Lane]:
    """Open a report and reduce it, the ``whole`` of it or its steady state (`_steady`).

    Raises `InputError` where it cannot be read or holds no GPU's work.
    """
    return reduced(path, whole, ())[0]


def reduced(path: Path, whole: bool, pieces: Sequence[Piece]) -> tuple[list[Lane], Made]:
    """As `lanes_of`; and what each of the pieces makes of the same report, which is opened and read once."""
    if reports.kind_of(path) in reports.METERED:
        return _metered(open_log(path)), []
    with reports.open_timeline(path, "stats") as report:
        lanes = _traced(kept(report), whole)
        return lanes, [guarded(partial(_made, report, piece), path) for piece in pieces]


def piece_of(path: Path, piece: Piece) -> Columns:
    """What one piece makes of a report."""
    with reports.open_timeline(path, "stats") as report:
        return _made(report, piece, path)


def below(tables: Sequence[Columns], **of_each: Sequence[int]) -> pd.DataFrame:
    """At least one small table, below each other; before their columns those with a number for each table."""
    lengths = [len(next(iter(table.values()))) for table in tables]
    columns = {name: np.repeat(np.array(numbers, np.int64), lengths) for name, numbers in of_each.items()}
    columns |= {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return frame(**columns)


def _made(report: TimelineReport, piece: Piece, _: Path) -> Columns:
    return piece[0](report, *piece[1:])


def _traced(report: TimelineReport, whole: bool) -> list[Lane]:
    ops = report.gpu_ops()
    begun, ended = spans(ops)
    apart = False
    if not whole or report.is_marked():  # else all is compared
        window, apart = (report.window(), False) if whole else _steady(report)
        begun, ended = np.maximum(begun, window[0]), np.minimum(ended, window[1])
    there = ended > begun
    if not there.any():
        raise InputError(
            f"{report.path}: {NO_GPU}; "
            + (
                "the program was ended before the profiler had saved any (nsys "
                "--cuda-flush-interval=1000 saves every second)"
                if ".partial." in report.path.name and not isinstance(report, KinetoReport)
                else "record some (nsys --trace=cuda, or torch.profiler)"
            )
        )
    kernel, graph = is_any(ops["kind"], "kernel"), is_any(ops["kind"], "graph")
    talks, meets = is_communication(ops).to_numpy(), is_meeting(ops).to_numpy() & kernel
    device, names = ops["device"].to_numpy(np.int64), ops["short_name"].to_numpy(object)
    rank, world, groups = _distributed(report, kernel)
    gpus = report.gpu_names()
    made_by = str(getattr(report, "product_version", "")) or reports.kind_of(report.path)
    lanes = []
    for number in np.unique(device[there]).tolist():
        mine = there & (device == number)
        work, met, own = (np.flatnonzero(mine & some) for some in (kernel | graph, meets, kernel & ~talks))
        comm = work[talks[work]]
        work = work[~talks[work]]
        busy = intervals.union(begun[mine], ended[mine])
        compute = intervals.union(begun[work], ended[work])
        talk = intervals.union(begun[comm], ended[comm])
        exposed = intervals.subtract(*talk, *compute)
        lanes.append(
            Lane(
                file=name_of(report.path),
                kind=reports.kind_of(report.path),
                made_by=made_by,
                rank=rank,
                world=world,
                device=number,
                gpu=str(gpus.get(number, "")),
                origin_ns=report.utc_origin_ns(),
                begin_ns=int(begun[mine].min()),
                end_ns=int(ended[mine].max()),
                apart=apart,
                busy_ns=_length(busy),
                compute_ns=_length(compute),
                comm_ns=_length(talk),
                hidden_ns=_length(talk) - _length(exposed),
                curves={
                    name: _curve(*spans)
                    for name, spans in (
                        ("busy", busy),
                        ("compute", compute),
                        ("comm", talk),
                        ("exposed", exposed),
                    )
                },
                meetings=_meetings(groups[met], names[met], begun[met], ended[met]),
                kernels=_by_name(names[own], ended[own] - begun[own]),
                power={},
                warnings=tuple(line.removeprefix(f"{report.path}: ") for line in report.warnings),
            )
        )
    return lanes


def _distributed(report: TimelineReport, kernel: Bools) -> tuple[int, int, Objects]:
    """The rank of a report and how many there were, as the trace says, else by the file's name; and the
    communicator of each operation, '' where the report tells none.
    """
    groups = np.full(len(kernel), "", object)
    if isinstance(report, KinetoReport):
        kernels = report.kernels()
        order = np.argsort(kernels["start_ns"].to_numpy(np.int64), kind="stable")
        groups[kernel] = kernels["process_group"].to_numpy(object)[order]
        said = report.metadata().get("distributedInfo")
        rank = said.get("rank") if isinstance(said, dict) else None
        if isinstance(rank, int) and rank >= 0:
            return rank, report.world_size, groups
    return rank_in_name(report.path), 0, groups


def _steady(report: TimelineReport) -> tuple[tuple[int, int], bool]:
    """What of a report is compared: what it measures; its iterations after the warm-up, where most of that is
    something else, such as start-up. And whether it is the latter.
    """
    judged, whole = steady(report), report.window()
    apart = judged.count >= FEWEST and judged.width < MOSTLY * (whole[1] - whole[0])
    return judged.window if apart else whole, apart


def _meetings(group: Objects, name: Objects, start: Ints, end: Ints) -> Columns:
    order = np.argsort(start, kind="stable")
    return {"group": group[order], "name": name[order], "start_ns": start[order], "end_ns": end[order]}


def _by_name(name: Objects, lasted: Ints) -> Columns:
    codes, names = codes_of(name)
    total = np.zeros(len(names), np.int64)
    np.add.at(total, codes, lasted)
    most = sorted(range(len(names)), key=lambda place: (-int(total[place]), names[place]))[:KERNELS]
    count = np.bincount(codes, minlength=len(names))
    return {"name": np.asarray(names, object)[most], "count": count[most], "total_ns": total[most]}


def _length(spans: tuple[Ints, Ints]) -> int:
    return int((spans[1] - spans[0]).sum())


def _curve(starts: Ints, ends: Ints) -> Curve:
    """The time that disjoint intervals cover, as it grows; with more than `POINTS`, at even times."""
    times = np.column_stack([starts, ends]).ravel()
    total = np.column_stack([np.zeros(len(starts), np.int64), ends - starts]).ravel().cumsum()
    if len(times) > POINTS:
        even = np.linspace(times[0], times[-1], POINTS)
        times, total = even, np.interp(even, times, total)
    return Curve(times.astype(np.float64), total.astype(np.float64))


# ---- power logs


def _metered(log: PowerLog) -> list[Lane]:
    """A lane for each GPU of a power log, its clock Unix time where the log says so."""
    from labcode.analysis.energy.reports import power_sum

    if not len(log.samples):
        raise InputError(f"{log.path}: no samples; record for longer with `labcode energy`")
    begin, end = log.window()
    origin = int(log.clock["utc_ns"].iloc[0] - log.clock["t_ns"].iloc[0]) if len(log.clock) else None
    none = _by_name(np.empty(0, object), np.empty(0, np.int64))
    lanes = []
    for row in power_sum(log).to_dict("records"):
        samples = log.of(int(row["device"]))
        samples = samples[samples["instant_w"].notna() | samples["average_w"].notna()]
        watts = samples["instant_w"].fillna(samples["average_w"]).to_numpy(np.float64)
        times = samples["t_ns"].to_numpy(np.float64)
        joules = np.concatenate([[0.0], np.cumsum((watts[1:] + watts[:-1]) / 2 * np.diff(times) / 1e9)])
        keep = np.unique(np.linspace(0, len(times) - 1, min(len(times), POINTS)).astype(np.int64))
        held = log.of(int(row["device"]))["reasons"].to_numpy(np.int64)
        power = {
            name: float(row[name]) for name in ("energy_j", "mean_w", "peak_w", "sm_mhz", "temperature_c")
        }
        power["held_share"] = float((held & ~_NOT_HELD != 0).mean()) if len(held) else float("nan")
        lanes.append(
            Lane(
                file=name_of(log.path),
                kind="power",
                made_by=log.driver,
                rank=rank_in_name(log.path),
                world=0,
                device=int(row["device"]),
                gpu=str(row["name"]),
                origin_ns=origin,
                begin_ns=begin,
                end_ns=end,
                apart=False,
                **dict.fromkeys(("busy_ns", "compute_ns", "comm_ns", "hidden_ns"), 0),
                curves={"energy": Curve(times[keep], joules[keep])},
                meetings=_meetings(*_NO_TALK),
                kernels=none,
                power=power,
                warnings=tuple(line.removeprefix(f"{log.path}: ") for line in log.warnings),
            )
        )
    return lanes


_NOT_HELD = 0x1 | 0x2  # NVML's bits for an idle GPU and for clocks that the user set
_NO_TALK = (np.empty(0, object),) * 2 + (np.empty(0, np.int64),) * 2
