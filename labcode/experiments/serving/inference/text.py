"""A small model trained on the spot on the book's own text: pages in; weights, and what they predict, out.

Random weights tell how fast a token is, not how good: what 8 bits cost, and what of a guess is right, needs a
model that has learned something.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from labcode.analysis.lm.decoder import Size
from labcode.errors import LabError
from labcode.experiments.lm.transformer.model import Decoder, loss_of
from labcode.experiments.serving.inference import tokens as text_tokens
from labcode.experiments.serving.inference.cache import Growing
from labcode.experiments.serving.inference.model import Weights, forward

HELD_OUT = 10  # every tenth page is not trained on
RATE, WARM = 6e-4, 40


@dataclass(frozen=True)
class Corpus:
    """Tokens to train on and tokens held out; ``digest`` of both."""

    train: Tensor
    held_out: Tensor
    digest: str


def corpus(folder: Path) -> Corpus:
    """The pages of the book below a folder; `LabError` where there are fewer than `HELD_OUT`."""
    pages = sorted(folder.rglob("*.md"))
    if len(pages) < HELD_OUT:
        raise LabError(f"{folder}: {len(pages)} pages to learn from; {HELD_OUT} or more are needed")
    parts: tuple[list[int], list[int]] = ([], [])
    for number, page in enumerate(pages):
        mine = parts[number % HELD_OUT == HELD_OUT - 1]
        mine += [*text_tokens.encode(page.read_text(encoding="utf-8")), text_tokens.END]
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return Corpus(torch.tensor(parts[0]), torch.tensor(parts[1]), digest)


def train(
    size: Size, longest: int, data: Tensor, steps: int, batch: int, device: torch.device, seed: int = 1
) -> tuple[Decoder, list[float]]:
    """A decoder after so many steps on random stretches of the text, and its losses."""
    torch.manual_seed(seed)
    with device:
        model = Decoder(size, longest, attention="sdpa")
    data = data.to(device)
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, fused=device.type == "cuda")
    offsets = torch.arange(longest, device=device)
    losses = []
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM, 0.1 + 1.8 * (steps - step) / steps)
        starts = torch.randint(len(data) - longest - 1, (batch, 1), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = loss_of(model(data[starts + offsets]), data[starts + offsets + 1])
        loss.backward()
        adam.step()
        adam.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return model, [float(loss) for loss in losses]


def bits_a_byte(weights: Weights, data: Tensor, stretch: int, most: int = 64) -> tuple[float, Tensor]:
    """Bits that a byte of a text costs under the model, and the likeliest byte after each."""
    rows = min(most, (len(data) - 1) // stretch)
    given = data[: rows * stretch].view(rows, stretch).to(weights.device)
    wanted = data[1 : rows * stretch + 1].view(rows, stretch).to(weights.device)
    logits = forward(weights, given, Growing(weights.size, weights.device)).float()
    nats = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    return float(nats) / 0.6931471805599453, logits.argmax(2)
