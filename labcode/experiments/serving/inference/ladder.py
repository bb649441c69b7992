"""The ladder of decoding: weights and a prompt in; what a token takes in each way, in time and joules, out.

From operators launched one by one, with a cache that is copied as it grows, to five kernels a layer in one
graph, and weights in 8 bits. Each rung decodes behind the same prompt; its logits are compared with those of
the first. A rung that fails is left out, with its reason.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from labcode.experiments.serving.inference import fused, quantize
from labcode.experiments.serving.inference.cache import Contiguous, Growing, mixed
from labcode.experiments.serving.inference.cache import parts as three_parts
from labcode.experiments.serving.inference.model import (
    Layer,
    Weights,
    forward,
    linear,
    normalized,
    read_bytes,
    with_products,
)
from labcode.experiments.shared.common import rounded, synchronize
from labcode.experiments.shared.windows import Windows
from labcode.timing import event_times_us, spread

BURST = 32  # tokens between two looks at the clock; then the sequence is cut back to its prompt
BURSTS = 6
ALLOWED = {"int8": 0.1, "fp8": 0.3}  # of the logits, relative; others: bf16's
ALLOWED_BF16 = 8e-2
CHECKED = 4  # tokens
RINGS = {"streamed": 40, "short ring": 8}  # rungs of one kernel a token: slots of its ring


@dataclass
class Rung:
    """A way to decode: ``reset`` cuts the sequence back to its prompt, ``step`` decodes one token.

    ``logits`` gives those after each of the tokens given, behind the prompt.
    """

    reset: Callable[[], None]
    step: Callable[[], object]
    logits: Callable[[Tensor], Tensor]
    weights: Weights


def growing(weights: Weights, prompt: Tensor) -> Rung:
    """Operators one by one; keys and values are copied into a longer tensor with each token."""
    cache = Growing(weights.size, weights.device)
    token = forward(weights, prompt, cache)[:, -1].argmax(1, keepdim=True)
    cache.advance(prompt.shape[1])
    held, length = list(cache.held), cache.length
    newest = [token]

    def reset() -> None:
        cache.held, cache.length, newest[0] = list(held), length, token

    def step() -> Tensor:
        logits = forward(weights, newest[0], cache)
        cache.advance(1)
        newest[0] = logits[:, -1].argmax(1, keepdim=True)
        return logits

    def logits(tokens: Tensor) -> Tensor:
        reset()
        found = []
        for one in tokens:
            newest[0] = one.view(1, 1)
            found.append(step()[0, -1].float())
        return torch.stack(found)

    return Rung(reset, step, logits, weights)


Block = Callable[[Any, Layer, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def static_block(
    heads: int, layer: Layer, x: Tensor, keys: Tensor, values: Tensor, positions: Tensor, seen: Tensor
) -> Tensor:
    """One block over one layer's room for keys and values [1, heads, capacity, width]."""
    query, key, value = three_parts(
        linear(normalized(x, layer.norm_before_attention), layer.projections), heads
    )
    keys.index_copy_(2, positions, key)
    values.index_copy_(2, positions, value)
    x = x + linear(mixed(query, keys, values, seen), layer.output)
    wide = functional.gelu(linear(normalized(x, layer.norm_before_feed_forward), layer.widen))
    return x + linear(wide, layer.narrow)


def static(
    weights: Weights, prompt: Tensor, capacity: int, *, graph: bool, block: Any = static_block
) -> Rung:
    """A cache of fixed size: every step launches the same kernels on the same tensors."""
    cache = Contiguous(weights.size, 1, capacity, weights.device, weights.dtype)
    first = forward(weights, prompt, cache)[:, -1].argmax(1, keepdim=True)
    token, result = first.clone(), torch.zeros(weights.size.vocabulary, device=weights.device)
    position = torch.full((1,), prompt.shape[1], dtype=torch.int64, device=weights.device)

    def launch() -> None:
        x = weights.tokens[token] + weights.places[position]
        seen = (cache.places <= position)[None, None, None]
        for number, layer in enumerate(weights.layers):
            x = block(weights.size.heads, layer, x, cache.keys[number], cache.values[number], position, seen)
        logits = linear(normalized(x, weights.norm), weights.to_logits)[0]
        result.copy_(logits[0])
        token.copy_(logits.argmax(1, keepdim=True))
        position.add_(1)

    def reset() -> None:
        token.copy_(first)
        position.fill_(prompt.shape[1])

    run: Callable[[], object] = fused.Graph(launch).replay if graph else launch
    reset()

    def logits(tokens: Tensor) -> Tensor:
        reset()
        found = []
        for one in tokens:
            token.copy_(one.view(1, 1))
            run()
            found.append(result.clone())
        return torch.stack(found)

    return Rung(reset, run, logits, weights)


