"""Ways to compute attention's backward: a name and bf16 tensors (batch, heads, length, 128) in; a call, out.

The steps of ``cuda/backward``; PyTorch's attention (cuDNN, FlashAttention-2) and FlexAttention by autograd.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from labcode.errors import LabError
from labcode.kernels import launch as launching
from labcode.kernels import mapped
from labcode.kernels.catalogue import Gpu, Launch
from labcode.kernels.topics import attention_backward as topic

Call = Callable[[], object]
TORCH = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
KINDS: Mapping[str, str] = {
    **dict.fromkeys((*TORCH, "flex"), "library"),
    **dict.fromkeys(topic.PLANS, "step"),
}
GUARD = 512  # elements on either side of a gradient


@dataclass(frozen=True)
class Operands:
    """What the backward starts from. Keys and values may have fewer heads; ``log_sums``: a row each."""

    q: Any
    k: Any
    v: Any
    result: Any
    slope: Any
    log_sums: Any
    causal: bool

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Heads of the queries, heads of the keys, of all sequences together, and the length."""
        batch, heads, length, _ = self.q.shape
        return batch * heads, batch * self.k.shape[1], length


@dataclass(frozen=True)
class Gradients:
    """Where the gradients of Q, K and V go, and the memory around each, whose ends nobody may write."""

    of: tuple[Any, Any, Any]
    around: tuple[Any, Any, Any]

    def poison(self) -> None:
        """NaN everywhere."""
        for one in self.around:
            one.fill_(float("nan"))

    def wrong(self) -> str:
        """What is written outside or not written inside, or nothing."""
        for name, one, around in zip("QKV", self.of, self.around, strict=True):
            if bool((~around[:GUARD].isnan()).any()) or bool((~around[-GUARD:].isnan()).any()):
                return f"writes outside the gradient of {name}"
            if bool(one.isnan().any()):
                return f"the gradient of {name} has NaN or is not written"
        return ""


def gradients_like(torch: Any, given: Sequence[Any]) -> Gradients:
    """Places for the gradients of these tensors."""
    around = tuple(torch.empty(x.numel() + 2 * GUARD, dtype=x.dtype, device=x.device) for x in given)
    of = tuple(one[GUARD : GUARD + x.numel()].view(x.shape) for one, x in zip(around, given, strict=True))
    return Gradients((of[0], of[1], of[2]), (around[0], around[1], around[2]))


def check(name: str, given: Operands, to: Gradients) -> None:
    """Nothing, when the steps take these tensors; a `LabError` otherwise."""
    wide, narrow = [given.q, given.result, given.slope, to.of[0]], [given.k, given.v, *to.of[1:]]
    shapes = [tuple(x.shape) for x in (*wide, *narrow)]
    if any(len(shape) != 4 or 0 in shape for shape in shapes):
        raise LabError(f"{name}: shapes {sorted(set(shapes))}; give batch × heads × length × 128, none empty")
    if len({*shapes[:4]}) > 1 or len({*shapes[4:]}) > 1:
        raise LabError(f"{name}: shapes {shapes}; one for queries, another for keys and values")
    (batch, heads, length, dim), (kv_batch, kv_heads, kv_length, kv_dim) = shapes[0], shapes[4]
    if (batch, length, dim) != (kv_batch, kv_length, kv_dim):
        raise LabError(f"{name}: queries {shapes[0]}, keys {shapes[4]}; only their heads may differ")
    if dim != topic.DIM:
        raise LabError(f"{name}: takes heads of {topic.DIM} dimensions, not {dim}")
    if heads % kv_heads:
        raise LabError(f"{name}: {heads} heads cannot share {kv_heads}")
    if batch * heads > topic.MOST_HEADS:
        raise LabError(f"{name}: takes at most {topic.MOST_HEADS} heads, not {batch * heads}")
    if batch * heads * (length + 79) >= topic.MOST_ROWS:
        raise LabError(f"{name}: {batch * heads} heads of {length} rows; together fewer than 2²⁷")
    if any(str(x.dtype) != "torch.bfloat16" for x in (*wide, *narrow)):
        raise LabError(f"{name}: takes tensors of bfloat16")
    if str(given.log_sums.dtype) != "torch.float32" or tuple(given.log_sums.shape) != shapes[0][:3]:
        raise LabError(f"{name}: takes log_sums of float32, one a row of the queries")
    if any(not x.is_contiguous() for x in (*wide, *narrow, given.log_sums)):
        raise LabError(f"{name}: the elements must lie without gaps; call .contiguous()")
    if any(x.data_ptr() % 16 for x in (*wide, *narrow)):
        raise LabError(f"{name}: takes tensors that start on 16 bytes; copy them with .clone()")


def call_of(torch: Any, name: str, given: Operands, to: Gradients, plan: topic.Plan | None = None) -> Call:
    """A function that computes the gradients each time it is called, or returns them as PyTorch does.

    With a ``plan`` the step is that, whatever its name. `LabError` says what an implementation cannot take.
    """
    if plan is None and name not in KINDS:
        raise LabError(f"{name}: no such implementation; there are {', '.join(KINDS)}")
    check(name, given, to)
    if plan is None and KINDS[name] == "library":
        return _by_autograd(torch, name, given)
    gpu = launching.this_gpu(given.q.device.index)
    mapped.require_hopper(name, gpu)
    return _step_call(torch, plan or topic.PLANS[name], given, to)


