"""Detective compute-ex43: how many passes over memory?

captures/h200/ncu_softmax/exam_steps.ncu-rep.xz: three_passes, online and on_chip (launches 0 to
2) compute the same softmax; vectorized (3) loads four elements at once. The matrix is read once
by on_chip.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

QUESTIONS = (
    Number("sectors", "sectors that three_passes asks the L1 for, over those of on_chip", within=0.02),
    Number("dram", "bytes that three_passes reads from DRAM, over those of on_chip", within=0.02),
    Number(
        "requests",
        "requests (instructions of a warp) of loads of on_chip, over those of vectorized",
        within=0.02,
    ),
    Word(
        "again",
        "where the second and the third pass find the row",
        words=("in a cache", "in DRAM", "in registers", "in shared memory"),
    ),
    Number("time", "how many times as fast vectorized is as on_chip", within=0.03),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_softmax", "exam_steps")
    three, online, chip, vectorized = report.list[:4]
    sectors, asks = (f"l1tex__t_{what}_pipe_lsu_mem_global_op_ld.sum" for what in ("sectors", "requests"))
    dram = "dram__bytes_read.sum"

    def over(name: str, one: object, other: object) -> float:
        return float(one.metric(name) / other.metric(name))

    time = chip.number("duration_ns") / vectorized.number("duration_ns")
    return Answers(
        {
            "sectors": over(sectors, three, chip),
            "dram": over(dram, three, chip),
            "requests": over(asks, chip, vectorized),
            "again": "in a cache",
            "time": time,
        },
        [
            Misreading("that is online, which makes two passes", {"sectors": over(sectors, online, chip)}),
            Misreading(
                "three passes are asked for, and one is paid for: look at DRAM itself",
                {"dram": over(sectors, three, chip)},
            ),
            Misreading(
                "that is the ratio of sectors, and of bytes: instructions are asked for",
                {"requests": over(sectors, chip, vectorized)},
            ),
            Misreading("then DRAM would read three times as much", {"again": "in DRAM"}),
            Misreading(
                "nothing is kept there: it asks the L1 for every sector three times",
                {"again": "in registers"},
            ),
            Misreading(
                "that is where on_chip keeps the row; three_passes has room for 32 numbers there",
                {"again": "in shared memory"},
            ),
            Misreading("that is the other way round", {"time": 1 / time}),
        ],
        ["the passes cost time all the same: the caches answer, and instructions and their latency stay"],
    )
