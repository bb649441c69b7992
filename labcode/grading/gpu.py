"""Grade what runs on a GPU: a learner's file in, correctness and ratios to a baseline of the same run out.

The grader itself stays free of torch and of everything that drives a GPU. A measuring program, which lies
beside the exercise's solution (what several share is in `labcode.grading.harness`), runs in a process of its
own under a time limit, first compiled with nvcc where it is CUDA C++, and writes a JSON record, from which
the verdict is computed. `labcode.kernels.build`, of the making wing, is imported only when something has to
be compiled: it finds nvcc and names the architecture, and needs no GPU package either.
"""

import json
import os
import re
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcode import store
from labcode.analysis.timeline import intervals
from labcode.errors import LabError
from labcode.grading import execution, jail, measured
from labcode.grading.accesses import Access, accesses
from labcode.grading.cases import brief
from labcode.grading.records import Pace, Verdict
from labcode.outputs import swept
from labcode.reports.ncu.report import open_report
from labcode.tools import find_ncu, find_nvcc, run_tool

HARNESS = Path(__file__).resolve().parent / "harness"
LIMIT_S = 300.0
COMPILE_LIMIT_S = 300.0
COUNTERS_LIMIT_S = 120.0
_LINES = 8
_MOST_BYTES = 64 << 20  # of a record
_ASSEMBLED = ("-gencode=arch=compute_80,code=sm_80", "-cubin", "-Xptxas", "-v")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class StoppedError(Exception):
    """The measurement did not get to its end; ``verdict`` says why."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.headline)
        self.verdict = verdict


@dataclass(frozen=True)
class Place:
    """Where an answer is compiled and measured: beside the grader, or in a jail.

    ``file`` and ``folder`` (where programs may write) are as those programs see them; ``outside`` is that
    folder as the grader does.
    """

    file: Path
    folder: Path
    outside: Path
    jailed: Callable[[Sequence[str]], list[str]] = list

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """What to start so that these words run in this place."""
        return list(self.jailed([str(word) for word in words]))


@contextmanager
def placed(program: Path, file: Path) -> Iterator[Place]:
    """A place for an answer and what measures it; `StoppedError` for an answer that is not measured."""
    if refusal := measured.refused(file):
        raise StoppedError(Verdict("failed", "not measured", (refusal,)))
    confined = jail.current()
    with tempfile.TemporaryDirectory(prefix=swept()) as folder:
        if confined is None:
            yield Place(file.resolve(), Path(folder), Path(folder))
            return
        answer, records = Path(folder) / "answer", Path(folder) / "records"
        answer.mkdir()
        records.mkdir()
        try:
            jail.take(file, answer)
        except ValueError as refused:
            raise StoppedError(Verdict("failed", f"not taken: {refused}")) from None
        reads = [program, store.repository_root() / "cuda", Path("/usr/local/cuda").resolve()]

        def command(words: Sequence[str]) -> list[str]:
            return confined.command(words, answer, reads=reads, records=records, gpu=True)

        yield Place(Path(jail.ANSWER) / file.name, Path(jail.RECORDS), records, command)


def measure_python(program: Path, file: Path, *arguments: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The record of a measuring program (Python) on a learner's file; `StoppedError` for none."""
    with placed(program, file) as place:
        return _measure([sys.executable, "-B", str(program), str(place.file)], arguments, place, limit_s)


