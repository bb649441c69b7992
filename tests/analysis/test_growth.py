"""Events thousands deep, or beside each other: time and memory grow as they do, not with their square."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.stats.nsys.nvtx import Ranges, nest
from labcode.analysis.timeline import intervals, utilization
from labcode.analysis.timeline import links as kineto_links
from labcode.reports.kineto.report import open_trace
from labcode.verbs.stats import print_all
from tests.support.exports import make_export, push_pop
from tests.support.growth import memory_growth, time_growth
from tests.support.traces import Trace


@pytest.mark.parametrize("function", [intervals.parents, intervals.innermost])
def test_nested_intervals(function: object) -> None:
    def work(count: int) -> None:
        deep = np.arange(count)
        behind = 10 * count + 2 * deep  # in the outermost alone
        end = np.concatenate((np.where(deep, 3 * count - deep, 20 * count), behind + 1))
        function(np.concatenate((deep, behind)), end)  # type: ignore[operator]

    assert time_growth(work, 2_500, 20_000) < 24  # 64 where it grows with the square


def _ranges(start: np.ndarray, end: np.ndarray) -> Ranges:
    none = np.zeros(len(start), np.int64)
    return Ranges(start, end, none, np.arange(len(start)), none + 59, none, none == 0, ["a"])


def test_ranges_that_overlap_lie_in_the_shortest_that_holds_them() -> None:
    draw = np.random.default_rng(5)
    for _ in range(60):
        start = draw.integers(0, 30, 25)
        end = start + draw.integers(0, 12, 25)
        parent = nest(_ranges(start, end)).parent
        order = np.lexsort((np.arange(25), -end, start)).tolist()
        for place, row in enumerate(order):
            around = [(end[o] - start[o], o) for o in order[:place] if end[o] >= end[row]]
            assert parent[row] == (min(around)[1] if around else -1)


def test_ranges_that_hold_none_may_overlap_any() -> None:
    step, later = np.arange(0, 1000, 100), np.arange(0, 1000, 20)
    across = np.arange(90, 900, 100)  # from one step into the next
    parent = nest(
        _ranges(np.concatenate((step, later, across)), np.concatenate((step + 100, later + 9, across + 15)))
    ).parent
    assert (parent[:10] == -1).all() and (parent[10:60] == np.repeat(np.arange(10), 5)).all()
    assert (parent[60:] == -1).all()


def test_ranges_that_overlap_take_no_square_of_their_number() -> None:
    def work(count: int) -> None:
        nest(_ranges(10 * np.arange(count), 10 * np.arange(count) + 20 * count))

    assert time_growth(work, 2_000, 16_000) < 24


@pytest.mark.parametrize("fmt", ["csv", "table"])
def test_paths_of_ranges_are_not_held_together(fmt: str, tmp_path: Path) -> None:
    class Counted(io.StringIO):
        written = 0

        def write(self, text: str) -> int:
            self.written += len(text)
            return len(text)

    def work(count: int) -> None:
        output = Counted()
        print_all([tmp_path / f"{count}.sqlite"], ["nvtx_pushpop_trace"], fmt, output)
        assert output.written > 1_000 * count  # paths are written, each up to the cut

    for count in (1_200, 3_600):
        make_export(
            tmp_path / f"{count}.sqlite", nvtx=[push_pop(i, 3 * count - i, "r") for i in range(count)]
        )
    assert memory_growth(work, 1_200, 3_600) < 3  # 9 where all are held


def test_paths_of_python_frames_are_made_for_kernels_alone(tmp_path: Path) -> None:
    def work(count: int) -> None:
        file = tmp_path / f"{count}.trace.json"
        if not file.exists():
            trace = Trace()
            for i in range(count):
                trace.python(f"file.py({i}): f", i * 10, count * 30 - i * 10, i or None)
            number = trace.call("cudaLaunchKernel", count * 10 + 1, count * 10 + 5)
            trace.kernel("k", count * 10 + 10, count * 10 + 20, number)
            file.write_text(
                json.dumps({"schemaVersion": 1})[:-1] + ', "traceEvents": [' + ",".join(trace.events) + "]}"
            )
        (stack,) = kineto_links.op_kernel_trace(open_trace(file))["python_stack"]
        assert stack.count(";") == count - 1

    assert memory_growth(work, 1_000, 8_000) < 24


def test_busy_time_of_many_gpus() -> None:
    import pandas as pd

    def work(count: int) -> None:
        start = np.arange(count) * 10
        ops = pd.DataFrame({"device": np.arange(count), "start_ns": start, "end_ns": start + 5})
        assert (utilization.device_busy(ops)["busy_ns"] == 5).all()

    assert time_growth(work, 1_000, 8_000) < 24
