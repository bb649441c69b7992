"""Grade what runs on a GPU: a learner's file in, correctness and ratios to a baseline of the same run out.

The grader itself stays free of torch and of everything that drives a GPU. A measuring program, which lies
beside the exercise's solution (what several share is in `labcode.grading.harness`), runs in a process of its
own under a time limit, first compiled with nvcc where it is CUDA C++, and writes a JSON record, from which
the verdict is computed. `labcode.kernels.build`, of the making wing, is imported only when something has to
be compiled: it finds nvcc and names the architecture, and needs no GPU package either.
"""

import json
import re
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labcode import store
from labcode.analysis.timeline import intervals
from labcode.errors import LabError
from labcode.grading import execution
from labcode.grading.cases import brief
from labcode.grading.records import Verdict
from labcode.reports.ncu.report import open_report
from labcode.tools import find_ncu, find_nvcc, run_tool

HARNESS = Path(__file__).resolve().parent / "harness"
LIMIT_S = 300.0
COMPILE_LIMIT_S = 300.0
COUNTERS_LIMIT_S = 120.0
_LINES = 8
_ASSEMBLED = ("-gencode=arch=compute_80,code=sm_80", "-cubin", "-Xptxas", "-v")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class StoppedError(Exception):
    """The measurement did not get to its end; ``verdict`` says why."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.headline)
        self.verdict = verdict


def measure_python(program: Path, file: Path, *arguments: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The record of a measuring program (Python) on a learner's file; `StoppedError` for none."""
    with tempfile.TemporaryDirectory(prefix="labcode-exercise-") as folder:
        record = Path(folder) / "record.json"
        words = [
            sys.executable,
            "-B",
            str(program),
            str(file.resolve()),
            str(record),
            str(secrets.randbits(31)),
            *arguments,
        ]
        return _measure(words, Path(folder), record, limit_s)


