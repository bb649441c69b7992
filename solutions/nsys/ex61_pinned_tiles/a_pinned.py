"""Predict nsys-ex61: what will pinned memory bring?

captures/h100/diagnosis/satellite_tiles-fault.nsys.xz was measured: an iteration copies 201 MB
from pageable memory, which takes most of it (`labcode diagnose` says how much). Now the tiles are
pinned, and copied without the host waiting. What will be measured? Write each prediction as [low,
high]: the narrower, the more it is worth, if the measurement lies within. The first grading is
the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("gb_per_s", "the rate of the copies from pinned memory", unit="GB/s", widest=2.0),
    Interval("faster", "how many times as fast an iteration will be, without a profiler", widest=3.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    def ms(form: str) -> float:
        record = opened.record("h100", "diagnosis", f"satellite_tiles-{form}", clean=True)
        return 1e3 * float(record["results"]["seconds_per_iteration"])

    fault, mended = ms("fault"), ms("mended")
    copies = opened.nsys("h100", "diagnosis", "satellite_tiles-mended").memcpys()
    pinned = copies[(copies["src_kind"] == "pinned") & (copies["copy_kind"] == "H2D")]
    rate = pinned["bytes"].sum() / (pinned["end_ns"] - pinned["start_ns"]).sum()
    return Answers(
        {"gb_per_s": float(rate), "faster": fault / mended},
        [
            Misreading("that is the link's figure on paper; a seventh less is measured", {"gb_per_s": 64.0}),
            Misreading(
                "that is the memory of the GPU, which is far faster than the link", {"gb_per_s": 3000.0}
            ),
            Misreading("that is what pageable memory gave", {"gb_per_s": 10.0}),
            Misreading(
                "as if the copies cost nothing: they still take their time at the link's rate",
                {"faster": 4.6},
            ),
        ],
        ["the kernels' time is left, and the copies' at the link's rate, here one after the other"],
    )
