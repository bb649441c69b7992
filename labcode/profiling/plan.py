"""A script, a tool and a number of GPUs in; the exact command of launchers and profilers out.

Launchers start the ranks (``torchrun``, ``deepspeed``, on a cluster ``srun``), profilers record them; here
their words are put in order:

.. code-block:: text

    torchrun … python -m labcode.profiling.rank … -- nsys profile … -- python train.py
"""

import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args

from labcode.errors import LabError
from labcode.profiling.rank import LOCAL_RANK
from labcode.record import ncu, nsys, power, torch
from labcode.tools import find_ncu, find_nsys

Mode = Literal["auto", "single", "multi-gpu", "multi-node", "deepspeed"]
Tool = Literal["nsys", "ncu", "torch", "energy"]
MODES, TOOLS = get_args(Mode), get_args(Tool)
RECORDERS: dict[str, ModuleType] = {"nsys": nsys, "ncu": ncu, "torch": torch, "energy": power}
ENDS = ".ends"  # the folder in which ranks say how they ended
_NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
_HEAD = '"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
_PORT = 29500  # torchrun's and DeepSpeed's own


@dataclass(frozen=True)
class Wishes:
    """What is asked for: a script (a module's name with ``module``) with its arguments, how to run it, what
    records it, and what part of it.

    ``gpus`` is the number of ranks per node, one per GPU (with ``cpu``: one per process); ``rendezvous`` is
    ``HOST:PORT``. ``delay_s`` and ``duration_s`` limit the recording in time, ``within`` to an NVTX range,
    ``warmup`` and ``steps`` to steps of an optimizer. ``kernel`` is a regular expression, ``tool_args`` go to
    the tool.
    """

    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    mode: Mode = "auto"
    tool: Tool = "nsys"
    gpus: int | None = None
    nodes: int | None = None
    cpu: bool = False
    rendezvous: str = ""
    output: Path | None = None
    delay_s: float | None = None
    duration_s: float | None = None
    within: str = ""
    warmup: int = 3
    steps: int = 5
    kernel: str = ""
    launches: int = 5
    rank: int = 0
    tool_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Slurm:
    """The allocation that this is run in: its nodes, GPUs of each (0: not said), first host, a free port."""

    nodes: int
    gpus: int
    head: str
    port: int


@dataclass(frozen=True)
class Plan:
    """What will be run: ``command``, which writes captures ``folder/name…``; it starts ``ranks``, of which
    ``recorded`` leave a capture each. They say in ``ends`` how they ended. ``elsewhere``: other nodes start
    ranks, too; ``others`` are lines for people: the same by SLURM.
    """

    mode: Mode
    tool: Tool
    command: tuple[str, ...]
    folder: Path
    name: str
    ranks: int
    recorded: int
    ends: Path
    elsewhere: bool = False
    others: tuple[str, ...] = field(default=())
    program: int = 0  # where in ``command`` the program begins that the tool starts; 0: a launcher starts it

    @property
    def suffix(self) -> str:
        """How the names of its captures end."""
        suffix: str = RECORDERS[self.tool].SUFFIX
        return suffix

    def lines(self) -> list[str]:
        """The commands as a shell takes them."""
        return [f"mkdir -p {shlex.quote(str(self.folder))}", shlex.join(self.command), *self.others]


def choose_mode(wishes: Wishes, slurm: Slurm | None = None) -> Mode:
    """The mode that ``auto`` stands for: by the nodes, by what the script imports, by the GPUs."""
    if wishes.mode != "auto":
        return wishes.mode
    if (wishes.nodes or (slurm.nodes if slurm else 1)) > 1:
        return "multi-node"
    several = (wishes.gpus or 1) > 1
    if several and not wishes.module and _imports_deepspeed(Path(wishes.script)):
        return "deepspeed"
    return "multi-gpu" if several else "single"


