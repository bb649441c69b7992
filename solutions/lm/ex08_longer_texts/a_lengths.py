"""Exercise lm-ex08, part a: attention on longer sequences.

``cases`` is a list of dictionaries, one for each length and width that was tried, in no particular order:

    d_head, length           width of a head, tokens of a text
    fits                     False where memory did not suffice; such a case has nothing but these three
    forward_ms, backward_ms  lists: the times of several repetitions
    before_backward_bytes    what is held, beside the inputs, when the backward pass begins
    peak_bytes               the most that forward and backward pass need at once

A case's time is the median of its forward times and the median of its backward times, added.

``growth`` gives a dictionary, of the cases of one width that fit:

    follows_from     the shortest length from which on time follows the work: over each step to the next
                     length, time grows with at least the power 1 of the length. (Below it the GPU waits for
                     the program.) Where even the last step grows by less, that is the longest length
    time, held       with which power of the length time and held bytes grow, over the last step
    held_scores      held bytes at the longest length, in tensors of scores: batch * length**2 numbers
    held_inputs      the same in tensors of the size of Q: batch * length * d_head numbers
    longest          the longest text, in whole tokens, whose peak fits into gpu_bytes, if the peak goes on
                     growing from the longest length with the power that it has over the last step

``item`` is how many bytes a number has. ``worth_it`` compares two runs at the lengths that fit in both:

    gain             time of the slow run over that of the fast one, at the longest of these lengths
    worth_from       the shortest length from which on the gain is at least ``worth``; 0 where it is not even
                     at the longest

A worked example: one text, heads 4 wide, numbers of 2 bytes. Times of 10, 11, 44 and 704 ms at 10, 20, 40 and
160 tokens: time follows the work from 20 on (from 10 to 20 tokens it hardly grows), and over the last step
with the power log(16) / log(4) = 2. If 51200 bytes are held at 160 tokens, that is one tensor of scores and
40 of the size of Q. If the peak grew from 12800 bytes at 40 tokens to 204800 at 160 (power 2), 819200 bytes
are enough for 320 tokens.

Grade it:         labcode exercises lm-ex08a        (or: nox -s exercises -- lm-ex08a)
Get a hint:       labcode exercises lm-ex08a --hint
Try it yourself:  python exercises/lm/ex08_longer_texts/a_lengths.py     (runs on a capture of the book)
"""

import math
import statistics
from typing import Any

Cases = list[dict[str, Any]]


# [solution]
def time_ms(case: dict[str, Any]) -> float:
    """Forward and backward pass together."""
    return statistics.median(case["forward_ms"]) + statistics.median(case["backward_ms"])


def of_width(cases: Cases, d_head: int) -> Cases:
    """The cases of one width that fit, by length."""
    mine = [case for case in cases if case["fits"] and case["d_head"] == d_head]
    return sorted(mine, key=lambda case: case["length"])


def power(shorter: dict[str, Any], longer: dict[str, Any], before: float, after: float) -> float:
    """With which power of the length something grows."""
    return math.log(after / before) / math.log(longer["length"] / shorter["length"])


# [end]
def growth(cases: Cases, batch: int, d_head: int, item: int, gpu_bytes: int) -> dict[str, float]:
    """How one run grows with the length of the text."""
    # [solution]
    mine = of_width(cases, d_head)
    first = len(mine) - 1
    while first > 0:
        shorter, longer = mine[first - 1], mine[first]
        if power(shorter, longer, time_ms(shorter), time_ms(longer)) < 1:
            break
        first -= 1
    shorter, longer = mine[-2:]
    length, held, peak = longer["length"], longer["before_backward_bytes"], longer["peak_bytes"]
    peak_power = power(shorter, longer, shorter["peak_bytes"], peak)
    return {
        "follows_from": mine[first]["length"],
        "time": power(shorter, longer, time_ms(shorter), time_ms(longer)),
        "held": power(shorter, longer, shorter["before_backward_bytes"], held),
        "held_scores": held / (batch * length**2 * item),
        "held_inputs": held / (batch * length * d_head * item),
        "longest": int(length * (gpu_bytes / peak) ** (1 / peak_power)),
    }
    # [starter]
    # raise NotImplementedError("sort the cases of one width by length, then take powers between neighbors")
    # [end]


def worth_it(slow: Cases, fast: Cases, d_head: int, worth: float) -> dict[str, float]:
    """From which length on the fast way is worth it."""
    # [solution]
    times = [{case["length"]: time_ms(case) for case in of_width(cases, d_head)} for cases in (slow, fast)]
    common = sorted(set(times[0]) & set(times[1]))
    gains = {length: times[0][length] / times[1][length] for length in common}
    worth_from = 0
    for length in reversed(common):
        if gains[length] < worth:
            break
        worth_from = length
    return {"gain": gains[common[-1]], "worth_from": worth_from}
    # [starter]
    # raise NotImplementedError("match the two runs by length, then go from the longest downward")
    # [end]


if __name__ == "__main__":
    from labcode.store import load_set

    captures = load_set()
    runs = {name: captures.record("lm_attention", name) for name in ("naive", "naive_bf16", "flash")}
    for name, record in runs.items():
        item, gpu_memory = 4 if name == "naive" else 2, record["gpu"]["memory_bytes"]
        found = growth(record["results"]["cases"], record["parameters"]["batch"], 64, item, gpu_memory)
        print(name, {key: round(value, 3) for key, value in found.items()})
    slow, fast = (runs[name]["results"]["cases"] for name in ("naive_bf16", "flash"))
    for least in (2, 5, 10):
        print(f"flash is worth it, at least {least} times as fast:", worth_it(slow, fast, 64, least))
