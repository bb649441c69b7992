"""Predict scaling-ex61: what will a second GPU bring?

captures/h200/scaling_training/strong.json says what a step takes on one H200, with a batch of 32
and of 16 (strategy single): look these up. Two GPUs share the batch; 1.29 GB of gradients are
summed up each step, over NVLink. Predict what it says of two. Write each prediction as [low,
high]: the narrower, the more it is worth, if the measurement lies within. The first grading is
the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval(
        "after_ms",
        "the step on two GPUs, one all-reduce of a flat buffer after the backward pass (flat)",
        unit="ms",
        widest=1.4,
    ),
    Interval(
        "hidden_ms", "the step on two GPUs, in buckets beside the backward pass (ddp)", unit="ms", widest=1.4
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from statistics import median

    from labcode.grading import opened

    cases = opened.record("h200", "scaling_training", "strong")["results"]["cases"]

    def step(strategy: str) -> float:
        return float(median(next(one for one in cases if one["strategy"] == strategy)["step_ms"]))

    single = {one["batch"]: median(one["step_ms"]) for one in cases if one["strategy"] == "single"}
    return Answers(
        {"after_ms": step("flat"), "hidden_ms": step("ddp")},
        [
            Misreading(
                "that is half of the step: communication is not in it, and half a batch takes more than half",
                {"after_ms": single[32] / 2},
            ),
            Misreading(
                "that is half of the batch on one GPU; with communication beside it the step is longer",
                {"hidden_ms": single[16]},
            ),
        ],
        ["the bytes over the link are known; what hiding them costs has to be measured"],
    )
