"""The decoder of serving-ex32, slow in several ways: it writes tokens, to be recorded.

Run it by::

    python -m labcode.grading.harness.decoder [--tokens 12] [--trace FILE.json.gz] [--device cpu]

It says how long a token takes once it is warm. ``--trace`` records it with `record_everything`, which
records too much: write your own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

VOCABULARY = 4096
WARM_UP = 4  # tokens before what is measured
Layer = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Size:
    """Of a decoder: its width, its layers, its heads."""

    width: int
    layers: int
    heads: int


MEASURED, TINY = Size(1024, 8, 8), Size(32, 2, 2)


@dataclass(frozen=True)
class Weights:
    """An embedding, and for each layer the matrices to query, key and value, out, wider and narrower."""

    embedding: torch.Tensor
    layers: list[Layer]
    heads: int


def make(size: Size, seed: int, device: torch.device) -> Weights:
    """Random weights in fp32."""
    torch.manual_seed(seed)
    wide = size.width
    shapes = ((wide, 3 * wide), (wide, wide), (wide, 4 * wide), (4 * wide, wide))

    def drawn(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, device=device) / rows**0.5

    layers = [tuple(drawn(*shape) for shape in shapes) for _ in range(size.layers)]
    return Weights(drawn(VOCABULARY, wide), layers, size.heads)


def norm(x: torch.Tensor) -> torch.Tensor:
    """Each row divided by the root of its mean square."""
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def step(weights: Weights, token: int, caches: list[list[torch.Tensor]]) -> torch.Tensor:
    """The logits behind one more token; ``caches`` has the keys and values of those before, by layer."""
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
        x = x + torch.nn.functional.gelu(norm(x) @ widen) @ narrow
        if torch.isnan(x).any().item():
            raise ValueError(f"layer {number} gave a NaN")
    return (norm(x) @ weights.embedding.T)[0]


def empty(weights: Weights) -> list[list[torch.Tensor]]:
    """Caches with nothing in them yet."""
    none = weights.embedding[:0]
    return [[none, none] for _ in weights.layers]


def decode(weights: Weights, prompt: list[int], count: int) -> list[int]:
    """The ``count`` likeliest tokens behind a prompt, one after the other."""
    caches = empty(weights)
    for token in prompt:
        logits = step(weights, token, caches)
    tokens: list[int] = []
    for place in range(count):
        tokens.append(int(logits.argmax().item()))
        if place + 1 < count:
            logits = step(weights, tokens[-1], caches)
    return tokens


@contextmanager
def marked(name: str, device: torch.device) -> Iterator[None]:
    """A range for torch.profiler, and on a GPU one of NVTX."""
    nvtx = device.type == "cuda"
    with torch.profiler.record_function(name):
        if nvtx:
            torch.cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            if nvtx:
                torch.cuda.nvtx.range_pop()


def run(size: Size, count: int, device: torch.device, stepped: Callable[[], object]) -> float:
    """Write tokens, each in a range; the median time of one in ms, those left out that warm it up.

    ``stepped`` is called after each token, as `torch.profiler.profile.step` wants to be.
    """
    weights, times, token = make(size, 1, device), list[float](), 1
    caches = empty(weights)
    for place in range(WARM_UP + count):
        name = f"warm-up {place}" if place < WARM_UP else f"token {place - WARM_UP}"
        begin = perf_counter()
        with marked(name, device):
            token = int(step(weights, token, caches).argmax().item())
        times.append(1e3 * (perf_counter() - begin))
        stepped()
    return median(times[WARM_UP:])


def record_everything(file: Path, body: Callable[[Callable[[], object]], float]) -> float:
    """Record a run from its first step to its last, with all that can be recorded."""
    with torch.profiler.profile(record_shapes=True, with_stack=True, profile_memory=True) as profile:
        found = body(profile.step)
    profile.export_chrome_trace(str(file))
    return found


def main(arguments: Sequence[str]) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="decoder", description="Writes tokens, slowly.")
    parser.add_argument("--tokens", type=int, default=12, help="after the warm-up (default 12)")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="record all of it with torch.profiler")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    given = parser.parse_args(arguments)
    torch.set_grad_enabled(False)
    device = torch.device(given.device)
    size = MEASURED if device.type == "cuda" else TINY

    def body(stepped: Callable[[], Any]) -> float:
        return run(size, given.tokens, device, stepped)

    ms = record_everything(given.trace, body) if given.trace else body(lambda: None)
    print(f"{ms:.2f} ms a token")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
