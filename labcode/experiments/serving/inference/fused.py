"""Decoding at batch 1 by five kernels a layer: weights and a prompt in; the likeliest tokens out.

``kernels.py`` has the kernels. A step is captured into a CUDA graph once: where the
sequence ends is known to the device alone, so every step replays the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labcode.errors import LabError
from labcode.experiments.serving.inference.cache import Paged, Pool
from labcode.experiments.serving.inference.model import PRODUCTS, Norm, Quantized, Weight, Weights, forward
from labcode.timing import event_times_us, spread

SPLITS, TILE = 16, 32  # parts of a head's cache, and tokens that a part takes at a time


Plan = dict[tuple[int, int], tuple[int, int, int]]  # rows and depth of a product → how it is cut


class Fused:
    """One sequence on a GPU: its cache, the buffers of a step, and the step."""

    def __init__(
        self,
        weights: Weights,
        capacity: int,
        *,
        early: int = 2,
        splits: int = SPLITS,
        tile: int = TILE,
        prefill: Weights | None = None,
        plan: Plan | None = None,
    ) -> None:
        from labcode.experiments.serving.inference import kernels

        self.kernels, self.weights, self.early, self.splits = kernels, weights, early, splits
        self.tile = tile
        self.prefill_weights, self.plan = prefill or weights, plan or {}
        size, device, dtype = weights.size, weights.device, weights.dtype
        self.pool = Pool(size, 2, capacity, device, dtype)  # one page holds the sequence whole
        table = torch.ones(1, 1, dtype=torch.int32, device=device)
        self.cache = Paged(self.pool, table, torch.zeros(1, dtype=torch.int32, device=device))
        self.token = torch.zeros(1, dtype=torch.int32, device=device)
        self.said = torch.zeros(1, capacity, dtype=torch.int32, device=device)
        self.x = torch.zeros(1, size.d_model, dtype=dtype, device=device)
        self.heads = torch.zeros(1, 3 * size.d_model, dtype=dtype, device=device)
        self.mixed = torch.zeros(1, size.d_model, dtype=dtype, device=device)
        self.wide = torch.zeros(1, size.d_ff, dtype=dtype, device=device)
        self.logits = torch.zeros(1, size.vocabulary, dtype=torch.float32, device=device)
        self.layers = [
            (
                layer,
                folded(layer.projections, layer.norm_before_attention),
                folded(layer.widen, layer.norm_before_feed_forward),
            )
            for layer in weights.layers
        ]
        self.to_logits = folded(weights.to_logits, weights.norm)
        self.room = kernels.room_for(torch, 1, size.heads, size.d_head, splits, device)
        self.graph: Graph | None = None

    def prompt(self, tokens: Tensor) -> None:
        """Forget the sequence and take in another one's first tokens [1, count]; the next token is chosen."""
        self.cache.lengths.zero_()
        logits = forward(self.prefill_weights, tokens, self.cache)[:, -1]
        self.cache.advance(tokens.shape[1])
        self.token.copy_(logits.argmax(1))

    def _product(self, weight: Weight, x: Tensor, out: Tensor, **options: Any) -> None:
        scale = weight.scale if isinstance(weight, Quantized) else None
        values = weight.values if isinstance(weight, Quantized) else weight
        rows, depth = values.shape
        alike = (cut for (_, other), cut in self.plan.items() if other == depth and rows % cut[0] == 0)
        cut = self.plan.get((rows, depth)) or next(alike, None)
        self.kernels.product(values, x[0], out[0], scale=scale, early=self.early, cut=cut, **options)

    def launch(self) -> None:
        """The kernels of one step: the newest token goes in, the next one is chosen and written down."""
        kernels, weights, cache = self.kernels, self.weights, self.cache
        kernels.embed(self.token, cache.lengths, weights.tokens, weights.places, self.x)
        for number, (layer, three, wide) in enumerate(self.layers):
            self._product(three[0], self.x, self.heads, norm=three[1:])
            kernels.attend(
                *(self.heads, self.pool.keys[number], self.pool.values[number]),
                *(cache.table, cache.lengths, self.room, self.mixed),
                splits=self.splits,
                tile=self.tile,
                early=self.early,
            )
            self._product(layer.output, self.mixed, self.x, add=True)
            self._product(wide[0], self.x, self.wide, norm=wide[1:], gelu=True)
            self._product(layer.narrow, self.wide, self.x, add=True)
        self._product(self.to_logits[0], self.x, self.logits, norm=self.to_logits[1:])
        kernels.greedy(self.logits, self.token, cache.lengths, self.said, early=self.early)

    def capture(self) -> None:
        """Put a step into a graph, after one that compiles what there is to compile."""
        self.graph = Graph(self.launch)

    def step(self) -> None:
        """One token more."""
        if self.graph is None:
            self.launch()
        else:
            self.graph.replay()


