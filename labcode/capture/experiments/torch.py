"""The experiments on PyTorch and on the language model: nothing in, the catalogue's records of them out."""

from __future__ import annotations

from labcode.analysis.lm.decoder import SIZES
from labcode.capture.experiments.record import GPUS, Experiment, Run, Tool, workloads
from labcode.capture.experiments.record import variant_run as _run

_SHARED = (
    *workloads("recording", "marks", "memory_history"),
    *("labcode/workloads/shared/common.py:nvtx_range", "labcode/workloads/shared/common.py:synchronize"),
)
_DECODER = (
    *workloads("transformer", "transformer_model", "transformer_steps"),
    "labcode/analysis/lm/decoder.py",
    *_SHARED,
)
_RECORDED = ("--ranges", "record")
_ONE, _TWO = "--steps=1", "--steps=2"  # of the measured steps only the first are recorded
_EVERYTHING = ("--shapes", "--stacks", "--memory", "--modules")
# as many steps as are averaged over, of which few are traced: an export grows with them
_FORWARD = ("--steps", "10", "--window", "2")
_TRAIN = ("--steps", "10", "--window", "2")
_COLD = ("--warmup", "0", "--steps", "3")  # to see what the first step does that later ones do not
_EXAM = ("--seed", "7")
# GB of a GPU that training steps take: what they reserved on the shipped set, and 2 for CUDA itself
_GB = {"large": 22, "xl": 40, "2.7B": 57}
_GB_BF16 = 64


def _torch_experiment(
    identifier: str,
    title: str,
    module: str,
    runs: tuple[Run, ...],
    sources: tuple[str, ...],
    tool: Tool = "torch",
    args: tuple[str, ...] = (),
    gpus: int = 1,
    host_bound: bool = False,
) -> Experiment:
    return Experiment(
        id=identifier,
        title=title,
        tool=tool,
        module=f"labcode.workloads.{module}",
        runs=runs,
        sources=sources,
        needs_gpus=gpus,
        needs=("torch",),
        torch_args=args,
        host_bound=host_bound,
    )


def _recorded() -> tuple[Experiment, ...]:
    """Runs that PyTorch records: operators and kernels, or memory."""
    train = ("--steps", "10", *_RECORDED)
    bf16 = ("--precision", "bf16", "--attention", "sdpa")
    hunt = ("--steps", "20")
    pictures = ("--steps", "10")
    ranks = ("--gpus", GPUS, "--steps", "6")
    narrow = ("--width", "768", "--layers", "8")
    # wide and not deep: the GPUs, not the hosts, take the time, under the profiler too
    wide = ("--size", "2.7B", "--layers", "8", "--batch", "2", "--bucket-mb", "100")
    return (
        _torch_experiment(
            "torch_profiler",
            "A training step of the small model: written out in fp32, and in bf16 with fused attention",
            "transformer",
            (
                _run("baseline", *train, variant="train"),
                _run("improved", *train, *bf16, variant="train"),
                _run(
                    *("exam_baseline", *train, "--context", "256", "--recompute", *_EXAM),
                    variant="train",
                    clean=False,
                ),
            ),
            _DECODER,
            args=(*_EVERYTHING, _ONE),
        ),
        _torch_experiment(
            "bottleneck_hunt",
            "A training loop with seven planted problems, and the same without",
            "bottleneck_hunt",
            (
                _run("baseline", *hunt),
                _run("improved", *hunt),
                _run(
                    *("exam_baseline", *hunt, "--problems", "cpu_tensors,item,optimizer"),
                    *("--width", "768", "--blocks", "8", *_EXAM),
                    variant="baseline",
                    clean=False,
                ),
            ),
            (*workloads("bottleneck_hunt", "bottleneck_hunt_model"), *_SHARED),
            args=("--shapes", "--stacks", _TWO),
            host_bound=True,
        ),
        _torch_experiment(
            "torch_conv",
            "Convolutions in several layouts, precisions and algorithms",
            "convolutions",
            tuple(
                _run(name, *pictures)
                for name in ("baseline", "benchmark", "channels_last", "bf16", "improved")
            ),
            (*workloads("convolutions"), *_SHARED),
            args=("--shapes", _TWO),
        ),
        _torch_experiment(
            "torch_compile",
            "A training step of the small model, operator by operator and compiled",
            "transformer",
            (
                _run("eager", *train, *bf16, variant="train"),
                _run("compiled", *train, *bf16, "--compile", variant="train"),
            ),
            _DECODER,
            args=("--shapes", _ONE),
        ),
        _torch_experiment(
            "torch_distributed",
            "Data-parallel training rank by rank: gradients after the backward pass, during it, a slow rank",
            "distributed_training",
            (
                _run("baseline", *ranks, *wide),
                _run("improved", *ranks, *wide),
                _run("straggler", *ranks, *wide, "--extra", "1536"),
                _run("small", *ranks, variant="straggler"),
                _run(
                    *("exam_straggler", *ranks, *wide),
                    *("--layers", "6", "--bucket-mb", "250", "--extra", "1280", *_EXAM),
                    variant="straggler",
                    clean=False,
                ),
            ),
            (
                *workloads("distributed_training", "multi_gpu", "data_parallel", "gradients"),
                *workloads("transformer_model"),
                "labcode/analysis/lm/decoder.py",
                *_SHARED,
            ),
            args=(_ONE,),
            gpus=2,
        ),
        _torch_experiment(
            "torch_memory",
            "Training loops of which some keep memory they need no more",
            "memory_leak",
            (
                _run("leak"),
                _run("fixed"),
                *(
                    _run(f"exam_{leak}", *narrow, *_EXAM, variant=leak, clean=False)
                    for leak in ("hook", "cache")
                ),
            ),
            (*workloads("memory_leak", "memory_leak_model"), *_SHARED),
            tool="memory",
        ),
        _torch_experiment(
            "lm_snapshot",
            "Memory of the small model over a forward pass, a training step, one with checkpoints",
            "transformer",
            (
                _run("forward", "--steps", "1", clean=False),
                _run("train", "--steps", "1", variant="train"),
                _run("recompute", "--steps", "1", "--recompute", variant="train", clean=False),
            ),
            _DECODER,
            tool="memory",
        ),
    )


