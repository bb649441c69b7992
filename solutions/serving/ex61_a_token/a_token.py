"""Predict serving-ex61: how long must a token take?

A model with 5.15 GB of weights decodes on an H200 (4.8 TB/s on paper); its cache of keys and
values adds 0.09 GB. captures/h200/inference_ladder/record.json has what was measured: predict
first. Write each prediction as [low, high]: the narrower, the more it is worth, if the
measurement lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval(
        "fast_ms", "the time of a token, by kernels launched early (rungs, early)", unit="ms", widest=2.0
    ),
    Interval("batch", "how many times as long a step with sixteen sequences takes (batches, 16)", widest=6.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from statistics import median

    from labcode.grading import opened

    results = opened.record("h200", "inference_ladder", "record")["results"]
    early = median(results["rungs"]["early"]["token_ms"])
    batch = results["batches"]["16"]["step_ms"] / early
    return Answers(
        {"fast_ms": early, "batch": batch},
        [
            Misreading("that is the rate on paper, to the last byte", {"fast_ms": 5.24 / 4.8}),
            Misreading("sixteen times the tokens are not sixteen times the bytes", {"batch": 16.0}),
            Misreading(
                "the weights are read once; what each sequence has of its own comes on top",
                {"batch": 1.1},
            ),
        ],
        [f"sixteen tokens take {batch:.1f} times as long as one: a step reads its weights once"],
    )
