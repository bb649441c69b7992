"""Profiles folded and compared; threads on and off the CPU; classes of OS calls; launch sites."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.stats.nsys import stacks as stack_reports
from labcode.analysis.timeline import launch_sites, os_runtime, stacks, switches
from labcode.reports.kineto.report import open_trace
from labcode.reports.nsys.report import open_report
from tests.support import exports as e
from tests.support import stacks as s

OWN, LIBRARY = "labcode/workloads/models/loaders.py", "site-packages/torch/optim/sgd.py"


def frames_of(*chains: list[str], key: str = "sample") -> pd.DataFrame:
    """Frames of stacks given from the root to the leaf, numbered from 0."""
    rows = [
        (number, depth, label)
        for number, chain in enumerate(chains)
        for depth, label in enumerate(reversed(chain))
    ]
    return pd.DataFrame(rows, columns=[key, "depth", "label"]).sample(frac=1, random_state=1)


def folded_of(*chains: list[str]) -> pd.DataFrame:
    frames = frames_of(*chains)
    return stacks.fold(frames, frames["label"])


def test_equal_stacks_fold_into_one_row() -> None:
    folded = folded_of(["main", "a"], ["main", "b"], ["main", "a"], ["main"])
    assert folded.to_dict("list") == {
        "stack": [("main", "a"), ("main",), ("main", "b")],
        "count": [2, 1, 1],
        "weight": [2.0, 1.0, 1.0],
    }


def test_folding_counts_the_named_stacks_as_often_as_named_with_their_weights() -> None:
    frames = frames_of(["main", "a"], ["main", "b"], key="callchain")
    weights = pd.Series([5, 10, 100])
    folded = stacks.fold(frames, frames["label"], [0, 0, 7], weights=weights)
    assert folded.to_dict("list") == {"stack": [("main", "a")], "count": [2], "weight": [15.0]}


def test_an_empty_profile_has_its_columns() -> None:
    folded = folded_of()
    assert folded.columns.tolist() == ["stack", "count", "weight"] and len(folded) == 0
    table = stacks.functions(folded)
    assert len(table) == 0 and "total_share" in table
    assert len(stacks.below(folded, "x")) == len(stacks.without(folded)) == 0


def test_a_recursive_function_counts_once_in_its_total() -> None:
    table = stacks.functions(folded_of(["main", "f", "f", "g"], ["main", "f"])).set_index("label")
    assert table.loc["f", ["self", "total", "self_count", "total_count"]].tolist() == [1.0, 2.0, 1, 2]
    assert table["self"].sum() == 2.0
    assert table.loc["main", "total_share"] == 1.0 and table.loc["main", "self_share"] == 0.0


def test_a_profile_below_a_function_and_one_without_the_interpreter() -> None:
    folded = folded_of(["main", "_PyEval_EvalFrameDefault", "load", "read"], ["main", "load"], ["main"])
    assert set(stacks.below(folded, "load")["stack"]) == {("load", "read"), ("load",)}
    rest = stacks.without(folded)
    assert ("main", "load", "read") in set(rest["stack"]) and rest["weight"].sum() == 3


def test_differences_compare_shares() -> None:
    table = stacks.difference(folded_of(["a"], ["b"]), folded_of(["a"], ["a"], ["a"], ["c"]))
    changes = dict(zip(table["stack"], table["change"], strict=True))
    assert changes == {("b",): -0.5, ("a",): 0.25, ("c",): 0.25}
    assert table["stack"].iloc[0] == ("b",)
    assert len(stacks.difference(folded_of(), folded_of())) == 0


def test_samples_of_a_window_of_gaps_of_threads() -> None:
    samples = pd.DataFrame(
        {"sample": range(5), "start_ns": [0, 10, 20, 30, 40], "pid": 1, "tid": [1, 1, 2, 2, 1]}
    )
    assert stacks.during(samples, (10, 40))["sample"].tolist() == [1, 2, 3]
    gaps = pd.DataFrame({"start_ns": [25, 5, 8], "end_ns": [40, 11, 20]})
    assert stacks.during(samples, spans=gaps)["sample"].tolist() == [1, 3]
    assert stacks.during(samples, spans=gaps.iloc[:0])["sample"].tolist() == []
    assert stacks.during(samples, threads=[2], pid=1)["sample"].tolist() == [2, 3]
    assert stacks.during(samples, pid=2)["sample"].tolist() == []


def test_the_sampling_period_is_that_of_a_thread_that_keeps_running() -> None:
    at = [0, 10, 20, 500, 510, 3, 13]
    samples = pd.DataFrame({"start_ns": at, "pid": 1, "tid": [1] * 5 + [2] * 2})
    assert stacks.sampling_period_ns(samples) == 10
    assert stacks.sampling_period_ns(samples.iloc[:1]) == 0


def test_labels() -> None:
    python = pd.DataFrame({"function": ["f"], "file": ["a.py"], "line": [3]})
    assert stacks.python_labels(python).tolist() == ["f (a.py)"]
    assert stacks.python_labels(python, by="line").tolist() == ["f (a.py:3)"]
    native = pd.DataFrame(
        {"symbol": ["g", "[unresolved]"], "module": ["x/libc.so", "[vdso]"], "unresolved": [False, True]}
    )
    assert stacks.native_labels(native).tolist() == ["g", "[vdso]"]
    assert stacks.native_labels(native, by="module").tolist() == ["[libc.so]", "[vdso]"]
    for label, frames in ((stacks.python_labels, python), (stacks.native_labels, native)):
        with pytest.raises(ValueError, match="by='color'"):
            label(frames, by="color")


# ---- threads on and off the CPU


def switches_of(*events: tuple[int, int, bool], state: str = "unknown") -> pd.DataFrame:
    columns = ["tid", "start_ns", "is_sched_in"]
    return pd.DataFrame(events, columns=columns).assign(pid=1, thread_state=state)


def test_states_of_threads_within_a_window() -> None:
    table = switches_of((1, 5, True), (1, 20, False), (1, 30, True), (2, 15, False), (3, 25, True))
    states = switches.thread_states(table, (10, 40))
    found = [tuple(row) for row in states[["tid", "start_ns", "end_ns", "state"]].to_numpy().tolist()]
    assert found == [
        (1, 10, 20, "running"),
        (1, 20, 30, "off"),
        (1, 30, 40, "running"),
        (2, 10, 15, "running"),
        (2, 15, 40, "off"),
        (3, 25, 40, "running"),
    ]
    summary = switches.thread_summary(states, pd.DataFrame({"pid": [1], "tid": [2], "name": ["loader"]}))
    assert summary["tid"].tolist() == [1, 3, 2]
    assert summary.set_index("tid").loc[2, ["name", "running_ns", "off_ns", "times_off"]].tolist() == [
        "loader",
        5,
        25,
        1,
    ]


def test_repeated_switches_in_one_direction_and_the_end_of_a_thread() -> None:
    table = switches_of((1, 10, True), (1, 12, True), (1, 20, False))
    table.loc[2, "thread_state"] = "terminated"
    states = switches.thread_states(table, (0, 100))
    assert states[["start_ns", "end_ns", "state"]].to_numpy().tolist() == [[10, 20, "running"]]
    assert len(switches.thread_states(table.iloc[:0], (0, 100))) == 0
    assert len(switches.thread_summary(switches.thread_states(table.iloc[:0], (0, 9)))) == 0


def osrt_of(*calls: tuple[int, int, str, int], tid: int = 1) -> pd.DataFrame:
    table = pd.DataFrame(calls, columns=["start_ns", "end_ns", "name", "nesting"])
    return table.assign(pid=1, tid=tid, callchain=pd.array(range(len(calls)), dtype="Int64"))


def test_a_wait_is_in_the_call_that_covers_most_of_it() -> None:
    states = switches.thread_states(switches_of((1, 0, True), (1, 10, False), (1, 110, True)), (0, 200))
    calls = osrt_of((5, 30, "read", 0), (40, 115, "wrapper", 0), (41, 114, "sem_wait", 1))
    (wait,) = switches.waiting_in(states, calls).to_dict("records")
    assert (wait["call"], wait["call_share"], wait["callchain"]) == ("sem_wait", 0.69, 2)
    (wait,) = switches.waiting_in(states, calls.iloc[:0]).to_dict("records")
    assert wait["call"] == "" and pd.isna(wait["callchain"])


# ---- classes of OS calls


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("read", "read"),
        ("pread64", "read"),
        ("fwrite", "write"),
        ("pthread_cond_timedwait", "lock"),
        ("sem_clockwait", "lock"),
        ("clock_nanosleep", "sleep"),
        ("epoll_wait", "poll"),
        ("open64", "file"),
        ("lstat64", "file"),
        ("posix_fadvise64", "file"),
        ("munmap", "memory"),
        ("fork", "process"),
        ("pthread_join", "process"),
        ("fsync", "sync"),
        ("recvmsg", "socket"),
        ("ioctl", "ioctl"),
        ("readlink", "other"),
        ("[Unknown]", "other"),
    ],
)
def test_the_class_of_a_call(name: str, kind: str) -> None:
    assert os_runtime.call_class(name) == kind


def test_time_in_classes_counts_nested_calls_once() -> None:
    calls = os_runtime.classified(
        osrt_of((0, 50, "fread", 0), (10, 30, "read", 1), (100, 120, "read", 0), (7, 7, "read", 0)), (5, 110)
    )
    (row,) = os_runtime.class_summary(calls).to_dict("records")
    assert row["call_class"] == "read"
    assert (row["calls"], row["total_ns"], row["covered_ns"], row["longest_ns"]) == (3, 55, 55, 45)
    by_name = os_runtime.class_summary(calls, by="name")
    assert by_name["name"].tolist() == ["fread", "read"]
    assert by_name["total_ns"].tolist() == [45, 10]


def test_calls_during_the_gaps_of_a_gpu_without_parked_threads() -> None:
    feeding = osrt_of((0, 40, "read", 0), (60, 65, "read", 0), (70, 90, "sem_wait", 0))
    parked = osrt_of((-100, 300, "pthread_cond_wait", 0), tid=2)
    calls = os_runtime.classified(pd.concat([feeding, parked]), (0, 100))
    gaps = pd.DataFrame({"start_ns": [20, 50], "end_ns": [50, 80]})
    table = os_runtime.during_gaps(calls, gaps, (0, 100))
    assert table[["name", "calls", "overlap_ns"]].to_numpy().tolist() == [
        ["read", 2, 25],
        ["sem_wait", 1, 10],
    ]
    assert table["gap_share"].tolist() == [25 / 60, 10 / 60]
    assert os_runtime.parked_threads(calls, (0, 100))["tid"].tolist() == [2]
    assert len(os_runtime.during_gaps(calls, gaps.iloc[:0], (0, 100))) == 0


def test_threads_that_work_come_before_helpers(tmp_path: Path) -> None:
    """The helper waits for all of the gap in two calls, so it is not parked; the worker for a part of it."""
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(0, 100, correlation=1), e.kernel(900, 1000, correlation=2)],
        api=[e.call(0, 5, correlation=1, tid=100), e.call(890, 895, correlation=2, tid=100)],
        nvtx=[e.push_pop(0, 1000, "lab:measured"), e.push_pop(200, 800, "read", tid=7), e.mark(300, tid=8)],
        osrt=[
            e.osrt(0, 500, "sem_wait", tid=8),
            e.osrt(501, 1000, "sem_wait", tid=8),
            e.osrt(150, 880, "poll", tid=100),
            e.osrt(300, 700, "fsync", tid=7),
        ],
    )
    report = open_report(path)
    found = stack_reports.osrt_gaps(report)
    assert found[["Name", "TID", "Works"]].values.tolist() == [
        ["poll", 100, "yes"],
        ["fsync", 7, "yes"],
        ["sem_wait", 8, "no"],
    ]
    assert found["Overlap (ns)"].tolist() == [730, 400, 799]
    assert os_runtime.working_threads(report.nvtx(), report.api())["tid"].tolist() == [7, 100]


# ---- launch sites


@pytest.fixture
def backward(tmp_path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A forward kernel with a stack, its backward kernels, one without anything."""
    frames = [("step", LIBRARY, 9), ("train", OWN, 20), ("<module>", OWN, 30)]
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[
            e.kernel(200, 300, "gemm", correlation=1),
            e.kernel(400, 500, "sum", correlation=2),
            e.kernel(600, 610, "gemm_backward", correlation=3),
            e.kernel(700, 701, "of_another", correlation=4),
            e.kernel(750, 751, "beside_the_backward_function", correlation=6),
            e.kernel(800, 808, "by_a_call_without_a_stack", correlation=5),
        ],
        api=[
            e.call(100, 110, correlation=1),
            e.call(95, 111, "cudaLaunchKernel", correlation=1) | {"eventClass": 67, "callchainId": 0},
            e.call(350, 360, correlation=2, tid=101),
            e.call(550, 560, correlation=3, tid=101),
            e.call(650, 660, correlation=4),
            e.call(575, 577, correlation=6, tid=101),
            e.call(112, 114, "cudaLaunchKernelExC_v11060", correlation=5),
        ],
        nvtx=[
            e.push_pop(10, 20, "aten::empty, seq = 5, op_id = 9"),
            e.push_pop(80, 120, "aten::linear, seq = 4, op_id = 11"),
            e.push_pop(90, 118, "aten::addmm, seq = 5, op_id = 12"),
            e.push_pop(340, 370, "AddmmBackward0, seq = 5, op_id = 20", tid=101),
            e.push_pop(345, 365, "aten::sum, seq = 77, op_id = 21", tid=101),
            e.push_pop(535, 580, "autograd::engine::evaluate_function: AddmmBackward0, op_id = 23", tid=101),
            e.push_pop(540, 570, "AddmmBackward0, seq = 5, op_id = 22", tid=101),
        ],
        extra_sql=[
            *s.chain("CUDA_CALLCHAINS", 0, ["cudaLaunchKernel"]),
            *s.python_stacks([(15, [("load", OWN, 3)]), (95, frames)], kind=s.ON_CUDA),
        ],
    )
    report = open_report(path)
    sites = launch_sites.launch_sites(
        report.gpu_ops(),
        report.api(),
        report.python_backtraces(),
        report.python_backtrace_frames(),
        report.nvtx(),
    )
    return sites, launch_sites.summary(sites)


