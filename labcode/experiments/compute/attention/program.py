"""Attention forward, every way of computing it: benchmark, plots of a benchmark, and one call to be profiled.

python -m labcode.workloads.attention benchmark --lengths 512,2048,8192 --json results.json
python -m labcode.workloads.attention visualize --input results.json --output-dir plots/
python -m labcode.workloads.attention profile --length 2048 --implementation lazy --trace trace.json

The implementations are those of ``steps.py``. Inputs are random normal values.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from labcode.errors import LabError, describe_os_error
from labcode.experiments.compute.attention import steps
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import spread

PROGRAM = "attention"
MASKS = ("none", "causal")
DTYPES = ("float32", "bfloat16", "float16")
ALLOWED = {"float32": 1e-4, "bfloat16": 6e-3, "float16": 2e-3}  # of the norm, against float64
CHECKED_HEADS, CHECKED_ROWS = 4, 64
LIMIT_US = 200_000.0  # an implementation that would take longer on a length is left out there


def command_line() -> argparse.ArgumentParser:
    """The three commands and their flags."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Attention forward: benchmark, visualize, profile."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    whole = common.whole
    bench = commands.add_parser("benchmark", help="times and errors of implementations, in turns")
    bench.add_argument("--lengths", type=_numbers, default=(512, 1024, 2048, 4096, 8192), help="by commas")
    bench.add_argument("--dims", type=_numbers, default=(64, 128), help="of a head, by commas")
    bench.add_argument("--masks", type=_words(MASKS), default=MASKS, help="none, causal; by commas")
    bench.add_argument("--dtypes", type=_words(DTYPES), default=("bfloat16",), help=f"of {', '.join(DTYPES)}")
    bench.add_argument(
        "--implementations", type=_words(tuple(steps.IMPLEMENTATIONS)), default=(), help="default: all"
    )
    bench.add_argument("--repetitions", type=whole(1, 1000), default=10, help="timed (default 10)")
    bench.add_argument("--scale", type=common.positive, default=1.0, help="of queries and keys (default 1)")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
    show = commands.add_parser("visualize", help="a record of benchmark as plots")
    show.add_argument("--input", type=Path, required=True, metavar="FILE", help="a record of benchmark")
    show.add_argument("--output-dir", type=Path, required=True, metavar="FOLDER", help="where the plots go")
    one = commands.add_parser("profile", help="one implementation on one length, for a profiler")
    one.add_argument("--implementation", choices=list(steps.IMPLEMENTATIONS), default="lazy")
    one.add_argument("--length", type=whole(1, 1 << 17), default=2048)
    one.add_argument("--dim", type=whole(1, 1024), default=128)
    one.add_argument("--mask", choices=MASKS, default="none")
    one.add_argument("--dtype", choices=DTYPES, help="default: bfloat16, or what the implementation takes")
    one.add_argument("--repetitions", type=whole(1, 1000), default=10, help="calls (default 10)")
    one.add_argument("--trace", type=Path, metavar="FILE", help="record with PyTorch's profiler: the trace")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
    for command in (bench, one):
        command.add_argument("--batch", type=whole(1, 65536), default=4, help="texts (default 4)")
        command.add_argument("--heads", type=whole(1, 65536), default=16, help="of a text (default 16)")
        command.add_argument("--seed", type=whole(0, 2**31), default=1, help="of the data (default 1)")
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


def main(arguments: Sequence[str]) -> int:
    """Run a command; the exit code."""
    given = command_line().parse_args(arguments)
    if given.command == "visualize":
        return visualize(given.input, given.output_dir)
    torch = common.import_torch()
    common.require_gpus(torch)
    return (benchmark if given.command == "benchmark" else profile)(torch, given)


# ---- benchmark --------------------------------------------------------------------------------


def flops(heads: int, length: int, dim: int, mask: str) -> float:
    """Of both products; with a causal mask half."""
    return 4.0 * heads * length**2 * dim / (2 if mask == "causal" else 1)


