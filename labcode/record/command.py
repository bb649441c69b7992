"""`labcode record`: a command in; what the tools recorded of it, as files in a folder, and its exit code out.

The command runs once for each tool, for two profilers cannot watch one process: nsys and torch.profiler both
take CUPTI for themselves. It talks to the terminal as ever, and signals go to it.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import LabError, ToolError
from labcode.hardware.needs import gpu_count
from labcode.meter.gpus import open_gpus
from labcode.meter.meter import Meter
from labcode.record import nsys, power, torch
from labcode.record.attend import neutral
from labcode.tools import find_nsys, require_nsys

EXPORT = ".sqlite"
SUFFIXES = {"nsys": (EXPORT, nsys.LOG), "torch": (torch.SUFFIX,)}


@dataclass(frozen=True)
class Recorded:
    """What came of a command: the files, its exit code (of several runs the first that is not 0), and what
    there is to say, a line each."""

    files: tuple[Path, ...]
    code: int
    notes: tuple[str, ...]


def tools_for(words: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The tools to record with: those asked for, else nsys where it and a GPU are at hand, else
    torch.profiler for a program of Python that has PyTorch, else nsys.

    `LabError` for a tool there is not, `ToolError` where the command cannot be recorded with one.
    """
    for tool in asked:
        if tool not in SUFFIXES:
            raise LabError(f"--tool {tool}: choose {' or '.join(SUFFIXES)}, or both by naming it twice")
    there = find_nsys() is not None
    chosen = list(dict.fromkeys(asked)) or (["nsys"] if there and gpu_count() else ["torch"])
    if "nsys" in chosen:
        require_nsys()
    if "torch" in chosen and (lacking := torch.lacking(words)):
        if not asked and there:
            return ["nsys"]
        raise ToolError(lacking if asked else f"nsys: not found, and {lacking}")
    return chosen


def names(name: str, tools: Sequence[str], *, energy: bool) -> list[str]:
    """The files that `record` makes."""
    suffixes = [suffix for tool in tools for suffix in SUFFIXES[tool]] + [power.SUFFIX] * energy
    return [f"{name}{suffix}" for suffix in suffixes]


def record(
    words: Sequence[str],
    folder: Path,
    name: str,
    *,
    tools: Sequence[str],
    energy: bool = False,
    lines: bool = True,
    limit_s: float | None = None,
) -> Recorded:
    """Run a command under each tool and leave files ``folder/name…``; with ``energy`` also a power log.

    ``lines``: with stacks, so that verdicts can name lines of the program. ``limit_s``: how long it may run
    under each. Raises `ToolError` where the command or a tool cannot be started.
    """
    meter = Meter(open_gpus(), period_s=0.1) if energy else None
    files: list[Path] = []
    notes: list[str] = []
    code = 0
    for place, tool in enumerate(tools):
        metered = power.metered(meter) if meter is not None and place == 0 else nullcontext()
        with metered:
            made, ended, said = _RECORD[tool](words, folder, name, lines=lines, limit_s=limit_s)
        notes += said
        code = code or ended
        if made is None:
            notes.append(f"{tool}: the program ended with exit code {ended} before anything was recorded")
        elif tool == "nsys":
            files.append(made.with_suffix(EXPORT))
            nsys.export(require_nsys(), made, files[-1], what=name)
            made.unlink()
        else:
            files.append(made)
    if meter is not None:
        files.append(meter.write(folder / f"{name}{power.SUFFIX}", command=neutral(words), exit_code=code))
    return Recorded(tuple(files), code, tuple(notes))


_RECORD = {"nsys": nsys.record, "torch": torch.record}
