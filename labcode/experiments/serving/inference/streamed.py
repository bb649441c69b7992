"""Decoding at batch 1 by one kernel: weights and a prompt in; the likeliest tokens out.

`cuda/decode/decode.cuh` has the kernel: every block keeps an SM for the whole token and fetches its rows of
all matrices ahead of their use, so that the memory works on while blocks wait for each other. That needs all
blocks on the GPU at once: CuPy launches the kernel cooperatively, which the driver refuses otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from labcode.errors import LabError
from labcode.experiments.serving.inference.fused import Fused
from labcode.experiments.serving.inference.model import Quantized, Weights
from labcode.kernels.launch import compile_cubin, import_cupy, this_gpu
from labcode.timing import event_times_us, spread

SLOTS = 40  # of the ring, a row each
UNDER_WAY = (6, 8, 10, 12, 16, 24, 40)  # rows of a block on their way at once that are worth a try
WARPS, SPLITS = 8, 4  # as in the header, as are those of `Streamed.shared_bytes`
THREADS = 32 * (WARPS + 1)


class Streamed(Fused):
    """As `Fused`, by one kernel a token.

    ``slots``: rows that a block asks for before it needs them; ``under_way``: those not there yet, at most.
    """

    def __init__(
        self,
        weights: Weights,
        capacity: int,
        *,
        prefill: Weights | None = None,
        slots: int = SLOTS,
        under_way: int = 12,
    ) -> None:
        super().__init__(weights, capacity, prefill=prefill)
        size, device = weights.size, weights.device
        self.cupy, self.blocks = import_cupy(), this_gpu(device.index or 0).sm_count
        if why := unfit(weights, self.blocks):
            raise LabError(f"one kernel a token: {why}")
        parts = size.heads * SPLITS
        self.words = torch.zeros(3 * size.d_model, dtype=torch.int32, device=device)
        self.parts = torch.zeros(parts * (size.d_head + 2), dtype=torch.int32, device=device)
        self.meetings = torch.zeros(2, dtype=torch.int32, device=device)
        self.best = torch.zeros(1, dtype=torch.int64, device=device)
        self.model = torch.tensor(self._words(), dtype=torch.int64, device=device)
        unit = 2 * size.d_model
        self.shared_bytes = slots * (unit + 16) + 4 * 320 + unit + 4 * (WARPS * (size.d_head + 2) + parts)
        name = f"lab::decode::token<{size.d_model}, {size.heads}, {size.layers}, {slots}>"
        self.kernel = cooperative(self.cupy, name, self.shared_bytes, device.index or 0)
        mine = (self.model, self.x, self.words, self.wide, self.parts, self.meetings)
        self.arguments = tuple(np.uint64(one.data_ptr()) for one in mine)
        self.slots, self.under_way = slots, under_way

    def _words(self) -> list[int]:
        """The header's Model: addresses, and two numbers."""
        weights, found = self.weights, []
        for layer in weights.layers:
            products = (layer.projections, layer.output, layer.widen, layer.narrow)
            found += [*products, *layer.norm_before_attention, *layer.norm_before_feed_forward]
        found += [*weights.norm, weights.to_logits, weights.tokens, weights.places]
        found += [self.pool.keys, self.pool.values, self.token, self.cache.lengths, self.said, self.logits]
        addresses = [one.data_ptr() for one in (*found, self.best)]
        return [*addresses, weights.size.vocabulary, self.pool.page]

    def capture(self) -> None:
        """One kernel needs no graph."""

    def launch(self) -> None:
        """As `Fused.launch`."""
        cupy, device = self.cupy.cuda, self.weights.device.index or 0
        stream = cupy.ExternalStream(torch.cuda.current_stream().cuda_stream, device)
        with cupy.Device(device), stream:
            arguments = (*self.arguments, np.uint32(min(self.under_way, self.slots)))
            self.kernel((self.blocks,), (THREADS,), arguments, shared_mem=self.shared_bytes)

    def tune(self, length: int) -> dict[str, float]:
        """Set ``under_way`` to the best that was tried; milliseconds of a token behind ``length`` by each."""
        tried: dict[int, float] = {}
        for self.under_way in sorted({min(one, self.slots) for one in UNDER_WAY}):
            self.cache.lengths.fill_(length)
            tried[self.under_way] = spread(event_times_us(self.launch, 12)).median / 1e3
        self.under_way = min(tried, key=lambda one: tried[one])
        return {str(one): round(ms, 4) for one, ms in tried.items()}


def cooperative(cupy: Any, name: str, shared_bytes: int, device: int) -> Any:
    """The kernel of this name, as CuPy launches it cooperatively: a block for each SM, all of them at once.

    `LabError` where an SM has no room for a block: the others would wait for it forever.
    """
    cubin, names = compile_cubin("decode/decode.cuh", [name], this_gpu(device).compute_capability)
    with cupy.cuda.Device(device):
        module = cupy.RawModule(path=str(cubin), enable_cooperative_groups=True)
        kernel = module.get_function(names[name])
        kernel.max_dynamic_shared_size_bytes = shared_bytes
        driver, address = cupy.cuda.driver, kernel.kernel.ptr
        if driver.occupancyMaxActiveBlocksPerMultiprocessor(address, THREADS, shared_bytes) < 1:
            raise LabError(
                f"one kernel a token: an SM has no room for a block of {THREADS} threads and "
                f"{shared_bytes:,} bytes of shared memory, and all must run at once; take fewer slots"
            )
    return kernel


def unfit(weights: Weights, blocks: int) -> str:
    """Why the kernel cannot take these weights on so many SMs; empty where it can."""
    size = weights.size
    if isinstance(weights.to_logits, Quantized) or weights.dtype != torch.bfloat16:
        return "its weights are bf16"
    if size.d_model % 512 or size.d_ff != 4 * size.d_model or size.d_head % 16 or size.d_head > 128:
        return "vectors must be multiples of 512, four times that inside; a head 16, 32, … or 128 wide"
    if size.heads % 2 or size.heads > 32 or size.layers < 2:
        return "it takes an even number of heads, at most 32, and two layers or more"
    if blocks < SPLITS * size.heads:
        return f"{SPLITS * size.heads} parts of heads need as many SMs, not {blocks}"
    if -(-size.d_ff // blocks) > 32 * WARPS or -(-size.vocabulary // blocks) > 320:
        return f"{blocks} SMs are too few for matrices of so many rows"
    return ""
