"""Predict nsys-ex62: what will it bring to stop reading?

captures/h100/diagnosis/class_scores-fault.nsys.xz reads a number for every class,
heat_solver-fault.nsys.xz (in diagnosis_later) one in each sweep. In both the reading is taken
out of the loop. What will be measured? Write each prediction as [low, high]: the narrower, the
more it is worth, if the measurement lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("class_scores", "how many times as fast class_scores will be", widest=4.0),
    Interval("heat_solver", "how many times as fast heat_solver will be", widest=1.5),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    def ms(form: str) -> float:
        record = opened.record("h100", "diagnosis", f"class_scores-{form}", clean=True)
        return 1e3 * float(record["results"]["seconds_per_iteration"])

    fault, mended = ms("fault"), ms("mended")
    later = [
        opened.record("h100", "diagnosis_later", f"heat_solver-{form}", clean=True)["results"][
            "seconds_per_iteration"
        ]
        for form in ("fault", "mended")
    ]
    return Answers(
        {"class_scores": fault / mended, "heat_solver": later[0] / later[1]},
        [
            Misreading(
                "there is more to it: a wait empties the queue, and hundreds of launches go with it",
                {"class_scores": 1.3},
            ),
            Misreading(
                "the waits are gone, and the GPU is as idle as before: it waits for launches",
                {"heat_solver": 1.5},
            ),
            Misreading(
                "the waits are gone, and the GPU is as idle as before: it waits for launches",
                {"heat_solver": 2.0},
            ),
        ],
        ["of two causes on one path the first to go gains nothing, if the second takes the same time"],
    )
