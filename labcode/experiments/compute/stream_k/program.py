"""Split-K and Stream-K beside cuBLAS, on thin and odd shapes: a shape in, a table and a JSON record out.

python -m labcode.workloads.stream_k --variant thin_64
python -m labcode.workloads.stream_k --variant any --m 33 --n 65 --k 4096
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.grouped import products
from labcode.experiments.compute.stream_k.early import bind_early
from labcode.experiments.serving.paged_decode.program import recorded
from labcode.experiments.shared import common
from labcode.experiments.shared.kernel_times import reader, take_turns
from labcode.kernels import mapped
from labcode.kernels.catalogue import Gpu, Launch, Problem, entry
from labcode.kernels.launch import this_gpu
from labcode.kernels.topics import stream_k as topic

PROGRAM = "stream_k"
VARIANTS = ("all", *topic.SHAPES, "any")
REPETITIONS = 20
CHECKED_ROWS = 128
ALLOWED = topic.STREAM_K.tolerance["bfloat16"]
EXACT = 1e-9  # an error that is none


@dataclass(frozen=True)
class Operands:
    """A (m × k), B (k × n) and where C goes, which lies between two guards."""

    a: Any
    b: Any
    c: Any

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n, k."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]


class _Rest(ctypes.Structure):
    """``Rest`` in the header: the matrices, their sides, and how much of C has tiles."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("a", "b", "c")),
        *((name, ctypes.c_int) for name in ("m", "n", "k", "lda", "ldb", "ldc", "rows", "columns")),
    )


def call_of(torch: Any, name: str, given: Operands, gpu: Gpu) -> products.Call:
    """A function that computes C by a step each time it is called; a `LabError` says what it cannot take.

    Rows that do not start on 16 bytes are packed first, each time, into buffers that this function makes.
    """
    check(name, given)
    mapped.require_hopper(name, gpu)
    m, n, k = given.shape
    problem, step = Problem((m, n, k), "bfloat16"), topic.STREAM_K.step(name)
    plan = topic.plan(name, problem.shape, gpu.sm_count)
    a, b, packing = _packed(torch, given)
    sizes, fields = step.launch(problem, gpu), (ctypes.c_int * len(plan.fields))(*plan.fields)
    maps = [mapped.boxes(a, topic.FEW_ROWS if plan.low else topic.HALF), mapped.boxes(b, topic.DEPTH)]
    if plan.way.cut in ("parts", "pairs"):
        sums = torch.empty((plan.parts, m, n), dtype=torch.float32, device=a.device)
        arguments = [*maps, fields, mapped.pointer(sums), ctypes.c_int(plan.cuts)]
        threads = Launch(ceil(m * n / (4 * topic.ADD_THREADS)), topic.ADD_THREADS)
        whole = (ctypes.c_int(m), ctypes.c_int(n), ctypes.c_int(n), ctypes.c_int(plan.parts))
        second = [mapped.pointer(sums), mapped.pointer(given.c), *whole]
        calls = [
            mapped.bind(topic.HEADER, entry(step, problem), sizes, arguments, (a, b, sums)),
            bind_early(
                topic.HEADER,
                f"{topic.NAMESPACE}::add_parts",
                ceil(m * n / (4 * topic.ADD_THREADS)),
                topic.ADD_THREADS,
                second,
                (sums, given.c),
            )
            if plan.way.early
            else mapped.bind(topic.HEADER, f"{topic.NAMESPACE}::add_parts", threads, second, (sums, given.c)),
        ]
    elif plan.way.few:
        map_c = mapped.boxes(given.c, topic.HALF) if n % 8 == 0 else (ctypes.c_uint64 * 16)()
        sides = (m, n, k, a.stride(0), b.stride(0), n, plan.m, plan.n)
        rest = _Rest(*(x.data_ptr() for x in (a, b, given.c)), *sides)
        arguments, kept = [*maps, map_c, fields, rest], [a, b, given.c]
        if plan.way.few == "along":
            order = torch.tensor(plan.order(n > plan.n, m > plan.m), dtype=torch.int32, device=a.device)
            arguments = [*maps, map_c, mapped.boxes(a, topic.FEW), _few_columns(b)]
            arguments += [fields, rest, mapped.pointer(order)]
            kept.append(order)
        calls = [mapped.bind(topic.HEADER, entry(step, problem), sizes, arguments, kept)]
    elif plan.way.cut == "halves":
        rows, deep, _ = plan.halves
        arguments = [mapped.boxes(a, rows), mapped.boxes(b, deep * topic.DEPTH), mapped.pointer(given.c)]
        arguments += [ctypes.c_int(side) for side in problem.shape]
        calls = [mapped.bind(topic.HEADER, entry(step, problem), sizes, arguments, (a, b, given.c))]
    elif plan.way.cut == "cluster":
        arguments = [*maps, fields, mapped.pointer(given.c), ctypes.c_int(n)]
        calls = [mapped.bind(topic.HEADER, entry(step, problem), sizes, arguments, (a, b, given.c))]
    else:  # each warp of a block has a flag; of `joint`, each tile that is cut, of which no more are there
        blocks = plan.clusters * plan.way.blocks
        sums = torch.empty(blocks * topic.TALL * topic.WIDE, dtype=torch.float32, device=a.device)
        flags = torch.zeros(blocks * topic.WARPS, dtype=torch.int32, device=a.device)
        map_c = mapped.boxes(given.c, topic.HALF) if n % 8 == 0 else (ctypes.c_uint64 * 16)()
        arguments = [*maps, map_c, fields, mapped.pointer(given.c), mapped.pointer(sums)]
        arguments += [mapped.pointer(flags), ctypes.c_int(n), ctypes.c_int(plan.whole)]
        arguments += [ctypes.c_int(plan.cuts)] if plan.way.cut == "joint" else []
        keep = (a, b, given.c, sums, flags)
        calls = [mapped.bind(topic.HEADER, entry(step, problem), sizes, arguments, keep)]
    calls = [*packing, *calls]
    if len(calls) == 1:
        return calls[0]

    def call() -> None:
        for one in calls:
            one()

    return call


