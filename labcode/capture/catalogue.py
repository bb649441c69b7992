"""The experiments of the book: an id in, the program, its runs, the profiler's options, the sources out."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding

from labcode import store
from labcode.capture import schedule
from labcode.capture.experiments.energy import ENERGY_EXPERIMENTS
from labcode.capture.experiments.inference import INFERENCE_EXPERIMENTS
from labcode.capture.experiments.kernels import KERNEL_EXPERIMENTS
from labcode.capture.experiments.record import CUDA, CUDA_SOURCES, GPUS, Experiment, Run, workloads
from labcode.capture.experiments.record import variant_run as _run
from labcode.capture.experiments.scaling import SCALING_EXPERIMENTS
from labcode.capture.experiments.torch import TORCH_EXPERIMENTS
from labcode.errors import LabError
from labcode.freshness import is_fresh

__all__ = [
    "EXPERIMENTS",
    "GPUS",
    "MOST_GPUS",
    "Experiment",
    "Run",
    "choose",
    "needs_of",
    "neutral_argv",
    "render",
]

MOST_GPUS = 4


_NODES = ("--cuda-graph-trace=node",)
_WHOLE_GRAPHS = ("--cuda-graph-trace=graph",)
_TORCH_SOURCES = (
    "labcode/workloads/shared/common.py:nvtx_range",
    "labcode/workloads/shared/common.py:synchronize",
)
# other parameters, so that an exercise is graded on a capture that the learner has not seen
_EXAM_TRAINING = ("--batch", "384", "--steps", "24", "--seed", "7")
_EXAM_GPUS = ("--gpus", GPUS, "--layers", "16", "--bucket-mb", "40", "--seed", "7")
_EXAM_LINES = (
    "--length",
    "384",
    "--layers",
    "2",
    "--heads",
    "16",
    "--hidden",
    "bias,heads,mask",
    "--seed",
    "7",
)
_EXAM_COPIES = ("--mebibytes", "192", "--balance", "1.4", "--seed", "7")
_SAMPLED_CPU = (
    "--sample=process-tree",
    "--cpuctxsw=process-tree",
    "--sampling-period=4000000",
    "--samples-per-backtrace=1",
)
_SAMPLED_PYTHON = ("--python-sampling=true", "--python-sampling-frequency=200")
_BACKTRACES = (
    *("--trace=cuda,nvtx", "--pytorch=autograd-nvtx"),
    *("--python-backtrace=cuda", "--cudabacktrace=all:0"),
    # nsys takes backtraces only where it samples the CPU
    *("--sample=process-tree", "--cpuctxsw=none", "--sampling-period=16000000"),
)
_FEED = ("input_pipeline", "input_pipeline_feed", "input_pipeline_files", "input_pipeline_pictures")
# ten thousand samples a second of some forty counters
_COUNTERS = ("--gpu-metrics-devices=0", "--gpu-metrics-frequency=10000")
_READERS = ("labcode/reports/**/*.py", "labcode/analysis/**/*.py")
_EXAM_FEED = ("--batch", "48", "--seed", "7")


def _experiments() -> dict[str, Experiment]:
    listed = (
        Experiment(
            id="timeline_basics",
            title="A training loop that leaves the GPU idle, and the same work without",
            tool="nsys",
            module="labcode.workloads.timeline_basics",
            runs=(
                _run("baseline"),
                _run("nosync"),
                _run("improved"),
                _run("exam_baseline", *_EXAM_TRAINING, variant="baseline", clean=False),
                _run("exam_improved", *_EXAM_TRAINING, variant="improved", clean=False),
            ),
            sources=(*workloads("timeline_basics", "loaders", "pictures"), *_TORCH_SOURCES),
            host_bound=True,
            needs=("torch",),
        ),
        Experiment(
            id="kernel_overlap",
            title="Many small independent kernels: one stream, several streams, a CUDA graph",
            tool="nsys",
            module=CUDA,
            program="kernel_overlap",
            runs=(
                _run("stream", tool_args=_NODES),
                _run("streams", tool_args=_NODES),
                _run("graph", tool_args=_NODES),
                _run("graph_default", variant="graph", tool_args=_WHOLE_GRAPHS),
                _run("tiny_stream", tool_args=_NODES),
                _run("tiny_graph", tool_args=_NODES),
                _run(
                    "exam_streams",
                    *("--streams", "3", "--kernels", "180", "--iterations", "4000", "--seed", "7"),
                    variant="streams",
                    tool_args=_NODES,
                    clean=False,
                ),
            ),
            sources=("cuda/kernel_overlap/*.cu", *CUDA_SOURCES),
            host_bound=True,
            needs=("nvcc",),
        ),
        Experiment(
            id="gpu_metrics",
            title="Phases that load different parts of a GPU, with its own counters over time",
            tool="nsys",
            module="labcode.workloads.gpu.phases",
            runs=(_run("phases", tool_args=_COUNTERS),),
            sources=(*workloads("gpu/phases"), *_TORCH_SOURCES),
            needs=("torch",),
        ),
        Experiment(
            id="memory_timeline",
            title="Copies from pageable memory, from pinned memory, and overlapped with kernels",
            tool="nsys",
            module=CUDA,
            program="memory_timeline",
            runs=(
                _run("pageable"),
                _run("pinned"),
                _run("pipelined"),
                _run("exam_pinned", *_EXAM_COPIES, variant="pinned", clean=False),
                _run("exam_pipelined", *_EXAM_COPIES, "--chunks", "24", variant="pipelined"),
            ),
            sources=("cuda/memory_timeline/*.cu", *CUDA_SOURCES),
            host_bound=True,
            needs=("nvcc",),
        ),
        Experiment(
            id="multi_gpu",
            title="Data-parallel training: gradients reduced after the backward pass, or during it",
            tool="nsys",
            module="labcode.workloads.multi_gpu",
            runs=(
                _run("baseline", "--gpus", GPUS),
                _run("improved", "--gpus", GPUS),
                _run("few_ctas", "--gpus", GPUS, "--nccl-ctas", "8", variant="improved"),
                _run("tuned", "--gpus", GPUS, "--nccl-ctas", "8", "--reserve-sms", "8", variant="improved"),
                _run("exam_improved", *_EXAM_GPUS, variant="improved", clean=False),
            ),
            sources=(*workloads("multi_gpu", "data_parallel", "gradients"), *_TORCH_SOURCES),
            needs_gpus=2,
            needs=("torch",),
        ),
        Experiment(
            id="python_backtraces",
            title="A training step with kernels from lines nobody suspects, and the same without",
            tool="nsys",
            module="labcode.workloads.launch_sites",
            runs=(
                _run("baseline"),
                _run("improved"),
                _run("exam_baseline", *_EXAM_LINES, variant="baseline", clean=False),
            ),
            sources=(*workloads("launch_sites", "launch_sites_model"), *_TORCH_SOURCES),
            host_bound=True,
            needs=("torch",),
            nsys_args=_BACKTRACES,
        ),
        Experiment(
            id="dataloader",
            title="Pictures from disk for a GPU: loaded in turn, by workers, pinned, mended, a slow disk",
            tool="nsys",
            module="labcode.workloads.input_pipeline",
            runs=(
                _run("baseline"),
                _run("workers"),
                _run("pinned"),
                _run("improved"),
                _run("slow_disk"),
                _run(
                    *("exam_baseline", *_EXAM_FEED, "--workers", "3", "--slow", "equalize"),
                    variant="pinned",
                    clean=False,
                ),
                _run("exam_disk", *_EXAM_FEED, "--workers", "3", variant="slow_disk", clean=False),
            ),
            sources=(*workloads(*_FEED), *_TORCH_SOURCES),
            host_bound=True,
            needs=("torch",),
        ),
        Experiment(
            id="cpu_sampling",
            title="What the CPU does while it makes batches: Python loops, and the same without",
            tool="nsys",
            module="labcode.workloads.input_pipeline",
            runs=(
                _run("baseline", "--steps", "24", variant="pinned"),
                _run("improved", "--steps", "24"),
                _run(
                    *("exam_baseline", *_EXAM_FEED, "--workers", "3"),
                    *("--slow", "decode,equalize"),
                    variant="pinned",
                    clean=False,
                ),
            ),
            sources=(*workloads(*_FEED), *_TORCH_SOURCES),
            host_bound=True,
            needs=("torch",),
            nsys_args=("--trace=cuda,nvtx", *_SAMPLED_CPU, *_SAMPLED_PYTHON),
        ),
        Experiment(
            id="os_runtime",
            title="System calls that stall the feed of a GPU: a log on disk behind a lock, and without",
            tool="nsys",
            module="labcode.workloads.input_pipeline",
            runs=(
                _run("baseline", variant="shared_log"),
                _run("improved"),
                _run("exam_baseline", *_EXAM_FEED, "--workers", "3", variant="throttled", clean=False),
            ),
            sources=(*workloads(*_FEED), *_TORCH_SOURCES),
            host_bound=True,
            needs=("torch",),
            nsys_args=("--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=process-tree"),
        ),
        Experiment(
            id="sweeps",
            title="Streams, kernel lengths and chunk counts: the CUDA programs over a grid of flags",
            tool="bench",
            module="labcode.workloads.sweeps",
            runs=(_run("streams"), _run("kernel_length"), _run("chunks")),
            sources=(
                *workloads("sweeps"),
                *("cuda/kernel_overlap/*.cu", "cuda/memory_timeline/*.cu"),
                *CUDA_SOURCES,
            ),
            host_bound=True,
            needs=("nvcc",),
            time_limit_s=300.0,
        ),
        *KERNEL_EXPERIMENTS,
        *TORCH_EXPERIMENTS,
        *ENERGY_EXPERIMENTS,
        *SCALING_EXPERIMENTS,
        *INFERENCE_EXPERIMENTS,
        Experiment(
            id="measuring",
            title="How to time: host timer and events, warm-up, cold and warm cache, zeros and random data",
            tool="bench",
            module="labcode.workloads.measuring",
            runs=(Run("record"),),
            sources=(*workloads("measuring", "sensors"), "labcode/timing.py", *_TORCH_SOURCES),
            host_bound=True,
            needs=("torch",),
        ),
        Experiment(
            id="report_speed",
            title="Every report of `labcode stats` beside that of nsys, on two million made-up operations",
            tool="bench",
            module="labcode.workloads.report_speed",
            runs=(_run("generated", "--streams", "4", "--repetitions", "3"),),
            sources=(*workloads("report_speed", "side_by_side", "big_export", "export_tables"),),
            times=_READERS,
            host_bound=True,
            needs_gpus=0,
            needs=("nsys",),
            time_limit_s=450.0,
        ),
        Experiment(
            id="report_speed_recorded",
            title="Every report of `labcode stats` beside that of nsys, on a recorded burst of operations",
            tool="bench",
            module="labcode.workloads.report_speed",
            runs=(_run("recorded", "--streams", "4", "--repetitions", "3", "--ops", "1500000"),),
            sources=(
                *workloads("report_speed", "side_by_side"),
                *("cuda/many_operations/*.cu", *CUDA_SOURCES),
            ),
            times=_READERS,
            frees_gpu="labcode-bench-*/recorded.nsys-rep",
            host_bound=True,
            needs=("nsys", "nvcc"),
            time_limit_s=450.0,
        ),
        Experiment(
            id="doctor",
            title="What `labcode doctor` finds on the machine of this set",
            tool="doctor",
            module="labcode",
            runs=(Run("record", ("doctor", "--json")),),
            sources=("labcode/doctor/probe.py",),
            needs_gpus=0,
            time_limit_s=120.0,
        ),
    )
    return {experiment.id: experiment for experiment in listed}


EXPERIMENTS: dict[str, Experiment] = _experiments()


def choose(names: list[str]) -> list[Experiment]:
    """The named experiments in the catalogue's order, or all; `LabError` for an unknown name."""
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        raise LabError(f"{', '.join(unknown)}: no such experiment (there are: {', '.join(EXPERIMENTS)})")
    return [e for e in EXPERIMENTS.values() if not names or e.id in names]


