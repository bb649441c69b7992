"""Arithmetic of a Llama: its configuration and what it is given in; parameters, FLOPs and bytes out.

A decoder whose query heads share fewer key and value heads, with a gated feed-forward network of three
matrices, rotary positions, no biases, and an output matrix of its own. A multiplication with its addition is
2 FLOPs. Of attention only those pairs of positions count that the mask allows: within a document, and not
ahead. Recomputation is no work of the model, so it counts in no FLOP here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Width, inner width of the feed-forward network, layers, heads of queries and of keys, vocabulary."""

    width: int = 4096
    inner: int = 14336
    layers: int = 32
    heads: int = 32
    kv_heads: int = 8
    vocabulary: int = 128_256

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.width // self.heads


CONFIGS = {
    "8B": Config(),
    "tiny": Config(64, 160, 3, 4, 2, 512),  # for tests
}
DOCUMENTS = (1536, 1024, 512, 384, 256, 192, 128, 64)  # tokens of each, packed into one sequence of 4096


def layer_parameters(config: Config) -> int:
    """Parameters of a layer: attention's four matrices, the network's three, two norms."""
    attention = 2 * config.width**2 + 2 * config.width * config.kv_heads * config.head
    return attention + 3 * config.width * config.inner + 2 * config.width


def parameter_count(config: Config) -> int:
    """All parameters: those of the layers, embedding, output matrix, last norm."""
    ends = 2 * config.vocabulary * config.width + config.width
    return config.layers * layer_parameters(config) + ends


def read_for_a_token(config: Config) -> int:
    """Parameters that a token multiplies by: all but the embedding, of which it takes a row."""
    return parameter_count(config) - config.vocabulary * config.width


def forward_flops(config: Config, documents: Sequence[int]) -> int:
    """FLOPs of a forward pass over documents of so many tokens, logits included."""
    tokens = sum(documents)
    pairs = sum(n * (n + 1) // 2 for n in documents)
    return 2 * tokens * read_for_a_token(config) + 4 * config.layers * config.width * pairs


def training_flops(config: Config, documents: Sequence[int]) -> int:
    """FLOPs of a forward and a backward pass, which has twice the matmuls."""
    return 3 * forward_flops(config, documents)


def cache_bytes(config: Config, tokens: int, *, itemsize: int = 2) -> int:
    """Bytes of the keys and values of so many tokens."""
    return 2 * config.layers * config.kv_heads * config.head * tokens * itemsize


def logits_bytes(config: Config, tokens: int, *, itemsize: int) -> int:
    """Bytes of the logits of so many tokens."""
    return tokens * config.vocabulary * itemsize


# ---- predictions, from what a large matmul and a copy reach on a GPU of Hopper under its power cap

RATE, BANDWIDTH = 650e12, 3.0e12  # bf16 FLOP/s; bytes/s
# Bytes that eager attention moves for each score, forward and backward: scores in 16 bits, softmax in 32
SCORE_BYTES = (24, 32)
# The share of `RATE` that kernels of attention reach, forward and backward: with any mask, with FlexAttention
SDPA, FLEX = (0.4, 0.25), (0.5, 0.3)
# Bytes of a token and layer, forward, for each of width and inner: operators one by one, or compiled
ONE_BY_ONE, COMPILED = (36 * 2 + 18 * 1.25 + 12, 10), (8 * 2 + 4 * 1.25, 6)
LOGIT_BYTES = 34  # that each logit moves in loss and backward pass, in 32 bits where it counts
ADAMW_BYTES = {"foreach": 40, "fused": 14}  # that each parameter in 16 bits moves


def predicted_step(
    config: Config,
    documents: Sequence[int],
    *,
    attention: str,
    optimizer: str,
    compiled: bool,
    recomputed: int,
) -> dict[str, float]:
    """Milliseconds of a training step by part, on paper: matmuls, attention, elementwise, logits, optimizer.

    ``recomputed`` layers do their forward pass twice. ``attention`` is ``eager`` or ``sdpa``, which look at
    all pairs of positions, or ``flex_attention``, which skips what the mask forbids.
    """
    tokens = sum(documents)
    again = min(recomputed, config.layers) / config.layers
    layers = 2 * tokens * config.layers * layer_parameters(config)
    ends = 2 * tokens * config.vocabulary * config.width
    matmuls = (layers * (3 + again) + 3 * ends) / RATE
    if attention == "flex_attention":
        pairs, reached = sum(n * (n + 1) // 2 for n in documents), FLEX
    else:
        pairs, reached = tokens * tokens, SDPA
    flops = 4 * config.layers * config.width * pairs
    if attention == "eager":
        scores = config.layers * config.heads * pairs
        forward, backward = (b * scores / BANDWIDTH for b in SCORE_BYTES)
        forward, backward = forward + flops / RATE, backward + 2 * flops / RATE
    else:
        forward, backward = flops / (reached[0] * RATE), 2.5 * flops / (reached[1] * RATE)
    of_width, of_inner = COMPILED if compiled else ONE_BY_ONE
    element = config.layers * tokens * (of_width * config.width + of_inner * config.inner) / BANDWIDTH
    seconds = {
        "matmuls": matmuls,
        "attention": forward * (1 + again) + backward,
        "elementwise": element * (1 + again + 2),
        "logits": LOGIT_BYTES * tokens * config.vocabulary / BANDWIDTH,
        "optimizer": ADAMW_BYTES[optimizer] * parameter_count(config) / BANDWIDTH,
    }
    return {part: 1e3 * value for part, value in seconds.items()}


def state_bytes(config: Config, parameter: int) -> int:
    """Bytes of weights, gradients and moments, at so many a parameter."""
    return parameter * parameter_count(config)


LINK = 300e9  # bytes/s that a collective of large messages moves to a GPU over NVLink, one direction
TAKEN = 0.15  # of the speed of what is computed beside a collective that runs on multiprocessors
FP32_ADAMW_BYTES = 28  # that each parameter of a rank moves: itself, two moments, its gradient, in 32 bits


def predicted_exchange(
    config: Config, *, reduce_bytes: int, stay: int = 0, engines: bool = False
) -> dict[str, float]:
    """Milliseconds of a step of FSDP on two GPUs by part, on paper: gathering weights in 16 bits in the
    forward and the backward pass, summing gradients of ``reduce_bytes`` each, AdamW on a half in 32 bits; and
    of the exchange what nothing hides (of embedding and output matrix) and what it slows.

    ``stay`` layers are not gathered a second time; ``engines``: copy engines gather.
    """
    count = parameter_count(config)
    layer, ends = layer_parameters(config), count - config.layers * layer_parameters(config)
    gather = (2 * count + 2 * (count - stay * layer)) / 2 / LINK
    reduce = reduce_bytes * count / 2 / LINK
    seconds = {
        "gather": gather,
        "reduce": reduce,
        "exposed": (2 * (ends + layer) + reduce_bytes * ends) / 2 / LINK,
        "slowed": TAKEN * (reduce + (0.0 if engines else gather)),
        "optimizer": FP32_ADAMW_BYTES * count / 2 / BANDWIDTH,
    }
    return {part: 1e3 * value for part, value in seconds.items()}
