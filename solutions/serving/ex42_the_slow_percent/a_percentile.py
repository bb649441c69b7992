"""Detective serving-ex42: the slowest percent.

captures/h200/inference_load/record.json.xz, results → runs → "continuous 0.7": requests that
arrive at random, at seven tenths of what the server can serve. arrives_us, started_us, first_us
(the first token), last_us (the last).
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Number("p50_ms", "the median time from arrival to the last token", unit="ms", within=0.01),
    Number("p99_ms", "its 99th percentile", unit="ms", within=0.01),
    Number(
        "first_p99_ms",
        "the 99th percentile of the time from arrival to the first token",
        unit="ms",
        within=0.02,
    ),
    Share(
        "waiting",
        "the mean time between arrival and start, over the mean time from arrival to the first token",
        by=0.03,
    ),
    Word(
        "more",
        "at a rate of nine tenths, which grows most, relative to itself?",
        words=("the 99th percentile", "tokens a second"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    import numpy as np

    from labcode.grading import opened

    runs = opened.record("h200", "inference_load", "record")["results"]["runs"]

    def table(name: str) -> dict[str, object]:
        return {
            key: np.asarray(runs[name][f"{key}_us"], float) / 1e3
            for key in ("arrives", "started", "first", "last")
        }

    run, busier = table("continuous 0.7"), table("continuous 0.9")
    whole, first = run["last"] - run["arrives"], run["first"] - run["arrives"]
    started = run["last"] - run["started"]
    waits = run["started"] - run["arrives"]
    calmer = table("continuous 0.5")
    half = calmer["last"] - calmer["arrives"]
    tokens = [
        sum(runs[f"continuous {load}"]["tokens"]) / runs[f"continuous {load}"]["span_us"]
        for load in (0.7, 0.9)
    ]
    more = (
        tokens[1] / tokens[0] - 1,
        np.percentile(busier["last"] - busier["arrives"], 99) / np.percentile(whole, 99) - 1,
    )
    assert more[1] > 0.2 and more[1] > more[0]
    return Answers(
        {
            "p50_ms": float(np.median(whole)),
            "p99_ms": float(np.percentile(whole, 99)),
            "first_p99_ms": float(np.percentile(first, 99)),
            "waiting": float(waits.mean() / first.mean()),
            "more": "the 99th percentile",
        },
        [
            Misreading("that is to the first token", {"p50_ms": float(np.median(first))}),
            Misreading("that is continuous 0.5", {"p50_ms": float(np.median(half))}),
            Misreading("that is continuous 0.5", {"p99_ms": float(np.percentile(half, 99))}),
            Misreading("that is the mean", {"p50_ms": float(whole.mean())}),
            Misreading(
                "that is from the start on, not from arrival on",
                {"p50_ms": float(np.median(started))},
            ),
            Misreading("that is the 95th percentile", {"p99_ms": float(np.percentile(whole, 95))}),
            Misreading("that is the longest of all", {"p99_ms": float(whole.max())}),
            Misreading("that is the median", {"first_p99_ms": float(np.median(first))}),
            Misreading(
                "that is from the start on, not from arrival on",
                {"p99_ms": float(np.percentile(started, 99))},
            ),
            Misreading(
                "that is from the start on, not from arrival on",
                {"first_p99_ms": float(np.percentile(run["first"] - run["started"], 99))},
            ),
            Misreading(
                f"the median over the median is {np.median(waits) / np.median(first):.3f}; take the means",
                {"waiting": float(np.median(waits) / np.median(first))},
            ),
            Misreading("that is the mean wait in ms, not a share", {"waiting": float(waits.mean())}),
            Misreading("that is the median", {"p99_ms": float(np.median(whole))}),
            Misreading(
                "that is the share of the whole time until the last token",
                {"waiting": float(waits.mean() / whole.mean())},
            ),
            Misreading(
                f"tokens a second grow by {more[0]:.0%}, the 99th percentile by {more[1]:.0%}",
                {"more": "tokens a second"},
            ),
        ],
        ["the first token's last percent is the queue, the last token's is long answers"],
    )
