"""Hidden cases of part a (rank where time goes): a generator or captures in, cases out.

A folder of tables is known as the rows that were put in; the files are written from them.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcode.analysis.stats.nsys.reports import REPORTS as NSYS_REPORTS
from labcode.errors import LabError
from labcode.grading.cases import Case, brief
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
GRIDS = "cuda_gpu_kern_gb_sum"  # kernels by grid and block: another report
_NAME_COLUMNS = {KERNELS: "Name", COPIES: "Operation", CALLS: "Name", RANGES: "Range", GRIDS: "Name"}
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "sec": 1_000_000_000}
EXAM = (
    ("timeline_basics", "exam_baseline", "ns"),
    ("timeline_basics", "exam_improved", "us"),
    ("memory_timeline", "exam_pinned", "ms"),
    ("kernel_overlap", "exam_streams", "us"),
)


@dataclass(frozen=True)
class _Table:
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


def _folder_of(tables: Sequence[_Table]) -> Folder:
    """The folder, with other files lying about."""
    files = {table.file: table.text() for table in tables}
    return Folder({**files, "README.md": "nightly\n", "loop_cuda_gpu_kern_sum.json": "[]\n"})


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


def _tables(rng: Rng, captures: Sequence[str], *, units: bool = False, reports: float = 1.0) -> list[_Table]:
    """Tables of several captures; each report is there with the probability ``reports``."""
    names = {KERNELS: _KERNEL_NAMES, COPIES: _COPY_NAMES, CALLS: _CALL_NAMES, RANGES: _RANGE_NAMES}
    tables = []
    for capture in captures:
        for report, some in names.items():
            if report == RANGES or rng.random() < reports:
                unit = str(rng.choice(list(_NS))) if units else "ns"
                tables.append(_Table(capture, report, _rows(rng, some), unit))
    return tables


def _situations(rng: Rng) -> list[tuple[str, list[_Table]]]:
    named = ("loop", "big_run_2", "cuda_graph", "h200-nvtx_sum_test")
    plain = _tables(rng, named[:2])
    units = [*_tables(rng, named, units=True), _Table("slow", KERNELS, _rows(rng, _KERNEL_NAMES), "ms")]
    others = (
        _Table("bare", RANGES, _rows(rng, _RANGE_NAMES)),
        _Table("grids", GRIDS, _rows(rng, _KERNEL_NAMES)),
        _Table("old_kern_sum", CALLS, _rows(rng, _CALL_NAMES)),
    )
    sparse = [*others, *_tables(rng, named, reports=0.5)]
    turned = [
        _Table(t.capture, t.report, t.rows, t.unit, name_first=True) for t in _tables(rng, named, units=True)
    ]
    broken = [
        *_tables(rng, ("loop",)),
        _Table("failed", KERNELS, None),
        _Table("failed", CALLS, None),
        _Table("quiet", COPIES, []),
        _Table("quiet", KERNELS, [("scale(float*)", 5_000.0)]),
    ]
    twice = [_Table("shapes", KERNELS, [*_rows(rng, _KERNEL_NAMES[:3]), *_rows(rng, _KERNEL_NAMES[:3])])]
    ns = float(rng.integers(100, 900))
    equal = [
        _Table("even", KERNELS, [(f"kernel_{letter}(int)", ns) for letter in "edcba"]),
        _Table("odd", KERNELS, [("kernel_c(int)", 1.0)]),
    ]
    return [
        ("two captures with all reports", plain),
        ("units that differ from file to file", units),
        ("reports that are missing", sparse),
        ("columns in another order", turned),
        ("files without a byte, tables without a row", broken),
        ("names that come twice in a table", twice),
        ("kernels that take as long as each other", equal),
    ]


def _summary(tables: Sequence[_Table]) -> str:
    captures = ", ".join(dict.fromkeys(table.capture for table in tables))
    units = ", ".join(sorted({table.unit for table in tables}))
    return f"a folder with {len(tables)} tables of {captures}; units: {units}"


def _where_case(name: str, tables: list[_Table]) -> Case:
    arguments = (_folder_of(tables),)
    return Case(name, _summary(tables), "where_time_goes", arguments, relative=1e-5, show=_show)


def _top_case(name: str, tables: list[_Table], count: int) -> Case:
    summary, arguments = f"{_summary(tables)}; count = {count}", (_folder_of(tables), count)
    return Case(name, summary, "top_kernels", arguments, relative=1e-5, show=_show)


def _show(value: Any) -> str:
    return brief(value, 600)


def _split_cases(rng: Rng) -> list[Case]:
    capture = f"run_{int(rng.integers(2, 99))}_cuda"
    files = [
        f"{capture}_{KERNELS}.csv",
        f"loop_{CALLS}.csv",
        f"{capture}_nvtx_sum.csv",
        f"a_{CALLS}_{COPIES}.csv",
        f"loop_{KERNELS}.json",
        f"loop_{KERNELS}",
        f"{KERNELS}.csv",
        f"_{KERNELS}.csv",
        "notes.csv",
    ]
    return [Case(f"the file {file}", f"file_name = {file!r}", "split_name", (file,)) for file in files]


def _times_cases(rng: Rng) -> list[Case]:
    tables = [
        _Table("loop", KERNELS, _rows(rng, _KERNEL_NAMES[:5])),
        _Table("loop", CALLS, _rows(rng, _CALL_NAMES), "us"),
        _Table("loop", COPIES, _rows(rng, _COPY_NAMES), "ms"),
        _Table("loop", RANGES, _rows(rng, _RANGE_NAMES), "sec"),
        _Table("turned", KERNELS, _rows(rng, _KERNEL_NAMES), "us", name_first=True),
        _Table("twice", KERNELS, [*_rows(rng, _KERNEL_NAMES[:4]), *_rows(rng, _KERNEL_NAMES[:4])]),
        _Table("none", KERNELS, []),
    ]
    return [_times_case(table) for table in tables]


def _times_case(table: _Table) -> Case:
    text = table.text()
    return Case(
        name=f"the table {table.file}" + (", its name first" if table.name_first else ""),
        summary=f"{len(table.rows or [])} rows, in {table.unit}: {text.splitlines()[0]}",
        function="times_ns",
        arguments=(Folder({table.file: text}, only=True),),
        relative=1e-5,
        show=_show,
    )


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, easy cases first."""
    made = _situations(rng)
    counts = [int(rng.integers(2, 5)) for _ in made]
    return [
        *_split_cases(rng),
        *_times_cases(rng),
        *(_where_case(name, tables) for name, tables in made),
        *(_top_case(name, tables, count) for (name, tables), count in zip(made, counts, strict=True)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Tables of captures that no page shows, in several units."""
    tables: list[_Table] = []
    for experiment, run, unit in EXAM:
        if experiment in captures.experiments and run in captures.experiments[experiment].runs:
            tables += _tables_of(captures, experiment, run, unit)
    if not tables:
        raise LabError(f"the capture set {captures.name!r} has no run {EXAM[0][1]} of {EXAM[0][0]}")
    name = "tables of captures you have not seen"
    return [_where_case(name, tables), _top_case(name, tables, 5)]


def _tables_of(captures: CaptureSet, experiment: str, run: str, unit: str) -> list[_Table]:
    """What `labcode stats` says about a run, in a unit; a report without rows is left out."""
    tables = []
    with open_run(captures, experiment, run) as report:
        for name in (KERNELS, COPIES, CALLS):
            frame = NSYS_REPORTS[name](report)
            if len(frame):
                times = zip(frame[_NAME_COLUMNS[name]], frame["Total Time (ns)"], strict=True)
                rows = [(str(label), float(ns)) for label, ns in times]
                tables.append(_Table(f"{experiment}-{run}", name, rows, unit))
    return tables


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """Where the time went in the captures of the exam."""
    (_, found), *_ = answered
    lines = []
    for capture, times in found.items():
        known = {key: ns for key, ns in times.items() if ns is not None}
        most = max(known, key=lambda key: known[key])
        lines.append(f"{capture}: most time in {most} ({known[most] / 1e6:.1f} ms)")
    return lines
