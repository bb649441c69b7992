"""Samples, context switches and call stacks: what the tables say, and what they say of damaged ones."""

import itertools
from pathlib import Path

import pandas as pd
import pytest

from labcode.errors import InputError
from labcode.reports.nsys.report import NsysReport, open_report
from tests.support import exports as e
from tests.support import stacks as s

LAB = "labcode/workloads/models/loaders.py"
_numbers = itertools.count()


def opened(tmp_path: Path, *sql: str, **tables: object) -> NsysReport:
    return open_report(
        e.make_export(tmp_path / f"{next(_numbers)}.sqlite", extra_sql=sql, **tables)  # type: ignore[arg-type]
    )


def test_samples_with_their_stacks(tmp_path: Path) -> None:
    sql = s.cpu_samples([(10, ["leaf", "libc.so.6!main"]), (20, ["other"])], tid=101)
    report = opened(tmp_path, *sql)
    samples, frames = report.cpu_samples(), report.cpu_callchains()
    assert samples[["sample", "start_ns", "pid", "tid", "cpu"]].to_numpy().tolist() == [
        [1, 10, 100, 101, 3],
        [2, 20, 100, 101, 3],
    ]
    assert set(samples["thread_state"]) == {"running"}
    assert frames.to_dict("split")["data"] == [
        [1, 0, "leaf", "/usr/lib/libwork.so", False],
        [1, 1, "main", "libc.so.6", False],
        [2, 0, "other", "/usr/lib/libwork.so", False],
    ]


def test_switches_by_thread_and_time(tmp_path: Path) -> None:
    sql = [*s.switches([(30, False), (10, True)], tid=102), *s.switches([(20, True)], tid=101)]
    found = opened(tmp_path, *sql).context_switches()
    assert found[["tid", "start_ns", "is_sched_in"]].to_numpy().tolist() == [
        [101, 20, True],
        [102, 10, True],
        [102, 30, False],
    ]


def test_an_os_call_without_a_stack_has_none(tmp_path: Path) -> None:
    rows = [e.osrt(1, 2, "read") | {"callchainId": 0}, e.osrt(5, 90, "sem_wait") | {"callchainId": 4}]
    report = opened(tmp_path, *s.chain("OSRT_CALLCHAINS", 4, ["sem_wait", "acquire"]), osrt=rows)
    assert report.osrt()["callchain"].isna().tolist() == [True, False]
    assert report.osrt_callchains()[["callchain", "symbol"]].to_numpy().tolist() == [
        [4, "sem_wait"],
        [4, "acquire"],
    ]


def test_a_call_recorded_twice_counts_once_and_has_its_stacks(tmp_path: Path) -> None:
    """With --cudabacktrace a call has a second record, which begins first and holds the stack."""
    second = e.call(95, 121, "cudaLaunchKernel", correlation=7) | {"eventClass": 67, "callchainId": 0}
    report = opened(
        tmp_path,
        *s.chain("CUDA_CALLCHAINS", 0, ["cudaLaunchKernel", "at::add"]),
        *s.python_stacks([(95, [("step", LAB, 12)]), (500, [("late", LAB, 1)])], kind=s.ON_CUDA),
        api=[e.call(100, 120, "cudaLaunchKernel_v7000", correlation=7), second],
        nvtx=[e.push_pop(0, 900)],
    )
    assert report.api()["start_ns"].tolist() == [100]
    chains = report.api_callchains()
    assert chains[["call_start_ns", "correlation", "call_name", "symbol"]].to_numpy().tolist() == [
        [95, 7, "cudaLaunchKernel", "cudaLaunchKernel"],
        [95, 7, "cudaLaunchKernel", "at::add"],
    ]
    found = report.python_backtraces()
    assert found["correlation"].tolist() == [7, pd.NA]
    assert found["call_name"].tolist() == ["cudaLaunchKernel", ""]
    assert found["call_end_ns"].tolist() == [121, pd.NA]
    assert report.python_backtrace_frames()["function"].tolist() == ["step", "late"]
    assert len(report.python_samples()) == 0


