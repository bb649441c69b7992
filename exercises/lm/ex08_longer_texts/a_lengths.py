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


def growth(cases: Cases, batch: int, d_head: int, item: int, gpu_bytes: int) -> dict[str, float]:
    """How one run grows with the length of the text."""
    raise NotImplementedError("sort the cases of one width by length, then take powers between neighbors")


def worth_it(slow: Cases, fast: Cases, d_head: int, worth: float) -> dict[str, float]:
    """From which length on the fast way is worth it."""
    raise NotImplementedError("match the two runs by length, then go from the longest downward")


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
