"""A Python script, unchanged, under `torch.profiler`: a script and a window in; a trace of this rank out.

.. code-block:: text

    python -m labcode.record.traced --output=FOLDER/NAME --warmup=3 --steps=5 train.py --epochs 1

The recorder waits until the script imports PyTorch. By steps: `torch.optim` tells when an optimizer took one,
and the first optimizer's steps count. By time (``--delay``, ``--duration``; 0: to the end): from that import
on; the clock is a thread, and what it wants done is done by the main thread. The trace is written as soon as
its last step has ended, so that what happens later cannot lose it; a window that the script's end cut short
is written as ``NAME.partial.trace.json.gz``. With ``--trace=FILE`` all is recorded, from before the script
begins, with shapes and, with ``--stacks``, stacks: by PyTorch at each call where a GPU is, because of whose
launches must be known; else looked at by `Stacks` some hundred times a second, because a record of each call
takes nearly 2 KB of memory, and Python makes millions.

Any Python that has PyTorch can run this as a file: it need not know labcode.
"""

from __future__ import annotations

import _thread
import ast
import builtins
import importlib
import importlib.util
import itertools
import json
import linecache
import opcode
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

WARMUP_LEAST = 2  # steps: one after which the profiler starts, and its own first one, which it drops
_BELL = signal.SIGRTMIN + 7  # never sent: what the clock's thread asks the main thread for


class Everything:
    """What is recorded of all that this process does, however it ends."""

    def __init__(self, trace: str, *, stacks: bool) -> None:
        torch = importlib.import_module("torch")
        self._trace = trace
        activities = _activities(torch, importlib.import_module("torch.profiler"))
        each = stacks and len(activities) > 1
        self._running = torch.profiler.profile(activities=activities, record_shapes=True, with_stack=each)
        self._stacks = Stacks() if stacks and not each else None
        self._running.start()
        if self._stacks:
            self._stacks.start()

    def close(self) -> None:
        """The script has ended: write what there is, and with how many threads PyTorch computed."""
        torch = sys.modules["torch"]
        if self._stacks:
            self._running.add_metadata_json("samples", self._stacks.end())
        told = {"threads": torch.get_num_threads(), "cores": len(os.sched_getaffinity(0))}
        self._running.add_metadata_json("computing", json.dumps(told))
        self._running.stop()
        self._running.export_chrome_trace(self._trace)


