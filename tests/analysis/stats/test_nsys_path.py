"""The critical path of nsys exports: small ones, every piece by hand."""

import io
from pathlib import Path

import pytest

from labcode.analysis.timeline.critical_path import paths
from labcode.errors import InputError
from labcode.reports.nsys.report import open_report
from labcode.verbs.report import captures
from labcode.verbs.report import gather as gathering
from labcode.verbs.stats import print_all
from tests.support import exports as e

US = 1_000


def call(start: int, end: int, name: str = "cudaLaunchKernel_v7000", **more: int) -> e.Row:
    return e.call(start * US, end * US, name, **more)


def kernel(start: int, end: int, **more: int) -> e.Row:
    return e.kernel(start * US, end * US, "gemm(int)", **more)


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A launch and the wait for its kernel in a range; another process without a GPU."""
    return e.make_export(
        tmp_path / "a.sqlite",
        api=[
            call(0, 10, correlation=1),
            call(50, 110, "cudaDeviceSynchronize_v3020", correlation=2),
            call(0, 200, pid=300, tid=300, correlation=1),
        ],
        kernels=[kernel(15, 100, correlation=1)],
        nvtx=[e.push_pop(0, 120 * US, "step"), e.mark(60 * US)],
    )


def test_a_launch_a_kernel_the_wait_for_it_and_the_range_around(waiting: Path) -> None:
    with open_report(waiting) as report:
        (path,) = paths(report)
    pieces = path[["kind", "name", "start_ns", "duration_ns"]].to_numpy(object).tolist()
    assert pieces == [
        ["CUDA call", "cudaLaunchKernel", 0, 10 * US],
        ["launch latency", "gemm", 10 * US, 5 * US],
        ["kernel", "gemm", 15 * US, 85 * US],
        ["wait ends", "cudaDeviceSynchronize", 100 * US, 10 * US],
        ["host", "step", 110 * US, 10 * US],
    ]


def test_a_thread_that_only_asks_and_a_path_that_hides_computing(tmp_path: Path) -> None:
    """Launches one after the other decide, kernels run beside them; a watchdog begins first and ends last."""
    launches = [call(at, at + 90, correlation=at + 1) for at in range(100, 1_100, 100)]
    asks = [
        call(at, at + 1, "cudaEventQuery_v3020", tid=7, correlation=9_000 + at)
        for at in range(50, 3_000, 100)
    ]
    work = [kernel(at + 20, at + 60, correlation=at + 1) for at in range(100, 1_100, 100)]
    file = e.make_export(tmp_path / "a.sqlite", api=[*launches, *asks], kernels=work)
    with open_report(file) as report:
        (path,) = paths(report)
    assert 7 not in path["tid"].tolist() and path["duration_ns"].sum() == 990 * US
    notes = io.StringIO()
    print_all([file], ["critical_path"], "csv", io.StringIO(), notes=notes)
    assert (
        "note: critical path of process 100: 0% computing, while GPU 0 computes for 40%" in notes.getvalue()
    )


def test_it_is_summed_up_and_shown(waiting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    print_all([waiting], ["critical_path", "critical_path_sum"], "csv", text)
    assert "70.8,85000,1,3.4,100,kernel\n" in text.getvalue()
    assert "8.3,10000,1,1.1,100,host,step\n" in text.getvalue()
    with gathering.gather([waiting]) as document:
        section = next(one for one in document.sections if one.id == "path")
        kinds, names = (shown.rows for shown in section.tables)
        assert kinds.loc[0, ["pid", "kind", "pieces"]].tolist() == [100, "kernel", 1]
        assert names["name"].tolist()[0] == "gemm"
    monkeypatch.setattr(captures, "MOST_WALKED", 0)
    with gathering.gather([waiting]) as document:
        assert "path" not in [one.id for one in document.sections]


def test_a_thread_goes_on_when_another_one_has_launched_its_work(tmp_path: Path) -> None:
    """Between two launches that follow each other soon, the other thread counts as at work."""
    launches = [call(at, at + 5, tid=101, correlation=at) for at in range(50, 250, 15)]
    file = e.make_export(
        tmp_path / "a.sqlite",
        api=[call(0, 5, correlation=1), *launches, call(300, 310, correlation=2)],
        kernels=[kernel(6, 8, correlation=1), kernel(312, 320, correlation=2)],
    )
    with open_report(file) as report:
        (path,) = paths(report)
    threads = path["tid"].tolist()
    assert threads[-3:] == [100, -1, -1]  # the last launch, and its kernel
    assert path.loc[path["tid"] == 101, "start_ns"].max() == 245 * US
    assert path["duration_ns"].sum() == 320 * US


def test_calls_and_work_of_different_processes(tmp_path: Path) -> None:
    file = e.make_export(tmp_path / "a.sqlite", api=[call(0, 5)], kernels=[kernel(6, 8, pid=300)])
    with pytest.raises(InputError, match="the capture holds no process that calls CUDA and uses a GPU"):
        print_all([file], ["critical_path"], "csv", io.StringIO())
    with gathering.gather([file]) as document:
        assert "path" not in [one.id for one in document.sections]
