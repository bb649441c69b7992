"""Attention's backward, every way of computing it: times beside cuDNN's, errors against float64.

python -m labcode.workloads.attention_backward benchmark --lengths 2048,8192 --json results.json
python -m labcode.workloads.attention_backward benchmark --kv-heads 4 --masks causal
python -m labcode.workloads.attention_backward benchmark --plan 80,kAhead,kThreads,false,true,true

The implementations are those of ``steps.py``. Inputs are random normal
values; all take turns, each from a cold L2 cache. The forward pass is on nobody's clock.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.attention_backward import steps
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.kernels.topics import attention_backward as topic
from labcode.timing import spread

PROGRAM = "attention_backward"
MASKS = ("none", "causal")
ALLOWED = 8e-3  # of the norm, against float64
LIBRARY_TIMES = 1.5  # a step's error may be so many times cuDNN's, where that is timed
CHUNK = 1024  # queries that the reference takes at a time
ORDERED = ("two_passes", "ordered")  # give the same bits every time


def command_line() -> argparse.ArgumentParser:
    """The one command and its flags."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Attention's backward: benchmark.")
    commands = parser.add_subparsers(dest="command", required=True)
    whole = common.whole
    bench = commands.add_parser("benchmark", help="times and errors of implementations, in turns")
    bench.add_argument("--lengths", type=_numbers, default=(2048, 4096, 8192, 16384), help="by commas")
    bench.add_argument("--masks", type=_words(MASKS), default=MASKS, help="none, causal; by commas")
    bench.add_argument("--batch", type=whole(1, 65535), default=4, help="sequences (default 4)")
    bench.add_argument("--heads", type=whole(1, 65535), default=16, help="of the queries (default 16)")
    bench.add_argument("--kv-heads", type=whole(1, 65535), default=16, help="of the keys (default 16)")
    bench.add_argument(
        "--implementations", type=_words(tuple(steps.KINDS)), default=tuple(steps.KINDS), help="default: all"
    )
    bench.add_argument("--plan", type=_plan, action="append", default=[], help="a step of your own, too")
    bench.add_argument("--repetitions", type=whole(1, 1000), default=10, help="timed (default 10)")
    bench.add_argument("--seed", type=whole(0, 2**31), default=1, help="of the data (default 1)")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(common.whole(1, 1 << 17)(word) for word in text.split(","))


def _words(choices: Sequence[str]) -> Any:
    """An argparse type: some of these words, by commas."""

    def convert(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        for word in words:
            if word not in choices:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(choices)}")
        return words

    return convert


def _plan(text: str) -> topic.Plan:
    try:
        return topic.plan_of(text)
    except LabError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    given = command_line().parse_args(arguments)
    if given.heads % given.kv_heads:
        raise LabError(
            f"--heads {given.heads} --kv-heads {given.kv_heads}: give a multiple of the keys' heads"
        )
    torch = common.import_torch()
    common.require_gpus(torch)
    return benchmark(torch, given)


def plans(given: argparse.Namespace) -> dict[str, topic.Plan]:
    """The steps to run, by name: those named and those of --plan."""
    named = {name: topic.PLANS[name] for name in given.implementations if name in topic.PLANS}
    return named | {
        ",".join(str(x) for x in vars(one).values()).replace("True", "true").replace("False", "false"): one
        for one in given.plan
    }


# ---- the reference ------------------------------------------------------------------------------


