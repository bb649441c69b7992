"""Part pytorch: the worked examples, PyTorch's own answers, and those on the unseen captures."""

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.memory import history as memory_history
from labcode.analysis.stats.kineto_ops import op_summary
from labcode.errors import LabError
from labcode.grading.cases import Case
from labcode.grading.task import beside, read
from labcode.reports.kineto.report import open_trace
from labcode.reports.memory.history import open_history
from labcode.store import CaptureSet
from tests.exercises.support import names_of, part, solution
from tests.support import histories, traces
from tests.support.sets import make_set


def test_a_schedule() -> None:
    s = names_of(solution("pytorch-ex01a"))
    one_cycle = ["off", "warm-up", "record", "hand over"]
    assert s["phases"](9, 1, 1, 2, 2, 0) == [*one_cycle, *one_cycle, "off"]
    assert s["traces"](7, 1, 1, 2, 2, 0) == [[2, 3], [6]]
    assert s["traces_without_step"](7, 1, 1, 2, 0, 0) == []
    assert s["traces_without_step"](4, 0, 0, 2, 0, 0) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("plan", [(1, 1, 2, 2, 0), (0, 0, 3, 0, 0), (2, 1, 1, 1, 3), (1, 0, 2, 0, 1)])
@pytest.mark.parametrize("calls_step", [True, False])
def test_the_profiler_does_what_the_solution_says(plan: tuple[int, ...], calls_step: bool) -> None:
    s = names_of(solution("pytorch-ex01a"))
    torch = pytest.importorskip("torch")
    profiler = torch.profiler
    got: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no warm-up
        schedule = profiler.schedule(
            **dict(zip(("wait", "warmup", "active", "repeat", "skip_first"), plan, strict=True))
        )
        words = {"NONE": "off", "WARMUP": "warm-up", "RECORD": "record", "RECORD_AND_SAVE": "hand over"}
        assert [words[schedule(step).name] for step in range(12)] == s["phases"](12, *plan)

        def ready(recorded: object) -> None:
            events = recorded.key_averages()  # type: ignore[attr-defined]
            got.append(sum(event.count for event in events if event.key == "aten::mm"))

        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=ready
        ) as running:
            for _ in range(6):
                torch.eye(2) @ torch.eye(2)
                if calls_step:
                    running.step()
    wanted = s["traces" if calls_step else "traces_without_step"](6, *plan)
    assert [count for count in got if count] == [len(trace) for trace in wanted]


def test_the_profilers_table() -> None:
    s = names_of(solution("pytorch-ex01b"))
    rows = [
        (1, 7, "aten::linear", 0, 100),
        (2, 7, "aten::mm", 10, 60),
        (3, 7, "aten::add_", 70, 90),
        (4, 9, "aten::mm", 20, 50),
    ]
    events = pd.DataFrame(rows, columns=["id", "tid", "name", "start_ns", "end_ns"])
    ran = [(2, 7, 60, 160), (3, 7, 160, 180), (4, 13, 150, 250)]
    kernels = pd.DataFrame(ran, columns=["event", "stream", "start_ns", "end_ns"])
    wanted = {
        "aten::linear": (1, 30, 100, 0, 120),
        "aten::mm": (2, 80, 80, 200, 200),
        "aten::add_": (1, 20, 20, 20, 20),
    }
    assert s["summary"](events, kernels) == wanted
    assert s["busy_ns"](kernels) == 190


def _set(folder: Path, experiment: str, **files: Path) -> CaptureSet:
    """A set with an experiment of runs of one file each."""
    runs = {run: {run + "".join(file.suffixes[-3:]): file.read_bytes()} for run, file in files.items()}
    place = make_set(folder / "set", {experiment: runs})
    return store.parse_manifest(json.loads((place / "manifest.json").read_text()), place)


def examined(short: str, captures: CaptureSet) -> tuple[Any, list[Case]]:
    """A part, and its cases on captures, each with its right answer known."""
    task = read(*part(short))
    assert task.exam is not None
    cases = task.exam(captures)
    for case in cases:
        task.expect(case)
    return task, cases


