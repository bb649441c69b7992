"""The network of `memory_leak`, and what its loops keep: tensors in, the bytes that are kept alive out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


class Network(nn.Module):  # type: ignore[misc]
    """Layers in turn: [batch, width] in, the same out."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """Each layer added to what came in, behind a ReLU."""
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


@dataclass
class Kept:
    """What a loop keeps: losses for a curve, activations for a look, outputs for a comparison."""

    losses: list[Any] = field(default_factory=list)
    activations: list[Tensor] = field(default_factory=list)
    outputs: dict[int, Tensor] = field(default_factory=dict)

    def remember_activation(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        """A forward hook."""
        self.activations.append(output.detach())


def loss_of(outputs: Tensor, inputs: Tensor) -> Tensor:
    """The mean squared error of telling a row turned by one place."""
    return (outputs - inputs.roll(1, dims=1)).square().mean()


def fused(device: torch.device) -> dict[str, bool]:
    """AdamW in one kernel, on a GPU: its step then allocates nothing."""
    return {"fused": True} if device.type == "cuda" else {}


def bytes_in_use(device: torch.device, kept: Kept) -> int:
    """What the GPU holds; on the CPU, where nobody counts, what ``kept`` and its graphs hold."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    held = {tensor.data_ptr(): tensor.nbytes for tensor in _tensors_of(kept)}
    return sum(held.values())


def _tensors_of(kept: Kept) -> Iterator[Tensor]:
    yield from kept.activations
    yield from kept.outputs.values()
    waiting, seen = [loss.grad_fn for loss in kept.losses if loss.grad_fn is not None], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_"):
                with suppress(RuntimeError):  # a weight that the optimizer has changed since
                    saved = getattr(node, name)
                    if isinstance(saved, Tensor):
                        yield saved
        waiting += [following for following, _ in node.next_functions if following is not None]
