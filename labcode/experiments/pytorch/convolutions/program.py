"""Convolutions in several layouts, precisions and algorithms: flags in, a JSON record of times out.

Training steps of a small stack of convolutions as pictures pass through it: a first layer of few channels, a
depthwise one, wide ones of 3 × 3 and 5 × 5. Variants:

- ``baseline``: fp32, channels before rows (NCHW), the algorithm that cuDNN's rules of thumb name;
- ``benchmark``: cuDNN tries its algorithms on each shape and keeps the quickest (`cudnn.benchmark`);
- ``tf32``: products on tensor cores with inputs cut to TF32;
- ``channels_last``: ``tf32``, channels as the last dimension in memory (NHWC), as tensor cores want them;
- ``bf16``: autocast to bf16, NCHW: cuDNN turns tensors around where its kernels need that;
- ``improved``: bf16, channels last, ``benchmark``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.experiments.shared.marks import KINDS, Mark, marks, no_mark
from labcode.experiments.shared.recording import recording
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "convolutions"
LARGEST_ERROR = {"fp32": (1e-4, 1e-3), "tf32": (1e-2, 1e-1), "bf16": (5e-2, 3e-1)}  # outputs, gradients


@dataclass(frozen=True)
class Way:
    """How a variant computes: precision, whether channels are last, whether cuDNN tries its algorithms."""

    precision: str = "fp32"
    channels_last: bool = False
    benchmark: bool = False


VARIANTS = {
    "baseline": Way(),
    "benchmark": Way(benchmark=True),
    "tf32": Way("tf32"),
    "channels_last": Way("tf32", channels_last=True),
    "bf16": Way("bf16"),
    "improved": Way("bf16", channels_last=True, benchmark=True),
}


def make_network(torch: Any, channels: int, mark: Mark) -> Any:
    """The stack: [batch, 3, size, size] in, [batch, channels, size / 2, size / 2] out; layers under names."""
    nn = torch.nn

    class Stack(nn.Module):  # type: ignore[name-defined, misc]
        """Layers in turn, each in a range of its name."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleDict(
                {
                    "first 7x7": nn.Conv2d(3, channels, 7, stride=2, padding=3),
                    "wide 3x3": nn.Conv2d(channels, channels, 3, padding=1),
                    "depthwise 7x7": nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
                    "pointwise 1x1": nn.Conv2d(channels, channels, 1),
                    "wide 5x5": nn.Conv2d(channels, channels, 5, padding=2),
                }
            )

        def forward(self, x: Any) -> Any:
            for name, layer in self.layers.items():
                with mark(name):
                    x = nn.functional.relu(layer(x))
            return x

    return Stack()


def autocast(torch: Any, way: Way, device: torch.device) -> Any:
    """The context of a forward pass."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if way.precision == "bf16" else nullcontext()


def use(torch: Any, way: Way) -> None:
    """Tell cuDNN how to compute, for this process."""
    torch.backends.cudnn.benchmark = way.benchmark
    torch.backends.cudnn.allow_tf32 = way.precision == "tf32"
    torch.set_float32_matmul_precision("high" if way.precision == "tf32" else "highest")


def run_loop(
    torch: Any, given: argparse.Namespace, way: Way, device: torch.device
) -> tuple[list[float], list[float]]:
    """Warm up, then run the measured steps: the host's ms of each warm-up step and of each measured one."""
    torch.manual_seed(given.seed)
    use(torch, way)
    mark = marks(given.ranges, device)
    network = make_network(torch, given.channels, mark).to(device)
    pictures = torch.randn(given.batch, 3, given.size, given.size, device=device)
    if way.channels_last:
        network = network.to(memory_format=torch.channels_last)
        pictures = pictures.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def one_step() -> None:
        with mark("forward"), autocast(torch, way, device):
            result = network(pictures).float().square().mean()
        with mark("backward"):
            optimizer.zero_grad(set_to_none=True)
            with torch.autograd.set_multithreading_enabled(False):
                result.backward()
        with mark("optimizer"):
            optimizer.step()
        synchronize(device)

    early, times = [], []
    with recording(torch, device, warmup=given.warmup, steps=given.steps) as tick:
        for _ in range(given.warmup):
            early.append(timed_ms(one_step))
            tick()
        with nvtx_range(common.MEASURED, device):
            for number in range(given.steps):
                with mark(f"step {number}"):
                    times.append(timed_ms(one_step))
                tick()
    return early, times


def timed_ms(step: Callable[[], object]) -> float:
    """The host's time of a step that waits for the GPU, in ms."""
    began = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - began)


def check(torch: Any, given: argparse.Namespace, way: Way, device: torch.device) -> dict[str, Check]:
    """On two small pictures: outputs and gradients are those of float64 on the CPU, NCHW."""
    torch.manual_seed(given.seed)
    use(torch, way)
    pictures = torch.randn(2, 3, 24, 24)
    network = make_network(torch, 16, no_mark)
    reference = make_network(torch, 16, no_mark).double()
    reference.load_state_dict(network.state_dict())
    network = network.to(device)
    inputs = pictures.to(device)
    if way.channels_last:
        network = network.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    with autocast(torch, way, device):
        result = network(inputs)
    wanted = reference(pictures.double())
    for output in (result.float(), wanted):
        output.square().sum().backward()
    gradients = [(a.grad, b.grad) for a, b in zip(network.parameters(), reference.parameters(), strict=True)]
    checks = {}
    for name, pairs, allowed in zip(
        ("outputs", "gradients"), ([(result, wanted)], gradients), LARGEST_ERROR[way.precision], strict=True
    ):
        with torch.no_grad():
            worst = max(float((a.double().cpu() - b).norm() / b.norm()) for a, b in pairs)
        checks[f"{name}_match_float64"] = Check(
            worst <= allowed, f"largest relative error {worst:.1e}, allowed {allowed:.0e}"
        )
    return checks


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains a stack of convolutions; variants differ in how they are computed.", list(VARIANTS)
    )
    whole = common.whole
    parser.add_argument("--steps", type=whole(1, 10000), default=4, help="measured steps (default 4)")
    parser.add_argument("--warmup", type=whole(1, 10000), default=5, help="steps before those (default 5)")
    parser.add_argument("--batch", type=whole(1, 65536), default=32, help="pictures a step (default 32)")
    parser.add_argument("--size", type=whole(8, 8192), default=112, help="rows of a picture (default 112)")
    parser.add_argument("--channels", type=whole(1, 8192), default=128, help="of the layers (default 128)")
    parser.add_argument(
        "--ranges", choices=KINDS, default="record", help="how parts are named (default record)"
    )
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check it, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device, way = torch.device(given.device, 0), VARIANTS[given.variant]
    early, times = run_loop(torch, given, way, device)
    typical = spread(times).median
    record = common.Record(
        PROGRAM,
        given.variant,
        {**common.parameters_of(given), **asdict(way)},
        {
            "step_ms": round(typical, 4),
            "step_host_ms": common.rounded(times, 5),
            "warmup_step_host_ms": common.rounded(early, 5),
            "pictures_per_s": round(1e3 * given.batch / typical, 1),
        },
        check(torch, given, way, device),
        common.gpu_info(torch, device),
    )
    print(f"{record.gpu['name']}: {given.variant}, {given.batch} pictures of {given.size} rows")
    print(f"  {typical:.3f} ms a step; the first took {early[0]:.3f} ms")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
