"""The Llama on one GPU: ways to train it or to have it write in; times, memory and windows of each out.

Each way's work is repeated in a window for a meter of power. With ``--steps``, a few calls of each way run in
the range that captures are trimmed to instead.
"""

from __future__ import annotations

import argparse
import gc
import math
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labcode.errors import InputError
from labcode.experiments.lm.llama import generate, model, train
from labcode.experiments.lm.llama.expected import CONFIGS
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.experiments.shared.windows import Windows, mark_clock

if TYPE_CHECKING:
    import torch

PROGRAM = "llama"
VARIANTS = ("train", "generate")
_TRIED = re.compile(r"Tried to allocate ([0-9.]+ [KMG]iB)")


class Lab:
    """What the ways share: flags, device, windows; what was found out about each."""

    def __init__(self, given: argparse.Namespace, device: torch.device) -> None:
        self.given, self.device = given, device
        self.windows = Windows(device, given.seconds, 0.0)
        self.ways: dict[str, dict[str, Any]] = {}
        self.left_out: dict[str, str] = {}

    def run(self, name: str, call: Callable[[], Any], tokens: int) -> None:
        """After a call that warms up, repeat it in a window; or, for a trace, in the measured range."""
        each = self.timed(call)
        if not self.given.steps:
            count = max(1, math.ceil(self.given.seconds / each))
            with self.windows.window(name, repetitions=count, tokens=count * tokens):
                for _ in range(count):
                    call()
            return
        with nvtx_range(common.MEASURED, self.device):
            for number in range(self.given.steps):
                with nvtx_range(f"step {number}", self.device):
                    call()
            synchronize(self.device)

    def timed(self, call: Callable[[], Any]) -> float:
        """Seconds of a call, the GPU's work included."""
        synchronize(self.device)
        began = time.monotonic()
        call()
        synchronize(self.device)
        return time.monotonic() - began

    def try_way(self, name: str, work: Callable[[str], dict[str, Any]]) -> None:
        """What one way is found to need; one that does not fit or work is left out, with the reason."""
        import torch

        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            self.ways[name] = work(name)
        except RuntimeError as error:
            self.windows.entries.pop(name, None)
            self.left_out[name] = reason(error)
            print(f"  {name}: {self.left_out[name]}", flush=True)
        else:
            if self.device.type == "cuda":
                self.ways[name]["peak_bytes"] = torch.cuda.max_memory_allocated()
            print(f"  {name}: {self.ways[name]}", flush=True)
        gc.collect()
        torch.compiler.reset()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def reason(error: RuntimeError) -> str:
    """Why a way is left out: the memory it asked for in vain, or the error's first line."""
    import torch

    if not isinstance(error, torch.OutOfMemoryError):
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    asked = _TRIED.search(str(error))
    peak = torch.cuda.max_memory_allocated()
    return f"does not fit: {peak / 1e9:.1f} GB in use and {asked[1] if asked else 'more'} asked for"


def training(lab: Lab) -> dict[str, Check]:
    """Train by each way; do they compute the same?"""
    import torch

    def work(name: str) -> dict[str, Any]:
        trainer = train.Trainer(train.WAYS[name], lab.given.config, lab.device)
        found: dict[str, Any] = dict(trainer.first_step())
        if lab.device.type == "cuda":
            found["first_peak_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        lab.run(name, trainer.step, tokens=sum(model.documents_of(lab.given.config)))
        return found

    for name in lab.given.ways or train.WAYS:
        lab.try_way(name, work)
    return model.alike(lab.ways)


def writing(lab: Lab) -> dict[str, Check]:
    """Have it write by each way; does each request get its tokens?"""
    import torch

    given = lab.given
    dtype = torch.bfloat16 if lab.device.type == "cuda" else torch.float32
    llama = model.make_model(given.config, "sdpa", lab.device, dtype).eval()
    first: dict[str, list[list[int]]] = {}
    checks = {}
    for name in given.ways or generate.WAYS:
        way = generate.WAYS[name]
        lengths = generate.lengths_of(way, given.new_tokens, given.requests)

        def work(name: str, way: Any = way, lengths: list[int] = lengths) -> dict[str, Any]:
            with torch.no_grad(), generate.answering(way, llama, lengths, lab.device) as answer:
                texts = answer()
                lab.run(name, answer, tokens=sum(lengths))
            checks[f"{name}_complete"] = Check(
                [len(text) for text in texts] == lengths, f"{len(texts)} requests, {sum(lengths)} tokens"
            )
            reference = first.setdefault("one" if way.requests == "one" else "many", texts)
            return {"requests": len(lengths), "tokens": sum(lengths), "agree": agreeing(texts, reference)}

        lab.try_way(name, work)
    return checks


def agreeing(texts: list[list[int]], reference: list[list[int]]) -> float:
    """The share of requests whose first token is that of the reference."""
    same = [text[:1] == other[:1] for text, other in zip(texts, reference, strict=True)]
    return sum(same) / max(len(same), 1)


def names(text: str) -> list[str]:
    """An argparse type: names of ways, separated by commas."""
    known = {**train.WAYS, **generate.WAYS}
    found = text.split(",")
    wrong = [name for name in found if name not in known]
    if wrong:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: the ways are {', '.join(known)}")
    return found


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Trains a Llama on one GPU, or has it write.", VARIANTS)
    whole = common.whole
    parser.add_argument("--config", choices=list(CONFIGS), default="8B", help="default 8B")
    parser.add_argument("--ways", type=names, help="only these, by commas (default all of the variant)")
    parser.add_argument("--steps", type=whole(0, 1000), default=0, help="so many for a trace, no windows")
    parser.add_argument("--new-tokens", type=whole(1, 4096), default=64, help="most of a request (64)")
    parser.add_argument(
        "--requests", type=whole(1, 4096), default=32, help="of all batches together (default 32)"
    )
    parser.add_argument("--seconds", type=common.positive, default=2.0, help="of a window (default 2)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the ways, check what they computed, write the record; the exit code."""
    given = command_line().parse_args(arguments)
    known = train.WAYS if given.variant == "train" else generate.WAYS
    if given.ways and (wrong := [name for name in given.ways if name not in known]):
        raise InputError(f"--ways {','.join(wrong)}: the ways of {given.variant} are {', '.join(known)}")
    if given.variant == "train":
        model.grow_segments()
    torch = common.import_torch()
    model.import_transformers()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    lab = Lab(given, device)
    mark_clock(device)
    checks = (training if given.variant == "train" else writing)(lab)
    mark_clock(device)
    checks["something_ran"] = Check(bool(lab.ways), f"{len(lab.ways)} ways ran, {len(lab.left_out)} did not")
    results = {"ways": lab.ways, "left_out": lab.left_out, "windows": lab.windows.entries}
    parameters = common.parameters_of(given)
    record = common.Record(
        PROGRAM, given.variant, parameters, results, checks, common.gpu_info(torch, device)
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