def benchmark(torch: Any, given: argparse.Namespace) -> int:
    """Check and time all implementations on all problems; 0 when every result was right."""
    from labcode.experiments.shared.kernel_times import reader
    from labcode.kernels.catalogue import Problem
    from labcode.kernels.launch import this_gpu

    device = torch.device("cuda", torch.cuda.current_device())
    gpu = this_gpu(device.index)
    known = [Problem((1, 1, dim), dtype) for dtype in given.dtypes for dim in given.dims if dim in (64, 128)]
    steps.compile_all(known, given.implementations, gpu)
    before, rows = reader(torch, gpu), list[dict[str, Any]]()
    torch.set_float32_matmul_precision("highest")
    print(f"{gpu.name}: batch {given.batch}, {given.heads} heads; median us, TFLOP/s, error against float64")
    for dtype, dim, mask in product(given.dtypes, given.dims, given.masks):
        last: dict[str, float] = {}
        for length in sorted(given.lengths):
            print(f"{dtype}, {length} x {dim}, mask: {mask}", flush=True)
            case = {"dtype": dtype, "mask": mask, "length": length, "dim": dim}
            found = _problem(torch, given, case, before, last)
            rows.extend(found)
            torch.cuda.empty_cache()
    checks = {}
    for row in rows:
        if row["kind"] == "step" and "error" in row:
            name = f"{row['implementation']}, {row['dtype']}, {row['length']} x {row['dim']}, {row['mask']}"
            allowed = ALLOWED[row["dtype"]] * max(1.0, given.scale)
            detail = f"error {row['error']:.1e} of the norm, allowed {allowed:.0e}"
            checks[name] = Check(row["error"] <= allowed, detail)
    record = common.Record(
        PROGRAM,
        "benchmark",
        common.parameters_of(given),
        {"rows": rows},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def _problem(
    torch: Any, given: argparse.Namespace, case: Mapping[str, Any], before: Any, last: dict[str, float]
) -> list[dict[str, Any]]:
    """Rows of one problem. ``last``: what each implementation took on the length before; renewed."""
    from labcode.experiments.shared.kernel_times import take_turns

    heads, length, causal = given.batch * given.heads, case["length"], case["mask"] == "causal"
    tensors, out = inputs(torch, given, (heads, length, case["dim"]), case["dtype"])
    expected = reference(torch, tensors, causal)
    rows: list[dict[str, Any]] = []
    calls = []
    for one in steps.chosen(given.implementations, case["dtype"]):
        row = {"implementation": one.name, "kind": one.kind, **case, "heads": heads}
        rows.append(row)
        times = length / last.get("length", length)
        if last.get(one.name, 0.0) * times**2 > LIMIT_US:
            row["left_out"] = f"would take more than {LIMIT_US / 1e3:.0f} ms"
            continue
        try:
            call = steps.call_of(torch, one, tensors, out, causal)
            out.fill_(float("nan"))
            result = call()
            result = out if result is None else result
            row |= errors(torch, result, expected)
            del result
            torch.cuda.synchronize()
        except (LabError, RuntimeError) as error:  # what does not fit or cannot run is said, the others go on
            row["left_out"] = str(error).splitlines()[0][:200]
            print(f"  {one.name:14} left out: {row['left_out']}", flush=True)
            torch.cuda.empty_cache()
            continue
        calls.append((row, call))
    timed = take_turns(torch, [call for _, call in calls], before, given.repetitions)
    work = flops(heads, length, case["dim"], case["mask"])
    last["length"] = length
    for (row, _), us in zip(calls, timed, strict=True):
        middle = spread(us)
        last[row["implementation"]] = middle.median
        row |= {"time_us": middle.median, "time_q1_us": middle.q1, "time_q3_us": middle.q3}
        row |= {"repetitions": middle.count, "tflop_per_s": work / middle.median / 1e6}
        print(
            f"  {row['implementation']:14} {middle.median:10.1f} us {row['tflop_per_s']:8.1f} TFLOP/s "
            f"{row['error']:9.1e}",
            flush=True,
        )
    return rows


def inputs(
    torch: Any, given: argparse.Namespace, shape: tuple[int, ...], dtype: str
) -> tuple[list[Any], Any]:
    """Queries, keys and values, and where the result goes."""
    kind = getattr(torch, dtype)
    needed = 8 * shape[0] * shape[1] * shape[2] * (4 if dtype == "float32" else 2)
    common.require_memory(torch, needed + (1 << 29), "choose smaller --batch, --heads or --lengths")
    generator = torch.Generator(device="cuda").manual_seed(given.seed)
    drawn = [torch.randn(shape, generator=generator, device="cuda") for _ in range(3)]
    scale = getattr(given, "scale", 1.0)
    tensors = [drawn[0].mul_(scale).to(kind), drawn[1].mul_(scale).to(kind), drawn[2].to(kind)]
    return tensors, torch.empty(shape, dtype=kind, device="cuda")


def reference(torch: Any, tensors: Sequence[Any], causal: bool) -> tuple[Any, Any, Any]:
    """Some heads and rows, and their attention in float64."""
    q, k, v = tensors
    heads = torch.arange(0, q.shape[0], max(1, q.shape[0] // CHECKED_HEADS), device=q.device)
    rows = torch.arange(0, q.shape[1], max(1, q.shape[1] // CHECKED_ROWS), device=q.device)
    rows[-1] = q.shape[1] - 1
    wide = q[heads][:, rows].double(), k[heads].double(), v[heads].double()
    scores = wide[0] @ wide[1].transpose(1, 2) / q.shape[2] ** 0.5
    if causal:
        hidden = torch.arange(q.shape[1], device=q.device)[None, :] > rows[:, None]
        scores = scores.masked_fill(hidden, float("-inf"))
    return heads, rows, torch.softmax(scores, -1) @ wide[2]


def errors(torch: Any, out: Any, expected: tuple[Any, Any, Any]) -> dict[str, float]:
    """‖out − expected‖ / ‖expected‖, and the largest difference; infinite where ``out`` is not a number."""
    heads, rows, wanted = expected
    difference = out[heads][:, rows].double() - wanted
    found = {"error": difference.norm() / wanted.norm(), "largest_error": difference.abs().max()}
    return {name: float(x) if bool(torch.isfinite(x)) else float("inf") for name, x in found.items()}


# ---- profile --------------------------------------------------------------------------------


def profile(torch: Any, given: argparse.Namespace) -> int:
    """Call one implementation for a profiler: after a warm-up, in the range that captures keep."""
    one = steps.IMPLEMENTATIONS[given.implementation]
    dtype = given.dtype or ("bfloat16" if "bfloat16" in one.dtypes else one.dtypes[0])
    causal, heads = given.mask == "causal", given.batch * given.heads
    device = torch.device("cuda", torch.cuda.current_device())
    tensors, out = inputs(torch, given, (heads, given.length, given.dim), dtype)
    call = steps.call_of(torch, one, tensors, out, causal)
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    recorder = torch.profiler.profile(activities=activities) if given.trace else None
    times = []
    torch.cuda.profiler.start()
    if recorder:
        recorder.start()
    with common.nvtx_range(common.MEASURED, device):
        for _ in range(given.repetitions):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop) * 1e3)
        torch.cuda.synchronize()
    if recorder:
        recorder.stop()
        print(recorder.key_averages().table(sort_by="cuda_time_total", row_limit=10))
        try:
            recorder.export_chrome_trace(str(given.trace))
        except (OSError, RuntimeError) as error:
            raise LabError(f"{given.trace}: cannot be written ({error}); check the path") from None
    torch.cuda.profiler.stop()
    middle = spread(times)
    rate = flops(heads, given.length, given.dim, given.mask) / middle.median / 1e6
    print(
        f"{one.name}: {dtype}, {given.length} x {given.dim}, mask: {given.mask}: "
        f"{middle.median:.1f} us, {rate:.1f} TFLOP/s"
    )
    parameters = {name: value for name, value in common.parameters_of(given).items() if name != "trace"}
    record = common.Record(
        PROGRAM,
        one.name,
        parameters,
        {"time_us": times, "tflop_per_s": rate},
        {},
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


# ---- visualize --------------------------------------------------------------------------------


def visualize(source: Path, folder: Path) -> int:
    """A plot of throughput and one of error over length for each type, width and mask of a record."""
    rows = read_rows(source)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(describe_os_error(error)) from None
    cases = dict.fromkeys((row["dtype"], row["dim"], row["mask"]) for row in rows)
    for dtype, dim, mask in cases:
        mine = [row for row in rows if (row["dtype"], row["dim"], row["mask"]) == (dtype, dim, mask)]
        for key, label in (("tflop_per_s", "TFLOP/s"), ("error", "error ÷ norm, against float64")):
            path = folder / f"{dtype}_{dim}_{mask}_{key}.svg"
            _plot(mine, key, label, f"attention, {dtype}, heads of {dim}, mask: {mask}", path)
            print(path)
    return 0


def read_rows(source: Path) -> list[dict[str, Any]]:
    """The timed rows of a benchmark's record; `LabError` for a file that is none."""
    try:
        content = json.loads(source.read_text(encoding="utf-8"))
        rows = [row for row in content["results"]["rows"] if "time_us" in row]
    except OSError as error:
        raise LabError(describe_os_error(error)) from None
    except (ValueError, KeyError, TypeError):
        raise LabError(f"{source}: is no record of «attention benchmark»; make one with --json") from None
    if not rows:
        raise LabError(f"{source}: holds no timed implementation; there is nothing to plot")
    return rows


def _plot(rows: Sequence[Mapping[str, Any]], key: str, label: str, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name in dict.fromkeys(row["implementation"] for row in rows):
        mine = sorted((row["length"], row[key]) for row in rows if row["implementation"] == name)
        style = "-" if steps.IMPLEMENTATIONS[name].kind == "step" else "--"
        axes.plot(*zip(*mine, strict=True), style, marker="o", markersize=4, label=name)
    axes.set(xlabel="length", ylabel=label, title=title)
    axes.set_xscale("log", base=2)
    if key == "error":
        axes.set_yscale("log")
    axes.legend(fontsize=8, ncols=2)
    axes.grid(alpha=0.3)
    try:
        figure.savefig(path)
    except OSError as error:
        raise LabError(describe_os_error(error)) from None
    finally:
        plt.close(figure)


if __name__ == "__main__":
    common.run(PROGRAM, main)
