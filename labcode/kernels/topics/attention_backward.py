"""Attention's backward on tensor cores (``cuda/backward``): from the result's gradient those of Q, K, V.

A problem is (heads, length, 128), heads counting those of all sequences of a batch; fewer heads of keys and
values may serve them in groups. ``labcode.workloads.attention_backward`` launches, checks and times the steps
beside PyTorch's; ``predicted`` is the share of the rate of cuDNN's backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcode.errors import LabError
from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, numbers

HEADER = "backward/backward.cuh"
NAMESPACE = "lab::backward"
PROGRAM = "«python -m labcode.workloads.attention_backward benchmark»"

_OF = numbers(HEADER)
DIM, KEYS, THREADS, ROW_THREADS = _OF["kDim"], _OF["kKeys"], _OF["kBlockThreads"], _OF["kRowThreads"]
GROUPS, SLOTS, STAGES, ALIGNMENT = _OF["kGroups"], _OF["kSlots"], 2, 1024
ROWS, ROW_KEYS = 64 * GROUPS, 64  # queries of a block and keys of a tile, where Q has a pass of its own
MOST_HEADS, MOST_ROWS = 65535, 1 << 27  # of all heads together: sums of Q are counted in 32 bits
PRODUCTS = 5
ORDERS, ADDINGS = ("kOneByOne", "kTogether", "kAhead"), ("kNone", "kThreads", "kBulk", "kOrdered")


@dataclass(frozen=True)
class Plan:
    """The template arguments of a step, as in the header."""

    queries: int
    order: str
    adding: str
    held: bool = True
    narrow: bool = False
    turned: bool = False

    @property
    def expression(self) -> str:
        """The C++ type."""
        flags = ", ".join(str(flag).lower() for flag in (self.held, self.narrow, self.turned))
        how = f"{NAMESPACE}::{self.order}, {NAMESPACE}::{self.adding}"
        return f"{NAMESPACE}::Plan<{self.queries}, {how}, {flags}>"

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        tile, staged = self.queries * DIM * 2, self.adding in ("kBulk", "kOrdered")
        sums = self.queries * DIM * 4 if staged else 0
        rows = STAGES * 2 * self.queries * 4
        return 2 * KEYS * DIM * 2 + (STAGES * 2 + SLOTS) * tile + rows + sums + ALIGNMENT

    def padded(self, length: int) -> int:
        """Rows of a head, whole tiles."""
        return math.ceil(length / self.queries) * self.queries


def plan_of(text: str) -> Plan:
    """A plan from its template arguments by commas; `LabError` for what is none."""
    words = text.replace(" ", "").split(",")
    flags = {"true": True, "false": False}
    fits = len(words) == 6 and words[1] in ORDERS and words[2] in ADDINGS and set(words[3:]) <= set(flags)
    if not fits or words[0] not in ("64", "80") or (words[0] == "80") > flags[words[5]]:
        raise LabError(
            f"{text!r}: no plan; give 64 or 80 queries, one of {'|'.join(ORDERS)}, "
            f"one of {'|'.join(ADDINGS)}, true or false for held, narrow, turned (true with 80), by commas"
        )
    return Plan(int(words[0]), words[1], words[2], *(flags[word] for word in words[3:]))


PLANS = {
    "two_passes": Plan(64, "kOneByOne", "kNone"),
    "one_pass": Plan(64, "kOneByOne", "kThreads"),
    "together": Plan(64, "kTogether", "kThreads"),
    "ahead": Plan(64, "kAhead", "kThreads", held=False, narrow=True),
    "bulk": Plan(64, "kAhead", "kBulk", held=False, narrow=True),
    "ordered": Plan(64, "kAhead", "kOrdered", held=False, narrow=True),
}


def prepare_launch(heads: int, padded: int) -> Launch:
    """A warp a row."""
    return Launch((math.ceil(padded / (ROW_THREADS // 32)), heads), ROW_THREADS)


def keys_launch(plan: Plan, kv_heads: int, length: int) -> Launch:
    """A block for 128 keys of a head of the keys."""
    return Launch((math.ceil(length / KEYS), kv_heads), THREADS, plan.shared_bytes)


def rows_launch(heads: int, length: int) -> Launch:
    """A block for 128 queries: their gradients by a pass of their own, or log_sums."""
    shared_bytes = (2 * ROWS + STAGES * 2 * ROW_KEYS) * DIM * 2 + ALIGNMENT
    return Launch((math.ceil(length / ROWS), heads), THREADS, shared_bytes)


def finish_launch(heads: int, length: int) -> Launch:
    """Eight dimensions a thread."""
    return Launch((math.ceil(length * (DIM // 8) / ROW_THREADS), heads), ROW_THREADS)


def flops(heads: int, length: int, causal: bool) -> int:
    """Of the five products; with a causal mask half."""
    return PRODUCTS * 2 * heads * length**2 * DIM // (2 if causal else 1)


def bytes_moved(heads: int, kv_heads: int, length: int) -> int:
    """The least: queries, result, its gradient, keys and values once, log_sums; three gradients written."""
    return length * ((4 * heads + 4 * kv_heads) * DIM * 2 + heads * 4)


def gradients(q: Any, k: Any, v: Any, slope: Any, causal: bool = False) -> tuple[Any, Any, Any]:
    """Of Q, K and V, by the definition, of NumPy arrays (heads, length, dim); K and V may have fewer."""
    group = q.shape[0] // k.shape[0]
    keys, values = (np.repeat(x, group, axis=0) for x in (k, v))
    scores = q @ keys.transpose(0, 2, 1) / math.sqrt(q.shape[2])
    if causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -math.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    along = slope @ values.transpose(0, 2, 1)
    terms = weights * (along - (weights * along).sum(axis=2, keepdims=True)) / math.sqrt(q.shape[2])

    def grouped(x: Any) -> Any:
        return x.reshape(k.shape[0], group, *x.shape[1:]).sum(axis=1)

    of_k, of_v = (grouped(one.transpose(0, 2, 1) @ other) for one, other in ((terms, q), (weights, slope)))
    return terms @ keys, of_k, of_v


def _launch(name: str) -> Callable[[Problem, Gpu], Launch]:
    return lambda problem, gpu: keys_launch(PLANS[name], problem.shape[0], problem.shape[1])


def _step(name: str, reason: str, predicted: float | None = None) -> Step:
    return Step(
        name,
        reason,
        f"{NAMESPACE}::one_pass<{PLANS[name].expression}>",
        _launch(name),
        min_cc=90,
        predicted=predicted,
        unfit=lambda problem: f"takes tensor maps; {PROGRAM} launches, checks and times this step",
    )


STEPS = (
    _step(
        "two_passes",
        "Gradients of K and V by blocks of keys, those of Q by blocks of queries that make the scores again: "
        "seven products for five, each waited for. Nothing is added up in memory, so every run gives the "
        "same bits.",
        0.4,
    ),
    _step(
        "one_pass",
        "A block of keys adds its part of the gradient of Q to memory in fp32: five products. That is 4 "
        "bytes of each of 128 dimensions a query, for each 128 keys: in the L2 cache, but not for nothing.",
        0.5,
    ),
    _step(
        "together",
        "Scores and the gradient of the weights are asked for at once; the product for V runs while the "
        "gradient of the scores is computed, that for K while the gradient of Q is added to memory.",
        0.7,
    ),
    _step(
        "ahead",
        "The next tile's scores are asked for before the last two products of this one: exponentials run "
        "beside tensor cores. Registers decide the rest: the gradient of the scores goes to both products "
        "through shared memory, and is computed from weights rounded to bf16.",
        0.85,
    ),
    _step(
        "bulk",
        "The copy engine adds to memory, from shared memory: a warp that multiplies nothing asks for it, and "
        "the others only store.",
        0.9,
    ),
    _step(
        "ordered",
        "Blocks add to a tile of Q in the order of their keys, so that every run gives the same bits: each "
        "waits for the one before. Without a mask all blocks of a head start with the same tile.",
    ),
)


def _kernel(name: str, title: str, causal: bool) -> Kernel:
    return Kernel(
        name,
        "attention_backward",
        title,
        HEADER,
        STEPS,
        inputs=lambda problem: (Array(problem.shape),) * 4,
        output=lambda problem: Array((3, *problem.shape)),
        scalars=lambda problem: (np.int32(problem.shape[1]), np.int32(causal)),
        reference=lambda q, k, v, slope: np.stack(gradients(q, k, v, slope, causal)),
        bytes_moved=lambda problem: bytes_moved(problem.shape[0], problem.shape[0], problem.shape[1]),
        flops=lambda problem: flops(problem.shape[0], problem.shape[1], causal),
        tolerance={"bfloat16": 8e-3},
        timed=(Problem((64, 8192, DIM), "bfloat16"),),
        checked=tuple(Problem((3, length, DIM), "bfloat16") for length in (1, 33, 64, 129, 500)),
        ceiling="cuDNN's backward",
        values=("normal",),
    )


BACKWARD = _kernel("attention_backward", "Attention's backward, bf16", causal=False)
CAUSAL = _kernel(
    "attention_backward_causal", "Attention's backward, queries see no key behind them", causal=True
)
KERNELS = (BACKWARD, CAUSAL)
