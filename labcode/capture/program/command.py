"""`labcode record`: a command in; what the tools recorded of it, as files in a folder, and its exit code out.

The command runs once for each tool, for two profilers cannot watch one process: nsys and torch.profiler both
take CUPTI for themselves. It talks to the terminal as ever, and signals go to it.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from labcode.capture.nsys import export
from labcode.ending import passing_on
from labcode.errors import LabError, ToolError
from labcode.hardware.needs import gpu_count
from labcode.meter.command import neutral, start
from labcode.meter.gpus import open_gpus
from labcode.meter.meter import Meter
from labcode.outputs import private_folder
from labcode.reports.power.schema import COMMAND
from labcode.tools import find_nsys, require_nsys, run_tool

LOG = ".nsys.log"
SUFFIXES = {"nsys": ".sqlite", "torch": ".trace.json.gz"}
NSYS = ("--trace=cuda,nvtx,osrt", "--cpuctxsw=none", "--force-overwrite=true")
# Which line did what: samples of Python, of all threads and child processes, every 2 ms. Backtraces of CUDA
# calls (--python-backtrace=cuda) would name the line of each call, but they unwind native stacks, too: a loop
# of short launches took three times as long.
LINES = ("--sample=none", "--python-sampling=true", "--python-sampling-frequency=500")
NO_LINES = ("--sample=none",)
_TOLD = '"$@"{past}; code=$?; echo $code > "$0"; exit $code'  # nsys may end with a code of its own
_WITH_VALUE = ("-W", "-X")
_Run = tuple[Path | None, int]  # what was recorded, the exit code
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?")


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
    nsys = find_nsys() is not None
    chosen = list(dict.fromkeys(asked)) or (["nsys"] if nsys and gpu_count() else ["torch"])
    if "nsys" in chosen:
        require_nsys()
    if "torch" in chosen and (lacking := _lacking(words)):
        if not asked and nsys:
            return ["nsys"]
        raise ToolError(lacking if asked else f"nsys: not found, and {lacking}")
    return chosen


def _lacking(words: Sequence[str]) -> str:
    """Why torch.profiler cannot record a command; '' where it can."""
    interpreter = _split(words)[0]
    if not interpreter:
        return (
            f"{words[0]}: not a program of Python, so torch.profiler cannot record it; install "
            "Nsight Systems and use --tool nsys"
        )
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    if run_tool([interpreter[0], "-c", look], 30.0).returncode != 0:
        return f"{interpreter[0]}: has no PyTorch; install it, or use --tool nsys"
    return ""


def names(name: str, tools: Sequence[str], *, energy: bool) -> list[str]:
    """The files that `record` makes."""
    suffixes = [SUFFIXES[tool] for tool in tools] + [LOG] * ("nsys" in tools) + [".power.json"] * energy
    return [f"{name}{suffix}" for suffix in suffixes]


def record(
    words: Sequence[str],
    folder: Path,
    name: str,
    *,
    tools: Sequence[str],
    energy: bool = False,
    lines: bool = True,
) -> Recorded:
    """Run a command under each tool and leave files ``folder/name…``; with ``energy`` also a power log.

    ``lines``: with stacks, so that verdicts can name lines of the program. Raises `ToolError` where the
    command or a tool cannot be started.
    """
    meter = Meter(open_gpus(), period_s=0.1) if energy else None
    files: list[Path] = []
    notes: list[str] = []
    code = 0
    for place, tool in enumerate(tools):
        metered = meter if place == 0 else None
        if tool == "nsys":
            made, ended, said = _under_nsys(words, folder, name, metered, lines=lines)
            notes += said
        else:
            made, ended = _under_torch(words, folder, name, metered, lines=lines)
        code = code or ended
        if made is None:
            notes.append(f"{tool}: the program ended with exit code {ended} before anything was recorded")
        else:
            files.append(made)
    if meter is not None:
        document = meter.document(command=neutral(words), exit_code=code)
        from labcode.reports.power.schema import write_document

        log = folder / f"{name}.power.json"
        write_document(document, log)
        files.append(log)
    return Recorded(tuple(files), code, tuple(notes))


def _under_nsys(
    words: Sequence[str], folder: Path, name: str, meter: Meter | None, *, lines: bool
) -> tuple[Path | None, int, list[str]]:
    """The export, the program's exit code, and what there is to say.

    Where nsys does not know or may not use what `LINES` asks for, and so did not start the program, it is
    started without.
    """
    nsys = require_nsys()
    if shutil.which(words[0]) is None:
        raise ToolError(f"{words[0]}: not found; check the command after --")
    report, exported = folder / f"{name}.nsys-rep", folder / f"{name}.sqlite"
    log, notes = folder / f"{name}{LOG}", []
    for more in (LINES, NO_LINES) if lines else (NO_LINES,):
        with private_folder() as work, _passed_by() as (out, err):
            told = work / "code"
            profiled = [str(nsys), "profile", *NSYS, *more, f"--output={report.with_suffix('')}"]
            # what the program prints goes past nsys' log; only bash knows descriptors of two digits
            bash = shutil.which("bash") is not None
            script = _TOLD.format(past=f" >&{out} 2>&{err}" if bash else "")
            program = ["bash" if bash else "sh", "-c", script, str(told), *words]
            ended = _attend([*profiled, *program], meter, log=log if bash else None, keep=(out, err))
            ran = told.is_file() and told.stat().st_size > 0
            code = int(told.read_text()) if ran else ended
        if ran or report.is_file() or more == NO_LINES:
            break
        notes.append(f"nsys: without lines of the program, for it said: {_last_line(log)}")
    if not report.is_file():
        if ran and code:
            return None, code, notes
        raise ToolError(
            f"{name}: nsys made no report{'' if ran else ' and did not start the program'}; "
            f"its last words: {_last_line(log)}"
        )
    export(nsys, report, exported, what=name)
    report.unlink()
    return exported, code, notes


def _under_torch(words: Sequence[str], folder: Path, name: str, meter: Meter | None, *, lines: bool) -> _Run:
    interpreter, program = _split(words)
    trace = folder / f"{name}.trace.json.gz"
    runner = Path(__file__).with_name("under_torch.py")
    code = _attend([*interpreter, str(runner), str(trace), "lines" if lines else "", *program], meter)
    if not trace.is_file() and not code:
        raise ToolError(f"{name}: torch.profiler left no trace; the program ended by os._exit")
    return (trace if trace.is_file() else None), code


@contextmanager
def _passed_by() -> Iterator[tuple[int, int]]:
    """Copies of stdout and stderr that programs inherit, as numbers a shell can write."""
    copies = [os.dup(number) for number in (1, 2)]
    try:
        yield copies[0], copies[1]
    finally:
        for copy in copies:
            os.close(copy)


def _last_line(log: Path) -> str:
    """What a tool said last, with its progress bars left out."""
    said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    told = [line.strip() for line in re.split(r"[\r\n]+", said) if line.strip() and "%" not in line]
    return told[-1][:300] if told else "nothing"


def _attend(
    words: Sequence[str], meter: Meter | None, *, log: Path | None = None, keep: Sequence[int] = ()
) -> int:
    """Run to the end, signals passed on; the exit code, 128 and its number for a signal.

    What a tool itself says goes to ``log``; ``keep``: descriptors that it inherits.
    """
    with meter or nullcontext(), log.open("wb") if log is not None else nullcontext() as said:
        if meter is not None:
            meter.begin(COMMAND)
        try:
            with passing_on() as started:
                process = start(words, said.fileno() if said is not None else None, keep=keep)
                started(process)
                code = process.wait()
        finally:
            if meter is not None:
                meter.end(COMMAND)
    return code if code >= 0 else 128 - code


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """``python -u train.py --lr 1`` as the interpreter with its options and the program with its own; nothing
    for another command, or code that is given in the command (``-c``)."""
    if not _PYTHON.fullmatch(Path(words[0]).name):
        return [], []
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "-c", "-"):
        place += 2 if words[place] in _WITH_VALUE else 1
    if place >= len(words) or words[place] in ("-c", "-"):
        return [], []
    return list(words[:place]), list(words[place:])
