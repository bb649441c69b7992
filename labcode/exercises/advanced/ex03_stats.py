"""Hidden cases of advanced-ex03 (the stats command line): a generator or captures in, cases out.

A folder of tables is known both as the rows that were put in and as the text of its files. The right answers
come from the rows; what typical mistakes give comes from reading the text wrongly.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcode.analysis.stats.nsys.reports import REPORTS as NSYS_REPORTS
from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.grading.codec import Folder
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Times = list[tuple[str, float]]  # name and total ns, in the order of a file's rows
KERNELS, COPIES, CALLS, RANGES = (
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_api_sum",
    "nvtx_sum",
)
_NAME_COLUMNS = {KERNELS: "Name", COPIES: "Operation", CALLS: "Name", RANGES: "Range"}
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "sec": 1_000_000_000}
_KEYS = {KERNELS: "kernels", COPIES: "copies", CALLS: "waits"}
EXAM = (
    ("timeline_basics", "exam_baseline", "ns"),
    ("timeline_basics", "exam_improved", "us"),
    ("memory_timeline", "exam_pinned", "ms"),
    ("kernel_overlap", "exam_streams", "us"),
)


@dataclass(frozen=True)
class Table:
    """One file of a folder: its capture, its report, its rows, its unit; rows None: a file of no bytes."""

    capture: str
    report: str
    rows: Times | None
    unit: str = "ns"
    name_first: bool = False

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.capture}_{self.report}.csv"

    def text(self) -> str:
        """The file as `nsys stats` writes it; with `name_first` in another order of columns."""
        if self.rows is None:
            return ""
        name = _NAME_COLUMNS[self.report]
        header = ["Time (%)", f"Total Time ({self.unit})", "Instances", f"Avg ({self.unit})", name]
        whole = sum(ns for _, ns in self.rows) or 1
        lines = [
            [f"{100 * ns / whole:.1f}", self._number(ns), "3", self._number(ns / 3), n] for n, ns in self.rows
        ]
        if self.name_first:
            header, lines = [header[-1], *header[:-1]], [[line[-1], *line[:-1]] for line in lines]
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([header, *lines])
        return stream.getvalue()

    def _number(self, ns: float) -> str:
        return f"{ns:.0f}" if self.unit == "ns" else f"{ns / _NS[self.unit]:.9g}"


def folder_of(tables: Sequence[Table]) -> Folder:
    """The folder, with other files lying about."""
    files = {table.file: table.text() for table in tables}
    return Folder({**files, "README.md": "nightly\n", "loop_cuda_gpu_kern_sum.json": "[]\n"})


def times_of(rows: Times) -> dict[str, float]:
    """Part a's times_ns, from the rows."""
    times: dict[str, float] = {}
    for name, ns in rows:
        times[name] = times.get(name, 0.0) + ns
    return times


def where(
    tables: Sequence[Table],
    *,
    zero: bool = False,
    empty_is_zero: bool = False,
    all_calls: bool = False,
    device_only: bool = False,
    units: bool = True,
) -> dict[str, dict[str, float | None]]:
    """Part a's where_time_goes; the flags are the typical mistakes."""
    found: dict[str, dict[str, float | None]] = {}
    for table in tables:
        nothing = 0.0 if zero else None
        mine = found.setdefault(table.capture, dict.fromkeys(_KEYS.values(), nothing))
        key = _KEYS.get(table.report)
        if key is None or (table.rows is None and not empty_is_zero):
            continue
        wanted = "DeviceSynchronize" if device_only else "Synchronize"
        scale = 1 if units else _NS[table.unit]
        mine[key] = sum(
            ns / scale for name, ns in table.rows or () if key != "waits" or all_calls or wanted in name
        )
    return found


def top(tables: Sequence[Table], count: int, *, units: bool = True) -> list[tuple[str, float, int]]:
    """Part a's top_kernels."""
    totals: dict[str, list[float]] = {}
    for table in tables:
        if table.report == KERNELS:
            for name, ns in times_of(table.rows or []).items():
                totals.setdefault(name, []).append(ns if units else ns / _NS[table.unit])
    ranked = sorted(totals.items(), key=lambda item: (-sum(item[1]), item[0]))
    return [(name, sum(each), len(each)) for name, each in ranked[:count]]