def neutral_argv(experiment: Experiment, run: Run, gpu_count: int) -> tuple[str, ...]:
    """The command of a run as manifests have it: ``python -m module …``, free of any machine's paths."""
    gpus = str(max(1, min(MOST_GPUS, gpu_count)))
    return tuple(gpus if word == GPUS else word for word in experiment.argv(run))


def needs_of(experiment: Experiment) -> tuple[str, ...]:
    """What an experiment needs from a machine, in the words of `labcode.hardware.needs`."""
    gpus = "gpu" if experiment.needs_gpus == 1 else f"{experiment.needs_gpus} gpus"
    return (
        *((gpus,) if experiment.needs_gpus else ()),
        *((f"{experiment.needs_gb} GB",) if experiment.needs_gb else ()),
        *(("nsys",) if experiment.tool == "nsys" else ()),
        *(("ncu", "counters") if experiment.tool == "ncu" else ()),
        *experiment.needs,
    )


def render(console: Console, set_name: str | None = None) -> None:
    """List the experiments with how long they took on the shipped set, the most important first.

    With a set's name also which of them it holds, whether they are fresh, and how long the others will take.
    """
    captured = store.load_set(set_name).experiments if set_name in store.list_sets() else {}
    pace = schedule.Pace.of_set({name: record.wall_s for name, record in captured.items()})
    ordered = schedule.in_order(EXPERIMENTS.values(), pace.took)
    lacking = []
    for experiment in ordered:
        state = ""
        if set_name:
            record = captured.get(experiment.id)
            state = "not captured in this set" if record is None else "fresh" if is_fresh(record) else "stale"
            if state != "fresh":
                lacking.append(experiment)
            state = f"  ({set_name}: {state})"
        console.print(f"[bold]{experiment.id}[/bold]{state}", highlight=False)
        facts: tuple[str, ...] = (
            experiment.title,
            f"runs: {', '.join(run.name for run in experiment.runs)}",
            f"needs: {', '.join(needs_of(experiment)) or 'nothing'}",
        )
        if experiment.id in pace.took:
            facts += (f"took {schedule.spoken(pace.took[experiment.id])} on {store.SHIPPED_SET}",)
        for fact in facts:
            console.print(Padding(fact, (0, 0, 0, 2)), highlight=False)
    single = [experiment for experiment in ordered if experiment.needs_gpus <= 1]
    said = [
        f"{len(EXPERIMENTS)} experiments take {schedule.spoken(pace.expect_all(ordered))}",
        f"the {len(single)} that need no second GPU {schedule.spoken(pace.expect_all(single))}",
    ]
    if set_name:
        said.append(f"the {len(lacking)} that {set_name} lacks {schedule.spoken(pace.expect_all(lacking))}")
    if pace.took:
        console.print(f"At the pace of {set_name or store.SHIPPED_SET} {', '.join(said)}", highlight=False)