def _few_columns(matrix: Any) -> ctypes.Array[Any]:
    """The map of a matrix of 2-byte elements in boxes of 64 rows of eight, without a swizzle."""
    make = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    storage = (ctypes.c_uint64 * 24)()
    made = (ctypes.c_uint64 * 16).from_buffer(storage, -ctypes.addressof(storage) % 64)
    rows, columns = matrix.shape
    sides, pitch = (ctypes.c_uint64 * 2)(columns, rows), (ctypes.c_uint64 * 1)(2 * columns)
    box, steps = (ctypes.c_uint32 * 2)(topic.FEW, topic.DEPTH), (ctypes.c_uint32 * 2)(1, 1)
    start, rank = ctypes.c_void_p(matrix.data_ptr()), ctypes.c_uint32(2)
    code = make(
        ctypes.byref(made), 9, rank, start, sides, pitch, box, steps, 0, 0, 3, 0
    )  # bf16, L2: 256 bytes
    if code != 0:
        raise LabError(
            f"no tensor map of sides {columns}, {rows} in boxes of eight columns (CUDA error {code})"
        )
    return made


def check(name: str, given: Operands) -> None:
    """Nothing, when a step can take these tensors; a `LabError` otherwise."""
    sides = [tuple(x.shape) for x in (given.a, given.b, given.c)]
    if any(len(one) != 2 or 0 in one for one in sides):
        raise LabError(f"{name}: shapes {sides}; give matrices, none empty")
    m, n, k = given.shape
    if sides[1][0] != k or sides[2] != (m, n):
        raise LabError(f"{name}: shapes {sides} do not fit: (m, k), (k, n) and (m, n) are wanted")
    for one in (given.a, given.b, given.c):
        if str(one.dtype) != "torch.bfloat16":
            raise LabError(f"{name}: takes bfloat16, not {str(one.dtype).removeprefix('torch.')}")
        if not one.is_contiguous():
            raise LabError(f"{name}: the elements must lie without gaps; call .contiguous()")
    if not all(one.is_cuda for one in (given.a, given.b, given.c)):
        raise LabError(f"{name}: the matrices must lie on one GPU; move them with .cuda()")
    if n % 8 == 0 and given.c.data_ptr() % 16:
        raise LabError(f"{name}: C must start on 16 bytes; make it by torch.empty")
    tiles = ceil(m / topic.TALL) * ceil(n / topic.WIDE) * ceil(k / topic.DEPTH)
    if tiles >= 1 << 31:
        raise LabError(f"{name}: {m} × {n} × {k} has more than 2³¹ stages")


def _packed(torch: Any, given: Operands) -> tuple[Any, Any, list[products.Call]]:
    """A and B as the copy engine takes them, and what has to be called before each use."""
    a, b = given.a, given.b
    if all(x.data_ptr() % 16 == 0 and x.shape[1] % 8 == 0 for x in (a, b)):
        return a, b, []
    wide = [ceil(x.shape[1] / topic.PITCH) * topic.PITCH for x in (a, b)]
    to = [
        torch.zeros((x.shape[0], pitch), dtype=x.dtype, device=x.device)
        for x, pitch in zip((a, b), wide, strict=True)
    ]
    threads = sum(x.shape[0] * ceil(x.shape[1] / 8) for x in (a, b))
    arguments: list[Any] = []
    for x, packed, pitch in zip((a, b), to, wide, strict=True):
        arguments += [mapped.pointer(x), mapped.pointer(packed)]
        arguments += [ctypes.c_int(side) for side in (*x.shape, pitch)]
    sizes = Launch(ceil(threads / topic.PACK_THREADS), topic.PACK_THREADS)
    call = mapped.bind(topic.HEADER, f"{topic.NAMESPACE}::pack", sizes, arguments, (a, b, to))
    return to[0], to[1], [call]


