"""Part pytorch: PyTorch's own answers, and those on the unseen captures."""

import json
import warnings
from pathlib import Path
from typing import Any

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


def test_the_exam_has_a_straggler_and_a_cause() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    tasks = [read(*part(short)) for short in ("pytorch-ex03a", "pytorch-ex03b")]
    found, (range_, extra) = (task.expect(*task.exam(captures)) for task in tasks if task.exam)
    assert found["straggler"] == 1 and found["waits"][0] > found["exchange_ns"]
    assert range_ == "more to do" and extra > 5_000_000


def test_the_unseen_capture_has_the_problems_that_were_planted() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    planted = captures.record("bottleneck_hunt", "exam_baseline")["parameters"]["problems"]
    cases, find = beside(*part("pytorch-ex04a"), "cases"), names_of(solution("pytorch-ex04a"))["find"]
    before, after = (cases.recorded(captures, run) for run in ("exam_baseline", "improved"))
    assert set(find(before.ops, before.steps)) == set(planted)
    assert find(after.ops, after.steps) == {}
