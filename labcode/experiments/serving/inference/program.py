"""Serving measured: a variant and a size in; a JSON record of times, joules' windows and requests out.

- ``ladder``: what a token takes at batch 1, from the plainest loop to fused kernels and 8-bit weights;
- ``text``: a small model trained on the spot; what 8 bits cost in bits a byte; speculative decoding;
- ``load``: Poisson arrivals at several rates, on the plain pipeline and on the one with slots and graphs;
- ``slow``, ``fast``, ``streamed``: a few tokens for a profiler: plain loop, five kernels a layer, one kernel.

python -m labcode.workloads.inference --variant load --device cpu --size tiny
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labcode.analysis.lm import decoder
from labcode.errors import LabError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

    from labcode.experiments.serving.inference.model import Weights

PROGRAM = "inference"
VARIANTS = ("ladder", "text", "load", "slow", "fast", "streamed")
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BATCHES = (16, 64)
GUESSES = (0, 2, 4, 8)
CONTEXTS = {"ladder": 448, "text": 256, "load": 512, "slow": 448, "fast": 448, "streamed": 448}
STARTED = time.perf_counter()
Result = tuple[dict[str, Any], dict[str, Check]]


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Serves the language model in several ways.", VARIANTS)
    whole = common.whole
    parser.add_argument("--size", choices=list(decoder.SIZES), help="default 2.7B; of load and text small")
    parser.add_argument("--context", type=whole(1, 65536), help=f"tokens of a prompt, or most ({CONTEXTS})")
    parser.add_argument("--skip", default="", help="rungs of the ladder to leave out, separated by commas")
    parser.add_argument("--tokens", type=whole(1, 1000), default=8, help="for a profiler (default 8)")
    parser.add_argument("--batch", type=whole(1, 1024), default=32, help="slots under load (default 32)")
    parser.add_argument("--seconds", type=common.positive, default=1.2, help="of a window of the meter")
    parser.add_argument("--load-seconds", type=common.positive, default=3.0, help="of each rate (default 3)")
    parser.add_argument("--most", type=whole(1, 100000), default=1500, help="requests of a rate at most")
    parser.add_argument(
        "--rounds", type=whole(1, 100), default=7, help="that a load is served in (default 7)"
    )
    parser.add_argument("--steps", type=whole(1, 100000), default=500, help="of training (default 500)")
    parser.add_argument("--text", type=Path, default=Path("book"), help="pages to train on (default book)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of weights and requests (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def say(line: str) -> None:
    """A line of progress, at once: a run that is cut off tells where it was."""
    print(f"  {time.perf_counter() - STARTED:6.1f} s  {line}", flush=True)


def make_weights(given: argparse.Namespace, device: torch.device, longest: int, otherwise: str) -> Weights:
    """Random weights of the size asked for: bf16 on a GPU, fp32 elsewhere."""
    import torch

    from labcode.experiments.serving.inference.model import random_weights

    size = decoder.SIZES[given.size or otherwise]
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    return random_weights(size, longest, device, kind, given.seed)


def ladder(given: argparse.Namespace, device: torch.device) -> Result:
    """Every rung, the memory's rate beside them, passes over several tokens, steps of several sequences."""
    import torch

    from labcode.experiments.serving.inference.ladder import (
        BURST,
        Ladder,
        new_lengths_ms,
        read_gb_per_s,
        rows_ms,
    )
    from labcode.experiments.serving.inference.model import parameter_bytes
    from labcode.experiments.shared.windows import Windows, mark_clock

    on_gpu = device.type == "cuda"
    results: dict[str, Any] = {}
    if on_gpu:
        results["read_gb_per_s"], results["reads"] = read_gb_per_s(device)
        say(f"reads {results['read_gb_per_s']:.0f} GB/s")
    mark_clock(device)
    weights = make_weights(given, device, max(2048, given.context + 4 * BURST), "2.7B")
    windows = Windows(device, given.seconds, 0.2)
    climbed = Ladder(weights, given.context, windows, given.seed, given.skip.split(","), say)
    tried = ROWS if on_gpu else ()

    def attempt(name: str, call: Callable[[], Any]) -> None:
        try:
            results[name] = call()
            say(name)
        except Exception as error:
            climbed.left_out[name] = f"{type(error).__name__}: {str(error)[:300]}"

    if on_gpu:
        torch.backends.cuda.enable_cudnn_sdp(True)
        attempt("new_lengths_ms", lambda: new_lengths_ms(weights, climbed.prompt))
        torch.backends.cuda.enable_cudnn_sdp(False)
        attempt("rows_ms", lambda: rows_ms(weights, given.context, tried))
        attempt("batches", lambda: {str(n): batch_of(weights, given, n, windows) for n in BATCHES})
    climbed.all()
    mark_clock(device)
    results |= {
        "rungs": climbed.rungs,
        "left_out": climbed.left_out,
        "tried": climbed.tried,
        "attention_us": climbed.attention,
        "under_way_ms": climbed.under_way,
        "windows": windows.entries,
        "parameter_bytes": parameter_bytes(weights),
    }
    enough = Check("growing" in climbed.rungs, f"rungs: {', '.join(climbed.rungs)}")
    return results, {"the first rung was climbed": enough}