def measure_cuda(program: Path, file: Path, *, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The record of a measuring program (CUDA C++) built with a learner's file; `StoppedError` for none."""
    with placed(program, file) as place:
        return _measure([str(_built(program, place))], (), place, limit_s)


def measure_kernel(
    program: Path, file: Path, counters: Sequence[str], *, limit_s: float = LIMIT_S
) -> dict[str, Any]:
    """The record of a measuring program (CUDA C++), and ``counters`` of the kernels on the timed shape.

    The record's ``counters`` has each metric, added up over the launches, and ``accesses`` how their loads
    and stores reach global memory (`labcode.grading.accesses`); without ncu, or where counters are
    not permitted, ``no_counters`` says why they are missing. `StoppedError` for no record.
    """
    with placed(program, file) as place:
        binary = _built(program, place)
        found = _measure([str(binary)], (), place, limit_s)
        try:
            words = [str(binary), os.devnull, str(secrets.randbits(31)), "counters"]
            found["counters"], found["accesses"] = _counted(words, counters, place)
        except LabError as error:
            found["no_counters"] = str(error)
        return found


def _built(program: Path, place: Place) -> Path:
    """A measuring program, compiled for the GPU here."""
    from labcode.kernels import build

    binary = place.folder / program.stem
    _compile(program, place, binary, build.architecture_flag(build.compute_capability()))
    return binary


def _counted(
    words: Sequence[str], metrics: Sequence[str], place: Place
) -> tuple[dict[str, float], list[Access]]:
    """Run a command under ncu: metrics, added up over the launches it marks, and what these access.

    `LabError` says why not.
    """
    ncu = find_ncu()
    if ncu is None:
        raise LabError("ncu was not found here")
    name = "counted.ncu-rep"
    options = ["--clock-control", "none", "--profile-from-start", "off", "--section", "SourceCounters"]
    options += ["--metrics", ",".join(metrics)]
    started = place.command([ncu, *options, "-f", "-o", place.folder / name, *words])
    result = run_tool(started, COUNTERS_LIMIT_S, what="ncu")
    if "ERR_NVGPUCTRPERM" in result.stdout + result.stderr:
        raise LabError("the GPU's counters are not permitted here (`labcode doctor` says how to permit them)")
    if result.returncode or not (place.outside / name).is_file():
        raise LabError(f"ncu made no report ({result.last_line()})")
    report = open_report(place.outside / name)
    counted = {name: sum(launch.metric(name) for launch in report.list) for name in metrics}
    return counted, accesses(report)


def check_compiles(program: Path, file: Path) -> Verdict | None:
    """What the compiler alone can say of a learner's file: a failed verdict, or None; needs nvcc, no GPU.

    The file must compile, and no kernel of it may keep registers in local memory.
    """
    try:
        with placed(program, file) as place:
            said = _compile(program, place, place.folder / "x.cubin", *_ASSEMBLED)
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


def _compile(program: Path, place: Place, binary: Path, *flags: str) -> str:
    from labcode.kernels import build

    words = [
        str(find_nvcc()),
        *build.FLAGS,
        *flags,
        f"-I{store.repository_root() / 'cuda' / 'common'}",
        f"-I{HARNESS}",
    ]
    words += [f'-DLEARNERS_FILE="{place.file}"', str(program), "-o", str(binary)]
    result = run_tool(place.command(words), COMPILE_LIMIT_S, what="nvcc")
    if result.returncode:
        lines = [
            line.replace(str(place.file), place.file.name)
            for line in (result.stderr + result.stdout).splitlines()
        ]
        errors = [line.strip() for line in lines if "error" in line] or lines
        raise StoppedError(Verdict("failed", "the file does not compile", tuple(errors[:_LINES])))
    return result.stderr + result.stdout


def _measure(words: Sequence[str], arguments: Sequence[str], place: Place, limit_s: float) -> dict[str, Any]:
    """The record that a program writes: into a pipe that ends here, with the word that it was given first.

    A record without that word was written by something that began before the measuring program did.
    """
    nonce, name = secrets.token_hex(16), f"record-{secrets.token_hex(4)}.json"
    reads, kept = execution.open_pipe(place.outside / name), list[bytes]()

    def read() -> None:
        with os.fdopen(reads, "rb") as pipe:
            execution.await_writer(reads, running)
            kept.append(pipe.read(_MOST_BYTES) or b"")

    command = [*words, str(place.folder / name), str(secrets.randbits(31)), *arguments]
    with execution.start(place.command(command), place.outside, listens=True) as running:
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        running.tell(f"{nonce}\n".encode(), last=True)
        ended = execution.wait(running, limit_s)
        running.close()
        reader.join(timeout=5)
        text = b"" if not kept else kept[0]
    printed = tuple(line for line in running.printed().strip().splitlines() if line.strip())[-_LINES:]
    if not ended:
        raise StoppedError(Verdict("failed", f"took longer than {limit_s:g} s and was stopped", printed))
    if not text:
        raise StoppedError(
            Verdict("failed", f"the measurement ended with exit code {running.process.returncode}", printed)
        )
    try:
        found = json.loads(text)
    except ValueError:
        raise StoppedError(Verdict("failed", "the measurement's record is damaged", printed)) from None
    if not isinstance(found, dict):
        raise LabError(f"{words[0]}: its record is no JSON object; is the checkout whole?")
    if found.pop("nonce", None) != nonce:
        raise StoppedError(Verdict("failed", "the record was not written by what measures", printed))
    if "wrong" in found:
        lines = [str(line) for line in found["wrong"]]
        raise StoppedError(Verdict("failed", "a wrong answer", tuple(lines)))
    return found


def against(requirements: Sequence[tuple[bool, str]], pace: Pace | None = None) -> Verdict:
    """A verdict from requirements: each met or not, with what was measured and what is asked for."""
    lines = tuple(("✔ " if met else "✘ ") + text for met, text in requirements)
    if all(met for met, _ in requirements):
        said = "" if pace is None else f"; {pace}"
        return Verdict("passed", f"passed: right, and fast enough{said}", lines, pace=pace)
    lines += () if pace is None else (f"as it is: {pace}",)
    return Verdict("failed", "right, but not fast enough", lines, pace=pace)


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
