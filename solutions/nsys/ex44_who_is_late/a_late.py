"""Detective nsys-ex44: who keeps whom waiting?

captures/h100/diagnosis_two/saving_rank-fault.nsys.xz is a training on two GPUs. Judge its
steady state (`--window steady`). Which of the two holds the other up, and by what?
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Word("late", "the GPU whose rank is waited for", words=("0", "1")),
    Number("waiting_ms", "the time in NCCL's kernels on the other GPU", unit="ms", within=0.01),
    Share(
        "busy",
        "the share of the time in which that other GPU runs something, from its first operation to its last",
        by=0.005,
    ),
    Word(
        "cause",
        "what the late rank does meanwhile",
        words=("saves a checkpoint", "loads batches", "compiles", "has more rows"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis_two", "saving_rank-fault")
    window = opened.steady(report)
    kernels, ops = opened.cut(report.kernels(), window), opened.cut(report.gpu_ops(), window)
    spent = {device: opened.ms(opened.named(mine, "^nccl")) for device, mine in kernels.groupby("device")}
    whole = report.kernels()
    late = min(spent, key=spent.__getitem__)
    other = 1 - late
    in_all = opened.ms(opened.named(whole[whole["device"] == other], "^nccl"))
    idle = {device: opened.idle_share(mine) for device, mine in ops.groupby("device")}
    causes = {"checkpoint": "saves a checkpoint"}
    return Answers(
        {
            "late": str(late),
            "waiting_ms": spent[other],
            "busy": 1 - idle[other],
            "cause": causes[opened.cause("saving_rank")],
        },
        [
            Misreading(
                "that GPU spends its time in NCCL's kernels: it was early, and waits there for the other",
                {"late": str(other)},
            ),
            Misreading("that is the time on the late rank's GPU", {"waiting_ms": spent[late]}),
            Misreading("that is both GPUs together", {"waiting_ms": sum(spent.values())}),
            Misreading(
                f"of the whole capture it is {in_all:.1f} ms; the steady state alone is asked for",
                {"waiting_ms": in_all},
            ),
            Misreading(
                "that is how much longer they take than on the late one",
                {"waiting_ms": spent[other] - spent[late]},
            ),
            Misreading(
                "that is NCCL's share of its kernels' time",
                {"busy": spent[other] / opened.ms(kernels[kernels["device"] == other])},
            ),
            Misreading("that is the late one's", {"busy": 1 - idle[late]}),
            Misreading("nothing is copied from the host in the steady state", {"cause": "loads batches"}),
            Misreading("no module is loaded in the steady state", {"cause": "compiles"}),
            Misreading(
                "both run the same kernels, as often; look at the copies to the host",
                {"cause": "has more rows"},
            ),
        ],
        ["a GPU that is busy in a collective is waiting: utilization does not tell the two apart"],
    )
