"""CUDA programs over a grid of flags, one run after another: a sweep's name in, one JSON record out.

- ``streams``: `kernel_overlap` on 1 … 64 streams, launched one by one and as a graph;
- ``kernel_length``: `kernel_overlap` with kernels from next to nothing to hundreds of microseconds, on one
  stream, on eight, and as a graph;
- ``chunks``: `memory_timeline` pipelined in 1 … 256 chunks, in both orders of issue.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labcode.errors import ToolError
from labcode.experiments.nsys.kernel_overlap.cuda import program as kernel_overlap
from labcode.experiments.nsys.memory_timeline.cuda import program as memory_timeline
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, Record

PROGRAM = "sweeps"
VARIANTS = ("streams", "kernel_length", "chunks")
STREAMS = (1, 2, 4, 8, 16, 32, 64)
STEPS = (4, 75, 150, 300, 600, 1200, 2400, 4800, 9600, 19200)
CHUNKS = (1, 2, 4, 8, 16, 31, 32, 62, 64, 124, 128, 256)


def grid(sweep: str) -> Iterator[tuple[str, dict[str, str | int]]]:
    """The runs of a sweep: the program's name and the flags of each."""
    if sweep == "streams":
        for variant, streams in itertools.product(("streams", "graph"), STREAMS):
            yield "kernel_overlap", {"variant": variant, "streams": streams}
    elif sweep == "kernel_length":
        for variant, steps in itertools.product(("stream", "streams", "graph"), STEPS):
            yield "kernel_overlap", {"variant": variant, "iterations": steps, "repetitions": 5}
    else:
        for schedule, chunks in itertools.product(("rotate", "engines"), CHUNKS):
            yield (
                "memory_timeline",
                {"variant": "pipelined", "schedule": schedule, "chunks": chunks, "repetitions": 5},
            )


def main(arguments: Sequence[str]) -> int:
    """Run the sweep and write its record; 0 when every run's own check held."""
    description = "Runs a CUDA program over a grid of flags and gathers what each run measured."
    options: argparse.Namespace = common.parser(PROGRAM, description, VARIANTS).parse_args(arguments)
    rows, gpu, failed = [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "record.json"
        for program, flags in grid(options.variant):
            module = {"kernel_overlap": kernel_overlap, "memory_timeline": memory_timeline}[program]
            words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
            code = module.main([*words, "--json", str(file)])
            if code not in (0, common.EXIT_CHECK_FAILED) or not file.is_file():
                raise ToolError(f"{program} {' '.join(words)}: ended with exit code {code}")
            record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            file.unlink()
            gpu = record["gpu"]
            failed += [" ".join(words) for check in record["checks"].values() if not check["passed"]]
            numbers = {k: v for k, v in record["results"].items() if not isinstance(v, list)}
            rows.append({"program": program, **flags, **record["parameters"], **numbers})
    detail = (
        f"failed: {'; '.join(failed)}" if failed else f"all {len(rows)} runs agree with the host's reference"
    )
    checks = {"every_run_is_right": Check(not failed, detail)}
    columns = {"runs": len(rows)}
    return common.finish(Record(PROGRAM, options.variant, columns, {"rows": rows}, checks, gpu), options.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
