"""Programs in turn: what runs them in, their results and seconds out; the next imports PyTorch meanwhile.

Importing PyTorch takes seconds of one CPU and no GPU, and every program of a capture is a process of its own,
as a reader would start it. While one runs, or ends, the next is started with a ``sitecustomize`` that imports
PyTorch and waits for a file: of this, nothing is left in the program but the imported modules, no frame on
its stack and no variable in its environment. Its seconds count from the moment it may go on.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
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
_SITE = f'''"""Import PyTorch, then wait until the file named by {_GO} is there."""
import os, sys, time

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
    with open(go + ".ready", "w"):
        pass
    while not os.path.exists(go):
        if not os.path.isdir(here):
            os._exit(1)  # nobody waits for this program any more
        time.sleep({_LOOK_S})

if "{_GO}" in os.environ:
    hold(os.environ.pop("{_GO}"), os.environ.pop("{_OWN_PATH}", ""))
'''


def one_by_one(parts: Sequence[Told], show: Show) -> Turns:
    """Result and seconds of each part, run when it is asked for."""
    for text, part in parts:
        show(text)
        began = time.monotonic()
        result = part.run()
        yield result, time.monotonic() - began


def in_turn(parts: Sequence[Told], folder: Path, show: Show, *, beside: bool) -> Turns:
    """The same; while a part runs the next imports PyTorch. ``folder`` is made, for what they wait for.

    Unless it may do so ``beside`` what is measured it waits until the record of that is written: what is left
    then is the end of the program, and the profiler's work on what it recorded.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    running: _Held | None = None
    waiting: _Held | None = None
    with ThreadPoolExecutor(2, "ahead") as pool:
        try:
            for place, (text, part) in enumerate(parts):
                running = waiting or _Held(part, folder, place, pool)
                show(text)
                running.go()
                while not beside and not running.future.done() and not part.record.exists():
                    wait([running.future], timeout=_LOOK_S)
                waiting = _Held(parts[place + 1][1], folder, place + 1, pool) if parts[place + 1 :] else None
                result = running.future.result()
                yield result, time.monotonic() - running.gate.began(0.0)
        finally:
            for held in (waiting, running):
                if held is not None:
                    held.stop.set()


class _Held:
    """A part that was started before its turn."""

    def __init__(self, part: Part, folder: Path, place: int, pool: ThreadPoolExecutor) -> None:
        self.gate, self.stop, self._file = Gate(), threading.Event(), folder / f"go-{place}"
        env = {_GO: str(self._file), "PYTHONPATH": str(folder)}
        if own := os.environ.get("PYTHONPATH"):
            env |= {_OWN_PATH: own, "PYTHONPATH": f"{folder}{os.pathsep}{own}"}

        def run() -> Any:
            with guided(self.stop, env, self.gate):
                return part.run()

        self.future: Future[Any] = pool.submit(contextvars.copy_context().run, run)

    def go(self) -> None:
        """Let the program go on, as soon as it has imported PyTorch."""
        ready = self._file.with_name(f"{self._file.name}.ready")
        while not ready.exists() and not self.future.done():
            wait([self.future], timeout=_LOOK_S)
        self.gate.opened = time.monotonic()
        self._file.touch()
