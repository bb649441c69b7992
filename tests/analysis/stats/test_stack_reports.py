"""The reports of `labcode stats` that nsys has not."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from labcode.analysis.stats.nsys import reports
from labcode.analysis.stats.nsys import stacks as stack_reports
from labcode.analysis.stats.nsys.reports import DECLARED, OWN_TABLES, TABLES, Declared, Need
from labcode.errors import InputError, LabError
from labcode.reports.nsys.report import open_report
from labcode.verbs import stats as driver
from labcode.verbs.stats import write_all
from tests.support import exports as e
from tests.support import stacks as s
from tests.support.command import printed
from tests.support.gpu_metrics import add_metrics

OWN = "labcode/workloads/models/loaders.py"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with every kind of sample, a kernel and its launch."""
    second = e.call(95, 111, "cudaLaunchKernel", correlation=1) | {"eventClass": 67, "callchainId": 0}
    return e.make_export(
        tmp_path_factory.mktemp("reports") / "full.sqlite",
        kernels=[e.kernel(200, 300, correlation=1), e.kernel(700, 800)],
        api=[e.call(100, 110, correlation=1), second],
        osrt=[e.osrt(320, 420, "read"), e.osrt(450, 460, "fork")],
        nvtx=[e.push_pop(0, 1000, "lab:measured")],
        threads=[e.thread(100, 100, "python3")],
        extra_sql=[
            *s.chain("CUDA_CALLCHAINS", 0, ["cudaLaunchKernel"]),
            *s.cpu_samples([(10, ["leaf", "main"]), (20, ["main"]), (2_000, ["afterwards"])]),
            *s.switches([(0, True), (400, False)]),
            *s.python_stacks([(95, [("step", OWN, 9)])], kind=s.ON_CUDA),
            *s.python_stacks([(10, [("f", OWN, 1), ("main", OWN, 5)]), (20, [("main", OWN, 6)])]),
        ],
    )


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("python_stacks", f"50.0,1,main ({OWN})"),
        ("python_functions", f"50.0,100.0,1,2,main ({OWN})"),
        ("cpu_samples", "50.0,100.0,1,2,main"),
        ("thread_states", "40.0,400,600,1,600,100,100,python3"),
        ("osrt_classes", "100,100,1,100,read,100,100"),
        ("osrt_gaps", "12.5,100,1,read,read,100,100,yes"),
        ("launch_sites", f"50.0,100,1,0,{OWN},9,step"),
    ],
)
def test_the_first_row_of_each_report(full: Path, name: str, first: str) -> None:
    header, row = printed(full, name).splitlines()[:2]
    assert row == first
    assert len(header.split(",")) == len(first.split(","))


def test_counters_of_the_gpu_over_all_and_by_range(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite",
        nvtx=[e.push_pop(0, 50, "work"), e.push_pop(0, 300, "lab:measured")],
        api=[e.call(10, 20, correlation=1)],
        kernels=[e.kernel(100, 150, correlation=1)],
    )
    add_metrics(path, {"SMs Active": [(0, 2), (100, 9), (200, 1)], "GPC": [(0, 8), (100, 6), (200, 7)]})
    assert printed(path, "gpu_metrics_sum").splitlines() == [
        "GPU,Samples,Avg,Med,Min,Max,StdDev,Busy Avg,Busy Samples,Metric",
        "0,3,4.0,2.0,1,9,4.4,9.0,0.5,SMs Active [Throughput %]",
        "0,3,7.0,7.0,6,8,1.0,6.0,0.5,GPC Clock Frequency [MHz]",
    ]
    assert printed(path, "gpu_metrics_ranges").splitlines() == [
        "GPU,Range Instances,Span (ns),Samples,SMs Active (%),Range",
        "0,1,50,0.5,9.0,lab:measured",
        "0,1,50,0.5,9.0,work",
    ]
    with pytest.raises(InputError, match="no GPU operations, so there is no gpu_metrics_ranges"):
        printed(add_metrics(e.make_export(tmp_path / "b.sqlite"), {"GPC": [(1, 1)]}), "gpu_metrics_ranges")


