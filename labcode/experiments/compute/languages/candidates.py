"""One matmul and one attention in several languages: tensors in; for each language calls to be timed, out.

CUDA C++ (``cuda/gemm``, ``cuda/attention``: the last steps of the ladders), Triton, TileLang, cuTile;
PyTorch's libraries beside them. A language that is not there is a `ToolError`.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labcode.errors import ToolError
from labcode.experiments.compute.attention import steps as attention_steps
from labcode.experiments.compute.languages.code_lines import cuda_lines, python_lines
from labcode.kernels import launch as launching
from labcode.kernels import mapped
from labcode.kernels.catalogue import Problem, entry
from labcode.kernels.launch import header_sources
from labcode.kernels.tensor_maps import Boxes, encode
from labcode.kernels.topics import attention as attention_topic
from labcode.kernels.topics import fp8, gemm
from labcode.store import repository_root

Call = Callable[[], object]
PACKAGES = {"cuda": "cupy", "triton": "triton", "tilelang": "tilelang", "cutile": "cuda-tile"}
MODULES = {
    "tilelang": ("labcode.kernels.tilelang_kernels", "tilelang"),
    "cutile": ("labcode.kernels.cutile_kernels", "'cuda-tile[tileiras]'"),
}
TILED: Mapping[
    tuple[str, str], Sequence[Mapping[str, Any]]
] = {  # what is tried of each language: tiles, and what else it lets one choose
    ("product", "cuda"): ({"step": "store"}, {"step": "alone"}),
    ("product", "triton"): ({"tile": "128 × 256 × 64", "warps": 8, "stages": 3},),
    ("product", "tilelang"): (
        {"tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 4, "threads": 256},
        {"tile_m": 256, "tile_n": 128, "tile_k": 64, "stages": 4, "threads": 256},
    ),
    ("product", "cutile"): (
        {"tile_m": 128, "tile_n": 256, "tile_k": 64},
        {"tile_m": 128, "tile_n": 128, "tile_k": 64},
    ),
    ("attention", "cuda"): ({"step": "ping_pong"}, {"step": "no_turns"}),
    ("attention", "triton"): ({"queries": 128, "keys": 128, "warps": 8, "stages": 2},),
    ("attention", "tilelang"): (
        {"queries": 128, "keys": 128, "stages": 2, "threads": 256},
        {"queries": 128, "keys": 64, "stages": 2, "threads": 256},
    ),
    ("attention", "cutile"): ({"queries": 128, "keys": 128}, {"queries": 128, "keys": 64}),
}


@dataclass(frozen=True)
class Candidate:
    """A configuration of a language's kernel, and a function that compiles it and gives the call."""

    language: str
    config: Mapping[str, Any]
    build: Callable[[], Call]


def module_of(language: str) -> Any:
    """The module with a language's kernels; a `ToolError` where the language is not there."""
    name, package = MODULES[language]
    try:
        return importlib.import_module(name)
    except Exception as error:  # some ask GPU and compiler when imported
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ToolError(
            f"{language}: cannot be imported here ({why}); `python -m pip install {package}`"
        ) from None


def version_of(language: str) -> str:
    """The version of a language's package; of CUDA C++ that of the compiler, NVRTC."""
    if language == "cuda":
        cupy = launching.import_cupy()
        return "NVRTC " + ".".join(str(x) for x in cupy.cuda.nvrtc.getVersion())
    try:
        return importlib.metadata.version(PACKAGES[language])
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def lines_of(task: str, language: str) -> int:
    """Lines of code of a task's kernel; in Python with those that check arguments and launch it."""
    root = repository_root()
    kernels = root / "labcode" / "kernels"
    if language == "cuda":
        header = "gemm/bf16.cuh" if task == "product" else attention_topic.TENSOR_HEADER
        texts = [path.read_text(encoding="utf-8") for path in header_sources(header)]
        return cuda_lines(texts, ["specialized"])
    if language == "triton":
        path, name = kernels / f"triton_{task}.py", task
    else:
        path, name = kernels / f"{language}_kernels.py", task
    roots = [name, "build"] if language == "tilelang" else [name]
    return python_lines(path.read_text(encoding="utf-8"), roots)


def products(torch: Any, language: str, a: Any, b: Any, out: Any) -> list[Candidate]:
    """Ways to fill ``out`` with a·b."""
    found = []
    for config in TILED["product", language]:
        given = dict(config)

        def build(given: Mapping[str, Any] = given) -> Call:
            if language == "cuda":
                return _cuda_product(str(given["step"]), a, b, out)
            if language == "triton":
                by_triton = importlib.import_module("labcode.kernels.triton_product").product
                return lambda: by_triton(a, b, out)
            module = module_of(language)
            if language == "cutile":
                return lambda: module.product(torch.cuda.current_stream(), a, b, out, **given)
            (m, k), n = a.shape, b.shape[1]
            kernel = module.build(module.product(m, n, k, **given))
            return lambda: kernel(a, b, out)

        found.append(Candidate(language, given, build))
    return found


def attentions(torch: Any, language: str, tensors: Sequence[Any], out: Any, causal: bool) -> list[Candidate]:
    """Ways to fill ``out`` with the attention of queries, keys, and values."""
    found = []
    for config in TILED["attention", language]:
        given = dict(config)

        def build(given: Mapping[str, Any] = given) -> Call:
            if language in ("cuda", "triton"):
                name = str(given.get("step", "triton"))
                one = attention_steps.IMPLEMENTATIONS[name]
                return attention_steps.call_of(torch, one, tensors, out, causal)
            module = module_of(language)
            if language == "cutile":
                return lambda: module.attention(torch.cuda.current_stream(), *tensors, out, causal, **given)
            kernel = module.build(module.attention(*out.shape, causal, **given))
            return lambda: kernel(*tensors, out)

        found.append(Candidate(language, given, build))
    return found


def _cuda_product(name: str, a: Any, b: Any, out: Any) -> Call:
    """A step of the bf16 ladder."""
    (m, k), n = a.shape, b.shape[1]
    problem, gpu = Problem((m, n, k), "bfloat16"), launching.this_gpu(out.device.index)
    mapped.require_hopper(name, gpu)
    step = next(one for one in gemm.BF16.steps if one.name == name)
    pairs = fp8.BOX_PAIRS
    boxes = ((a, (k, m), gemm.TILE_M), (b, (n, k), pairs), (out, (n, m), fp8.OUT_ROWS))
    arguments: list[Any] = [encode(x.data_ptr(), Boxes(sides, (pairs, rows))) for x, sides, rows in boxes]
    arguments += [mapped.pointer(out), *(ctypes.c_int(side) for side in (m, n, k, n))]
    return mapped.bind(
        gemm.BF16.header, entry(step, problem), step.launch(problem, gpu), arguments, (a, b, out)
    )
