"""The stats command: names, formats, what is missing; and where our reports are right and nsys' are not."""

import csv
import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from labcode.analysis.stats import writer
from labcode.analysis.stats.nsys import reports as nsys_stats
from labcode.analysis.stats.writer import write
from labcode.errors import InputError, LabError
from labcode.reports.nsys.report import open_report
from tests.support import exports as e
from tests.support.command import printed
from tests.support.programming_models import REPORTS as PROGRAMMING_MODELS
from tests.support.programming_models import make_programming_models
from tests.support.random_export import make_random_export

USUAL = sorted(set(nsys_stats.TABLES) - set(PROGRAMMING_MODELS))  # of events that every capture may hold


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return e.make_export(
        tmp_path / "a.sqlite",
        kernels=[
            e.kernel(100, 200, "scale<float>(float*, int)", correlation=1),
            e.kernel(200, 250, "k", correlation=2),
        ],
        api=[e.call(10, 20, correlation=1), e.call(30, 41, correlation=2)],
        nvtx=[e.push_pop(0, 50, "step")],
    )


def test_csv(export: Path) -> None:
    assert printed(export, "cuda_gpu_kern_sum") == (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '66.7,100,1,100.0,100.0,100,100,0.0,"scale<float>(float*, int)"\n'
        "33.3,50,1,50.0,50.0,50,50,0.0,k\n"
    )


def test_json(export: Path) -> None:
    rows = json.loads(printed(export, "cuda_api_sum", fmt="json"))
    assert rows == [
        {
            "Time (%)": 100.0,
            "Total Time (ns)": 21,
            "Num Calls": 2,
            "Avg (ns)": 10.5,
            "Med (ns)": 10.5,
            "Min (ns)": 10,
            "Max (ns)": 11,
            "StdDev (ns)": 0.7,
            "Name": "cudaLaunchKernel",
        }
    ]


def test_markdown_and_table(tmp_path: Path) -> None:
    path = e.make_export(tmp_path / "b.sqlite", kernels=[e.kernel(0, 1_234_567, "a | b\nc")])
    assert printed(path, "cuda_gpu_kern_sum", fmt="md").splitlines()[-1].endswith(r"| 0.0 | a \| b c |")
    header, rule, row = printed(path, "cuda_gpu_kern_sum", fmt="table").splitlines()
    assert len(set(map(len, (header.replace("Name", "a | b c"), rule, row)))) == 1
    assert "1,234,567" in row
    assert row.endswith("a | b c")


def test_several_reports(export: Path) -> None:
    text = printed(export, "cuda_gpu_kern_sum", "osrt_sum", "nvtx_sum")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# cuda_gpu_kern_sum",
        "# osrt_sum",
        "# skipped: the capture holds no calls of the OS runtime, so there is no osrt_sum; "
        "record them with nsys profile --trace=osrt",
        "# nvtx_sum",
    ]
    both = json.loads(printed(export, "osrt_sum", "nvtx_sum", fmt="json"))
    assert both["osrt_sum"] == []
    assert [row["Range"] for row in both["nvtx_sum"]] == [":step"]


def test_no_report_named_prints_the_usual_ones(export: Path) -> None:
    text = printed(export, fmt="table")
    assert [name for name in nsys_stats.DEFAULT_REPORTS if f"{name}\n" in text] == list(
        nsys_stats.DEFAULT_REPORTS
    )


def test_unknown_report(export: Path) -> None:
    with pytest.raises(
        LabError, match=r"'cuda_gpu_kernel_sum' is not a report; did you mean cuda_gpu_kern_sum\?"
    ):
        printed(export, "cuda_gpu_kernel_sum")
    with pytest.raises(LabError, match=r"'xyz' is not a report; there are: cuda_api_gpu_sum, .*osrt_sum"):
        printed(export, "xyz")


