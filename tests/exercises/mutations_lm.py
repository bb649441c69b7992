"""Typical mistakes in the exercises on the language model: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

LANGUAGE_MODEL = [
    (
        "lm-ex08a",
        'statistics.median(case["forward_ms"]) + statistics.median(case["backward_ms"])',
        'statistics.fmean(case["forward_ms"]) + statistics.fmean(case["backward_ms"])',
        "moves the mean",
    ),
    (
        "lm-ex08a",
        'statistics.median(case["forward_ms"]) + statistics.median(case["backward_ms"])',
        'min(case["forward_ms"]) + min(case["backward_ms"])',
        "not the quickest",
    ),
    (
        "lm-ex08a",
        'statistics.median(case["forward_ms"]) + statistics.median(case["backward_ms"])',
        'case["forward_ms"][0] + case["backward_ms"][0]',
        "not the first",
    ),
    (
        "lm-ex08a",
        ' + statistics.median(case["backward_ms"])',
        "",
        "forward and backward pass together",
    ),
    (
        "lm-ex08a",
        'return sorted(mine, key=lambda case: case["length"])',
        "return mine",
        "sort them by length",
    ),
    (
        "lm-ex08a",
        'if case["fits"] and case["d_head"] == d_head]',
        'if case["fits"]]\n    mine = list({case["length"]: case for case in mine}.values())',
        "keep those of d_head",
    ),
    (
        "lm-ex08a",
        'math.log(after / before) / math.log(longer["length"] / shorter["length"])',
        "after / before",
        "these are ratios",
    ),
    (
        "lm-ex08a",
        'math.log(longer["length"] / shorter["length"])',
        "math.log(2)",
        "need not be twice as long",
    ),
    ("lm-ex08a", "shorter, longer = mine[-2:]", "shorter, longer = mine[0], mine[-1]", "over the last step"),
    (
        "lm-ex08a",
        "first = len(mine) - 1\n    while first > 0:",
        "first = len(mine) - 1\n"
        "    powers = [power(a, b, time_ms(a), time_ms(b)) for a, b in zip(mine, mine[1:])]\n"
        "    first = next((n for n, p in enumerate(powers) if p >= 1), first)\n"
        "    while False:",
        "from there on, over every step",
    ),
    (
        "lm-ex08a",
        'mine[first]["length"]',
        'mine[min(first + 1, len(mine) - 1)]["length"]',
        "not where it ends",
    ),
    (
        "lm-ex08a",
        '(batch * length**2 * item),\n        "held_inputs": held / (batch * length',
        '(length**2 * item),\n        "held_inputs": held / (length',
        "each text of the batch",
    ),
    ("lm-ex08a", "(1 / peak_power)", "(1 / 2)", "the square of the length"),
    ("lm-ex08a", "(1 / peak_power)", "1", "in proportion to the length"),
    (
        "lm-ex08a",
        "times[0][length] / times[1][length]",
        "times[1][length] / times[0][length]",
        "the slow time over the fast one",
    ),
    (
        "lm-ex08a",
        "    common = sorted(",
        "    times[1] = dict(zip(times[0], times[1].values()))\n    common = sorted(",
        "match them by length",
    ),
    (
        "lm-ex08a",
        "            break\n        worth_from = length",
        "            continue\n        worth_from = length",
        "at every length to the longest",
    ),
    ("lm-ex08a", "worth_from = 0", "worth_from = common[-1]", "worth_from is 0"),
]
