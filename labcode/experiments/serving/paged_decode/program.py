"""Attention of the newest token over a paged cache: every way of computing it beside a plain read.

python -m labcode.workloads.paged_decode benchmark --batches 1,16,256 --tokens 1024,16384 --json results.json

The implementations are those of ``steps.py``. Keys, values and queries are
random normal values, pages lie in random order. Every call is recorded as a CUDA graph, as servers do, and
starts from a cold L2 cache; all take turns with a read of as many bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from labcode.errors import LabError
from labcode.experiments.serving.paged_decode import steps
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import spread

PROGRAM = "paged_decode"
LENGTHS = ("even", "uneven")
MOST_TOKENS = 1 << 22  # of all sequences: 16 GiB of keys and values at 8 heads
ALLOWED = 6e-3  # of the norm, against float64
CHECKED_PAIRS = 4
READ = "read"


def command_line() -> argparse.ArgumentParser:
    """The one command and its flags."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Attention of the newest token over a paged cache: benchmark."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    whole = common.whole
    bench = commands.add_parser("benchmark", help="times and errors of implementations, in turns")
    bench.add_argument("--batches", type=_numbers(65535), default=(1, 4, 16, 64, 256), help="by commas")
    bench.add_argument(
        "--tokens",
        type=_numbers(1 << 20),
        default=(1024, 4096, 16384, 65536, 131072),
        help="in the cache, of a sequence on average; by commas",
    )
    bench.add_argument("--lengths", choices=LENGTHS, default="even", help="of the sequences (default even)")
    bench.add_argument("--heads", type=whole(1, 1024), default=32, help="of the queries (default 32)")
    bench.add_argument("--kv-heads", type=whole(1, 1024), default=8, help="of the cache (default 8)")
    bench.add_argument("--page", type=whole(1, 1 << 16), default=16, help="tokens of a page (default 16)")
    bench.add_argument(
        "--most-tokens",
        type=whole(1),
        default=MOST_TOKENS,
        help="of all sequences; larger cases are left out (default 4194304)",
    )
    bench.add_argument("--implementations", type=_names, default=(), help="by commas; default: all")
    bench.add_argument("--repetitions", type=whole(1, 1000), default=10, help="timed (default 10)")
    bench.add_argument("--seed", type=whole(0, 2**31), default=1, help="of the data (default 1)")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
    return parser


def _numbers(most: int) -> Callable[[str], tuple[int, ...]]:
    def convert(text: str) -> tuple[int, ...]:
        return tuple(common.whole(1, most)(word) for word in text.split(","))

    return convert


def _names(text: str) -> tuple[str, ...]:
    """An argparse type: some of the implementations, by commas."""
    words = tuple(text.split(","))
    for word in words:
        if word not in steps.IMPLEMENTATIONS:
            known = ", ".join(steps.IMPLEMENTATIONS)
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {known}")
    return words


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    return benchmark(torch, given)


def lengths_of(batch: int, tokens: int, lengths: str, seed: int) -> list[int]:
    """Tokens of each sequence; "uneven": the n-th longest has an n-th of the longest one's, in any order."""
    if lengths == "even":
        return [tokens] * batch
    shares = 1.0 / np.arange(1, batch + 1)
    found = np.maximum(1, (tokens * batch * shares / shares.sum()).astype(int))
    return [int(n) for n in np.random.default_rng(seed).permutation(found)]


