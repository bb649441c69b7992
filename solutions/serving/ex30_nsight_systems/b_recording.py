"""Record serving-ex30, part b: tokens of the plain loop on your own GPU.

Record this program with nsys: four tokens or more of a language model's plain loop, each a range `token N`
within the range `lab:measured`. Weights are made and the loop is warmed up before that range.

    python -m labcode.workloads.inference --variant slow --tokens 4

(30 GB of GPU memory; with --size small it needs 2.) What the recording is for: who waits for whom, token by
token. So it holds the measured tokens alone, with what was launched and what ran, and nothing that slows the
host down. Put the recording into this folder and write its name here: X.nsys-rep, or X.sqlite where it will
be graded without nsys.
"""

from typing import Any

from labcode.grading.sheet import Answers, Check, Recording, Recordings

QUESTIONS = (Recording("recording", "your recording", tool="nsys"),)
LEAST_TOKENS = 4
LATE_NS = 1_000_000  # what is asked for in a range may run shortly after it
LEAST_KERNELS = 20  # of a token: fewer, and it is not the plain loop
OVERHEAD = 0.01  # of the tokens' time: a share of theirs that is looked for is known to a percent then


def tokens(report: Any) -> Any:
    """The ranges of tokens, those that ended."""
    ranges = report.nvtx()
    found = ranges[ranges["name"].astype(str).str.fullmatch(r"token \d+")]
    return found[found["end_ns"] > found["start_ns"]]


def begins(report: Any) -> bool:
    """Nothing runs before the first token."""
    found, work = tokens(report), report.gpu_ops()
    return not len(found) or not len(work) or bool(work["start_ns"].min() >= found["start_ns"].min())


def ends(report: Any) -> bool:
    """Nothing runs long after the last one."""
    found, work = tokens(report), report.gpu_ops()
    return not len(found) or not len(work) or bool(work["end_ns"].max() <= found["end_ns"].max() + LATE_NS)


def whole(report: Any) -> bool:
    """The last token has its kernels."""
    found, kernels = tokens(report), report.kernels()
    if not len(found) or not len(kernels):
        return True
    last = found.sort_values("start_ns").iloc[-1]
    return bool((kernels["start_ns"] >= last["start_ns"]).any())


def launches(report: Any) -> bool:
    """Kernel by kernel, as the plain loop does."""
    found, kernels = tokens(report), report.kernels()
    if report.api()["name"].astype(str).str.contains("GraphLaunch").any():
        return False
    return not len(found) or not len(kernels) or len(kernels) >= LEAST_KERNELS * len(found)


def undisturbed(report: Any) -> bool:
    """The profiler's own pauses are short beside the tokens."""
    found, pauses = tokens(report), report.profiler_overhead()
    if not len(found) or not len(pauses):
        return True
    first, last = found["start_ns"].min(), found["end_ns"].max()
    inside = pauses["end_ns"].clip(upper=last) - pauses["start_ns"].clip(lower=first)
    return bool(inside.clip(lower=0).sum() <= OVERHEAD * (last - first))


def sampled(report: Any) -> bool:
    """No stacks."""
    tables = report.cpu_samples(), report.python_samples(), report.python_backtraces()
    return not any(len(one) for one in (*tables, report.api_callchains()))


CHECKS = (
    Check("no kernel in it: trace CUDA (--trace=cuda,nvtx)", lambda r: len(r.kernels()) > 0, "no CUDA"),
    Check(
        f"fewer than {LEAST_TOKENS} whole ranges `token N` in it: trace NVTX (--trace=cuda,nvtx), and let "
        "the program end by itself",
        lambda r: len(tokens(r)) >= LEAST_TOKENS,
        "no NVTX, or ended by a duration",
    ),
    Check(
        "work of the GPU before the first token, such as weights and warm-up: begin with the range "
        "(--capture-range=nvtx --nvtx-capture=lab:measured --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0)",
        begins,
        "the whole program",
    ),
    Check(
        "work of the GPU long after the last token: end with the range (--capture-range-end=stop)",
        ends,
        "from the range to the program's end",
    ),
    Check(
        "the last token has no kernel: did the recording break off? let the program end by itself",
        whole,
        "cut off",
    ),
    Check(
        "not the plain loop, which launches kernel by kernel (--variant slow): another one launches graphs",
        launches,
        "--variant fast",
    ),
    Check(
        "stacks were sampled (--sample, --python-sampling) or taken (--cudabacktrace, --python-backtrace): "
        "they take the host's time, which is what you look at: --sample=none --cpuctxsw=none",
        sampled,
        "with stacks",
    ),
    Check(
        "allocations were traced (--cuda-memory-usage), which slows down each of them",
        lambda r: not len(r.memory_usage()),
        "with memory usage",
    ),
    Check(
        "the profiler itself pauses the program within the tokens: record less, or fewer tokens",
        undisturbed,
        "with pauses",
    ),
)


def answers() -> Answers:
    """The book's recording, and what yours has to hold."""
    from labcode.reports.nsys.report import open_report
    from labcode.store import repository_root

    model = repository_root() / "captures" / "h200" / "inference_timeline" / "slow.nsys.xz"
    return Answers(
        {"recording": Recordings(model, open_report, CHECKS)},
        (),
        ["hand it to your answer of part a, or to `labcode diagnose`"],
    )
