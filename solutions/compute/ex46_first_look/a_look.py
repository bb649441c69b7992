"""Detective compute-ex46: a first look at a report.

captures/h200/ncu_memory/exam_copies.ncu-rep.xz: launches 0 to 6 are strided, coalesced,
vectorized, in_flight (twice), bulk_ring, bulk. All copy the same array.
"""

from labcode.grading.sheet import Answers, Misreading, Name, Names, Number, Share, Word

QUESTIONS = (
    Name("slowest", "the kernel that takes the longest"),
    Number("moved", "bytes that it reads from DRAM, over those that coalesced reads", within=0.03),
    Name("fastest", "the kernel that takes the least time"),
    Share("occupancy", "bulk_ring: the achieved occupancy", by=0.0008),
    Word(
        "so",
        "what that occupancy says of bulk_ring",
        words=("few warps suffice", "it is badly launched", "registers limit it", "it is compute-bound"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_memory", "exam_copies")
    table = report.launches()
    kernels = opened.names(table, "", "kernel").all
    ordered = table.sort_values("duration_ns")
    slowest, fastest = str(ordered["kernel"].iloc[-1]), str(ordered["kernel"].iloc[0])
    read = {
        one: launch.metric("dram__bytes_read.sum")
        for one, launch in zip(table["kernel"], report.list, strict=True)
    }
    ring = report.list[table["kernel"].tolist().index("bulk_ring")]
    occupancy = ring.metric("sm__warps_active.avg.pct_of_peak_sustained_active") / 100
    spread = ring.metric("launch__grid_size") * ring.metric("launch__block_size") / 32 / (132 * 64)
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    asked = report.list[0].metric(sectors) / report.list[1].metric(sectors)
    return Answers(
        {
            "slowest": Names(slowest, kernels),
            "moved": read[slowest] / read["coalesced"],
            "fastest": Names(fastest, kernels),
            "occupancy": occupancy,
            "so": "few warps suffice",
        },
        [
            Misreading(
                "it is slow beside the five after it; another is slower by far", {"slowest": "coalesced"}
            ),
            Misreading("those are sectors that the L1 is asked for: DRAM reads more", {"moved": asked}),
            Misreading(
                "that is the ratio of their times",
                {"moved": report.list[0].number("duration_ns") / report.list[1].number("duration_ns")},
            ),
            Misreading("another one takes less, by little", {"fastest": "bulk"}),
            Misreading("another one takes less, by little", {"fastest": "in_flight"}),
            Misreading(
                "that is bulk",
                {
                    "occupancy": report.list[6].metric("sm__warps_active.avg.pct_of_peak_sustained_active")
                    / 100
                },
            ),
            Misreading(
                "that is by the grid, if its warps were spread evenly from begin to end",
                {"occupancy": spread},
            ),
            Misreading(
                "that is the theoretical occupancy",
                {"occupancy": ring.metric("sm__maximum_warps_per_active_cycle_pct") / 100},
            ),
            Misreading(
                "it takes 4 % more time than the fastest",
                {"so": "it is badly launched"},
            ),
            Misreading("it has sixteen registers a thread", {"so": "registers limit it"}),
            Misreading("it computes nothing", {"so": "it is compute-bound"}),
        ],
        ["one warp that asks for whole pieces can have as many bytes in flight as many that ask for words"],
    )