def test_a_kernel_leads_to_the_line_of_its_own_or_of_its_forward_operation(
    backward: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    sites, summary = backward
    assert sites["how"].tolist() == ["backtrace", "forward", "forward", "none", "forward", "range"]
    assert sites["autograd"].tolist() == [
        "aten::addmm",
        "aten::sum",
        "AddmmBackward0",
        "",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "aten::addmm",
    ]
    assert sites["function"].tolist() == ["train"] * 3 + ["", "train", "train"]
    assert sites["line"].fillna(0).tolist() == [20, 20, 20, 0, 20, 20]
    assert summary["file"].tolist() == [OWN, ""]
    assert summary["gpu_ns"].tolist() == [219, 1]
    assert summary["backward"].tolist() == [3, 0] and summary["names"].tolist() == [5, 1]
    assert np.isclose(summary["gpu_share"].sum(), 1)


@pytest.mark.parametrize(
    ("lines", "between", "expected"),
    [
        # the stack before, that of an earlier operation of the same number, the stack after
        ((20, 20, 20), False, ("forward", "inner", 5)),
        ((20, 20, 21), False, ("none", "", None)),  # from which line of the function is not known
        ((20, 19, 20), False, ("none", "", None)),  # that operation was called from another line
        ((20, 19, 20), True, ("between", "train", 20)),
        ((20, 19, 21), True, ("between", "train", None)),
    ],
)
def test_an_earlier_operation_of_the_same_number(
    tmp_path: Path, lines: tuple[int, int, int], between: bool, expected: tuple[str, str, int | None]
) -> None:
    before, earlier, after = (
        [(name, OWN, 5), ("train", OWN, line), ("<module>", OWN, 30)]
        for name, line in zip(("load", "inner", "loss"), lines, strict=True)
    )
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(700, 710, "backward", correlation=1)],
        api=[e.call(550, 560, correlation=1, tid=101)],
        nvtx=[
            e.push_pop(40, 60, "aten::empty, seq = 5, op_id = 1"),
            e.push_pop(100, 120, "aten::mm, seq = 5, op_id = 2"),
            e.push_pop(540, 570, "MmBackward0, seq = 5, op_id = 3", tid=101),
        ],
        extra_sql=s.python_stacks([(70, before), (50, earlier), (130, after)], kind=s.ON_CUDA),
    )
    report = open_report(path)
    arguments = (report.python_backtraces(), report.python_backtrace_frames(), report.nvtx())
    sites = launch_sites.launch_sites(report.gpu_ops(), report.api(), *arguments, between=between)
    line = sites["line"].tolist()[0]
    assert (sites["how"][0], sites["function"][0], None if line is pd.NA else line) == expected