class Stacks(threading.Thread):
    """Looks at what each thread of Python is at, about every 2 ms, for 2 % of a core at most.

    To look it needs Python's lock. Threads wait for that for 5 ms before they ask for it, so it would nearly
    always see where the lock is given away, in an operator; meanwhile they wait for `LOCK_S` only.

    Of more than `MOST` looks at a thread every second one is dropped, and from then on it looks half as
    often. The line of a frame is the one it is at; the innermost one has what is called there beneath it,
    where the source tells: a function of C has no frame.
    """

    MOST = 20_000
    DEEPEST = 100  # frames, from the innermost on
    COST = 50  # times what a look takes is waited for the next
    LOCK_S = 1e-4

    def __init__(self) -> None:
        super().__init__(name="labcode-stacks", daemon=True)
        self._ended = threading.Event()
        self._least_s = 0.002
        self._offset_ns = time.time_ns() - time.perf_counter_ns()
        self._frames: dict[str, int] = {}
        self._paths: dict[tuple[int, ...], int] = {}
        self._seen: dict[int, tuple[list[int], list[int]]] = {}
        self._named: dict[tuple[CodeType, int, bool], list[int]] = {}
        self._folders = sorted({f"{one or Path.cwd()}{os.sep}" for one in sys.path}, key=len, reverse=True)

    def run(self) -> None:
        """Look until told to end."""
        pause, usual_s = self._least_s, sys.getswitchinterval()
        sys.setswitchinterval(min(usual_s, self.LOCK_S))
        while not self._ended.wait(pause):
            began = time.perf_counter_ns()
            for ident, frame in sys._current_frames().items():
                if ident != self.ident:
                    at, paths = self._seen.setdefault(ident, ([], []))
                    at.append((began + self._offset_ns) // 1000)
                    paths.append(self._path(frame))
                    if len(at) > self.MOST:
                        self._thin()
            pause = max(self._least_s, self.COST * (time.perf_counter_ns() - began) / 1e9)
        sys.setswitchinterval(usual_s)

    def end(self) -> str:
        """Stop looking; what was seen, as JSON: frames as traces name them; paths of frames, the outermost
        first; of each thread its looks: when, in us since the one before, the first in Unix time, which path.
        """
        self._ended.set()
        self.join()
        system = {one.ident: one.native_id for one in threading.enumerate()}
        system.setdefault(threading.main_thread().ident, os.getpid())
        threads = [
            {
                "tid": system.get(ident) or 0,
                "at": [b - a for a, b in zip([0, *at], at, strict=False)],
                "path": paths,
            }
            for ident, (at, paths) in self._seen.items()
        ]
        return json.dumps({"frames": list(self._frames), "paths": list(self._paths), "threads": threads})

    def _thin(self) -> None:
        self._least_s *= 2
        for at, paths in self._seen.values():
            del at[::2], paths[::2]

    def _path(self, frame: FrameType | None) -> int:
        found: list[int] = []
        innermost = True
        while frame is not None and frame.f_code.co_filename != __file__ and len(found) < self.DEEPEST:
            key = frame.f_code, frame.f_lasti, innermost
            if key not in self._named:
                self._named[key] = [
                    self._frames.setdefault(one, len(self._frames)) for one in self._names(frame, innermost)
                ]
            found += self._named[key]
            frame, innermost = frame.f_back, False
        return self._paths.setdefault(tuple(reversed(found)), len(self._paths))

    def _names(self, frame: FrameType, innermost: bool) -> list[str]:
        code = frame.f_code
        file = code.co_filename
        folder = next((one for one in self._folders if file.startswith(one)), "")
        called = _called(code, frame.f_lasti) if innermost else ""
        own = f"{file.removeprefix(folder)}({_line(code, frame.f_lasti)}): {code.co_name}"
        return [f"<built-in function {called}>", own] if called else [own]


def _line(code: CodeType, place: int) -> int:
    """The line of an instruction; where it has none, as jumps back, that of the one before."""
    lines = [one[0] for one in itertools.islice(code.co_positions(), max(place // 2, 0) + 1)]
    return next((one for one in reversed(lines) if one), code.co_firstlineno)


def _called(code: CodeType, place: int) -> str:
    """The name of what a frame that has no other beneath it calls; '' where it calls nothing."""
    if place < 0 or not opcode.opname[code.co_code[place]].startswith(("CALL", "PRECALL")):
        return ""
    first, last, begin, end = next(itertools.islice(code.co_positions(), place // 2, None))
    if first is None or first != last:
        return ""
    text = linecache.getline(code.co_filename, first).encode()[begin:end].decode(errors="replace")
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    function = found.func if isinstance(found, ast.Call) else None
    name = getattr(function, "attr", "") or getattr(function, "id", "")
    return name if isinstance(name, str) else ""


class Recorder:
    """What is recorded of this process: ``steps`` steps of the first optimizer after ``warmup``, or
    ``duration_s`` seconds (0: all) from ``delay_s`` on.
    """

    def __init__(
        self,
        output: str,
        *,
        warmup: int = 3,
        steps: int = 5,
        delay_s: float | None = None,
        duration_s: float = 0,
    ) -> None:
        rank = os.environ.get("RANK")
        self._name = output if rank is None else f"{output}.rank{rank}"
        self._warmup, self._steps, self._delay_s, self._duration_s = warmup, steps, delay_s, duration_s
        self._owner = os.getpid()
        self._torch: Any = None
        self._running: Any = None
        self._starting = False
        self._optimizer = 0
        self._seen = 0
        self.written: Path | None = None
        self.problem = ""

    def attach(self, torch: Any) -> None:
        """Begin to watch: called when the script has imported PyTorch."""
        self._torch = torch
        if threading.current_thread() is not threading.main_thread():
            self.problem = "the script imports PyTorch in a thread, not in its main program"
            return
        self._watch_profilers(torch)
        if self._delay_s is None:
            optimizers = importlib.import_module("torch.optim.optimizer")
            optimizers.register_optimizer_step_post_hook(self._stepped)
        elif self._delay_s:
            self._after(self._delay_s, self._start)
        else:
            self._start()

    def _watch_profilers(self, torch: Any) -> None:
        """Make way where the script has a profiler of its own: there can be one."""
        kind = torch.autograd.profiler.profile
        plain = kind.__init__

        def made(one: Any, *args: Any, **kwargs: Any) -> None:
            if not self._starting and kwargs.get("enabled", True) and os.getpid() == self._owner:
                self.problem = (
                    self.problem or "the script uses torch.profiler itself, and profilers do not nest"
                )
                self._drop()
            plain(one, *args, **kwargs)

        kind.__init__ = made

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An optimizer took a step."""
        here = os.getpid() == self._owner and threading.current_thread() is threading.main_thread()
        self._optimizer = self._optimizer or id(optimizer)
        if not here or id(optimizer) != self._optimizer or self.written or self.problem:
            return
        self._seen += 1
        if self._running is not None:
            self._running.step()
            if self._seen == self._warmup + self._steps:
                self._finish(whole=True)
        elif self._seen == self._warmup - 1:
            self._start()

    def _start(self) -> None:
        if self.written or self.problem or self._running is not None:
            return
        profiler = self._torch.profiler
        activities = _activities(self._torch, profiler)
        schedule = None
        if self._delay_s is None:
            schedule = profiler.schedule(wait=0, warmup=1, active=self._steps, repeat=1)
        self._starting = True
        try:
            running = profiler.profile(activities=activities, schedule=schedule, acc_events=True)
            running.start()
            self._running = running
        except (RuntimeError, TypeError) as error:
            self.problem = f"torch.profiler did not start ({' '.join(str(error).split())[:200]})"
        finally:
            self._starting = False
        if self._delay_s is not None and self._duration_s:
            self._after(self._duration_s, lambda: self._finish(whole=True))

    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        """Call ``what`` on the main thread in so many seconds."""

        def rung(number: int, frame: FrameType | None) -> None:
            if os.getpid() == self._owner:
                what()

        signal.signal(_BELL, rung)
        clock = threading.Timer(seconds, _thread.interrupt_main, (_BELL,))
        clock.daemon = True
        clock.start()

    def _finish(self, *, whole: bool) -> None:
        """End recording and write the trace."""
        running, self._running = self._running, None
        if running is None:
            return
        running.stop()
        if self._delay_s is None and self._seen <= self._warmup and not whole:
            return  # of the recorded steps none had begun
        path = Path(f"{self._name}{'' if whole else '.partial'}.trace.json.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}")
        running.export_chrome_trace(str(part))
        self.written = part.replace(path)

    def _drop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def close(self) -> None:
        """The script has ended: write what there is, and say on stderr what is missing."""
        if os.getpid() != self._owner:
            return
        to_the_end = self._delay_s is not None and not self._duration_s
        self._finish(whole=to_the_end)
        if self.written and ".partial." not in self.written.name:
            return
        rank = os.environ.get("RANK")
        who = "labcode profile" if rank is None else f"labcode profile, rank {rank}"
        print(f"{who}: {self._why()}", file=sys.stderr)

    def _why(self) -> str:
        if self.problem:
            return f"{self.problem}; nothing was recorded"
        if self._torch is None:
            return "the script never imported PyTorch; nothing was recorded"
        if self._delay_s is not None:
            cut = (
                "was cut short by the script's end" if self.written else "had not begun when the script ended"
            )
            return (
                f"the window of {self._duration_s:g} s after {self._delay_s:g} s {cut}; choose an earlier one"
            )
        return (
            f"the script's optimizer took {self._seen} steps, and steps {self._warmup + 1} to "
            f"{self._warmup + self._steps} were asked for; say fewer with --warmup and --steps, or "
            "seconds with --delay and --duration"
        )


def _activities(torch: Any, profiler: Any) -> list[Any]:
    """What can be recorded here."""
    kinds = profiler.ProfilerActivity
    return [kinds.CPU, *([kinds.CUDA] if torch.cuda.is_available() else [])]


class _WhenImported(MetaPathFinder):
    """Calls ``then`` with PyTorch as soon as it has been imported."""

    def __init__(self, then: Callable[[Any], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            plain = loader.exec_module

            def execute(module: ModuleType) -> None:
                plain(module)
                self._then(module)

            loader.exec_module = execute
        return spec


def main(arguments: Sequence[str]) -> None:
    """Run the script or module to its end, as Python would; its exit code and exceptions go on."""
    words = list(arguments)
    given: dict[str, str] = {}
    while words[0].startswith("--"):
        key, _, value = words.pop(0).removeprefix("--").partition("=")
        given[key] = value
    module = words[0] == "-m"
    if module:
        words.pop(0)
    sys.path[0] = str(Path.cwd()) if module else str(Path(words[0]).resolve().parent)
    recorder = _recorder(given)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)
    sys.argv = words
    # What the script defines lives until Python ends, as without us: groups of processes that are dropped
    # before, as by `runpy.run_path`, may wait for ever.
    main_module = sys.modules["__main__"] = sys.modules["__profiled__"] = ModuleType("__main__")
    try:
        if module:
            runpy._run_module_as_main(words[0])  # type: ignore[attr-defined]
        else:
            import zipfile

            script = Path(words[0])
            if script.is_dir() or zipfile.is_zipfile(script):
                runpy.run_path(words[0], run_name="__main__")
                return
            main_module.__dict__.update(__file__=words[0], __builtins__=builtins)
            exec(compile(script.read_bytes(), words[0], "exec"), main_module.__dict__)
    finally:
        recorder.close()


def _recorder(given: dict[str, str]) -> Everything | Recorder:
    """What records, begun or waiting for PyTorch."""
    if "trace" in given:
        return Everything(given["trace"], stacks="stacks" in given)
    seconds = (
        {"delay_s": float(given["delay"]), "duration_s": float(given["duration"])} if "delay" in given else {}
    )
    steps = {key: int(given[key]) for key in ("warmup", "steps") if key in given}
    recorder = Recorder(given["output"], **steps, **seconds)  # type: ignore[arg-type]
    if "torch" in sys.modules:
        recorder.attach(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _WhenImported(recorder.attach))
    return recorder


def _leave(number: int, frame: FrameType | None) -> None:
    """Asked to end: as by `sys.exit`, so that the trace is written."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main(sys.argv[1:])