def test_the_call_of_a_backtrace_is_the_innermost_of_its_own_thread(tmp_path: Path) -> None:
    calls = [
        e.call(0, 1000, "cudaGraphLaunch_v10000", correlation=1),
        e.call(100, 200, "cuLaunchKernel", correlation=2, driver=True),
        e.call(300, 400, "cuLaunchKernel", correlation=3, driver=True),
        e.call(450, 470, "cudaMalloc_v3020", correlation=4, tid=101),
    ]
    marks = s.python_stacks([(at, [("f", LAB, 1)]) for at in (150, 200, 250, 460, 1001)], kind=s.ON_CUDA)
    report = opened(tmp_path, *marks, api=calls, nvtx=[e.push_pop(0, 1)])
    assert report.python_backtraces()["correlation"].fillna(-1).tolist() == [2, 2, 1, 1, -1]


def test_python_samples_by_time_with_frames_from_the_inside(tmp_path: Path) -> None:
    frames = [("&lt;module&gt;", "&lt;string&gt;", 3), ("main", LAB, 40)]
    sql = s.python_stacks([(200, frames), (100, [("early", LAB, 1)])], tid=101)
    report = opened(tmp_path, *sql, *s.payload(120, {"NCCL": {"bytes": 1}}), nvtx=[e.push_pop(0, 900)])
    samples = report.python_samples()
    assert samples.columns.tolist() == ["sample", "start_ns", "pid", "tid", "thread_state"]
    assert samples[["sample", "start_ns", "tid"]].to_numpy().tolist() == [[0, 100, 101], [1, 200, 101]]
    assert report.python_frames().to_dict("split")["data"] == [
        [0, 0, "early", LAB, 1],
        [1, 0, "<module>", "<string>", 3],
        [1, 1, "main", LAB, 40],
    ]
    assert report.warnings == ()


def test_without_such_tables_there_are_columns(tmp_path: Path) -> None:
    empty, full = (
        opened(tmp_path),
        opened(
            tmp_path,
            *s.cpu_samples([(10, ["leaf"])]),
            *s.switches([(1, True)]),
            *s.chain("CUDA_CALLCHAINS", 0, ["a"]),
            *s.chain("OSRT_CALLCHAINS", 1, ["a"]),
            *s.python_stacks([(10, [("f", LAB, 1)])]),
            *s.python_stacks([(10, [("f", LAB, 1)])], kind=s.ON_CUDA),
            api=[e.call(9, 11) | {"callchainId": 0}],
            osrt=[e.osrt(1, 2) | {"callchainId": 1}],
            nvtx=[e.push_pop(0, 20)],
        ),
    )
    for name in (
        "cpu_samples",
        "cpu_callchains",
        "context_switches",
        "osrt",
        "osrt_callchains",
        "api_callchains",
        "python_samples",
        "python_frames",
        "python_backtraces",
        "python_backtrace_frames",
    ):
        without, with_rows = getattr(empty, name)(), getattr(full, name)()
        assert len(without) == 0 and len(with_rows) == 1, name
        assert without.dtypes.to_dict() == with_rows.dtypes.to_dict(), name


@pytest.mark.parametrize(
    "content",
    [
        '{"Python Periodic Sampling": {"Frames": [{"Function": 1,',
        '{"Python Periodic Sampling": {"Frames": [{"Function": "f", "File": 1, "Line": 1}]}}',
        '{"Python Periodic Sampling": {"Frames": [{"Function": 1, "File": 1}]}}',
        '{"Python Periodic Sampling": {"Frames": [{"Function": 1, "File": 1, "Line": -4}]}}',
        '{"Python Periodic Sampling": {"Frames": [{"Function": 1, "File": 1, "Line": 1' + "0" * 30 + "}]}}",
        '{"Python Periodic Sampling": {"Frames": 3}}',
        '{"Python Periodic Sampling": []}',
        '{"Python Periodic Sampling":' + "[" * 100_000,
    ],
)
def test_payloads_that_cannot_be_read_are_counted_and_left_out(tmp_path: Path, content: str) -> None:
    good = s.python_stacks([(10, [("f", LAB, 1)])])
    report = opened(tmp_path, *good, *s.payload(5, content), *s.payload(6, content), nvtx=[e.push_pop(0, 9)])
    assert report.python_frames()["function"].tolist() == ["f"]
    assert report.warnings == (
        "2 Python stacks cannot be read (their payload is damaged); they are left out",
    )


