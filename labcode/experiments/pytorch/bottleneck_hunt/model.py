"""The network of `bottleneck_hunt`: rows in, a loss out; its steps each in a slow and a quick way.

Both ways of each step compute the same; ``problems`` names the steps that are done the slow way.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection
from typing import IO, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

POOL = 4  # batches that the steps take in turn
EPSILON = 1e-5


class Data(NamedTuple):
    """Batches [pool, batch, width] as they are used, and turned; their classes; what scales them."""

    inputs: Tensor
    turned: Tensor
    targets: Tensor
    means: Tensor
    scales: Tensor


def make_data(given: argparse.Namespace, device: torch.device) -> Data:
    """Random rows, and the classes that a fixed random map gives them; on the device."""
    generator = torch.Generator().manual_seed(given.seed)
    rows = torch.randn(POOL, given.batch, given.width, generator=generator)
    teacher = torch.randn(given.width, given.classes, generator=generator)
    targets = (rows @ teacher).argmax(dim=2)
    means, scales = rows.mean(dim=(0, 1)), rows.std(dim=(0, 1))
    turned = rows.transpose(1, 2).contiguous()
    return Data(*(x.to(device) for x in (rows, turned, targets, means, scales)))


def batch_of(data: Data, step: int, problems: Collection[str]) -> tuple[Tensor, Tensor]:
    """The inputs and classes of a step: rows scaled to mean 0 and spread 1."""
    place = step % POOL
    inputs = data.turned[place].t().contiguous() if "layout" in problems else data.inputs[place]
    means, scales = data.means, data.scales
    if "cpu_tensors" in problems:
        ones = torch.ones(inputs.shape)  # on the CPU; every step makes and copies it
        means, scales = means.cpu().to(inputs.device), scales.cpu().to(inputs.device)
        inputs = inputs * ones.to(inputs.device)
    if "dtype" in problems:
        inputs = ((inputs.double() - means.double()) / scales.double()).float()
    else:
        inputs = (inputs - means) / scales
    return inputs, data.targets[place]


def normalize_by_hand(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer normalization written out."""
    mean = x.sum(dim=-1, keepdim=True) / x.shape[-1]
    centered = x - mean
    variance = (centered * centered).sum(dim=-1, keepdim=True) / x.shape[-1]
    return centered / torch.sqrt(variance + EPSILON) * weight + bias


def gelu_by_hand(x: Tensor) -> Tensor:
    """GELU, in its form with tanh, written out."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


class Block(nn.Module):  # type: ignore[misc]
    """x + W₂ gelu(W₁ norm(x))."""

    def __init__(self, width: int, problems: Collection[str]) -> None:
        super().__init__()
        self.problems = problems
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.widen = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, width] in, the same out."""
        if "layout" in self.problems:
            x = x.t().contiguous().t().contiguous()  # turned, and turned back
        if "tiny_ops" in self.problems:
            inner = self.widen(normalize_by_hand(x, self.norm.weight, self.norm.bias))
            return x + self.narrow(gelu_by_hand(inner))
        return x + self.narrow(functional.gelu(self.widen(self.norm(x)), approximate="tanh"))


class Network(nn.Module):  # type: ignore[misc]
    """Blocks, then a layer that gives each class a score."""

    def __init__(self, width: int, blocks: int, classes: int, problems: Collection[str]) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width, problems) for _ in range(blocks)))
        self.to_classes = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, width] in, [batch, classes] out."""
        return self.to_classes(self.blocks(x))


def loss_of(
    network: nn.Module, inputs: Tensor, targets: Tensor, problems: Collection[str]
) -> tuple[Tensor, Tensor]:
    """The mean cross entropy over a batch, and the share of rows whose class was found."""
    scores = network(inputs)
    if "dtype" in problems:
        loss = functional.cross_entropy(scores.double(), targets).float()
    else:
        loss = functional.cross_entropy(scores, targets)
    with torch.no_grad():
        return loss, (scores.argmax(dim=1) == targets).float().mean()


def write_norms(network: nn.Module, log: IO[str], step: int) -> None:
    """Read the norm of each gradient and write it at once."""
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        log.write(f"step {step}: {name} {parameter.grad.norm().item()}\n")
        log.flush()
