"""The experiments on scaling from one GPU to many: nothing in, the catalogue's records of them out."""

from __future__ import annotations

from labcode.capture.experiments.record import Experiment, Run, workloads
from labcode.capture.experiments.record import variant_run as _run

_GROUP = (
    *workloads("group", "multi_gpu", "data_parallel"),
    *("labcode/workloads/shared/common.py:nvtx_range", "labcode/workloads/shared/common.py:synchronize"),
)
_TRAINING = (
    "labcode/workloads/scaling/training.py",
    *workloads("strategies", "gradients", "transformer_model"),
    "labcode/analysis/lm/decoder.py",
    *_GROUP,
)
_FEW_CTAS = ("--nccl-ctas", "8", "--strategies", "overlapped,bucketed")
_HIDING = (*workloads("hiding", "engines", "marks"), *_TRAINING)
_TWO_RANKS = ("--gpus", "2", "--counts", "2", "--size", "small", "--batch", "16", "--steps", "2")


def _bench(
    identifier: str, title: str, program: str, runs: tuple[Run, ...], sources: tuple[str, ...]
) -> Experiment:
    return Experiment(
        identifier,
        title,
        "bench",
        f"labcode.workloads.scaling.{program}",
        runs,
        sources,
        needs_gpus=2,
        needs=("torch",),
        host_bound=True,
    )


SCALING_EXPERIMENTS: tuple[Experiment, ...] = (
    _bench(
        "scaling_collectives",
        "All-reduce, all-gather and reduce-scatter by size on 2, 4 … GPUs",
        "collectives",
        (_run("sweep"),),
        (*workloads("collectives"), *_GROUP),
    ),
    _bench(
        "scaling_training",
        "Training steps of the medium model on 1, 2, 4 … GPUs: strong and weak scaling, seven strategies",
        "training",
        (
            _run("strong"),
            _run("weak"),
            _run("weak_few_ctas", *_FEW_CTAS, variant="weak"),
        ),
        _TRAINING,
    ),
    _bench(
        "scaling_overlap",
        "Training steps with gradients reduced in buckets: CTAs that NCCL may take, SMs that are kept",
        "overlap",
        (_run("bucketed"),),
        (*workloads("overlap", "marks"), *_TRAINING),
    ),
    _bench(
        "scaling_hiding",
        "Training steps with gradients summed by NCCL or by copy engines: what communication adds",
        "hiding",
        (_run("weak"),),
        _HIDING,
    ),
    _bench(
        "scaling_tensor",
        "A feed-forward network split over 1, 2, 4 … GPUs: activations gathered, or one all-reduce a pass",
        "tensor_parallel",
        (_run("both"),),
        (*workloads("tensor_parallel", "tensor_layers", "gradients"), *_GROUP),
    ),
    Experiment(
        id="scaling_timeline",
        title="Two ranks train in step: an all-reduce a parameter, after the backward pass or during it",
        tool="nsys",
        module="labcode.workloads.scaling.training",
        runs=tuple(
            _run(name, *_TWO_RANKS, "--strategies", name, variant="weak") for name in ("naive", "overlapped")
        ),
        sources=_TRAINING,
        needs_gpus=2,
        needs=("torch",),
        host_bound=True,
    ),
    Experiment(
        id="scaling_engines",
        title="Two ranks train in step: gradients summed by copy engines during the backward pass",
        tool="nsys",
        module="labcode.workloads.scaling.hiding",
        runs=(
            _run(
                "engines",
                *("--gpus", "2", "--counts", "2", "--size", "small", "--batches", "16", "--steps", "2"),
                *("--ways", "engines:12"),
                variant="weak",
            ),
        ),
        sources=_HIDING,
        needs_gpus=2,
        needs=("torch",),
        host_bound=True,
    ),
)