def test_kernels_by_another_name(tmp_path: Path) -> None:
    rows = [e.kernel(0, 9, "scale<float>(int)", short="scale", mangled="_Zs"),
            {**e.kernel(0, 5, "scale<double>(int)", short="scale"), "mangledName": None}]  # fmt: skip
    path = e.make_export(tmp_path / "b.sqlite", kernels=rows)

    def names(report: str) -> list[str]:
        return [row["Name"] for row in csv.DictReader(io.StringIO(printed(path, report)))]

    assert names("cuda_gpu_kern_sum") == ["scale<float>(int)", "scale<double>(int)"]
    assert names("cuda_gpu_kern_sum:base") == ["scale"]
    assert names("cuda_gpu_kern_sum:mangled") == ["_Zs", "scale<double>(int)"]  # one was not recorded


def test_kernels_named_after_the_range_around_their_launch(tmp_path: Path) -> None:
    path = tmp_path / "b.sqlite"
    launches = [
        ("bare", []),
        ("nested", [e.push_pop(0, 300, "outer"), e.push_pop(50, 200, "inner")]),
        ("domain", [e.push_pop(0, 300, "outer"), e.push_pop(50, 200, "inner", domain=1)]),
        ("longer", [e.start_end(0, 400, "early"), e.start_end(50, 900, "late")]),
        ("alike", [e.push_pop(0, 150, "first"), e.push_pop(0, 140, "second")]),
        ("sticks_out", [e.push_pop(0, 105, "range")]),
        ("no_text", [e.push_pop(0, 300, "outer"), e.push_pop(50, 200, None)]),
        ("empty", [e.push_pop(0, 300, "")]),
        ("elsewhere", [e.start_end(0, 300, "range", end_tid=7)]),
        ("thread", [e.push_pop(0, 300, "range", tid=7)]),
    ]
    kernels, calls, ranges = [], [], [e.domain(1, "library")]
    for number, (name, around) in enumerate(launches):
        at = 1000 * number
        kernels.append(e.kernel(at + 150, at + 200 - number, name, correlation=number))
        calls.append(e.call(at + 100, at + 110, correlation=number))
        ranges += [{**row, "start": row["start"] + at, "end": row["end"] + at} for row in around]
    e.make_export(path, kernels=kernels, api=calls, nvtx=ranges)
    text = printed(path, "cuda_gpu_kern_sum:nvtx-name")
    assert [row["Name"] for row in csv.DictReader(io.StringIO(text))] == [
        "bare", "inner/nested", "inner/domain", "late/longer", "first/alike", "sticks_out", "no_text",
        "/empty", "elsewhere", "thread",
    ]  # fmt: skip
    without = e.make_export(tmp_path / "c.sqlite", kernels=kernels, api=calls)
    with pytest.raises(InputError, match=r"holds no NVTX ranges, so there is no cuda_gpu_kern_sum"):
        printed(without, "cuda_gpu_kern_sum:nvtx-name")


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (
            "cuda_gpu_kern_sum:bogus",
            "_sum:bogus: 'bogus' is not an argument .* base, mangled or nvtx-name",
        ),
        ("nvtx_kern_sum:nvtx-name", "'nvtx-name' is not an argument .* it takes base or mangled"),
        ("cuda_api_sum:base", "'base' is not an argument of the report cuda_api_sum; it takes none"),
        (
            "cuda_gpu_kern_sun:base",
            "'cuda_gpu_kern_sun:base' is not a report; did you mean cuda_gpu_kern_sum",
        ),
    ],
)
def test_arguments_that_a_report_does_not_take(export: Path, report: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        printed(export, report)


def test_unknown_format(export: Path) -> None:
    with pytest.raises(LabError, match="'xml' is not a format; choose one of table, csv, json, md"):
        printed(export, "nvtx_sum", fmt="xml")
    with pytest.raises(LabError, match="'xml' is not a format"):
        write(pd.DataFrame(), "xml", io.StringIO())


@pytest.mark.parametrize("name", USUAL)
def test_an_empty_capture_says_so(tmp_path: Path, name: str) -> None:
    path = e.make_export(tmp_path / "empty.sqlite")
    with pytest.raises(
        InputError, match=f"empty.sqlite: the capture holds no .*, so there is no {name}; record"
    ):
        printed(path, name)
    with open_report(path) as report:
        frame = nsys_stats.REPORTS[name](report)
    assert len(frame) == 0
    assert len(frame.columns) > 6


def test_only_whole_graphs(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite", graphs=[e.graph_launch(0, 9, correlation=1)], api=[e.call(0, 1)]
    )
    with pytest.raises(InputError, match=r"only whole-graph launches.*--cuda-graph-trace=node"):
        printed(path, "cuda_gpu_kern_sum")


@pytest.mark.parametrize("name", USUAL)
def test_frames_and_text_agree(tmp_path: Path, name: str) -> None:
    path = make_random_export(tmp_path / "r.sqlite", 5)
    with open_report(path) as report:
        frame = nsys_stats.REPORTS[name](report)
    stream = io.StringIO()
    write(frame, "csv", stream)
    assert stream.getvalue() == printed(path, name)
    assert nsys_stats.REPORTS[name].__doc__


def test_names_with_everything_in_them_survive_csv(tmp_path: Path) -> None:
    names = ['say "hi", twice', "line\nbreak", "ünï, ⚡", "", " plain "]
    path = e.make_export(tmp_path / "a.sqlite", nvtx=[e.push_pop(0, 9 - i, n) for i, n in enumerate(names)])
    rows = list(csv.DictReader(io.StringIO(printed(path, "nvtx_sum"))))
    assert [row["Range"] for row in rows] == [f":{name}" for name in names]


def test_many_rows_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_random_export(tmp_path / "r.sqlite", 8, calls=400)
    for fmt in ("csv", "json", "md", "table"):
        whole = printed(path, "cuda_gpu_trace", fmt=fmt)
        with monkeypatch.context() as patch:
            patch.setattr("labcode.analysis.stats.writer._ROWS", 7)
            assert printed(path, "cuda_gpu_trace", fmt=fmt) == whole
    assert len(json.loads(printed(path, "cuda_gpu_trace", fmt="json"))) > 300


def test_ranges_that_begin_and_end_together_are_not_lost(tmp_path: Path) -> None:
    ranges = [e.push_pop(0, 9, "outer"), e.push_pop(0, 9, "inner"), e.push_pop(3, 4, "leaf")]
    rows = list(
        csv.DictReader(
            io.StringIO(printed(e.make_export(tmp_path / "a.sqlite", nvtx=ranges), "nvtx_pushpop_trace"))
        )
    )
    assert [(row["Name"], row["Lvl"], row["RangeStack"]) for row in rows] == [
        (":outer", "0", ":1"),
        (":inner", "1", ":1:2"),
        (":leaf", "2", ":1:2:3"),
    ]


def test_times_that_do_not_fit_64_bits_when_summed(tmp_path: Path) -> None:
    high = (1 << 63) - 1
    path = e.make_export(
        tmp_path / "a.sqlite", kernels=[e.kernel(0, high, "k"), e.kernel(1, high, "k"), e.kernel(0, 9)]
    )
    row = next(csv.DictReader(io.StringIO(printed(path, "cuda_gpu_kern_sum"))))
    assert int(row["Total Time (ns)"]) == 2 * high - 1


def test_events_that_end_before_they_begin(tmp_path: Path) -> None:
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(10, 4, "k"), e.kernel(0, 20, "j")])
    rows = list(csv.DictReader(io.StringIO(printed(path, "cuda_gpu_kern_sum"))))
    assert [(row["Name"], row["Total Time (ns)"]) for row in rows] == [("j", "20"), ("k", "-6")]


