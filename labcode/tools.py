"""External programs: an argument list in, exit code and output out; where nsys, ncu and nvcc lie here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from labcode.errors import ToolError

_TAIL_BYTES = 1 << 18
_MOST_PRINTED = 1 << 28  # bytes
_LOOK_S = 0.25  # how often a running program's output is looked at
_GRACE_S = 5.0  # from the request to end to the end by force
_SHARE = 0.6  # of the time left for several programs, what one of them may take
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
_stops: ContextVar[tuple[threading.Event, ...]] = ContextVar("stops", default=())
_added: ContextVar[Mapping[str, str] | None] = ContextVar("added", default=None)
MARK = "LABCODE_CHILD_OF"  # of the environment of all that a program starts
_VERSION_DIGITS = 20
_ENDLESS = re.compile(rf"\d{{{_VERSION_DIGITS + 1},}}")
_NSYS_PLACES = (
    "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems*/*/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/opt/nvidia/nsight-compute*/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)
_NCU_PLACES = (
    "/opt/nvidia/nsight-compute*/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/cuda*/nsight-compute-*/ncu",
)


@dataclass(frozen=True)
class ToolResult:
    """How a program ended: exit code (negative: killed by that signal), the end of its output, seconds."""

    returncode: int
    stdout: str
    stderr: str
    wall_s: float

    def last_line(self) -> str:
        """The last non-empty line of stderr, or of stdout: usually the one that says why."""
        for text in (self.stderr, self.stdout):
            lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
            if lines:
                return lines[-1]
        return "it printed nothing"


def run_tool(
    argv: Sequence[str | Path],
    timeout_s: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    what: str = "",
) -> ToolResult:
    """Run a program to its end, or kill it and everything it started when ``timeout_s`` seconds have passed.

    ``env`` is added to the environment of this process; ``what`` names the job in errors. Output goes through
    files, so a daemon that keeps the program's pipe open cannot block this call. Raises `ToolError` where the
    program cannot be started, exceeds its time or prints without end, and `OSError` where the folder for
    temporary files is full. An exit code other than 0 is left to the caller. On Ctrl-C its processes are
    killed before `KeyboardInterrupt` propagates.
    """
    limit_s = timeout_s if (left := _left_s()) is None else min(timeout_s, _SHARE * left)
    words = [str(word) for word in argv]
    name = what or Path(words[0]).name
    mark = uuid.uuid4().hex
    environment = {**os.environ, **(_added.get() or {}), **(env or {}), MARK: mark}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise ToolError(f"{words[0]}: not found; install it or put it on PATH") from None
        except PermissionError:
            raise ToolError(
                f"{words[0]}: no permission to execute it; `chmod +x` it or choose another"
            ) from None
        except OSError as error:
            raise ToolError(f"{words[0]}: cannot be started ({error.strerror}); install it again") from None
        try:
            _wait(process, limit_s, (out, err))
        except _StoppedError as stopped:
            end_all(process, mark)
            raise ToolError(
                f"{name}: {stopped}, so it and all it started were stopped; "
                f"its last line: {ToolResult(-9, _tail(out), _tail(err), limit_s).last_line()}"
            ) from None
        except BaseException:
            end_all(process, mark)
            raise
        wall_s = time.monotonic() - began
        for printed in (out, err):
            _check_whole(printed)
        return ToolResult(process.returncode, _tail(out), _tail(err), wall_s)


def _check_whole(printed: IO[bytes]) -> None:
    """`OSError` where the disk had no room for all that was printed: then no byte more fits behind it."""
    size = os.fstat(printed.fileno()).st_size
    try:
        os.pwrite(printed.fileno(), b"\n", size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
    os.ftruncate(printed.fileno(), size)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Within the block, all programs together have so many seconds; each gets a share of what is left."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def guided(stop: threading.Event, env: Mapping[str, str]) -> Iterator[None]:
    """Within the block, programs started by this thread also get ``env``, and end when ``stop`` is set."""
    tokens = _stops.set((*_stops.get(), stop)), _added.set({**(_added.get() or {}), **env})
    try:
        yield
    finally:
        _stops.reset(tokens[0])
        _added.reset(tokens[1])


def _left_s() -> float | None:
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class _StoppedError(Exception):
    """Why a program was stopped."""


def _wait(process: subprocess.Popen[bytes], limit_s: float, printed: Iterable[IO[bytes]]) -> None:
    end = time.monotonic() + limit_s
    while True:
        left = end - time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(left, _LOOK_S)))
            return
        if left <= 0:
            raise _StoppedError(f"not done after {limit_s:.3g} s")
        if any(stop.is_set() for stop in _stops.get()):
            raise _StoppedError("ended on request")
        if sum(os.fstat(stream.fileno()).st_size for stream in printed) > _MOST_PRINTED:
            raise _StoppedError(f"it printed more than {_MOST_PRINTED >> 20} MiB")


def find_nsys() -> Path | None:
    """The path of ``nsys``: ``$LABCODE_NSYS``, from PATH, or in a folder of Nsight Systems or Compute."""
    return _find("nsys", "LABCODE_NSYS", [*_NSYS_PLACES, *_beside_ncu()])


def find_ncu() -> Path | None:
    """The path of Nsight Compute's ``ncu``: ``$LABCODE_NCU``, from PATH or its own folders."""
    return _find("ncu", "LABCODE_NCU", _NCU_PLACES)


