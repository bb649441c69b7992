"""The decoder: tokens in, logits out; attention written out or fused, each part under a range of its name.

Attention comes in three ways that compute the same: ``naive`` writes out the scores QKᵀ, the causal mask, the
softmax and the weighted values; ``sdpa`` leaves it to `torch.nn.functional.scaled_dot_product_attention` and
to the kernel PyTorch picks; ``flash`` insists on the flash kernel, which on a GPU takes 16-bit inputs only.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import attention as torch_attention
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from labcode.analysis.lm.decoder import Size
from labcode.experiments.shared.marks import Mark, no_mark

ATTENTIONS = ("naive", "sdpa", "flash")
INITIAL_SPREAD = 0.02  # standard deviation of the weights at the start


def attend_naive(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, mark: Mark = no_mark) -> Tensor:
    """Causal attention written out: [batch, heads, context, d] thrice in, the same out.

    ``hidden`` is [context, context], true where a place must not look.
    """
    with mark("scores"):
        scores = query @ key.transpose(2, 3)
    with mark("mask"):
        scores = (scores / math.sqrt(query.shape[3])).masked_fill(hidden, -math.inf)
    with mark("softmax"):
        weights = torch.softmax(scores, dim=3)
    with mark("values"):
        return weights.to(value.dtype) @ value


def attend_fused(query: Tensor, key: Tensor, value: Tensor, attention: str) -> Tensor:
    """The same by one call, of the flash kernel or of whatever PyTorch picks."""
    if attention == "flash":
        with torch_attention.sdpa_kernel(torch_attention.SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def hidden_places(context: int, device: torch.device) -> Tensor:
    """[context, context], true above the diagonal: what lies in the future."""
    return torch.ones(context, context, dtype=torch.bool, device=device).triu(1)


class Attention(nn.Module):  # type: ignore[misc]
    """Causal self-attention of all heads: [batch, context, d_model] in, the same out."""

    def __init__(self, size: Size, attention: str, mark: Mark) -> None:
        super().__init__()
        self.size, self.attention, self.mark = size, attention, mark
        self.projections = nn.Linear(size.d_model, 3 * size.d_model, bias=False)
        self.output = nn.Linear(size.d_model, size.d_model, bias=False)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Mix places; ``hidden`` as for `attend_naive`."""
        with self.mark("projections"):
            heads = self.projections(x).unflatten(2, (3, self.size.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.attention == "naive":
            mixed = attend_naive(heads[0], heads[1], heads[2], hidden, self.mark)
        else:
            with self.mark("fused attention"):
                mixed = attend_fused(heads[0], heads[1], heads[2], self.attention)
        with self.mark("output"):
            return self.output(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then the feed-forward network; each after a normalization and added to what came in."""

    def __init__(self, size: Size, attention: str, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.norm_before_attention = nn.LayerNorm(size.d_model)
        self.attention = Attention(size, attention, mark)
        self.norm_before_feed_forward = nn.LayerNorm(size.d_model)
        self.widen = nn.Linear(size.d_model, size.d_ff, bias=False)
        self.narrow = nn.Linear(size.d_ff, size.d_model, bias=False)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """[batch, context, d_model] in, the same out."""
        with self.mark("norm"):
            normalized = self.norm_before_attention(x)
        with self.mark("attention"):
            mixed = self.attention(normalized, hidden)
        with self.mark("add"):
            x = x + mixed
        with self.mark("norm"):
            normalized = self.norm_before_feed_forward(x)
        with self.mark("feed-forward"):
            added = self.narrow(functional.gelu(self.widen(normalized)))
        with self.mark("add"):
            return x + added


class Decoder(nn.Module):  # type: ignore[misc]
    """Predicts each next token: [batch, context] in, logits [batch, context, vocabulary] out.

    With ``recompute`` the activations inside of a block are dropped in the forward pass and computed again
    in the backward pass (activation checkpointing).
    """

    def __init__(
        self,
        size: Size,
        longest: int,
        *,
        attention: str = "naive",
        recompute: bool = False,
        mark: Mark = no_mark,
    ) -> None:
        super().__init__()
        self.mark, self.recompute = mark, recompute
        self.tokens = nn.Embedding(size.vocabulary, size.d_model)
        self.places = nn.Embedding(longest, size.d_model)
        self.blocks = nn.ModuleList(Block(size, attention, mark) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.d_model)
        self.to_logits = nn.Linear(size.d_model, size.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=INITIAL_SPREAD)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the token that follows each place."""
        context = tokens.shape[1]
        with self.mark("embedding"):
            places = torch.arange(context, device=tokens.device)
            x = self.tokens(tokens) + self.places(places)
            hidden = hidden_places(context, tokens.device)
        for number, block in enumerate(self.blocks):
            with self.mark(f"block {number}"):
                x = checkpoint(block, x, hidden, use_reentrant=False) if self.recompute else block(x, hidden)
        with self.mark("norm"):
            x = self.norm(x)
        with self.mark("logits"):
            return self.to_logits(x)


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of logits [batch, context, vocabulary] against targets [batch, context]."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