def test_no_time_at_all_is_no_division_by_zero(tmp_path: Path) -> None:
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(5, 5)], memcpys=[e.memcpy(5, 5, 100)])
    assert printed(path, "cuda_gpu_kern_sum").splitlines()[1] == ",0,1,0.0,0.0,0,0,0.0,k(int)"
    row = next(csv.DictReader(io.StringIO(printed(path, "cuda_gpu_mem_time_sum"))))
    assert row["Time (%)"] == ""
    trace = list(csv.DictReader(io.StringIO(printed(path, "cuda_gpu_trace"))))
    assert trace[1]["Throughput (MB/s)"] == ""


SCHEMAS = [(3, 7, 2), (3, 11, 1), (3, 20, 3), (3, 24, 0), (3, 25, 0), (3, 27, 1)]


@pytest.mark.parametrize("name", PROGRAMMING_MODELS)
def test_programming_models(name: str, tmp_path: Path, export: Path) -> None:
    made = make_programming_models(tmp_path / "r.sqlite", 1)
    lines = list(csv.reader(io.StringIO(printed(made, name))))
    with open_report(made) as report:
        frame = nsys_stats.REPORTS[name](report)
    assert lines[0] == list(frame.columns) and len(lines) - 1 == len(frame) > 0
    with pytest.raises(InputError, match=rf"so there is no {name}; record them with nsys profile --trace"):
        printed(export, name)


