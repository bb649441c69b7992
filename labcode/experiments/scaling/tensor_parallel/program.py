"""A feed-forward network split over GPUs (tensor parallelism): flags in, a JSON record of times out.

A case is a forward and a backward pass over so many tokens, with and without communication. Variants:

- ``both``: the two that follow, one after the other;
- ``gathered``: both matrices split by their outputs; activations gathered after each;
- ``paired``: the second split by its inputs; one all-reduce a pass.

Output and gradients are compared with those of the whole network on one GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from labcode.experiments.nsys.multi_gpu.data_parallel import Member, run_steps
from labcode.experiments.scaling import group
from labcode.experiments.scaling.group import Case
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range
from labcode.timing import quantile

MODULE = "labcode.workloads.scaling.tensor_parallel"
PROGRAM = "tensor_parallel"
LAYERS = ("gathered", "paired")
VARIANTS = ("both", *LAYERS)
EXPANSION = 4  # inner width, in multiples of the width
TOLERANCE = {"cuda": 2e-2, "cpu": 1e-5}  # ‖difference‖ / ‖reference‖ (bf16; fp32)


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Times a feed-forward network split over 1, 2, 4 … GPUs.", VARIANTS)
    whole = common.whole
    parser.add_argument("--width", type=whole(1, 65536), help="of input and output (default 4096; CPU: 24)")
    parser.add_argument("--tokens", type=group.numbers, help="by commas (default 1024,4096,16384; CPU: 8)")
    parser.add_argument("--steps", type=whole(1, 1000), default=20, help="measured passes (default 20)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=5, help="passes before those (default 5)")
    return parser


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of one group."""
    names = LAYERS if given.variant == "both" else (given.variant,)
    return [case for name in names for case in _cases(member, given, name)]


def _cases(member: Member, given: argparse.Namespace, name: str) -> list[Case]:
    """The cases of one way to split the network."""
    from labcode.experiments.scaling.tensor_parallel.layers import KINDS, Exchange

    torch = member.torch
    width = given.width or (4096 if member.cuda else 24)
    member.torch.manual_seed(given.seed)
    place = {"device": member.device, "dtype": member.dtype}
    up = torch.randn(EXPANSION * width, width, **place) * width**-0.5
    down = torch.randn(width, EXPANSION * width, **place) * (EXPANSION * width) ** -0.5
    exchange = Exchange(member.rank, member.world)
    layer: Any = KINDS[name](up, down, exchange)
    found = []
    for tokens in given.tokens or ((1024, 4096, 16384) if member.cuda else (8,)):
        x = torch.randn(tokens, width, **place).requires_grad_()
        target = torch.randn(tokens, width, **place)
        error = group.slowest(member, [_error(member, layer, (up, down), x, target)])[0]

        def one_pass(data: tuple[Any, Any]) -> Any:
            data[0].grad = layer.up.grad = layer.down.grad = None
            with nvtx_range("forward", member.device):
                output = layer(data[0])
            with nvtx_range("backward", member.device):
                output.backward(data[1])
            return output.detach()[0, 0]

        data = [(x, target)] * given.steps
        for pair in data[: given.warmup]:
            one_pass(pair)
        exchange.sent_bytes = 0
        times, _ = run_steps(member, data, one_pass, measured=True)
        exchanged = exchange.sent_bytes // given.steps if member.world > 1 else 0
        exchange.paused = True
        alone, _ = run_steps(member, data, one_pass, measured=False)
        exchange.paused = False
        case: Case = {
            "layer": name,
            "count": member.world,
            "tokens": tokens,
            "pass_ms": group.slowest(member, times),
            "alone_ms": group.slowest(member, alone),
            "exchanged_bytes": exchanged,
            "flops": 3 * 2 * 2 * EXPANSION * width**2 * tokens,
            "error": error,
        }
        found.append(case)
        if member.rank == 0:
            typical, left = quantile(case["pass_ms"], 0.5), quantile(case["alone_ms"], 0.5)
            what = f"{name}, {tokens} tokens on {member.world}"
            print(f"  {what}: {typical:.3f} ms, {left:.3f} without communication")
    return found


def _error(member: Member, layer: Any, weights: tuple[Any, Any], x: Any, target: Any) -> float:
    """The worst of output and gradients of input and weights, against the whole network on this GPU."""
    functional = member.torch.nn.functional
    up, down = (weight.clone().requires_grad_() for weight in weights)
    wanted_output = functional.linear(functional.gelu(functional.linear(x, up)), down)
    wanted_output.backward(target)
    wanted_x, x.grad = x.grad, None
    layer.up.grad = layer.down.grad = None
    output = layer(x)
    output.backward(target)
    axis = 0 if layer.down.shape[0] < down.shape[0] else 1
    pairs = (
        (output, wanted_output),
        (x.grad, wanted_x),
        (layer.up.grad, up.grad.chunk(member.world, dim=0)[member.rank]),
        (layer.down.grad, down.grad.chunk(member.world, dim=axis)[member.rank]),
    )
    return max(
        float((mine - wanted).detach().float().norm() / wanted.detach().float().norm())
        for mine, wanted in pairs
    )


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Check and write the record; the exit code."""
    worst, allowed = max(case["error"] for case in cases), TOLERANCE[given.device]
    text = f"largest relative error {worst:.1e} of {len(cases)} cases, allowed {allowed:.0e}"
    checks = {"matches_one_gpu": Check(worst <= allowed, text)}
    parameters = common.parameters_of(given)
    return common.finish(
        common.Record(PROGRAM, given.variant, parameters, {"cases": cases}, checks, gpu), given.json
    )


def main(arguments: Sequence[str]) -> int:
    """Start the processes, or be one of them; the exit code."""
    return group.run(MODULE, command_line().parse_args(arguments), arguments, work, finish)


if __name__ == "__main__":
    common.run(PROGRAM, main)