def test_waiting_by_range(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite",
        nvtx=[e.push_pop(0, 2000, "step"), e.push_pop(300, 900, "log"), e.push_pop(0, 5000, "lab:measured")],
        api=[
            e.call(10, 20, correlation=1),
            e.call(400, 800, "cudaStreamSynchronize_v3020", correlation=2),
            e.call(410, 790, "cuStreamSynchronize", correlation=2, driver=True),
            e.call(1000, 1100, "cudaDeviceSynchronize_v3020", correlation=3),
            e.call(2500, 2600, "cudaDeviceSynchronize_v3020", correlation=4),
            e.call(450, 460, tid=101, correlation=5),
        ],
        kernels=[
            e.kernel(30, 700, "slow(int)", correlation=1),
            e.kernel(470, 750, "other(int)", correlation=5),
        ],
    )
    assert printed(path, "sync_ranges").splitlines() == [
        "Time (%),Waited (ns),Calls,In Vain,Call,Waits For,Waits For (%),Range",
        "66.7,400,1,0,cudaStreamSynchronize,slow,100.0,log",  # the other one was launched during the call
        "16.7,100,1,1,cudaDeviceSynchronize,,0.0,lab:measured",
        "16.7,100,1,1,cudaDeviceSynchronize,,0.0,step",
    ]


def test_the_names_are_own_and_all_listed() -> None:
    assert not set(OWN_TABLES) & set(TABLES)
    assert all(reports._about(name) for name in DECLARED)


def test_one_line_and_a_function_are_a_report(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, function, needs and columns are declared once; nothing else has to know of it."""
    made = {
        "made_up": Declared(
            "made_up_room:made_up", "ours", (Need("NVTX ranges", ("NVTX_EVENTS",), "--trace=nvtx"),)
        ),
        "lacking": Declared(
            "made_up_room:made_up", "ours", (Need("wonders", ("WONDERS",), "--trace=wonders"),)
        ),
    }
    monkeypatch.setattr(reports, "DECLARED", {**DECLARED, **made})
    shelf = replace(reports.SHELF, reports={name: reports._later(name) for name in reports.DECLARED})
    monkeypatch.setattr(driver, "shelf_of", lambda kind: shelf)
    room = ModuleType("labcode.analysis.stats.nsys.made_up_room")
    room.made_up = lambda report: pd.DataFrame({"Range": ["a"], "Calls": [1]})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, room.__name__, room)
    assert printed(full, "made_up").splitlines() == ["Range,Calls", "a,1"]
    with pytest.raises(InputError, match="holds no wonders, so there is no lacking; record them with"):
        printed(full, "lacking")


@pytest.mark.parametrize("name", OWN_TABLES)
def test_what_is_missing_is_said_with_the_option_that_records_it(tmp_path: Path, name: str) -> None:
    empty = e.make_export(tmp_path / "a.sqlite", nvtx=[e.push_pop(0, 9)])
    with pytest.raises(InputError, match=rf"so there is no {name}; record them with nsys profile --"):
        printed(empty, name)


def test_an_own_report_goes_to_a_file_and_a_wrong_name_is_corrected(full: Path, tmp_path: Path) -> None:
    written = write_all([full], ["osrt_gaps", "osrt_sum"], "json", tmp_path / "out")
    assert [path.name for path in written.files] == ["full_osrt_gaps.json", "full_osrt_sum.json"]
    with pytest.raises(LabError, match="did you mean launch_sites"):
        printed(full, "launch_site")


def test_a_capture_with_nothing_but_samples_is_reported_whole(tmp_path: Path) -> None:
    sql = [*s.cpu_samples([(10, ["leaf"]), (20, ["leaf"])]), *s.switches([(5, True), (25, False)])]
    path = e.make_export(tmp_path / "a.sqlite", osrt=[e.osrt(7, 9)], extra_sql=sql)
    assert printed(path, "cpu_samples").splitlines()[1] == "100.0,100.0,2,2,leaf"
    assert printed(path, "thread_states").splitlines()[1].startswith("95.2,20,1,")
    assert printed(path, "osrt_classes").splitlines()[1] == "2,2,1,2,read,100,100"


def test_times_of_the_report_are_those_of_the_analysis(full: Path) -> None:
    with open_report(full) as report:
        table = stack_reports.launch_site_sum(report)
    assert table["GPU Time (ns)"].sum() == 200
