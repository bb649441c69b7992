"""The Llama on two GPUs by FSDP2: ways to share and exchange in; times, memory and windows of each out.

Parameters, gradients and moments are in fp32 and in parts, one a rank; a layer is gathered in bf16 when it is
used. Each rank trains on a packed sequence of its own, with what one GPU profited from: FlexAttention,
compiled layers, fused AdamW, every layer recomputed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labcode.experiments.lm.llama import model as llama
from labcode.experiments.lm.llama.expected import CONFIGS
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.scaling import group
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range
from labcode.experiments.shared.windows import Windows

PROGRAM, MODULE = "llama_sharded", "labcode.workloads.llama.sharded"
VARIANTS = ("train",)
LEARNING_RATE = 1e-5
Case = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """Attention, whether layers are compiled; gradients' type on the way, how many layers stay gathered
    between forward and backward pass.
    """

    attention: str = "flex_attention"
    compiled: bool = True
    reduce: str = "float32"
    stay: int = 0


WAYS = {
    "sdpa": Way("sdpa", compiled=False),
    "compiled": Way(),
    "bf16": Way(reduce="bfloat16"),
    "stay": Way(reduce="bfloat16", stay=8),
}


class Sharded:
    """The model of one rank; ``step`` trains on its sequence and gives its loss."""

    def __init__(self, way: Way, name: str, member: Member) -> None:
        torch = member.torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        self.member = member
        self.model = llama.make_model(name, way.attention, member.device, torch.float32)
        llama.checkpoint_layers(self.model, CONFIGS[name].layers)
        if way.compiled and member.cuda:
            llama.compile_layers(self.model)
        mesh = init_device_mesh(member.device.type, (member.world,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, way.reduce))
        layers = list(self.model.model.layers)
        for index, layer in enumerate(layers):
            dropped = index < len(layers) - way.stay
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=dropped)
        fully_shard(self.model, mesh=mesh, mp_policy=policy)
        fused = {"fused": True} if member.cuda else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, **fused)
        self.batch = llama.packed_batch(name, member.device, seed=llama.SEED + member.rank)

    def step(self) -> Any:
        """Forward pass, backward pass, update; the loss, still on the GPU."""
        loss = self.model(**self.batch, use_cache=False).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def first_step(self) -> dict[str, float]:
        """A step whose results are compared: the mean loss, the norm of one summed gradient."""
        loss = self.model(**self.batch, use_cache=False).loss
        loss.backward()
        gradient = self.model.model.layers[0].self_attn.q_proj.weight.grad
        norm = float(gradient.full_tensor().float().norm())
        self.optimizer.step()
        self.optimizer.zero_grad()
        total = loss.detach().clone()
        self.member.torch.distributed.all_reduce(total)
        return {"loss": float(total) / self.member.world, "gradient_norm": norm}


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """Each way in turn, in a window or in the range of a trace; what was found about each."""
    windows = Windows(member.device, given.seconds, 0.0)
    found = []
    for name in given.ways or WAYS:
        try:
            case = _case(member, given, name, windows)
        except member.torch.OutOfMemoryError as error:  # on all ranks alike
            windows.entries.pop(name, None)
            case = {"way": name, "left_out": str(error).split(". ")[0]}
        entry = windows.entries.get(name)
        found.append({**case, **({"window": entry} if entry else {})})
        member.torch.compiler.reset()
        group.tidy(member)
    return found


def _case(member: Member, given: argparse.Namespace, name: str, windows: Windows) -> Case:
    torch = member.torch
    tokens = sum(llama.documents_of(given.config))
    if member.cuda:
        torch.cuda.reset_peak_memory_stats()
    trainer = Sharded(WAYS[name], given.config, member)
    case: Case = {"way": name, "world": member.world, "tokens": tokens, **trainer.first_step()}
    steps = given.steps
    trainer.step()
    member.meet()
    if steps:
        with nvtx_range(common.MEASURED, member.device):
            for number in range(steps):
                with nvtx_range(f"step {number}", member.device):
                    trainer.step()
            member.meet()
    else:
        with windows.window(f"{name} once", repetitions=2) as probe:
            for _ in range(2):
                trainer.step()
        probed = (probe["end_ns"] - probe["begin_ns"]) / 2e9
        windows.entries.pop(f"{name} once")
        each = group.slowest(member, [probed])[0]
        count = max(2, math.ceil(given.seconds / each))
        member.meet()
        with windows.window(name, repetitions=count, tokens=count * tokens * member.world):
            for _ in range(count):
                trainer.step()
    if member.cuda:
        case["peak_bytes"] = int(group.slowest(member, [torch.cuda.max_memory_allocated()])[0])
    if member.rank == 0:
        print(f"  {name}: {case.get('peak_bytes', 0) / 1e9:.1f} GB, loss {case['loss']:.4f}", flush=True)
    return case


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Check and write the record; the exit code."""
    left_out = {case["way"]: case["left_out"] for case in cases if "left_out" in case}
    ran = [case for case in cases if "left_out" not in case]
    ways = {case["way"]: {k: v for k, v in case.items() if k not in ("way", "window")} for case in ran}
    windows = {case["way"]: case["window"] for case in cases if "window" in case}
    checks: dict[str, Check] = llama.alike(ways)
    results = {"ways": ways, "left_out": left_out, "windows": windows}
    record = common.Record(PROGRAM, given.variant, common.parameters_of(given), results, checks, gpu)
    return common.finish(record, given.json)


def names(text: str) -> list[str]:
    """An argparse type: names of ways, separated by commas."""
    found = text.split(",")
    if wrong := [name for name in found if name not in WAYS]:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: the ways are {', '.join(WAYS)}")
    return found


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Trains a Llama on several GPUs by FSDP2.", VARIANTS)
    whole = common.whole
    parser.add_argument("--config", choices=list(CONFIGS), default="8B", help="default 8B")
    parser.add_argument("--ways", type=names, help="only these, by commas (default all)")
    parser.add_argument("--steps", type=whole(0, 1000), default=0, help="so many for a trace, no windows")
    parser.add_argument("--seconds", type=common.positive, default=2.0, help="of a window (default 2)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Start the processes, or be one of them; the exit code."""
    given = command_line().parse_args(arguments)
    given.counts = given.counts or ((given.gpus,) if given.gpus else (2,))
    llama.grow_segments()
    return group.run(MODULE, given, arguments, work, finish)


if __name__ == "__main__":
    common.run(PROGRAM, main)
