"""The network of `launch_sites`: tokens in, a loss out; its steps each in two ways that give the same.

One way of each pair makes more kernels, or slower ones, than its line looks like; ``hidden`` names them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

IGNORED = -100  # the target of a place that does not count


@dataclass(frozen=True)
class Shape:
    """Sizes of the network: length of a text, its width, heads, layers, different tokens, their kinds."""

    length: int
    width: int
    heads: int
    layers: int
    tokens: int
    kinds: int = 4


def marks_by_index(table: Tensor, kinds: Tensor) -> Tensor:
    """What each position gets by its kind: [kinds, width], [batch, length] in, [batch, length, width] out."""
    return table[kinds]


def marks_by_product(table: Tensor, kinds: Tensor) -> Tensor:
    """The same as a matmul: a row with a single 1 picks a row of the table."""
    return functional.one_hot(kinds, table.shape[0]).to(table.dtype) @ table


def bias_by_index(table: Tensor, length: int) -> Tensor:
    """A bias for each pair of places, by distance: [2·length − 1, heads] in, [heads, length, length] out."""
    places = torch.arange(length, device=table.device)
    distance = places[None, :] - places[:, None] + length - 1
    return table[distance].permute(2, 0, 1)


def bias_by_window(table: Tensor, length: int) -> Tensor:
    """The same: row i is the window of the table that begins at length − 1 − i."""
    return table.unfold(0, length, 1).flip(0).permute(1, 0, 2)


def attend_by_head(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Attention, one head after another: [batch, heads, length, d] thrice and a bias in, the same out."""
    mixed = []
    for head in range(query.shape[1]):
        scores = query[:, head] @ key[:, head].transpose(1, 2) / math.sqrt(query.shape[3])
        mixed.append(torch.softmax(scores + bias[head], dim=2) @ value[:, head])
    return torch.stack(mixed, dim=1)


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Attention of all heads at once."""
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    return torch.softmax(scores + bias, dim=3) @ value


def loss_of_chosen(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy over the places that count, picked out by a mask: [batch, length, tokens] in."""
    counts = targets != IGNORED
    return functional.cross_entropy(logits[counts], targets[counts])


def loss_with_ignored(logits: Tensor, targets: Tensor) -> Tensor:
    """The same, where the loss itself leaves out what does not count."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def norm_by_parameter(parameters: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients: each parameter's is read, the host adds them up."""
    squares = 0.0
    for parameter in parameters:
        if parameter.grad is not None:
            squares += parameter.grad.norm().item() ** 2
    return torch.tensor(math.sqrt(squares))


def norm_together(parameters: Sequence[Tensor]) -> Tensor:
    """The same on the GPU, for all parameters in a few kernels; nothing is read."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return nn.utils.get_total_norm(gradients)


class Block(nn.Module):  # type: ignore[misc]
    """Attention with a bias by distance, then two layers; each added to what came in."""

    def __init__(self, shape: Shape, hidden: Collection[str]) -> None:
        super().__init__()
        self.shape, self.hidden = shape, hidden
        self.before_attention = nn.LayerNorm(shape.width)
        self.into_heads = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out_of_heads = nn.Linear(shape.width, shape.width, bias=False)
        self.kind_marks = nn.Parameter(torch.zeros(shape.kinds, shape.width))
        self.distance_bias = nn.Parameter(torch.zeros(2 * shape.length - 1, shape.heads))
        self.before_layers = nn.LayerNorm(shape.width)
        self.widen = nn.Linear(shape.width, 4 * shape.width)
        self.narrow = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor, kinds: Tensor) -> Tensor:
        """[batch, length, width] and the kind of each position [batch, length] in, the former out."""
        marks_of = marks_by_index if "marks" in self.hidden else marks_by_product
        x = x + marks_of(self.kind_marks, kinds)
        x = x + self.out_of_heads(self.mix(self.before_attention(x)))
        return x + self.narrow(functional.gelu(self.widen(self.before_layers(x))))

    def mix(self, x: Tensor) -> Tensor:
        """Each place takes something of the others."""
        heads = self.into_heads(x).unflatten(2, (3, self.shape.heads, -1)).permute(2, 0, 3, 1, 4)
        bias_of = bias_by_index if "bias" in self.hidden else bias_by_window
        attention = attend_by_head if "heads" in self.hidden else attend
        mixed = attention(heads[0], heads[1], heads[2], bias_of(self.distance_bias, self.shape.length))
        return mixed.transpose(1, 2).flatten(2)


class Network(nn.Module):  # type: ignore[misc]
    """Predicts each next token of a text."""

    def __init__(self, shape: Shape, hidden: Collection[str]) -> None:
        super().__init__()
        self.shape, self.hidden = shape, hidden
        self.embedding = nn.Embedding(shape.tokens, shape.width)
        self.blocks = nn.ModuleList(Block(shape, hidden) for _ in range(shape.layers))
        self.last = nn.LayerNorm(shape.width)
        self.to_tokens = nn.Linear(shape.width, shape.tokens, bias=False)

    def forward(self, texts: Tensor, targets: Tensor) -> Tensor:
        """The loss of texts [batch, length] against their targets [batch, length]."""
        x = self.embedding(texts)
        kinds = kinds_of(texts, self.shape.kinds)
        for block in self.blocks:
            x = block(x, kinds)
        logits = self.to_tokens(self.last(x))
        loss_of = loss_of_chosen if "mask" in self.hidden else loss_with_ignored
        return loss_of(logits, targets)

    def gradient_norm(self) -> Tensor:
        """The norm of all gradients, for the log."""
        norm_of = norm_by_parameter if "norms" in self.hidden else norm_together
        return norm_of(list(self.parameters()))


def kinds_of(texts: Tensor, kinds: int) -> Tensor:
    """The kind of each token: mostly 0, as most words are ordinary ones."""
    return torch.where(texts % 8 == 0, (texts // 8) % kinds, 0)


def make_texts(shape: Shape, batch: int, steps: int, seed: int) -> tuple[Tensor, Tensor]:
    """Texts [steps, batch, length] in which each token mostly follows from the last, and the next tokens.

    Texts have various lengths; behind its end a text's targets are `IGNORED`.
    """
    generator = torch.Generator().manual_seed(seed)
    follower = torch.randperm(shape.tokens, generator=generator)
    surprise = torch.rand(steps, batch, shape.length + 1, generator=generator) < 0.1
    tokens = torch.randint(shape.tokens, (steps, batch, shape.length + 1), generator=generator)
    for place in range(1, shape.length + 1):
        expected = follower[tokens[:, :, place - 1]]
        tokens[:, :, place] = torch.where(surprise[:, :, place], tokens[:, :, place], expected)
    ends = torch.randint(shape.length // 2, shape.length + 1, (steps, batch, 1), generator=generator)
    targets = torch.where(torch.arange(shape.length) < ends, tokens[:, :, 1:], IGNORED)
    return tokens[:, :, :-1].contiguous(), targets.contiguous()