def test_the_table_of_an_unseen_trace_is_the_books(tmp_path: Path) -> None:
    """Up to what the book's table adds: calls of CUDA, and operators that are one with their only child."""
    file = traces.training(tmp_path, packed=True)[0]
    captures = _set(tmp_path, "torch_profiler", exam_baseline=file)
    task, cases = examined("pytorch-ex01b", captures)
    assert [case.function for case in cases] == ["summary", "busy_ns"] and all(case.exam for case in cases)
    found, kernels = task.expect(cases[0]), cases[1].arguments[0]
    theirs = op_summary(open_trace(file))
    theirs = (
        theirs[theirs["device_type"] == "CPU"].groupby("name")[["device_self_ns", "device_total_ns"]].sum()
    )
    assert len(kernels) and len(found) > 5
    for name, row in found.items():
        if not name.startswith("ProfilerStep#"):
            assert row[3:] == theirs.loc[name].tolist(), name
    assert "of what the GPU did" in task.notes(captures)[0]


def test_in_use_and_at_the_peak() -> None:
    s = names_of(solution("pytorch-ex02a"))
    before = pd.DataFrame({"addr": [5], "size": [100]})
    rows = [
        ("alloc", 1, 40, "a.py:3"),
        ("segment_alloc", 9, 512, ""),
        ("alloc", 2, 60, "b.py:7"),
        ("free_requested", 1, 40, ""),
        ("free_completed", 1, 40, ""),
        ("alloc", 1, 20, "b.py:7"),
    ]
    events = pd.DataFrame(rows, columns=["action", "addr", "size", "site"])
    assert s["live_bytes"](before, events) == [140, 140, 200, 160, 160, 180]
    assert s["peak"](before, events) == (200, 2)
    assert s["holders"](before, events) == {"before": 100, "a.py:3": 40, "b.py:7": 60}


def test_a_leak() -> None:
    s = names_of(solution("pytorch-ex02b"))
    rows = [(10 * n, "alloc", n, 100, 0 if n % 2 == 0 else 1) for n in range(5)]
    rows += [
        (50, "alloc", 5, 100, 2),
        (60, "alloc", 6, 100, 0),
        (70, "free_requested", 5, 100, 2),
        (80, "snapshot", 0, 0, 0),
    ]
    history = pd.DataFrame(rows, columns=["t_us", "action", "addr", "size", "stack"])
    stacks = [["a.py:1 f"], ["b.py:1 f"], ["c.py:1 f"]]
    assert s["leaks"](history, stacks) == [(0, 4, 400)]
    assert s["time_left"](history, stacks, 1000) == pytest.approx(200.0)
    frames = [
        "site-packages/torch/nn/modules/linear.py:130 forward",
        "model.py:12 forward",
        "train.py:5 step",
    ]
    assert s["caller"](frames) == "model.py:12 forward"


def test_the_answers_on_unseen_histories_are_the_books(tmp_path: Path) -> None:
    file = histories.write(tmp_path, histories.leaking(12))
    captures, history = _set(tmp_path, "torch_memory", exam_hook=file, exam_cache=file), open_history(file)
    (live, live_cases), (leak, leak_cases) = (examined(f"pytorch-ex02{x}", captures) for x in "ab")
    right = {case.function: live.expect(case) for case in live_cases[:3]}
    assert right["peak"][0] == memory_history.live_bytes(history)["live_bytes"].max()
    theirs = memory_history.peak(history).set_index("site")["bytes"].rename({memory_history.BEFORE: "before"})
    assert right["holders"] == theirs.to_dict()
    caller = names_of(solution("pytorch-ex02b"))["caller"]
    found = [caller(history.stacks[number]) for number, _, _ in leak.expect(leak_cases[0])]
    assert found == list(memory_history.leaks(history)["site"])
    assert (len(live_cases), len(leak_cases)) == (6, 4)
    assert "a forward hook" in leak.notes(captures)[0]
    assert "holds" in live.notes(captures)[0]


