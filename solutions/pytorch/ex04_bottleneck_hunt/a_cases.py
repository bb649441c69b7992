"""Hidden cases of part a (which problems are there): a generator or a capture in, cases out."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import bound, intervals, links, tree
from labcode.analysis.timeline.joins import spans
from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.pytorch._shared import open_ranks_of

EXPERIMENT, RUN = "bottleneck_hunt", "exam_baseline"
PROBLEMS = ("optimizer", "logging", "item", "tiny_ops", "layout", "cpu_tensors", "dtype")
FUSED = 20  # operations of an optimizer a step that are no problem
TEXTS = ("kind", "name", "op", "outer_op", "annotation", "pass", "python", "problem")
TIMES = ("start_ns", "end_ns", "cpu_start_ns", "cpu_end_ns")
COLUMNS = [*TIMES, *TEXTS[:-1]]
_FLOAT = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)"
_DOUBLE = "void at::native::vectorized_elementwise_kernel<2, BinaryFunctor<double, double, double>>(int)"
_MODEL, _LOOP = "model.py(12): ", "train.py(40): one_step"


@dataclass(frozen=True)
class Loop:
    """What was recorded: operations (with the problem of each, '' for none), waits, window, steps."""

    ops: pd.DataFrame
    waits: pd.DataFrame
    window: tuple[int, int]
    steps: int


def _op(problem: str, number: int) -> dict[str, Any]:
    """One of the ways in which a problem shows itself, in turn; '' is the network's own work."""
    plain: dict[str, Any] = {
        "kind": "kernel", "name": _FLOAT, "op": "aten::add", "outer_op": "aten::add",
        "annotation": "forward", "pass": "forward", "python": _MODEL + "forward",
    }  # fmt: skip
    copy = {"kind": "memcpy", "name": "memcpy D2H"}
    in_log = {"annotation": "log", "pass": ""}
    read = {**copy, **in_log, "op": "aten::_local_scalar_dense", "outer_op": "aten::item"}
    behind = {"annotation": "backward", "pass": "backward"}
    update = {"pass": "optimizer", "python": _LOOP}
    choices: dict[str, list[dict[str, Any]]] = {
        "": [
            {"op": "aten::addmm", "outer_op": "aten::linear", "name": "cutlass_80_simt_sgemm_256x128"},
            {"op": "aten::mul", "annotation": "backward", "pass": "backward"},
            {"op": "aten::copy_", "outer_op": "aten::linear"},
            {**copy, "name": "memcpy D2D", "annotation": "forward"},
            {"op": "aten::sub", "annotation": "batch", "pass": "", "python": _MODEL + "batch_of"},
        ],
        "optimizer": [
            {"op": "aten::lerp_", "annotation": "Optimizer.step#AdamW", **update},
            {"op": "aten::div", "name": _DOUBLE, "annotation": "optimizer", **update},
        ],
        "logging": [
            {"op": "aten::linalg_vector_norm", **in_log, "python": _MODEL + "write_norms"},
            {**read, "python": _MODEL + "write_norms"},
        ],
        "item": [{**read, "python": _LOOP}],
        "tiny_ops": [
            {"python": _MODEL + "gelu_by_hand"},
            {"op": "aten::div", **behind, "python": _MODEL + "norm_by_hand_too"},
        ],
        "layout": [{"op": "aten::copy_", "outer_op": "aten::contiguous", "python": _MODEL + "forward"}],
        "cpu_tensors": [
            {**copy, "name": "memcpy H2D", "outer_op": "aten::to", "annotation": "batch"},
            {"op": "aten::mul", "outer_op": "aten::mul", "annotation": "batch", "pass": ""},
        ],
        "dtype": [
            {"name": _DOUBLE, "op": "aten::_log_softmax", "outer_op": "aten::cross_entropy_loss"},
            {"name": _DOUBLE, "op": "aten::copy_", "outer_op": "aten::to", "annotation": "batch"},
        ],
    }  # fmt: skip
    mine = choices[problem]
    return {**plain, **mine[number % len(mine)], "problem": problem}


def _loop(
    rng: np.random.Generator, counts: dict[str, int], *, steps: int = 2, slow: float = 1.0, streams: int = 1
) -> Loop:
    """Steps in which each problem launches so many operations; ``slow`` is the GPU's pace, over 1 is slow."""
    cpu = begin = int(rng.integers(10**6, 10**9))
    free = [begin] * streams
    rows: list[dict[str, Any]] = []
    waits = []
    seen: Counter[str] = Counter()
    for _ in range(steps):
        names = [name for name, count in counts.items() for _ in range(count)]
        for name in (names[i] for i in rng.permutation(len(names))):
            entry = _op(name, seen[name])
            seen[name] += 1
            spent = int(rng.integers(3_000, 12_000))
            shared = bool(rows) and rng.random() < 0.2 and rows[-1]["problem"] == name
            at = (rows[-1]["cpu_start_ns"], rows[-1]["cpu_end_ns"]) if shared else (cpu, cpu + spent)
            stream = int(rng.integers(streams))
            start = max(at[1] + 1_000, free[stream])
            end = start + int(slow * rng.integers(2_000, 12_000))
            free[stream] = end
            cpu = max(cpu, at[1]) + int(rng.integers(200, 1_500))
            if entry["name"] == "memcpy D2H":  # the CPU waits for it, inside its operator
                waits.append((at[0] + 900, end + 500))
                at = (at[0], max(at[1], end + 800))
                cpu = max(cpu, at[1])
            rows.append({**dict(zip(TIMES, (start, end, *at), strict=True)), **entry})
        done = max(*free, cpu) + 700  # at the end of a step the CPU waits for the GPU
        waits.append((cpu, done))
        cpu = done
    early, late = int(rng.integers(2_000, 20_000)), int(rng.integers(2_000, 20_000))
    window = begin + early, cpu - late
    ops = pd.DataFrame(rows, columns=[*TIMES, *TEXTS]).sort_values("start_ns", ignore_index=True)
    return Loop(ops, pd.DataFrame(waits, columns=["start_ns", "end_ns"], dtype="int64"), window, steps)