def test_payloads_that_the_export_left_out_are_missed(tmp_path: Path) -> None:
    marks = [e.domain(3, "Python Periodic Sampling"), e.mark(5, "", domain=3)]
    report = opened(tmp_path, nvtx=marks)
    assert len(report.python_samples()) == 0
    (said,) = report.warnings
    assert "this export does not hold them: export the report again with nsys export --include-" in said
    older = opened(tmp_path, nvtx=marks, drop_columns={"NVTX_EVENTS": ["jsonText"]})
    assert len(older.python_samples()) == 0
    assert any("does not hold them" in line for line in older.warnings)


def test_a_stack_deeper_than_any_is_cut_off(tmp_path: Path) -> None:
    frames = ",".join(['{"Function":1,"File":1,"Line":1}'] * 5000)
    content = f'{{"Python Periodic Sampling":{{"Thread state":"Running","Frames":[{frames}]}}}}'
    report = opened(tmp_path, *s.payload(5, content), nvtx=[e.push_pop(0, 9)])
    assert len(report.python_frames()) == 4096
    assert any("deeper than 4096 frames" in line for line in report.warnings)


def test_texts_that_are_missing_read_as_unknown(tmp_path: Path) -> None:
    sql = [*s.cpu_samples([(10, ["leaf"])]), "DELETE FROM StringIds WHERE value IN ('leaf', 'f')"]
    report = opened(tmp_path, *s.python_stacks([(1, [("f", LAB, 1)])]), *sql, nvtx=[e.push_pop(0, 9)])
    assert report.cpu_callchains()["symbol"].tolist() == ["[unknown]"]
    assert report.python_frames()["function"].tolist() == ["[unknown]"]


def test_two_frames_at_one_place_of_a_stack(tmp_path: Path) -> None:
    """A table without nsys' primary key can say so; and depths may be anything."""
    columns = "(id INTEGER, symbol INTEGER, module INTEGER, stackDepth INTEGER)"
    rows = ["(1, 900, 900, 0)", "(1, 901, 900, 0)", "(1, 902, 900, 1000000000000)", "(1, 902, 900, -5)"]
    sql = [
        f"CREATE TABLE SAMPLING_CALLCHAINS {columns}",
        "INSERT INTO StringIds VALUES (900, 'one'), (901, 'two'), (902, 'three')",
        *(f"INSERT INTO SAMPLING_CALLCHAINS VALUES {row}" for row in rows),
    ]
    report = opened(tmp_path, *sql)
    assert report.cpu_callchains()["symbol"].tolist() == ["three", "one", "three"]
    assert any("1 frames stand where another one does" in line for line in report.warnings)


@pytest.mark.parametrize("table", ["SAMPLING_CALLCHAINS", "OSRT_CALLCHAINS", "CUDA_CALLCHAINS"])
def test_a_table_of_stacks_without_its_columns_is_refused(tmp_path: Path, table: str) -> None:
    with pytest.raises(InputError, match=f"{table}.*stackDepth"):
        opened(tmp_path, f"CREATE TABLE {table} (id INTEGER, symbol INTEGER)")


def test_a_view_in_place_of_samples_is_never_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="COMPOSITE_EVENTS is a view, not a table"):
        opened(tmp_path, "CREATE VIEW COMPOSITE_EVENTS AS SELECT * FROM COMPOSITE_EVENTS")


def test_depth_that_is_text_is_named(tmp_path: Path) -> None:
    sql = [*s.cpu_samples([(10, ["leaf"])]), "UPDATE SAMPLING_CALLCHAINS SET stackDepth = 'deep'"]
    with pytest.raises(InputError, match="SAMPLING_CALLCHAINS, column stackDepth: holds something else"):
        opened(tmp_path, *sql).cpu_callchains()
