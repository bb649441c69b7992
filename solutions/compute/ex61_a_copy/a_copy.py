"""Predict compute-ex61: how long does a copy take?

An array of 100,663,296 float32 is copied on an H200 (4.8 TB/s on paper): each element is read
once and written once. captures/h200/ncu_memory/exam_copies.ncu-rep.xz has the measurement;
predict before you look. Which time will the vectorized copy take, and which the strided one,
whose threads are a line apart? Write each prediction as [low, high]: the narrower, the more it is
worth, if the measurement lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("vectorized_us", "the time of the vectorized copy", unit="µs", widest=2.0),
    Interval("strided", "how many times as long the strided copy takes", widest=6.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_memory", "exam_copies")
    strided, _, vectorized = report.list[:3]
    time = vectorized.number("duration_ns")
    read = strided.metric("dram__bytes_read.sum") / vectorized.metric("dram__bytes_read.sum")
    return Answers(
        {"vectorized_us": time / 1e3, "strided": strided.number("duration_ns") / time},
        [
            Misreading("that is reading alone: the copy writes as much", {"vectorized_us": 402.65 / 4.8}),
            Misreading(
                "that is at the rate on paper; a tenth of it is lost", {"vectorized_us": 2 * 402.65 / 4.8}
            ),
            Misreading(
                f"that is the ratio of sectors the L1 is asked for: DRAM reads {read:.0f} times as much",
                {"strided": 8.0},
            ),
        ],
        ["the bytes of a coalesced copy are known before it runs, and with them its time"],
    )
