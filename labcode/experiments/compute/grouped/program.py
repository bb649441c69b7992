"""Grouped matmul beside cuBLAS calls, PyTorch's and a dense one: a shape in, a table and a JSON record out.

python -m labcode.workloads.grouped --variant small
python -m labcode.workloads.grouped --variant any --rows 1000 --experts 16 --n 504 --k 200
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.grouped import products
from labcode.experiments.shared import common
from labcode.experiments.shared.kernel_times import reader, take_turns
from labcode.kernels import mapped
from labcode.kernels.catalogue import Gpu, Problem, entry
from labcode.kernels.launch import this_gpu
from labcode.kernels.topics import grouped as topic

PROGRAM = "grouped"
EVEN = "even"
VARIANTS = ("all", *topic.SHAPES, EVEN, "any")
REPETITIONS = 20
CHECKED_ROWS = 256
ALLOWED = topic.GROUPED.tolerance["bfloat16"]
EXACT = 1e-9  # an error that is none


@dataclass(frozen=True)
class Operands:
    """Tokens (rows × k), weights (experts × k × n), ends (experts), and where the output goes."""

    tokens: Any
    weights: Any
    ends: Any
    out: Any

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Rows, n, k, experts."""
        return (*self.out.shape, self.tokens.shape[1], self.weights.shape[0])


def call_of(torch: Any, name: str, given: Operands, gpu: Gpu) -> products.Call:
    """A function that computes the output by a step each time it is called; a `LabError` says why not."""
    check(name, given)
    mapped.require_hopper(name, gpu)
    problem, step = Problem(given.shape, "bfloat16"), topic.GROUPED.step(name)
    queue = torch.zeros(1, dtype=torch.int32, device=given.out.device)
    rows = (topic.HALF, topic.DEPTH, topic.HALF)
    arguments = [
        *(
            mapped.boxes(x, side)
            for x, side in zip((given.tokens, given.weights, given.out), rows, strict=True)
        ),
        *(mapped.pointer(x) for x in (given.out, given.ends, queue)),
        *(ctypes.c_int(int(x)) for x in (given.shape[3], given.shape[1], given.shape[2])),
    ]
    sizes = step.launch(problem, gpu)
    return mapped.bind(topic.HEADER, entry(step, problem), sizes, arguments, (given, queue))


def check(name: str, given: Operands) -> None:
    """Nothing, when a step can take these tensors; a `LabError` otherwise."""
    tensors = (given.tokens, given.weights, given.ends, given.out)
    sides = [tuple(x.shape) for x in tensors]
    if [len(one) for one in sides] != [2, 3, 1, 2] or any(0 in one for one in sides):
        raise LabError(f"{name}: shapes {sides}; give tokens (t, k), weights (e, k, n), ends (e), none empty")
    rows, n, k, experts = given.shape
    if sides != [(rows, k), (experts, k, n), (experts,), (rows, n)]:
        raise LabError(f"{name}: shapes {sides} do not fit: (t, k), (e, k, n), (e) and (t, n) are wanted")
    wanted = ("bfloat16", "bfloat16", "int32", "bfloat16")
    for what, one, kind in zip(("tokens", "weights", "ends", "the output"), tensors, wanted, strict=True):
        found = str(one.dtype).removeprefix("torch.")
        if found != kind:
            raise LabError(f"{name}: {what} of {kind}, not {found}")
        if not one.is_contiguous():
            raise LabError(f"{name}: {what} must lie without gaps; call .contiguous()")
    if not all(one.is_cuda for one in tensors):
        raise LabError(f"{name}: the tensors must lie on one GPU; move them with .cuda()")
    if experts > topic.MOST_EXPERTS:
        raise LabError(f"{name}: takes at most {topic.MOST_EXPERTS} experts, not {experts}")
    if n % 8 or k % 8 or any(x.data_ptr() % 16 for x in (given.tokens, given.weights, given.out)):
        raise LabError(f"{name}: n = {n} and k = {k} must be multiples of 8, and arrays start on 16 bytes")


def libraries(torch: Any, given: Operands, of: Sequence[int]) -> dict[str, products.Call]:
    """What the steps are held against, by name; "cublas" is one dense matmul of as many operations."""
    places = list(pairwise(accumulate(of, initial=0)))
    each = [
        (given.tokens[start:end], given.weights[expert], given.out[start:end])
        for expert, (start, end) in enumerate(places)
        if end > start
    ]

    def loop() -> None:
        for tokens, weights, out in each:
            torch.mm(tokens, weights, out=out)

    calls: dict[str, products.Call] = {
        "cublas": lambda: torch.mm(given.tokens, given.weights[0], out=given.out),
        "loop": loop,
    }
    graph = torch.cuda.CUDAGraph()
    loop()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        loop()
    calls["graph"] = graph.replay
    turned = given.weights.transpose(1, 2).contiguous().transpose(1, 2)
    for name, weights in (("grouped_mm", given.weights), ("grouped_mm_turned", turned)):

        def call(weights: Any = weights) -> Any:
            return torch._grouped_mm(given.tokens, weights, offs=given.ends)

        try:
            call()
            torch.cuda.synchronize()
        except (AttributeError, RuntimeError) as error:
            print(f"  without {name}: {str(error).splitlines()[0][:200]}")
            continue
        calls[name] = call
    return calls


