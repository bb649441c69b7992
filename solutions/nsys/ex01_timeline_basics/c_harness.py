"""Measures nsys-ex01c: a learner's training loop in, times and operations of it and of the plain one out.

python c_harness.py FILE RECORD.json SEED [cuda|cpu]
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from labcode.grading.harness.common import WrongAnswerError, alternate, gpu_operations, learners, report

TOLERANCE = 1e-3  # relative, of losses and parameters
MEAN, SCALE = 127.5, 73.9


@dataclass(frozen=True)
class Size:
    """A network and its data."""

    steps: int
    batch: int
    features: int
    width: int


MEASURED = Size(steps=20, batch=2048, features=3072, width=2048)
ROUNDS = 5


def make(size: Size, seed: int, device: torch.device) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """A model, its optimizer and the batches, the same for the same seed."""
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(size.features, size.width), torch.nn.ReLU()]
    layers += [torch.nn.Linear(size.width, size.width), torch.nn.ReLU(), torch.nn.Linear(size.width, 10)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    batches = [
        (
            torch.randint(0, 256, (size.batch, size.features), dtype=torch.uint8),
            torch.randint(0, 10, (size.batch,)),
        )
        for _ in range(size.steps)
    ]
    return model, optimizer, batches


def plain(model: Any, optimizer: Any, batches: Any, mean: float, scale: float, device: Any) -> list[float]:
    """The loop that the learner begins with."""
    losses = []
    for pixels, labels in batches:
        inputs = ((pixels.float() - mean) / scale).to(device)
        labels = labels.to(device)
        _wait(device)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        _wait(device)
        optimizer.zero_grad()
        loss.backward()
        _wait(device)
        optimizer.step()
        _wait(device)
        losses.append(loss.item())
    return losses


def check(train: Callable[..., Any], size: Size, seed: int, device: torch.device) -> None:
    """Losses and trained model are those of the plain loop; `WrongAnswerError` says what is not."""
    model, optimizer, batches = make(size, seed, device)
    expected = plain(model, optimizer, batches, MEAN, SCALE, device)
    other, optimizer, batches = make(size, seed, device)
    got = train(other, optimizer, batches, MEAN, SCALE, device)
    where = f"{size.steps} steps, batch {size.batch}, width {size.width}"
    if not isinstance(got, list | tuple) or not all(isinstance(x, float) for x in got):
        raise WrongAnswerError(
            f"{where}: return a list of Python numbers, one a step (`tensor.tolist()` gives them)"
        )
    if len(got) != len(expected):
        raise WrongAnswerError(f"{where}: {len(got)} losses for {len(expected)} steps")
    for step, (a, b) in enumerate(zip(expected, got, strict=True)):
        if not math.isclose(a, b, rel_tol=TOLERANCE):
            advice = (
                "normalize the same way" if step == 0 else "does every step zero, backpropagate and step?"
            )
            raise WrongAnswerError(
                f"{where}: the loss of step {step} is {b:.6g}, the plain loop has {a:.6g}: {advice}"
            )
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        if not torch.allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE):
            raise WrongAnswerError(
                f"{where}: the losses agree, the trained parameters do not: is the last step taken?"
            )


def measure(file: Path, seed: int, device: torch.device) -> dict[str, Any]:
    """The record: times and GPU operations of both loops, after the answer was found right."""
    torch.backends.cuda.matmul.allow_tf32 = False
    train = learners(file, "train")
    for number, size in enumerate((Size(1, 5, 30, 16), Size(4, 33, 300, 64), Size(7, 128, 100, 48))):
        check(train, size, seed + number, device)
    if device.type != "cuda":
        return {"checked_only": True}
    ready = [make(MEASURED, seed, device) for _ in range(2)]

    def loop(function: Callable[..., Any], which: int) -> Callable[[], None]:
        def run() -> None:
            function(*ready[which], MEAN, SCALE, device)
            torch.cuda.synchronize()

        return run

    baseline, learner = loop(plain, 0), loop(train, 1)
    baseline_ms, learner_ms = alternate(baseline, learner, ROUNDS)
    return {
        "baseline_ms": baseline_ms,
        "learner_ms": learner_ms,
        "baseline_operations": gpu_operations(torch, baseline),
        "learner_operations": gpu_operations(torch, learner),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main(argv: list[str]) -> int:
    """Measure and write the record."""
    file, record, seed = Path(argv[0]), Path(argv[1]), int(argv[2])
    device = torch.device(argv[3] if len(argv) > 3 else "cuda")
    report(record, file, lambda: measure(file, seed, device))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
