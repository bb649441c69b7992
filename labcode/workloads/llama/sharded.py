"""The Llama on two GPUs by FSDP2: ways to share and exchange in; times, memory and windows of each out.

Parameters, gradients and moments are in fp32 and in parts, one a rank; a layer is gathered in bf16 when it is
used. Each rank trains on a packed sequence of its own, with what one GPU profited from: FlexAttention,
compiled layers, fused AdamW, every layer recomputed.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labcode.analysis.lm.llama import CONFIGS
from labcode.errors import ToolError
from labcode.workloads.llama import model as llama
from labcode.workloads.models.data_parallel import Member
from labcode.workloads.scaling import group
from labcode.workloads.shared import common
from labcode.workloads.shared.common import Check, nvtx_range
from labcode.workloads.shared.windows import Windows

PROGRAM, MODULE = "llama_sharded", "labcode.workloads.llama.sharded"
VARIANTS = ("train",)
LEARNING_RATE = 1e-5
BUFFERS = 2  # of each size
_MULTICAST_OFF = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
Case = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How the model is shared: layers a group, gradients' type on the way, how many layers stay gathered
    between forward and backward pass, whether collectives use symmetric memory; attention, compiled layers.
    """

    attention: str = "flex_attention"
    compiled: bool = True
    reduce: str = "float32"
    stay: int = 0
    symmetric: bool = False


WAYS = {
    "sdpa": Way("sdpa", compiled=False),
    "compiled": Way(),
    "bf16": Way(reduce="bfloat16"),
    "stay": Way(reduce="bfloat16", stay=8),
    "symmetric": Way(reduce="bfloat16", symmetric=True),
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
        if way.symmetric and member.cuda:
            mesh = _without_ctas(member)
        else:
            mesh = init_device_mesh(member.device.type, (member.world,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, way.reduce))
        layers = list(self.model.model.layers)
        for index, layer in enumerate(layers):
            dropped = index < len(layers) - way.stay
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=dropped)
        fully_shard(self.model, mesh=mesh, mp_policy=policy)
        if way.symmetric and member.cuda:
            gather = Registered(member, mesh.get_group())
            for module in (*layers, self.model):
                module.set_custom_all_gather(gather)
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


class Registered:
    """An all-gather for FSDP2 into memory that all ranks have registered, which NCCL's copy engines fill.

    A gathered layer is copied out before the next but one is gathered, so two buffers of a size are enough.
    """

    def __init__(self, member: Member, members: Any) -> None:
        from torch.distributed import _symmetric_memory as symmetric

        self._member, self._members, self._symmetric = member, members, symmetric
        if symmetric.get_backend(member.device) != "NCCL":
            symmetric.set_backend("NCCL")
        member.torch.distributed.all_reduce(member.torch.ones(1, device=member.device), group=members)
        self._rings: dict[tuple[tuple[int, ...], Any], list[Any]] = {}
        self._gather: Any = group.all_gather(member.torch)

    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        """A buffer of this size; the one that was given out before the last one comes again."""
        ring = self._rings.setdefault((tuple(size), dtype), [])
        if len(ring) == BUFFERS:
            ring.append(ring.pop(0))
        else:
            made = self._symmetric.empty(*size, dtype=dtype, device=device)
            self._symmetric.rendezvous(made, self._members.group_name)
            ring.append(made)
        return ring[-1]

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        """The collective itself."""
        return self._gather(output_tensor, input_tensor, group=group, async_op=async_op)


def _without_ctas(member: Member) -> Any:
    """A mesh whose communicator is to take no multiprocessors where it need not; multicast stays off."""
    os.environ.setdefault(_MULTICAST_OFF, "1")
    from torch.distributed.device_mesh import DeviceMesh

    nccl = member.torch.distributed.ProcessGroupNCCL
    if not hasattr(nccl, "NCCL_CTA_POLICY_ZERO"):
        raise ToolError("this PyTorch does not know NCCL's policy of taking no multiprocessors")
    options = nccl.Options()
    options.is_high_priority_stream = True
    options.config.cta_policy = nccl.NCCL_CTA_POLICY_ZERO
    members = member.torch.distributed.new_group(pg_options=options)
    return DeviceMesh.from_group(members, member.device.type)


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """Each way in turn, in a window or in the range of a trace; what was found about each."""
    windows = Windows(member.device, given.seconds, 0.0)
    found = []
    for name in given.ways or WAYS:
        try:
            case = _case(member, given, name, windows)
        except (ToolError, member.torch.OutOfMemoryError) as error:  # on all ranks alike
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
    case["last_loss"] = float(trainer.step())
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
