"""The decoder over sizes, precisions and contexts: flags in, a JSON record of times and memory out.

Variants:

- ``precision``: each size in fp32, TF32 and bf16, forward pass and training step: times by pass;
- ``memory``: each size over contexts, forward pass and training step, in fp32 and bf16, with and without
  checkpointed activations: bytes in use and their peaks by pass.

A case that does not fit into the GPU's memory is recorded as such; the others go on.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from labcode.analysis.lm import decoder
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "lm_grid"
VARIANTS = ("precision", "memory")
SIZES = ("small", "medium", "large", "xl", "2.7B")
CONTEXTS = (128, 256, 512, 1024)
Case = dict[str, Any]


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """What is measured, the cheap ones first."""
    for size in given.sizes:
        if given.variant == "precision":
            for precision, passes in product(("fp32", "tf32", "bf16"), ("forward", "train")):
                yield {"size": size, "precision": precision, "passes": passes, "context": given.context}
            continue
        for context, (passes, recompute), precision in product(
            given.contexts, (("forward", False), ("train", False), ("train", True)), ("fp32", "bf16")
        ):
            yield {
                "size": size,
                "precision": precision,
                "passes": passes,
                "context": context,
                "recompute": recompute,
            }


def measure(torch: Any, given: argparse.Namespace, case: Case, device: torch.device) -> Case:
    """One case with its results; one that does not fit is marked as such."""
    try:
        return {**case, "fits": True, **_measure(given, case, device)}
    except torch.OutOfMemoryError:
        return {**case, "fits": False}
    finally:
        gc.collect()  # what the case leaves must not take the next one's memory
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _measure(given: argparse.Namespace, case: Case, device: torch.device) -> Case:
    from labcode.experiments.lm.transformer import steps

    size = decoder.SIZES[case["size"]]
    setup = steps.Setup(
        *(size, given.batch, case["context"], case["precision"], given.attention, False),
        *(case.get("recompute", False), given.seed),
    )
    trainer = steps.make_trainer(setup, device)
    passes, times = steps.PASSES[case["passes"]], steps.Times()
    for number in range(given.warmup + given.steps):
        loss = steps.step(trainer, passes, times=times if number >= given.warmup else None)
    found: Case = {"loss": float(f"{float(loss):.7g}")}
    for name in passes:
        found[f"{name}_host_ms"] = common.rounded(times.host_ms[name], 5)
    if device.type == "cuda" and given.variant == "memory":
        found |= steps.memory_peaks(trainer, passes)
    found["matmul_flops"] = decoder.matmul_flops(
        size, given.batch, case["context"], backward=case["passes"] != "forward"
    )
    return found


def check(found: Sequence[Case]) -> dict[str, Check]:
    """Something fits, and losses are those of a model that has learned nothing or a little."""
    fitting = [case for case in found if case["fits"]]
    wrong = [case for case in fitting if not 0 < case["loss"] < 20]
    return {
        "something_fits": Check(bool(fitting), f"{len(fitting)} of {len(found)} cases fit"),
        "losses_finite": Check(not wrong, f"{len(wrong)} of {len(fitting)} losses are no losses"),
    }


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Times the decoder, or weighs it, over a grid of sizes.", VARIANTS)
    whole = common.whole
    parser.add_argument("--sizes", type=_sizes, default=SIZES, help="by commas (default: all five)")
    parser.add_argument("--contexts", type=_numbers, default=CONTEXTS, help="of `memory`, by commas")
    parser.add_argument("--context", type=whole(1, 65536), default=512, help="of `precision` (default 512)")
    parser.add_argument("--batch", type=whole(1, 65536), default=4, help="texts (default 4)")
    parser.add_argument("--attention", choices=("naive", "sdpa"), default="naive", help="default naive")
    parser.add_argument("--steps", type=whole(1, 1000), default=5, help="measured steps (default 5)")
    parser.add_argument("--warmup", type=whole(0, 1000), default=2, help="steps before those (default 2)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _sizes(text: str) -> tuple[str, ...]:
    """An argparse type: names of sizes, by commas."""
    words = tuple(text.split(","))
    if unknown := [word for word in words if word not in decoder.SIZES]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: no such size ({', '.join(decoder.SIZES)})")
    return words


def _numbers(text: str) -> tuple[int, ...]:
    """An argparse type: whole numbers from 1 on, by commas."""
    return tuple(common.whole(1, 65536)(word) for word in text.split(","))


def main(arguments: Sequence[str]) -> int:
    """Measure all cases, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    found = []
    for case in cases(given):
        found.append(measure(torch, given, case, device))
        print(f"  {line(found[-1])}", flush=True)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"cases": found},
        check(found),
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def line(case: Case) -> str:
    """A case in one line."""
    what = f"{case['size']}, context {case['context']}, {case['precision']}, {case['passes']}"
    what += ", recomputed" if case.get("recompute") else ""
    if not case["fits"]:
        return f"{what}: out of memory"
    passes = [key.removesuffix("_host_ms") for key in case if key.endswith("_host_ms")]
    times = ", ".join(f"{name} {spread(case[f'{name}_host_ms']).median:.3f} ms" for name in passes)
    peak = f"; peak {case['step_peak_bytes'] / 1e9:.2f} GB" if "step_peak_bytes" in case else ""
    return f"{what}: {times}{peak}"


if __name__ == "__main__":
    common.run(PROGRAM, main)
