"""The experiments on kernels: benches of the CUDA programs, and their counters under Nsight Compute.

Under ncu each program marks one launch of each case (``cuda/common/profiled.hpp``), so that a report has it
once. The full set costs about half a second and 50 KB a launch; runs that need less collect less.
"""

from __future__ import annotations

from labcode.capture.experiments.record import CUDA, CUDA_SOURCES, Experiment, Run, workloads
from labcode.capture.experiments.record import variant_run as _run

_MARKED = ("--profile-from-start", "off")
_COUNTERS = tuple(  # what the pages and exercises read, without the sections on NVLink, NUMA and time series
    word
    for section in (
        *("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis"),
        *("MemoryWorkloadAnalysis_Tables", "SchedulerStats", "WarpStateStats", "InstructionStats"),
        *("LaunchStats", "Occupancy", "WorkloadDistribution"),
    )
    for word in ("--section", section)
)
_LINES = ("--section", "SourceCounters", "--import-source", "yes")
_FULL = ("--set", "full", "--import-source", "yes")
_ROOFS = ("--set", "roofline", "--section", "LaunchStats", "--section", "Occupancy")
_SEED = ("--seed", "7")
_ONCE = ("--repetitions", "1")  # under ncu the program's own times say nothing
_WARM_ONCE = (*_ONCE, "--warmup", "1")


def _named(*kernels: str) -> tuple[str, ...]:
    """The option that names kernels, without namespace and template arguments."""
    return ("-k", f"regex:^({'|'.join(kernels)})$")


_CASES = (  # the kernels of cuda/compute_metrics
    *("chase", "chase_shared", "diverge", "read_columns", "read_strided", "mix_fma", "mix_integer"),
    *("mix_special", "index_divide", "index_multiply", "index_shift", "chains", "count_global"),
    *("count_shared", "count_aggregated", "hadamard"),
)
_COPIES = ("strided", "coalesced", "vectorized", "in_flight", "bulk_ring", "bulk")
_TRANSPOSES = ("naive", "tiled", "vectorized", "windowed", "chunks")
_SUMS = ("atomics", "tree", "shuffle", "vectorized", "bulk")
_SOFTMAXES = ("three_passes", "online", "on_chip", "vectorized", "warp_rows", "cluster", "bulk")
_ROUNDS = tuple(f"round{n}" for n in (*range(8), 9))  # round 8 launches round 7's kernel
_ROOF_KERNELS = (
    *("copy", "read", "read_l1", "read_shared"),
    *("fma_rate", "mma_bf16", "mma_fp64", "wgmma_bf16"),
)
_FEW_SECTIONS = (
    *("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"),
    *("SchedulerStats", "WarpStateStats", "LaunchStats", "Occupancy"),
)
_LADDER_HEADERS = ("cuda/common/ladder.cuh", "cuda/common/profiled.hpp")
_ROW_HEADERS = ("cuda/common/rows.cuh", "cuda/common/rows_program.cuh")
_REPEAT_HEADERS = ("cuda/common/profiled.hpp", "cuda/common/repeat.cuh")
_GEMM_FILES = tuple(  # below cuda/gemm
    f"cuda/gemm/{name}"
    for name in (
        *("gemm.cu", "fp32.cuh", "bf16.cuh", "instructions.cuh", "layout.cuh"),
        *("cublas.hpp", "maps.hpp", "needs.hpp"),
    )
)
_PRODUCT_COUNTERS = tuple(  # fewer: 23 launches in one experiment
    word
    for section in (
        *("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"),
        *("SchedulerStats", "WarpStateStats", "LaunchStats", "Occupancy"),
    )
    for word in ("--section", section)
)
_FP32_STEPS = ("naive", "coalesced", "shared_tile", "strips", "squares", "staged", "pipelined")
_BF16_STEPS = ("mma_sync", "wgmma_tma", "specialized")
_BENCHED = ("memory_bandwidth", "transpose", "sum", "softmax", "rmsnorm")


def _counted(
    name: str, *args: str, variant: str | None = None, tool_args: tuple[str, ...] = (), clean: bool = False
) -> Run:
    """A run for its counters: its times are asked of other runs."""
    return _run(name, *args, variant=variant, tool_args=tool_args, clean=clean)


def _program(name: str, *headers: str) -> tuple[str, ...]:
    """Sources of a CUDA program: its own files, the shared headers named and those all share."""
    files = tuple(f"cuda/{name}/{name}.{suffix}" for suffix in ("cu", "cuh"))
    shared = tuple(path for path in CUDA_SOURCES if not path.endswith("oscillator.cuh"))
    return (*files, *headers, *shared)