def measure_cuda(program: Path, file: Path, *, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The record of a measuring program (CUDA C++) built with a learner's file; `StoppedError` for none."""
    from labcode.kernels import build

    with tempfile.TemporaryDirectory(prefix="labcode-exercise-") as folder:
        binary, record = Path(folder) / program.stem, Path(folder) / "record.json"
        compile_cuda(program, file, binary, build.architecture_flag(build.compute_capability()))
        return _measure([str(binary), str(record), str(secrets.randbits(31))], Path(folder), record, limit_s)


def measure_kernel(
    program: Path, file: Path, counters: Sequence[str], *, limit_s: float = LIMIT_S
) -> dict[str, Any]:
    """The record of a measuring program (CUDA C++), and ``counters`` of the kernels on the timed shape.

    The record's ``counters`` has each metric, added up over the launches; without ncu, or where counters are
    not permitted, ``no_counters`` says why they are missing. `StoppedError` for no record.
    """
    from labcode.kernels import build

    with tempfile.TemporaryDirectory(prefix="labcode-exercise-") as folder:
        binary, record = Path(folder) / program.stem, Path(folder) / "record.json"
        compile_cuda(program, file, binary, build.architecture_flag(build.compute_capability()))
        seed = str(secrets.randbits(31))
        found = _measure([str(binary), str(record), seed], Path(folder), record, limit_s)
        try:
            words = [str(binary), str(Path(folder) / "counted.json"), seed, "counters"]
            found["counters"] = _counted(words, counters, Path(folder))
        except LabError as error:
            found["no_counters"] = str(error)
        return found


def _counted(words: Sequence[str], metrics: Sequence[str], folder: Path) -> dict[str, float]:
    """Run a command under ncu and add up metrics over the launches it marks; `LabError` says why not."""
    ncu = find_ncu()
    if ncu is None:
        raise LabError("ncu was not found here")
    report = folder / "counted.ncu-rep"
    options = ["--clock-control", "none", "--profile-from-start", "off", "--metrics", ",".join(metrics)]
    result = run_tool([ncu, *options, "-f", "-o", report, *words], COUNTERS_LIMIT_S, what="ncu")
    if "ERR_NVGPUCTRPERM" in result.stdout + result.stderr:
        raise LabError("the GPU's counters are not permitted here (`labcode doctor` says how to permit them)")
    if result.returncode or not report.is_file():
        raise LabError(f"ncu made no report ({result.last_line()})")
    launches = open_report(report).list
    return {name: sum(launch.metric(name) for launch in launches) for name in metrics}


def check_compiles(program: Path, file: Path) -> Verdict | None:
    """What the compiler alone can say of a learner's file: a failed verdict, or None; needs nvcc, no GPU.

    The file must compile, and no kernel of it may keep registers in local memory.
    """
    with tempfile.TemporaryDirectory(prefix="labcode-exercise-") as folder:
        try:
            said = compile_cuda(program, file, Path(folder) / "x.cubin", *_ASSEMBLED)
        except StoppedError as stopped:
            return stopped.verdict
    spilled = [
        f"{int(stores) + int(loads)} bytes of local memory in a kernel"
        for stores, loads in _SPILLS.findall(said)
        if int(stores) + int(loads)
    ]
    if spilled:
        return Verdict(
            "failed", "a kernel spills registers: keep fewer values at a time", tuple(dict.fromkeys(spilled))
        )
    return None


def compile_cuda(program: Path, file: Path, binary: Path, *flags: str) -> str:
    """Compile a measuring program with a learner's file; what nvcc said. `StoppedError`: its first errors."""
    from labcode.kernels import build

    words = [
        str(find_nvcc()),
        *build.FLAGS,
        *flags,
        f"-I{store.repository_root() / 'cuda' / 'common'}",
        f"-I{HARNESS}",
    ]
    words += [f'-DLEARNERS_FILE="{file.resolve()}"', str(program), "-o", str(binary)]
    result = run_tool(words, COMPILE_LIMIT_S, what="nvcc")
    if result.returncode:
        lines = [
            line.replace(str(file.resolve()), file.name)
            for line in (result.stderr + result.stdout).splitlines()
        ]
        errors = [line.strip() for line in lines if "error" in line] or lines
        raise StoppedError(Verdict("failed", "the file does not compile", tuple(errors[:_LINES])))
    return result.stderr + result.stdout


def _measure(words: Sequence[str], folder: Path, record: Path, limit_s: float) -> dict[str, Any]:
    with execution.start(words, folder) as running:
        ended = execution.wait(running, limit_s)
    printed = tuple(line for line in running.printed().strip().splitlines() if line.strip())[-_LINES:]
    if not ended:
        raise StoppedError(Verdict("failed", f"took longer than {limit_s:g} s and was stopped", printed))
    if not record.is_file():
        raise StoppedError(
            Verdict("failed", f"the measurement ended with exit code {running.process.returncode}", printed)
        )
    found = json.loads(record.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise LabError(f"{words[0]}: its record is no JSON object; is the checkout whole?")
    if "wrong" in found:
        lines = [str(line) for line in found["wrong"]]
        raise StoppedError(Verdict("failed", "a wrong answer", tuple(lines)))
    return found


def against(requirements: Sequence[tuple[bool, str]]) -> Verdict:
    """A verdict from requirements: each met or not, with what was measured and what is asked for."""
    lines = tuple(("✔ " if met else "✘ ") + text for met, text in requirements)
    if all(met for met, _ in requirements):
        return Verdict("passed", "passed: right, and fast enough", lines)
    return Verdict("failed", "right, but not fast enough", lines)


def idle_share(operations: Sequence[Sequence[Any]]) -> float | None:
    """The idle share from the first to the last operation (name, start_ns, end_ns, device); None for none."""
    if not operations:
        return None
    starts, ends = [op[1] for op in operations], [op[2] for op in operations]
    return float(1 - intervals.total(starts, ends) / (max(ends) - min(starts)))


def hidden_share(operations: Sequence[Sequence[Any]]) -> float | None:
    """The share of the collectives' time with another operation beside it; None without collectives."""
    talk = [op for op in operations if "nccl" in op[0].lower()]
    rest = [op for op in operations if "nccl" not in op[0].lower()]
    total = intervals.total([op[1] for op in talk], [op[2] for op in talk])
    if not total:
        return None
    both = intervals.intersect(
        [op[1] for op in talk], [op[2] for op in talk], [op[1] for op in rest], [op[2] for op in rest]
    )
    return float(intervals.total(*both) / total)


def unmeasured(what: str) -> Verdict:
    """The verdict when the answer is right and this machine could not measure how good it is."""
    return Verdict(
        "not run", f"right; not run: {what} could not be measured, torch.profiler saw nothing of it here"
    )


def ratio_line(name: str, value: float, bound: float, unit: str = "×") -> str:
    """``time: 0.61 × that of the plain loop (at most 0.67 is asked for)``."""
    return f"{name}: {brief(round(value, 3))} {unit} (at most {brief(bound)} is asked for)"
