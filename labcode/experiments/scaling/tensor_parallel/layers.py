"""A feed-forward network split over GPUs: its whole weights in; a rank's part of it out.

Both ways give every rank the whole output [tokens, width] for the whole input [tokens, width]:

- `Gathered`: each matrix is split by its outputs, which are all-gathered after each;
- `Paired`: the first is split by its outputs, the second by its inputs, so that what lies between stays where
  it is and one all-reduce adds up the outputs (Shoeybi and others, *Megatron-LM*, 2019, section 3).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from labcode.experiments.scaling.group import all_gather


class Exchange:
    """What ranks tell each other; ``paused``: nothing, for timing what is left."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world, self.paused = rank, world, False
        self.sent_bytes = 0  # of the tensors that collectives gave back, since it was last set to 0

    def sum(self, x: Tensor) -> Tensor:
        """The sum over the ranks, in place."""
        if not self.paused:
            torch.distributed.all_reduce(x)
            self.sent_bytes += x.nbytes
        return x

    def gather(self, x: Tensor) -> Tensor:
        """The ranks' columns beside each other: [tokens, part] in, [tokens, part · ranks] out."""
        parts = x.new_empty((self.world * x.shape[0], x.shape[1]))
        if not self.paused:
            all_gather(torch)(parts, x.contiguous())
            self.sent_bytes += parts.nbytes
        return parts.view(self.world, *x.shape).permute(1, 0, 2).reshape(x.shape[0], -1)


class _Replicated(torch.autograd.Function):  # type: ignore[misc]
    """Passes on what all ranks have; on the way back the ranks' parts of the gradient are added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.sum(grad.contiguous()), None


class _Added(torch.autograd.Function):  # type: ignore[misc]
    """Adds up what the ranks have; on the way back all have the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exchange: Exchange) -> Tensor:
        ctx.mark_dirty(x)
        return exchange.sum(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _Gathered(torch.autograd.Function):  # type: ignore[misc]
    """Puts columns side by side; on the way back each rank takes its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return exchange.gather(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.chunk(ctx.exchange.world, dim=1)[ctx.exchange.rank], None


class Gathered(nn.Module):  # type: ignore[misc]
    """Both matrices split by their outputs."""

    def __init__(self, up: Tensor, down: Tensor, exchange: Exchange) -> None:
        super().__init__()
        self.exchange = exchange
        self.up = nn.Parameter(up.chunk(exchange.world, dim=0)[exchange.rank].clone())
        self.down = nn.Parameter(down.chunk(exchange.world, dim=0)[exchange.rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        """[tokens, width] in, the same out."""
        inner = _Gathered.apply(
            functional.linear(_Replicated.apply(x, self.exchange), self.up), self.exchange
        )
        inner = _Replicated.apply(functional.gelu(inner), self.exchange)
        return _Gathered.apply(functional.linear(inner, self.down), self.exchange)


class Paired(nn.Module):  # type: ignore[misc]
    """The first matrix split by its outputs, the second by its inputs."""

    def __init__(self, up: Tensor, down: Tensor, exchange: Exchange) -> None:
        super().__init__()
        self.exchange = exchange
        self.up = nn.Parameter(up.chunk(exchange.world, dim=0)[exchange.rank].clone())
        self.down = nn.Parameter(down.chunk(exchange.world, dim=1)[exchange.rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        """[tokens, width] in, the same out."""
        inner = functional.gelu(functional.linear(_Replicated.apply(x, self.exchange), self.up))
        return _Added.apply(functional.linear(inner, self.down), self.exchange)


KINDS = {"gathered": Gathered, "paired": Paired}
