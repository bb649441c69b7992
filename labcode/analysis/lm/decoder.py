"""Arithmetic of the language model: a size, a batch and a context in; FLOPs, parameters and bytes out.

The model is a decoder: ``layers`` blocks of causal self-attention and a feed-forward network of two layers,
each after a normalization and added to what came in, between an embedding and a projection to the vocabulary.

Counting: a multiplication with its addition is 2 FLOPs, so a product of [m, k] and [k, n] has 2·m·k·n. All
pairs of positions count, also those that the causal mask hides, since attention written out computes them.
Softmax is taken as 5 operations per element (maximum, difference, exponential, sum, quotient). What else is
done to single elements (normalization, activation, additions) is left out: it is bound by memory, not by
arithmetic. A backward pass has twice the products of its forward pass, one for each of their two inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

VOCABULARY = 10_000
SOFTMAX_OPERATIONS = 5
ADAMW_BYTES = 16  # a parameter in fp32: itself, its gradient, two running means
MATMULS = ("projections", "scores", "values", "output", "feed-forward", "logits")


@dataclass(frozen=True)
class Size:
    """Sizes of a decoder: width ``d_model``, inner width of the feed-forward network, blocks, heads."""

    d_model: int
    d_ff: int
    layers: int
    heads: int
    vocabulary: int = VOCABULARY

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.heads


SIZES = {
    "small": Size(768, 3072, 12, 12),
    "medium": Size(1024, 4096, 24, 16),
    "large": Size(1280, 5120, 36, 20),
    "xl": Size(1600, 6400, 48, 25),
    "2.7B": Size(2560, 10240, 32, 32),
    "tiny": Size(32, 128, 2, 4, 64),  # for tests
}


def forward_flops(size: Size, batch: int, context: int) -> dict[str, int]:
    """FLOPs of a forward pass over [batch, context] tokens by part, all blocks together.

    The parts are `MATMULS` and ``softmax``. Scores of one block of the small model at batch 4 and 512 tokens
    (`attention_flops`) are 2·4·12·512²·64 = 1,610,612,736.
    """
    tokens = batch * context
    attention = attention_flops(batch, size.heads, context, size.d_head)
    of_a_block = {
        "projections": 2 * tokens * size.d_model * 3 * size.d_model,
        **attention,
        "output": 2 * tokens * size.d_model**2,
        "feed-forward": 2 * 2 * tokens * size.d_model * size.d_ff,
    }
    return {
        **{part: size.layers * count for part, count in of_a_block.items()},
        "logits": 2 * tokens * size.d_model * size.vocabulary,
    }


def attention_flops(batch: int, heads: int, context: int, d_head: int) -> dict[str, int]:
    """FLOPs of attention in one block: ``scores`` (QKᵀ), ``softmax``, ``values`` (weights times V)."""
    pairs = batch * heads * context**2
    return {"scores": 2 * pairs * d_head, "softmax": SOFTMAX_OPERATIONS * pairs, "values": 2 * pairs * d_head}


def matmul_flops(size: Size, batch: int, context: int, *, backward: bool = False) -> int:
    """FLOPs of the matmuls of a forward pass, or of a forward and a backward pass."""
    parts = forward_flops(size, batch, context)
    return (3 if backward else 1) * sum(parts[part] for part in MATMULS)


def parameter_count(size: Size, longest: int) -> int:
    """Parameters of the model: matrices, the normalizations' two vectors, positions up to ``longest``."""
    block = 4 * size.d_model**2 + 2 * size.d_model * size.d_ff + 2 * 2 * size.d_model
    ends = (2 * size.vocabulary + longest) * size.d_model + 2 * size.d_model
    return size.layers * block + ends


def residual_bytes(size: Size, batch: int, context: int, *, itemsize: int = 4) -> int:
    """Bytes of one tensor of the residual stream, [batch, context, d_model]."""
    return itemsize * batch * context * size.d_model


def scores_bytes(size: Size, batch: int, context: int, *, itemsize: int = 4) -> int:
    """Bytes of one block's scores, [batch, heads, context, context], where attention is written out."""
    return itemsize * batch * size.heads * context**2


def training_state_bytes(size: Size, longest: int) -> int:
    """Bytes of parameters, gradients and AdamW's two running means, all in fp32."""
    return ADAMW_BYTES * parameter_count(size, longest)
