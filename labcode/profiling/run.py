"""A plan in; its program run to the end, what it captured told and diagnosed, and an exit code out."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from labcode import tools
from labcode.errors import LabError, ToolError
from labcode.hardware.needs import gpu_count
from labcode.outputs import private_folder
from labcode.profiling.plan import (
    Mode,
    Plan,
    Slurm,
    Wishes,
    check,
    choose_mode,
    host_port,
    make,
    missing,
)
from labcode.record.attend import LIMIT, attend, ending
from labcode.record.began import marked
from labcode.record.nsys import RECORDING as _RAW
from labcode.show import byte_text

TIMED_OUT = 124  # the exit code, as of timeout(1)
PROFILED = "LABCODE_PROFILED"


@dataclass(frozen=True)
class End:
    """How a rank's program ended: exit code, the signal its launcher had sent before (0: none), when."""

    rank: int
    code: int
    asked: int
    at: float
    seconds: float
    unseen: bool = False  # the tool failed before it started the program


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the launcher's code, seconds, why it was ended from outside ('': it was not), whether
    the tool failed before it started the program."""

    code: int
    seconds: float
    cut: str
    ends: tuple[End, ...]
    tool_failed: bool = False

    @property
    def exit_code(self) -> int:
        """The program's: of several ranks that of the one which failed first; 2 where the tool failed."""
        if self.cut == LIMIT:
            return TIMED_OUT
        first = self.first_to_fail
        if self.tool_failed or (first is not None and first.unseen and not self.cut):
            return 2
        return self.code if self.cut or first is None else first.code

    @property
    def first_to_fail(self) -> End | None:
        """The rank that failed on its own before all others, which the launcher ended for it."""
        failed = [end for end in self.ends if end.code and not end.asked]
        return min(failed, key=lambda end: end.at, default=None)


def planned(wishes: Wishes, *, dry: bool) -> Plan:
    """The plan for what is asked for, on this machine; ``dry``: without a look at its GPUs.

    Raises `LabError` for wishes that make no sense, `ToolError` where a tool is missing (a dry plan names
    it on stderr), and where there are fewer GPUs than asked for.
    """
    slurm = allocation(os.environ)
    mode = choose_mode(wishes, slurm)
    check(wishes, mode)
    if lacking := missing(wishes, mode):
        if not dry:
            raise ToolError(lacking)
        print(f"note: {lacking}", file=sys.stderr)
    if mode == "multi-node" and not (wishes.rendezvous or slurm or dry):
        raise LabError(
            "--mode multi-node: say where the nodes meet with --rendezvous HOST:PORT, and start the same on "
            "each; with SLURM, submit cluster/profile.sbatch"
        )
    by_srun = mode == "multi-node" and slurm is not None and not wishes.rendezvous
    if wishes.rendezvous and not dry:
        refuse_taken_port(wishes.rendezvous)
    if slurm is not None and by_srun:
        count = wishes.gpus or slurm.gpus
        if not count:
            raise LabError("--mode multi-node: SLURM does not say how many GPUs a node has; say --gpus N")
        plan = make(wishes, gpus=count, slurm=slurm)
    else:
        plan = make(wishes, gpus=_ranks(wishes, mode, dry=dry))
    if wishes.rank >= plan.ranks and not plan.elsewhere:
        raise LabError(f"--rank {wishes.rank}: there are {plan.ranks} ranks, numbered from 0")
    return plan


def _ranks(wishes: Wishes, mode: Mode, *, dry: bool) -> int:
    """How many ranks this machine gets, one per GPU; `LabError` where there are fewer GPUs."""
    if wishes.cpu or (dry and (wishes.gpus or mode == "single")):
        return wishes.gpus or 1
    there, visible = gpu_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    wanted = wishes.gpus or (1 if mode == "single" else max(there, 1))
    if there >= wanted:
        return wanted
    if visible is not None and not visible.strip(","):
        raise LabError(
            "CUDA_VISIBLE_DEVICES is empty, which hides every GPU; unset it, or profile without GPUs (--cpu)"
        )
    shown = f" (CUDA_VISIBLE_DEVICES={visible})" if visible else ""
    asked = "1 GPU is" if wanted == 1 else f"{wanted} GPUs are"
    raise LabError(
        f"{asked} asked for and {there} can be used here{shown}; say a smaller --gpus, or profile without "
        "GPUs (--cpu)"
    )


def allocation(environment: Mapping[str, str]) -> Slurm | None:
    """The allocation of SLURM that this runs in, None outside."""
    job = environment.get("SLURM_JOB_ID", "")
    if not job.isdecimal() or "SLURM_JOB_NODELIST" not in environment:
        return None
    head = environment.get("SLURMD_NODENAME") or "localhost"
    with suppress(ToolError):
        listed = tools.run_tool(["scontrol", "show", "hostnames", environment["SLURM_JOB_NODELIST"]], 30)
        head = listed.stdout.split()[0] if listed.stdout.split() else head
    gpus = environment.get("SLURM_GPUS_ON_NODE", "")
    nodes = environment.get("SLURM_JOB_NUM_NODES", "1")
    return Slurm(int(nodes), int(gpus) if gpus.isdecimal() else 0, head, 20000 + int(job) % 10000)