def _rows(rng: Rng, names: Sequence[str]) -> Times:
    chosen = [names[i] for i in rng.permutation(len(names))[: int(rng.integers(2, len(names) + 1))]]
    return [(name, float(rng.integers(2_000, 9_000_000))) for name in chosen]


_KERNEL_NAMES = (
    "void gemm<float, 4, true>(float*, int)",
    "void gemm<half, 8, false>(half*, int)",
    'reduce("sum")(int)',
    "scale(float*)",
    "void at::native::elementwise<int, float>(int)",
    "größe_prüfen(int, int)",
    "two\nlines(int)",
)
_CALL_NAMES = (
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaMalloc",
)
_COPY_NAMES = ("[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]", "[CUDA memset]")
_RANGE_NAMES = (":step", ":load, then train", "NCCL:ncclAllReduce")


def _tables(rng: Rng, captures: Sequence[str], *, units: bool = False, reports: float = 1.0) -> list[Table]:
    """Tables of several captures; each report is there with the probability ``reports``."""
    names = {KERNELS: _KERNEL_NAMES, COPIES: _COPY_NAMES, CALLS: _CALL_NAMES, RANGES: _RANGE_NAMES}
    tables = []
    for capture in captures:
        for report, some in names.items():
            if report == RANGES or rng.random() < reports:
                unit = str(rng.choice(list(_NS))) if units else "ns"
                tables.append(Table(capture, report, _rows(rng, some), unit))
    return tables


def _situations(rng: Rng) -> list[tuple[str, list[Table]]]:
    named = ("loop", "big_run_2", "cuda_graph", "h200-nvtx_sum_test")
    plain = _tables(rng, named[:2])
    units = [*_tables(rng, named, units=True), Table("slow", KERNELS, _rows(rng, _KERNEL_NAMES), "ms")]
    sparse = [Table("bare", RANGES, _rows(rng, _RANGE_NAMES)), *_tables(rng, named, reports=0.5)]
    turned = [
        Table(t.capture, t.report, t.rows, t.unit, name_first=True) for t in _tables(rng, named, units=True)
    ]
    broken = [
        *_tables(rng, ("loop",)),
        Table("failed", KERNELS, None),
        Table("failed", CALLS, None),
        Table("quiet", COPIES, []),
        Table("quiet", KERNELS, [("scale(float*)", 5_000.0)]),
    ]
    twice = [Table("shapes", KERNELS, [*_rows(rng, _KERNEL_NAMES[:3]), *_rows(rng, _KERNEL_NAMES[:3])])]
    return [
        ("two captures with all reports", plain),
        ("units that differ from file to file", units),
        ("reports that are missing", sparse),
        ("columns in another order", turned),
        ("files without a byte, tables without a row", broken),
        ("names that come twice in a table", twice),
    ]


def _summary(tables: Sequence[Table]) -> str:
    captures = ", ".join(dict.fromkeys(table.capture for table in tables))
    units = ", ".join(sorted({table.unit for table in tables}))
    return f"a folder with {len(tables)} tables of {captures}; units: {units}"


def _where_case(name: str, tables: list[Table], *, exam: bool = False) -> Case:
    return Case(
        name=name,
        summary=_summary(tables),
        function="where_time_goes",
        arguments=(folder_of(tables),),
        expected=where(tables),
        mistakes=(
            Mistake("the unit is ignored: it stands in the header of each file", where(tables, units=False)),
            Mistake("a report that is missing is not a time of 0: it is None", where(tables, zero=True)),
            Mistake(
                "a file without a byte is a missing report, not a time of 0",
                where(tables, empty_is_zero=True),
            ),
            Mistake(
                "all calls are added up; waits are those with 'Synchronize'", where(tables, all_calls=True)
            ),
            Mistake(
                "other calls wait, too: every name that contains 'Synchronize'",
                where(tables, device_only=True),
            ),
            Mistake(
                "captures of which none of the three reports is there belong in, too, with None",
                {
                    c: times
                    for c, times in where(tables).items()
                    if any(v is not None for v in times.values())
                },
            ),
        ),
        relative=1e-5,
        exam=exam,
        show=lambda value: brief(value, 600),
    )


