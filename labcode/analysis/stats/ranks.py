"""The reports of `labcode stats` on a folder with a report for each rank: a run in; one table out.

Besides its own reports a run answers to those of its reports' format: each rank's table, below each other.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.ranks import alignment, heatmap, merge, pacing, stragglers
from labcode.analysis.ranks.lane import Piece
from labcode.analysis.ranks.run import Run, open_run
from labcode.analysis.stats.shelf import LackingError, Shelf, shelf_of
from labcode.analysis.stats.table import to_frame
from labcode.errors import LabError
from labcode.reports import METERED, Kind

Report = Callable[[Run], pd.DataFrame]


def rank_sum(run: Run) -> pd.DataFrame:
    """Every rank's computing, communication, waiting and delays, and why it was late."""
    return stragglers.by_rank(run)


def rank_clocks(run: Run) -> pd.DataFrame:
    """How each rank's clock was brought to the common one."""
    return alignment.table(run.ranks, [lane.file for lane in run.lanes], run.clocks)


def rank_collectives(run: Run) -> pd.DataFrame:
    """Every collective: who came last, by how much, and how long all waited."""
    found = stragglers.meetings(run)
    if not len(found):
        raise LackingError(
            run.path, run.clocks.notes[0] if run.clocks.notes else "no collectives of several ranks"
        )
    return found


def rank_heatmap(run: Run) -> pd.DataFrame:
    """GPU time, communication and idle time (of power logs: power) by rank and time."""
    return heatmap.over_time(run)


def rank_balance(run: Run) -> pd.DataFrame:
    """How even the ranks are over time."""
    return heatmap.balance(run)


def rank_kernels(run: Run) -> pd.DataFrame:
    """Kernels by name and rank, beside the rank in the middle."""
    return merge.kernels(run)


def rank_pace(run: Run, name: str = "") -> pd.DataFrame:
    """When each rank began each step, or each instance of another range: rank_pace:NAME."""
    found = pacing.pace(run, name)
    if not len(found):
        raise LackingError(
            run.path, f"no range {name or 'that is called step'}; name another: rank_pace:NAME"
        )
    return found


def nccl_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges on the CPU, by rank and name."""
    return _talk(run, pacing.nccl_sum(run))


def nccl_gpu_proj_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges where their work ran on the GPU, by rank and name."""
    return _talk(run, pacing.nccl_gpu_proj_sum(run))


def nccl_all_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges on the CPU, of all ranks together."""
    return pacing.over_all(nccl_sum(run))


def nccl_gpu_proj_all_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges where their work ran on the GPU, of all ranks together."""
    return pacing.over_all(nccl_gpu_proj_sum(run))


def rank_power(run: Run) -> pd.DataFrame:
    """Energy, power, clock and temperature of each rank's GPU."""
    return merge.power(run)


TIMELINE: Mapping[str, Report] = {
    "rank_sum": rank_sum,
    "rank_clocks": rank_clocks,
    "rank_collectives": rank_collectives,
    "rank_heatmap": rank_heatmap,
    "rank_balance": rank_balance,
    "rank_kernels": rank_kernels,
    "rank_pace": rank_pace,
    "nccl_sum": nccl_sum,
    "nccl_all_sum": nccl_all_sum,
    "nccl_gpu_proj_sum": nccl_gpu_proj_sum,
    "nccl_gpu_proj_all_sum": nccl_gpu_proj_all_sum,
}
POWER: Mapping[str, Report] = {
    "rank_power": rank_power,
    "rank_heatmap": rank_heatmap,
    "rank_balance": rank_balance,
}
DEFAULT = {"power": ("rank_power",)}
MANY = 128  # ranks of which people are shown each …
SHOWN = 64  # … and rows of a table of more: a screen or two
TELLING = {  # in what the rows of a table differ
    "rank_sum": "delay_ns",
    "rank_clocks": "offset_ns",
    "rank_collectives": "waits_ns",
    "rank_heatmap": "idle",
    "rank_kernels": "ratio",
    "rank_pace": "late_ns",
    "rank_power": "held_share",
    "nccl_sum": "sum_ns",
    "nccl_gpu_proj_sum": "sum_ns",
}