def folded(weight: Weight, norm: Norm) -> tuple[Weight, Tensor, Tensor]:
    """A product with the normalization before it taken in: the weight times the gain; sums of its rows; what
    the shift adds. `LabError` for a quantized weight whose normalization has a gain.
    """
    gain, shift = norm
    whole = weight.whole(torch.float32) if isinstance(weight, Quantized) else weight.float()
    added = whole @ shift.float()
    if not bool((gain == 1).all()):
        if isinstance(weight, Quantized):
            raise LabError("the gain of a normalization goes into the weight before it is quantized")
        weight = (whole * gain.float()).to(weight.dtype)
        whole = weight.float()
    return weight, whole.sum(1), added


class Graph:
    """What a call launches, as a CUDA graph. It keeps the call: kernels read what only the call may hold,
    and a replay would find others' data where that had been.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self.call, self.recorded = call, recorded(call)

    def replay(self) -> None:
        """Launch it again."""
        self.recorded.replay()


def recorded(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The kernels of a call, after one call beside it that compiles and allocates."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def graph_ms(call: Callable[[], object], replays: int = 3) -> float:
    """Milliseconds of what a call launches, replayed as a graph."""
    graph = Graph(call)
    graph.replay()
    return spread(event_times_us(graph.replay, replays)).median / 1e3


def tune(weights: Weights, *, early: int = 2) -> tuple[Plan, list[dict[str, object]]]:
    """How to cut each product: by trying, over all layers' weights in turn, so that no cache holds them.

    The plan, and what was tried: the product, the cut, bytes a second.
    """
    from labcode.experiments.serving.inference import kernels

    plan: Plan = {}
    tried: list[dict[str, object]] = []
    for name in PRODUCTS:
        mine = [getattr(layer, name) for layer in weights.layers]
        values = [one.values if isinstance(one, Quantized) else one for one in mine]
        rows, depth = values[0].shape
        x = torch.zeros(depth, dtype=weights.dtype, device=weights.device)
        out = torch.zeros(rows, dtype=weights.dtype, device=weights.device)
        sums = torch.zeros(rows, dtype=torch.float32, device=weights.device)
        inside = name in ("projections", "widen")
        options: dict[str, Any] = {
            "norm": (sums, sums) if inside else None,
            "gelu": name == "widen",
            "add": not inside,
            "scale": sums if isinstance(mine[0], Quantized) else None,
            "early": early,
        }
        moved, best = rows * depth * values[0].element_size(), float("inf")
        for cut in kernels.cuts(rows, depth):

            def call(
                cut: kernels.Cut = cut,
                values: list[Tensor] = values,
                x: Tensor = x,
                out: Tensor = out,
                options: dict[str, Any] = options,
            ) -> None:
                for weight in values:
                    kernels.product(weight, x, out, cut=cut, **options)

            ms = graph_ms(call) / len(values)
            tried.append({"product": name, "cut": list(cut), "gb_per_s": round(moved / ms / 1e6, 1)})
            if ms < best:
                best, plan[(rows, depth)] = ms, cut
    return plan, tried


def tune_attention(
    weights: Weights, length: int, *, early: int = 2
) -> tuple[tuple[int, int], dict[str, float]]:
    """Into how many parts attention over so many tokens is best cut, and tokens at a time; µs of each way."""
    one = Fused(weights, length + 1, early=early)
    one.cache.lengths.fill_(length)
    tried: dict[str, float] = {}
    best = (SPLITS, TILE)
    for splits, tile in one.kernels.PARTS:
        size = weights.size
        room = one.kernels.room_for(torch, 1, size.heads, size.d_head, splits, weights.device)

        def call(splits: int = splits, tile: int = tile, room: Any = room) -> None:
            for keys, values in zip(one.pool.keys, one.pool.values, strict=True):
                one.kernels.attend(
                    *(one.heads, keys, values, one.cache.table, one.cache.lengths, room, one.mixed),
                    splits=splits,
                    tile=tile,
                    early=early,
                )

        tried[f"{splits} × {tile}"] = round(1e3 * graph_ms(call) / size.layers, 3)
        if tried[f"{splits} × {tile}"] <= min(tried.values()):
            best = splits, tile
    return best, tried