def reference(torch: Any, given: steps.Operands, batch: int, kv_head: int) -> tuple[Any, Any, Any]:
    """Gradients in float64 of one head of the keys and the heads of the queries that share it."""
    group = given.q.shape[1] // given.k.shape[1]
    heads = slice(kv_head * group, (kv_head + 1) * group)
    q, slope = (x[batch, heads].double() for x in (given.q, given.slope))
    k, v = (x[batch, kv_head].double() for x in (given.k, given.v))
    length, scale = q.shape[1], q.shape[2] ** -0.5
    of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    places = torch.arange(length, device=q.device)
    for head, first in product(range(group), range(0, length, CHUNK)):
        rows = slice(first, first + CHUNK)
        scores = q[head, rows] @ k.T * scale
        if given.causal:
            scores.masked_fill_(places[None, :] > places[rows, None], float("-inf"))
        weights = torch.softmax(scores, -1)
        along = slope[head, rows] @ v.T
        terms = weights * (along - (weights * along).sum(-1, keepdim=True)) * scale
        of_q[head, rows] = terms @ k
        of_k += terms.T @ q[head, rows]
        of_v += weights.T @ slope[head, rows]
    return of_q, of_k, of_v


def errors(
    torch: Any, given: steps.Operands, found: Sequence[Any], expected: Mapping[Any, Any]
) -> list[float]:
    """‖found − expected‖ / ‖expected‖ of the gradients of Q, K, V; infinite where one is not a number."""
    group = given.q.shape[1] // given.k.shape[1]
    squares = [[0.0, 0.0] for _ in range(3)]
    for (batch, kv_head), wanted in expected.items():
        heads = slice(kv_head * group, (kv_head + 1) * group)
        mine = found[0][batch, heads], found[1][batch, kv_head], found[2][batch, kv_head]
        for both, one, other in zip(squares, mine, wanted, strict=True):
            both[0] += float((one.double() - other).square().sum())
            both[1] += float(other.square().sum())
    return [(off / max(size, 1e-12)) ** 0.5 if off == off else float("inf") for off, size in squares]


# ---- benchmark ----------------------------------------------------------------------------------


