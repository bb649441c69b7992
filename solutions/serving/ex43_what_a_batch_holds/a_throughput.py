"""Detective serving-ex43: what does batching buy?

captures/h200/inference_load/record.json.xz, results → runs: "alone all" (one request after the
other, the plain way), "graph all" (one after the other, fast), "static all", "continuous all" (in
batches). All requests are there at the begin.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

QUESTIONS = (
    Number("alone", "tokens a second of alone all", within=0.02),
    Number("continuous", "tokens a second of continuous all", within=0.02),
    Number("over_static", "requests a second: continuous all over static all", within=0.03),
    Number(
        "slower",
        "the median time between two tokens of a request: continuous all over graph all",
        within=0.05,
    ),
    Word(
        "because",
        "why a batch serves more",
        words=(
            "weights are read once for all",
            "kernels are shorter",
            "launches cost nothing",
            "the clock is higher",
        ),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    import numpy as np

    from labcode.grading import opened

    runs = opened.record("h200", "inference_load", "record")["results"]["runs"]

    def rate(name: str) -> float:
        return float(sum(runs[name]["tokens"]) / runs[name]["span_us"] * 1e6)

    def served(name: str) -> float:
        return float(runs[name]["done"] / runs[name]["span_us"] * 1e6)

    def between(name: str) -> float:
        run = runs[name]
        tokens = np.asarray(run["tokens"], float)
        many = tokens > 1
        spent = np.asarray(run["last_us"], float) - np.asarray(run["first_us"], float)
        return float(np.median(spent[many] / (tokens[many] - 1)))

    one, batched = "graph all", "continuous all"
    return Answers(
        {
            "alone": rate("alone all"),
            "continuous": rate(batched),
            "over_static": served(batched) / served("static all"),
            "slower": between(batched) / between(one),
            "because": "weights are read once for all",
        },
        [
            Misreading("those are requests a second", {"alone": served("alone all")}),
            Misreading("those are requests a second", {"continuous": served(batched)}),
            Misreading("the other way round", {"slower": between(one) / between(batched)}),
            Misreading(
                "that is over static, which batches, too",
                {"slower": between(batched) / between("static all")},
            ),
            Misreading(
                "they are longer: a token takes more time in a batch", {"because": "kernels are shorter"}
            ),
            Misreading(
                "graph all has one launch a token already, and serves a fraction",
                {"because": "launches cost nothing"},
            ),
            Misreading("the clock is what it was", {"because": "the clock is higher"}),
        ],
        ["a step reads all weights, for one request or for many: those in a batch share the bill"],
    )