def require_nsys() -> Path:
    """As `find_nsys`; raises a `ToolError` that says what to install or permit where there is none."""
    found = find_nsys()
    if found is not None:
        return found
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = Path(folder or ".") / "nsys"
        if candidate.is_file():
            raise ToolError(
                f"{candidate}: no permission to execute it; `chmod +x` it or set LABCODE_NSYS to another nsys"
            )
    raise ToolError(
        "nsys: not found; install Nsight Systems (or Nsight Compute, which brings one along) "
        "or set LABCODE_NSYS to its path"
    )


def find_nvcc() -> Path:
    """The path of the CUDA compiler: ``$CUDACXX``, ``nvcc`` from PATH, or the one in ``$CUDA_HOME``."""
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates = [os.environ.get("CUDACXX"), "nvcc", *(f"{folder}/bin/nvcc" for folder in folders if folder)]
    for candidate in candidates:
        found = shutil.which(candidate) if candidate else None
        if found:
            return Path(found)
    raise ToolError(
        "nvcc: not found; install the CUDA toolkit and put nvcc on the PATH, or set CUDACXX to it"
    )


def inside_nsight_compute(nsys: Path) -> bool:
    """Whether this nsys is the one that ships inside Nsight Compute."""
    return any(part.startswith("nsight-compute") for part in nsys.resolve().parts)


def libdw_available(nsys: Path) -> bool:
    """Whether nsys will find ``libdw.so.1``, which it needs to turn a recording into a report."""
    import ctypes

    home = nsys.resolve().parent.parent
    if any(home.glob("libdw.so*")) or any(home.glob("*/libdw.so*")):
        return True
    try:
        ctypes.CDLL("libdw.so.1")
    except OSError:
        return False
    return True


def libdw_advice(nsys: Path) -> str:
    """Advice on what to install where nsys records but cannot write its report."""
    return (
        f"the importer of {nsys} lacks libdw.so.1: install libdw1 (Debian, Ubuntu) "
        "or elfutils-libs (RHEL, Fedora), or put a copy on LD_LIBRARY_PATH"
    )


def tool_version(tool: Path, pattern: str = r"(\d+\.\d+(?:\.\d+)*)", timeout_s: float = 20.0) -> str | None:
    """The version that a tool prints for ``--version``; None where it prints none or does not start.

    Digits count where no more than `_VERSION_DIGITS` stand together: each start of a longer run is a search.
    """
    try:
        result = run_tool([tool, "--version"], timeout_s)
    except ToolError:
        return None
    printed = _ENDLESS.sub("", result.stdout + result.stderr)
    found = re.search(pattern, printed)
    return found.group(1) if found and result.returncode == 0 else None


def _find(name: str, variable: str, places: Iterable[str]) -> Path | None:
    own = os.environ.get(variable)
    if own:
        found = shutil.which(own)
        if found is None:
            raise ToolError(f"{own}: {variable} names no program; correct it or unset it")
        return Path(found)
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    for pattern in places:
        matches = [p for p in Path("/").glob(pattern.lstrip("/")) if os.access(p, os.X_OK)]
        if matches:
            return max(matches, key=_natural)
    return None


def _beside_ncu() -> list[str]:
    ncu = shutil.which("ncu")
    return [f"{Path(ncu).resolve().parent}/host/target-linux-*/nsys"] if ncu else []


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|\D+", str(path))
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts]


def _tail(handle: object) -> str:
    assert hasattr(handle, "seek") and hasattr(handle, "read") and hasattr(handle, "tell")
    size = handle.seek(0, os.SEEK_END)
    handle.seek(max(0, size - _TAIL_BYTES))
    data: bytes = handle.read()
    return data.decode("utf-8", errors="replace")


def end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill a program and every process with its mark in the environment, in whatever group they are."""
    _signal(_marked(mark) | {process.pid}, signal.SIGTERM, process.pid)
    with suppress(subprocess.TimeoutExpired):
        left = _left_s()
        process.wait(_GRACE_S if left is None else min(_GRACE_S, left / 10))
    _signal(_marked(mark), signal.SIGKILL, process.pid)
    process.wait()


def _signal(pids: set[int], number: int, group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _marked(mark: str) -> set[int]:
    needle = f"{MARK}={mark}".encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if needle in entry.read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return found
