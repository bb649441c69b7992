"""Detective lm-ex41: a Llama, as it was found.

captures/h200/llama_found/eager.nsys.xz has two training steps of a model with 32 layers, one GPU.
The softmax of attention is not the one of the loss, which is a LogSoftMax.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Share, Word

QUESTIONS = (
    Share(
        "idle", "the share of the time, from the first operation to the last, in which nothing runs", by=0.003
    ),
    Share("matmuls", "the share of all kernels' time that those of cuBLAS have (nvjet_…)"),
    Share("copies", "the share of all kernels' time that kernels with copy_kernel in their name have"),
    Count("softmaxes", "forward kernels of attention's softmax in a step"),
    Word(
        "twice",
        "why there are so many of them",
        words=(
            "layers are recomputed",
            "heads are taken one by one",
            "documents are taken one by one",
            "the loss needs them",
        ),
    ),
    Word(
        "first",
        "what to change first",
        words=(
            "fuse attention",
            "launch by CUDA graphs",
            "load data by more workers",
            "buy faster matmuls",
            "fuse the optimizer",
        ),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h200", "llama_found", "eager")
    kernels = report.kernels()
    steps = len(opened.named(report.nvtx(), r"^step \d+$"))
    whole = opened.ms(kernels)

    def share(pattern: str) -> float:
        return opened.ms(opened.named(kernels, pattern)) / whole

    softmaxes = len(opened.named(kernels, r"[^g]SoftMaxForwardEpilogue"))
    both = softmaxes + len(opened.named(kernels, r"LogSoftMaxForwardEpilogue"))
    backward = len(opened.named(kernels, r"[^g]SoftMaxBackwardEpilogue"))
    idle = opened.idle_share(report.gpu_ops())
    matmuls = share("^nvjet")
    return Answers(
        {
            "idle": idle,
            "matmuls": matmuls,
            "copies": share("copy_kernel"),
            "softmaxes": softmaxes // steps,
            "twice": "layers are recomputed",
            "first": "fuse attention",
        },
        [
            Misreading("that is everything but the matmuls", {"matmuls": 1 - matmuls}),
            Misreading(
                "that is one of the kernels that multiply; there are several",
                {"matmuls": share("320x128.*TNT")},
            ),
            Misreading(
                "that is one kind of copy; several kernels have copy_kernel in their name",
                {"copies": share("unrolled_elementwise.*copy_kernel")},
            ),
            Misreading("that is in both steps", {"softmaxes": softmaxes}),
            Misreading("the loss has its own, a LogSoftMax", {"softmaxes": both // steps}),
            Misreading(
                "that is one a layer, or the backward kernels: count the forward ones",
                {"softmaxes": backward // steps},
            ),
            Misreading(
                "one by one, 32 heads of 32 layers would make 1,024; there are two a layer",
                {"twice": "heads are taken one by one"},
            ),
            Misreading(
                "all are of the same size, 131,072 blocks, two a layer: each takes the whole sequence",
                {"twice": "documents are taken one by one"},
            ),
            Misreading(
                "the loss has a LogSoftMax, which is not counted here", {"twice": "the loss needs them"}
            ),
            Misreading(
                "the GPU hardly waits for a launch: look at the idle share",
                {"first": "launch by CUDA graphs"},
            ),
            Misreading(
                "the GPU hardly waits for data: look at the idle share",
                {"first": "load data by more workers"},
            ),
            Misreading(
                "they have less than a third of the time: what surrounds them has the rest",
                {"first": "buy faster matmuls"},
            ),
            Misreading(
                f"its kernels (multi_tensor_apply) have {share('multi_tensor_apply'):.0%} of the time, "
                f"attention's softmax has {share('[^g]SoftMax(?:For|Back)wardEpilogue'):.0%}",
                {"first": "fuse the optimizer"},
            ),
        ],
        ["eager attention writes every score, and reads it again for the mask, the softmax and the cast"],
    )
