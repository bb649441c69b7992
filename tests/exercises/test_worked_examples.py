"""The worked example of each starter: what its text says comes out, and what its solution gives."""

import ast
import contextlib
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labcode.grading.inputs import ops_table, table
from labcode.grading.task import beside, importable
from labcode.verbs.diagnose.verdicts import run
from tests.exercises.support import CODE, ROOT, names_of, part, solution
from tests.support import exports as e


def text_of(short: str) -> list[str]:
    with contextlib.suppress(SyntaxError):  # a query
        return (ast.get_docstring(ast.parse(solution(short))) or "").splitlines()
    return []


def examples(lines: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """What stands before each arrow, a call or a name, and the value behind it."""
    for number, line in enumerate(lines):
        before, arrow, after = line.partition("-> ")
        if not arrow:
            continue
        asked = re.split(r"\s{2,}", before.strip())[-1]
        for begin in range(number - 1, number if asked else -1, -1):
            if is_call(asked := " ".join(lines[begin:number]).strip()):
                break
        with contextlib.suppress(ValueError):
            yield asked, literal(after, lines[number + 1 :], len(before) + 1)


def in_a_sentence(short: str) -> list[tuple[str, Any, Any]]:
    """Calls such as ``tiles(5, 4, 2) is 6``: the call, what it gives, what the text says."""
    found = []
    text, names = "\n".join(text_of(short)), names_of(solution(short), short)
    for one in re.finditer(
        r"(\w+)(\((?:[^()]|\([^()]*\))*\)) is (\([^()]*\)|\{[^{}]*\}|[\d.]*\d(?:e\d+)?|'\w+')", text
    ):
        if one[1] in names:
            given = ast.literal_eval(one[2][:-1] + ",)")
            found.append((one[0], names[one[1]](*given), ast.literal_eval(one[3])))
    return found


@pytest.mark.parametrize("short", [one for one in CODE if in_a_sentence(one)])
def test_a_call_in_a_sentence_gives_what_the_sentence_says(short: str) -> None:
    for call, gives, says in in_a_sentence(short):
        assert gives == (pytest.approx(says, rel=2e-3) if isinstance(says, float) else says), call


def named(lines: Sequence[str]) -> dict[str, Any]:
    """What the text gives names to: ``layers = [(100, 400)]``."""
    found = {}
    for number, line in enumerate(lines):
        for one in re.finditer(r"([a-z]+) +(?==)", line):
            with contextlib.suppress(ValueError):
                found[one[1]] = literal(line[one.end() + 1 :], lines[number + 1 :], 0)
    return found


def literal(text: str, following: Sequence[str], column: int) -> Any:
    """The value that a text begins with; it may go on in the next lines, beside a table from a column on."""
    for line in [*following[:5], ""]:
        for end in [found.start() for found in re.finditer(r"\s|$", text)]:
            with contextlib.suppress(SyntaxError, ValueError):
                return ast.literal_eval(text[:end].strip(" ,:").replace("…", ""))
        text += " " + (line[column:] if line[column : column + 2].isspace() else line.strip())
    raise ValueError(text)


def is_call(text: str) -> bool:
    with contextlib.suppress(SyntaxError):
        return "…" not in text and isinstance(ast.parse(text, mode="eval").body, ast.Call)
    return False


def table_in(short: str) -> list[dict[str, Any]]:
    """The rows of a table in a part's text, by their columns; what is no number is a text."""
    lines = text_of(short)
    head = re.compile(r"    +[a-z_]+(  +[a-z_]+)+")
    begin = next(number for number, line in enumerate(lines) if head.fullmatch(line))
    names = lines[begin].split()
    rows = []
    for line in lines[begin + 1 :]:
        cells = re.split(r"\s{2,}", line.strip())
        cells = cells if len(cells) >= len(names) else line.split()
        if len(cells) < len(names):
            break
        rows.append(dict(zip(names, map(number_or_text, cells), strict=False)))
    return rows


def number_or_text(cell: str) -> Any:
    try:
        return ast.literal_eval(cell)
    except (SyntaxError, ValueError):
        return cell


def alike(found: Any, wanted: Any) -> bool:
    """Whether they are the same, numbers as far as the text gives their digits."""
    if isinstance(found, np.ndarray | np.generic):
        found = found.tolist()
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(alike(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(found, type(wanted)) and len(found) == len(wanted)
        return same and all(map(alike, found, wanted))
    if isinstance(wanted, float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=3e-4, abs_tol=5e-5)
    return bool(found == wanted)


def rows(names: str, *cells: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in cells]


def frame(names: str, *cells: tuple[Any, ...]) -> pd.DataFrame:
    return pd.DataFrame(cells, columns=names.split())


TIMES = "start_ns end_ns"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
DIAGNOSED = [
    *("kernel", "duration_ns", "instructions", "thread_instructions", "shared_loads", "shared_wavefronts"),
    *("local_loads", "local_stores", "l2_atomics", "slices_mean_pct", "slices_busiest_pct", "issued"),
    *beside(*part("compute-ex06a"), "cases").STATES,
]
# Of parts what their texts say in words or in tables that stand beside others.
GIVEN: dict[str, dict[str, Any]] = {
    "nsys-ex01a": {"ops": ops_table(table_in("nsys-ex01a"))},
    "nsys-ex01b": {
        "ops": ops_table(rows(f"{TIMES} pid correlation", (10, 40, 71, 3), (90, 120, 71, 5))),
        "api": table(
            rows(
                f"{TIMES} pid tid correlation name",
                (30, 45, 71, 71, 4, "cudaDeviceSynchronize"),
                (80, 88, 71, 71, 5, "cudaLaunchKernel"),
            ),
            "api",
        ),
        "nvtx": table(
            rows(f"{TIMES} pid tid name", (0, 200, 71, 71, "step 0"), (42, 78, 71, 71, "load batch")), "nvtx"
        ),
    },
    "nsys-ex02a": {"kernels": table(table_in("nsys-ex02a"), "kernels")},
    "nsys-ex02b": {
        "kernels": table(rows(f"{TIMES} correlation", (20, 50, 1), (52, 90, 2), (120, 140, 3)), "kernels"),
        "api": table(rows(f"{TIMES} correlation", (10, 15, 1), (16, 22, 2), (105, 112, 3)), "api"),
    },
    "nsys-ex03a": {
        "copies": table(table_in("nsys-ex03a"), "memcpys"),
        "ops": ops_table(
            rows(
                f"{TIMES} kind",
                *((one["start_ns"], one["end_ns"], "memcpy") for one in table_in("nsys-ex03a")),
                (250_000, 450_000, "kernel"),
            )
        ),
    },
    "nsys-ex04a": {
        "kernels": table(
            rows(
                f"{TIMES} device name",
                *((0, 100, 0, "gemm"), (60, 180, 0, NCCL), (0, 140, 1, "gemm"), (140, 180, 1, NCCL)),
            ),
            "kernels",
        )
    },
    "compute-ex05a": {
        "table": pd.DataFrame(
            [
                (0, 12800, 12800, 100, 400, 100, 400, 12800, 2000, 50.0),
                (1, 12800, 12800, 100, 3200, 100, 3200, 51200, 2000, 50.0),
            ],
            columns=list(beside(*part("compute-ex05a"), "cases").COLUMNS),
        )
    },
    "compute-ex06a": {
        "table": pd.DataFrame(table_in("compute-ex06a"))
        .rename(columns={"thread_": "thread_instructions"})
        .reindex(columns=DIAGNOSED, fill_value=0.0)
    },
    **{
        short: {"table": pd.DataFrame(table_in(short))}
        for short in ("compute-ex01a", "compute-ex03a", "compute-ex04a", "compute-ex08b", "compute-ex11a")
    },
    "advanced-ex02b": {
        "ranges": frame(
            f"{TIMES} pid tid name",
            *((0, 1000, 1, 1, "lab:measured"), (0, 300, 1, 1, "data wait"), (500, 800, 1, 1, "data wait")),
            *((0, 20, 2, 2, "read"), (20, 60, 2, 2, "decode"), (60, 200, 2, 2, "transform")),
            *((100, 140, 3, 3, "read"), (140, 180, 3, 3, "decode"), (180, 280, 3, 3, "transform")),
        ),
        "ops": frame(f"{TIMES} stream", (300, 400, 7), (350, 450, 13), (800, 900, 7)),
    },
    "advanced-ex05a": {
        "samples": frame("sample thread_state", (1, "running"), (2, "running"), (3, "blocking wait")),
        "frames": pd.DataFrame(table_in("advanced-ex05a")),
    },
    "advanced-ex05b": {
        "running": frame(f"pid tid {TIMES}", (7, 7, -20, 90), (7, 8, 10, 30), (9, 8, 95, 300)),
        "samples": frame(
            "sample start_ns pid tid thread_state", (1, 20, 7, 7, "running"), (2, 40, 7, 7, "running")
        ),
        "frames": frame(
            "sample depth function file",
            *((1, 0, "loads", "json.py"), (1, 1, "decode", "app/d.py"), (1, 2, "main", "app/m.py")),
            (2, 0, "main", "app/m.py"),
        ),
    },
    "advanced-ex06b": {
        "calls": pd.DataFrame(table_in("advanced-ex06b")),
        "gaps": frame(f"{TIMES} device", (100, 500, 0)),
    },
    "advanced-ex07b": {"ranges": table(table_in("advanced-ex07b"), "nvtx")},
    "pytorch-ex01b": {
        "events": frame(
            f"id tid name {TIMES}",
            *((1, 7, "aten::linear", 0, 100), (2, 7, "aten::mm", 10, 60)),
            *((3, 7, "aten::add_", 70, 90), (4, 9, "aten::mm", 20, 50)),
        ),
        "kernels": frame(f"event stream {TIMES}", (2, 7, 60, 160), (3, 7, 160, 180), (4, 13, 150, 250)),
    },
    "pytorch-ex02a": {
        "before": frame("addr size", (5, 100)),
        "events": frame(
            "action addr size site",
            *(("alloc", 1, 40, "a.py:3"), ("segment_alloc", 9, 512, ""), ("alloc", 2, 60, "b.py:7")),
            *(("free_requested", 1, 40, ""), ("free_completed", 1, 40, ""), ("alloc", 1, 20, "b.py:7")),
        ),
    },
    "pytorch-ex02b": {
        "history": frame(
            "t_us action addr size stack",
            *((10 * n, "alloc", n, 100, n % 2) for n in range(5)),
            *((50, "alloc", 5, 100, 2), (60, "alloc", 6, 100, 0)),
            *((70, "free_requested", 5, 100, 2), (80, "snapshot", 0, 0, 0)),
        ),
        "stacks": [["a.py:1 f"], ["b.py:1 f"], ["c.py:1 f"]],
    },
    "pytorch-ex03a": {
        "collectives": frame(
            f"rank group {TIMES}",
            *((0, "0", 0, 100), (0, "0", 200, 260), (1, "0", 60, 100), (1, "0", 210, 260), (2, "0", 10, 100)),
        )
    },
    "pytorch-ex03b": {
        "ops": frame(
            f"rank range {TIMES}",
            *((0, "forward", 0, 80), (0, "log", 300, 900)),
            *((1, "forward", 0, 80), (1, "evaluate", 90, 180), (1, "log", 300, 310)),
        ),
        "collectives": frame(f"rank group {TIMES}", (0, "0", 100, 200), (1, "0", 190, 200)),
    },
    "pytorch-ex04a": {
        "ops": frame(
            "kind name op outer_op annotation pass python",
            ("kernel", "add<float>", "aten::mul", "aten::mul", "batch", "", "m.py(5): batch_of"),
            ("kernel", "add<double>", "aten::add", "aten::add", "", "optimizer", "t.py(3): one_step"),
            *(
                ("memcpy", "memcpy D2H", "aten::_local_scalar_dense", "aten::item", "log", "", python)
                for python in ("m.py(9): write_norms", "t.py(3): one_step")
            ),
        )
    },
    "pytorch-ex04b": {
        "ops": frame(
            f"{TIMES} cpu_start_ns cpu_end_ns problem",
            *(
                (50, 58, 30, 62, "item"),
                (10, 30, 5, 15, "layout"),
                (20, 35, 15, 30, ""),
                (70, 95, 62, 70, ""),
            ),
        ),
        "waits": frame(TIMES, (40, 60)),
    },
}
FIRST, SECOND = (f"part(*map(array, ([1.0], keys, values, table)), {ends})" for ends in ("0, 2", "2, 3"))
ROW = "(table.to_dict('records')[%d])"
# Calls that texts abridge.
CALLS = {
    "busy_intervals": "busy_intervals(ops, (0, 100))",
    "gpu_idle_share": "gpu_idle_share(ops, (0, 100))",
    "longest_gaps(…, count=2)": "longest_gaps(ops, (0, 100), 2)",
    **{name: f"{name}(kernels)" for name in ("time_at_least", "average_concurrency", "overlapping_streams")},
    "achieved_gb_per_s": "achieved_gb_per_s(copies)",
    "hidden_copy_share": "hidden_copy_share(ops)",
    "evidence of K1": f"evidence{ROW % 0}",
    "uses of K1": f"uses{ROW % 0}",
    "next_step of K3": f"next_step{ROW % 2}",
    "folded": "folded(samples, frames)",
    "times": "times(samples, frames)",
    "busy_threads": "busy_threads(running, window)",
    "cause": "cause(samples, frames, running, window, own)",
    "part([1.0], …, 0, 2)": FIRST,
    "part([1.0], …, 2, 3)": SECOND,
    "join of both": f"join([{FIRST}, {SECOND}])",
    "scaling": "scaling({1: 80.0, 2: 50.0, 4: 40.0}, 'strong')",
    "drops_at with least 0.75": "drops_at({1: 80.0, 2: 50.0, 4: 40.0}, 'strong', 0.75)",
    "x = 1/2, 3/4 and y = 1/1.6 - 1/2, 1/2 - 1/4: serial_share": "serial_share({1: 80.0, 2: 50.0, 4: 40.0})",
}
OF_ARRAYS = ("compute-ex12a", "compute-ex13a")
ELSEWHERE = {"compute-ex07a": "test_compute_roofs", "advanced-ex03a": "files, below"}
ASKED = [
    short
    for short in CODE
    if short not in ELSEWHERE
    and any(is_call(CALLS.get(asked, asked)) for asked, _ in examples(text_of(short)))
]


def check(short: str, **given: Any) -> int:
    """How many calls of a part's text there are, all of which give what it says."""
    lines = text_of(short)
    names = names_of(solution(short), short) | named(lines) | {"array": np.array, "inf": math.inf} | given
    calls = [(CALLS.get(asked, asked), wanted) for asked, wanted in examples(lines)]
    for call, wanted in calls:
        if short in OF_ARRAYS:
            call = re.sub(r"\[\[.*?\]\]|\[[^][]*\]", r"array(\g<0>)", call)
        if is_call(call):
            assert alike(eval(call, dict(names)), wanted), (call, wanted)
    return len(calls)


@pytest.mark.parametrize("short", ASKED)
def test_the_solution_gives_what_the_text_says(short: str) -> None:
    with importable(str(ROOT / "solutions" / part(short)[0].folder)):  # of part a
        check(short, **GIVEN.get(short, {}))


def test_examples_are_found_wherever_they_stand() -> None:
    assert len(ASKED) >= 40 and GIVEN.keys() <= {*ASKED}
    text = ["    name  count     f(1)  ->  {1: 2,", "    a         3                2: 3}"]
    found = [*examples([*text, "    g(", "  2)", "   -> 0.3 (of 1)"])]
    assert found == [("f(1)", {1: 2, 2: 3}), ("g(   2)", 0.3)]
    assert not alike([1.0], [1.001]) and not alike((1,), [1]) and not alike({1: 2}, {2: 2})
    assert table_in("nsys-ex02a")[0] == {"start_ns": 10, "end_ns": 40, "stream": 7}


def test_of_files(tmp_path: Path) -> None:
    kernels = tmp_path / "loop_cuda_gpu_kern_sum.csv"
    kernels.write_text('Time (%),Total Time (us),Name\n75.0,1.5,"gemm<float, 4>(int)"\n25.0,0.5,scale(int)\n')
    calls = "Total Time (ns),Num Calls,Name\n700,2,cudaStreamSynchronize\n300,9,cudaLaunchKernel\n"
    (tmp_path / "loop_cuda_api_sum.csv").write_text(calls)
    assert check("advanced-ex03a", folder=tmp_path) == 5


def test_what_texts_tell_in_words() -> None:
    ring = names_of(solution("compute-ex09a"))
    column = [(row, 2) for row in range(8)]
    assert (ring["turns"](column, False), ring["turns"](column, True)) == (8, 1)
    assert sorted(ring["address"](1, chunk) for chunk in range(8)) == list(range(128, 256, 16))
    tile = [[1.0, 2.0], [3.0, 4.0]]
    block_tile = names_of(solution("compute-ex08a"))
    assert block_tile["multiply"]([[10.0]], tile, tile, 1, 0) == [[10.0 + 3 * 1 + 4 * 3]]
    assert names_of(solution("advanced-ex02a"))["taken"]([10, 10, 30, 10, 10], 8, 2, 1) == [
        10,
        18,
        40,
        48,
        56,
    ]
    calls, gaps = pd.DataFrame(table_in("advanced-ex06a")), frame(f"{TIMES} device", (100, 600, 0))
    found = names_of(solution("advanced-ex06a"))["waits"](calls, gaps, (0, 1000))
    assert found == [(7, 7, "lock", 100), (7, 7, "read", 200)]
    cause, given = names_of(solution("pytorch-ex03b"))["cause"], GIVEN["pytorch-ex03b"]
    assert cause(given["ops"], given["collectives"], 1, 90) is None
    assert cause(given["ops"].iloc[:0], given["collectives"], 1, 0) is None


def asked(short: str, export: Path, *columns: str) -> list[list[object]]:
    return names_of(solution(short), short)["answer"](export, list(columns))  # type: ignore[no-any-return]


def test_advanced_ex04a(tmp_path: Path) -> None:
    kernels = [
        e.kernel(100, 140, pid=310, correlation=1),
        e.kernel(100, 140, pid=77, correlation=1),
        e.kernel(150, 160, pid=310, correlation=2),
    ]
    export = e.make_export(tmp_path / "a.sqlite", kernels=kernels)
    columns = "pid", "device", "context", "stream", "kernels", "total_ns"
    assert asked("advanced-ex04a", export, *columns) == [[77, 0, 1, 7, 1, 40], [310, 0, 1, 7, 2, 50]]


def test_advanced_ex04b(tmp_path: Path) -> None:
    ranges = [
        e.push_pop(0, 100, "step"),
        e.push_pop(120, 150, "step"),
        e.start_end(0, None, "epoch", registered=True),
        e.mark(5, "start"),
    ]
    export = e.make_export(tmp_path / "a.sqlite", nvtx=ranges)
    found = asked("advanced-ex04b", export, "range", "instances", "open", "total_ns")
    assert found == [["step", 2, 0, 130], ["epoch", 1, 1, 0]]


def test_advanced_ex04c(tmp_path: Path) -> None:
    export = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[
            e.kernel(50, 60, "scale(int)", correlation=1),
            e.kernel(90, 95, "scale(int)", correlation=8),
        ],
        api=[e.call(20, 30, correlation=1), e.call(0, 5, correlation=1, pid=7)],
    )
    found = asked("advanced-ex04c", export, "kernel", "kernels", "launched", "mean_wait_ns")
    assert found == [["scale", 2, 1, 30.0]]


def test_advanced_ex04d(tmp_path: Path) -> None:
    export = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(90, 120)],
        memcpys=[e.memcpy(110, 130)],
        graphs=[e.graph_launch(160, 170)],
        memsets=[e.memset(165, 180, pid=7)],
        nvtx=[e.push_pop(100, 190, "lab:measured"), e.push_pop(105, 200, "lab:measured", pid=7)],
    )
    assert asked("advanced-ex04d", export, "device", "busy_ns", "idle_ns") == [[0, 50, 50]]


def test_advanced_ex08a(tmp_path: Path) -> None:
    s = names_of(solution("advanced-ex08a"), "advanced-ex08a")
    export = e.make_export(
        tmp_path / "a.sqlite",
        memcpys=[e.memcpy(0, 200, kind=1), e.memcpy(880, 1000, kind=2)],
        kernels=[e.kernel(150, 900)],
        nvtx=[e.push_pop(0, 1000, "lab:measured")],
    )
    assert s["say"](export) == {"status": "found", "share": 0.25, "gain": 0.25, "evidence": [200, 120]}


def test_the_rule_can_be_used_by_the_command(tmp_path: Path) -> None:
    exercise, found = part("advanced-ex08a")
    export = e.make_export(tmp_path / "a.sqlite", memcpys=[e.memcpy(0, 200)], kernels=[e.kernel(150, 900)])
    output = io.StringIO()
    file = ROOT / "solutions" / exercise.path(found)
    run(export, fmt="json", only=["exposed-copies"], rule_files=[file], window="0ms..", output=output)
    assert json.loads(output.getvalue())["verdicts"][0]["status"] == "found"