def refuse_nesting(environment: Mapping[str, str]) -> None:
    """`LabError` where this process runs under a profiler already."""
    under = environment.get(PROFILED)
    if under is None and "NSYS_PROFILING_SESSION_ID" in environment:
        under = "nsys"
    if under is None and "NV_COMPUTE_PROFILER_PERFWORKS_DIR" in environment:
        under = "ncu"
    if under is not None:
        raise LabError(
            f"profile: this runs under a profiler already ({under}), and profilers do not nest; "
            "start it outside"
        )


def refuse_taken_port(rendezvous: str) -> None:
    """`LabError` where something that is no store of PyTorch listens where the nodes are to meet, on this
    machine: torchrun would wait for ever."""
    host, port = host_port(rendezvous)
    if _can_listen(host, port) or not _can_listen(host, 0):
        return  # free, or not of this machine
    if not _is_store(host, port):
        raise LabError(
            f"--rendezvous {rendezvous}: the port is in use by another program; choose another port"
        )


def _can_listen(host: str, port: int) -> bool:
    with socket.socket() as server, suppress(OSError):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        return True
    return False


def _is_store(host: str, port: int) -> bool:
    """Whether a `torch.distributed.TCPStore` listens there: it returns the number of a ping."""
    number = os.getpid().to_bytes(4, "little")
    with suppress(OSError), socket.create_connection((host, port), 1) as one:
        one.sendall(b"\0" + (0x3C85F7CE).to_bytes(4, "little") + bytes([13]) + number)
        return one.recv(4) == number
    return False


def prepare(plan: Plan, *, force: bool) -> None:
    """Make the folder; `LabError` where captures of another run lie in it, unless ``force`` removes them."""
    old = captures(plan) if plan.folder.is_dir() else []
    if old and not force:
        raise LabError(
            f"{plan.folder}: {old[0].name} lies there already; overwrite with --force or name another folder "
            "with --output"
        )
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LabError(f"{plan.folder}: a file, not a folder; name a folder with --output") from None
    for path in (*old, *plan.folder.glob(f".{plan.name}*{plan.suffix}")):  # hidden: what a killed run left
        path.unlink()


def captures(plan: Plan) -> list[Path]:
    """What lies in the folder of a plan of its tool, by rank."""
    kinds = (plan.suffix, _RAW) if plan.tool == "nsys" else (plan.suffix,)
    found = [path for path in plan.folder.glob(f"{plan.name}.*") if path.name.endswith(kinds)]
    reports = {path.with_suffix("") for path in found if path.suffix != _RAW}
    found = [path for path in found if path.suffix != _RAW or path.with_suffix("") not in reports]
    return sorted(found, key=lambda path: (rank_of(path), path.name))


def rank_of(path: Path) -> int:
    """The rank in the name of a capture, 0 where there is none."""
    for part in path.name.split("."):
        if part.startswith("rank") and part[4:].isdecimal():
            return int(part[4:])
    return 0


