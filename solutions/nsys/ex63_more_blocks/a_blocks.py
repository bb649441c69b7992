"""Predict nsys-ex63: what will more blocks bring?

captures/h100/diagnosis/audio_norm-fault.nsys.xz (nsys-ex43 asks about it): one kernel takes
most of the time, with four blocks. It is written anew, with as many blocks as the GPU has room
for. What will be measured? Write each prediction as [low, high]: the narrower, the more it is
worth, if the measurement lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (Interval("faster", "how many times as fast the program will be", widest=3.0),)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    def ms(form: str) -> float:
        record = opened.record("h100", "diagnosis", f"audio_norm-{form}", clean=True)
        return 1e3 * float(record["results"]["seconds_per_iteration"])

    fault, mended = ms("fault"), ms("mended")
    return Answers(
        {"faster": fault / mended},
        [
            Misreading(
                "that is the multiprocessors over the blocks: the rest of the program takes its time, too",
                {"faster": 33.0},
            ),
            Misreading(
                "look up its share of the time: what is left without it is far less than half",
                {"faster": 2.0},
            ),
        ],
        ["Amdahl's law bounds the gain from above: what is left grows to all of it"],
    )
