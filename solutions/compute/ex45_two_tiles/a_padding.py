"""Detective compute-ex45: two tiles, one word apart.

captures/h200/ncu_transpose/exam_steps.ncu-rep.xz: launches 1 and 2 are the kernel `tiled`,
without and with a word of padding in each row of its tile.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

QUESTIONS = (
    Number("faster", "how many times as fast launch 2 is as launch 1", within=0.02),
    Number("wavefronts", "wavefronts of shared loads of launch 1 over those of launch 2", within=0.02),
    Number("sectors", "sectors of global loads of launch 1 over those of launch 2", within=0.02),
    Word(
        "state",
        "the warp state on top in launch 1, and no longer in launch 2",
        words=("MIO throttle", "long scoreboard", "barrier", "drain"),
    ),
    Number("first", "launch 0 (naive): sectors for each request of its stores", within=0.02),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_transpose", "exam_steps")
    naive, plain, padded, third = report.list[:4]

    def over(name: str) -> float:
        return float(plain.metric(name) / padded.metric(name))

    shared = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    stores = "l1tex__t_%s_pipe_lsu_mem_global_op_st.sum"
    each = naive.metric(stores % "sectors") / naive.metric(stores % "requests")
    loads = "l1tex__t_%s_pipe_lsu_mem_global_op_ld.sum"
    faster = plain.number("duration_ns") / padded.number("duration_ns")
    return Answers(
        {
            "faster": faster,
            "wavefronts": over(shared),
            "sectors": over(loads % "sectors"),
            "state": "MIO throttle",
            "first": each,
        },
        [
            Misreading("that is the other way round", {"faster": 1 / faster}),
            Misreading(
                "that is over launch 3", {"faster": plain.number("duration_ns") / third.number("duration_ns")}
            ),
            Misreading("that is over launch 3", {"wavefronts": plain.metric(shared) / third.metric(shared)}),
            Misreading(
                "an ideal conflict of 32 threads would give 32: read off what was counted",
                {"wavefronts": 32.0},
            ),
            Misreading(
                "that is the ratio of times: both load the same from global memory",
                {"sectors": faster},
            ),
            Misreading(
                "that state is on top of launch 2; in launch 1 another is", {"state": "long scoreboard"}
            ),
            Misreading("that state stands third in launch 1", {"state": "barrier"}),
            Misreading("that is launch 0, whose stores are scattered", {"state": "drain"}),
            Misreading(
                "those are its loads, which are in order",
                {"first": naive.metric(loads % "sectors") / naive.metric(loads % "requests")},
            ),
        ],
        ["the queue of the memory units fills (MIO throttle) because each load holds it for several turns"],
    )