def _by_autograd(torch: Any, name: str, given: Operands) -> Call:
    leaves = [x.detach().requires_grad_() for x in (given.q, given.k, given.v)]
    shares = given.q.shape[1] != given.k.shape[1]
    if name == "flex":
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        length, mask = given.q.shape[2], None
        if given.causal:
            mask = create_block_mask(_not_behind, None, None, length, length, device=str(given.q.device))
        out = torch.compile(flex_attention, dynamic=False)(*leaves, block_mask=mask, enable_gqa=shares)
    else:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend = torch.nn.functional.scaled_dot_product_attention
        with sdpa_kernel(getattr(SDPBackend, TORCH[name])):
            out = attend(*leaves, is_causal=given.causal, enable_gqa=shares)
    return lambda: torch.autograd.grad(out, leaves, given.slope, retain_graph=True)


def _not_behind(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return query >= key


def _maps(tensors: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    flat = (x.view(-1, *x.shape[2:]) for x in tensors)
    return [mapped.boxes(x, box_rows) for x, box_rows in zip(flat, rows, strict=True)]


def expressions(plan: topic.Plan) -> list[str]:
    """The kernels that a plan launches, in order."""
    found = [f"{topic.NAMESPACE}::prepare", f"{topic.NAMESPACE}::one_pass<{plan.expression}>"]
    if plan.adding == "kNone":
        return [*found, f"{topic.NAMESPACE}::of_rows<false>"]
    turned = str(plan.turned).lower()
    return [*found, f"{topic.NAMESPACE}::finish<{plan.queries}, {turned}>"]


def _step_call(torch: Any, plan: topic.Plan, given: Operands, to: Gradients) -> Call:
    heads, kv_heads, length = given.sizes
    padded, adds = plan.padded(length), plan.adding != "kNone"
    empty = {"device": given.q.device, "dtype": torch.float32}
    logs, means = (torch.empty(heads * padded, **empty) for _ in range(2))
    sums = torch.empty(heads * padded * topic.DIM, **empty) if adds else None
    turns = torch.empty(heads * padded, dtype=torch.int32, device=given.q.device) if adds else None
    at, none, number = mapped.pointer, ctypes.c_uint64(0), ctypes.c_int
    at_sums, at_turns = (none if x is None else at(x) for x in (sums, turns))
    inputs = (given.q, given.k, given.v, given.slope)
    sides = (plan.queries, topic.KEYS, topic.KEYS, plan.queries)
    group, causal = number(heads // kv_heads), number(given.causal)
    before = [at(given.result), at(given.slope), at(given.log_sums), at(logs), at(means), at_sums, at_turns]
    keys = [*_maps(inputs, sides), at(logs), at(means), at_sums, at_turns, at(to.of[1]), at(to.of[2])]
    launches: list[tuple[Launch, list[Any]]] = [
        (topic.prepare_launch(heads, padded), [*before, number(length), number(padded), number(heads)]),
        (topic.keys_launch(plan, kv_heads, length), [*keys, number(length), group, causal]),
    ]
    if adds:
        last = [at_sums, at(to.of[0]), number(length), number(padded)]
        launches.append((topic.finish_launch(heads, length), last))
    else:
        sides = (topic.ROWS, topic.ROW_KEYS, topic.ROW_KEYS, topic.ROWS)
        last = [*_maps(inputs, sides), at(logs), at(means), at(to.of[0]), none]
        last += [number(length), number(padded), group, causal]
        launches.append((topic.rows_launch(heads, length), last))
    keep = (given, to, logs, means, sums, turns)
    calls = [
        mapped.bind(topic.HEADER, expression, sizes, arguments, keep, given.q.device.index)
        for expression, (sizes, arguments) in zip(expressions(plan), launches, strict=True)
    ]

    def call() -> None:
        for one in calls:
            one()

    return call


def log_sums_call(torch: Any, q: Any, k: Any, to: Any, causal: bool) -> Call:
    """A function that fills ``to``, fp32, with the logarithm of the sum of each row's exponentials."""
    batch, heads, length, _ = q.shape
    sides = (topic.ROWS, topic.ROW_KEYS, topic.ROW_KEYS, topic.ROWS)
    none, number = ctypes.c_uint64(0), ctypes.c_int
    arguments = [*_maps((q, k, k, q), sides), none, none, none, mapped.pointer(to), number(length), number(0)]
    arguments += [number(heads // k.shape[1]), number(causal)]
    sizes = topic.rows_launch(batch * heads, length)
    return mapped.bind(
        topic.HEADER, f"{topic.NAMESPACE}::of_rows<true>", sizes, arguments, (q, k, to), q.device.index
    )


def compile_all(plans: Sequence[topic.Plan], gpu: Gpu) -> None:
    """Compile what will be launched, in several processes; a failure is left to the launch."""
    if gpu.compute_capability // 10 != 9:
        return
    wanted = {name for plan in plans for name in expressions(plan)} | {f"{topic.NAMESPACE}::of_rows<true>"}
    with ProcessPoolExecutor(min(16, len(wanted)), mp_context=get_context("spawn")) as pool:
        for future in [
            pool.submit(launching.compile_cubin, topic.HEADER, [name], gpu.compute_capability)
            for name in sorted(wanted)
        ]:
            future.exception()
