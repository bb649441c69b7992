"""Detective compute-ex44: how far from the memory's rate?

captures/h200/ncu_sum/exam_steps.ncu-rep.xz: launches 0 to 4 are atomics, tree, shuffle,
vectorized, bulk. Each reads the same input.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Word

QUESTIONS = (
    Number("mb", "what vectorized reads from DRAM", unit="MB", within=0.01),
    Number("gb_per_s", "the rate at which vectorized reads it", unit="GB/s", within=0.02),
    Number("slower", "how many times as long atomics takes as bulk", within=0.02),
    Word(
        "no_gain",
        "shuffle does with fewer instructions what tree does. Which step gained nothing in time?",
        words=("tree", "shuffle", "vectorized", "bulk"),
    ),
    Count("threads", "threads that bulk launches in all"),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_sum", "exam_steps")
    atomics, _, _, vectorized, bulk = report.list
    read, ns = vectorized.metric("dram__bytes_read.sum"), vectorized.number("duration_ns")
    blocks = bulk.grid[0] * bulk.grid[1] * bulk.grid[2]
    threads = blocks * bulk.block[0] * bulk.block[1] * bulk.block[2]
    ratio = atomics.number("duration_ns") / bulk.number("duration_ns")
    return Answers(
        {
            "mb": read / 1e6,
            "gb_per_s": read / ns,
            "slower": ratio,
            "no_gain": "shuffle",
            "threads": threads,
        },
        [
            Misreading("that is in MiB: MB are 10⁶ bytes", {"mb": read / 2**20}),
            Misreading("that is in GiB/s: GB are 10⁹ bytes", {"gb_per_s": read / ns * 1e9 / 2**30}),
            Misreading(
                "that is atomics over vectorized",
                {"slower": atomics.number("duration_ns") / ns},
            ),
            Misreading("tree was hundreds of times as fast as atomics", {"no_gain": "tree"}),
            Misreading("vectorized was several times as fast as the one before", {"no_gain": "vectorized"}),
            Misreading("bulk still gained a few percent; another gained less than one", {"no_gain": "bulk"}),
            Misreading("that is over the time of bulk", {"gb_per_s": read / bulk.number("duration_ns")}),
            Misreading("those are the blocks", {"threads": blocks}),
            Misreading("those are the threads of a block", {"threads": threads // blocks}),
        ],
        ["shuffle runs over a third fewer instructions than tree and takes as long: they are not the limit"],
    )