def _top_case(name: str, tables: list[Table], count: int, *, exam: bool = False) -> Case:
    right = top(tables, count)
    first = [next(iter(top([table], count)), None) for table in tables if table.report == KERNELS]
    longest: dict[str, float] = {}
    for table in tables:
        if table.report == KERNELS:
            for kernel, ns in times_of(table.rows or []).items():
                longest[kernel] = max(longest.get(kernel, 0.0), ns)
    known = {kernel: captures for kernel, _, captures in top(tables, 10_000)}
    by_longest = sorted(longest.items(), key=lambda item: (-item[1], item[0]))[:count]
    return Case(
        name=name,
        summary=f"{_summary(tables)}; count = {count}",
        function="top_kernels",
        arguments=(folder_of(tables), count),
        expected=right,
        mistakes=(
            Mistake(
                "the unit is ignored: it stands in the header of each file", top(tables, count, units=False)
            ),
            Mistake("all kernels are returned, not only the first of them", top(tables, 10_000)),
            Mistake("these are the kernels with the least time", top(tables, 10_000)[::-1][:count]),
            Mistake("the first kernel of each capture; add up over the captures before you rank", first),
            Mistake(
                "the time of one capture; add up over the captures",
                [(kernel, ns, known[kernel]) for kernel, ns in by_longest],
            ),
        ),
        relative=1e-5,
        exam=exam,
        show=lambda value: brief(value, 600),
    )


def _split_cases(rng: Rng) -> list[Case]:
    capture = f"run_{int(rng.integers(2, 99))}_cuda"
    names = [
        (f"{capture}_{KERNELS}.csv", (capture, KERNELS)),
        (f"loop_{CALLS}.csv", ("loop", CALLS)),
        (f"{capture}_nvtx_sum.csv", (capture, "nvtx_sum")),
        (f"a_{CALLS}_{COPIES}.csv", (f"a_{CALLS}", COPIES)),
        (f"loop_{KERNELS}.json", None),
        (f"{KERNELS}.csv", None),
        (f"_{KERNELS}.csv", None),
        ("notes.csv", None),
    ]
    cases = []
    for file, right in names:
        stem = file.removesuffix(".csv")
        cases.append(
            Case(
                name=f"the file {file}",
                summary=f"file_name = {file!r}",
                function="split_name",
                arguments=(file,),
                expected=right,
                mistakes=(
                    Mistake("a capture's name is never empty", ("", KERNELS)),
                    Mistake("the capture's name may hold underscores: look for the report at the end",
                            stem.partition("_")[::2]),
                    Mistake("a report's name holds underscores: look which of REPORTS the name ends with",
                            stem.rpartition("_")[::2]),
                    Mistake("only .csv files are tables", ("loop", KERNELS)),
                    Mistake("a name that is no report's is no table's: None", (stem, "")),
                ),
            )
        )  # fmt: skip
    return cases


def _naive(text: str, column: str, *, cut: bool) -> dict[str, float]:
    """A table read by splitting at commas; with ``cut`` the name ends at its first comma."""
    header, *lines = text.splitlines()
    names = header.split(",")
    place, time = names.index(column), next(i for i, n in enumerate(names) if n.startswith("Total Time"))
    unit = names[time].removeprefix("Total Time (").removesuffix(")")
    found: dict[str, float] = {}
    for line in lines:
        fields = line.split(",")
        name = fields[place] if cut else ",".join(fields[place:])
        try:
            found[name.strip('"')] = found.get(name.strip('"'), 0.0) + float(fields[time]) * _NS[unit]
        except (IndexError, ValueError):
            continue
    return found


