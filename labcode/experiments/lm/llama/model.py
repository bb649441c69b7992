"""The Llama as `transformers` builds it: a configuration in; a model with random weights, its batch out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from labcode.errors import ToolError
from labcode.experiments.lm.llama.expected import CONFIGS, DOCUMENTS
from labcode.experiments.shared.common import Check

if TYPE_CHECKING:
    import torch

NEAR = 5e-2  # what loss and gradient of two ways may differ by, relative: bf16 through all layers
NO_LOSS = -100  # of a label: not to be predicted
SEED = 1


def import_transformers() -> Any:
    """`transformers`, or a `ToolError` that says how to get it."""
    try:
        import transformers
    except ImportError as error:
        raise ToolError(
            f"this workload needs transformers, which cannot be imported here ({error}); "
            "install the package transformers"
        ) from None
    transformers.logging.set_verbosity_error()
    return transformers


def grow_segments() -> None:
    """Have PyTorch's allocator grow its segments: of almost all memory in use, little may lie idle between
    blocks. To be called before PyTorch is imported.
    """
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")


def make_model(name: str, attention: str, device: torch.device, dtype: torch.dtype) -> Any:
    """A model of a configuration of `CONFIGS`; the same random weights at each call, nothing is loaded."""
    import torch

    transformers, config = import_transformers(), CONFIGS[name]
    described = transformers.LlamaConfig(
        hidden_size=config.width,
        intermediate_size=config.inner,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        vocab_size=config.vocabulary,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        tie_word_embeddings=False,
        attn_implementation=attention,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(SEED)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            return transformers.LlamaForCausalLM(described)
    finally:
        torch.set_default_dtype(before)


def documents_of(name: str) -> tuple[int, ...]:
    """Tokens of each document of a sequence; few for the configuration of tests."""
    return DOCUMENTS if name != "tiny" else tuple(n // 32 for n in DOCUMENTS)


def packed_batch(name: str, device: torch.device, seed: int = SEED) -> dict[str, Any]:
    """Random documents packed into one sequence, as the model takes them: positions begin anew with each.

    From these positions `transformers` tells the documents apart and masks attention between them.
    """
    import torch

    lengths = documents_of(name)
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(CONFIGS[name].vocabulary, (1, sum(lengths)), generator=draw)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    labels = tokens.masked_fill(positions == 0, NO_LOSS)  # no document says how the next one begins
    batch = {"input_ids": tokens, "position_ids": positions, "labels": labels}
    return {key: value.to(device) for key, value in batch.items()}


def compile_layers(model: Any) -> None:
    """`torch.compile` of each layer: one compilation serves all, since their code is the same."""
    import torch

    for layer in model.model.layers:
        layer.forward = torch.compile(layer.forward)


def checkpoint_layers(model: Any, count: int) -> None:
    """Keep of the first ``count`` layers only their input; the backward pass computes them again."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for index, layer in enumerate(model.model.layers):
        layer.gradient_checkpointing = index < count
    model.train()


def alike(ways: dict[str, dict[str, Any]]) -> dict[str, Check]:
    """Whether all ways had the loss and the gradient of the first one."""
    checks = {}
    for key in ("loss", "gradient_norm"):
        values = [found[key] for found in ways.values()]
        apart = max((abs(value / values[0] - 1) for value in values), default=float("nan"))
        checks[f"{key}_alike"] = Check(
            apart <= NEAR, f"of {len(values)} ways, largest difference {apart:.1e}"
        )
    return checks