def make(
    torch: Any, lengths: Sequence[int], given: argparse.Namespace, device: Any = "cuda"
) -> tuple[steps.Cache, Any]:
    """A cache of random values with its pages in random order, and where the result goes."""
    from labcode.kernels.topics import paged_decode as topic

    page, heads, longest = given.page, given.kv_heads, max(lengths)
    counts, row_pages = [-(-n // page) for n in lengths], -(-longest // page)
    rng = np.random.default_rng(given.seed)
    order = rng.permutation(sum(counts)).astype(np.int32)
    table = np.zeros((len(lengths), row_pages), np.int32)
    for row, pages in zip(table, np.split(order, np.cumsum(counts)[:-1]), strict=True):
        row[: len(pages)] = pages
    generator = torch.Generator(device=device).manual_seed(given.seed)
    kind = {"device": device, "dtype": torch.bfloat16}
    pool = torch.empty(2, sum(counts), heads, page, topic.DIM, **kind).normal_(generator=generator)
    q = torch.empty(len(lengths), given.heads, topic.DIM, **kind).normal_(generator=generator)
    on_gpu = torch.from_numpy(table).to(device)
    whole = None
    if min(lengths) == longest:
        whole = torch.empty(2, len(lengths), heads, longest, topic.DIM, **kind)
        for target, one in zip(whole, pool, strict=True):
            for sequence, row in enumerate(on_gpu):
                target[sequence] = one[row].transpose(0, 1).flatten(1, 2)[:, :longest]
    cache = steps.Cache(q, pool, on_gpu, torch.tensor(lengths, dtype=torch.int32, device=device), whole)
    return cache, torch.empty_like(q)


def reference(torch: Any, cache: steps.Cache) -> tuple[Any, Any, Any]:
    """Some pairs of a sequence and a head of the cache, and their results in float64."""
    pairs = cache.batch * cache.pool.shape[2]
    chosen = sorted({*range(0, pairs, max(1, pairs // CHECKED_PAIRS)), pairs - 1})
    found = []
    for pair in chosen:
        sequence, head = divmod(pair, cache.pool.shape[2])
        length, page = int(cache.lengths[sequence]), cache.pool.shape[3]
        row = cache.table[sequence, : -(-length // page)]
        keys, values = (one[row, head].flatten(0, 1)[:length].double() for one in cache.pool)
        queries = cache.q[sequence, head * cache.group : (head + 1) * cache.group].double()
        scores = queries @ keys.T / cache.q.shape[2] ** 0.5
        found.append(torch.softmax(scores, -1) @ values)
    sequences, heads = zip(*(divmod(pair, cache.pool.shape[2]) for pair in chosen), strict=True)
    return list(sequences), list(heads), torch.stack(found)


def error_of(torch: Any, out: Any, expected: tuple[Any, Any, Any], group: int) -> float:
    """‖out − expected‖ / ‖expected‖; infinite where ``out`` is not a number."""
    sequences, heads, wanted = expected
    if bool(torch.isnan(out).any()):
        return float("inf")
    mine = out.view(out.shape[0], -1, group, out.shape[2])[sequences, heads].double()
    found = float((mine - wanted).norm() / wanted.norm())
    return found if found == found else float("inf")


def recorded(torch: Any, call: steps.Call) -> steps.Call:
    """The call as a CUDA graph, after it has run by itself."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay(_keep: steps.Call = call) -> None:  # the graph knows addresses, the call has the memory
        graph.replay()

    return replay


def benchmark(torch: Any, given: argparse.Namespace) -> int:
    """Check and time all implementations on all cases; 0 when every result was right."""
    from labcode.experiments.shared.kernel_times import reader
    from labcode.kernels.launch import this_gpu

    device = torch.device("cuda", torch.cuda.current_device())
    gpu = this_gpu(device.index)
    names = given.implementations or tuple(steps.IMPLEMENTATIONS)
    cases = [
        (batch, tokens)
        for batch, tokens in product(given.batches, given.tokens)
        if batch * tokens <= given.most_tokens
    ]
    if not cases:
        raise LabError(f"--most-tokens {given.most_tokens}: leaves no case; give more")
    steps.compile_all(names, given.heads // given.kv_heads, gpu)
    before, rows = reader(torch, gpu), list[dict[str, Any]]()
    print(f"{gpu.name}: {given.heads} heads over {given.kv_heads}, pages of {given.page}, {given.lengths}")
    for batch, tokens in cases:
        rows.extend(_case(torch, given, names, batch, tokens, before))
        torch.cuda.empty_cache()
    checks = {}
    for row in rows:
        if "error" in row and row["kind"] == "step":
            name = f"{row['implementation']}, {row['batch']} of {row['tokens']}"
            detail = f"error {row['error']:.1e} of the norm, allowed {ALLOWED:.0e}"
            checks[name] = Check(row["error"] <= ALLOWED, detail)
    record = common.Record(
        PROGRAM,
        "benchmark",
        common.parameters_of(given),
        {"rows": rows},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def _case(
    torch: Any,
    given: argparse.Namespace,
    names: Sequence[str],
    batch: int,
    tokens: int,
    before: steps.Call,
) -> list[dict[str, Any]]:
    from labcode.experiments.shared.kernel_times import take_turns
    from labcode.kernels.topics import paged_decode as topic

    lengths = lengths_of(batch, tokens, given.lengths, given.seed)
    moved = topic.bytes_read(batch, sum(lengths), given.heads, given.kv_heads)
    print(f"{batch} sequences of {tokens} tokens, {moved / 1e6:.1f} MB", flush=True)
    copies = 2 if min(lengths) == max(lengths) else 1
    common.require_memory(torch, copies * moved + (6 << 30), "choose smaller --batches or --tokens")
    cache, out = make(torch, lengths, given)
    expected = reference(torch, cache)
    case: Mapping[str, Any] = {"batch": batch, "tokens": tokens, "longest": max(lengths), "page": given.page}
    rows: list[dict[str, Any]] = []
    calls: list[tuple[dict[str, Any], steps.Call]] = []
    for name in (READ, *names):
        kind = "ceiling" if name == READ else steps.IMPLEMENTATIONS[name].kind
        row = {"implementation": name, "kind": kind, **case, "bytes": moved}
        rows.append(row)
        try:
            if name == READ:
                row["bytes"] = cache.pool.numel() * cache.pool.element_size()
                calls.append((row, recorded(torch, steps.read_of(torch, cache.pool))))
                continue
            call = steps.call_of(torch, name, cache, out)
            out.fill_(float("nan"))
            found = call()
            row["error"] = error_of(torch, out if found is None else found, expected, cache.group)
            del found
            calls.append((row, recorded(torch, call)))
        except (LabError, RuntimeError) as error:  # what cannot run is said, the others go on
            row["left_out"] = steps.first_line(error)
            print(f"  {name:11} left out: {row['left_out']}", flush=True)
    timed = take_turns(torch, [call for _, call in calls], before, given.repetitions)
    for (row, _), us in zip(calls, timed, strict=True):
        middle = spread(us)
        row |= {"time_us": middle.median, "time_q1_us": middle.q1, "time_q3_us": middle.q3}
        row |= {"repetitions": middle.count, "gb_per_s": row["bytes"] / middle.median / 1e3}
    roof = max(row["gb_per_s"] for row, _ in calls if row["kind"] == "ceiling")
    for row, _ in calls:
        row["of_read"] = row["gb_per_s"] / roof
        print(
            f"  {row['implementation']:11} {row['time_us']:10.1f} us {row['gb_per_s']:8.0f} GB/s "
            f"{row['of_read']:6.3f} of a read {row.get('error', 0.0):9.1e}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    common.run(PROGRAM, main)
