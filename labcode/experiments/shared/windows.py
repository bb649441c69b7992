"""Windows of time for a meter of power: work in; when each kind of it ran, and how often, out.

Each kind of work is repeated until its window is long beside the updates of the GPU's sensor. The meter runs
elsewhere (`labcode capture`, `labcode energy --`): its log and these windows share CLOCK_MONOTONIC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared.common import nvtx_range, synchronize
from labcode.meter import clock_mark

if TYPE_CHECKING:
    import torch

CHUNK_S = 0.02  # of work in flight: the host looks at the clock between chunks
Call = Callable[[], object]


class Windows:
    """The windows of a run: ``entries`` by name, each with ``begin_ns``, ``end_ns``, what `repeat` counts
    and what the caller adds.

    ``seconds``: the length of a window; ``warmup_s``: the same work before it, not counted.
    """

    def __init__(self, device: torch.device, seconds: float, warmup_s: float) -> None:
        self.device, self.seconds, self.warmup_s = device, seconds, warmup_s
        self.entries: dict[str, dict[str, Any]] = {}

    @contextmanager
    def window(self, name: str, **facts: object) -> Iterator[dict[str, Any]]:
        """What runs inside is one window; the device is waited for at both ends."""
        synchronize(self.device)
        entry = self.entries[name] = {**facts}
        with nvtx_range(name, self.device):
            entry["begin_ns"] = time.monotonic_ns()
            yield entry
            synchronize(self.device)
            entry["end_ns"] = time.monotonic_ns()
        length = (entry["end_ns"] - entry["begin_ns"]) / 1e9
        print(f"  {name}: {length:.2f} s, {entry.get('repetitions', 1)} times", flush=True)

    def idle(self, name: str, seconds: float, **facts: object) -> None:
        """A window in which nothing runs."""
        with self.window(name, **facts):
            time.sleep(seconds)

    def repeat(
        self,
        name: str,
        call: Call,
        *,
        seconds: float | None = None,
        around: Callable[[dict[str, Any]], AbstractContextManager[None]] = lambda entry: nullcontext(),
        **each: float | str,
    ) -> dict[str, Any]:
        """A window of calls back to back; numbers in ``each`` are of one call and are added up.

        ``around``: another meter's context, to be entered with the window's entry.
        """
        chunk = self.warm_up(call)
        seconds = self.seconds if seconds is None else seconds
        with self.window(name) as entry, around(entry):
            until, count = time.monotonic() + seconds, 0
            waiting: list[Any] = []
            while time.monotonic() < until:
                for _ in range(chunk):
                    call()
                count += chunk
                waiting.append(self._event())
                if len(waiting) > 1:
                    _wait(waiting.pop(0))
            entry["repetitions"] = count
            for key, value in each.items():
                entry[key] = value if isinstance(value, str) else value * count
        return entry

    def warm_up(self, call: Call) -> int:
        """Run the work for the time of a warm-up; how many calls make a chunk."""
        call()
        synchronize(self.device)
        chunk, until = 1, time.monotonic() + self.warmup_s
        while True:
            began = time.monotonic()
            for _ in range(chunk):
                call()
            synchronize(self.device)
            now = time.monotonic()
            if now >= until:
                return max(1, round(chunk * CHUNK_S / max(now - began, 1e-6)))
            if now - began < CHUNK_S / 2:
                chunk *= 2

    def _event(self) -> Any:
        if self.device.type != "cuda":
            return None
        import torch

        event = torch.cuda.Event()
        event.record()
        return event


def _wait(event: Any) -> None:
    if event is not None:
        event.synchronize()


def mark_clock(device: torch.device) -> None:
    """An NVTX mark that says what the meter's clock shows, so that a capture can be joined with a log."""
    if device.type == "cuda":
        import torch

        torch.cuda.nvtx.mark(clock_mark())


class Zeus:
    """Zeus's monitor around windows, where the package is installed: a second meter on the same work."""

    def __init__(self, device: torch.device) -> None:
        self._monitor: Any = None
        self.version = "not installed"
        if device.type != "cuda":
            return
        try:
            import zeus
            from zeus.monitor import ZeusMonitor
        except ImportError as error:
            self.version = f"not installed ({error})"
            return
        self._index = device.index or 0
        self._monitor = ZeusMonitor(gpu_indices=[self._index], cpu_indices=[])
        self.version = str(getattr(zeus, "__version__", "unknown"))

    @contextmanager
    def over(self, facts: dict[str, Any]) -> Iterator[None]:
        """Adds ``zeus_j`` and ``zeus_s`` of what runs inside; nothing without Zeus."""
        if self._monitor is None:
            yield
            return
        self._monitor.begin_window("window")
        yield
        found = self._monitor.end_window("window")
        facts["zeus_j"] = float(found.gpu_energy[self._index])
        facts["zeus_s"] = float(found.time)
