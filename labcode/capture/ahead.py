"""Programs in turn: what runs them in, their results and seconds out; those to come import PyTorch meanwhile.

Importing PyTorch takes seconds of one CPU and no GPU, and every program of a capture is a process of its own,
as a reader would start it. Before their turns a few are started with a ``sitecustomize`` that imports PyTorch
and then sleeps in a read from a pipe: of this, nothing is left in the program but the imported modules, no
frame on its stack and no variable in its environment. Its seconds count from the moment it may go on.
"""

import contextvars
import importlib.util
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from labcode.capture.job import Part
from labcode.tools import Gate, guided

Told = tuple[str, Part]  # what is said while a part runs, and the part
Turns = Generator[tuple[Any, float], None, None]
Show = Callable[[str], None]
_GO, _OWN_PATH = "LABCODE_GO", "LABCODE_OWN_PYTHONPATH"
_LOOK_S = 0.02
_SITE = f'''"""Import PyTorch, then wait for a byte from the pipe named by {_GO}."""
import os, sys

def hold(go, own):
    os.environ.pop("PYTHONPATH")
    if own:
        os.environ["PYTHONPATH"] = own
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    try:
        import torch
        import torch._dynamo  # as the first optimizer and torch.compile do
    except ImportError:
        pass  # the program says it better
    if "torch" in sys.modules and torch.cuda.is_initialized():
        sys.exit("importing PyTorch began to use the GPU; another program is being measured on it")
    pipe = os.open(go, os.O_RDONLY)
    with open(go + ".ready", "w"):
        pass
    if not os.read(pipe, 1):
        os._exit(1)  # nobody waits for this program any more
    os.close(pipe)

if "{_GO}" in os.environ:
    hold(os.environ.pop("{_GO}"), os.environ.pop("{_OWN_PATH}", ""))
'''


def keep_compiled(folder: Path) -> dict[str, str]:
    """The environment with which programs share what Python compiles, in ``folder``.

    Empty where PyTorch came compiled, as ``pip`` installs it. Else, where nothing may be written beside it,
    every program would compile anew what it imports, which takes longer than to import it.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.cached is None or Path(found.cached).exists():
        return {}
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""}


def one_by_one(parts: Sequence[Told], show: Show) -> Turns:
    """Result and seconds of each part, run when it is asked for."""
    for text, part in parts:
        show(text)
        began = time.monotonic()
        with part.around():
            result = part.run()
        yield result, time.monotonic() - began


class Line:
    """The same for parts of which up to ``most`` import PyTorch ahead of their turns, of those that may.

    Unless they may do so ``beside`` what is measured, they begin while nothing is, several at a time, and are
    through before the first of them goes on; from the record of a part on, it counts as measured: what is
    left then is the end of the program, and the profiler's work on what it recorded. ``folder`` is made, for
    what they wait for. Those that wait end with `close`.
    """

    def __init__(self, parts: Sequence[Told], folder: Path, *, beside: bool, most: int) -> None:
        self._parts, self._folder, self._beside, self._most = parts, folder, beside, most
        self._early = [part for _, part in parts if part.early]
        self._begun = 0
        self._held: deque[_Held] = deque()
        self._pool = ThreadPoolExecutor(most + 1, "ahead")
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SITE, encoding="utf-8")

    def begin(self, most: int | None = None) -> None:
        """Start as many programs as may wait at a time, or as ``most`` says."""
        while self._begun < len(self._early) and len(self._held) < (most or self._most):
            self._held.append(_Held(self._early[self._begun], self._folder, self._begun, self._pool))
            self._begun += 1

    @property
    def all_begun(self) -> bool:
        """Whether every program was started, so that those of others could follow."""
        return self._begun == len(self._early)

    def turns(self, show: Show) -> Turns:
        """Result and seconds of each part."""
        for text, part in self._parts:
            self._follow()
            show(text)
            for held in () if self._beside else self._held:
                held.import_all()
            if not part.early:
                yield from one_by_one([(text, part)], show)
                continue
            running = self._held.popleft()
            try:
                with part.around():
                    running.go()
                    while not self._beside and not running.future.done() and not part.record.exists():
                        wait([running.future], timeout=_LOOK_S)
                    self._follow()
                    result = running.future.result()
            finally:
                running.stop.set()
            yield result, time.monotonic() - running.gate.began(0.0)

    def _follow(self) -> None:
        if self._beside or not self._held:
            self.begin()

    def close(self) -> None:
        """End the programs that still wait."""
        for held in self._held:
            held.stop.set()
            held.release()
        self._pool.shutdown(cancel_futures=True)


class _Held:
    """A part that was started before its turn."""

    def __init__(self, part: Part, folder: Path, place: int, pool: ThreadPoolExecutor) -> None:
        self.gate, self.stop, self._file = Gate(), threading.Event(), folder / f"go-{place}"
        os.mkfifo(self._file)
        self._pipe = os.open(self._file, os.O_RDWR)  # with it the program's read ends, too
        env = {_GO: str(self._file), "PYTHONPATH": str(folder)}
        if own := os.environ.get("PYTHONPATH"):
            env |= {_OWN_PATH: own, "PYTHONPATH": f"{folder}{os.pathsep}{own}"}

        def run() -> Any:
            with guided(self.stop, env, self.gate):
                return part.run()

        self.future: Future[Any] = pool.submit(contextvars.copy_context().run, run)

    def import_all(self) -> None:
        """Wait until the program has imported PyTorch, or ended."""
        ready = self._file.with_name(f"{self._file.name}.ready")
        while not ready.exists() and not self.future.done():
            wait([self.future], timeout=_LOOK_S)

    def go(self) -> None:
        """Let the program go on, as soon as it has imported PyTorch."""
        self.import_all()
        self.gate.opened = time.monotonic()
        os.write(self._pipe, b"g")
        self.release()

    def release(self) -> None:
        """Let go of the pipe: a program that still waits ends."""
        os.close(self._pipe)