def batch_of(weights: Weights, given: argparse.Namespace, count: int, windows: Any) -> dict[str, float]:
    """Milliseconds of a step of so many sequences behind prompts, and a window of it for the meter."""
    from labcode.experiments.serving.inference.runners import PAGE, Slots

    drawn = given.context
    slots = Slots(weights, count, count * -(-(drawn + PAGE) // PAGE))
    for slot in range(count):
        slots.admit(slot, drawn + PAGE)
        slots.first(slot, [(7 * slot + place) % slots.vocabulary for place in range(drawn)])
    step = slots.step_of(count)

    def one() -> None:
        slots.lengths.fill_(drawn)
        step()

    one()
    synchronize(weights.device)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        one()
        synchronize(weights.device)
        times.append(1e3 * (time.perf_counter() - began))
    windows.repeat(f"batch {count}", one, tokens=count, rung=f"batch {count}")
    return {"step_ms": spread(times).median}


def text(given: argparse.Namespace, device: torch.device) -> Result:
    """Train, quantize, speculate."""
    import torch

    from labcode.experiments.serving.inference import quantize
    from labcode.experiments.serving.inference.model import weights_of, with_products
    from labcode.experiments.serving.inference.speculate import Table, speculate
    from labcode.experiments.serving.inference.text import bits_a_byte, corpus, train
    from labcode.experiments.serving.inference.tokens import KNOWN, decode
    from labcode.experiments.serving.inference.verifier import Verifier

    size, longest = decoder.SIZES[given.size or "small"], given.context
    if size.vocabulary < KNOWN:
        size = decoder.Size(size.d_model, size.d_ff, size.layers, size.heads, KNOWN)
    pages = corpus(given.text)
    began = time.perf_counter()
    with torch.enable_grad():
        model, losses = train(size, longest, pages.train, given.steps, 32, device, given.seed)
    synchronize(device)
    train_s = time.perf_counter() - began
    weights = weights_of(model, torch.bfloat16 if device.type == "cuda" else torch.float32)
    del model
    quality, before = {}, None
    for kind in ("whole", *quantize.KINDS):
        mine = weights if kind == "whole" else with_products(weights, quantize.KINDS[kind])
        bits, chosen = bits_a_byte(mine, pages.held_out, longest)
        before = chosen if before is None else before
        quality[kind] = {
            "bits_a_byte": bits,
            "same_choice": float((chosen == before).float().mean()),
            "weight_error": 0.0 if kind == "whole" else quantize.error(weights.layers[0].widen, kind),
        }
        say(f"{kind}: {bits:.4f} bits a byte")
    table = Table(pages.train.tolist())
    prompt_tokens = longest // 4
    most = longest - prompt_tokens - max(GUESSES) - 1
    verifier = Verifier(weights, longest, max(GUESSES) + 1)
    starts = [pages.held_out[k * 997 : k * 997 + prompt_tokens].tolist() for k in range(8)]
    starts = [start for start in starts if len(start) == prompt_tokens]
    guesses, said = {}, {}
    for count in GUESSES:
        told, began = [], time.perf_counter()
        for start in starts:
            first = verifier.prompt(start)
            told.append(speculate(verifier.verify, first, start, most, table.guess, count))
        seconds = time.perf_counter() - began
        said[count] = [one.tokens for one in told]
        passes = sum(len(one.guessed) for one in told)
        guesses[str(count)] = {
            "seconds": seconds,
            "tokens": most * len(starts),
            "passes": passes,
            "guessed": sum(sum(one.guessed) for one in told),
            "kept": sum(sum(one.kept) for one in told),
            "same_text": sum(a == b for a, b in zip(said[count], said[GUESSES[0]], strict=True)),
        }
        say(f"{count} guesses: {most * len(starts) / seconds:.0f} tokens a second, {passes} passes")
    fine = all(loss == loss for loss in losses)
    return (
        {
            "train_s": train_s,
            "losses": common.rounded(losses[:: max(1, len(losses) // 100)], 5),
            "train_bytes": len(pages.train),
            "held_out_bytes": len(pages.held_out),
            "corpus": pages.digest,
            "quality": quality,
            "speculation": guesses,
            "prompts": len(starts),
            "sample": decode(said[0][0]) if said[0] else "",
        },
        {"losses are numbers": Check(fine, f"from {losses[0]:.3f} to {losses[-1]:.3f}")},
    )


def load(given: argparse.Namespace, device: torch.device) -> Result:
    """What both pipelines serve when all wait, then at rates; the times of their steps."""
    from labcode.experiments.serving.inference.load import measure, uncollected
    from labcode.experiments.serving.inference.runners import PAGE, Alone, Slots

    weights = make_weights(given, device, given.context, "small")
    slots = Slots(weights, given.batch, given.batch * 16)
    small = Slots(weights, given.batch, max(17, given.batch * 16 // 8))
    for runner in (slots, small):
        runner.ready()
    say("graphs are ready")
    with uncollected():
        results, lost = measure(
            Alone(weights), slots, small, given.load_seconds, given.most, given.seed, given.rounds, say
        )
    same, total = as_one_by_one(device)
    results |= {"same_answers": same, "compared_answers": total, "page": PAGE, "slots": given.batch}
    checks = {
        "no request is lost": Check(not lost, "; ".join(lost) or "all are done"),
        "together as alone": Check(same >= 0.9 * total, f"{same} of {total} answers are the same"),
    }
    return results, checks


def as_one_by_one(device: torch.device) -> tuple[int, int]:
    """How many answers of a tiny model in fp32 are the same together and alone, and how many there are."""
    import torch

    from labcode.experiments.serving.inference.engine import Clock, Engine
    from labcode.experiments.serving.inference.load import requests
    from labcode.experiments.serving.inference.model import random_weights, with_products
    from labcode.experiments.serving.inference.runners import Alone, Slots

    weights = random_weights(decoder.SIZES["tiny"], 256, device, torch.float32)
    weights = with_products(weights, lambda weight: 8 * weight)
    asked = requests(12, 0.0, 3, weights.size.vocabulary)
    together, alone = (
        [a.tokens for a in Engine(runner, Clock(), batch=batch).serve(asked).answers]
        for runner, batch in ((Slots(weights, 4, 64), 4), (Alone(weights), 1))
    )
    return sum(a == b for a, b in zip(together, alone, strict=True)), len(asked)


def tokens(given: argparse.Namespace, device: torch.device) -> Result:
    """A few tokens under a range each, for a profiler."""
    import torch

    from labcode.experiments.serving.inference.ladder import BURST, by_kernels, growing

    capacity = given.context + 2 * BURST
    weights = make_weights(given, device, given.context + 4 * BURST, "2.7B")
    prompt = torch.randint(weights.size.vocabulary, (1, given.context), device=device)
    if given.variant == "slow":
        rung = growing(weights, prompt)
    else:
        if device.type != "cuda":
            raise LabError("the kernels need a GPU; --variant slow runs without")
        from labcode.experiments.serving.inference.fused import Fused
        from labcode.experiments.serving.inference.streamed import Streamed

        if given.variant == "fast":
            rung = by_kernels(Fused(weights, capacity), prompt)
        else:
            one = Streamed(weights, capacity)
            one.tune(given.context)
            rung = by_kernels(one, prompt)
    for _ in range(3):
        rung.step()
    rung.reset()
    synchronize(device)
    times = []
    with nvtx_range(common.MEASURED, device):
        for number in range(given.tokens):
            began = time.perf_counter()
            with nvtx_range(f"token {number}", device):
                rung.step()
                synchronize(device)
            times.append(1e3 * (time.perf_counter() - began))
    return {"token_ms": common.rounded(times)}, {"tokens": Check(len(times) == given.tokens, "all said")}


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check it, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    torch.set_grad_enabled(False)
    # it would plan anew for each length of a growing cache (`ladder` measures that apart)
    torch.backends.cuda.enable_cudnn_sdp(False)
    given.context = given.context or CONTEXTS[given.variant]
    device = torch.device(given.device, 0)
    variants = {
        "ladder": ladder,
        "text": text,
        "load": load,
        "slow": tokens,
        "fast": tokens,
        "streamed": tokens,
    }
    results, checks = variants[given.variant](given, device)
    parameters = common.parameters_of(given) | {"text": given.text.name}
    record = common.Record(
        PROGRAM, given.variant, parameters, results, checks, common.gpu_info(torch, device)
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