def operands(torch: Any, shape: tuple[int, int, int], seed: int, special: bool) -> tuple[Operands, Any]:
    """Random matrices; the memory around C, to see what is written outside."""
    m, n, k = shape
    needed = 2 * (m * k + k * n + m * n) * 2 + 4 * m * n * (topic.MOST_CUTS + 2)
    common.require_memory(torch, needed + (1 << 29), "choose smaller --m, --n, --k")
    generator = torch.Generator(device="cuda").manual_seed(seed)
    sides = ((m, k), (k, n))
    a, b = (torch.randn(side, generator=generator, device="cuda").to(torch.bfloat16) for side in sides)
    if special:  # in one row of C, which is compared
        a[m - 1, k // 3] = float("nan")
        a[0, k // 2] = float("inf")
    c, around = products.guarded(torch, m, n)
    return Operands(a, b, c), around


def one_shape(
    torch: Any, shape: tuple[int, int, int], names: Sequence[str], options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, common.Check]]:
    """What the record holds of a shape, times and errors; and whether cuBLAS and the steps were right."""
    m, n, k = shape
    given, around = operands(torch, shape, options.seed, options.values == "special")
    gpu = this_gpu(torch.cuda.current_device())
    rows = torch.arange(0, m, max(1, m // CHECKED_ROWS), device="cuda")
    rows[-1] = m - 1
    expected = given.a[rows].double() @ given.b.double()
    calls: dict[str, products.Call] = {"cublas": lambda: torch.matmul(given.a, given.b, out=given.c)}
    calls |= {name: call_of(torch, name, given, gpu) for name in names}
    errors, checks = dict[str, float](), dict[str, common.Check]()
    for name, call in calls.items():
        allowed = min(ALLOWED, products.LIBRARY_TIMES * errors.get("cublas", ALLOWED) + EXACT)
        errors[name], checks[name] = products.checked(torch, call, given.c, around, rows, expected, allowed)
    if options.marked:
        products.marked(torch, calls)
        return {}, checks
    packing = _packed(torch, given)[2]
    calls |= {"pack": packing[0]} if packing else {}
    graphs = [recorded(torch, call) for call in calls.values()]  # none waits for the host
    times = take_turns(torch, graphs, reader(torch, gpu), options.repetitions)
    print(f"{gpu.name}: {m} x {n} x {k}")
    timed = dict(zip(calls, times, strict=True))
    return products.results_of(timed, errors, 2 * m * n * k, 2 * (m * k + k * n + m * n)), checks


def main(arguments: Sequence[str]) -> int:
    """Check and time all steps and cuBLAS on the same random matrices; 0 when every result was right."""
    parser = common.parser(PROGRAM, "Times split-K and Stream-K beside cuBLAS, in turns.", VARIANTS)
    for side in ("m", "n", "k"):
        parser.add_argument(f"--{side}", type=common.whole(1, 1 << 20), default=1000, help="of variant any")
    parser.add_argument("--steps", default="", help="by commas (default: all)")
    parser.add_argument("--values", choices=("normal", "special"), default="normal")
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=REPETITIONS)
    parser.add_argument("--seed", type=common.whole(0, 2**31), default=1)
    parser.add_argument("--marked", action="store_true", help="one launch of each for ncu, none timed")
    options = parser.parse_args(arguments)
    names = options.steps.split(",") if options.steps else [step.name for step in topic.STREAM_K.steps]
    for name in names:
        topic.STREAM_K.step(name)
    torch = common.import_torch()
    common.require_gpus(torch)
    given = {**topic.SHAPES, "any": (options.m, options.n, options.k)}
    chosen = list(topic.SHAPES) if options.variant == "all" else [options.variant]
    results, checks = dict[str, Any](), dict[str, common.Check]()
    for shape in chosen:
        found, right = one_shape(torch, given[shape], names, options)
        results[shape] = found
        checks |= {f"{shape}, {name}": check for name, check in right.items()}
        torch.cuda.empty_cache()
    record = common.Record(
        PROGRAM,
        options.variant,
        common.parameters_of(options) | {"shapes": {shape: list(given[shape]) for shape in chosen}},
        results,
        checks,
        common.gpu_info(torch, torch.device("cuda", torch.cuda.current_device())),
    )
    return common.finish(record, options.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