def test_a_set_without_the_captures_is_one_line(tmp_path: Path) -> None:
    captures = store.parse_manifest(
        {"schema": 1, "set": "s", "machines": {}, "experiments": {}}, tmp_path / "s"
    )
    with pytest.raises(LabError, match=r"has no run exam_baseline of torch_profiler"):
        examined("pytorch-ex01b", captures)
    with pytest.raises(LabError, match=r"has no run exam_hook of torch_memory"):
        examined("pytorch-ex02b", captures)


COLUMNS = ["rank", "group", "start_ns", "end_ns"]


def test_meetings() -> None:
    rows = [(0, "0", 0, 100), (0, "0", 200, 260), (1, "0", 60, 100), (1, "0", 210, 260), (2, "0", 10, 100)]
    assert names_of(solution("pytorch-ex03a"))["meetings"](pd.DataFrame(rows, columns=COLUMNS)) == {
        "meetings": 1,
        "waits": {0: 60, 1: 0, 2: 50},
        "waited_for": {0: 0, 1: 110, 2: 0},
        "exchange_ns": 40,
        "straggler": 1,
    }


def test_cause() -> None:
    rows = [(0, "forward", 0, 80), (0, "log", 300, 900), (1, "forward", 0, 80), (1, "evaluate", 90, 180)]
    ops = pd.DataFrame([*rows, (1, "log", 300, 310)], columns=["rank", "range", "start_ns", "end_ns"])
    meets = pd.DataFrame([(0, "0", 100, 200), (1, "0", 190, 200)], columns=COLUMNS)
    cause = names_of(solution("pytorch-ex03b"))["cause"]
    assert cause(ops, meets, 1, 10) == ["evaluate", 90.0]
    assert cause(ops, meets, 1, 90) is None
    assert cause(ops.iloc[:0], meets, 1, 0) is None


def test_the_exam_has_a_straggler_and_a_cause() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    tasks = [read(*part(short)) for short in ("pytorch-ex03a", "pytorch-ex03b")]
    found, (range_, extra) = (task.expect(*task.exam(captures)) for task in tasks if task.exam)
    assert found["straggler"] == 1 and found["waits"][0] > found["exchange_ns"]
    assert range_ == "more to do" and extra > 5_000_000


def test_finding() -> None:
    columns = ["kind", "name", "op", "outer_op", "annotation", "pass", "python"]
    read = ("aten::_local_scalar_dense", "aten::item", "log", "")
    rows = [
        ("kernel", "add<float>", "aten::mul", "aten::mul", "batch", "", "m.py(5): batch_of"),
        ("kernel", "add<double>", "aten::add", "aten::add", "", "optimizer", "t.py(3): one_step"),
        ("memcpy", "memcpy D2H", *read, "m.py(9): write_norms"),
        ("memcpy", "memcpy D2H", *read, "t.py(3): one_step"),
    ]
    found = names_of(solution("pytorch-ex04a"))["find"](pd.DataFrame(rows, columns=columns), 2)
    assert found == {"cpu_tensors": 1, "logging": 1, "item": 1}


def test_proving() -> None:
    columns = ["start_ns", "end_ns", "cpu_start_ns", "cpu_end_ns", "problem"]
    rows = [(50, 58, 30, 62, "item"), (10, 30, 5, 15, "layout"), (20, 35, 15, 30, ""), (70, 95, 62, 70, "")]
    waits = pd.DataFrame({"start_ns": [40], "end_ns": [60]})
    found = names_of(solution("pytorch-ex04b"), "pytorch-ex04b")["prove"](
        pd.DataFrame(rows, columns=columns), waits, (0, 100)
    )
    assert found == [["item", pytest.approx(100 / 68)], ["layout", pytest.approx(100 / 70)]]


def test_the_unseen_capture_has_the_problems_that_were_planted() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    planted = captures.record("bottleneck_hunt", "exam_baseline")["parameters"]["problems"]
    cases, find = beside(*part("pytorch-ex04a"), "cases"), names_of(solution("pytorch-ex04a"))["find"]
    before, after = (cases.recorded(captures, run) for run in ("exam_baseline", "improved"))
    assert set(find(before.ops, before.steps)) == set(planted)
    assert find(after.ops, after.steps) == {}
