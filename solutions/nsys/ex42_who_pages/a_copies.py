"""Detective nsys-ex42: how the bytes travel.

captures/h100/diagnosis/satellite_tiles-fault.nsys.xz is a loop that segments tiles of satellite
pictures. Judge its steady state: `labcode stats -r REPORT --window steady FILE` leaves out
start-up and warm-up.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Word("memory", "which memory of the host the tiles come from", words=("pageable", "pinned", "managed")),
    Number("gb_per_s", "the rate of the copies to the GPU: all their bytes over all their time", unit="GB/s"),
    Share("copying", "the share of the steady state in which the GPU copies"),
    Number("at_most", "times faster at most, if the copies cost nothing", within=0.08),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "satellite_tiles-fault")
    window = opened.steady(report)
    copies = opened.cut(report.memcpys(), window)
    length, time = (window[1] - window[0]) / opened.MS, opened.ms(copies)
    rate = copies["bytes"].sum() / time / 1e6
    share = time / length
    whole = report.memcpys()
    first, last = opened.extent(report.gpu_ops())
    ops = opened.cut(report.gpu_ops(), window)
    begin, end = opened.extent(ops)
    busy = (1 - opened.idle_share(ops)) * (end - begin) / opened.MS
    return Answers(
        {
            "memory": str(copies["src_kind"].iloc[0]),
            "gb_per_s": rate,
            "copying": share,
            "at_most": 1 / (1 - share),
        },
        [
            Misreading(
                "from pinned memory the link gives over 50 GB/s; look at the kind of the source",
                {"memory": "pinned"},
            ),
            Misreading("the copies say the kind of their source: it is not managed", {"memory": "managed"}),
            Misreading("that is in GiB/s: GB are 10⁹ bytes", {"gb_per_s": rate * 1e9 / 2**30}),
            Misreading(
                "that is the share of the whole capture, most of which lies before the steady state",
                {"copying": opened.ms(whole) / ((last - first) / opened.MS)},
            ),
            Misreading("that is the share of the time in which the GPU is busy", {"copying": time / busy}),
            Misreading(
                "that is 1 plus the share; the time falls to what is left, so divide 1 by that",
                {"at_most": 1 + share},
            ),
            Misreading(
                "that is the share that is left: the time falls to it, so divide 1 by it",
                {"at_most": 1 - share},
            ),
            Misreading(
                "that is 1 over the share of the copies; divide 1 by what is left", {"at_most": 1 / share}
            ),
        ],
        ["four times the rate and more would come from pinned memory alone"],
    )
