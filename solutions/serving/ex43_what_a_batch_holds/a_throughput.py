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

    def step(name: str) -> float:
        return float(1e3 * runs[name]["step_s"] / sum(runs[name]["steps"].values()))

    one, batched = "graph all", "continuous all"
    times = f"{served(batched) / served(one):.1f}"
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
            Misreading("that is static all", {"continuous": rate("static all")}),
            Misreading("that is over alone all", {"slower": between(batched) / between("alone all")}),
            Misreading("the other way round", {"slower": between(one) / between(batched)}),
            Misreading(
                "that is over static, which batches, too",
                {"slower": between(batched) / between("static all")},
            ),
            Misreading(
                f"a step of {batched} takes {step(batched):.2f} ms, one of {one} {step(one):.2f} ms",
                {"because": "kernels are shorter"},
            ),
            Misreading(
                f"graph all launches graphs, too; {batched} serves {times} times as many",
                {"because": "launches cost nothing"},
            ),
            Misreading(
                f"it would have to be {times} times as high as in graph all",
                {"because": "the clock is higher"},
            ),
        ],
        ["a step reads all weights, for one request or for many: those in a batch share the bill"],
    )
