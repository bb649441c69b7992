"""PyTorch's own recorders inside a workload: what capture asks for in, files in the folder it names out.

Capture runs a program with the same command as ever and puts what it wants recorded into the environment
(`REQUEST`, JSON). Programs that take part call `recording` around their loop and what it yields after each
step; without a request nothing happens.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from labcode.errors import LabError
from labcode.experiments.shared import common, memory_history

REQUEST = "LABCODE_RECORD"
AVERAGES_SCHEMA = 1
MOST_EVENTS = 200_000  # of the memory recorder
Tick = Callable[[], None]


@dataclass(frozen=True)
class Request:
    """What to record and where to put it.

    ``tool`` is ``torch`` (`torch.profiler`) or ``memory`` (the memory recorder of PyTorch's allocator).
    Files are called ``folder/name…``, with the rank in the name in a group of processes. The switches are
    those of `torch.profiler.profile`; ``steps`` bounds the recorded steps (0: all measured ones).
    """

    tool: Literal["torch", "memory"]
    folder: str
    name: str
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    modules: bool = False
    steps: int = 0

    def environment(self) -> dict[str, str]:
        """The request as an environment variable."""
        return {REQUEST: json.dumps(asdict(self))}

    def file(self, suffix: str) -> Path:
        """Where a file of this process goes."""
        rank = os.environ.get("RANK")
        return Path(self.folder) / f"{self.name}{f'.rank{rank}' if rank is not None else ''}{suffix}"


def requested() -> Request | None:
    """What the environment asks for; `LabError` when it makes no sense."""
    text = os.environ.get(REQUEST)
    if not text:
        return None
    try:
        return Request(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise LabError(f"the environment variable {REQUEST} asks for nothing known ({error})") from None


@contextmanager
def recording(torch: Any, device: Any, *, warmup: int, steps: int) -> Iterator[Tick]:
    """Around a loop of ``warmup`` and ``steps`` steps: record the latter, if asked to.

    Yields a function to call at the end of each step, warm-up included. Files are written when the last
    recorded step has ended.
    """
    request = requested()
    if request is None:
        yield _nothing
        return
    steps = min(steps, request.steps or steps)
    if request.tool == "memory":
        with _memory_recorder(torch, device, request, warmup, steps) as tick:
            yield tick
    else:
        with _torch_profiler(torch, device, request, warmup, steps) as tick:
            yield tick


def _nothing() -> None:
    """Called after each step where nothing is recorded."""


@contextmanager
def _torch_profiler(torch: Any, device: Any, request: Request, warmup: int, steps: int) -> Iterator[Tick]:
    profiler = torch.profiler
    activities = [profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(profiler.ProfilerActivity.CUDA)

    def ready(recorded: Any) -> None:
        recorded.export_chrome_trace(str(request.file(".trace.json")))
        common.write_json(request.file(".averages.json"), averages(torch, recorded, shapes=request.shapes))

    ahead = min(warmup, 1)  # the profiler's own warm-up: it records and drops
    with profiler.profile(
        activities=activities,
        schedule=profiler.schedule(wait=warmup - ahead, warmup=ahead, active=steps, repeat=1),
        on_trace_ready=ready,
        record_shapes=request.shapes,
        with_stack=request.stacks,
        profile_memory=request.memory,
        with_modules=request.modules,
        acc_events=True,
    ) as running:
        yield running.step


def averages(torch: Any, recorded: Any, *, shapes: bool = False) -> dict[str, Any]:
    """What `torch.profiler` itself says about a run: a row for each name (and, with shapes, each shape too).

    Times are in microseconds. Rows of the kind ``CUDA`` are kernels and copies; those of the kind ``CPU`` are
    operators and calls of the CUDA API, whose time on the GPU is that of what they launched.
    """
    content: dict[str, Any] = {
        "schema": AVERAGES_SCHEMA,
        "torch": str(torch.__version__),
        "rows": [_row(event) for event in recorded.key_averages()],
    }
    if shapes:
        grouped = recorded.key_averages(group_by_input_shape=True)
        content["rows_by_shape"] = [{**_row(event), "shapes": event.input_shapes} for event in grouped]
    return content


def _row(event: Any) -> dict[str, Any]:
    return {
        "name": event.key,
        "kind": str(event.device_type).rpartition(".")[2],
        "calls": event.count,
        "cpu_total_us": event.cpu_time_total,
        "self_cpu_total_us": event.self_cpu_time_total,
        "cuda_total_us": event.device_time_total,
        "self_cuda_total_us": event.self_device_time_total,
        "user_annotation": bool(event.is_user_annotation),
    }


@contextmanager
def _memory_recorder(torch: Any, device: Any, request: Request, warmup: int, steps: int) -> Iterator[Tick]:
    if device.type != "cuda":
        raise LabError("the memory recorder is part of PyTorch's allocator for GPUs; it needs one")
    memory = torch.cuda.memory
    done = 0
    before: list[dict[str, Any]] = []

    def tick() -> None:
        nonlocal done
        if done == warmup:
            start()
        if done == warmup + steps:
            torch.cuda.synchronize()
            snapshot = memory._snapshot()
            memory._record_memory_history(enabled=None)
            content = memory_history.convert(snapshot, str(torch.__version__), before)
            common.write_json(request.file(".memory.json"), content)
        done += 1

    def start() -> None:
        nonlocal before
        torch.cuda.synchronize()
        before = memory_history.live_blocks(memory._snapshot())
        memory._record_memory_history(enabled="all", context="all", stacks="python", max_entries=MOST_EVENTS)

    tick()  # the end of no step: with no warm-up, recording starts here
    try:
        yield tick
    finally:
        memory._record_memory_history(enabled=None)
