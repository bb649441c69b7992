"""Decoding at batch 1 by five kernels a layer: weights and a prompt in; the likeliest tokens out, a step each.

`labcode.workloads.inference.kernels` has the kernels. A step is captured into a CUDA graph once: where the
sequence ends is known to the device alone, so every step replays the same graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labcode.workloads.inference.cache import Paged, Pool
from labcode.workloads.inference.model import Quantized, Weight, Weights, forward

PAGE = 64
SPLITS = 4


class Fused:
    """One sequence on a GPU: its cache, the buffers of a step, and the step."""

    def __init__(
        self,
        weights: Weights,
        capacity: int,
        *,
        early: bool = True,
        splits: int = SPLITS,
        prefill: Weights | None = None,
    ) -> None:
        from labcode.workloads.inference import kernels

        self.kernels, self.weights, self.early, self.splits = kernels, weights, early, splits
        self.prefill_weights = prefill or weights
        size, device, dtype = weights.size, weights.device, weights.dtype
        pages = -(-capacity // PAGE)
        self.pool = Pool(size, pages + 1, PAGE, device, dtype)
        table = torch.arange(1, pages + 1, dtype=torch.int32, device=device)[None]
        self.cache = Paged(self.pool, table, torch.zeros(1, dtype=torch.int32, device=device))
        self.token = torch.zeros(1, dtype=torch.int32, device=device)
        self.said = torch.zeros(1, pages * PAGE, dtype=torch.int32, device=device)
        self.x = torch.zeros(1, size.d_model, dtype=torch.float32, device=device)
        self.heads = torch.zeros(1, 3 * size.d_model, dtype=dtype, device=device)
        self.mixed = torch.zeros(1, size.d_model, dtype=dtype, device=device)
        self.wide = torch.zeros(1, size.d_ff, dtype=dtype, device=device)
        self.logits = torch.zeros(1, size.vocabulary, dtype=torch.float32, device=device)
        self.room = kernels.room_for(torch, 1, size.heads, size.d_head, splits, device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def prompt(self, tokens: Tensor) -> None:
        """Forget the sequence and take in another one's first tokens [1, count]; the next token is chosen."""
        self.cache.lengths.zero_()
        logits = forward(self.prefill_weights, tokens, self.cache)[:, -1]
        self.cache.advance(tokens.shape[1])
        self.token.copy_(logits.argmax(1))

    def _product(self, weight: Weight, x: Tensor, out: Tensor, **options: object) -> None:
        scale = weight.scale if isinstance(weight, Quantized) else None
        values = weight.values if isinstance(weight, Quantized) else weight
        self.kernels.product(values, x[0], out[0], scale=scale, early=self.early, **options)

    def launch(self) -> None:
        """The kernels of one step: the newest token goes in, the next one is chosen and written down."""
        kernels, weights, cache = self.kernels, self.weights, self.cache
        kernels.embed(
            self.token, cache.lengths, weights.tokens, weights.places, self.x, early=self.early
        )
        for number, layer in enumerate(weights.layers):
            self._product(layer.projections, self.x, self.heads, norm=layer.norm_before_attention)
            kernels.attend(
                *(self.heads, self.pool.keys[number], self.pool.values[number]),
                *(cache.table, cache.lengths, self.room, self.mixed),
                splits=self.splits,
                early=self.early,
            )
            self._product(layer.output, self.mixed, self.x, add=True)
            self._product(layer.widen, self.x, self.wide, norm=layer.norm_before_feed_forward, gelu=True)
            self._product(layer.narrow, self.wide, self.x, add=True)
        self._product(weights.to_logits, self.x, self.logits, norm=weights.norm)
        kernels.greedy(self.logits, self.token, cache.lengths, self.said, early=self.early)

    def capture(self) -> None:
        """Put a step into a graph, after one that compiles what there is to compile."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.launch()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.launch()

    def step(self) -> None:
        """One token more."""
        if self.graph is None:
            self.launch()
        else:
            self.graph.replay()