def scenes(rng: np.random.Generator) -> list[tuple[str, Loop]]:
    """Loops by name, easy ones first."""

    def n(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    some = {name: n(2, 6) for name in PROBLEMS}
    many, few, middle = n(FUSED + 2, FUSED + 12), n(2, FUSED // 2), n(FUSED - 3, FUSED)
    return [
        ("a loop with one problem", _loop(rng, {"": 8, "layout": n(2, 9)})),
        (
            "reads of results, some of them in the logging",
            _loop(rng, {"": 6, "item": n(1, 4), "logging": n(4, 9)}),
        ),
        ("an optimizer that goes from tensor to tensor", _loop(rng, {"": 6, "optimizer": many})),
        ("an optimizer that is fused already", _loop(rng, {"": 6, "optimizer": few, "dtype": n(2, 6)})),
        ("some operations of the optimizer", _loop(rng, {"": 6, "optimizer": middle, "tiny_ops": n(2, 6)})),
        ("a single step", _loop(rng, {"": 6, "optimizer": FUSED - 2, "tiny_ops": n(2, 6)}, steps=1)),
        (
            "exactly twenty operations of the optimizer a step",
            _loop(rng, {"": 6, "optimizer": FUSED, "item": n(1, 4)}),
        ),
        (
            "a GPU that is the slower of the two",
            _loop(rng, {"": 10, "tiny_ops": n(8, 16), "item": 2}, slow=4.0),
        ),
        (
            "two streams side by side",
            _loop(rng, {"": 12, "tiny_ops": n(6, 12), "layout": 6}, slow=9.0, streams=2),
        ),
        ("all seven", _loop(rng, {"": 10, **some, "optimizer": many}, steps=3)),
        ("all seven, on a slow GPU", _loop(rng, {"": 12, **some, "optimizer": FUSED + 1}, slow=3.5)),
        ("nothing of the seven", _loop(rng, {"": 12})),
    ]


def recorded(captures: CaptureSet, run: str = RUN) -> Loop:
    """The recorded steps of a capture, so described; an operation's CPU time is its outermost operator's."""
    report = open_ranks_of(captures, EXPERIMENT, run)
    window = bound.steps_window(report)
    ops = links.op_kernel_trace(report)
    calls = tree.build(report, python=False)
    where = links.launch_events(report, calls)
    launching = (calls.events["kind"] == "op").to_numpy()
    outer = np.append(links.outermost(calls, launching), -1)[where]
    outer = np.where(outer >= 0, outer, where)
    start, end = (np.append(calls.events[c].to_numpy(np.int64), 0)[outer] for c in ("start_ns", "end_ns"))
    table = ops.assign(
        end_ns=ops["start_ns"] + ops["duration_ns"],
        cpu_start_ns=start,
        cpu_end_ns=end,
        name=report.gpu_ops()["name"].to_numpy(),
    )
    inside = (table["end_ns"] > window[0]) & (table["start_ns"] < window[1])
    waits = bound.waits(report, window)
    steps = len(report.annotations().query("name.str.startswith('ProfilerStep#')"))
    table = table.loc[inside, COLUMNS].reset_index(drop=True)
    return Loop(
        table, pd.DataFrame(dict(zip(("start_ns", "end_ns"), spans(waits), strict=True))), window, steps
    )


def describe(given: Loop) -> str:
    """The input in words."""
    busy = intervals.total(*intervals.clip(*spans(given.ops), given.window)) if len(given.ops) else 0
    return (
        f"{len(given.ops)} operations in {given.steps} steps, {len(given.waits)} waits; "
        f"window = {given.window}, of which the GPU is busy for {busy}"
    )


def _case(name: str, given: Loop) -> Case:
    arguments = given.ops[COLUMNS], given.steps
    return Case(name, describe(given), "find", arguments, show=partial(brief, limit=300))


def cases(rng: np.random.Generator) -> list[Case]:
    """The one function, on recorded loops."""
    return [_case(name, given) for name, given in scenes(rng)]


def exam(captures: CaptureSet) -> list[Case]:
    """The recorded steps of a capture."""
    return [_case(f"a recording you have not seen ({EXPERIMENT}, {RUN})", recorded(captures))]


def notes(captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What was found, beside what was planted."""
    planted = captures.record(EXPERIMENT, RUN)["parameters"]["problems"]
    return [f"{RUN}: you found {', '.join(sorted(answered[0][1]))}; planted were {', '.join(planted)}"]
