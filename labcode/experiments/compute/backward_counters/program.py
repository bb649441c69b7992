"""One step of attention's backward, its launches marked for Nsight Compute: a step's name in; its error out.

python -m labcode.workloads.backward_counters --variant together --length 8192

Under ``ncu --profile-from-start off`` the report has the step's kernels once, after a call that is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from labcode.experiments.compute.attention_backward import program as bench
from labcode.experiments.compute.attention_backward import steps
from labcode.experiments.compute.grouped.products import marked
from labcode.experiments.shared import common
from labcode.kernels.topics import attention_backward as topic

PROGRAM = "backward_counters"
VARIANTS = tuple(topic.PLANS)


def main(arguments: Sequence[str]) -> int:
    """Check a step, then launch it once between the profiler's marks; 0 when its gradients were right."""
    parser = common.parser(PROGRAM, "Launches one step of attention's backward for its counters.", VARIANTS)
    parser.add_argument("--length", type=common.whole(1, 1 << 17), default=8192, help="tokens (default 8192)")
    parser.add_argument("--heads", type=common.whole(1, 65535), default=16, help="of all (default 16)")
    parser.add_argument("--mask", choices=bench.MASKS, default="none", help="default none")
    given = parser.parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    words = ["benchmark", "--batch", "1", "--heads", str(given.heads), "--kv-heads", str(given.heads)]
    data = bench.make(torch, bench.command_line().parse_args(words), given.length, given.mask == "causal")
    to = steps.gradients_like(torch, (data.q, data.k, data.v))
    call = steps.call_of(torch, given.variant, data, to, topic.PLANS[given.variant])
    to.poison()
    call()
    torch.cuda.synchronize()
    wrong = to.wrong()
    error = bench.errors(torch, data, to.of, {(0, 0): bench.reference(torch, data, 0, 0)})
    marked(torch, {given.variant: call})
    right = max(error) <= bench.ALLOWED and not wrong
    told = f"errors of Q, K, V: {', '.join(f'{x:.1e}' for x in error)}, allowed {bench.ALLOWED:.0e}; {wrong}"
    print(f"{given.variant}: {told}")
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"error": error, "flops": topic.flops(given.heads, given.length, given.mask == "causal")},
        {given.variant: common.Check(right, told)},
        common.gpu_info(torch, torch.device("cuda", torch.cuda.current_device())),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