PIECES: Mapping[str, Piece] = {
    "nccl_sum": pacing.NCCL,
    "nccl_all_sum": pacing.NCCL,
    "nccl_gpu_proj_sum": pacing.NCCL_ON_GPU,
    "nccl_gpu_proj_all_sum": pacing.NCCL_ON_GPU,
}


def plan(run: Run, names: Sequence[str]) -> None:
    """Have what these reports need of each rank read at once."""
    if not run.metered:
        run.plan(*(PIECES[name] for name in names if name in PIECES))
        heads = (name.partition(":") for name in names)
        run.plan(*(pacing.steps(argument) for head, _, argument in heads if head == "rank_pace"))


def brief(run: Run, name: str, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Of more than `MANY` ranks the `SHOWN` rows of a table that differ most, and a line that says so."""
    if len(run.read) <= MANY or len(table) <= SHOWN:  # lanes are of GPUs, and there may be none
        return table, ""
    plain = name.partition(":")[0]
    column = TELLING.get(plain, "")
    which, rows = f"the first {SHOWN}", np.arange(SHOWN)
    if column in table:
        apart = table[column].abs().fillna(-1).to_numpy(np.float64)
        which, rows = (
            f"the {SHOWN} with the most {column}",
            np.sort(np.argsort(-apart, kind="stable")[:SHOWN]),
        )
    return table.iloc[rows], f"… {which} of {len(table):,} rows; all: --report {name}, or -f csv, -f json"


def answer(run: Run, name: str) -> pd.DataFrame:
    """A report's table; one of the format's is that of each rank, with a column ``rank``."""
    own = POWER if run.metered else TIMELINE
    plain, _, argument = name.partition(":")
    if plain in own:
        if run.without_gpu:
            raise LackingError(run.path, f"no rank used a GPU, whose time {plain} compares")
        return rank_pace(run, argument) if argument and plain == "rank_pace" else own[plain](run)
    try:
        return merge.with_ranks(run, partial(_of_file, kind=run.kind, name=name))
    except LabError as error:  # of no report: what the first one lacks
        raise LackingError(run.path, str(error)) from None


def shelf(kind: Kind | None, members: Shelf[Any] | None) -> Shelf[Run]:
    """The reports on a folder whose reports are of a kind, whose own shelf is ``members``."""
    own = POWER if kind in METERED else TIMELINE

    def plain(name: str) -> str:
        head = name.partition(":")[0]
        return head if head in own or members is None else members.plain(name)

    return Shelf(
        of=" of folders of ranks",
        reports={
            **own,
            **{name: _merged(name) for name in (members.reports if members else {}) if name not in own},
        },
        default=DEFAULT.get(kind or "", ("rank_sum", "rank_clocks")),
        otherwise=("host_lines", "op_sum") if kind == "kineto" else (),
        every=tuple(own),
        open=_open,
        answer=answer,
        plan=plan,
        about=lambda name: (
            (own[name] if name in own or members is None else members.reports[name]).__doc__ or ""
        ),
        plain=plain,
        notes=lambda run: run.notes,
        brief=brief,
        advice="name a folder with a report for each rank",
    )


def of_folder(name: str) -> Callable[[Any], pd.DataFrame]:
    """A report of a run for traces that were opened together: asked of their folder."""

    def asked(report: Any) -> pd.DataFrame:
        if not report.path.is_dir():
            raise LackingError(report.path, f"{name} compares ranks; name a folder with a trace for each")
        return answer(open_run(report.path), name)

    asked.__doc__ = TIMELINE[name].__doc__
    return asked


def _open(folder: Path) -> AbstractContextManager[Run]:
    return open_run(folder)


def _merged(name: str) -> Report:
    return lambda run: answer(run, name)


def _of_file(path: Path, *, kind: Kind, name: str) -> pd.DataFrame:
    members = shelf_of(kind)
    with members.open(path) as source:
        found = members.answer(source, name) if members.answer else members.reports[name](source)
    return found if isinstance(found, pd.DataFrame) else to_frame(found)


def _talk(run: Run, found: pd.DataFrame) -> pd.DataFrame:
    if not len(found):
        raise LackingError(run.path, "no ranges of NCCL; record them with nsys profile --trace=cuda,nvtx")
    return found


SHELF = shelf(None, None)  # of any folder
