"""`labcode stats --window`: what lies outside is left out, what reaches over an edge is cut off there."""

import csv
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.ledger.steady import judged
from labcode.analysis.stats.shelf import shelf_of
from labcode.errors import LabError
from labcode.reports.nsys.report import open_report
from labcode.verbs.stats import Asked, print_all
from tests.support import exports as e
from tests.support import histories, traces
from tests.support.command import labcode

LOW, HIGH = 1_000, 2_000
NUMBERS = ("RangeId", "ParentId", "RangeStack")
Rows = dict[str, list[dict[str, Any]]]


def printed(file: Path, *reports: str, window: str | None = None, every: bool = False) -> str:
    text = io.StringIO()
    print_all([file], Asked(reports, every, window=window), "csv", text)
    return text.getvalue()


def rows_of(file: Path, report: str, window: str | None) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed(file, report, window=window))))


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Kernels before, over both edges of, in, and after a range; calls of each; a range around each call."""
    times = ((400, 900), (900, 1_100), (1_300, 1_400), (1_950, 2_600), (2_000, 2_100))
    kernels = [e.kernel(a, b, f"k{n}()", correlation=n) for n, (a, b) in enumerate(times, 1)]
    api = [e.call(a - 50, a - 20, correlation=n) for n, (a, _) in enumerate(times, 1)]
    nvtx = [e.push_pop(LOW, HIGH, "part"), e.push_pop(1_900, 2_300, "late"), e.mark(950), e.mark(1_960)]
    return e.make_export(
        tmp_path / "a.sqlite",
        kernels=kernels,
        api=api,
        nvtx=[*nvtx, e.push_pop(1_800, None, "open"), e.domain(1, "NCCL")],
        osrt=[e.osrt(500, 1_010), e.osrt(1_990, 2_000), e.osrt(2_000, 2_500)],
    )


def test_kernels_calls_and_ranges_of_a_range(edges: Path) -> None:
    kernels = {row["Name"]: row["Total Time (ns)"] for row in rows_of(edges, "cuda_gpu_kern_sum", "part")}
    assert kernels == {"k2()": "100", "k3()": "100", "k4()": "50"}
    trace = [(row["Start (ns)"], row["Duration (ns)"]) for row in rows_of(edges, "cuda_gpu_trace", "part")]
    assert trace == [("1000", "100"), ("1300", "100"), ("1950", "50")]
    assert rows_of(edges, "cuda_api_sum", "part")[0]["Num Calls"] == "3"  # 1250, 1900 and 1950
    assert rows_of(edges, "osrt_sum", "part")[0]["Total Time (ns)"] == "20"
    ranges = {row["Range"]: row["Total Time (ns)"] for row in rows_of(edges, "nvtx_sum", "part")}
    assert ranges[":part"] == "1000" and ranges[":late"] == "100"
    launched = [row["Kernel Name"] for row in rows_of(edges, "cuda_kern_exec_trace", "part")]
    assert launched == ["k3()", "k4()"]  # the call of k2 lies before the window


def test_a_span_is_counted_from_the_measured_part_and_all_cuts_nothing(edges: Path) -> None:
    begin = 350  # the first event
    found = rows_of(edges, "cuda_gpu_kern_sum", f"{(LOW - begin)}ns..{(HIGH - begin)}ns")
    assert found == rows_of(edges, "cuda_gpu_kern_sum", "part")
    assert printed(edges, every=True, window="all") == printed(edges, every=True)


def test_the_steady_state_is_that_of_diagnose(tmp_path: Path) -> None:
    lengths = [900, 100, 100, 100, 100, 100]
    starts = [1_000 * n for n in range(6)]
    file = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(s + 40, s + 40 + n, correlation=s) for s, n in zip(starts, lengths, strict=True)],
        api=[e.call(s + 5, s + 10, correlation=s) for s in starts],
        nvtx=[e.push_pop(s, s + 990, f"step {n}") for n, s in enumerate(starts)],
    )
    notes = io.StringIO()
    print_all([file], Asked(("cuda_gpu_kern_sum",), window="steady"), "csv", io.StringIO(), notes=notes)
    with open_report(file) as report:
        steady = judged(report)
    assert steady.count > 2 and notes.getvalue().rstrip().endswith(f"({steady.told})")
    low, high = steady.window
    inside = [s for s, n in zip(starts, lengths, strict=True) if s + 40 < high and s + 40 + n > low]
    assert 2 < len(inside) < 6
    assert rows_of(file, "cuda_gpu_kern_sum", "steady")[0]["Instances"] == str(len(inside))


def cut(rows: Rows) -> Rows:
    """The same rows cut to the window, by hand."""
    found: Rows = {}
    for kind, some in rows.items():
        found[kind] = []
        for row in some:
            start, end = row["start"], row.get("end")
            if row.get("eventType") == e.DOMAIN_CREATE:
                found[kind].append(row)
                continue
            inside = LOW <= start < HIGH or (end is not None and start < LOW < end)
            if inside:
                stop = end if end is None else min(end, HIGH)
                found[kind].append(
                    {**row, "start": max(start, LOW), **({"end": stop} if "end" in row else {})}
                )
    return found


def random_rows(seed: int) -> Rows:
    rng = random.Random(seed)
    rows: Rows = {kind: [] for kind in ("kernels", "memcpys", "memsets", "api", "nvtx", "osrt", "syncs")}
    for number in range(1, 60):
        at = rng.randint(0, 2_900)
        end = at + rng.choice((0, 1, 30, 400))
        rows["api"].append(e.call(at, end, correlation=number))
        later, length = at + rng.randint(0, 200), rng.choice((1, 50, 300))
        make: Callable[..., Any] = rng.choice((e.kernel, e.memcpy, e.memset))
        kind = {e.kernel: "kernels", e.memcpy: "memcpys", e.memset: "memsets"}[make]
        rows[kind].append(make(later, later + length, correlation=number))
        rows["osrt"].append(e.osrt(at, end + 3, rng.choice(("read", "poll"))))
    for number in range(15):
        at = 200 * number
        rows["nvtx"].append(e.push_pop(at, at + 150, f"step {number}"))
        rows["nvtx"].append(e.push_pop(at + 20, at + 90, "inner", domain=1))
        rows["nvtx"].append(e.start_end(at + 10, at + 260, "both", range_id=number))
    rows["nvtx"] += [e.domain(1, "NCCL"), e.mark(LOW), e.mark(HIGH), e.push_pop(LOW, HIGH, "lab:measured")]
    return rows


def without_numbers(text: str) -> str:
    rows = csv.DictReader(io.StringIO(text))
    return str([{key: value for key, value in row.items() if key not in NUMBERS} for row in rows])


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 4))])
def test_every_report_is_that_of_an_export_of_the_cut_rows(tmp_path: Path, seed: int) -> None:
    rows = random_rows(seed)
    files = []
    for name, some in (("whole", rows), ("cut", cut(rows))):
        (tmp_path / name).mkdir()
        files.append(e.make_export(tmp_path / name / "a.sqlite", **some))
    answered = 0
    for name in shelf_of("nsys").reports:
        told = []
        for file, window in zip(files, ("lab:measured", None), strict=True):
            try:
                told.append(printed(file, name, window=window))
            except LabError as error:
                told.append(str(error).replace(str(file.parent), ""))
        if name in ("nvtx_gpu_proj_trace", "nvtx_pushpop_trace"):  # numbers of ranges are rows of the export
            told = [without_numbers(text) for text in told]
        assert told[0] == told[1], name
        answered += "," in told[0]
    assert answered > 20


def test_of_a_trace(tmp_path: Path) -> None:
    made = traces.Trace()
    for number in range(4):
        at = 10_000 * number
        made.annotation(f"part {number}", at, at + 9_000)
        call = made.call("cudaLaunchKernel", at + 100, at + 200)
        made.kernel("k", at + 8_000, at + 12_000, call)
    file = made.write(tmp_path / "a.trace.json")
    found = rows_of(file, "kernel_sum", "part 1")
    assert (found[0]["count"], found[0]["total_ns"]) == ("2", str(2_000 + 1_000))
    with pytest.raises(LabError, match=r"stats --window: op_diff looks at whole files; ask for it without"):
        printed(file, "op_diff", window="part 1")


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("5ms..6ms", r"the window 5ms\.\.6ms is empty; the capture's goes from 0 ms to 0\.002 ms"),
        ("2ns..2ns", r"the window 2ns\.\.2ns is empty"),
        ("nowhere", r"no NVTX range 'nowhere'; give one of those there are \(.*part.*, a span such as 10ms"),
        ("", r"no NVTX range ''; give one of those there are"),
        ("part#7", r"no NVTX range 'part#7'"),
    ],
)
def test_windows_that_there_are_not(edges: Path, window: str, told: str) -> None:
    with pytest.raises(LabError, match=told) as error:
        printed(edges, "cuda_gpu_kern_sum", window=window)
    assert "\n" not in str(error.value)


def test_without_iterations_the_note_says_so(edges: Path) -> None:
    notes = io.StringIO()
    print_all([edges], Asked(("nvtx_sum",), window="steady"), "csv", io.StringIO(), notes=notes)
    (line,) = notes.getvalue().splitlines()
    assert line.endswith("nothing repeats often enough)")


def test_the_command_line_takes_it_for_timelines_alone(edges: Path, tmp_path: Path) -> None:
    shown = labcode("stats", edges, "-r", "cuda_gpu_kern_sum", "-f", "csv", "--window", "part")
    assert shown.returncode == 0 and shown.stdout.count("\n") == 4
    assert shown.stderr == "note: --window part: 0.001 ms to 0.002 ms (the window part)\n"
    memory = histories.write(tmp_path, histories.leaking())
    refused = labcode("stats", memory, "--window", "steady")
    assert refused.returncode == 2 and "`labcode stats --window` reads .sqlite" in refused.stderr
