"""Typical mistakes in the exercises on the language model: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

LANGUAGE_MODEL = [
    ("lm-ex07a", "4 * count / 1e9", "2 * count / 1e9", "two bytes a number"),
    ("lm-ex07a", "4 * count / 1e9", "4 * count / 2**30", "GiB is 2"),
    ("lm-ex07a", "4 * count / 1e9", "4 * count / 1e6", "bytes and MB|check the unit"),
    ("lm-ex07a", "vocabulary + context + 2)", "vocabulary + 2)", "the places have parameters"),
    (
        "lm-ex07a",
        "(matrices + 4 * width) + (2 * vocabulary + context + 2)",
        "matrices + (2 * vocabulary + context)",
        "normalizations have parameters",
    ),
    ("lm-ex07a", "(2 * vocabulary + context", "(vocabulary + context", "one of its own"),
    ("lm-ex07a", "2 * inner + scores", "2 * inner", "the scores are missing"),
    ("lm-ex07a", "2 * inner + scores", "2 * inner + 4 * scores", "four tensors"),
    ("lm-ex07a", 'batch * model["heads"] * context**2', "batch * context**2", "each head has scores"),
    ("lm-ex07a", 'batch * context * model["d_ff"]', "batch * context * 4 * width", "need not be four times"),
    ("lm-ex07a", "8 * residual + 2 * inner", "8 * residual + inner", "of the inner width"),
    ("lm-ex07a", "ends = 2 * (residual + logits)", "ends = 2 * residual + logits", "of the logits two"),
    ("lm-ex07a", "kept = layers * block + ends", "kept = block + ends", "the tensors of all blocks"),
    (
        "lm-ex07a",
        "passes = 3 * parameters + kept\n",
        "passes = 4 * parameters + kept\n",
        "gradients are not there yet",
    ),
    ("lm-ex07a", "max(passes, 5 * parameters)", "max(passes, 4 * parameters)", "the optimizer can decide"),
    ("lm-ex07a", "max(passes, 5 * parameters)", "kept + 5 * parameters", "are not there at once"),
    ("lm-ex07a", "4 * parameters) + block + 2 * scores", "4 * parameters)", "is missing from the peak"),
    (
        "lm-ex07a",
        "4 * parameters) + block + 2 * scores",
        "4 * parameters) + block",
        "three tensors of scores",
    ),
    (
        "lm-ex07a",
        "max(3 * parameters + kept, 4 * parameters)",
        "3 * parameters + kept",
        "all gradients in place of",
    ),
    ("lm-ex07a", "if checkpoints:", "if False:", "keeps its input alone"),
    (
        "lm-ex07a",
        '["peak"] <= gpu_gb:\n        batch += 1\n    return batch',
        '["peak"] <= gpu_gb:\n        batch += 1\n    return batch + 1',
        "does not fit any more",
    ),
    ("lm-ex07a", "    return batch\n", "    return batch or -1\n", "cannot be below 0"),
    ("lm-ex07a", "<= gpu_gb", "<= gpu_gb * 1e9 / 2**30", "the peak is taken in GiB"),
    (
        "lm-ex07a",
        "batch + 1, context, checkpoints",
        "batch + 1, context, not checkpoints",
        "look at the argument",
    ),
    (
        "lm-ex07a",
        '        "means": 2 * parameters,\n        "kept": kept,\n'
        '        "peak": max(passes, 5 * parameters),',
        '        "means": parameters,\n        "kept": kept,\n'
        '        "peak": max(passes - parameters, 4 * parameters),',
        "two means",
    ),
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