def _times_cases(rng: Rng) -> list[Case]:
    tables = [
        Table("loop", KERNELS, _rows(rng, _KERNEL_NAMES[:5])),
        Table("loop", CALLS, _rows(rng, _CALL_NAMES), "us"),
        Table("loop", COPIES, _rows(rng, _COPY_NAMES), "ms"),
        Table("loop", RANGES, _rows(rng, _RANGE_NAMES), "sec"),
        Table("turned", KERNELS, _rows(rng, _KERNEL_NAMES), "us", name_first=True),
        Table("twice", KERNELS, [*_rows(rng, _KERNEL_NAMES[:4]), *_rows(rng, _KERNEL_NAMES[:4])]),
        Table("none", KERNELS, []),
    ]
    return [_times_case(table) for table in tables]


def _times_case(table: Table) -> Case:
    rows, text = table.rows or [], table.text()
    right = times_of(rows)
    name = _NAME_COLUMNS[table.report]
    return Case(
        name=f"the table {table.file}" + (", its name first" if table.name_first else ""),
        summary=f"{len(rows)} rows, in {table.unit}: {text.splitlines()[0]}",
        function="times_ns",
        arguments=(Folder({table.file: text}, only=True),),
        expected=right,
        mistakes=(
            Mistake(
                "the unit is ignored: it stands in the header, Total Time (…)",
                {kernel: ns / _NS[table.unit] for kernel, ns in right.items()},
            ),
            Mistake(
                "us is a thousand ns, ms a million, sec a thousand million",
                {kernel: ns * 1000 / _NS[table.unit] for kernel, ns in right.items()},
            ),
            Mistake("a name that comes twice has several rows: add them up", dict(rows)),
            Mistake(
                "names hold commas: read the file with csv, not with split(',')", _naive(text, name, cut=True)
            ),
            Mistake(
                "names hold quotes and commas: read the file with csv, not by hand",
                _naive(text, name, cut=False),
            ),
            Mistake(
                "this is the time of an instance; asked for is the total",
                {kernel: sum(ns for k, ns in rows if k == kernel) / 3 for kernel in right},
            ),
        ),
        relative=1e-5,
        show=lambda value: brief(value, 600),
    )


def _cases(rng: Rng) -> list[Case]:
    made = _situations(rng)
    counts = [int(rng.integers(2, 5)) for _ in made]
    return [
        *_split_cases(rng),
        *_times_cases(rng),
        *(_where_case(name, tables) for name, tables in made),
        *(_top_case(name, tables, count) for (name, tables), count in zip(made, counts, strict=True)),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    tables: list[Table] = []
    for experiment, run, unit in EXAM:
        if experiment in captures.experiments and run in captures.experiments[experiment].runs:
            tables += _tables_of(captures, experiment, run, unit)
    if not tables:
        raise LabError(f"the capture set {captures.name!r} has no run {EXAM[0][1]} of {EXAM[0][0]}")
    name = "tables of captures you have not seen"
    return [_where_case(name, tables, exam=True), _top_case(name, tables, 5, exam=True)]


def _tables_of(captures: CaptureSet, experiment: str, run: str, unit: str) -> list[Table]:
    """What `labcode stats` says about a run, in a unit; a report without rows is left out."""
    tables = []
    with open_run(captures, experiment, run) as report:
        for name in (KERNELS, COPIES, CALLS):
            frame = NSYS_REPORTS[name](report)
            if len(frame):
                times = zip(frame[_NAME_COLUMNS[name]], frame["Total Time (ns)"], strict=True)
                rows = [(str(label), float(ns)) for label, ns in times]
                tables.append(Table(f"{experiment}-{run}", name, rows, unit))
    return tables


def _notes(captures: CaptureSet) -> list[str]:
    """Where the time went in the captures of the exam."""
    found: Mapping[str, Any] = _exam(captures)[0].expected
    lines = []
    for capture, times in found.items():
        known = {key: ns for key, ns in times.items() if ns is not None}
        most = max(known, key=lambda key: known[key])
        lines.append(f"{capture}: most time in {most} ({known[most] / 1e6:.1f} ms)")
    return lines


RANK = Task(_cases, _exam, _notes)
