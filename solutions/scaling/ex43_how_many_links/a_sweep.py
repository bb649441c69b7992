"""Detective scaling-ex43: an all-reduce on two, three, and four.

captures/h200/scaling_collectives_four/sweep.json.xz: collectives on two, three, and four H200, from 1 KiB
to 4 GiB, each timed several times.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number

QUESTIONS = (
    Number("four", "the all-reduce of 1 GiB on four: median time", unit="ms", within=0.02),
    Number("bus", "its bus bandwidth: 2 (n − 1) / n of the bytes over that time", unit="GB/s", within=0.02),
    Number("against_two", "its time over that of the same bytes on two", within=0.02),
    Number(
        "gather",
        "the time of that all-reduce over that of the all-gather of 1 GiB, also on four",
        within=0.02,
    ),
    Count(
        "from_mib",
        "four GPUs: the smallest all-reduce that takes twice as long as one of 1 KiB, or longer, in MiB",
    ),
)
GIB, MIB = 2**30, 2**20


def answers() -> Answers:
    """The right answers, from the capture."""
    from statistics import median

    from labcode.grading import opened

    cases = opened.record("h200", "scaling_collectives_four", "sweep")["results"]["cases"]
    us = {(one["operation"], one["count"], one["bytes"]): median(one["times_us"]) for one in cases}
    reduce = {size: time for (name, count, size), time in us.items() if (name, count) == ("all_reduce", 4)}
    four, two = reduce[GIB], us["all_reduce", 2, GIB]
    gather = us["all_gather", 4, GIB]
    long = min(size for size, time in reduce.items() if time >= 2 * reduce[1024])
    rate = GIB / four / 1e3
    return Answers(
        {
            "four": four / 1e3,
            "bus": 1.5 * rate,
            "against_two": four / two,
            "gather": four / gather,
            "from_mib": long // MIB,
        },
        [
            Misreading("that is two GPUs", {"four": two / 1e3}),
            Misreading("that is the all-gather", {"four": gather / 1e3}),
            Misreading("that is 4 GiB", {"four": reduce[4 * GIB] / 1e3}),
            Misreading("that is in GiB/s: GB are 10⁹ bytes", {"bus": 1.5 * rate * 1e9 / GIB}),
            Misreading(
                "that is (n − 1) / n of the bytes, as of an all-gather; an all-reduce has twice that factor",
                {"bus": 0.75 * rate},
            ),
            Misreading(
                "that is the bus bandwidth's gain: times are asked for", {"against_two": 1.5 * two / four}
            ),
            Misreading("that is on two, where the factor is 1", {"bus": GIB / two / 1e3}),
            Misreading("that is on two", {"gather": two / us["all_gather", 2, GIB]}),
            Misreading("that all-gather is on two", {"gather": four / us["all_gather", 2, GIB]}),
            Misreading(
                "that is bytes over time: a link of the ring carries 1.5 times as many", {"bus": rate}
            ),
            Misreading(
                "that is twice the bytes over that time; on four the factor is 1.5", {"bus": 2 * rate}
            ),
            Misreading("the other way round", {"against_two": two / four}),
            Misreading(
                "a ring of four sends 1.5 times what one of two does: its time is less than that",
                {"against_two": 1.5},
            ),
            Misreading("an all-reduce is two such phases; measured they are not twice one", {"gather": 2.0}),
            Misreading("the other way round", {"gather": gather / four}),
            Misreading("that is in KiB", {"from_mib": long // 1024}),
            Misreading("those are bytes", {"from_mib": long}),
            Misreading("that is twice that size", {"from_mib": 2 * long // MIB}),
            Misreading("that one is still shorter", {"from_mib": long // 2 // MIB}),
        ],
        ["below that size the number of calls costs, not their bytes: put small ones together"],
    )
