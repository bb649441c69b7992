"""Exercise serving-ex32, part c: make the model faster. Needs PyTorch; a GPU if you have one.

`decode` below writes the likeliest tokens behind a prompt. It is right and slow: your trace of part b shows
where the time of a token goes. Keep its name and what it returns; everything else in this file is yours.
It gets the weights as below, fp32, on the GPU or on the CPU, and leaves them as they are. `make`, `norm`,
`empty` and `step` are those of the model that you recorded, for you to read and to replace.

It is graded in this order: each token is the likeliest behind those before it, by the slow model's logits
(a near tie may go either way); then, beside the slow loop in the same process, at most a third of its time
on a GPU, at most half of it on a CPU. Every timed call gets another prompt, and what it returns is checked,
too. The result says how many times as fast yours is, and on a GPU which share of the roof that is: the time
in which its memory can be read for all weights once per token.

A worked example: with a prompt of [1, 2] and count 3, a list of three numbers such as [711, 9, 2480].

Grade it:         labcode exercises serving-ex32c        (or: nox -s exercises -- serving-ex32c)
Get a hint:       labcode exercises serving-ex32c --hint
Try it yourself:  python exercises/serving/ex32_pytorch_profiler/c_decoder.py
"""

from dataclasses import dataclass
from time import perf_counter

import torch
from torch.nn import functional

VOCABULARY = 4096
Layer = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Weights:
    """An embedding (vocabulary × width), which gives the logits, too; for each layer four matrices.

    These are: to query, key and value (width × 3 width), out (width × width), wider (width × 4 width),
    narrower. `heads` is how many heads share the width.
    """

    embedding: torch.Tensor
    layers: list[Layer]
    heads: int


def make(wide: int, layers: int, heads: int, device: torch.device) -> Weights:
    """Random weights."""
    shapes = ((wide, 3 * wide), (wide, wide), (wide, 4 * wide), (4 * wide, wide))

    def drawn(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, device=device) / rows**0.5

    made = [(drawn(*a), drawn(*b), drawn(*c), drawn(*d)) for a, b, c, d in [shapes] * layers]
    return Weights(drawn(VOCABULARY, wide), made, heads)


def norm(x: torch.Tensor) -> torch.Tensor:
    """Each row divided by the root of its mean square."""
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def empty(weights: Weights) -> list[list[torch.Tensor]]:
    """Caches with nothing in them yet."""
    none = weights.embedding[:0]
    return [[none, none] for _ in weights.layers]


def step(weights: Weights, token: int, caches: list[list[torch.Tensor]]) -> torch.Tensor:
    """The logits behind one more token; `caches` has the keys and values of those before, by layer."""
    device = weights.embedding.device
    x = weights.embedding[torch.tensor([token]).to(device)]
    for number, (three, out, widen, narrow) in enumerate(weights.layers):
        query, key, value = (norm(x) @ three).chunk(3, dim=-1)
        keys, values = map(torch.cat, zip(caches[number], (key, value), strict=True))
        caches[number] = [keys, values]
        mask = torch.zeros(len(keys)).to(device)
        each = x.shape[1] // weights.heads
        mixed = []
        for head in range(weights.heads):
            part = slice(head * each, (head + 1) * each)
            scores = query[:, part] @ keys[:, part].T / each**0.5 + mask
            mixed.append(torch.softmax(scores, dim=-1) @ values[:, part])
        x = x + torch.cat(mixed, dim=-1) @ out
        x = x + functional.gelu(norm(x) @ widen) @ narrow
        if torch.isnan(x).any().item():
            raise ValueError(f"layer {number} gave a NaN")
    return (norm(x) @ weights.embedding.T)[0]


def decode(weights: Weights, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens behind a prompt, one after the other."""
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
    small = make(128, 4, 8, torch.device("cpu"))
    decode(small, [1, 2], 3)
    begin = perf_counter()
    print("tokens:", decode(small, [1, 2], 6), f"in {1e3 * (perf_counter() - begin):.1f} ms")
    print("logits of the slow model:", step(small, 1, empty(small))[:4])