def test_older_exports_do_not_tell_the_line_of_a_page_fault(tmp_path: Path) -> None:
    made = make_programming_models(tmp_path / "r.sqlite", 2)
    table = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
    with closing(sqlite3.connect(made)) as db:
        for name in ("SourceFile", "SourceLine"):
            db.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        expected = db.execute(
            "SELECT count(*) AS n, (SELECT value FROM StringIds WHERE id = CpuInstruction) "
            f"FROM {table} GROUP BY CpuInstruction"
        ).fetchall()
    head, *rows = csv.reader(io.StringIO(printed(made, "um_cpu_page_faults_sum")))
    assert head == ["CPU Page Faults", "CPU Instruction Address"]
    assert sorted(rows) == sorted([str(count), name or ""] for count, name in expected)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("seed", [3, 11])
def test_every_report_of_every_known_schema_is_the_same(
    tmp_path: Path, schema: tuple[int, int, int], seed: int
) -> None:
    usual = make_random_export(tmp_path / "usual.sqlite", seed)
    other = make_random_export(tmp_path / "other.sqlite", seed, schema=schema)
    for name in USUAL:
        expected = list(csv.DictReader(io.StringIO(printed(usual, name))))
        found = list(csv.DictReader(io.StringIO(printed(other, name))))
        if name == "cuda_gpu_trace" and schema[1] < 11:  # green contexts are newer
            assert any(row["GreenCtx"] for row in expected)
            expected = [{**row, "GreenCtx": ""} for row in expected]
        assert found == expected, name
        assert expected, name


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_an_older_schema_lacks_is_one_line(tmp_path: Path, schema: tuple[int, int, int]) -> None:
    graphs = [e.graph_launch(0, 9, correlation=1)] if schema[1] >= 11 else []
    path = e.make_export(tmp_path / "a.sqlite", schema=schema, graphs=graphs, api=[e.call(0, 1)])
    with pytest.raises(InputError) as caught:
        printed(path, "cuda_gpu_trace")
    text = str(caught.value)
    assert ("only whole-graph launches" in text) == bool(graphs)
    assert "the capture holds no GPU operations" in text or graphs
    with open_report(path) as report:
        lacking = [line for line in report.warnings if "does not record" in line]
    assert len(lacking) == (schema[1] < 20)
    assert any("whole-graph launches" in line for line in lacking) == (schema[1] < 11)


def test_correlations_and_streams_repeat_across_processes_and_gpus(tmp_path: Path) -> None:
    both = [(100, 0), (200, 1)]
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(50, 60 + pid, "k", pid=pid, device=gpu, correlation=1) for pid, gpu in both],
        api=[e.call(10 + gpu, 20, pid=pid, tid=pid, correlation=1) for pid, gpu in both],
        nvtx=[e.push_pop(0, 30, f"of {pid}", pid=pid, tid=pid) for pid, _ in both],
    )
    rows = list(csv.DictReader(io.StringIO(printed(path, "cuda_kern_exec_trace"))))
    assert [(row["PID"], row["API Start (ns)"], row["Kernel Dur (ns)"]) for row in rows] == [
        ("100", "10", "110"),
        ("200", "11", "210"),
    ]
    rows = list(csv.DictReader(io.StringIO(printed(path, "nvtx_gpu_proj_sum"))))
    assert [(row["Range"], row["Total GPU Ops"], row["Proj Max (ns)"]) for row in rows] == [
        (":of 200", "1", "210"),
        (":of 100", "1", "110"),
    ]