def execute(plan: Plan, *, limit_s: float | None) -> Outcome:
    """Run a plan's command. At the limit, on Ctrl-C and other signals it is asked to end, and after `GRACE_S`
    it and all that it started are killed."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, tools.MARK: mark, PROFILED: plan.tool}
    shutil.rmtree(plan.ends, ignore_errors=True)
    with private_folder() as work:
        began = work / "began"

        def start() -> subprocess.Popen[bytes]:
            words = [*plan.command[: plan.program], *marked(plan.command[plan.program :], began)]
            try:
                return subprocess.Popen(words if plan.program else plan.command, env=environment)
            except OSError as error:
                name = plan.command[0]
                raise ToolError(f"{name}: cannot be started ({error.strerror}); check it") from None

        ended = attend(start, limit_s=limit_s, mark=mark)
        unseen = bool(plan.program) and not began.exists()
    found = tuple(sorted(_ends(plan.ends), key=lambda end: end.rank))
    shutil.rmtree(plan.ends, ignore_errors=True)
    code = 128 + ended.signals[0] if ended.cut not in ("", LIMIT) else ended.code
    return Outcome(code, ended.seconds, ended.cut, found, unseen and bool(code) and not ended.cut)


def _ends(folder: Path) -> list[End]:
    found = []
    for path in folder.glob("rank*.json"):
        with suppress(ValueError, KeyError, OSError):
            one = json.loads(path.read_text(encoding="utf-8"))
            asked = one["asked"][0] if one["asked"] else 0
            found.append(End(one["rank"], one["code"], asked, one["at"], one["seconds"], one["unseen"]))
    return found


def mark_partial(plan: Plan, outcome: Outcome) -> list[Path]:
    """Captures of ranks that did not end well get ``.partial`` into their names; all captures, by rank.

    Of torch.profiler's traces the recorder itself says which are whole. Those of other nodes are left alone.
    """
    codes = {end.rank: end.code for end in outcome.ends}
    for path in captures(plan):
        code = codes.get(rank_of(path), 0 if plan.elsewhere else outcome.exit_code)
        if (code or path.name.endswith(_RAW)) and ".partial." not in path.name and plan.tool != "torch":
            suffix = next(kind for kind in (plan.suffix, _RAW) if path.name.endswith(kind))
            path.rename(path.with_name(f"{path.name.removesuffix(suffix)}.partial{suffix}"))
    return [path for path in captures(plan) if not plan.elsewhere or rank_of(path) in codes]


def tell(plan: Plan, outcome: Outcome, found: Sequence[Path], limit_s: float | None, out: TextIO) -> None:
    """Write how the run ended and what it left."""
    lines = [_how(plan, outcome, limit_s), *_failures(plan, outcome)]
    for path in found:
        note = " (partial: it ends where the program was ended)" if ".partial." in path.name else ""
        lines.append(f"captured: {_near(path)}, {byte_text(path.stat().st_size)}{note}")
    if len(found) < plan.recorded:
        absent = f"{plan.recorded - len(found)} of {plan.recorded} captures are missing"
        lines.append(f"{absent}: see above what {plan.tool} said")
    out.writelines(f"{line}\n" for line in lines)


def _how(plan: Plan, outcome: Outcome, limit_s: float | None) -> str:
    ranks = f" on {plan.ranks} ranks" if plan.ranks > 1 else ""
    if plan.elsewhere and outcome.ends:
        ranks = f" on this node, rank {', '.join(str(end.rank) for end in outcome.ends)} of the run"
    head = f"labcode profile: {plan.name} by {plan.tool}{ranks}, {outcome.seconds:.1f} s: "
    if outcome.cut == LIMIT:
        return f"{head}ended at the time limit of {limit_s:g} s (--limit)"
    if outcome.cut:
        return f"{head}ended by {outcome.cut}"
    if plan.ranks > 1 and outcome.first_to_fail is not None:
        return f"{head}failed"
    if outcome.tool_failed:
        return f"{head}{_blamed(plan, outcome.code)}"
    return head + ("done" if not outcome.exit_code else ending(outcome.exit_code))


def _blamed(plan: Plan, code: int) -> str:
    """What is said of a tool that failed by itself."""
    return f"{plan.tool} {ending(code)} and did not start the program; see above what it said"


def _failures(plan: Plan, outcome: Outcome) -> list[str]:
    """Which rank failed, why, and what became of the others."""
    first = outcome.first_to_fail
    if plan.ranks == 1 or first is None or outcome.cut:
        return []
    how = _blamed(plan, first.code) if first.unseen else ending(first.code)
    lines = [f"rank {first.rank} was the first to end, after {first.seconds:.1f} s: {how}"]
    others = [end for end in outcome.ends if end is not first and end.code]
    asked = [str(end.rank) for end in others if end.asked]
    if asked:
        lines.append(f"ended by the launcher for it: rank {', '.join(asked)}")
    lines += [f"failed after it: rank {end.rank}, {ending(end.code)}" for end in others if not end.asked]
    known = {end.rank for end in outcome.ends}
    if plan.ranks > len(known) and known <= set(range(plan.ranks)):
        gone = ", ".join(str(rank) for rank in range(plan.ranks) if rank not in known)
        lines.append(f"killed without a word: rank {gone}")
    return lines


@contextmanager
def rules_meanwhile() -> Iterator[None]:
    """Import what `diagnose` takes, most of its time, while the program runs; of the lowest priority, so that
    it takes nothing from the program.
    """

    def work() -> None:
        if sys.platform == "linux":  # elsewhere a thread has no priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        from labcode.verbs.diagnose import verdicts as verb

        verb.gather(())

    importing = threading.Thread(target=work)
    importing.start()
    try:
        yield
    finally:
        importing.join()


def diagnose(plan: Plan, found: Sequence[Path], out: TextIO) -> None:
    """Write what the rules say about the captures: of several ranks together, and about one alone: the first
    that is whole, or the one that holds most.
    """
    from labcode.verbs.diagnose import verdicts as verb

    subjects = [path for path in found if not path.name.endswith(_RAW)]
    if len(subjects) > 1 and plan.tool != "ncu":
        whole = [path for path in subjects if ".partial." not in path.name]
        alone = whole[0] if whole else max(subjects, key=lambda path: path.stat().st_size)
        subjects = [plan.folder, *([] if plan.tool == "torch" else [alone])]
    for path in subjects:
        out.write(f"\nlabcode diagnose {_near(path)}\n")
        try:
            verb.run(path, fmt="table", only=[], output=out, notes=out)
        except LabError as error:
            out.write(f"{error}\n")


def _near(path: Path) -> str:
    """A path as it is shorter: from here, or whole."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