def by_kernels(one: fused.Fused, prompt: Tensor) -> Rung:
    """Kernels of our own: five a layer in one graph, or one for all."""
    one.prompt(prompt)
    first = one.token.clone()
    one.capture()

    def reset() -> None:
        one.token.copy_(first)
        one.cache.lengths.fill_(prompt.shape[1])

    reset()

    def logits(tokens: Tensor) -> Tensor:
        reset()
        found = []
        for token in tokens:
            one.token.copy_(token.view(1))
            one.step()
            found.append(one.logits[0].clone())
        return torch.stack(found)

    return Rung(reset, one.step, logits, one.weights)


class Ladder:
    """The rungs on one set of weights but those to skip, and what was measured of them."""

    def __init__(
        self,
        weights: Weights,
        context: int,
        windows: Windows,
        seed: int,
        skip: Sequence[str] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        self.weights, self.windows, self.skip, self.say = weights, windows, skip, say
        torch.manual_seed(seed)
        self.prompt = torch.randint(weights.size.vocabulary, (1, context), device=weights.device)
        self.taught = torch.randint(weights.size.vocabulary, (CHECKED,), device=weights.device)
        self.capacity = context + 2 * BURST
        self.wanted: Tensor | None = None
        self.rungs: dict[str, dict[str, Any]] = {}
        self.left_out: dict[str, str] = {}
        self.tried: dict[str, list[dict[str, object]]] = {}
        self.attention: dict[str, float] = {}
        self.under_way: dict[str, dict[str, float]] = {}

    def climb(self, name: str, make: Callable[[], Rung]) -> None:
        """Measure a rung: bursts by the clock, then a window for the power meter."""
        if name in self.skip:
            self.left_out[name] = "left out: asked for by --skip"
            return
        began = time.perf_counter()
        try:
            rung = make()
            found = rung.logits(self.taught)
            if self.wanted is None:
                self.wanted = found
            error = float((found - self.wanted).norm() / self.wanted.norm())
            if not error <= ALLOWED.get(name, ALLOWED_BF16):
                raise ValueError(f"its logits are wrong: relative error {error:.2g}")
            ready_s = time.perf_counter() - began
            self.rungs[name] = self._measured(name, rung) | {"error": error, "ready_s": round(ready_s, 2)}
            took = spread(self.rungs[name]["token_ms"]).median
            self.say(f"{name}: {took:.4f} ms a token, error {error:.1e}, ready after {ready_s:.1f} s")
        except Exception as error_found:  # a rung that this GPU or PyTorch cannot climb
            self.left_out[name] = f"{type(error_found).__name__}: {str(error_found).strip()[:300]}"
            self.windows.entries.pop(name, None)
            self.say(f"{name}: left out: {self.left_out[name]}")
        gc.collect()
        with suppress(RuntimeError):  # after a kernel that crashed
            torch.cuda.empty_cache()

    def _measured(self, name: str, rung: Rung) -> dict[str, Any]:
        device, times, done = self.weights.device, [], 0

        def one() -> None:
            nonlocal done
            if done % BURST == 0:
                rung.reset()
            done += 1
            rung.step()

        for burst in range(BURSTS + 1):
            rung.reset()
            synchronize(device)
            began = time.perf_counter()
            for _ in range(BURST):
                rung.step()
            synchronize(device)
            if burst:  # the first one warms up
                times.append(1e3 * (time.perf_counter() - began) / BURST)
        self.windows.repeat(name, one, tokens=1, rung=name)
        cached = self.prompt.shape[1] + BURST // 2
        return {"token_ms": rounded(times, 6), "read_bytes": read_bytes(rung.weights, cached)}

    def tune(self) -> fused.Plan:
        """How the products are best cut; the default where trying fails."""
        try:
            plan, self.tried["bf16"] = fused.tune(self.weights)
        except Exception as error:
            self.left_out["tuning"] = f"{type(error).__name__}: {str(error)[:300]}"
            return {}
        return plan

    def all(self) -> None:
        """Every rung, from the bottom."""
        weights, prompt, capacity = self.weights, self.prompt, self.capacity
        self.climb("growing", lambda: growing(weights, prompt))
        self.climb("static", lambda: static(weights, prompt, capacity, graph=False))
        if weights.device.type != "cuda":
            return
        self.climb("graph", lambda: static(weights, prompt, capacity, graph=True))
        plan, parts = self.tune(), (fused.SPLITS, fused.TILE)
        try:
            parts, self.attention = fused.tune_attention(weights, prompt.shape[1] + BURST // 2)
        except Exception as error:
            self.left_out["tuning attention"] = f"{type(error).__name__}: {str(error)[:300]}"

        def kernels(of: Weights, early: int, cut: fused.Plan) -> Rung:
            splits, tile = parts
            ways: dict[str, Any] = {"early": early, "splits": splits, "tile": tile, "plan": cut}
            return by_kernels(fused.Fused(of, capacity, prefill=weights, **ways), prompt)

        def streamed(name: str, slots: int) -> Rung:
            from labcode.experiments.serving.inference.streamed import Streamed

            one = Streamed(weights, capacity, slots=slots)
            self.under_way[name] = one.tune(prompt.shape[1])
            return by_kernels(one, prompt)

        self.climb("kernels", lambda: kernels(weights, 0, plan))
        self.climb("behind", lambda: kernels(weights, 1, plan))
        self.climb("early", lambda: kernels(weights, 2, plan))
        for kind, change in quantize.KINDS.items():
            self.climb(kind, lambda: kernels(with_products(weights, change), 2, {}))  # noqa: B023
        compiled = torch.compile(static_block, dynamic=False)
        self.climb("compiled", lambda: static(weights, prompt, capacity, graph=True, block=compiled))
        for name, slots in RINGS.items():
            self.climb(name, lambda: streamed(name, slots))  # noqa: B023


def new_lengths_ms(weights: Weights, prompt: Tensor, count: int = 8) -> dict[str, list[float]]:
    """Milliseconds of tokens by the plainest loop where cuDNN's attention may be picked: it is planned anew
    for each length that it has not seen. ``new``: lengths never seen; ``seen``: the same ones again.
    """
    rung, found = growing(weights, prompt), {}
    for name in ("new", "seen"):
        rung.reset()
        times = []
        for _ in range(count):
            synchronize(weights.device)
            began = time.perf_counter()
            rung.step()
            synchronize(weights.device)
            times.append(1e3 * (time.perf_counter() - began))
        found[name] = rounded(times)
    return found


def read_gb_per_s(device: torch.device, gib: int = 8) -> tuple[float, list[dict[str, object]]]:
    """The best rate at which a kernel reads memory that no cache holds, and all that were tried."""
    from labcode.experiments.serving.inference import kernels

    x = torch.zeros(gib << 28, dtype=torch.int32, device=device)
    out = torch.zeros(1, dtype=torch.int32, device=device)
    tried: list[dict[str, object]] = []
    for cut in kernels.READS:

        def call(cut: tuple[int, int, int] = cut) -> None:
            kernels.read(x, out, cut)

        times = event_times_us(call, 5, warmup=1)
        tried.append({"cut": list(cut), "gb_per_s": round(x.numel() * 4 / min(times) / 1e3, 1)})
    return max(float(str(one["gb_per_s"])) for one in tried), tried


def rows_ms(weights: Weights, context: int, counts: tuple[int, ...]) -> dict[int, float]:
    """Milliseconds of a pass over so many new tokens of one sequence, behind a context: one graph each."""
    prompt = torch.randint(weights.size.vocabulary, (1, context), device=weights.device)
    cache = Contiguous(weights.size, 1, context + max(counts), weights.device, weights.dtype)
    forward(weights, prompt, cache)
    cache.advance(context)
    found = {}
    for count in counts:
        tokens = torch.randint(weights.size.vocabulary, (1, count), device=weights.device)

        def call(tokens: Tensor = tokens) -> Tensor:
            return forward(weights, tokens, cache)

        found[count] = fused.graph_ms(call, 5)
    return found