def test_nodes_of_a_graph_and_kernels_that_nothing_launched(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(10 * i, 10 * i + 5, "node", correlation=1, graph_node=i) for i in range(3, 6)]
        + [e.kernel(90, 99, "alone", correlation=77), e.kernel(100, 101, "unlinked", correlation=None)],
        api=[e.call(5, 9, "cudaGraphLaunch_v10000", correlation=1)],
        nvtx=[e.push_pop(0, 20, "step")],
    )
    rows = list(csv.DictReader(io.StringIO(printed(path, "cuda_kern_exec_trace"))))
    assert [row["Kernel Name"] for row in rows] == ["node"] * 3
    rows = list(csv.DictReader(io.StringIO(printed(path, "nvtx_kern_sum"))))
    assert [(row["NVTX Range"], row["Kernel Name"], row["Kern Inst"]) for row in rows] == [
        ("", "alone", "1"),
        ("", "unlinked", "1"),
        (":step", "node", "3"),
    ]
    assert len(printed(path, "cuda_gpu_trace").splitlines()) == 6


@pytest.mark.parametrize("name", USUAL)
def test_times_near_the_limit_and_events_that_end_early(tmp_path: Path, name: str) -> None:
    high = (1 << 63) - 1
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(high - 9, high, "late", correlation=1), e.kernel(50, 40, "early", correlation=2)],
        memcpys=[e.memcpy(high - 5, high - 1, correlation=3), e.memcpy(7, 3, correlation=4)],
        memsets=[e.memset(high - 5, high - 1)],
        api=[e.call(high - 20, high - 10, correlation=1), e.call(30, 20, correlation=2)],
        nvtx=[e.push_pop(high - 30, high, "r"), e.push_pop(40, 30, "backwards"), e.push_pop(10, None, "open"),
              e.start_end(high - 30, high, "s"), e.start_end(5, None, "never")],
        osrt=[e.osrt(high - 2, high), e.osrt(9, 1)],
    )  # fmt: skip
    assert len(printed(path, name).splitlines()) > 1


def test_a_report_imports_no_more_than_it_needs(export: Path) -> None:
    heavy = ("pandas", "numpy.random", "decimal", "tempfile", "labcode.analysis.stats.nsys.ranges_on_gpu")
    code = (
        "import io, pathlib, sys\n"
        "from labcode.verbs import stats as driver\n"
        f"driver.print_all([pathlib.Path({str(export)!r})], ['cuda_api_trace'], 'csv', io.StringIO())\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_ranges_that_nest_deep_are_written_in_short(tmp_path: Path) -> None:
    def text(depth: int) -> str:
        ranges = [e.push_pop(n, 10_000 - n, f"r{n % 50}") for n in range(depth)]
        path = e.make_export(tmp_path / f"{depth}.sqlite", nvtx=ranges)
        return printed(path, "nvtx_pushpop_trace")

    rows = list(csv.DictReader(io.StringIO(text(400))))
    assert rows[256]["RangeStack"] == "".join(f":{n + 1}" for n in range(257))
    assert rows[399]["RangeStack"] == "".join(f":{n + 1}" for n in range(256)) + ":…:400"
    assert rows[399]["NameTree"] == "--" * 256 + ":r49" and rows[399]["Lvl"] == "399"
    assert len(text(4_000)) < 2.5 * len(text(2_000))


@pytest.mark.parametrize("exact", [False, True])
def test_a_table_for_people_ends_and_says_so(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_ROWS", 3)
    table = pd.DataFrame({"Name": ["a", "b", "c", "d", "e"], "Count": [1, 2, 3, 4, 5]})
    for fmt in ("table", "md"):
        told = io.StringIO()
        write(table, fmt, told, exact=exact)
        lines = told.getvalue().splitlines()
        assert lines[-1] == "… 2 more rows, which CSV and JSON have"
        assert "c" in lines[4] and not any("d" in line.split() for line in lines[2:-1])
        told = io.StringIO()
        write(table[:3], fmt, told, exact=exact)
        assert "more rows" not in told.getvalue()
    for fmt in ("csv", "json"):
        told = io.StringIO()
        write(table, fmt, told, exact=exact)
        assert "e" in told.getvalue() and "more rows" not in told.getvalue()
