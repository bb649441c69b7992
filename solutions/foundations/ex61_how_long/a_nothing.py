"""Predict foundations-ex61: how long is nothing?

captures/h200/measuring/record.json.xz (results) has: events.empty_interval_us, the time between
two events with nothing between; events.one_thread_kernel_us, with a kernel of one thread between;
warmup.step_us, steps of a small model from the first on. Predict the medians, and the first step
over the median of all. Write each prediction as [low, high]: the narrower, the more it is worth,
if the measurement lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("empty_us", "the median of the empty interval", unit="µs", widest=5.0),
    Interval("kernel_us", "the median with a kernel of one thread", unit="µs", widest=5.0),
    Interval("first", "the first step over the median step", widest=20.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from statistics import median

    from labcode.grading import opened

    results = opened.record("h200", "measuring", "record")["results"]
    steps = results["warmup"]["step_us"]
    return Answers(
        {
            "empty_us": median(results["events"]["empty_interval_us"]),
            "kernel_us": median(results["events"]["one_thread_kernel_us"]),
            "first": steps[0] / median(steps),
        },
        [
            Misreading("events are written by the GPU, and each takes its time", {"empty_us": 0.5}),
            Misreading("its own work is nothing; starting and ending it is not", {"kernel_us": 1.0}),
            Misreading("the first step makes ready what all others use: far more", {"first": 5.0}),
        ],
        ["what takes hardly longer than the empty interval is measured in batches"],
    )
