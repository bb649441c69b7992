"""Ways to train the Llama on one GPU, each one change after the one before: a way in; a step to call out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.experiments.lm.llama import model as llama

if TYPE_CHECKING:
    import torch

LEARNING_RATE = 1e-5
ALL = 1 << 30


@dataclass(frozen=True)
class Way:
    """How a model is trained: its attention, AdamW's implementation, compiled layers, how many layers are
    recomputed, and whether each parameter is updated as soon as it has its gradient.
    """

    attention: str = "eager"
    optimizer: str = "foreach"
    compiled: bool = False
    recomputed: int = ALL
    at_once: bool = False


WAYS = {
    "eager": Way(),
    "sdpa": Way("sdpa"),
    "fused": Way("sdpa", "fused"),
    "compiled": Way("sdpa", "fused", compiled=True),
    "flex": Way("flex_attention", "fused", compiled=True),
    "at-once": Way("flex_attention", "fused", compiled=True, at_once=True),
    "kept": Way("flex_attention", "fused", compiled=True, at_once=True, recomputed=26),
}


class Trainer:
    """A model and its optimizer; ``step`` trains on one packed sequence and gives its loss."""

    def __init__(self, way: Way, name: str, device: torch.device) -> None:
        import torch

        self.model = llama.make_model(name, way.attention, device, torch.bfloat16)
        llama.checkpoint_layers(self.model, way.recomputed)
        if way.compiled:
            llama.compile_layers(self.model)
        self.batch = llama.packed_batch(name, device)
        parameters = list(self.model.parameters())
        self._optimizers: list[Any] = []
        if way.at_once:
            for parameter in parameters:
                self._update_at_once(parameter, self._adamw([parameter], way, device))
        else:
            self._optimizers = [self._adamw(parameters, way, device)]

    @staticmethod
    def _adamw(parameters: list[Any], way: Way, device: torch.device) -> Any:
        import torch

        how = {way.optimizer: True} if device.type == "cuda" else {}
        return torch.optim.AdamW(parameters, lr=LEARNING_RATE, **how)

    @staticmethod
    def _update_at_once(parameter: Any, optimizer: Any) -> None:
        """Update a parameter within the backward pass, and drop its gradient there."""

        def update(_: Any) -> None:
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(update)

    def step(self) -> Any:
        """Forward pass, backward pass, update; the loss, still on the GPU."""
        loss = self.model(**self.batch, use_cache=False).loss
        loss.backward()
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    def first_step(self) -> dict[str, float]:
        """A step whose results are compared among the ways: loss, norm of one gradient of the first layer."""
        norms: list[Any] = []
        watched = self.model.model.layers[0].self_attn.q_proj.weight
        hook: Any = watched.register_hook(lambda gradient: norms.append(gradient.float().norm()))
        loss = self.step()
        hook.remove()
        return {"loss": float(loss), "gradient_norm": float(norms[0])}


Step = Callable[[], Any]
