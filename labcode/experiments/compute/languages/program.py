"""One matmul and one attention in several languages beside the library: sizes in, a JSON record out.

python -m labcode.workloads.languages --variant product --n 8192
python -m labcode.workloads.languages --variant attention --mask causal

Of each language a few configurations are compiled, checked against float64, and timed; the fastest right one
then takes turns with those of the others and the library, each from a cold L2 cache. Inputs are random normal
values.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.attention.program import flops, reference
from labcode.experiments.compute.languages import candidates as languages
from labcode.experiments.compute.languages.candidates import Call, Candidate
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.kernel_times import reader, take_turns
from labcode.timing import spread

PROGRAM = "languages"
VARIANTS = ("product", "attention")
LANGUAGES = tuple(languages.PACKAGES)
MASKS = ("none", "causal")
ALLOWED = {"product": 4e-3, "attention": 6e-3}  # of the norm, against float64
CHECKED_ROWS = 128
TRIES = 5  # timings of a configuration, to choose one
STEP = 128  # lengths and sides are multiples of it


@dataclass(frozen=True)
class Task:
    """What is to be computed: calls of a language, those of libraries, the error of a result, the FLOPs."""

    candidates: Callable[[str], list[Candidate]]
    libraries: dict[str, Call]
    out: Any
    error: Callable[[Any], float]
    flops: float


@dataclass
class Row:
    """A language: its version and lines, what was tried, what was chosen, or why nothing was."""

    name: str
    kind: str
    call: Call | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    """Check and time; 0 when every language that runs was right."""
    parser = common.parser(PROGRAM, "Times a matmul or an attention in several languages.", VARIANTS)
    parser.add_argument(
        "--n", type=common.whole(1, 1 << 15), default=4096, help="rows and columns (default 4096)"
    )
    parser.add_argument("--length", type=common.whole(1, 1 << 17), default=8192, help="tokens (default 8192)")
    parser.add_argument(
        "--heads", type=common.whole(1, 65535), default=64, help="of 128 dimensions (default 64)"
    )
    parser.add_argument("--mask", choices=MASKS, default="none", help="of attention (default none)")
    parser.add_argument("--languages", type=_languages, default=LANGUAGES, help="some of them, by commas")
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=20, help="timed (default 20)")
    given = parser.parse_args(arguments)
    side = "n" if given.variant == "product" else "length"
    if getattr(given, side) % STEP:
        raise LabError(
            f"--{side} {getattr(given, side)}: give a multiple of {STEP}; the kernels have no rest"
        )
    torch = common.import_torch()
    common.require_gpus(torch)
    return _run(torch, given)


def _languages(text: str) -> tuple[str, ...]:
    words = tuple(text.split(","))
    for word in words:
        if word not in LANGUAGES:
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(LANGUAGES)}")
    return words


def _run(torch: Any, given: argparse.Namespace) -> int:
    from labcode.kernels.launch import this_gpu

    device = torch.device("cuda", torch.cuda.current_device())
    gpu = this_gpu(device.index)
    task = (_product if given.variant == "product" else _attention)(torch, given)
    before = reader(torch, gpu)
    rows = [Row(name, "library", call) for name, call in task.libraries.items()]
    for row in rows:
        row.facts["error"] = _error(torch, task, row.call)
    checks: dict[str, Check] = {}
    for name in given.languages:
        row = _language(torch, task, given.variant, name, before)
        rows.append(row)
        if "right" in row.facts:
            checks[name] = Check(row.facts["right"], row.facts["detail"])
    running = [row for row in rows if row.call is not None]
    timed = take_turns(torch, [row.call for row in running if row.call], before, given.repetitions)
    first = 0.0
    for row, us in zip(running, timed, strict=True):
        middle = spread(us)
        first = first or middle.median
        row.facts |= {"time_us": middle.median, "time_q1_us": middle.q1, "time_q3_us": middle.q3}
        row.facts |= {
            "tflop_per_s": task.flops / middle.median / 1e6,
            "over_library_ratio": first / middle.median,
        }
        print(
            f"  {row.name:9} {middle.median:9.1f} us {row.facts['tflop_per_s']:7.1f} TFLOP/s "
            f"{row.facts['over_library_ratio']:6.3f} {row.facts['error']:.1e} {row.facts.get('config', '')}",
            flush=True,
        )
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"rows": [{"name": row.name, "kind": row.kind, **row.facts} for row in rows]},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def _language(torch: Any, task: Task, variant: str, name: str, before: Call) -> Row:
    """A language's fastest right configuration, with what was tried; without a call where none runs."""
    row = Row(name, "language", facts={"lines": languages.lines_of(variant, name)})
    tried: list[dict[str, Any]] = []
    best = float("inf")
    for one in task.candidates(name):
        told: dict[str, Any] = {"config": dict(one.config)}
        tried.append(told)
        began = time.perf_counter()
        try:
            call = one.build()
            error = _error(torch, task, call)
            told |= {"build_s": time.perf_counter() - began, "error": error}
            again = _error(torch, task, call)  # what it leaves behind must not change the next
            told["right"] = max(error, again) <= ALLOWED[variant]
            if not told["right"]:
                continue
            told["time_us"] = spread(take_turns(torch, [call], before, TRIES)[0]).median
        except Exception as error:  # of any language's compiler or launch: said, and the others go on
            told["left_out"] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            print(f"  {name} {told['config']}: {told['left_out']}", flush=True)
            if "CUDA error" in str(error):
                raise
            continue
        if told["time_us"] < best:
            best, row.call = told["time_us"], call
            row.facts |= {"config": told["config"], "error": error, "build_s": told["build_s"]}
    row.facts["tried"] = tried
    if row.call is not None:
        row.facts["version"] = languages.version_of(name)
    if any("right" in one for one in tried):
        row.facts["right"] = all(one.get("right", True) for one in tried)
        errors = ", ".join(f"{one['error']:.1e}" for one in tried if "error" in one)
        row.facts["detail"] = f"errors {errors} of the norm (allowed {ALLOWED[variant]:.0e})"
    else:
        row.facts["left_out"] = next(
            (one["left_out"] for one in tried if "left_out" in one), "nothing to try"
        )
    return row