def _benches() -> tuple[Experiment, ...]:
    return (
        Experiment(
            id="kernel_bench",
            title="The kernels' ladders beside the device copy, PyTorch and CUB, in one run a topic",
            tool="bench",
            module="labcode.workloads.kernel_bench",
            runs=tuple(_run(topic) for topic in _BENCHED),
            sources=(
                *workloads("kernel_bench", "kernel_times"),
                *(
                    f"labcode/kernels/{name}.py"
                    for name in ("baselines", "catalogue", "checking", "launch", "row_kernels")
                ),
                *(f"labcode/kernels/topics/{topic}.py" for topic in _BENCHED),
                *(f"cuda/{topic}/{topic}.cuh" for topic in _BENCHED),
                "cuda/common/rows.cuh",
                "labcode/timing.py",
            ),
            needs=("torch", "cupy", "nvcc"),
        ),
        Experiment(
            id="ceilings",
            title="The roofs of memory and arithmetic, and kernels of every intensity under them, measured",
            tool="bench",
            module=CUDA,
            program="roofline_kernels",
            runs=(_run("record", variant="all"),),
            sources=_program("roofline_kernels", "cuda/common/oscillator.cuh", *_REPEAT_HEADERS),
            needs=("nvcc",),
        ),
        Experiment(
            id="compute_metrics",
            title="What keeps multiprocessors from working, one effect at a time, beside predictions",
            tool="bench",
            module=CUDA,
            program="compute_metrics",
            runs=(_run("record", variant="all"),),
            sources=_program("compute_metrics", "cuda/common/oscillator.cuh", *_REPEAT_HEADERS),
            needs=("nvcc",),
        ),
        Experiment(
            id="optimization_loop",
            title="A filter optimized in ten rounds: what was predicted and what was measured",
            tool="bench",
            module=CUDA,
            program="optimization_loop",
            runs=(_run("record", variant="all"),),
            sources=_program("optimization_loop", "cuda/common/oscillator.cuh", *_REPEAT_HEADERS),
            needs=("nvcc",),
        ),
        Experiment(
            id="memory_bandwidth",
            title="Copies from strided to bulk, triad, gathers, misaligned starts, what fits into the cache",
            tool="bench",
            module=CUDA,
            program="memory_bandwidth",
            runs=(
                _run("copies", variant="all"),
                *(_run(name) for name in ("triad", "gather", "misaligned", "sizes")),
            ),
            sources=_program("memory_bandwidth", *_LADDER_HEADERS),
            needs=("nvcc",),
        ),
    )


def _sizes(m: int, n: int, k: int) -> tuple[str, ...]:
    return ("--m", str(m), "--n", str(n), "--k", str(k))


def _products() -> tuple[Experiment, ...]:
    sources = (*_GEMM_FILES, *_program("gemm", *_LADDER_HEADERS, "cuda/common/rows.cuh")[2:])
    sizes, odd, wide = (
        {n: _sizes(n, n, n) for n in (4096, 8192)},
        _sizes(4097, 4099, 4093),
        _sizes(4097, 4104, 4088),
    )
    part = ("--m", "4096", "--n", "4096", "--k", "2048")
    exam = (*_sizes(2300, 3000, 1000), "--seed", "7", *_ONCE)
    return (
        Experiment(
            id="gemm_bench",
            title="The matmul ladders beside cuBLAS: times from a cold cache, errors against fp64",
            tool="bench",
            module=CUDA,
            program="gemm",
            runs=(
                *(
                    _run(f"fp32_{n}", *size, "--repetitions", "12", variant="fp32")
                    for n, size in sizes.items()
                ),
                *(
                    _run(f"bf16_{n}", *size, "--repetitions", "40", variant="bf16")
                    for n, size in sizes.items()
                ),
                _run("fp32_odd", *odd, "--repetitions", "10", variant="fp32"),
                _run("bf16_odd", *wide, "--repetitions", "10", variant="bf16"),
                _run("bf16_unaligned", *odd, "--repetitions", "10", variant="mma_sync"),
            ),
            sources=sources,
            needs=("nvcc",),
        ),
        Experiment(
            id="gemm_triton",
            title="A matmul in Triton beside cuBLAS",
            tool="bench",
            module="labcode.workloads.triton_gemm",
            runs=tuple(
                _run(f"bf16_{n}", *size, "--repetitions", "30", variant="bfloat16")
                for n, size in sizes.items()
            ),
            sources=(
                *workloads("triton_gemm", "kernel_times"),
                "labcode/kernels/triton_product.py",
                "labcode/timing.py",
            ),
            needs=("torch", "triton"),
        ),
        Experiment(
            id="ncu_gemm",
            title="Counters of the matmul kernels, step by step, in fp32 and on tensor cores",
            tool="ncu",
            module=CUDA,
            program="gemm",
            runs=(
                _counted("fp32", *part, *_ONCE, tool_args=(*_PRODUCT_COUNTERS, *_named(*_FP32_STEPS))),
                _counted("bf16", *part, *_ONCE, tool_args=(*_PRODUCT_COUNTERS, *_named(*_BF16_STEPS))),
                _counted(
                    "exam_fp32",
                    *exam,
                    variant="fp32",
                    tool_args=(*_PRODUCT_COUNTERS, *_named("strips", "squares", "staged", "pipelined")),
                ),
            ),
            sources=sources,
            needs=("nvcc",),
            ncu_args=_MARKED,
        ),
    )


