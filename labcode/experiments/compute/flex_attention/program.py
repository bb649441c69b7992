"""Attention under masks that PyTorch has no kernel for: FlexAttention, a dense mask, causal kernels.

python -m labcode.workloads.flex_attention --variant window --window 1024
python -m labcode.workloads.flex_attention --variant documents

``window``: a query sees so many keys, itself the last of them; ``documents``: those before it in its own
document. Inputs are random normal values; all take turns, each from a cold L2 cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.attention import steps as attention_steps
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.kernel_times import reader, take_turns
from labcode.timing import spread

PROGRAM = "flex_attention"
VARIANTS = ("window", "documents")
DIM = 128
ALLOWED = 6e-3  # of the norm, against float64
CHECKED_HEADS, CHECKED_ROWS = 2, 64
TILE = 128  # FlexAttention leaves out blocks of so many queries and keys


def document_ids(length: int, documents: int, seed: int) -> list[int]:
    """For each token the number of its document; their lengths are drawn, none is empty."""
    import random

    if not 1 <= documents <= length:
        raise LabError(f"--documents {documents}: give between 1 and --length {length}")
    ends = sorted(random.Random(seed).sample(range(1, length), documents - 1))
    found, document = [], 0
    for place in range(length):
        if document < len(ends) and place == ends[document]:
            document += 1
        found.append(document)
    return found


def shares(seen: Callable[[int, int], bool], length: int, tile: int = TILE) -> tuple[float, float]:
    """Of all pairs of a query and a key those that are seen, and of all tiles those with such a pair.

    What a query sees must lie without a gap, end with itself, and begin no earlier than for the query before.
    """
    pairs, tiles = 0, set[tuple[int, int]]()
    first = 0
    for query in range(length):
        while not seen(query, first):
            first += 1
        pairs += query - first + 1
        tiles.update((query // tile, key) for key in range(first // tile, query // tile + 1))
    across = -(-length // tile)
    return pairs / length**2, len(tiles) / across**2


def main(arguments: Sequence[str]) -> int:
    """Check and time all; 0 when each result was right."""
    parser = common.parser(PROGRAM, "Times attention under a mask of one's own.", VARIANTS)
    parser.add_argument("--length", type=common.whole(1, 1 << 15), default=8192, help="tokens (default 8192)")
    parser.add_argument(
        "--heads", type=common.whole(1, 1024), default=64, help="of 128 dimensions (default 64)"
    )
    parser.add_argument(
        "--window", type=common.whole(1, 1 << 15), default=1024, help="keys seen (default 1024)"
    )
    parser.add_argument("--documents", type=common.whole(1, 1 << 15), default=12, help="default 12")
    parser.add_argument("--seed", type=common.whole(0, 2**31), default=1, help="of documents and data")
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=15, help="timed (default 15)")
    given = parser.parse_args(arguments)
    documents = document_ids(given.length, given.documents, given.seed)
    torch = common.import_torch()
    common.require_gpus(torch)
    return _run(torch, given, documents)


def _run(torch: Any, given: Any, documents: Sequence[int]) -> int:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from labcode.kernels.launch import this_gpu

    length, window = given.length, given.window
    common.require_memory(
        torch, 8 * 2 * given.heads * length * DIM + 4 * length**2 + (4 << 30), "choose less --length"
    )
    ids = torch.tensor(documents, device="cuda")
    masks = {
        "window": (
            lambda b, h, query, key: (query >= key) & (query - key < window),
            lambda query, key: 0 <= query - key < window,
        ),
        "documents": (
            lambda b, h, query, key: (query >= key) & (ids[query] == ids[key]),
            lambda query, key: query >= key and documents[query] == documents[key],
        ),
    }
    mask, seen = masks[given.variant]
    generator = torch.Generator(device="cuda").manual_seed(given.seed)
    q, k, v = (
        torch.randn((1, given.heads, length, DIM), generator=generator, device="cuda").bfloat16()
        for _ in range(3)
    )
    began = time.perf_counter()
    blocks = create_block_mask(mask, None, None, length, length, device="cuda")
    torch.cuda.synchronize()
    mask_s = time.perf_counter() - began
    compiled = torch.compile(flex_attention, dynamic=False)
    began = time.perf_counter()
    compiled(q, k, v, block_mask=blocks)
    torch.cuda.synchronize()
    compile_s = time.perf_counter() - began
    places = torch.arange(length, device="cuda")
    dense = mask(0, 0, places[:, None], places[None, :])  # type: ignore[no-untyped-call]
    attend = torch.nn.functional.scaled_dot_product_attention
    out = torch.empty_like(q[0])
    causal = {
        name: attention_steps.call_of(
            torch, attention_steps.IMPLEMENTATIONS[name], [x[0] for x in (q, k, v)], out, causal=True
        )
        for name in ("cudnn", "no_turns")
    }

    def with_mask(backend: str) -> Callable[[], Any]:
        def call() -> Any:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return attend(q, k, v, attn_mask=dense[None, None])

        return call

    calls = {
        "flex": lambda: compiled(q, k, v, block_mask=blocks),
        "sdpa_efficient": with_mask("EFFICIENT_ATTENTION"),
        "sdpa_cudnn": with_mask("CUDNN_ATTENTION"),
        "causal_cudnn": causal["cudnn"],
        "causal_own": causal["no_turns"],
    }
    rows, checks = list[dict[str, Any]](), dict[str, Check]()
    running: list[tuple[dict[str, Any], Callable[[], Any]]] = []
    wanted = _reference(torch, q, k, v, dense)
    for name, call in calls.items():
        row: dict[str, Any] = {"name": name}
        rows.append(row)
        try:
            result = call()
            torch.cuda.synchronize()
        except RuntimeError as error:  # what a library has no kernel for is said, the others go on
            row["left_out"] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            print(f"  {name}: left out: {row['left_out']}", flush=True)
            continue
        if not name.startswith("causal"):
            row["error"] = _error(torch, result, wanted)
            checks[name] = Check(
                row["error"] <= ALLOWED, f"error {row['error']:.1e} of the norm (allowed {ALLOWED})"
            )
        running.append((row, call))
    gpu = this_gpu(torch.cuda.current_device())
    for (row, _), us in zip(
        running,
        take_turns(torch, [call for _, call in running], reader(torch, gpu), given.repetitions),
        strict=True,
    ):
        middle = spread(us)
        row |= {"time_us": middle.median, "time_q1_us": middle.q1, "time_q3_us": middle.q3}
        print(f"  {row['name']:15} {middle.median:9.1f} us {row.get('error', float('nan')):.1e}", flush=True)
    of_pairs, of_tiles = shares(seen, length)
    results = {
        "rows": rows,
        "pairs_ratio": of_pairs,
        "tiles_ratio": of_tiles,
        "mask_s": mask_s,
        "compile_s": compile_s,
    }
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        checks,
        common.gpu_info(torch, torch.device("cuda", torch.cuda.current_device())),
    )
    return common.finish(record, given.json)


def _reference(torch: Any, q: Any, k: Any, v: Any, dense: Any) -> tuple[Any, Any, Any]:
    """Some heads and rows, and their attention in float64."""
    heads = torch.arange(0, q.shape[1], max(1, q.shape[1] // CHECKED_HEADS), device=q.device)
    rows = torch.arange(0, q.shape[2], max(1, q.shape[2] // CHECKED_ROWS), device=q.device)
    scores = q[0][heads][:, rows].double() @ k[0][heads].double().transpose(1, 2) / DIM**0.5
    scores = scores.masked_fill(~dense[rows], float("-inf"))
    return heads, rows, torch.softmax(scores, -1) @ v[0][heads].double()


def _error(torch: Any, result: Any, wanted: tuple[Any, Any, Any]) -> float:
    heads, rows, expected = wanted
    found = result[0][heads][:, rows].double()
    error = float((found - expected).norm() / expected.norm())
    return error if error == error and bool(torch.isfinite(result).all()) else float("inf")


if __name__ == "__main__":
    common.run(PROGRAM, main)
