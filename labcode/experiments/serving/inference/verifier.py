"""One sequence whose newest tokens may be taken back: guesses in; the model's own choice after each out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labcode.experiments.serving.inference.cache import Contiguous
from labcode.experiments.serving.inference.model import Weights, forward
from labcode.experiments.serving.inference.runners import captured, choose


class Verifier:
    """A cache of fixed size and, on a GPU, a graph for each number of tokens up to ``most``."""

    def __init__(self, weights: Weights, capacity: int, most: int) -> None:
        self.weights, self.most = weights, most
        self.cache = Contiguous(weights.size, 1, capacity, weights.device, weights.dtype)
        self.tokens = torch.zeros(1, most, dtype=torch.int64, device=weights.device)
        self.passes: dict[int, Callable[[], Tensor]] = {}
        for count in range(1, most + 1):

            def call(count: int = count) -> Tensor:
                return choose(forward(weights, self.tokens[:, :count], self.cache)[0])

            self.passes[count] = captured(call) if weights.device.type == "cuda" else call

    def prompt(self, tokens: list[int]) -> int:
        """Start anew behind a prompt; the first token."""
        self.cache.lengths.zero_()
        given = torch.tensor([tokens], device=self.weights.device)
        logits = forward(self.weights, given, self.cache)[:, -1]
        self.length = len(tokens)
        return int(choose(logits)[0])

    def verify(self, tokens: list[int]) -> list[int]:
        """The choice after each of the newest tokens; those that agree are counted as in."""
        self.cache.lengths.fill_(self.length)
        self.tokens[0, : len(tokens)] = torch.tensor(tokens)
        chosen: list[int] = self.passes[len(tokens)]().tolist()
        stood = 1
        while stood < len(tokens) and tokens[stood] == chosen[stood - 1]:
            stood += 1
        self.length += stood
        return chosen