def _counters() -> tuple[Experiment, ...]:
    return (
        Experiment(
            id="ncu_memory",
            title="Counters of copies from strided to bulk, of gathers and of misaligned starts",
            tool="ncu",
            module=CUDA,
            program="memory_bandwidth",
            runs=(
                _counted("copies", *_ONCE, variant="all", tool_args=(*_FULL, *_named(*_COPIES)), clean=True),
                _counted(
                    "gathers", *_ONCE, variant="gather", tool_args=(*_COUNTERS, *_LINES, *_named("gather"))
                ),
                _counted(
                    "misaligned", *_ONCE, tool_args=(*_COUNTERS, *_LINES, *_named("coalesced")), clean=True
                ),
                _counted(
                    "exam_gathers",
                    *("--mebibytes", "96", "--seed", "7", *_ONCE),
                    variant="gather",
                    tool_args=(*_COUNTERS, *_named("gather", "gather_in_flight")),
                ),
                _counted(
                    "exam_copies",
                    *("--mebibytes", "384", "--seed", "7", *_ONCE),
                    variant="all",
                    tool_args=(*_COUNTERS, *_named(*_COPIES)),
                ),
            ),
            sources=_program("memory_bandwidth", *_LADDER_HEADERS),
            needs=("nvcc",),
            ncu_args=_MARKED,
        ),
        Experiment(
            id="ncu_compute",
            title="Counters of kernels that each show one thing that keeps multiprocessors from working",
            tool="ncu",
            module=CUDA,
            program="compute_metrics",
            runs=(
                _counted("all", *_WARM_ONCE, tool_args=(*_COUNTERS, *_LINES, *_named(*_CASES))),
                *(
                    _counted(
                        f"exam_{number}",
                        *("--work", "0.6", "--waves", "3", "--seed", str(6 + number), *_WARM_ONCE),
                        variant=variant,
                        tool_args=(*_COUNTERS, *_named(*kernels)),
                    )
                    for number, (variant, kernels) in enumerate(
                        (
                            ("dependency_chains", ("chains",)),
                            ("bank_conflicts", ("read_columns",)),
                            ("atomics_one_address", ("count_global", "count_shared", "count_aggregated")),
                            ("spills", ("hadamard",)),
                        ),
                        start=1,
                    )
                ),
            ),
            sources=_program("compute_metrics", "cuda/common/oscillator.cuh", *_REPEAT_HEADERS),
            needs=("nvcc",),
            ncu_args=_MARKED,
        ),
        Experiment(
            id="ncu_roofline",
            title="Counters of the roofs' kernels and of kernels of every intensity under them",
            tool="ncu",
            module=CUDA,
            program="roofline_kernels",
            runs=(
                _counted("fp32", *_WARM_ONCE, tool_args=(*_ROOFS, *_named("intensity"))),
                _counted("fp64", *_WARM_ONCE, tool_args=(*_ROOFS, *_named("intensity")), clean=True),
                _counted("tensor", *_WARM_ONCE, tool_args=(*_ROOFS, *_named("intensity_tensor"))),
                _counted("ceilings", *_WARM_ONCE, tool_args=(*_ROOFS, *_named(*_ROOF_KERNELS))),
                _counted(
                    "exam_points",
                    *("--mebibytes", "384", "--seed", "7", *_WARM_ONCE),
                    variant="fp16",
                    tool_args=(*_ROOFS, *_named("intensity")),
                ),
            ),
            sources=_program("roofline_kernels", "cuda/common/oscillator.cuh", *_REPEAT_HEADERS),
            needs=("nvcc",),
            ncu_args=_MARKED,
        ),
        Experiment(
            id="ncu_loop",
            title="Counters of the rounds of the optimization loop",
            tool="ncu",
            module=CUDA,
            program="optimization_loop",
            runs=(
                _counted(
                    *("rounds", *_WARM_ONCE),
                    variant="all",
                    tool_args=(*_FULL, *_named(*_ROUNDS)),
                    clean=True,
                ),
                _counted(
                    "exam_rounds",
                    *("--height", "1500", "--width", "3000", "--sigma", "0.35", "--seed", "7", *_WARM_ONCE),
                    variant="all",
                    tool_args=(*_COUNTERS, *_named(*_ROUNDS)),
                ),
            ),
            sources=_program("optimization_loop", "cuda/common/oscillator.cuh", *_REPEAT_HEADERS),
            needs=("nvcc",),
            ncu_args=_MARKED,
        ),
    )


