"""Predict serving-ex62: what will the last percent wait?

A server works in continuous batches: "continuous 0.5" of
captures/h200/inference_load/record.json.xz (results, runs) is its load at half of what it serves
at most. Look up the median of last_us - arrives_us, and predict the rest. Write each prediction
as [low, high]: the narrower, the more it is worth, if the measurement lies within. The first
grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("p99_ms", "the 99th percentile at 0.5", unit="ms", widest=5.0),
    Interval("grows", "the 99th percentile at 0.9, over that at 0.5", widest=4.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    import numpy as np

    from labcode.grading import opened

    runs = opened.record("h200", "inference_load", "record")["results"]["runs"]

    def p99(name: str) -> float:
        run = runs[name]
        whole = np.asarray(run["last_us"], float) - np.asarray(run["arrives_us"], float)
        return float(np.percentile(whole, 99)) / 1e3

    half = p99("continuous 0.5")
    return Answers(
        {"p99_ms": half, "grows": p99("continuous 0.9") / half},
        [
            Misreading(
                "as if all answers were as long: the longest are what the last percent is made of",
                {"p99_ms": 12.0},
            ),
            Misreading(
                "so grows the mean wait for one server with one place; a batch has room for many",
                {"grows": 9.0},
            ),
            Misreading(
                "the busier the server, the fuller its batches, and the longer between two tokens",
                {"grows": 1.1},
            ),
        ],
        ["the tail is long answers: at the higher load each of their tokens takes longer"],
    )
