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

# [solution]
SAID = "one pass over the prompt, one over each token, nothing that the host waits for"


def _layers(weights: Weights, x: torch.Tensor, held: torch.Tensor, begin: int) -> torch.Tensor:
    """A pass over new rows behind ``begin`` that are known; ``held`` keeps their keys and values."""
    end = begin + len(x)
    for number, (three, out, widen, narrow) in enumerate(weights.layers):
        query, key, value = (norm(x) @ three).unflatten(1, (3, weights.heads, -1)).permute(1, 2, 0, 3)
        held[number, 0, :, begin:end], held[number, 1, :, begin:end] = key, value
        scores = query @ held[number, 0, :, :end].transpose(1, 2) / query.shape[-1] ** 0.5
        if len(x) > 1:
            places = torch.arange(end, device=x.device)
            scores = scores.masked_fill(places > places[begin:, None], float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ held[number, 1, :, :end]
        x = x + mixed.transpose(0, 1).flatten(1) @ out
        x = x + gelu(norm(x) @ widen) @ narrow
    return norm(x[-1:]) @ weights.embedding.T


# [starter]
# [end]
def decode(weights: Weights, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens behind a prompt."""
    # [solution]
    wide, device = weights.embedding.shape[1], weights.embedding.device
    shape = len(weights.layers), 2, weights.heads, len(prompt) + count, wide // weights.heads
    held = torch.zeros(shape, device=device)
    tokens = torch.zeros(count, dtype=torch.long, device=device)
    logits = _layers(weights, weights.embedding[torch.tensor(prompt, device=device)], held, 0)
    for place in range(count):
        torch.argmax(logits, dim=1, out=tokens[place : place + 1])
        if place + 1 < count:
            x = weights.embedding.index_select(0, tokens[place : place + 1])
            logits = _layers(weights, x, held, len(prompt) + place)
    return [int(token) for token in tokens.tolist()]
    # [starter]
    # caches = empty(weights)
    # for token in prompt:
    #     logits = step(weights, token, caches)
    # tokens: list[int] = []
    # for place in range(count):
    #     tokens.append(int(logits.argmax().item()))
    #     if place + 1 < count:
    #         logits = step(weights, tokens[-1], caches)
    # return tokens
    # [end]


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    small = make(TINY, 1, torch.device("cpu"))
    print("tokens:", decode(small, [1, 2], 6))
    print("logits of the slow model:", step(small, 1, empty(small))[:4])
