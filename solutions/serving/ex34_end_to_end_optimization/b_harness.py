"""Measures serving-ex34b: a learner's pipeline in, times and counts of it and of the slow one out.

python b_harness.py FILE RECORD.json SEED [cuda|cpu]
"""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from labcode.analysis.serving.pipeline import CONTEXT, END, VOCABULARY, Cache, Logits, Machine, needed
from labcode.grading.harness.common import WrongAnswerError, alternate, learners, report


@dataclass(frozen=True)
class Size:
    """A decoder without normalizations: enough to cost what one costs."""

    width: int
    layers: int
    heads: int
    words: int  # of the tokenizer's table


MEASURED, TINY = Size(1024, 8, 8, 20_000), Size(16, 1, 2, 200)
SLOTS, ROUNDS = 64, 3


class RealMachine(Machine):
    """The counting machine, and beside it the work of each call on a GPU."""

    def __init__(self, size: Size, device: torch.device, masters: list[torch.Tensor]) -> None:
        super().__init__()
        self.size, self.device, self.masters = size, device, masters
        self.kept: list[torch.Tensor] = []
        self.free, self.newest = list(range(SLOTS)), torch.zeros(1, VOCABULARY, device=device)
        shape = (2, size.layers, SLOTS, size.heads, CONTEXT, size.width // size.heads)
        self.held = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self.places = torch.arange(CONTEXT, device=device)

    def tokenizer(self) -> str:
        """Build a table of words, and the alphabet."""
        self.table = {f"{number:08d}"[::-1]: number for number in range(self.size.words)}
        return super().tokenizer()

    def weights(self) -> object:
        """Convert all weights."""
        self.kept = [one.to(torch.bfloat16) for one in self.masters]
        return super().weights()

    def forward(
        self, weights: object, new: Sequence[Sequence[int]], caches: Sequence[Cache | None]
    ) -> Logits:
        """Count, and launch a pass: tokens of all sequences in one matrix, each looking at its own cache."""
        found = super().forward(weights, new, caches)
        slots, at, passing = [], [], []
        for tokens, cache in zip(new, caches, strict=True):
            own = vars(cache) if cache is not None else {}
            if "slot" not in own:
                if not self.free:
                    raise WrongAnswerError(f"more than {SLOTS} caches: one for each sequence is enough")
                own |= {"slot": self.free.pop(), "length": 0}
            if cache is None:
                passing.append(own["slot"])
            slots += [own["slot"]] * len(tokens)
            at += [min(own["length"] + k, CONTEXT - 1) for k in range(len(tokens))]
            own["length"] += len(tokens)
        self.free += passing
        ends = torch.tensor([sum(map(len, new[: k + 1])) - 1 for k in range(len(new))])
        given = torch.tensor([[token for tokens in new for token in tokens], slots, at])
        self.newest = self._pass(given.to(self.device), ends.to(self.device))
        return found

    def _pass(self, given: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        tokens, slots, at = given
        embedded, *layers = self.kept
        x = embedded[tokens]
        seen = (self.places <= at[:, None])[:, None, None]
        for number in range(self.size.layers):
            three, out, widen, narrow = layers[4 * number : 4 * number + 4]
            query, key, value = (x @ three).unflatten(1, (3, self.size.heads, -1)).unbind(1)
            self.held[0, number][slots, :, at], self.held[1, number][slots, :, at] = key, value
            keys, values = self.held[0, number][slots], self.held[1, number][slots]
            mixed = functional.scaled_dot_product_attention(query[:, :, None], keys, values, attn_mask=seen)
            x = x + mixed.flatten(1) @ out
            x = x + functional.gelu(x @ widen) @ narrow
        return x[ends] @ embedded.T

    def argmax(self, logits: Logits) -> list[int]:
        """Choose on the GPU; the host waits for the tokens."""
        self.newest.argmax(1).tolist()
        return super().argmax(logits)

    def download(self, logits: Logits) -> list[list[float]]:
        """All logits to the host."""
        self.newest.float().tolist()
        return super().download(logits)

    def synchronize(self) -> None:
        """Wait."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        super().synchronize()


def masters(size: Size, seed: int, device: torch.device) -> list[torch.Tensor]:
    """Weights in fp32: an embedding, and four matrices a layer."""
    torch.manual_seed(seed)
    wide, shapes = size.width, [(VOCABULARY, size.width)]
    shapes += [(wide, 3 * wide), (wide, wide), (wide, 4 * wide), (4 * wide, wide)] * size.layers
    return [0.02 * torch.randn(shape, device=device) for shape in shapes]


def slow(machine: Machine, prompts: list[str], most: list[int]) -> list[str]:
    """The pipeline that the learner begins with."""
    texts = []
    for prompt, limit in zip(prompts, most, strict=True):
        tokenizer = machine.tokenizer()
        tokens = machine.encode(tokenizer, prompt)
        said: list[int] = []
        text = ""
        while len(said) < limit and END not in said:
            weights = machine.weights()
            padded = tokens + said + [END] * (CONTEXT - len(tokens + said))
            logits = machine.forward(weights, [padded], [None])
            machine.synchronize()
            scores = machine.download(logits)[0]
            said.append(scores.index(max(scores)))
            text = machine.write(tokenizer, said)
        texts.append(text)
    return texts


def asked(seed: int, count: int) -> tuple[list[str], list[int]]:
    """Prompts of mixed lengths, and how many tokens each may have at most."""
    drawn = random.Random(seed)
    prompts = [
        "".join(chr(97 + drawn.randrange(26)) for _ in range(drawn.randint(4, 20))) for _ in range(count)
    ]
    return prompts, [drawn.randint(8, 40) for _ in range(count)]


def measure(file: Path, seed: int, device: torch.device) -> dict[str, Any]:
    """The record: milliseconds of both pipelines and what the learner's asked for, its texts found right."""
    torch.set_grad_enabled(False)
    serve = learners(file, "serve")
    size = MEASURED if device.type == "cuda" else TINY
    prompts, most = asked(seed, 32)
    held = masters(size, seed, device)
    wanted = slow(Machine(), prompts, most)
    machine = RealMachine(size, device, held)
    if serve(machine, list(prompts), list(most)) != wanted:
        raise WrongAnswerError("the texts are not those of the slow pipeline: part a finds the difference")

    def run(function: Callable[..., Any]) -> Callable[[], None]:
        def once() -> None:
            function(RealMachine(size, device, held), list(prompts), list(most))

        return once

    record = {"counts": machine.counts, "least": needed(prompts, most)}
    if device.type != "cuda":
        return record | {"checked_only": True}
    slow_ms, learner_ms = alternate(run(slow), run(serve), ROUNDS)
    return record | {"baseline_ms": slow_ms, "learner_ms": learner_ms}


def main(argv: list[str]) -> int:
    """Measure and write the record."""
    file, record, seed = Path(argv[0]), Path(argv[1]), int(argv[2])
    device = torch.device(argv[3] if len(argv) > 3 else "cuda")
    report(record, file, lambda: measure(file, seed, device))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
