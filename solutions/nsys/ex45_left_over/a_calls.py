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
            Misreading("that one is called as often, but takes less", {"call": str(totals.index[1])}),
            Misreading(
                "that is the whole capture, with start-up: add --window steady", {"call": str(whole.index[0])}
            ),
            Misreading("that is the whole window; divide by its iterations", {"each": len(top)}),
            Misreading("that is the sum in ms", {"us": opened.ms(top)}),
            Misreading(
                "a timer would synchronize; here memory is asked for and given back", {"left_on": "a timer"}
            ),
            Misreading(
                "that shows in operators and Python, not in these calls", {"left_on": "anomaly detection"}
            ),
            Misreading(
                "then every launch would take as long as its kernel", {"left_on": "blocking launches"}
            ),
        ],
        ["each free waits for the GPU: the allocator's cache is what keeps these calls out of a loop"],
    )
