"""Detective pytorch-ex43: compiled again and again.

captures/h100/diagnosis/annealed_kernel-fault.nsys.xz has a Triton kernel in its loop,
soft_threshold. Judge the steady state (`--window steady`).
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Share, Word

QUESTIONS = (
    Count("loaded", "modules that are loaded in the steady state (cuModuleLoadData)"),
    Count("launched", "launches of soft_threshold in the steady state"),
    Number(
        "longest_ms",
        "the longest time in the steady state without anything on the GPU",
        unit="ms",
        within=0.01,
    ),
    Share(
        "idle",
        "the share of the time, from the first operation to the last, in which the GPU is idle",
        by=0.003,
    ),
    Word(
        "why",
        "why it is compiled again",
        words=("a constant changes", "the size changes", "the cache is off", "it is autotuned"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "annealed_kernel-fault")
    window = opened.steady(report)
    ops, calls = opened.cut(report.gpu_ops(), window), opened.cut(report.api(), window)
    kernels = opened.cut(report.kernels(), window)
    soft = int((kernels["short_name"] == "soft_threshold").sum())
    loaded = len(opened.named(calls, "^cuModuleLoadData$"))
    gaps = opened.gaps(ops)["ns"].sort_values(ascending=False) / opened.MS
    whole = report.gpu_ops()
    return Answers(
        {
            "loaded": loaded,
            "launched": soft,
            "longest_ms": float(gaps.iloc[0]),
            "idle": opened.idle_share(ops),
            "why": "a constant changes",
        },
        [
            Misreading(
                "those are the launches of soft_threshold: it is not compiled for each of them",
                {"loaded": soft},
            ),
            Misreading(
                "that is the whole capture, not the steady state alone",
                {"launched": int((report.kernels()["short_name"] == "soft_threshold").sum())},
            ),
            Misreading(
                "that one lies before the steady state",
                {"longest_ms": float(opened.gaps(whole)["ns"].max() / opened.MS)},
            ),
            Misreading("that is the second longest", {"longest_ms": float(gaps.iloc[1])}),
            Misreading(
                "that is the whole capture, not the steady state alone", {"idle": opened.idle_share(whole)}
            ),
            Misreading("its grid is the same each time", {"why": "the size changes"}),
            Misreading(
                "what is compiled is launched more than once: there are more launches than modules",
                {"why": "the cache is off"},
            ),
            Misreading(
                "autotuning launches each form many times to time it: here are few launches a module",
                {"why": "it is autotuned"},
            ),
        ],
        ["a `tl.constexpr` is part of the kernel: another value is another kernel"],
    )
