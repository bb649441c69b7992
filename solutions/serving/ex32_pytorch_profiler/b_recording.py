"""Record serving-ex32, part b: a token of a slow model under torch.profiler.

`labcode/grading/harness/decoder.py` is a small language model that writes tokens, slowly. Its first four
tokens (`warm-up N`) warm it up, those behind them (`token N`) are to be recorded:

    python -m labcode.grading.harness.decoder                   how long a token takes, without a profiler
    python -m labcode.grading.harness.decoder --trace X.json    all of it, with all that can be recorded

The second records too much. Write a program of your own that calls `decoder.run(decoder.MEASURED, 8, device,
profile.step)` within torch.profiler and records three to eight tokens: what the host calls and what the GPU
runs, no warm-up, nothing that makes a token longer than it has to be. Put the trace into this folder and
write its name here.
"""

from typing import Any

from labcode.grading.sheet import Answers, Check, Recording, Recordings

QUESTIONS = (Recording("recording", "your trace", tool="torch.profiler"),)
LEAST, MOST = 3, 8
STEP = r"ProfilerStep#\d+"


def ranges(report: Any, pattern: str) -> Any:
    """The annotations of the host whose names match."""
    found = report.annotations()
    return found[found["name"].astype(str).str.fullmatch(pattern)]


def stepped(report: Any) -> bool:
    """The profiler's own steps are in it."""
    return len(ranges(report, STEP)) > 0


CHECKS = (
    Check(
        "the trace breaks off: let the profiler end (leave its `with` block), export it, and copy all of it",
        lambda r: bool(r.complete),
        "cut off",
    ),
    Check(
        "no kernel in it: record ProfilerActivity.CUDA, too",
        lambda r: len(r.kernels()) > 0,
        "the CPU alone",
    ),
    Check(
        "no operator in it: record ProfilerActivity.CPU, too; else nothing says which operator a kernel "
        "belongs to",
        lambda r: len(r.ops()) > 0,
        "CUDA alone",
    ),
    Check(
        "tokens of the warm-up are in it: leave four steps out (schedule: wait and warmup)",
        lambda r: not len(ranges(r, r"warm-up \d+")),
        "from the first step",
    ),
    Check(
        f"not {LEAST} to {MOST} whole tokens in it: active says how many, and the profiler's step is called "
        "behind each",
        lambda r: LEAST <= len(ranges(r, r"token \d+")) <= MOST,
        "without step()",
    ),
    Check(
        "the profiler has no steps: without a schedule its own start falls into what you recorded",
        stepped,
        "without a schedule",
    ),
    Check(
        "stacks are in it (with_stack): each call of Python pays for them, and the tokens are longer",
        lambda r: not len(r.python_functions()),
        "with stacks",
    ),
    Check(
        "shapes are in it (record_shapes): each operator pays for them, and nothing here asks for them",
        lambda r: not (r.ops()["input_dims"].fillna("").astype(str).str.strip("[] ,") != "").any(),
        "with shapes",
    ),
    Check(
        "allocations are in it (profile_memory): each of them pays for that",
        lambda r: not len(r.memory()),
        "with memory",
    ),
)


def answers() -> Answers:
    """The solution's trace, and what yours has to hold."""
    from labcode.reports.kineto.report import open_trace
    from labcode.store import repository_root

    folder = repository_root() / "solutions" / "serving" / "ex32_pytorch_profiler"
    model = folder / "b_recording.trace.json.gz"
    return Answers(
        {"recording": Recordings(model, open_trace, CHECKS)},
        (),
        ["how many kernels a token takes, and how long each: make it faster from there"],
    )
