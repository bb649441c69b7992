"""The experiments on energy: programs that repeat work in windows, each run beside the power meter."""

from __future__ import annotations

from dataclasses import replace

from labcode.capture.experiments.record import CUDA, CUDA_SOURCES, Experiment, Run, workloads
from labcode.capture.experiments.record import variant_run as _run

_WINDOWS = (*workloads("windows"), "labcode/workloads/shared/common.py:synchronize")
_SECONDS = ("--seconds", "1.8", "--warmup", "0.25")  # 18 updates of the counter on an H100 or H200
_PERIODS = "20,100,102,200,400,1000"  # ms; 102: beside the period of the sensor
_FINE = ("--period-ms=5",)  # to see when the sensor is read anew


def _workload(*names: str) -> tuple[str, ...]:
    return tuple(f"labcode/workloads/energy/{name}.py" for name in names)


def _torch(
    name: str,
    title: str,
    runs: tuple[Run, ...],
    sources: tuple[str, ...],
    needs: tuple[str, ...] = (),
) -> Experiment:
    return Experiment(
        id=f"energy_{name}",
        title=title,
        tool="power",
        module=f"labcode.workloads.energy.{name}",
        runs=runs,
        sources=(*_workload(name), *_WINDOWS, *sources),
        needs=("torch", "pynvml", *needs),
        host_bound=True,  # the meter reads on the host, and all GPUs
    )


ENERGY_EXPERIMENTS: tuple[Experiment, ...] = (
    _torch(
        "matmul",
        "Joules of a matmul: three long windows, zeros, a constant, random data, precisions",
        (_run("record", *_SECONDS, "--settle", "2"),),
        (),
    ),
    _torch(
        "products",
        "Joules of matmuls and attention: sizes, operands, cuBLAS, both ends of this book's ladders",
        (_run("record", "--seconds", "2.2", "--warmup", "0.25", "--settle", "2"),),
        (
            *_workload("matmul", "ladders"),
            *workloads("attention_steps", "transformer_model", "marks"),
            *(f"labcode/kernels/{name}.py" for name in ("checking", "launch", "tensor_maps")),
            *(f"labcode/kernels/topics/{name}.py" for name in ("gemm", "attention")),
            *(f"cuda/gemm/{name}.cuh" for name in ("bf16", "fp32", "instructions", "layout")),
            *(f"cuda/attention/{name}.cuh" for name in ("attention", "tensor")),
            "cuda/common/rows.cuh",
        ),
        ("cupy",),
    ),
    Experiment(
        id="energy_kernels",
        title="Joules of memory traffic, multiply-adds and tensor cores, and of the same work at other paces",
        tool="power",
        module=CUDA,
        program="energy",
        runs=(_run("all", *_SECONDS),),
        sources=(
            *(f"cuda/energy/energy.{suffix}" for suffix in ("cu", "cuh")),
            *CUDA_SOURCES,
        ),
        needs=("nvcc", "pynvml"),
        host_bound=True,
    ),
    _torch(
        "sensor",
        "What the power sensor shows of a step and of square waves",
        (_run("record", "--seconds", "2.4", "--step", "1.5", "--periods", _PERIODS, tool_args=_FINE),),
        _workload("matmul"),
    ),
    _torch(
        "ladders",
        "Joules of the book's kernels: the first and the last step of each ladder",
        (_run("record", *_SECONDS),),
        (
            *workloads("transformer_model", "marks"),
            *(f"labcode/kernels/{name}.py" for name in ("catalogue", "checking", "launch", "row_kernels")),
            *(
                f"{folder}/{topic}{end}"
                for topic in (
                    *("memory_bandwidth", "transpose", "sum", "softmax", "rmsnorm"),
                    "optimization_loop",
                )
                for folder, end in (("labcode/kernels/topics", ".py"), (f"cuda/{topic}", ".cuh"))
            ),
            "cuda/common/rows.cuh",
        ),
        ("cupy",),
    ),
    _torch(
        "lm",
        "Joules of the language model: sizes and precisions, passes, batches, parts of a pass",
        (_run("record", "--seconds", "1.6", "--warmup", "0.25", "--part-seconds", "1.2"),),
        (*workloads("transformer_model", "transformer_steps", "marks"), "labcode/analysis/lm/decoder.py"),
    ),
    _torch(
        "ranges",
        "Phases under NVTX ranges, recorded by Nsight Systems and the power meter at once",
        (_run("phases", "--seconds", "1.2", variant="record"),),
        _workload("matmul", "sensor"),
        ("nsys",),
    ),
    replace(
        _torch(
            "ranges",
            "Phases that no page shows, recorded as those of energy_ranges",
            (_run("exam", "--seconds", "0.8", "--epochs", "3", "--size", "6144", variant="record"),),
            _workload("matmul", "sensor"),
            ("nsys",),
        ),
        id="energy_ranges_exam",
    ),
    Experiment(
        id="meter_overhead",
        title="Training loops beside the power meter, step by step",
        tool="bench",
        module="labcode.workloads.energy.overhead",
        runs=(_run("record", "--seconds", "30"),),
        sources=_workload("overhead"),
        times=("labcode/meter/*.py",),
        needs=("torch", "pynvml"),
        host_bound=True,
    ),
)
