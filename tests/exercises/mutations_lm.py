"""Typical mistakes in the exercises on the language model: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

LANGUAGE_MODEL = [
    ("lm-ex01a", "statistics.stdev(values)", "statistics.pstdev(values)", "divide by n - 1"),
    (
        "lm-ex01a",
        '[*results["warmup_forward_host_ms"], *results["forward_host_ms"]][warm_up : warm_up + steps]',
        'results["forward_host_ms"][:steps]',
        "begin among those that the program called warm-up",
    ),
    ("lm-ex01a", "[warm_up : warm_up + steps]", "[warm_up:]", "more steps are averaged"),
    ("lm-ex01a", ">= window[0]", ">= 0", "ranges outside of the window count"),
    (
        "lm-ex01a",
        'ranges["name"] == "forward"',
        'ranges["name"].str.contains("forward")',
        "whose name only contains forward",
    ),
    ("lm-ex01a", "[-len(mine) :]", "", "of the same steps"),
    ("lm-ex01a", "range_ms / host_ms - 1", "host_ms / range_ms - 1", "this is host over range"),
    (
        "lm-ex02a",
        "name = sums.idxmax()",
        'name = mine.groupby("name")["ns"].mean().idxmax()',
        "the longest mean time",
    ),
    ("lm-ex02a", "name = sums.idxmax()", 'name = mine["name"].value_counts().idxmax()', "called most often"),
    ("lm-ex02a", "calls / steps", "calls", "divide by the number of steps"),
    ("lm-ex02a", "sums[name] / sums.sum()", 'sums[name] / kernels["ns"].sum()', "of the time of the pass"),
    (
        "lm-ex02a",
        'bool(passes & set(path.split("/"))) for',
        "any(p in path for p in passes) for",
        "compare whole names of ranges",
    ),
    ("lm-ex02a", '{"forward", "backward"}}', '{"forward", "backward", "optimizer"}}', "neither forward nor"),
    ("lm-ex02a", 'ops[ops["kind"] == "kernel"]', "ops", "but no kernels"),
    (
        "lm-ex03a",
        "mine = ops[inside]",
        'mine = ops[inside][ops["kind"] == "kernel"]',
        "only kernels are counted",
    ),
    ("lm-ex03a", "whole = sums.sum()", 'whole = sums.drop("matmul").sum()', "products included"),
    ("lm-ex03a", '{"other": [0.0, 0.0]}', "{}", "the keys differ|other must always be listed"),
    ("lm-ex03a", "mine = ops[inside]", "mine = ops", "launched in the forward pass"),
    ("lm-ex03a", "/ 1e6 / steps", "/ 1e6", "times are those of one step"),
    ("lm-ex03a", ' and (ns / whole >= least or bucket == "other")', "", "below the least share"),
    ("lm-ex04a", 'ops["end_ns"] - ops["start_ns"]', 'ops["end_ns"] * 0 + 1', "the number of operations"),
    (
        "lm-ex04a",
        "    def products(ops: pd.DataFrame) -> tuple[float, float]:\n",
        "    def products(ops: pd.DataFrame) -> tuple[float, float]:\n"
        '        ops = ops[ops["kind"] == "kernel"]\n',
        "only kernels are counted",
    ),
    (
        "lm-ex04a",
        "(taught / training_steps) / (asked / inference_steps)",
        "taught / asked",
        "from one step to one",
    ),
    (
        "lm-ex04a",
        "(taught / training_steps) / (asked / inference_steps)",
        "(taught_in_all / training_steps) / (asked_in_all / inference_steps)",
        "growth is that of products",
    ),
    ("lm-ex04a", "products(training[inside])", "products(training)", "still in «without optimizer»"),
    ("lm-ex04a", '{"forward", "backward"}.isdisjoint', '{"forward"}.isdisjoint', "two passes left"),
    ("lm-ex05a", "2 * 2 * pairs", "2 * pairs", "two operations"),
    ("lm-ex05a", ' / model["heads"]\n', "\n", "the width of one head"),
    ("lm-ex05a", '2 * 4 * pairs * model["layers"]', "2 * 4 * pairs", "the bytes of one"),
    ("lm-ex05a", "2 * 4 * pairs * model", "4 * pairs * model", "writes as much"),
    ("lm-ex05a", ' if "forward" in path else ""', "", "computed again in the backward pass"),
    ("lm-ex05a", " * steps / softmax_ns", " / softmax_ns", "the times are of all steps"),
]
