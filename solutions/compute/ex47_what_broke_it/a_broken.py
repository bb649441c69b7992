"""Detective compute-ex47: three ways to break attention.

captures/h200/ncu_attention/exam_slow.ncu-rep.xz: three launches (0, 1, 2) of the kernel mma_sync
on the same problem, built in three ways.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Word

QUESTIONS = (
    Word("spills", "the launch that spills registers", words=("0", "1", "2")),
    Word("jam", "the launch whose memory pipes are the limit", words=("0", "1", "2")),
    Number(
        "tensor",
        "the share of cycles in which the tensor cores work, in the launch that is in order",
        unit="%",
        within=0.03,
    ),
    Count("registers", "registers of a thread in the launch that spills"),
    Number("lost", "how many times as long the slowest of them takes as the fastest", within=0.02),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_attention", "exam_slow")
    local = [one.metric("smsp__sass_inst_executed_op_local_ld.sum") for one in report.list]
    memory = [
        one.metric("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed") for one in report.list
    ]
    times = [one.number("duration_ns") for one in report.list]
    tensor = [
        one.metric("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active") for one in report.list
    ]
    registers = [int(one.metric("launch__registers_per_thread")) for one in report.list]
    spills, jam, good = local.index(max(local)), memory.index(max(memory)), times.index(min(times))
    return Answers(
        {
            "spills": str(spills),
            "jam": str(jam),
            "tensor": tensor[good],
            "registers": registers[spills],
            "lost": max(times) / min(times),
        },
        [
            Misreading("it is slow, but loads nothing from local memory", {"spills": str(jam)}),
            Misreading("it is the fast one, and loads nothing from local memory", {"spills": str(good)}),
            Misreading(
                f"its memory throughput is {memory[spills]:.0f} % of the peak, another's more",
                {"jam": str(spills)},
            ),
            Misreading("it is the fast one", {"jam": str(good)}),
            Misreading("that is the launch that spills", {"tensor": tensor[spills]}),
            Misreading("that is the launch with the jam", {"tensor": tensor[jam]}),
            Misreading(
                "the launch with so many loads nothing from local memory", {"registers": registers[good]}
            ),
            Misreading(
                "the launch with so many loads nothing from local memory", {"registers": registers[jam]}
            ),
            Misreading("that is the one that spills over the fastest", {"lost": times[spills] / min(times)}),
        ],
        ["fewer registers a thread allow more blocks, and cost more here than these bring"],
    )
