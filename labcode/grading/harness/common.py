"""What measuring programs share: a learner's file in, its function out; values in, a JSON record out."""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from labcode.grading import worker

GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


class WrongAnswerError(Exception):
    """The learner's answer is wrong; the arguments are the lines that say so."""


def learners(file: Path, name: str) -> Callable[..., Any]:
    """A function (or class) of the learner's file; `WrongAnswerError` when the file lacks it."""
    found = worker.load(file).get(name)
    if not callable(found):
        raise WrongAnswerError(f"the file has no {name!r}: keep the starter's names")
    return found  # type: ignore[no-any-return]


def given_word() -> str:
    """What the grader says first, on standard input: a record is worth nothing without it."""
    try:
        return "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.readline().strip()
    except OSError:  # pytest lets nobody read
        return ""


def report(path: Path, file: Path, measure: Callable[[], dict[str, Any]], word: str | None = None) -> None:
    """Write what ``measure`` gives as the record; ``{"wrong": [lines]}`` when the learner is at fault."""
    word = given_word() if word is None else word
    sys.argv = [str(file)]
    try:
        record = measure()
    except WrongAnswerError as wrong:
        record = {"wrong": [str(line) for line in wrong.args]}
    except BaseException as error:
        if not isinstance(error, SyntaxError) and not worker.touches(error, file):
            raise
        record = {"wrong": worker.describe(error, file)}
    record |= {"nonce": word} if word else {}
    if path.is_fifo():
        path.write_text(json.dumps(record), encoding="utf-8")
        return
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(record), encoding="utf-8")
    partial.replace(path)


def alternate(first: Callable[[], None], second: Callable[[], None], rounds: int) -> tuple[float, float]:
    """The median times in ms of two functions, run in turn after one warm-up each."""
    times: tuple[list[float], list[float]] = [], []
    for turn in range(rounds + 1):
        for function, kept in zip((first, second), times, strict=True):
            begin = perf_counter()
            function()
            if turn:
                kept.append(1e3 * (perf_counter() - begin))
    return median(times[0]), median(times[1])


def gpu_operations(torch: Any, function: Callable[[], None]) -> list[list[Any]]:
    """What ran on the GPU meanwhile, by torch.profiler: name, start_ns, end_ns and device of each."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        function()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    return [
        [
            event["name"],
            round(1e3 * float(event["ts"])),
            round(1e3 * (float(event["ts"]) + float(event["dur"]))),
            int(event.get("args", {}).get("device", 0)),
        ]
        for event in events
        if event.get("cat") in GPU_CATEGORIES
    ]
