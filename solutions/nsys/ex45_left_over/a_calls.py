"""Detective nsys-ex45: what is left from debugging?

captures/h100/diagnosis/left_from_debugging-fault.nsys.xz is a loop whose GPU waits for more
than half of the time. Judge its steady state (`--window steady`).
"""

from labcode.grading.sheet import Answers, Misreading, Name, Number, Word

QUESTIONS = (
    Name("call", "the call of CUDA that takes most of the CPU's time"),
    Number("each", "how often it is made in an iteration", within=0.03),
    Number("us", "how long it takes in the mean", unit="µs"),
    Word(
        "left_on",
        "what was left on",
        words=("an allocator without cache", "a timer", "anomaly detection", "blocking launches"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.ledger.steady import steady
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "left_from_debugging-fault")
    judged = steady(report)
    calls = opened.cut(report.api(), judged.window)
    totals = opened.totals(calls)
    top = calls[calls["name"].astype(str) == totals.index[0]]
    words = {"allocation": "an allocator without cache"}
    whole = opened.totals(report.api())
    return Answers(
        {
            "call": opened.names(calls, str(totals.index[0])),
            "each": len(top) / judged.count,
            "us": 1000 * opened.ms(top) / len(top),
            "left_on": words[opened.cause("left_from_debugging")],
        },
        [
            Misreading("that one is called as often, but takes less in all", {"call": str(totals.index[1])}),
            Misreading(
                "that is first in the whole capture; add --window steady", {"call": str(whole.index[0])}
            ),
            Misreading("that is the whole steady state; divide by its iterations", {"each": len(top)}),
            Misreading("that is the sum of all of them in ms", {"us": opened.ms(top)}),
            Misreading(
                "what takes the time are calls that ask for memory and give it back", {"left_on": "a timer"}
            ),
            Misreading(
                "what takes the time are calls that ask for memory and give it back",
                {"left_on": "anomaly detection"},
            ),
            Misreading(
                "then no launch would return before its kernel ends: here all of them do",
                {"left_on": "blocking launches"},
            ),
        ],
        ["no free here returns while the GPU works; the allocator's cache avoids these calls"],
    )
