"""Detective nsys-ex46: seven phases, without their names.

captures/h200/gpu_metrics/phases.nsys.xz holds seven phases, ranges of the program, and eight
counters that the GPU sampled meanwhile. Which phase is which? Write the name of the range.
"""

from labcode.grading.sheet import Answers, Misreading, Name, Names, Number

QUESTIONS = (
    Name("tensor", "the phase that keeps the tensor cores busy"),
    Name("host", "the phase in which data come from the host"),
    Name(
        "few",
        "the phase in which a kernel runs nearly all the time, and fewer than a tenth of the "
        "multiprocessors work",
    ),
    Name("launches", "the phase in which even the one multiprocessor at work waits for launches"),
    Number(
        "issue_pct",
        "in the phase with the most warps in flight: the share of cycles that issue, as the counter says it",
        unit="%",
        within=0.1,
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.timeline.counters import over_ranges
    from labcode.grading import opened

    report = opened.nsys("h200", "gpu_metrics", "phases")
    table = over_ranges(report)
    table = table[table["label"] != "lab:measured"]
    means = table.pivot(index="label", columns="metric", values="mean")
    means.columns = [name.split(" [")[0] for name in means.columns]
    gaps = {}
    ops = report.gpu_ops()
    for span in report.nvtx().itertuples():
        if span.name in means.index:
            gaps[span.name] = opened.idle_share(opened.cut(ops, (span.start_ns, span.end_ns)))
    low = means[(means["SMs Active"] < 10) & (means["PCIe RX Throughput"] < 10)]
    few = min(low.index, key=gaps.__getitem__)
    small = max(low.index, key=gaps.__getitem__)
    warps = means["Compute Warps in Flight"].idxmax()

    def right(name: str) -> Names:
        return Names(str(name), tuple(means.index))

    tensor, host = means["Tensor Active"].idxmax(), means["PCIe RX Throughput"].idxmax()
    return Answers(
        {
            "tensor": right(tensor),
            "host": right(host),
            "few": right(few),
            "launches": right(small),
            "issue_pct": float(means["SM Issue"][warps]),
        },
        [
            Misreading(
                "that one issues the most, but not to the tensor cores: look at Tensor Active",
                {"tensor": str(means["SM Issue"].idxmax())},
            ),
            Misreading(
                "that is traffic with the GPU's own memory; the host is at the other end of PCIe",
                {"host": str(warps)},
            ),
            Misreading("there the GPU has no kernel for most of the time", {"few": str(small)}),
            Misreading("there one kernel follows the other; its grid is small", {"launches": str(few)}),
            Misreading(
                "that is the warps in flight, not the cycles that issue",
                {"issue_pct": float(means["Compute Warps in Flight"][warps])},
            ),
        ],
        ["many warps in flight and few that issue: they wait for memory, which is what they are there for"],
    )
