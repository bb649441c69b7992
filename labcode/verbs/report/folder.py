"""A folder with a report for each rank in; which rank a page looks at and what is told of all out."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from labcode import reports
from labcode.analysis.ranks import stragglers
from labcode.analysis.ranks.merge import power
from labcode.analysis.ranks.run import Run, open_run
from labcode.analysis.rules.finding import Verdict
from labcode.analysis.rules.writing import gain_text, measured_text
from labcode.errors import LabError
from labcode.reports import FORMATS
from labcode.show import time_text
from labcode.verbs.diagnose.verdicts import judge, rules_of, together
from labcode.verbs.report.document import File, Folder, Found, Section, Shown

_BOOK = "scaling/thousand-ranks"
_TOP = 12


def folders(files: Sequence[Path], stack: ExitStack) -> list[Folder]:
    """What there is to tell of those of the files that are folders of ranks.

    Raises `LabError` for a second folder, for a page is on one run.
    """
    found = [path for path in files if path.is_dir()]
    if len(found) > 1:
        raise LabError(f"{found[1]}: a folder of ranks, as {found[0]} is; a report is on one run")
    return [_folder(path, stack) for path in found if reports.files_of(path)]


def _folder(path: Path, stack: ExitStack) -> Folder:
    run = stack.enter_context(open_run(path))
    if reports.kind_of(path) not in reports.FOLDERS:
        told = [] if len(run.files) < 2 else judge(run, together())
        return Folder(path, path, (), tuple(_found(path, told)))
    if first := run.without_gpu:
        line = f"None of the {len(run.read)} ranks used a GPU. What follows is of {first.name} alone."
        return Folder(path, first, (line,), ())
    file, why = _closest(run)
    begin, end = run.window()
    what = f"{run.counted} in {path.name or path}, {time_text(end - begin)} together."
    facts = {"ranks": run.counted.partition(" ")[0], "measured": time_text(end - begin)}
    notes = [line.removeprefix(f"{path}: ") for line in run.notes]
    return Folder(
        path,
        file,
        (f"{what} What follows the verdicts on all is of {file.name}, {why}.",),
        tuple(_found(path, judge(run, rules_of(run)))),
        (File(path.name or str(path), FORMATS["ranks"].what, facts, notes),),
        tuple(_ranks(run)),
    )


def _found(path: Path, verdicts: Sequence[Verdict]) -> Iterator[Found]:
    for verdict in verdicts:
        measured = measured_text(verdict) if verdict.status == "found" else ""
        yield Found(verdict, path.name or str(path), "all ranks", measured, gain_text(verdict))


def _closest(run: Run) -> tuple[Path, str]:
    """The report to look at, and why: of the rank that is waited for, else that computes longest, or the
    first; of power logs that with the lowest clock.
    """
    by_name = {path.name: path for path in run.files}
    if run.metered:
        table = power(run)
        place = int(table["sm_mhz"].argmin()) if table["sm_mhz"].notna().all() else 0
        rank = int(table["rank"].iloc[place])
        file = next(lane.file for lane in run.lanes if lane.rank == rank)
        return by_name[file], f"rank {rank}, which has the lowest mean clock"
    table = stragglers.by_rank(run)
    for column, why in (
        ("delay_ns", "which delays the collectives most"),
        ("compute_ns", "which computes longest"),
    ):
        if table[column].max() > table[column].min():
            row = table.iloc[int(table[column].argmax())]
            return by_name[str(row["file"])], f"rank {row['rank']}, {why}"
    return by_name[str(table["file"].iloc[0])], f"rank {table['rank'].iloc[0]}, the first; all are alike"


def _ranks(run: Run) -> Iterator[Section]:
    name = "rank_power" if run.metered else "rank_sum"
    table = power(run) if run.metered else stragglers.by_rank(run).drop(columns=["file", "gpu"])
    shown = Shown(
        "What each rank did", table.head(_TOP), len(table), run.path.name, f"labcode stats -r {name}"
    )
    yield Section("ranks", "Ranks", (shown,), _BOOK)
