"""The kernels beside ceiling and libraries: a topic in, `labcode bench kernels` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.experiments.shared import common
from labcode.experiments.shared.kernel_times import REPETITIONS, bench

PROGRAM = "kernel_bench"
VARIANTS = (
    *("memory_bandwidth", "transpose", "sum", "softmax", "rmsnorm"),
    *("compute_metrics", "optimization_loop", "exercises_ncu"),
)


def main(arguments: Sequence[str]) -> int:
    """Check and time the kernels of a topic; 0 when every output was right."""
    description = (
        "Checks a topic's kernels and times them beside the device copy and the libraries, in one run."
    )
    parser = common.parser(PROGRAM, description, VARIANTS)
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=REPETITIONS)
    options = parser.parse_args(arguments)
    found = bench([options.variant], options.repetitions, lambda line: print(line, flush=True))
    checks = {name: common.Check(**check) for name, check in found["checks"].items()}
    record = common.Record(
        PROGRAM, options.variant, found["parameters"], found["results"], checks, found["gpu"]
    )
    return common.finish(record, options.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