def operands(
    torch: Any, shape: tuple[int, int, int, int], of: Sequence[int], seed: int, special: bool
) -> tuple[Operands, Any]:
    """Random tokens and weights; the memory around the output, to see what is written outside."""
    rows, n, k, experts = shape
    needed = 2 * (2 * rows * k + 4 * experts * k * n + 3 * rows * n)
    common.require_memory(torch, needed + (1 << 30), "choose smaller --rows, --experts, --n, --k")
    generator = torch.Generator(device="cuda").manual_seed(seed)
    tokens = torch.randn((rows, k), generator=generator, device="cuda").to(torch.bfloat16)
    weights = torch.empty((experts, k, n), dtype=torch.bfloat16, device="cuda")
    for one in weights:  # each for itself: in fp32 all together would take twice the memory
        one.copy_(torch.randn((k, n), generator=generator, device="cuda"))
    if special:
        tokens[rows // 2, k // 3], tokens[0, k // 2], tokens[rows - 1, 0] = float("nan"), float("inf"), 0.0
    ends = torch.tensor(list(accumulate(of)), dtype=torch.int32, device="cuda")
    out, around = products.guarded(torch, rows, n)
    return Operands(tokens, weights, ends, out), around


def reference(torch: Any, given: Operands, of: Sequence[int]) -> tuple[Any, Any]:
    """Some rows, the first and the last of each expert among them, and their output in float64."""
    rows, chosen, expected = given.shape[0], [], []
    apart = max(1, rows // CHECKED_ROWS)
    for expert, (start, end) in enumerate(pairwise(accumulate(of, initial=0))):
        if end == start:
            continue
        middle = {rows // 2} if start <= rows // 2 < end else set()  # which may be NaN
        mine = sorted({*range(start, end, apart), end - 1, *middle})
        chosen += mine
        expected.append(given.tokens[mine].double() @ given.weights[expert].double())
    return torch.tensor(chosen, device="cuda"), torch.cat(expected)


def one_shape(
    torch: Any, shape: tuple[int, int, int, int], even: bool, options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, common.Check]]:
    """What the record holds of a shape: times, errors, loads; and whether libraries and steps were right."""
    rows, n, k, experts = shape
    of = topic.loads(rows, experts, options.seed, even)
    given, around = operands(torch, shape, of, options.seed, options.values == "special")
    gpu = this_gpu(torch.cuda.current_device())
    chosen, expected = reference(torch, given, of)
    steps = {step.name: call_of(torch, step.name, given, gpu) for step in topic.GROUPED.steps}
    calls = libraries(torch, given, of) | steps
    errors, checks = dict[str, float](), dict[str, common.Check]()
    for name, call in calls.items():
        if name == "cublas":  # computes something else
            continue
        allowed = (
            ALLOWED if name not in steps else min(ALLOWED, products.LIBRARY_TIMES * errors["loop"] + EXACT)
        )
        errors[name], checks[name] = products.checked(
            torch, call, given.out, around, chosen, expected, allowed
        )
    if options.marked:
        products.marked(torch, {"cublas": calls["cublas"]} | steps)
        return {}, checks
    times = take_turns(torch, list(calls.values()), reader(torch, gpu), options.repetitions)
    print(f"{gpu.name}: {rows} rows of {k} to {n}, {experts} experts of {min(of)} to {max(of)} rows")
    moved = topic.weights_bytes(of, n, k) + 2 * rows * (n + k)
    timed = dict(zip(calls, times, strict=True))
    return {"loads": list(of)} | products.results_of(timed, errors, 2 * rows * n * k, moved), checks


def main(arguments: Sequence[str]) -> int:
    """Check and time all steps and libraries on the same random tensors; 0 when every result was right."""
    parser = common.parser(PROGRAM, "Times grouped matmul beside libraries, in turns.", VARIANTS)
    for side, default in (("rows", 1000), ("n", 504), ("k", 200), ("experts", 16)):
        parser.add_argument(
            f"--{side}", type=common.whole(1, 1 << 20), default=default, help="of variant any"
        )
    parser.add_argument("--values", choices=("normal", "special"), default="normal")
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=REPETITIONS)
    parser.add_argument("--seed", type=common.whole(0, 2**31), default=1)
    parser.add_argument("--marked", action="store_true", help="one launch of each for ncu, none timed")
    options = parser.parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    own = (options.rows, options.n, options.k, options.experts)
    given = {**topic.SHAPES, EVEN: topic.SHAPES["small"], "any": own}
    chosen = [*topic.SHAPES, EVEN] if options.variant == "all" else [options.variant]
    results, checks = dict[str, Any](), dict[str, common.Check]()
    for name in chosen:
        found, right = one_shape(torch, given[name], name == EVEN, options)
        results[name] = found
        checks |= {f"{name}, {call}": check for call, check in right.items()}
        torch.cuda.empty_cache()
    record = common.Record(
        PROGRAM,
        options.variant,
        common.parameters_of(options) | {"shapes": {name: list(given[name]) for name in chosen}},
        results,
        checks,
        common.gpu_info(torch, torch.device("cuda", torch.cuda.current_device())),
    )
    return common.finish(record, options.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