def _name(size: str) -> str:
    """A size as an experiment's name has it."""
    return f"lm_{size.lower().replace('.', '_')}"


def _model(size: str) -> Experiment:
    """Forward pass and training step of one size: one too large for a GPU fails alone."""
    return Experiment(
        id=_name(size),
        title=f"The {size} model: forward pass, and training step with AdamW",
        tool="nsys",
        module="labcode.workloads.transformer",
        runs=(
            _run("forward", "--size", size, *_FORWARD),
            _run("train", "--size", size, *_TRAIN),
            *((_run("cold", "--size", size, *_COLD, variant="train", clean=False),) * (size == "small")),
        ),
        sources=_DECODER,
        needs=("torch",),
        needs_gb=_GB.get(size, 0),
    )


def _ladder() -> Experiment:
    """What changes from fp32 (`lm_medium`) to bf16 to compiled to flash, on one size."""
    medium = ("--size", "medium", "--steps", "10", "--window", "1")
    bf16 = ("--precision", "bf16")
    return Experiment(
        id="lm_ladder",
        title="A training step of the medium model: TF32, bf16, compiled, compiled with flash attention",
        tool="nsys",
        module="labcode.workloads.transformer",
        runs=(
            _run("tf32", *medium, "--precision", "tf32", variant="train"),
            _run("bf16", *medium, *bf16, variant="train"),
            _run("compiled", *medium, *bf16, "--compile", variant="train"),
            _run("flash", *medium, *bf16, "--compile", "--attention", "flash", variant="train"),
        ),
        sources=_DECODER,
        needs=("torch",),
    )


def _bf16() -> Experiment:
    """Training steps in bf16 of the smallest and the largest model (the medium one is in the ladder)."""
    steps = ("--steps", "10", "--window", "1", "--precision", "bf16")
    return Experiment(
        id="lm_bf16",
        title="A training step in bf16 of the smallest and of the largest model",
        tool="nsys",
        module="labcode.workloads.transformer",
        runs=(
            _run("small", "--size", "small", *steps, variant="train"),
            _run("2_7b", "--size", "2.7B", *steps, variant="train"),
        ),
        sources=_DECODER,
        needs=("torch",),
        needs_gb=_GB_BF16,
    )


def _benches() -> tuple[Experiment, ...]:
    """Programs that measure themselves."""
    grid = (*workloads("lm_grid"), *_DECODER)
    few = ("--lengths", "256,1024,4096,16384")

    def bench(
        identifier: str,
        title: str,
        module: str,
        runs: tuple[Run, ...],
        sources: tuple[str, ...],
        host_bound: bool = False,
    ) -> Experiment:
        return Experiment(
            identifier,
            title,
            "bench",
            f"labcode.workloads.{module}",
            runs,
            sources,
            time_limit_s=600.0,
            needs=("torch",),
            host_bound=host_bound,
        )

    return (
        bench("lm_precision", "All sizes in fp32, TF32 and bf16", "lm_grid", (_run("precision"),), grid),
        bench(
            "lm_memory",
            "Memory of all sizes over contexts, with and without checkpointed activations",
            "lm_grid",
            (_run("memory", "--steps", "1", "--warmup", "1"),),
            grid,
        ),
        bench(
            "lm_attention",
            "Attention alone over head widths and lengths: written out, compiled, flash",
            "attention_sweep",
            (
                *(_run(name) for name in ("naive", "naive_bf16", "flash")),
                _run("compiled", "--widths", "64", *few),  # every shape is compiled anew
                _run("compiled_bf16", "--widths", "64", *few),
            ),
            (*workloads("attention_sweep", "transformer_model", "marks"), "labcode/analysis/lm/decoder.py"),
        ),
        bench(
            "hunt_ladder",
            "What each planted problem of the bottleneck hunt costs: alone, and among the others",
            "bottleneck_ladder",
            (_run("baseline", "--steps", "40", "--warmup", "10"),),
            (*workloads("bottleneck_ladder", "bottleneck_hunt", "bottleneck_hunt_model"), *_SHARED),
            host_bound=True,
        ),
        bench(
            "profiler_overhead",
            "What each profiler costs on one training step",
            "profiler_overhead",
            (_run("all", "--steps", "5"), _run("switches", "--steps", "4")),
            (*workloads("profiler_overhead"), *_DECODER),
            host_bound=True,
        ),
        Experiment(
            "easy_overhead",
            "What auto_profile adds to a call, and what it says of a product and of a sweep",
            "bench",
            "labcode.bench.easy_overhead",
            (_run("record"),),
            ("labcode/bench/easy_overhead.py",),
            needs=("torch",),
            times=("labcode/easy_profiler.py",),
            host_bound=True,
        ),
    )


TORCH_EXPERIMENTS: tuple[Experiment, ...] = (
    *_recorded(),
    *(_model(size) for size in SIZES if size != "tiny"),
    _ladder(),
    _bf16(),
    *_benches(),
)
