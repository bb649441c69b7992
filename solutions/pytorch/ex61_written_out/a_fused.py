"""Predict pytorch-ex61: what does fusing gain?

captures/h100/diagnosis/hand_attention-fault.nsys.xz writes attention out (scores, mask,
softmax, dropout, product); vocab_loss-fault.nsys.xz a smoothed cross entropy over a large
vocabulary. Both are replaced by PyTorch's own fused function. What will be measured? Write each
prediction as [low, high]: the narrower, the more it is worth, if the measurement lies within. The
first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("attention", "how many times as fast hand_attention will be", widest=4.0),
    Interval("loss", "how many times as fast vocab_loss will be", widest=4.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    def ms(form: str) -> float:
        record = opened.record("h100", "diagnosis", f"hand_attention-{form}", clean=True)
        return 1e3 * float(record["results"]["seconds_per_iteration"])

    fault, mended = ms("fault"), ms("mended")
    loss = [
        opened.record("h100", "diagnosis", f"vocab_loss-{form}", clean=True)["results"][
            "seconds_per_iteration"
        ]
        for form in ("fault", "mended")
    ]
    return Answers(
        {"attention": fault / mended, "loss": loss[0] / loss[1]},
        [
            Misreading("more than one pass is saved: count them", {"attention": 1.5}),
            Misreading("more than one pass is saved: count them", {"loss": 1.5}),
            Misreading("the products are left, and they take their time", {"attention": 30.0}),
        ],
        ["passes over memory are what fusion saves: as many as there were, less one"],
    )
