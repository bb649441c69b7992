"""Detective pytorch-ex41: what decides how long it takes?

Two traces of torch.profiler: captures/h200/torch_conv/baseline.trace.json.gz and
captures/h200/torch_compile/eager.trace.json.gz. `labcode stats -r critical_path FILE`.
"""

from labcode.grading.sheet import Answers, Misreading, Name, Number, Share, Word

QUESTIONS = (
    Share("kernels", "torch_conv: the share of the path that kernels are", by=0.01),
    Name("top", "torch_conv: the kernel that takes the most of the path"),
    Number("top_at_most", "torch_conv: times as fast at most, if that kernel cost nothing", within=0.01),
    Share("eager_kernels", "torch_compile eager: the share of the path that kernels are", by=0.005),
    Word(
        "eager",
        "torch_compile eager: what most of the path is",
        words=("operators on the CPU", "kernels", "copies", "calls of CUDA"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.timeline.critical_path import by_kind, critical_path
    from labcode.grading import opened

    conv, eager = (
        opened.trace("h200", "torch_conv", "baseline"),
        opened.trace("h200", "torch_compile", "eager"),
    )
    path = critical_path(conv)
    kinds, named = by_kind(path).set_index("kind"), by_kind(path, names=True)
    named = named[named["kind"] == "kernel"]
    top = str(named["name"].iloc[0])
    other = by_kind(critical_path(eager)).set_index("kind")
    busy = 1 - opened.idle_share(eager.gpu_ops())
    kernels = conv.kernels()
    return Answers(
        {
            "kernels": float(kinds["share"]["kernel"]),
            "top": opened.names(kernels, top),
            "top_at_most": float(named["at_most"].iloc[0]),
            "eager_kernels": float(other["share"]["kernel"]),
            "eager": "operators on the CPU",
        },
        [
            Misreading("that one is second on the path", {"top": str(named["name"].iloc[1])}),
            Misreading(
                "that is all kernels together, not that one",
                {"top_at_most": float(kinds["at_most"]["kernel"])},
            ),
            Misreading(
                "that is its time's share; the gain is 1 over what is left",
                {"top_at_most": float(named["share"].iloc[0])},
            ),
            Misreading(
                "that is how busy the GPU is; most of it lies beside the path", {"eager_kernels": busy}
            ),
            Misreading(
                "that is how many times as fast at most without them, not their share",
                {"kernels": float(kinds["at_most"]["kernel"])},
            ),
            Misreading("that is torch_compile's", {"kernels": float(other["share"]["kernel"])}),
            Misreading("less than a tenth of the path are kernels", {"eager": "kernels"}),
            Misreading("there is none on the path", {"eager": "copies"}),
            Misreading("they take less of the path than the operators do", {"eager": "calls of CUDA"}),
        ],
        ["what is beside the path may be made free, and the step takes as long as before"],
    )
