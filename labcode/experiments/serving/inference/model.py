"""The decoder as it serves: weights, tokens and a cache of keys and values in; logits out, the cache grown.

The same arithmetic as `labcode.experiments.lm.transformer.model.Decoder`, without its ranges and gradients;
what a cache does with keys and values is the cache's own (``cache.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from labcode.analysis.lm.decoder import Size
from labcode.experiments.serving.inference.cache import Cache

SPREAD = 0.02  # standard deviation of random weights


@dataclass(frozen=True)
class Quantized:
    """A weight in 8 bits, [rows, depth], and the scale of each row, [rows] in fp32."""

    values: Tensor
    scale: Tensor

    @property
    def shape(self) -> torch.Size:
        """Rows and depth."""
        return self.values.shape

    def whole(self, dtype: torch.dtype) -> Tensor:
        """The weight as it computes."""
        return (self.values.float() * self.scale[:, None]).to(dtype)


Weight: TypeAlias = Tensor | Quantized
Norm: TypeAlias = tuple[Tensor, Tensor]  # gain, shift


@dataclass(frozen=True)
class Layer:
    """Weights of a block: projections to query, key and value, output, both of the feed-forward network."""

    norm_before_attention: Norm
    projections: Weight
    output: Weight
    norm_before_feed_forward: Norm
    widen: Weight
    narrow: Weight


PRODUCTS = ("projections", "output", "widen", "narrow")


@dataclass(frozen=True)
class Weights:
    """All weights of a decoder for up to ``longest`` tokens."""

    size: Size
    tokens: Tensor
    places: Tensor
    layers: tuple[Layer, ...]
    norm: Norm
    to_logits: Weight

    @property
    def longest(self) -> int:
        """The longest context in tokens."""
        return len(self.places)

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        return self.tokens.device

    @property
    def dtype(self) -> torch.dtype:
        """What activations are computed in."""
        return self.tokens.dtype


def tensors(weights: Weights) -> list[Weight]:
    """What every step reads whole: products, and the projection to logits."""
    found = [getattr(layer, name) for layer in weights.layers for name in PRODUCTS]
    return [*found, weights.to_logits]


def read_bytes(weights: Weights, cached_tokens: int) -> int:
    """Bytes that one step of one sequence must read: its weights, and keys and values of the cached tokens.

    Of the embeddings a step reads two rows, which count, as the normalizations' vectors do.
    """
    size, item = weights.size, weights.tokens.element_size()
    matrices = 0
    for weight in tensors(weights):
        parts = (weight.values, weight.scale) if isinstance(weight, Quantized) else (weight,)
        matrices += sum(part.numel() * part.element_size() for part in parts)
    vectors = (2 + 4 * size.layers + 2) * size.d_model * item
    return matrices + vectors + cached_bytes(size, cached_tokens, item)  # type: ignore[no-any-return]


def cached_bytes(size: Size, tokens: int, itemsize: int = 2) -> int:
    """Bytes of keys and values of so many tokens, in all layers."""
    return 2 * size.layers * size.d_model * tokens * itemsize


def random_weights(
    size: Size, longest: int, device: torch.device, dtype: torch.dtype = torch.bfloat16, seed: int = 1
) -> Weights:
    """Weights as before any training."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def matrix(rows: int, depth: int) -> Tensor:
        drawn = torch.empty(rows, depth, device=device, dtype=dtype)
        return drawn.normal_(0.0, SPREAD, generator=generator)

    def norm() -> Norm:
        return (
            torch.ones(size.d_model, device=device, dtype=dtype),
            torch.zeros(size.d_model, device=device, dtype=dtype),
        )

    layers = tuple(
        Layer(
            norm(),
            matrix(3 * size.d_model, size.d_model),
            matrix(size.d_model, size.d_model),
            norm(),
            matrix(size.d_ff, size.d_model),
            matrix(size.d_model, size.d_ff),
        )
        for _ in range(size.layers)
    )
    ends = (matrix(size.vocabulary, size.d_model), matrix(longest, size.d_model))
    return Weights(size, *ends, layers, norm(), matrix(size.vocabulary, size.d_model))


def weights_of(model: Any, dtype: torch.dtype) -> Weights:
    """The weights of a `Decoder`, rounded to a type."""

    def take(parameter: Tensor) -> Tensor:
        return parameter.detach().to(dtype)

    def norm(module: Any) -> Norm:
        return take(module.weight), take(module.bias)

    layers = tuple(
        Layer(
            norm(block.norm_before_attention),
            take(block.attention.projections.weight),
            take(block.attention.output.weight),
            norm(block.norm_before_feed_forward),
            take(block.widen.weight),
            take(block.narrow.weight),
        )
        for block in model.blocks
    )
    size = model.blocks[0].attention.size
    ends = (take(model.tokens.weight), take(model.places.weight))
    return Weights(size, *ends, layers, norm(model.norm), take(model.to_logits.weight))


def with_products(weights: Weights, change: Callable[[Tensor], Weight]) -> Weights:
    """The same weights, each matrix that a step multiplies with changed."""

    def of_layer(layer: Layer) -> Layer:
        return replace(layer, **{name: change(getattr(layer, name)) for name in PRODUCTS})  # type: ignore[arg-type]

    layers = tuple(of_layer(layer) for layer in weights.layers)
    return replace(weights, layers=layers, to_logits=change(weights.to_logits))


def linear(x: Tensor, weight: Weight) -> Tensor:
    """x · weightᵀ; of a quantized weight it writes out the whole one first."""
    if isinstance(weight, Quantized):
        weight = weight.whole(x.dtype)
    return functional.linear(x, weight)


def normalized(x: Tensor, norm: Norm) -> Tensor:
    """x normalized along its last dimension."""
    return functional.layer_norm(x, (x.shape[-1],), *norm)


def block(layer: Layer, x: Tensor, number: int, cache: Cache) -> Tensor:
    """One block: [batch, count, d_model] in, the same out."""
    three = linear(normalized(x, layer.norm_before_attention), layer.projections)
    x = x + linear(cache.attend(number, three), layer.output)
    wide = functional.gelu(linear(normalized(x, layer.norm_before_feed_forward), layer.widen))
    return x + linear(wide, layer.narrow)


def forward(weights: Weights, tokens: Tensor, cache: Cache, at: Tensor | None = None) -> Tensor:
    """Logits after the new tokens [batch, count]: [batch, count, vocabulary].

    With ``at`` [batch] only of the token at that place among the new ones: [batch, 1, vocabulary]. The cache
    takes in keys and values of the new tokens; it counts them when it is told to (`Cache.advance`).
    """
    x = weights.tokens[tokens] + weights.places[cache.positions(tokens.shape[1])]
    for number, layer in enumerate(weights.layers):
        x = block(layer, x, number, cache)
    if at is not None:
        x = x.gather(1, at[:, None, None].expand(-1, 1, x.shape[2]))
    return linear(normalized(x, weights.norm), weights.to_logits)


def parameter_bytes(weights: Weights) -> int:
    """Bytes of everything that the weights hold."""
    total = 0
    for owner in (weights, *weights.layers):
        for field in fields(owner):  # type: ignore[arg-type]
            value = getattr(owner, field.name)
            parts = value if isinstance(value, tuple) else (value,)
            for part in parts:
                pieces = (part.values, part.scale) if isinstance(part, Quantized) else (part,)
                total += sum(p.numel() * p.element_size() for p in pieces if isinstance(p, Tensor))
    return total
