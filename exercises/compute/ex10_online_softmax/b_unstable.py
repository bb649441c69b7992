"""Exercise compute-ex10, part b: a softmax that overflows, and three functions beside it, to be fixed.

`softmax(scores)`: the weights exp(score) / sum of exp(score). What is below works for small scores. It must
work for all that fp32 holds, and for as many as there are:

    a score of -inf       is a key that is not seen: its weight is 0.0
    all scores are -inf   no key is seen: all weights are 0.0
    a NaN, or +inf        all weights are NaN: an error must not look like a result

`log_sum_exp(scores)`: log of the sum of exp(score); -inf when all are, NaN with a NaN or +inf.

`cross_entropy(scores, target)`: -log(softmax(scores)[target]), finite wherever the scores are.

`in_half(scores)`: the weights again, in fp16: each score is rounded to fp16 first, and each weight in the end
(as a float). In between fp16 is too narrow.

fp32 is exact enough for all four.

A worked example:

    softmax([1000.0, 1000.0])             ->  [0.5, 0.5]
    log_sum_exp([1000.0, 1000.0])         ->  1000.6931
    cross_entropy([0.0, 1000.0], 0)       ->  1000.0
    in_half([60000.0, 60000.0])           ->  [0.5, 0.5]

Grade it:         labcode exercises compute-ex10b        (or: nox -s exercises -- compute-ex10b)
Get a hint:       labcode exercises compute-ex10b --hint
"""

import numpy as np


def softmax(scores: list[float]) -> list[float]:
    """The weights of the scores."""
    powers = np.exp(np.array(scores, dtype=np.float32))
    return [float(w) for w in powers / powers.sum()]


def log_sum_exp(scores: list[float]) -> float:
    """The logarithm of the sum of the exponentials."""
    return float(np.log(np.exp(np.array(scores, dtype=np.float32)).sum()))


def cross_entropy(scores: list[float], target: int) -> float:
    """How surprised the scores are by the target."""
    return float(-np.log(softmax(scores)[target]))


def in_half(scores: list[float]) -> list[float]:
    """The weights of scores that come as fp16, as fp16."""
    powers = np.exp(np.array(scores, dtype=np.float16))
    total = np.float16(0)
    for power in powers:
        total += power
    return [float(w) for w in powers / total]


if __name__ == "__main__":
    for scores in ([1.0, 2.0], [88.0, 89.0], [1000.0, 1001.0], [float("-inf"), 0.0]):
        print(scores, [round(w, 4) for w in softmax(scores)], log_sum_exp(scores))
