"""Measures nsys-ex04c: a learner's gradient reduction in two processes in, a record of it and a plain one
out.

python c_harness.py FILE RECORD.json SEED [cuda|cpu]

The program starts itself twice more, once a rank (``RANK`` in the environment says which); rank 0 writes the
record.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from labcode.grading.harness.common import (
    WrongAnswerError,
    alternate,
    given_word,
    gpu_operations,
    learners,
    report,
)

RANKS = 2
TOLERANCE = 1e-5
LAYERS, WIDTH, BATCH = 12, 4096, 2048
ROUNDS = 8
_STORE = "LABCODE_EXERCISE_STORE"


class Plain:
    """The reduction that the learner begins with: after the pass, one parameter after the other."""

    def __init__(self, parameters: list[Any], ranks: int) -> None:
        self._parameters, self._ranks = parameters, ranks

    def prepare(self) -> None:
        """Before the backward pass."""
        for parameter in self._parameters:
            parameter.grad = None

    def finish(self) -> None:
        """After it."""
        for parameter in self._parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= self._ranks


def network(sizes: list[int], seed: int, device: torch.device) -> Any:
    """Linear layers of these sizes, the same on every rank; the second has a bias that is not trained."""
    torch.manual_seed(seed)
    layers: list[Any] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).to(device)
    if len(layers) > 4:
        model[2].bias.requires_grad_(False)
    return model


def trained(model: Any) -> list[Any]:
    """The parameters that get gradients, in the model's order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def check(make: Callable[..., Any], sizes: list[int], seed: int, device: torch.device) -> None:
    """Three steps whose gradients must be the mean over the ranks; `WrongAnswerError` says what is not."""
    rank = dist.get_rank()
    model, reference = network(sizes, seed, device), network(sizes, seed, device)
    reducer = make(trained(model), RANKS)
    plain = Plain(trained(reference), RANKS)
    where = f"layers of {sizes}"
    for step in range(3):
        torch.manual_seed(seed + 100 * step + rank)
        inputs = torch.randn(7, sizes[0], device=device)
        for net, way in ((reference, plain), (model, reducer)):
            way.prepare()
            net(inputs).square().mean().backward()
            way.finish()
        for number, (a, b) in enumerate(zip(trained(reference), trained(model), strict=True)):
            if b.grad is None:
                raise WrongAnswerError(
                    f"{where}, step {step}: parameter {number} has no gradient after finish()"
                )
            if torch.allclose(a.grad, b.grad, rtol=TOLERANCE, atol=1e-7):
                continue
            ratio = float(b.grad.norm() / a.grad.norm())
            advice = "is every gradient reduced, once, and waited for?"
            if abs(ratio - RANKS) < 1e-3:
                advice = "it is the sum over the ranks; the mean is asked for"
            elif abs(ratio - 1 / RANKS) < 1e-3:
                advice = "it is divided twice"
            raise WrongAnswerError(
                f"{where}, step {step}: the gradient of parameter {number} is wrong: {advice}"
            )


def measure(file: Path, seed: int, device: torch.device) -> dict[str, Any]:
    """A rank's record: step times with the plain and the learner's reduction; rank 0 adds the operations."""
    make = learners(file, "Reducer")
    for number, sizes in enumerate(([5, 3], [40, 70, 9], [33, 64, 64, 64, 1], [300, 1000, 1000, 10])):
        check(make, sizes, seed + number, device)
    if device.type != "cuda":
        return {"checked_only": True}
    model = network([WIDTH] * (LAYERS + 1), seed, device)
    other = network([WIDTH] * (LAYERS + 1), seed, device)
    inputs = torch.randn(BATCH, WIDTH, device=device)

    def step(net: Any, reducer: Any) -> Callable[[], None]:
        def run() -> None:
            for _ in range(3):
                reducer.prepare()
                net(inputs).square().mean().backward()
                reducer.finish()
            torch.cuda.synchronize()

        return run

    plain, learner = step(model, Plain(trained(model), RANKS)), step(other, make(trained(other), RANKS))
    plain_ms, learner_ms = alternate(plain, learner, ROUNDS)
    record: dict[str, Any] = {"baseline_ms": plain_ms / 3, "learner_ms": learner_ms / 3}
    for name, function in (("baseline_operations", plain), ("learner_operations", learner)):
        dist.barrier()
        record[name] = gpu_operations(torch, function) if dist.get_rank() == 0 else (function(), [])[1]
    return record


def one_rank(file: Path, record: Path, seed: int, kind: str) -> int:
    """Be one of the ranks. Every rank writes what it found; the first process puts it together."""
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if kind == "cuda" else "gloo"
    store = f"file://{os.environ[_STORE]}"
    bound = {"device_id": device} if kind == "cuda" else {}
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=RANKS, **bound)
    report(Path(os.environ[_STORE]).with_name(f"rank{rank}.json"), file, lambda: measure(file, seed, device))
    sys.stdout.flush()
    os._exit(0)  # a rank whose partner stopped in a collective would wait for it on the way out


def main(argv: list[str]) -> int:
    """Start the ranks, wait for them, write the record."""
    file, record, seed = Path(argv[0]), Path(argv[1]), int(argv[2])
    kind = argv[3] if len(argv) > 3 else "cuda"
    if "RANK" in os.environ:
        return one_rank(file, record, seed, kind)
    word = given_word()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *argv]
        base = {**os.environ, _STORE: f"{folder}/store"}
        ranks = [
            subprocess.Popen(command, env={**base, "RANK": str(rank)}, stdin=subprocess.PIPE)
            for rank in range(RANKS)
        ]
        parts = [Path(folder) / f"rank{rank}.json" for rank in range(RANKS)]
        for process in ranks:
            assert process.stdin is not None
            process.stdin.write(f"{word}\n".encode())
            process.stdin.close()
        try:
            while any(process.poll() is None for process in ranks):
                if any(_is_wrong(part) for part in parts) or any(process.poll() for process in ranks):
                    break
                time.sleep(0.05)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        found = [json.loads(part.read_text(encoding="utf-8")) for part in parts if part.is_file()]
    found = [part for part in found if part.pop("nonce", "") == word]
    wrong = [part for part in found if "wrong" in part]
    if not wrong and len(found) < RANKS:
        return 1
    (wrong or found)[0] |= {"ranks": RANKS, "nonce": word}
    record.write_text(json.dumps((wrong or found)[0]), encoding="utf-8")
    return 0


def _is_wrong(part: Path) -> bool:
    return part.is_file() and "wrong" in json.loads(part.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
