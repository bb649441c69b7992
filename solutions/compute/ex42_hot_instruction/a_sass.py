"""Detective compute-ex42: the hottest instruction.

captures/h200/ncu_sum/steps.ncu-rep.xz was recorded with its source: `labcode stats -r source
--launch N FILE` lists the machine instructions of a launch. The launches: 0 atomics, 1 tree, 2
shuffle, 3 vectorized, 4 bulk.
"""

from labcode.grading.sheet import Answers, Misreading, Name, Names, Share, Word

QUESTIONS = (
    Name("hottest", "shuffle: the opcode of the instruction with the most samples (such as FADD)"),
    Share("on_it", "shuffle: the share of its samples on that one instruction", by=0.004),
    Word(
        "waits_for",
        "shuffle: the opcode that makes the operand it waits for",
        words=("LDG", "LDS", "FADD", "S2R"),
    ),
    Share(
        "wide",
        "vectorized: of its loads from global memory (LDG…), each counted as often as it was executed, the "
        "share that takes 16 bytes a thread",
        by=0.03,
    ),
    Word(
        "no_ldg",
        "bulk hardly has an LDG. How do its data get to shared memory?",
        words=("UBLKCP", "LDGSTS", "LDS", "STG"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.kernel.sass import view
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_sum", "steps")
    shuffle, vectorized, bulk = (view(report, number) for number in (2, 3, 4))
    ordered = shuffle.sort_values("samples", ascending=False)
    hottest = str(ordered["opcode"].iloc[0])
    loads = vectorized[vectorized["opcode"] == "LDG"]
    wide = loads["executed"][loads["bytes"] == 16].sum() / loads["executed"].sum()
    static = float((loads["bytes"] == 16).mean())
    by_bulk = next(name for name in bulk["opcode"] if name.startswith("UBLKCP"))
    return Answers(
        {
            "hottest": Names(hottest, tuple(sorted(set(shuffle["opcode"])))),
            "on_it": ordered["samples"].iloc[0] / shuffle["samples"].sum(),
            "waits_for": "LDG",
            "wide": wide,
            "no_ldg": by_bulk,
        },
        [
            Misreading("that one has the second most", {"hottest": str(ordered["opcode"].iloc[1])}),
            Misreading(
                "that is all instructions with this opcode; the first alone is asked for",
                {"on_it": shuffle["samples"][shuffle["opcode"] == hottest].sum() / shuffle["samples"].sum()},
            ),
            Misreading(
                "the first shuffle needs what the thread has loaded from global memory", {"waits_for": "LDS"}
            ),
            Misreading("additions come after the first shuffle", {"waits_for": "FADD"}),
            Misreading("the thread's index is long there when the shuffle comes", {"waits_for": "S2R"}),
            Misreading("counted in the code; count how often they were executed", {"wide": static}),
            Misreading("not all: narrower loads are executed, too", {"wide": 1.0}),
            Misreading(
                "LDGSTS copies for each thread; here one thread asks for a whole piece", {"no_ldg": "LDGSTS"}
            ),
            Misreading("LDS reads from shared memory, when the data are there", {"no_ldg": "LDS"}),
            Misreading("STG writes to global memory", {"no_ldg": "STG"}),
        ],
        ["a sample says where a warp waits, the operand before it says for what"],
    )