def _error(torch: Any, task: Task, call: Call | None) -> float:
    """The error of a call that writes into poisoned memory, or returns its result; infinite for a NaN."""
    assert call is not None
    task.out.fill_(float("nan"))
    result = call()
    torch.cuda.synchronize()
    error = task.error(result if torch.is_tensor(result) else task.out)
    return error if error == error else float("inf")


def _product(torch: Any, given: argparse.Namespace) -> Task:
    n = given.n
    common.require_memory(torch, 8 * n * n * 2 + (2 << 30), "choose a smaller --n")
    generator = torch.Generator(device="cuda").manual_seed(1)
    a, b = (torch.randn((n, n), generator=generator, device="cuda").bfloat16() for _ in range(2))
    out, library = torch.empty_like(a), torch.empty_like(a)
    rows = torch.arange(0, n, -(-n // CHECKED_ROWS), device="cuda")
    expected = a[rows].double() @ b.double()

    def error(found: Any) -> float:
        whole = 0.0 if bool(torch.isfinite(found).all()) else float("inf")
        return float((found[rows].double() - expected).norm() / expected.norm()) + whole

    def by_library() -> Any:
        return torch.matmul(a, b, out=library)

    return Task(
        lambda name: languages.products(torch, name, a, b, out),
        {"cublas": by_library},
        out,
        error,
        2.0 * n**3,
    )


def _attention(torch: Any, given: argparse.Namespace) -> Task:
    from labcode.experiments.compute.attention import steps as attention_steps

    shape, causal = (given.heads, given.length, 128), given.mask == "causal"
    common.require_memory(
        torch, 8 * 2 * given.heads * given.length * 128 + (4 << 30), "choose a smaller --length"
    )
    generator = torch.Generator(device="cuda").manual_seed(1)
    tensors = [torch.randn(shape, generator=generator, device="cuda").bfloat16() for _ in range(3)]
    out = torch.empty_like(tensors[0])
    heads, rows, wanted = reference(torch, tensors, causal)

    def error(found: Any) -> float:
        whole = 0.0 if bool(torch.isfinite(found).all()) else float("inf")
        return float((found[heads][:, rows].double() - wanted).norm() / wanted.norm()) + whole

    libraries = {
        name: attention_steps.call_of(torch, attention_steps.IMPLEMENTATIONS[name], tensors, out, causal)
        for name in ("cudnn", "flash")
    }
    return Task(
        lambda name: languages.attentions(torch, name, tensors, out, causal),
        libraries,
        out,
        error,
        flops(given.heads, given.length, 128, given.mask),
    )


if __name__ == "__main__":
    common.run(PROGRAM, main)
