"""What each profiler costs on one workload: flags in, a JSON record of its step times under each out.

The decoder's training step is run again and again as a program of its own: without anything, with NVTX ranges
that nobody listens to, with ranges for `torch.profiler` that nobody listens to, under `torch.profiler`, with
all its switches, under nsys, and under ncu, which repeats the kernels it looks at (here those of one name).
Each time the program's own clock tells how long a step took; the wall time of all of it is told beside. A way
whose tool fails is told in ``failed``; the others are recorded all the same.

The variant ``switches`` tries the switches of `torch.profiler` one by one, in one process, one loop after
another.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcode.analysis.lm.decoder import SIZES
from labcode.errors import ToolError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.recording import REQUEST, Request
from labcode.timing import spread
from labcode.tools import find_ncu, find_nsys, run_tool

PROGRAM = "profiler_overhead"
VARIANTS = ("all", "torch", "switches")
LIMIT_S = 100.0  # of each way
SAME_LOSS = 1e-3  # relative, of the last step's loss under each tool
ALL_SWITCHES = {"shapes": True, "stacks": True, "memory": True, "modules": True}
SWITCHES: dict[str, dict[str, bool] | None] = {
    "none": None,
    "torch.profiler": {},
    "shapes": {"shapes": True},
    "memory": {"memory": True},
    "stacks": {"stacks": True},
    "stacks and modules": {"stacks": True, "modules": True},
    "all switches": ALL_SWITCHES,
}
NSYS = ("profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true")
NCU = ("--clock-control", "none", "--target-processes", "all", "--set", "basic", "--force-overwrite")


@dataclass(frozen=True)
class Way:
    """A way to run the workload: its name, kind of ranges, what stands before the command, recorder."""

    name: str
    ranges: str
    before: tuple[str, ...] = ()
    request: Request | None = None


def ways(given: argparse.Namespace, folder: Path) -> list[Way]:
    """All ways for which there is a tool here; of the variant ``torch`` those without nsys and ncu.

    ncu looks at the kernels of the measured steps alone: it skips as many as the warm-up steps launch, one
    for each layer.
    """
    found = [
        Way("none", "none"),
        Way("NVTX ranges", "nvtx"),
        Way("record_function ranges", "record"),
        Way("torch.profiler", "record", request=Request("torch", str(folder), "plain")),
        Way(
            "torch.profiler, all switches",
            "record",
            request=Request("torch", str(folder), "full", **ALL_SWITCHES),
        ),
    ]
    if given.variant == "torch":
        return found
    nsys, ncu = find_nsys(), find_ncu()
    if nsys is not None:
        found.append(Way("nsys", "nvtx", (str(nsys), *NSYS, f"--output={folder / 'nsys'}")))
    if ncu is not None:
        layers = SIZES[given.size].layers
        chosen: tuple[str, ...] = ("-k", f"regex:{given.kernel}", "--launch-skip", str(layers * given.warmup))
        chosen += ("--launch-count", str(layers * given.steps), "--export", str(folder / "ncu"))
        found.append(Way(f"ncu, kernels like {given.kernel}", "nvtx", (str(ncu), *NCU, *chosen)))
    return found


def run_way(given: argparse.Namespace, way: Way, folder: Path) -> dict[str, Any]:
    """Run the workload a way; its step times (ms), wall seconds, last loss. `ToolError` when it fails."""
    record = folder / "record.json"
    record.unlink(missing_ok=True)
    flags = [
        "--variant",
        "train",
        "--size",
        given.size,
        "--batch",
        str(given.batch),
        "--device",
        given.device,
    ]
    flags += ["--context", str(given.context), "--steps", str(given.steps), "--warmup", str(given.warmup)]
    command = [sys.executable, "-m", "labcode.workloads.transformer", *flags, "--ranges", way.ranges]
    result = run_tool(
        [*way.before, *command, "--json", str(record)],
        LIMIT_S,
        env=way.request.environment() if way.request else None,
        what=way.name,
    )
    if result.returncode != 0 or not record.is_file():
        raise ToolError(f"the workload under {way.name} failed: {result.last_line()[:200]}")
    results = json.loads(record.read_text(encoding="utf-8"))["results"]
    return {
        "tool": way.name,
        "step_host_ms": results["step_host_ms"],
        "step_ms": round(spread(results["step_host_ms"]).median, 4),
        "wall_s": round(result.wall_s, 3),
        "last_loss": results["losses"][-1],
    }


def run_switches(torch: Any, given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A loop for each of `SWITCHES`, from a fresh model: as `run_way`, with how much the trace takes up."""
    from labcode.experiments.lm.transformer import program as transformer
    from labcode.experiments.lm.transformer.steps import Setup, make_trainer
    from labcode.experiments.shared.marks import marks

    flags = ["--variant", "train", "--size", given.size, "--batch", str(given.batch), "--ranges", "record"]
    flags += ["--context", str(given.context), "--steps", str(given.steps), "--warmup", str(given.warmup)]
    chosen = transformer.command_line().parse_args(flags)
    device = torch.device(given.device, 0)
    setup = Setup(SIZES[given.size], given.batch, given.context)
    found = []
    for number, (name, switches) in enumerate(SWITCHES.items()):
        mark = marks("record", device)
        trainer = make_trainer(setup, device, mark)
        began = time.perf_counter()
        if switches is not None:
            os.environ |= Request("torch", str(folder), f"way{number}", **switches).environment()
        try:
            _, times, losses = transformer.run_loop(trainer, chosen, mark)
        finally:
            os.environ.pop(REQUEST, None)
        step_ms = [sum(passes) for passes in zip(*times.host_ms.values(), strict=True)]
        trace = folder / f"way{number}.trace.json"
        found.append(
            {
                "tool": name,
                "step_host_ms": common.rounded(step_ms, 6),
                "step_ms": round(spread(step_ms).median, 4),
                "wall_s": round(time.perf_counter() - began, 3),
                "last_loss": round(float(losses[-1]), 7),
                "trace_bytes": trace.stat().st_size if trace.is_file() else 0,
            }
        )
        trace.unlink(missing_ok=True)
        show(found)
    return found