def test_what_two_paths_have_in_common() -> None:
    one = [("main", "a.py", 1), ("step", "a.py", 7), ("mul", "b.py", 3)]
    assert launch_sites.common(one, one) == tuple(one)
    assert launch_sites.common(one, one[:2]) == tuple(one[:2])
    assert launch_sites.common(one, [one[0], ("step", "a.py", 8)]) == (one[0], ("step", "a.py", None))
    assert launch_sites.common(one, [("other", "a.py", 1)]) == ()


def test_without_stacks_or_ranges_every_site_is_unknown(tmp_path: Path) -> None:
    report = open_report(e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(1, 2)], api=[e.call(0, 1)]))
    arguments = (report.api(), report.python_backtraces(), report.python_backtrace_frames(), report.nvtx())
    sites = launch_sites.launch_sites(report.gpu_ops(), *arguments)
    assert sites["how"].tolist() == ["none"] and sites["file"].tolist() == [""]
    assert launch_sites.summary(sites)["operations"].tolist() == [1]
    none = launch_sites.launch_sites(report.gpu_ops().iloc[:0], *arguments)
    assert len(none) == 0 and len(launch_sites.summary(none)) == 0


def test_the_line_of_a_stack_inside_libraries_is_the_innermost_one() -> None:
    frames = pd.DataFrame(
        {"backtrace": 0, "depth": [0, 1], "function": ["a", "b"], "file": [LIBRARY, LIBRARY], "line": [1, 2]}
    )
    assert launch_sites.site_of(frames).loc[0].tolist() == ["a", LIBRARY, 1]


def test_kernels_without_a_host_have_no_stacks(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 40.0, "dur": 80.0, "pid": 0, "tid": 7}
    file = tmp_path / "gpu.trace.json"
    kernel["args"] = {"device": 0, "stream": 7, "correlation": 1}
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kernel]}), encoding="utf-8")
    with open_trace(file) as report:
        assert len(report.gpu_ops()) == 1 and stacks.of_trace(report, "modules").empty
