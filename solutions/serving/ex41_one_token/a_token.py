"""Detective serving-ex41: where a token's time goes.

captures/h200/inference_timeline/slow.nsys.xz decodes four tokens, fast.nsys.xz eight, each
token in a range of its own (`token 0` …). Times on the GPU count from the first operation to the
last.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Share("slow_idle", "slow: the share of the time in which the GPU is idle", by=0.01),
    Share("fast_idle", "fast: the same", by=0.01),
    Number("kernels", "slow: kernels for a token", within=0.01),
    Word(
        "by",
        "fast: the call that launches its kernels",
        words=("cudaGraphLaunch", "cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync"),
    ),
    Number("busy_ms", "slow: the time for a token in which the GPU runs something", unit="ms", within=0.02),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    slow, fast = (opened.nsys("h200", "inference_timeline", run) for run in ("slow", "fast"))
    ops, quick = slow.gpu_ops(), fast.gpu_ops()
    first, last = opened.extent(ops)
    tokens = len(opened.named(slow.nvtx(), r"^token \d+$"))
    busy = (last - first) / opened.MS * (1 - opened.idle_share(ops)) / tokens
    call = opened.named(fast.api(), "Launch")["name"].iloc[0]
    return Answers(
        {
            "slow_idle": opened.idle_share(ops),
            "fast_idle": opened.idle_share(quick),
            "kernels": len(slow.kernels()) / tokens,
            "by": str(call),
            "busy_ms": busy,
        },
        [
            Misreading("all tokens together; divide by their number", {"kernels": len(slow.kernels())}),
            Misreading("all tokens together; divide by their number", {"busy_ms": busy * tokens}),
            Misreading("that is the whole time of a token", {"busy_ms": (last - first) / opened.MS / tokens}),
            Misreading("that is fast", {"slow_idle": opened.idle_share(quick)}),
            Misreading(
                "that is fast",
                {"kernels": len(fast.kernels()) / len(opened.named(fast.nvtx(), r"^token \d+$"))},
            ),
            Misreading(
                "those are cudaLaunchKernel's alone",
                {"kernels": int((slow.api()["name"] == "cudaLaunchKernel").sum()) / tokens},
            ),
            Misreading("that is slow", {"fast_idle": opened.idle_share(ops)}),
            Misreading("slow calls that; it does not occur in fast", {"by": "cudaLaunchKernel"}),
            Misreading("slow calls that; it does not occur in fast", {"by": "cuLaunchKernelEx"}),
            Misreading("that copies; it does not occur in fast", {"by": "cudaMemcpyAsync"}),
        ],
        [f"one call launches a whole token: eight calls for {len(fast.kernels()):,} kernels"],
    )
