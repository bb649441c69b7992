"""The experiments on serving: nothing in, the catalogue's records of them out."""

from __future__ import annotations

from labcode.capture.experiments.record import Experiment, workloads
from labcode.capture.experiments.record import variant_run as _run

_NEEDS = ("torch",)
_SHARED = (
    "labcode/analysis/lm/decoder.py",
    "labcode/timing.py",
    *(f"labcode/workloads/shared/common.py:{name}" for name in ("nvtx_range", "synchronize")),
)
_RUNG = ("model", "cache", "ladder", "fused", "kernels")  # what decodes at batch 1
_STREAMED = ("labcode/workloads/inference/streamed.py", "cuda/decode/*.cuh", "cuda/common/rows.cuh")
_MODULE = "labcode.workloads.inference"


def _own(*names: str) -> tuple[str, ...]:
    return tuple(f"labcode/workloads/inference/{name}.py" for name in names)


INFERENCE_EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        id="inference_ladder",
        title="A token of the 2.7B model at batch 1: from a plain loop to fused kernels and 8-bit weights",
        tool="power",
        module=_MODULE,
        runs=(_run("record", "--seconds", "0.8", "--skip", "behind,compiled", variant="ladder"),),
        sources=(*_own(*_RUNG, "quantize", "runners"), *_STREAMED, *workloads("windows"), *_SHARED),
        needs=(*_NEEDS, "pynvml", "cupy"),
        needs_gb=30,
        host_bound=True,
    ),
    Experiment(
        id="inference_text",
        title="A small model trained on the book: what 8-bit weights cost, and what guesses save",
        tool="bench",
        module=_MODULE,
        runs=(_run("record", variant="text"),),
        sources=(
            *_own(
                "model", "cache", "quantize", "text", "tokens", "speculate", "verifier", "fused", "runners"
            ),
            *workloads("transformer_model"),
            *_SHARED,
        ),
        needs=_NEEDS,
        host_bound=True,
    ),
    Experiment(
        id="inference_load",
        title="Requests at random times: a plain pipeline, and one with slots, pages and graphs",
        tool="bench",
        module=_MODULE,
        runs=(_run("record", "--load-seconds", "6", "--most", "3000", variant="load"),),
        sources=(
            *_own("model", "cache", "engine", "runners", "requests", "load", "fused", "kernels"),
            *_SHARED,
        ),
        needs=_NEEDS,
        host_bound=True,
    ),
    Experiment(
        id="inference_timeline",
        title="A few tokens of the 2.7B model under Nsight Systems: the plain loop, one graph, one kernel",
        tool="nsys",
        module=_MODULE,
        runs=(
            _run("slow", "--tokens", "4"),
            _run("fast", "--tokens", "8", tool_args=("--cuda-graph-trace=node",)),
            _run("streamed", "--tokens", "8", clean=False),
        ),
        sources=(*_own(*_RUNG), *_STREAMED, *_SHARED),
        needs=(*_NEEDS, "cupy"),
        needs_gb=30,
        host_bound=True,
    ),
)
