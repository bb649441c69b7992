"""Exercise serving-ex32, part c: make the model faster. Needs a GPU and PyTorch.

`decode` below writes the likeliest tokens behind a prompt, with the model in
`labcode/grading/harness/decoder.py`. It is right and slow: a trace says where the time of a token goes. Keep the name and what it gives; all else is
yours. The weights (`labcode.grading.harness.decoder.Weights`) are fp32 on the GPU and stay as they are.

    weights.embedding    vocabulary × width, which also gives the logits
    weights.layers       of each layer the matrices (query, key and value; out; widen; narrow)
    weights.heads        how many heads share the width

It is graded in this order: each token is the likeliest behind those before it, by the slow model's logits
(a near tie may go either way); then, beside the slow loop in the same run, at most a quarter of its time.
The result says how many times as fast yours is, and which share of the roof that is: the time in which the
memory can read all weights once for each token.

A worked example: with a prompt of [1, 2] and count 3, a list of three numbers such as [711, 9, 2480].

Grade it:         labcode exercises serving-ex32c        (or: nox -s exercises -- serving-ex32c)
Get a hint:       labcode exercises serving-ex32c --hint
Try it yourself:  python exercises/serving/ex32_pytorch_profiler/c_decoder.py
"""

import torch
from torch.nn.functional import gelu

from labcode.grading.harness.decoder import TINY, Weights, empty, make, norm, step

def decode(weights: Weights, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens behind a prompt."""
    caches = empty(weights)
    for token in prompt:
        logits = step(weights, token, caches)
    tokens: list[int] = []
    for place in range(count):
        tokens.append(int(logits.argmax().item()))
        if place + 1 < count:
            logits = step(weights, tokens[-1], caches)
    return tokens


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    small = make(TINY, 1, torch.device("cpu"))
    print("tokens:", decode(small, [1, 2], 6))
    print("logits of the slow model:", step(small, 1, empty(small))[:4])
