"""Exercise advanced-ex03, part a: where does the time go, in all captures at once?

Every night, `labcode stats CAPTURES… --report … --format csv --output FOLDER` (or `nsys stats -o`) leaves a
folder of CSV files, one for each capture and report. Nobody opens them one by one. Write the functions that
read them all.

    FOLDER/loop_cuda_gpu_kern_sum.csv           <capture>_<report>.csv; either may hold underscores
    FOLDER/loop_cuda_api_sum.csv
    FOLDER/big_run_2_cuda_gpu_kern_sum.csv
    FOLDER/README.md                            other files may lie about: leave them alone

What scripts like this stumble over, and yours should not:

- Names of C++ kernels hold commas, quotes, even line breaks. A field with one is quoted, as CSV has it.
- Times are in ns, unless somebody asked `nsys stats` for another unit. The header says which: `Total Time
  (ns)`, `(us)`, `(ms)` or `(sec)`. It may differ from file to file.
- The order of the columns is no promise. Their names are: the time is in `Total Time (…)`, the name in
  `Name`, `Operation` or `Range`.
- Not every capture has every report. A report that is missing is not a time of 0: it is unknown. A file that
  is empty (0 bytes, left by a command that failed) is a missing report, too. A table with a header and no
  rows is a report, with a time of 0.

A worked example. The folder holds two files (and no report of copies):

    loop_cuda_gpu_kern_sum.csv                  loop_cuda_api_sum.csv
        Time (%),Total Time (us),Name               Total Time (ns),Num Calls,Name
        75.0,1.5,"gemm<float, 4>(int)"              700,2,cudaStreamSynchronize
        25.0,0.5,scale(int)                         300,9,cudaLaunchKernel

    split_name("loop_cuda_gpu_kern_sum.csv")  ->  ("loop", "cuda_gpu_kern_sum")
    split_name("README.md")                   ->  None
    times_ns(folder / "loop_cuda_gpu_kern_sum.csv")  ->  {"gemm<float, 4>(int)": 1500.0, "scale(int)": 500.0}
    where_time_goes(folder)  ->  {"loop": {"kernels": 2000.0, "copies": None, "waits": 700.0}}
    top_kernels(folder, 1)   ->  [("gemm<float, 4>(int)", 1500.0, 1)]

Grade it:         labcode exercises advanced-ex03a        (or: nox -s exercises -- advanced-ex03a)
Get a hint:       labcode exercises advanced-ex03a --hint
Try it yourself:  python exercises/advanced/ex03_stats_command_line/a_rank.py   (runs on captures of the book)
"""

import csv
from pathlib import Path

REPORTS = (
    "cuda_api_gpu_sum",
    "cuda_api_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_sum",
    "cuda_gpu_trace",
    "nvtx_sum",
    "osrt_sum",
)
NAMES = ("Name", "Operation", "Range")
NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "sec": 1e9}


def split_name(file_name: str) -> tuple[str, str] | None:
    """The capture and the report that a file's name stands for; None if it is not `<capture>_<report>.csv`.

    The reports are those of REPORTS. A capture's name is never empty.
    """
    # [solution]
    for report in REPORTS:
        ending = f"_{report}.csv"
        if file_name.endswith(ending) and len(file_name) > len(ending):
            return file_name[: -len(ending)], report
    return None
    # [starter]
    # raise NotImplementedError("which report does the name end with?")
    # [end]


def times_ns(file: Path) -> dict[str, float]:
    """The total time of each name in a report's file, in ns; the rows of a name that comes twice are added
    up.

    Empty for a file without rows.
    """
    # [solution]
    times: dict[str, float] = {}
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            column = next(name for name in row if name.startswith("Total Time ("))
            unit = column.removeprefix("Total Time (").removesuffix(")")
            name = next(row[key] for key in NAMES if key in row)
            times[name] = times.get(name, 0.0) + float(row[column]) * NS[unit]
    return times
    # [starter]
    # raise NotImplementedError("csv.DictReader; the unit stands in the header")
    # [end]


def where_time_goes(folder: Path) -> dict[str, dict[str, float | None]]:
    """For each capture of the folder the time in ns of 'kernels', 'copies' and 'waits', None where it is
    unknown.

    kernels: all of cuda_gpu_kern_sum. copies: all of cuda_gpu_mem_time_sum (memsets with them). waits: those
    calls of cuda_api_sum whose name contains 'Synchronize'. Every capture with a file of some report is
    there, always with the three keys.
    """
    # [solution]
    found: dict[str, dict[str, float | None]] = {}
    for file in sorted(folder.iterdir()):
        both = split_name(file.name)
        if both is None:
            continue
        capture, report = both
        mine = found.setdefault(capture, {"kernels": None, "copies": None, "waits": None})
        if file.stat().st_size == 0:
            continue
        if report == "cuda_gpu_kern_sum":
            mine["kernels"] = sum(times_ns(file).values())
        elif report == "cuda_gpu_mem_time_sum":
            mine["copies"] = sum(times_ns(file).values())
        elif report == "cuda_api_sum":
            mine["waits"] = sum(ns for name, ns in times_ns(file).items() if "Synchronize" in name)
    return found
    # [starter]
    # raise NotImplementedError("go through the files, look at the report of each, add up")
    # [end]


def top_kernels(folder: Path, count: int) -> list[tuple[str, float, int]]:
    """The `count` kernels with the most time over all captures: (name, total ns, number of captures that
    have it).

    The most time first; where it is equal, by name. Only cuda_gpu_kern_sum counts.
    """
    # [solution]
    totals: dict[str, tuple[float, int]] = {}
    for file in folder.iterdir():
        both = split_name(file.name)
        if both is not None and both[1] == "cuda_gpu_kern_sum":
            for name, ns in times_ns(file).items():
                time, captures = totals.get(name, (0.0, 0))
                totals[name] = time + ns, captures + 1
    ranked = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return [(name, time, captures) for name, (time, captures) in ranked[:count]]
    # [starter]
    # raise NotImplementedError("add up over the captures, then sort by (-time, name)")
    # [end]


if __name__ == "__main__":
    import tempfile

    from labcode.store import load_set
    from labcode.verbs.stats import write_all

    with tempfile.TemporaryDirectory() as name:
        runs = [
            load_set().stored("timeline_basics", run, ".sqlite") for run in ("baseline", "nosync", "improved")
        ]
        write_all(runs, ["cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum"], "csv", Path(name))
        for capture, times in where_time_goes(Path(name)).items():
            shown = {key: None if ns is None else f"{ns / 1e6:.1f} ms" for key, ns in times.items()}
            print(capture, shown)
        for kernel, ns, captures in top_kernels(Path(name), 5):
            print(f"{ns / 1e6:10.1f} ms in {captures} captures  {kernel[:70]}")