def check(wishes: Wishes, mode: Mode) -> None:
    """`LabError` for wishes that make no sense together, and for a script that is not there."""
    tool = wishes.tool
    if not wishes.module:
        _program(wishes)
    if mode == "single" and (wishes.gpus or 1) > 1:
        raise LabError(f"--mode single --gpus {wishes.gpus}: one process uses one GPU; say --mode multi-gpu")
    if mode in ("single", "multi-gpu") and (wishes.nodes or 1) > 1:
        raise LabError(f"--mode {mode} --nodes {wishes.nodes}: several nodes take --mode multi-node")
    if mode == "deepspeed" and (wishes.nodes or 1) > 1:
        raise LabError(
            "--mode deepspeed --nodes: over several nodes start the script with --mode multi-node; "
            "deepspeed.initialize reads torchrun's variables"
        )
    if wishes.rendezvous:
        if mode != "multi-node":
            raise LabError(f"--rendezvous {wishes.rendezvous}: it is for --mode multi-node")
        host_port(wishes.rendezvous)
    if "--" in wishes.tool_args:
        raise LabError("--tool-arg=--: name an option of the tool")
    timed = wishes.delay_s is not None or wishes.duration_s is not None
    if tool in ("ncu", "energy") and timed:
        raise LabError(
            f"--delay, --duration: not with --tool {tool}, which takes "
            + ("kernels: choose them by --range and --kernel" if tool == "ncu" else "the whole run")
        )
    if tool in ("torch", "energy") and wishes.within:
        raise LabError(f"--range: not with --tool {tool}; it is for nsys and ncu")
    if wishes.kernel and tool != "ncu":
        raise LabError("--kernel: it is for --tool ncu; others record all kernels")
    if tool == "ncu":
        _check_kernel(wishes, alone=mode == "single")
    if tool == "torch":
        torch.check_warmup(wishes.warmup)


def _check_kernel(wishes: Wishes, *, alone: bool) -> None:
    if not wishes.kernel:
        raise LabError(
            "--tool ncu: name the kernels with --kernel REGEX, for each launch is run many times over; "
            "`labcode stats -r cuda_gpu_kern_sum` of a capture by nsys lists them"
        )
    try:
        pattern = re.compile(wishes.kernel)
    except re.error as error:
        raise LabError(f"--kernel {wishes.kernel}: no regular expression ({error})") from None
    if not alone and pattern.search(_NCCL):
        raise LabError(
            f"--kernel {wishes.kernel}: it also matches kernels of NCCL, which wait for other ranks: "
            "replayed on one rank alone they never end; name others"
        )


def make(wishes: Wishes, *, gpus: int, slurm: Slurm | None = None) -> Plan:
    """The plan for checked wishes, with ``gpus`` ranks per node; a missing tool gets its bare name."""
    mode = choose_mode(wishes, slurm)
    name = wishes.script.rpartition(".")[2] if wishes.module else Path(wishes.script).stem
    folder = (wishes.output or Path(f"{name}-{wishes.tool}")).absolute()
    if mode == "single":
        tool, program = _recorded(wishes, folder, name, "")
        ends = folder / ENDS
        return Plan(mode, wishes.tool, (*tool, *program), folder, name, 1, 1, ends, program=len(tool))
    nodes = wishes.nodes or (slurm.nodes if slurm else 1) if mode == "multi-node" else 1
    if mode == "deepspeed":
        wishes = replace(wishes, args=(LOCAL_RANK, *wishes.args))
    ends = folder / (f"{ENDS}-{os.getpid()}" if wishes.rendezvous else ENDS)  # nodes may share the folder
    ranked = _ranked(wishes, folder, name, ends)
    if mode == "deepspeed":
        started = (_launcher("deepspeed"), f"--num_gpus={gpus}", f"--master_port={_free_port()}")
        command = (*started, "--no_local_rank", "--no_python", *ranked)
    elif mode == "multi-gpu":
        command = (*_torchrun(), "--standalone", f"--nproc-per-node={gpus}", "--no-python", *ranked)
    else:
        plan = Plan(mode, wishes.tool, ranked, folder, name, gpus, gpus, ends)
        return _several_nodes(wishes, plan, nodes, slurm)
    return Plan(mode, wishes.tool, command, folder, name, gpus, _recorded_of(wishes.tool, gpus, 1), ends)


def _several_nodes(wishes: Wishes, plan: Plan, nodes: int, slurm: Slurm | None) -> Plan:
    """The plan of one node or, in an allocation of SLURM, of all of them."""
    srun = ("srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1")
    meeting = wishes.rendezvous or (f"{slurm.head}:{slurm.port}" if slurm else f"HOST:{_PORT}")

    def torchrun(endpoint: str) -> tuple[str, ...]:
        return (
            *_torchrun(),
            f"--nnodes={nodes}",
            f"--nproc-per-node={plan.ranks}",
            "--rdzv-backend=c10d",
            f"--rdzv-id={plan.name}",
            f"--rdzv-endpoint={endpoint}",
            "--no-python",
            *plan.command,
        )

    alone = bool(wishes.rendezvous) or slurm is None
    here = plan.ranks if alone else plan.ranks * nodes
    by_slurm = shlex.join((*srun, *torchrun("@"))).replace(
        "--rdzv-endpoint=@", f"--rdzv-endpoint={_HEAD}:{_PORT}"
    )
    return Plan(
        plan.mode,
        plan.tool,
        torchrun(meeting) if alone else (*srun, *torchrun(meeting)),
        plan.folder,
        plan.name,
        here,
        _recorded_of(plan.tool, here, 1 if alone else nodes, maybe_elsewhere=alone),
        plan.ends,
        alone,
        (f"# the same on each of the {nodes} nodes; in an allocation of SLURM instead, once:", by_slurm)
        if alone
        else (),
    )


