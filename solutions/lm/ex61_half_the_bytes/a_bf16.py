"""Predict lm-ex61: what will bf16 bring?

Training steps of language models on an H200, batch 4, context 512, fp32 without TF32 against bf16
(autocast): small (d_model 768, 12 layers) and medium (1024, 24 layers). captures/h200/energy_lm
has how many steps a second each made; predict first. Write each prediction as [low, high]: the
narrower, the more it is worth, if the measurement lies within. The first grading is the one that
is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("small", "how many times as fast the small model trains in bf16", widest=3.0),
    Interval("medium", "how many times as fast the medium model trains in bf16", widest=3.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.energy.repeated import repeated
    from labcode.grading import opened

    table = repeated(
        opened.record("h200", "energy_lm", "record"), opened.power("h200", "energy_lm", "record")
    )
    step = table["seconds"] / table["repetitions"]

    def faster(size: str) -> float:
        return float(step[f"train {size} fp32"] / step[f"train {size} bf16"])

    return Answers(
        {"small": faster("small"), "medium": faster("medium")},
        [
            Misreading("that is the peaks' ratio, of products alone", {"medium": 15.0}),
            Misreading("that is the peaks' ratio, of products alone", {"small": 15.0}),
            Misreading(
                "half the bytes would give that; products run on other units, too, at many times the rate",
                {"small": 2.0, "medium": 2.0},
            ),
            Misreading(
                "the larger model gains more than the small one",
                {"medium": faster("small")},
            ),
        ],
        [
            f"a step of the small model takes {1e3 * step['train small bf16']:.1f} ms; in TF32, "
            f"where products have half the peak rate, {1e3 * step['train small tf32']:.1f} ms"
        ],
    )