def _ladder(
    program: str,
    title: str,
    kernels: tuple[str, ...],
    exam: tuple[str, ...],
    headers: tuple[str, ...] = (),
    more: tuple[str, ...] = (),
) -> Experiment:
    """The steps of a ladder, and the same steps on a size that no page shows; ``more``: a run's name and its
    flags, for another size that one does."""
    named = _named(*kernels)
    other = [_run(*more, *_ONCE, variant="all", tool_args=(*_COUNTERS, *named))] if more else []
    return Experiment(
        id=f"ncu_{program}",
        title=title,
        tool="ncu",
        module=CUDA,
        program=program,
        runs=(
            _run("steps", *_ONCE, variant="all", tool_args=(*_FULL, *named)),
            *other,
            _counted(
                "exam_steps", *exam, "--seed", "7", *_ONCE, variant="all", tool_args=(*_COUNTERS, *named)
            ),
        ),
        sources=_program(program, *_LADDER_HEADERS, *headers),
        needs=("nvcc",),
        ncu_args=_MARKED,
    )


def _ladders() -> tuple[Experiment, ...]:
    matrix = ("--rows", "9000", "--columns", "5000", "--bytes", "2")
    odd = ("odd_steps", "--rows", "16381", "--columns", "8189")
    long = ("long_steps", "--columns", "131072")
    rows = ("--columns", "4096", "--mebibytes", "300")
    return (
        _ladder("transpose", "Counters of the transpose, step by step", _TRANSPOSES, matrix, more=odd),
        _ladder("sum", "Counters of the sum, step by step", _SUMS, ("--mebibytes", "300")),
        _ladder(
            "softmax", "Counters of softmax over rows, step by step", _SOFTMAXES, rows, _ROW_HEADERS, long
        ),
    )


def _attention() -> tuple[Experiment, ...]:
    slow, few = ("--dim", "64", *_ONCE), ("--heads", "2", "--length", "1200", "--dim", "64", *_ONCE)
    fewer = tuple(word for name in _FEW_SECTIONS for word in ("--section", name))
    named = (*fewer, *_named("mma_sync", "specialized"))
    files = tuple(f"cuda/attention/{name}" for name in ("attention.cu", "attention.cuh", "tensor.cuh"))
    shared = tuple(f"cuda/gemm/{name}" for name in ("instructions.cuh", "layout.cuh", "maps.hpp"))
    return (
        Experiment(
            id="attention_bench",
            title="Attention forward, step by step, beside cuDNN, FlashAttention-2, Triton: times and errors",
            tool="bench",
            module="labcode.workloads.attention",
            runs=(Run("benchmark", ("benchmark", "--dtypes", "float32,bfloat16,float16")),),
            sources=(
                *workloads("attention", "attention_steps", "kernel_times"),
                *(
                    f"labcode/kernels/{name}.py"
                    for name in ("tensor_maps", "triton_attention", "topics/attention")
                ),
                *files[1:],
                *shared[:2],
                "cuda/common/rows.cuh",
                "labcode/timing.py",
            ),
            needs=("torch", "cupy", "nvcc"),
        ),
        Experiment(
            id="ncu_attention",
            title="Counters of attention forward, step by step, and of attentions with a mistake",
            tool="ncu",
            module=CUDA,
            program="attention",
            runs=(
                Run("steps", ("--length", "2048", *_ONCE), named, clean=False),
                _run("slow", "--heads", "32", "--length", "2048", *slow, tool_args=named),
                _counted(
                    "exam_slow",
                    "--heads",
                    "20",
                    "--length",
                    "1500",
                    *slow,
                    *_SEED,
                    variant="slow",
                    tool_args=named,
                ),
                _counted("exam_few", *few, *_SEED, variant="double_buffer", tool_args=named),
            ),
            sources=(*files, *shared, *_program("attention", *_LADDER_HEADERS, "cuda/common/rows.cuh")[2:]),
            needs=("nvcc",),
            ncu_args=_MARKED,
        ),
    )


KERNEL_EXPERIMENTS: tuple[Experiment, ...] = (
    *(*_benches(), *_products(), *_attention()),
    *(*_counters(), *_ladders()),
)