def _recorded_of(tool: Tool, ranks: int, nodes: int, *, maybe_elsewhere: bool = False) -> int:
    """How many captures there will be: of every rank, of one rank, of one rank a node."""
    return {"ncu": 0 if maybe_elsewhere else 1, "energy": nodes}.get(tool, ranks)


def _ranked(wishes: Wishes, folder: Path, name: str, ends: Path) -> tuple[str, ...]:
    """The words that each rank runs: `labcode.profiling.rank`, the tool, the program."""
    tool, program = _recorded(wishes, folder, name, ".rank%q{RANK}")
    which = {"ncu": (f"--only={wishes.rank}",), "energy": ("--first",)}.get(wishes.tool, ())
    return (
        sys.executable,
        "-m",
        "labcode.profiling.rank",
        f"--ends={ends}",
        *which,
        "--",
        *tool,
        "--",
        *program,
    )


def _recorded(wishes: Wishes, folder: Path, name: str, rank: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the tool, and those of the program under it."""
    target = f"{folder / name}{rank}"
    program = _program(wishes)
    more = wishes.tool_args
    timed = (wishes.delay_s, wishes.duration_s)
    if wishes.tool == "torch":
        if program[0] != sys.executable:
            raise LabError(f"{wishes.script}: --tool torch is for Python scripts (.py); say --tool nsys")
        return (), (*torch.window(folder / name, wishes.warmup, wishes.steps, *timed), *more, *program[1:])
    if wishes.tool == "energy":
        file = f"--output={target}{power.SUFFIX}"
        return (sys.executable, "-m", "labcode", "energy", "--quiet", file, *more, "--"), program
    if wishes.tool == "nsys":
        options = [*nsys.PLAIN, *nsys.bounds(*timed, wishes.within), *more]
        return tuple(nsys.command(find_nsys() or "nsys", options, target)), program
    options = [*ncu.chosen(wishes.kernel, wishes.launches, wishes.within), *more]
    return tuple(ncu.command(find_ncu() or "ncu", options, f"{target}{ncu.SUFFIX}")), program


def missing(wishes: Wishes, mode: Mode) -> str:
    """How to get what the plan needs and is not here; '' where all is."""
    lacking: str = RECORDERS[wishes.tool].missing()
    if lacking:
        return lacking
    if mode == "deepspeed" and "/" not in _launcher("deepspeed"):
        return (
            "deepspeed: not found; `python -m pip install deepspeed`, or start the script with "
            "--mode multi-gpu, by torchrun"
        )
    if mode in ("multi-gpu", "multi-node") and torch.missing():
        return "torchrun: it is part of PyTorch, which is not installed here; `python -m pip install torch`"
    return ""


def _torchrun() -> tuple[str, ...]:
    return sys.executable, "-m", "torch.distributed.run"


def _launcher(name: str) -> str:
    """A launcher that a package installs, beside this Python or on the PATH, or its bare name."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.is_file() else shutil.which(name) or name


def _program(wishes: Wishes) -> tuple[str, ...]:
    """The user's program and arguments: a Python script, a module, or what the shell would find."""
    if wishes.module:
        return (sys.executable, "-m", wishes.script, *wishes.args)
    script = Path(wishes.script)
    if script.suffix == ".py":
        if not script.is_file():
            raise LabError(f"{script}: no such script; check the path")
        return (sys.executable, wishes.script, *wishes.args)
    found = shutil.which(wishes.script)
    if found is None:
        raise LabError(f"{script}: neither a Python script (.py) nor a program; check the path")
    return (found, *wishes.args)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _imports_deepspeed(script: Path) -> bool:
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(r"^\s*(from\s+deepspeed\b|import\s[^#\n]*\bdeepspeed\b)", text, re.MULTILINE) is not None


def host_port(text: str) -> tuple[str, int]:
    """``HOST:PORT`` in two; `LabError` for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise LabError(f"--rendezvous {text}: name a host and a port, as in node01:{_PORT}")
    return host, int(port)


def known(name: str, value: str, values: Sequence[str]) -> str:
    """A value that is one of those there are; `LabError` for another."""
    if value not in values:
        raise LabError(f"{name} {value}: there are {', '.join(values)}")
    return value