def benchmark(torch: Any, given: argparse.Namespace) -> int:
    """Check and time all implementations on all cases; 0 when every result was right."""
    from labcode.experiments.shared.kernel_times import reader
    from labcode.kernels.launch import this_gpu

    device = torch.device("cuda", torch.cuda.current_device())
    gpu = this_gpu(device.index)
    steps.compile_all(list(plans(given).values()), gpu)
    before, rows = reader(torch, gpu), list[dict[str, Any]]()
    print(f"{gpu.name}: {given.batch} x {given.heads} heads over {given.kv_heads} of 128 dimensions")
    for mask, length in product(given.masks, sorted(given.lengths)):
        print(f"{length} tokens, mask: {mask}", flush=True)
        rows.extend(_case(torch, given, length, mask == "causal", before))
        torch.cuda.empty_cache()
    checks = {
        f"{row['implementation']}, {row['length']}, {row['mask']}": Check(row["right"], row["detail"])
        for row in rows
        if "right" in row
    }
    record = common.Record(
        PROGRAM,
        "benchmark",
        {**common.parameters_of(given), "plan": list(plans(given))},
        {"rows": rows},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def make(torch: Any, given: argparse.Namespace, length: int, causal: bool) -> steps.Operands:
    """Random operands; the result by PyTorch's attention, log_sums by the lab's kernel."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    generator = torch.Generator(device="cuda").manual_seed(given.seed)

    def draw(heads: int) -> Any:
        shape = (given.batch, heads, length, topic.DIM)
        return torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_(generator=generator)

    q, k, v, slope = draw(given.heads), draw(given.kv_heads), draw(given.kv_heads), draw(given.heads)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        attend = torch.nn.functional.scaled_dot_product_attention
        result = attend(q, k, v, is_causal=causal, enable_gqa=given.heads != given.kv_heads).contiguous()
    log_sums = torch.full(q.shape[:3], float("nan"), device="cuda")
    steps.log_sums_call(torch, q, k, log_sums, causal)()
    return steps.Operands(q, k, v, result, slope, log_sums, causal)


def _case(
    torch: Any, given: argparse.Namespace, length: int, causal: bool, before: steps.Call
) -> list[dict[str, Any]]:
    from labcode.experiments.shared.kernel_times import take_turns

    heads, kv_heads = given.batch * given.heads, given.batch * given.kv_heads
    needed = length * topic.DIM * (heads * (2 * 6 + 4) + kv_heads * 2 * 8) * 2
    common.require_memory(torch, needed + (4 << 30), "choose smaller --batch, --heads or --lengths")
    data = make(torch, given, length, causal)
    to = steps.gradients_like(torch, (data.q, data.k, data.v))
    picked = {(0, 0), (given.batch - 1, given.kv_heads - 1)}
    expected = {one: reference(torch, data, *one) for one in picked}
    mine = plans(given)
    libraries = [name for name in given.implementations if name not in mine]
    rows: list[dict[str, Any]] = []
    calls: list[tuple[dict[str, Any], steps.Call]] = []
    allowed = [ALLOWED] * 3
    for name in (*libraries, *mine):
        row = {"implementation": name, "kind": steps.KINDS.get(name, "plan"), "length": length}
        row |= {"mask": "causal" if causal else "none", "heads": heads, "kv_heads": kv_heads}
        rows.append(row)
        try:
            call = steps.call_of(torch, name, data, to, mine.get(name))
            wrong, found = _run(torch, call, to, name in mine)
            row["error"] = errors(torch, data, found, expected)
            if name in mine:
                again = [x.clone() for x in found] if name in ORDERED else []
                second, found = _run(torch, call, to, True)  # what it leaves behind must not change the next
                wrong = wrong or second
                if any(not torch.equal(x, y) for x, y in zip(again, found, strict=False)):
                    wrong = wrong or "differs from run to run"
                held = all(x <= most for x, most in zip(row["error"], allowed, strict=True))
                row["right"] = held and not wrong
                told = ", ".join(
                    f"{x:.1e} of {most:.1e}" for x, most in zip(row["error"], allowed, strict=True)
                )
                row["detail"] = f"errors of Q, K, V: {told}{'; ' if wrong else ''}{wrong}"
            elif name == "cudnn":
                allowed = [min(ALLOWED, LIBRARY_TIMES * x) for x in row["error"]]
            del found
        except (LabError, RuntimeError) as error:  # what cannot run is said, the others go on
            row["left_out"] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            print(f"  {name:11} left out: {row['left_out']}", flush=True)
            if "CUDA error" in row["left_out"]:
                raise LabError(f"{name}: {row['left_out']}") from None
            continue
        calls.append((row, call))
    timed = take_turns(torch, [call for _, call in calls], before, given.repetitions)
    work = topic.flops(heads, length, causal)
    for (row, _), us in zip(calls, timed, strict=True):
        middle = spread(us)
        row |= {"time_us": middle.median, "time_q1_us": middle.q1, "time_q3_us": middle.q3}
        row |= {"repetitions": middle.count, "tflop_per_s": work / middle.median / 1e6}
    cudnn = next((row["time_us"] for row, _ in calls if row["implementation"] == "cudnn"), float("nan"))
    for row, _ in calls:
        row["over_cudnn_ratio"] = cudnn / row["time_us"]
        print(
            f"  {row['implementation']:36} {row['time_us']:9.1f} us {row['tflop_per_s']:6.1f} TFLOP/s "
            f"{row['over_cudnn_ratio']:6.3f} {' '.join(f'{x:.1e}' for x in row['error'])}"
            f"{'' if row.get('right', True) else ' WRONG: ' + row['detail']}",
            flush=True,
        )
    return rows


def _run(torch: Any, call: steps.Call, to: steps.Gradients, mine: bool) -> tuple[str, Any]:
    """Call once, into poisoned memory; what is wrong with what was written, and the gradients."""
    to.poison()
    found = call()
    torch.cuda.synchronize()
    return (to.wrong(), to.of) if mine else ("", found)


if __name__ == "__main__":
    common.run(PROGRAM, main)
