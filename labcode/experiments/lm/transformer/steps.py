"""Steps of the decoder: how it is to be trained or asked in; timed passes, dtypes, memory peaks out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from labcode.analysis.lm.decoder import SIZES, Size
from labcode.experiments.lm.transformer.model import Decoder, loss_of
from labcode.experiments.shared.common import synchronize
from labcode.experiments.shared.marks import Mark, no_mark

PRECISIONS = ("fp32", "tf32", "bf16")
PASSES = {
    "forward": ("forward",),
    "backward": ("forward", "backward"),
    "train": ("forward", "backward", "optimizer"),
}
LEARNING_RATE = 3e-4
_WATCHED = (  # functions whose outputs' dtypes are told, as they are called in the model
    "embedding",
    "layer_norm",
    "linear",
    "matmul",
    "masked_fill",
    "softmax",
    "scaled_dot_product_attention",
    "gelu",
    "add",
    "cross_entropy",
)


@dataclass(frozen=True)
class Setup:
    """How the model runs: its size, tokens, precision, attention, and what is asked of it."""

    size: Size
    batch: int
    context: int
    precision: str = "fp32"
    attention: str = "naive"
    compiled: bool = False
    recompute: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Trainer:
    """A model ready to run, with the tokens of its one batch (every step sees the same)."""

    setup: Setup
    model: Any
    optimizer: torch.optim.Optimizer
    tokens: Tensor
    targets: Tensor
    device: torch.device

    def autocast(self) -> Any:
        """The context in which the forward pass runs: autocast for bf16."""
        if self.setup.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()


@dataclass
class Times:
    """Times of each pass, one a step, in ms: by the host's clock, the device waited for, and by events."""

    host_ms: dict[str, list[float]] = field(default_factory=dict)
    event_ms: dict[str, list[float]] = field(default_factory=dict)


def make_trainer(setup: Setup, device: torch.device, mark: Mark = no_mark) -> Trainer:
    """A fresh model, its optimizer and its batch; sets how fp32 products are computed in this process."""
    torch.manual_seed(setup.seed)
    torch.set_float32_matmul_precision("high" if setup.precision == "tf32" else "highest")
    with device:  # the weights of the largest size would take long to make elsewhere
        model: Any = Decoder(
            setup.size,
            setup.context,
            attention=setup.attention,
            recompute=setup.recompute,
            mark=no_mark if setup.compiled else mark,
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    if setup.compiled:
        model = torch.compile(model)
    tokens = torch.randint(setup.size.vocabulary, (setup.batch, setup.context + 1), device=device)
    return Trainer(setup, model, optimizer, tokens[:, :-1], tokens[:, 1:], device)


def step(
    trainer: Trainer, passes: tuple[str, ...], mark: Mark = no_mark, times: Times | None = None
) -> Tensor:
    """One step of the named passes, the device waited for after each; the loss.

    Without a backward pass nothing is kept for one (`torch.no_grad`).
    """
    times = times or Times()
    grad = nullcontext() if "backward" in passes else torch.no_grad()
    with grad, _timed("forward", trainer, mark, times), trainer.autocast():
        logits = trainer.model(trainer.tokens)
        with mark("loss"):
            loss = loss_of(logits, trainer.targets)
    del logits
    if "backward" in passes:
        with _timed("backward", trainer, mark, times), torch.autograd.set_multithreading_enabled(False):
            loss.backward()  # on this thread, so that the range covers what is launched
    if "optimizer" in passes:
        with _timed("optimizer", trainer, mark, times):
            trainer.optimizer.step()
            trainer.optimizer.zero_grad(set_to_none=True)
    elif "backward" in passes:
        trainer.optimizer.zero_grad(set_to_none=True)
    return loss.detach()


@contextmanager
def _timed(name: str, trainer: Trainer, mark: Mark, times: Times) -> Iterator[None]:
    """A range by name around a pass, timed by host and events, until the device has done it."""
    device = trainer.device
    events = []
    if device.type == "cuda":
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    began = time.perf_counter()
    with mark(name):
        for event in events[:1]:
            event.record()
        yield
        for event in events[1:]:
            event.record()
        synchronize(device)
    times.host_ms.setdefault(name, []).append(1e3 * (time.perf_counter() - began))
    if events:
        times.event_ms.setdefault(name, []).append(events[0].elapsed_time(events[1]))


def memory_peaks(trainer: Trainer, passes: tuple[str, ...]) -> dict[str, int]:
    """Bytes on the GPU in one more step: in use before it, and the most in use during each pass."""
    cuda = torch.cuda
    trainer.optimizer.zero_grad(set_to_none=True)
    synchronize(trainer.device)
    found = {"before_step_bytes": cuda.memory_allocated(trainer.device)}
    times = Times()

    @contextmanager
    def watched(name: str) -> Iterator[None]:
        cuda.reset_peak_memory_stats(trainer.device)
        yield
        found[f"{name}_peak_bytes"] = cuda.max_memory_allocated(trainer.device)
        found[f"after_{name}_bytes"] = cuda.memory_allocated(trainer.device)

    step(trainer, passes, lambda name: watched(name) if name in passes else nullcontext(), times)
    found["step_peak_bytes"] = max(found[f"{name}_peak_bytes"] for name in passes)
    found["reserved_bytes"] = cuda.memory_reserved(trainer.device)
    return found


class _Dtypes(TorchFunctionMode):  # type: ignore[misc]
    """Collects the dtypes of what watched functions return."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, set[str]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").strip("_")
        if name in _WATCHED and isinstance(result, Tensor):
            self.seen.setdefault(name, set()).add(dtype_name(result))
        return result


def dtypes(trainer: Trainer) -> list[dict[str, str]]:
    """Which dtype each kind of tensor of a training step has: parameters, what functions return, gradients.

    Rows ``{"tensor", "dtype"}``; functions in the order in which the model calls them. Runs the model as it
    is written, also where it is compiled.
    """
    model = getattr(trainer.model, "_orig_mod", trainer.model)
    watcher = _Dtypes()
    with trainer.autocast(), watcher:
        logits = model(trainer.tokens)
        loss = loss_of(logits, trainer.targets)
    loss.backward()
    parameters = list(model.parameters())
    rows = [("parameters", {dtype_name(p) for p in parameters})]
    rows += [(f"output of {name}", found) for name, found in watcher.seen.items()]
    rows += [("logits", {dtype_name(logits)}), ("loss", {dtype_name(loss)})]
    rows += [("gradients", {dtype_name(p.grad) for p in parameters if p.grad is not None})]
    trainer.optimizer.zero_grad(set_to_none=True)
    return [{"tensor": name, "dtype": ", ".join(sorted(found))} for name, found in rows]


def dtype_name(tensor: Tensor) -> str:
    """``float32`` for `torch.float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def relative_error(setup: Setup, device: torch.device) -> float:
    """How far logits of a tiny model, run as ``setup`` says, are from those in float64 with naive attention.

    ‖difference‖ / ‖reference‖; the weights are the same.
    """
    size, context = SIZES["tiny"], 64
    small = Setup(size, 2, context, setup.precision, setup.attention, False, setup.recompute, setup.seed)
    trainer = make_trainer(small, device)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1)  # so that attention is far from uniform
        reference = Decoder(size, context).to(device=device, dtype=torch.float64)
        reference.load_state_dict(trainer.model.state_dict())
        wanted = reference(trainer.tokens)
        with trainer.autocast():
            got = trainer.model(trainer.tokens)
    return float((got.double() - wanted).norm() / wanted.norm())