def run_ways(given: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """`run_way` for each of `ways`; beside them, rows ``{"tool", "why"}`` of those whose tool failed.

    A workload that fails without a tool is a `ToolError`.
    """
    found: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for way in ways(given, folder):
        try:
            found.append(run_way(given, way, folder))
        except ToolError as error:
            if not found:
                raise
            failed.append({"tool": way.name, "why": str(error)})
            print(f"  {way.name}: {error}", flush=True)
        else:
            show(found)
    return found, failed


def show(found: list[dict[str, Any]]) -> None:
    """Add to the last row how its steps compare with the first row's, and print a line of it."""
    way = found[-1]
    way["ratio"] = round(way["step_ms"] / found[0]["step_ms"], 4)
    text = f"{way['step_ms']:.3f} ms a step (x {way['ratio']:.2f}), {way['wall_s']:.1f} s in all"
    print(f"  {way['tool']}: {text}", flush=True)


def check(found: Sequence[dict[str, Any]]) -> dict[str, Check]:
    """The workload did the same under each tool."""
    plain = found[0]["last_loss"]
    worst = max(abs(way["last_loss"] - plain) / abs(plain) for way in found)
    text = f"last losses of {len(found)} runs differ by at most {worst:.1e} of them, allowed {SAME_LOSS:.0e}"
    return {"same_work": Check(worst <= SAME_LOSS, text)}


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Runs the decoder's training step under each profiler.", VARIANTS)
    whole = common.whole
    parser.add_argument("--size", choices=list(SIZES), default="small", help="of the decoder (default small)")
    parser.add_argument("--batch", type=whole(1, 65536), default=4, help="texts (default 4)")
    parser.add_argument("--context", type=whole(1, 65536), default=256, help="tokens a text (default 256)")
    parser.add_argument("--steps", type=whole(1, 1000), default=10, help="measured steps (default 10)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=5, help="steps before those (default 5)")
    parser.add_argument(
        "--kernel", default="softmax_warp_forward", help="what ncu looks at (default softmax_warp_forward)"
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the workload all ways, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    failed: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        if given.variant == "switches":
            found = run_switches(torch, given, Path(folder))
        else:
            found, failed = run_ways(given, Path(folder))
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"ways": found, "failed": failed},
        check(found),
        common.gpu_info(torch, torch.device(given.device, 0)),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
