"""The bench: kernels of the catalogue in; a record of how they stand beside ceiling and library, out.

Correctness comes first. Then all candidates of a problem take turns, repetition by repetition, each from a
cold cache, so that a ratio compares what ran side by side on one GPU at one temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from labcode.errors import LabError, ToolError
from labcode.kernels import baselines, checking
from labcode.kernels.catalogue import Gpu, Kernel, Problem, entry
from labcode.kernels.launch import function, import_cupy, prepare, reason_unfit, this_gpu
from labcode.kernels.topics import kernels
from labcode.timing import spread

REPETITIONS = 15
SLOW_US, SLOW_REPETITIONS = 20_000.0, 3
FLUSH_FACTOR = 4  # times the L2 cache: what is read between timings
NOTE_FIGURES = "medians; in brackets the quartiles"


@dataclass(frozen=True)
class Row:
    """One candidate on one problem. Ratios are of medians of this run: above 1 is faster than the other."""

    kernel: str
    problem: str
    name: str
    kind: str  # "step", "ceiling" or "library"
    bytes_moved: int
    time_us: float
    time_q1_us: float
    time_q3_us: float
    repetitions: int
    throughput_gb_per_s: float
    ratio_to_copy: float = float("nan")
    ratio_to_library: dict[str, float] = field(default_factory=dict)
    predicted: float | None = None  # of ratio_to_copy
    helped: bool = True
    registers: int | None = None
    spilled_bytes: int | None = None  # local memory a thread


@dataclass(frozen=True)
class Held:
    """A mark and how the best step of a problem meets it."""

    kernel: str
    problem: str
    step: str
    against: str
    ratio: float
    at_least: float
    stretch: float | None

    @property
    def held(self) -> bool:
        """Whether the ratio reaches the mark."""
        return self.ratio >= self.at_least


@dataclass(frozen=True)
class Candidate:
    """A call to be timed."""

    name: str
    kind: str
    call: Callable[[], object]
    extra: dict[str, Any] = field(default_factory=dict)


def import_torch() -> Any:
    """PyTorch with a GPU, or a `ToolError` that says what is missing."""
    try:
        import torch
    except ImportError as error:
        raise ToolError(f"the bench needs PyTorch, which cannot be imported here ({error})") from None
    if not torch.cuda.is_available():
        raise ToolError("no NVIDIA GPU that PyTorch can use: see nvidia-smi and `labcode doctor`")
    return torch


def reader(torch: Any, gpu: Gpu) -> Callable[[], object]:
    """A call that reads several times the L2 cache, so that what follows finds none of its data there.

    Reading leaves nothing behind that would have to be written back during the timing.
    """
    scratch = torch.ones(FLUSH_FACTOR * gpu.l2_bytes // 4, dtype=torch.float32, device="cuda")
    return lambda: torch.sum(scratch)


def take_turns(
    torch: Any, calls: Sequence[Callable[[], object]], before: Callable[[], object], repetitions: int
) -> list[list[float]]:
    """Microseconds of each call by CUDA events, in rounds: every call once, then every call again.

    A call that takes long is repeated a few times only. The first round warms up and does not count.
    """
    times: list[list[float]] = [[] for _ in calls]
    for round_number in range(repetitions + 1):
        for mine, call in zip(times, calls, strict=True):
            if len(mine) >= SLOW_REPETITIONS and mine[0] > SLOW_US:
                continue
            before()
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            stop.record()
            stop.synchronize()
            if round_number > 0:
                mine.append(start.elapsed_time(stop) * 1e3)
    return times


def bench_problem(
    torch: Any, kernel: Kernel, problem: Problem, gpu: Gpu, repetitions: int, flush: Callable[[], object]
) -> tuple[list[Row], dict[str, checking.Outcome]]:
    """One problem: its rows, ceilings first, and whether each step's output was right at this size."""
    cupy = import_cupy()
    inputs = [
        checking.make_input(torch, array, problem.dtype, 11 + k)
        for k, array in enumerate(kernel.inputs(problem))
    ]
    wanted = kernel.output(problem)
    kind = checking.torch_dtype(torch, wanted.dtype or problem.dtype)
    output = torch.empty(wanted.shape, dtype=kind, device="cuda")
    steps, verdicts = [], {}
    reference, scale = checking.expected(torch, kernel, inputs)
    for step in kernel.steps:
        if reason_unfit(step, problem, gpu):
            continue
        call = prepare(kernel, step, problem, inputs, output)
        output.fill_(float("nan"))
        call()
        torch.cuda.synchronize()
        allowed = checking.allowance(kernel, step, problem)
        verdict = checking.judge(torch, allowed, output, reference, scale)
        verdicts[f"{kernel.name}, {step.name}, {problem}"] = verdict
        raw = function(kernel.header, entry(step, problem))
        extra = {
            "predicted": step.predicted,
            "helped": step.helped,
            "registers": int(raw.num_regs),
            "spilled_bytes": int(raw.local_size_bytes),
        }
        if verdict.passed:
            steps.append(Candidate(step.name, "step", call, extra))
    del reference
    torch.cuda.empty_cache()
    moved = kernel.bytes_moved(problem)
    others = (
        *baselines.copies(torch, cupy, moved),
        *baselines.libraries(torch, cupy, kernel, problem, inputs, output),
    )
    candidates = [*(Candidate(one.name, one.kind, one.call) for one in others), *steps]
    times = take_turns(torch, [one.call for one in candidates], flush, repetitions)
    rows = [_row(kernel, problem, one, moved, mine) for one, mine in zip(candidates, times, strict=True)]
    return with_ratios(rows), verdicts


