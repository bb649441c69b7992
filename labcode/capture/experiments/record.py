"""What an experiment is: the records of the catalogue, and short ways to write them down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tool = Literal["nsys", "ncu", "torch", "memory", "power", "bench", "doctor"]
# The clocks are left as they are: locking them takes rights, and another user's work may run beside.
NCU_ALWAYS = ("--clock-control", "none", "--target-processes", "all")
GPUS = "{gpus}"  # stands for the number of GPUs a run uses, known when it runs


@dataclass(frozen=True)
class Run:
    """One run of an experiment: its name, the program's arguments, further options of the profiler.

    ``clean``: whether the program is also run without the profiler; not where nothing asks what that says.
    """

    name: str
    args: tuple[str, ...] = ()
    tool_args: tuple[str, ...] = ()
    clean: bool = True


@dataclass(frozen=True)
class Experiment:
    """What is captured together, back to back on one machine.

    ``module`` is run as ``python -m module ARGS``, a CUDA program as ``python -m labcode.workloads.cuda
    PROGRAM ARGS``; ``sources`` are paths and globs relative to the repository whose change makes the capture
    stale; ``needs`` are tools and packages beyond the GPUs (``nvcc``,
    ``torch``); an experiment of the tool ``power`` that needs ``nsys`` runs under it, too;
    ``time_limit_s`` bounds each single run.
    """

    id: str
    title: str
    tool: Tool
    module: str
    runs: tuple[Run, ...]
    sources: tuple[str, ...]
    needs_gpus: int = 1
    time_limit_s: float = 300.0
    nsys_args: tuple[str, ...] = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none")
    needs: tuple[str, ...] = ()
    ncu_args: tuple[str, ...] = ("--set", "full", "--import-source", "yes")  # and -k: name the kernels
    program: str = ""
    times: tuple[str, ...] = ()  # the lab's own code that it times: a change of it makes nothing stale
    frees_gpu: str = ""  # of these: a file below the temporary folder that is there once it needs no GPU
    torch_args: tuple[str, ...] = ()  # of `labcode.capture.torch_profile`: --shapes, --stacks, --steps=N …
    needs_gb: int = 0  # memory of one GPU, 10⁹ bytes: what the runs reserve, and 2 for CUDA itself
    host_bound: bool = False  # what it shows depends on the CPU: nothing else runs while it does

    def argv(self, run: Run) -> tuple[str, ...]:
        """The command of a run in neutral words, free of any machine's paths."""
        return ("python", "-m", self.module, *([self.program] if self.program else []), *run.args)

    def options(self, run: Run) -> tuple[str, ...]:
        """All options that the recording tool of a run gets."""
        own: dict[Tool, tuple[str, ...]] = {
            "nsys": self.nsys_args,
            "ncu": (*NCU_ALWAYS, *self.ncu_args),
            "torch": self.torch_args,
            "memory": self.torch_args,
            "power": self.nsys_args if "nsys" in self.needs else (),
        }
        return (*own[self.tool], *run.tool_args) if self.tool in own else ()


CUDA = "labcode.workloads.cuda"
CUDA_SOURCES = (  # what the CUDA programs include, file by file: a new header makes no capture stale
    *(f"cuda/common/{name}.cuh" for name in ("check", "device", "oscillator", "timing")),
    *(f"cuda/common/{name}.hpp" for name in ("args", "json", "nvtx")),
    "labcode/kernels/build.py:FLAGS",
)


def workloads(*names: str) -> tuple[str, ...]:
    """Sources of a workload: its own modules. What all share (the command line) does not count."""
    return tuple(f"labcode/workloads/**/{name}.py" for name in names)


def variant_run(
    name: str, *args: str, variant: str | None = None, tool_args: tuple[str, ...] = (), clean: bool = True
) -> Run:
    """A run of the variant of its own name, or of another one."""
    return Run(name, ("--variant", variant or name, *args), tool_args, clean)
