"""A folder of reports in; the run they are of, its ranks numbered and what is amiss told, out.

A folder is opened as one report is::

    with open_run(Path("ranks")) as run:
        run.clocks, run.notes, stragglers.by_rank(run)
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from labcode import reports
from labcode.analysis.ranks import alignment
from labcode.analysis.ranks.lane import NO_GPU, Columns, Lane, Made, Piece, piece_of, reduced
from labcode.analysis.ranks.spread import HERE, Lost, Spreader
from labcode.errors import InputError, LabError
from labcode.inputs import Closing, name_of
from labcode.reports import Kind
from labcode.reports.naming import rank_in_name

T = TypeVar("T")
READ_WHOLE = 1024  # reports of a folder that are all read here; of more …
SAMPLE = 512  # … so many, for which half a minute is enough
JUDGED = 64  # ranks that tell whether iterations are to be looked for: of such as 5 % are, one shows by 96 %
_TOLD = 8  # ranks, files that a note names


@dataclass(frozen=True)
class Run(Closing):
    """The reports of one run; nothing is read before it is asked for.

    ``path`` is the folder, ``kind`` that of its reports, ``files`` the reports; ``scheduler`` says where they
    are read (see `Spreader`). Of more than `READ_WHOLE` this machine reads a sample (``read``); a Dask
    scheduler's reads all.
    """

    format: ClassVar[Kind] = "ranks"

    path: Path
    kind: Kind
    files: tuple[Path, ...]
    scheduler: str | None = None

    @property
    def metered(self) -> bool:
        """Whether the reports say what the GPUs drew, and nothing of what they did."""
        return self.kind in reports.METERED

    def close(self) -> None:
        """Let the workers go."""
        if "spreader" in self.__dict__:
            self.spreader.close()

    @cached_property
    def read(self) -> tuple[Path, ...]:
        """The reports that are read: all, or `SAMPLE` of them."""
        count = len(self.files)
        if count <= READ_WHOLE or self.scheduler not in (None, HERE):
            return self.files
        return _drawn(self.files, SAMPLE)

    @property
    def counted(self) -> str:
        """How many ranks there are, in words; of how many, where not all reports are read."""
        lanes = len(self.lanes)
        told = f"{lanes:,} rank{'s' * (lanes != 1)}"
        return told if len(self.read) == len(self.files) else f"{told} of {len(self.files):,} reports"

    @cached_property
    def spreader(self) -> Spreader:
        """Where the reports are read."""
        return Spreader(self.scheduler, files=len(self.read))

    def each(self, function: Callable[[Path], T]) -> list[T]:
        """What a function gives for each report that can be read; `InputError` where none can."""
        done, lost = self.spreader.map(function, self.read)
        if not done:
            raise InputError(f"{lost[0].path}: {lost[0].why}")
        return done

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def once(self, what: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, which is called the first time alone; nobody changes it."""
        if what not in self._made:
            self._made[what] = make()
        found: T = self._made[what]
        return found

    @cached_property
    def _planned(self) -> dict[Piece, None]:
        return {}

    def plan(self, *pieces: Piece) -> None:
        """Have `tables` of these made when the reports are read for their lanes: each is read once."""
        if "_read" not in self.__dict__:
            self._planned.update(dict.fromkeys(pieces))

    def tables(self, piece: Piece) -> list[tuple[str, Columns]]:
        """The name of each report and its table; `InputError` where none of them gives one."""
        if piece not in self._planned:
            return self.each(partial(_named, piece=piece))
        place = list(self._planned).index(piece)
        found = {path: made[place] for path, made in self._read[3].items()}
        tables = [(name_of(path), table) for path, (table, _) in found.items() if table is not None]
        if not tables:
            path, (_, why) = next(iter(found.items()))
            raise InputError(f"{path}: {why}")
        return tables

    @cached_property
    def _read(self) -> tuple[tuple[Lane, ...], tuple[Lost, ...], tuple[str, ...], dict[Path, Made]]:
        some = self.read if len(self.read) <= 2 * JUDGED else _drawn(self.read, JUDGED)
        first = frozenset(some)
        pieces = tuple(self._planned)
        done, lost = self.spreader.map(partial(reduced, whole=False, pieces=pieces), some)
        others = [path for path in self.read if path not in first]
        whole = bool(done) and not any(lane.apart for one, _ in done for lane in one)
        work = partial(reduced, whole=whole, pieces=pieces)
        more, also = self.spreader.map(work, others) if others else ([], [])
        lost = sorted([*lost, *also], key=lambda one: self.read.index(one.path))
        gone = {one.path for one in lost}
        read = [path for part in (some, others) for path in part if path not in gone]
        found = dict(zip(read, [*done, *more], strict=True))
        found = {path: found[path] for path in self.read if path in found}
        if not found:
            raise InputError(f"{lost[0].path}: {lost[0].why}")
        lanes, notes = numbered(self.path, [one for one, _ in found.values()])
        if whole and more and not self.metered:
            notes.append(
                f"{self.path}: none of {len(some)} reports, drawn evenly, is mostly something else than its "
                f"iterations; those of the other {len(others):,} were not looked for: wholes are compared"
            )
        return tuple(lanes), tuple(lost), tuple(notes), {path: made for path, (_, made) in found.items()}

    @cached_property
    def without_gpu(self) -> Path | None:
        """The first of the traces where none holds work of a GPU; else None."""
        try:
            self.lanes  # noqa: B018
        except InputError as error:
            if self.kind != "kineto" or NO_GPU not in str(error):
                raise
            return next((file for file in self.files if ".partial." not in file.name), self.files[0])
        return None

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The GPUs of the run by rank, each with its number."""
        return self._read[0]

    @property
    def lost(self) -> tuple[Lost, ...]:
        """The reports that could not be read."""
        return self._read[1]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The number of each lane."""
        return np.array([lane.rank for lane in self.lanes], np.int64)

    @cached_property
    def clocks(self) -> alignment.Clocks:
        """How each lane's clock is brought to the common one."""
        return alignment.align(self.lanes)

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The ranks between the first and the last, or below the world's size, that no report is of."""
        known = {lane.rank for lane in self.lanes}
        known |= {rank_in_name(one.path) for one in self.lost}
        apart = {rank_in_name(path) for path in set(self.files) - set(self.read)}
        if -1 in apart:  # nobody knows of which ranks those are that were not read
            return ()
        known |= apart
        world = max(max(known) + 1, *(lane.world for lane in self.lanes))
        return tuple(sorted(set(range(world)) - known))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about the reports and how they were read, a line each."""
        if self.without_gpu:
            return (f"{self.path}: none of {len(self.read)} ranks used a GPU",)
        said = []
        if len(self.read) < len(self.files):
            said.append(
                f"{self.path}: {len(self.files):,} reports, of which {len(self.read):,} are read, drawn "
                "evenly: a rank among the others that is late is not seen; --scheduler with the address of a "
                "Dask scheduler reads all"
            )
        said += [f"{one.path}: left out: {one.why}" for one in self.lost[:_TOLD]]
        if len(self.lost) > _TOLD:
            said.append(
                f"{self.path}: {len(self.lost) - _TOLD} more reports left out, the last "
                f"{self.lost[-1].path.name}"
            )
        said += self._read[2]
        if self.missing:
            said.append(
                f"{self.path}: no report of {named(self.missing)}: who waited is told of those that are there"
            )
        said += [f"{self.path}: {line}" for line in self.clocks.notes]
        odd = Counter(line for lane in self.lanes for line in dict.fromkeys(lane.warnings))
        for line, count in odd.most_common(_TOLD):
            first = next(lane.file for lane in self.lanes if line in lane.warnings)
            said.append(f"{self.path}: {first}{f' and {count - 1} more' if count > 1 else ''}: {line}")
        return tuple(said)

    def window(self) -> tuple[int, int]:
        """From the first to the last event of all ranks, on the common clock."""
        spans = self.clocks.spans
        return int(spans[:, 0].min()), int(spans[:, 1].max())

    @property
    def width(self) -> int:
        """The length of that window in ns, at least 1."""
        begin, end = self.window()
        return max(end - begin, 1)


def _named(path: Path, piece: Piece) -> tuple[str, Columns]:
    return name_of(path), piece_of(path, piece)


def _drawn(files: tuple[Path, ...], count: int) -> tuple[Path, ...]:
    """So many of the files: one of each so many neighbors is drawn, the same one each time.

    Every n-th could be the same GPU of each node.
    """
    ordered = sorted(files, key=lambda path: (rank_in_name(path), path.name))
    edges = np.linspace(0, len(files), count + 1)
    drawn = edges[:-1] + np.random.default_rng(0).random(count) * np.diff(edges)
    return tuple(ordered[place] for place in drawn.astype(np.int64).tolist())


def open_run(folder: Path, *, scheduler: str | None = None) -> Run:
    """The run whose reports lie in a folder; raises `InputError` for one without, or with several kinds."""
    if not folder.is_dir():
        raise InputError(f"{folder}: a file, not a folder; name a folder with a report for each rank")
    kind, _ = reports.reports_of_ranks(folder)
    return Run(folder, kind, tuple(reports.files_of(folder)), scheduler)


def numbered(folder: Path, found: Sequence[Sequence[Lane]]) -> tuple[list[Lane], list[str]]:
    """The lanes of all reports by rank, and what there is to say; `InputError` for two of one rank.

    A report with one GPU has the rank that it tells; those that tell none get the numbers that are free, by
    name. Where a report holds several GPUs (one per node), GPUs are counted through, in the order of the
    reports.
    """
    notes = []
    lanes = [lane for one in found for lane in one]
    if any(len(one) > 1 for one in found):
        order = sorted(lanes, key=lambda lane: (lane.rank, lane.file, lane.device))
        lanes = [replace(lane, rank=place) for place, lane in enumerate(order)]
        notes.append(
            f"{folder}: {len(found)} reports of {len(lanes)} GPUs; ranks are counted through in their order"
        )
    else:
        for rank, count in Counter(lane.rank for lane in lanes if lane.rank >= 0).items():
            if count > 1:
                two = [lane.file for lane in lanes if lane.rank == rank][:2]
                raise InputError(
                    f"{folder}: {two[0]} and {two[1]} are both of rank {rank}, so they are of different "
                    "runs; name a folder with the ranks of one run"
                )
        unknown = [lane for lane in lanes if lane.rank < 0]
        if unknown:
            taken = {lane.rank for lane in lanes}
            free = (number for number in range(2 * len(lanes)) if number not in taken)
            lanes = [lane if lane.rank >= 0 else replace(lane, rank=next(free)) for lane in lanes]
            notes.append(
                f"{folder}: {len(unknown)} reports do not say of which rank they are; they are numbered in "
                "the order of their names"
            )
    versions = Counter(lane.made_by for lane in lanes)
    if len(versions) > 1:
        said = ", ".join(
            f"{version or 'unknown'} ({count})" for version, count in versions.most_common(_TOLD)
        )
        notes.append(
            f"{folder}: the reports are of different versions: {said}; what only some hold is compared "
            "as missing"
        )
    return sorted(lanes, key=lambda lane: lane.rank), notes


def named(ranks: Sequence[int]) -> str:
    """Ranks in words."""
    some = ", ".join(map(str, ranks[:_TOLD])) + (f" … ({len(ranks)} in all)" if len(ranks) > _TOLD else "")
    return f"rank{'s' * (len(ranks) != 1)} {some}"


def need(run: Run, *kinds: Kind) -> None:
    """`LabError` where a run's reports are of another kind."""
    if run.kind not in kinds:
        what = " or ".join(reports.FORMATS[kind].suffixes[0] for kind in kinds)
        raise LabError(f"{run.path}: holds {reports.FORMATS[run.kind].what} for each rank; this takes {what}")
