"""Hidden cases of part b (whose kernel is it?): a generator or captures in, cases out.

A made-up program has a thread that runs Python, whose CUDA calls mostly have a stack, and a thread of the
autograd engine, whose calls have none.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.grading.inputs import Recorder, Row
from labcode.grading.inputs import tables_of as recorded
from labcode.store import CaptureSet

Rng = np.random.Generator
Frame = tuple[str, str, int]  # function, file, line
Answered = Sequence[tuple[Case, Any]]
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]
EXPERIMENT, RUN = "python_backtraces", "exam_baseline"
MOST = 12  # entries of an answer that are shown
_TORCH = "site-packages/torch/nn/modules"
_INSIDE: tuple[Frame, ...] = (
    ("linear", "site-packages/torch/nn/functional.py", 2567),
    ("forward", f"{_TORCH}/linear.py", 125),
    ("_call_impl", f"{_TORCH}/module.py", 1790),
    ("_wrapped_call_impl", f"{_TORCH}/module.py", 1779),
)
_START: tuple[Frame, ...] = (
    ("_run_code", "<frozen runpy>", 88),
    ("_run_module_as_main", "<frozen runpy>", 198),
)


@dataclass
class _Program:
    """One process: its Python thread, its engine's thread, and the stacks that were taken."""

    rng: Rng
    pid: int
    module: str = "train.py"
    start: int = 1000
    seq: int = 0
    op_id: int = 50
    stacks: list[tuple[Row, tuple[Frame, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.python = Recorder(pid=self.pid, tid=self.pid, now=self.start)
        self.engine = Recorder(pid=self.pid, tid=self.pid + 54)
        self.engine.free = self.python.free
        base = int(self.rng.integers(20, 90))
        self.main: Frame = ("main", self.module, base)

    def frame(self, function: str, line: int, module: str = "model.py") -> Frame:
        """A frame of the program itself."""
        return function, module, line

    def stack(self, *own: Frame, inside: int = 0) -> tuple[Frame, ...]:
        """Own frames (outermost first) with the start of Python around and ``inside`` frames of torch within;
        a library's frames lie between own ones, too."""
        between = _INSIDE[2:]
        ordered: list[Frame] = [*_INSIDE[:inside]]
        for place, one in enumerate(reversed(own)):
            ordered += [one, *(between if place < len(own) - 1 and inside else ())]
        return (*ordered, self.main, *_START)

    @contextmanager
    def operation(self, name: str, *, numbered: bool = True, on: Recorder | None = None) -> Iterator[None]:
        """A range of PyTorch's autograd."""
        self.op_id += 1
        number = f", seq = {self.seq}" if numbered else ""
        with (on or self.python).range(f"{name}{number}, op_id = {self.op_id}"):
            yield

    def launch(self, stack: tuple[Frame, ...] | None = None, *, ns: int = 0, engine: bool = False) -> None:
        """A kernel, and the stack that nsys took at its call (none for calls it knows nothing of)."""
        recorder = self.engine if engine else self.python
        name = "cudaLaunchKernelExC" if stack is None and not engine else "cudaLaunchKernel"
        correlation = recorder.call(name, recorder.launch_ns)
        recorder._queue(
            "kernel",
            ns or int(self.rng.integers(2_000, 90_000)),
            7,
            correlation,
            name="kernel",
            short_name="kernel",
        )
        if stack is not None:
            self.take(stack, recorder.calls[-1])

    def take(self, stack: tuple[Frame, ...], call: Row | None = None) -> None:
        """A stack at a call; without one, a stack beside all calls."""
        at = call["start_ns"] if call is not None else self.python.now
        row: Row = {
            "start_ns": at,
            "pid": self.pid,
            "tid": self.python.tid,
            "call_name": call["name"] if call else "",
        }
        row["correlation"] = call["correlation"] if call else None
        self.stacks.append((row, stack))
        self.python.work(200)

    def plain(self, name: str, stack: tuple[Frame, ...], count: int = 1) -> int:
        """An operation whose calls have stacks; gives its sequence number."""
        self.seq += 1
        number = self.seq
        with self.operation(f"aten::{name}"):
            for _ in range(count):
                self.launch(stack)
        return number

    def product(self, stack: tuple[Frame, ...] | None = None) -> int:
        """A matmul inside aten::linear, launched by a call without a stack; with ``stack`` there is a
        copy before it, within aten::linear, that has one."""
        self.seq += 1
        with self.operation("aten::linear"):
            if stack is not None:
                with self.operation("aten::copy_", numbered=False):
                    self.launch(stack)
            self.seq += 1
            number = self.seq
            with self.operation("aten::addmm"):
                self.launch()
        return number

    def view(self) -> int:
        """An operation that launches nothing."""
        self.seq += 1
        number = self.seq
        with self.operation("aten::select"):
            self.python.work(800)
        return number

    def backward(
        self, name: str, number: int | None, *, kernels: int = 1, inner: bool = False, total: bool = False
    ) -> None:
        """The engine evaluates a node: kernels in an operation (with ``inner`` it has a number of its own),
        and with ``total`` one beside the node that adds gradients up."""
        engine, seq = self.engine, self.seq
        engine.now = max(engine.now, self.python.now + 500)
        engine.correlation = self.python.correlation = max(engine.correlation, self.python.correlation)
        with self.operation(f"autograd::engine::evaluate_function: {name}", numbered=False, on=engine):
            self.seq = number or 0
            with self.operation(name, numbered=number is not None, on=engine):
                self.seq = seq + 3
                with self.operation("aten::mul", numbered=inner, on=engine):
                    for _ in range(kernels):
                        self.launch(engine=True)
            if total:
                with self.operation("aten::add_", numbered=False, on=engine):
                    self.launch(engine=True)
        self.seq = seq
        self.python.correlation = engine.correlation
        self.python.now = engine.now + 500


def _tables(programs: Sequence[_Program]) -> Tables:
    """The tables ``gpu_ops``, ``api``, ``backtraces``, ``frames``, ``nvtx`` of some programs."""
    ops, api, nvtx = recorded([r for p in programs for r in (p.python, p.engine)])
    taken = sorted((pair for p in programs for pair in p.stacks), key=lambda pair: pair[0]["start_ns"])
    backtraces = pd.DataFrame(
        {
            "backtrace": pd.Series(range(len(taken)), dtype="int64"),
            "start_ns": pd.Series([row["start_ns"] for row, _ in taken], dtype="int64"),
            "pid": pd.Series([row["pid"] for row, _ in taken], dtype="int64"),
            "tid": pd.Series([row["tid"] for row, _ in taken], dtype="int64"),
            "correlation": pd.Series([row["correlation"] for row, _ in taken], dtype="Int64"),
            "call_name": pd.Series([row["call_name"] for row, _ in taken], dtype="str"),
        }
    )
    rows = [
        (number, depth, *frame)
        for number, (_, stack) in enumerate(taken)
        for depth, frame in enumerate(stack)
    ]
    frames = pd.DataFrame(rows, columns=["backtrace", "depth", "function", "file", "line"])
    return ops, api, backtraces, frames, nvtx


def _scenes(rng: Rng) -> list[tuple[str, Tables]]:
    """What the cases are about, and their tables, easy ones first."""
    makers = (
        ("every call has its stack", _plain),
        ("a helper that two lines call", _two_callers),
        ("matmuls without a stack of their own", _products),
        ("a matmul between two stacks", _between),
        ("a backward pass", _backward),
        ("backward kernels of views", _views),
        ("two processes that count alike", _processes),
        ("calls of which nothing is known", _unknown),
        ("a loop over heads", _loop),
        ("times that touch, numbers that come again", _edges),
    )
    return [(name, _tables(make(rng))) for name, make in makers]


def _program(rng: Rng, **more: int) -> _Program:
    return _Program(rng, pid=int(rng.integers(400, 4000)), seq=int(rng.integers(100, 900)), **more)  # type: ignore[arg-type]


def _line(rng: Rng) -> int:
    return int(rng.integers(10, 400))


def _plain(rng: Rng) -> list[_Program]:
    p = _program(rng)
    for inside in rng.permutation(5).tolist():
        p.plain("add", p.stack(p.frame("step", _line(rng)), p.frame("forward", _line(rng)), inside=inside))
    return [p]


def _two_callers(rng: Rng) -> list[_Program]:
    p = _program(rng)
    helper, first = p.frame("scale", _line(rng)), _line(rng)
    for line in (first, first + 4, first):
        p.plain("mul", p.stack(p.frame("forward", line), helper))
    return [p]


def _products(rng: Rng) -> list[_Program]:
    p = _program(rng)
    for place in range(3):
        p.plain("add", p.stack(p.frame("forward", 20 + place)))
        p.product(p.stack(p.frame("forward", 200 + _line(rng)), inside=4))
    p.plain("add", p.stack(p.frame("forward", 25)))
    return [p]


def _between(rng: Rng) -> list[_Program]:
    p, line = _program(rng), _line(rng)
    forward, block = p.frame("forward", line), p.frame("block", line + 40)
    p.plain("add", p.stack(forward, block))
    p.product()  # both neighbors on the same line
    p.plain("gelu", p.stack(forward, block, inside=2))
    p.product()  # in the same function, on another line
    p.plain("add", p.stack(forward, p.frame("block", line + 43)))
    p.product()  # in another function that is called from the same line
    p.plain("sum", p.stack(forward, p.frame("attend", line + 90)))
    p.product()  # the caller has gone on
    p.plain("sum", p.stack(p.frame("forward", line + 2), p.frame("loss", line + 120)))
    p.launch()  # a call outside of any operation
    p.plain("sum", p.stack(p.frame("forward", line + 2), p.frame("loss", line + 120)))
    return [p]


def _backward(rng: Rng) -> list[_Program]:
    p = _program(rng)
    numbers = []
    for _ in range(3):
        p.plain("where", p.stack(p.frame("kinds", _line(rng))))
        with p.operation("aten::remainder"):  # records nothing, so that the next has the same number
            p.launch(p.stack(p.frame("kinds", _line(rng))))
        p.seq -= 1
        numbers.append(p.plain("index", p.stack(p.frame("marks", _line(rng)), inside=2), 2))
    for place, number in enumerate(reversed(numbers)):
        p.backward("IndexBackward0", number, kernels=2, inner=place < 2, total=place > 0)
    p.plain("add_", p.stack(p.frame("optimize", _line(rng))))
    return [p]


def _views(rng: Rng) -> list[_Program]:
    p, line = _program(rng), _line(rng)
    p.plain("add", p.stack(p.frame("forward", line), p.frame("heads", line + 50)))
    first = p.view()
    p.plain("mul", p.stack(p.frame("forward", line), p.frame("heads", line + 50)))
    second = p.view()
    p.plain("mul", p.stack(p.frame("forward", line), p.frame("heads", line + 52)))
    third = p.product()
    p.plain("sum", p.stack(p.frame("forward", line + 1)))
    fourth = p.product(p.stack(p.frame("forward", line + 3)))  # whose stack lies in linear, before addmm
    p.plain("sum", p.stack(p.frame("forward", line + 9)))
    for number in (fourth, third, second, first):
        p.backward("SelectBackward0", number, kernels=2, total=number == second)
    return [p]


def _processes(rng: Rng) -> list[_Program]:
    first = _program(rng)
    second = _Program(rng, pid=first.pid + 700, module="worker.py", start=first.start + 7_000, seq=first.seq)
    second.main = ("work", "worker.py", 7)
    for p in (first, second):
        number = p.plain("index", p.stack(p.frame("marks", _line(rng))))
        p.product()
        p.plain("add", p.stack(p.frame("forward", _line(rng)), inside=3))
        p.backward("IndexBackward0", number, inner=True)
    return [second, first]


def _unknown(rng: Rng) -> list[_Program]:
    p = _program(rng)
    p.product()  # nothing before it
    p.product()
    p.plain("add", p.stack(p.frame("forward", _line(rng))))
    p.take(p.stack(p.frame("log", _line(rng))))  # a stack that belongs to no call
    p.backward("torch::autograd::AccumulateGrad", None, kernels=1)
    p.backward("AddBackward0", p.seq + 40, kernels=1)  # its forward operation was before the capture
    p.plain("add", p.stack(p.frame("forward", _line(rng))))
    p.launch()  # nothing after it
    p.python.ops[1] = {**p.python.ops[1], "correlation": 9_999_999}  # its call is not in the capture
    return [p]


def _loop(rng: Rng) -> list[_Program]:
    p, line = _program(rng), _line(rng)
    numbers = []
    for _ in range(int(rng.integers(3, 6))):
        numbers.append(p.view())
        numbers.append(p.product())
        p.plain("div", p.stack(p.frame("mix", line), p.frame("heads", line + 30)))
        numbers.append(p.plain("softmax", p.stack(p.frame("mix", line), p.frame("heads", line + 31))))
        p.product()
    p.plain("add", p.stack(p.frame("mix", line + 2)))
    for number in reversed(numbers):
        p.backward("Backward0", number, total=True)
    return [p]


def _edges(rng: Rng) -> list[_Program]:
    """Two Python threads and the engine, at times on purpose: each rule at its ends."""
    p, line = _program(rng), _line(rng)
    q = _Program(rng, pid=p.pid)
    q.main = ("pool", "worker.py", line)
    base, unit = int(rng.integers(10**5, 10**6)), int(rng.integers(8_000, 20_000))
    for recorder, tid, correlation in ((p.python, 1, 100), (q.python, 2, 3000), (p.engine, 54, 6000)):
        recorder.tid, recorder.correlation = p.pid + tid, correlation

    def call(at: int, *own: Frame, on: _Program = p, engine: bool = False) -> None:
        (on.engine if engine else on.python).now = base + at * unit
        on.launch(on.stack(*own) if own else None, engine=engine)

    def opened(start: int, end: int | None, name: str, on: Recorder = p.python) -> None:
        row: Row = {"start_ns": base + start * unit, "pid": on.pid, "tid": on.tid, "name": name}
        on.ranges.append({**row, "event_type": "push_pop"})
        if end is not None:
            on.ranges[-1].update(end_ns=base + end * unit, end_tid=on.tid)

    def own(name: str, more: int) -> Frame:
        return p.frame(name, line + more)

    opened(0, 200, "training, step = 3")
    opened(2, None, "epoch, part = 1")
    call(1, own("step", 0))
    call(3)  # before the first operation
    opened(5, 20, "aten::mul, seq = 4")
    call(5, own("step", 1))
    call(8, own("step", 2), own("mix", 30))  # two stacks within one operation
    call(12)
    opened(20, 30, "aten::add, seq = 7")  # begins where the other ends
    call(22, own("step", 3))
    call(24)
    call(30, own("step", 5))
    opened(32, 40, "aten::copy_, op_id = 7")  # the next stack is taken at its end
    call(34)
    call(40, own("step", 6), own("mix", 31))
    call(44, own("log", 50))
    opened(50, 60, "aten::linear, seq = 8")
    opened(54, 60, "aten::addmm, seq = 9")  # ends with the one around it
    call(51, own("step", 7))
    call(55, own("step", 8))
    call(57)
    opened(70, 76, "aten::index, seq = 5")
    call(71, own("step", 9))
    opened(73, 75, "aten::index, seq = 5", q.python)  # began last, ended first
    call(74, own("work", 70), on=q)
    call(80, on=q)  # nothing in common around it
    q.main = ("close", "worker.py", line + 9)
    call(90, own("flush", 80), on=q)
    opened(96, 106, "aten::index_put_, seq = 5")  # has not ended when the engine begins
    call(97, own("step", 11))
    call(10, engine=True)  # in no operation
    opened(84, 90, "IndexBackward0, seq = 5", p.engine)
    call(86, engine=True)
    opened(92, 100, "MulBackward0, seq = 4", p.engine)
    call(94, engine=True)
    opened(100, 110, "IndexBackward0, seq = 5", p.engine)  # its own number, not the one inside
    opened(102, 108, "aten::mul, seq = 4, op_id = 90", p.engine)
    call(104, engine=True)
    opened(
        110, 120, "torch::autograd::AccumulateGrad, op_id = 91", p.engine
    )  # no number: the next is no help
    call(112, engine=True)
    opened(120, 130, "MulBackward0, seq = 4", p.engine)
    call(122, engine=True)
    return [p, q]


def _recursive(rng: Rng) -> list[_Program]:
    p = _program(rng)
    walk = p.frame("walk", 40)
    for depth in (1, 2, 3):
        p.plain("add", p.stack(p.frame("forward", 12), *[walk] * depth))
    return [p]


def _launch_case(name: str, tables: Tables, limit_s: float | None = None) -> Case:
    return Case(name, _summary(tables), "launch_paths", tables, show=_show_paths, limit_s=limit_s)


def _blame_case(name: str, tables: Tables) -> Case:
    ops = tables[0]
    arguments = ops, _paths_at_calls(tables)
    return Case(f"{name}: whose time", _summary(tables), "blame", arguments, show=_show_blame)


def _paths_at_calls(tables: Tables) -> list[list[Frame] | None]:
    """Of each operation the stack taken at its call, the outermost frame first; None where there is none."""
    ops, _, backtraces, frames, _ = tables
    stacks = stacks_of(frames)
    at_calls = backtraces[backtraces["correlation"].notna()]
    taken = zip(at_calls["pid"], at_calls["correlation"], at_calls["backtrace"], strict=True)
    at = {(pid, int(correlation)): stacks[number][::-1] for pid, correlation, number in taken}
    return [at.get(call) for call in zip(ops["pid"], ops["correlation"], strict=True)]


def stacks_of(frames: pd.DataFrame) -> dict[int, list[Frame]]:
    """The frames of each stack, the innermost first."""
    ordered = frames.sort_values(["backtrace", "depth"], kind="stable")
    found: dict[int, list[Frame]] = defaultdict(list)
    columns = (ordered[name].tolist() for name in ("backtrace", "function", "file", "line"))
    for number, function, file, line in zip(*columns, strict=True):
        found[number].append((function, file, line))
    return found


def text(path: Any) -> str:
    if path is None:
        return "None"
    return " > ".join(f"{name} ({file}:{line})" for name, file, line in path) or "an empty path"


def _show_paths(value: Any) -> str:
    lines = [f"[{place}] {text(path)}" for place, path in enumerate(value)]
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "; ".join([*lines[:MOST], *more])


def _show_blame(value: Any) -> str:
    rows = sorted(value.items(), key=lambda item: -item[1])[:MOST]
    return "; ".join(f"{name} ({file}): {ns:,.0f} ns" for (name, file), ns in rows)


def _summary(tables: Tables) -> str:
    ops, api, backtraces, _, nvtx = tables
    return (
        f"{len(ops)} operations, {len(api)} calls on {api['tid'].nunique()} thread(s) of "
        f"{api['pid'].nunique()} process(es), {len(backtraces)} stacks, {len(nvtx)} ranges"
    )


def cases(rng: Rng) -> list[Case]:
    """Programs, easy ones first, then whose time it is in some of them."""
    made = _scenes(rng)
    blamed = [*made[:2], ("a function that calls itself", _tables(_recursive(rng))), made[-1]]
    return [*(_launch_case(*scene) for scene in made), *(_blame_case(*scene) for scene in blamed)]


def tables_of(captures: CaptureSet) -> Tables:
    """The tables of the capture that no page shows."""
    with open_run(captures, EXPERIMENT, RUN) as report:
        backtraces = report.python_backtraces()[
            ["backtrace", "start_ns", "pid", "tid", "correlation", "call_name"]
        ]
        return report.gpu_ops(), report.api(), backtraces, report.python_backtrace_frames(), report.nvtx()


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture, of which a third has every path, and is quick to go through."""
    ops, api, backtraces, frames, nvtx = tables_of(captures)
    begin, end = ops["start_ns"].min(), ops["end_ns"].max()
    ops, api, backtraces, nvtx = (
        table[table["start_ns"] < begin + (end - begin) // 3].reset_index(drop=True)
        for table in (ops, api, backtraces, nvtx)
    )
    frames = frames[frames["backtrace"].isin(backtraces["backtrace"])].reset_index(drop=True)
    tables = ops, api, backtraces, frames, nvtx
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [_launch_case(name, tables, limit_s=120.0), _blame_case(name, tables)]


def notes(captures: CaptureSet, answered: Answered) -> list[str]:
    """Which function of the exam's program launched work for the most time itself."""
    (case, paths), *_ = answered
    ops = case.arguments[0]
    ends = pd.Series([tuple(path[-1][:2]) if path else None for path in paths])
    spent = ops["end_ns"] - ops["start_ns"]
    by_function = spent.groupby(ends.to_numpy()).sum()
    name, file = most = by_function.idxmax()
    return [
        f"{EXPERIMENT}: {name} ({file}) launched {(ends == most).sum():,} of {len(ops):,} operations, "
        f"{by_function.max() / spent.sum():.0%} of the GPU time"
    ]