def _row(kernel: Kernel, problem: Problem, one: Candidate, moved: int, times: Sequence[float]) -> Row:
    found = spread(times)
    return Row(
        kernel.name,
        str(problem),
        one.name,
        one.kind,
        moved,
        found.median,
        found.q1,
        found.q3,
        found.count,
        moved / found.median / 1e3,
        **one.extra,
    )


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """The rows of one problem with their ratios: to the faster device copy, to each library call."""
    copy = max((row.throughput_gb_per_s for row in rows if row.kind == "ceiling"), default=float("nan"))
    libraries = {row.name: row.time_us for row in rows if row.kind == "library"}
    return [
        Row(
            **{
                **{name: getattr(row, name) for name in row.__dataclass_fields__},
                "ratio_to_copy": row.throughput_gb_per_s / copy,
                "ratio_to_library": {name: time / row.time_us for name, time in libraries.items()},
            }
        )
        for row in rows
    ]


def held(kernel: Kernel, rows: Sequence[Row]) -> list[Held]:
    """Each mark of a kernel, for each problem, by the fastest step."""
    found = []
    for problem in dict.fromkeys(row.problem for row in rows):
        steps = [row for row in rows if row.problem == problem and row.kind == "step"]
        if not steps:
            continue
        best = min(steps, key=lambda row: row.time_us)
        for mark in kernel.marks:
            if mark.problems and problem not in mark.problems:
                continue
            ratio = best.ratio_to_copy if mark.against == "copy" else best.ratio_to_library[mark.against]
            found.append(
                Held(kernel.name, problem, best.name, mark.against, ratio, mark.at_least, mark.stretch)
            )
    return found


def bench(
    only: Sequence[str] = (), repetitions: int = REPETITIONS, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Check and time kernels (all, or those named); the record as JSON has it.

    ``results`` holds ``rows`` (see `Row`) and ``marks`` (see `Held`), ``checks`` what every step's outputs
    are worth. A step whose output is wrong is not timed.
    """
    if repetitions < 1:
        raise LabError(f"--repetitions {repetitions}: give a whole number above 0")
    chosen = kernels(only)
    torch = import_torch()
    gpu = this_gpu(torch.cuda.current_device())
    flush = reader(torch, gpu)
    rows: list[Row] = []
    marks: list[Held] = []
    checks: dict[str, checking.Outcome] = {}
    for kernel in chosen:
        say(f"{kernel.name}: checking {len(kernel.steps)} steps")
        for step in kernel.steps:
            if gpu.compute_capability >= step.min_cc:
                checks[f"{kernel.name}, {step.name}"] = checking.check_step(torch, kernel, step, gpu)
        mine: list[Row] = []
        for problem in kernel.timed:
            say(f"{kernel.name}: timing {problem}")
            timed, verdicts = bench_problem(torch, kernel, problem, gpu, repetitions, flush)
            mine.extend(timed)
            checks.update(verdicts)
            torch.cuda.empty_cache()
        rows.extend(mine)
        marks.extend(held(kernel, mine))
    from labcode.experiments.shared.common import gpu_info

    return {
        "program": "bench_kernels",
        "variant": "all" if not only else ", ".join(only),
        "parameters": {
            "repetitions": repetitions,
            "flush_bytes": FLUSH_FACTOR * gpu.l2_bytes,
            "only": list(only),
        },
        "results": {
            "rows": [asdict(row) for row in rows],
            "marks": [{**asdict(mark), "held": mark.held} for mark in marks],
        },
        "checks": {
            name: {"passed": one.passed, "detail": one.detail} for name, one in sorted(checks.items())
        },
        "gpu": gpu_info(torch, torch.device("cuda", torch.cuda.current_device())),
    }
