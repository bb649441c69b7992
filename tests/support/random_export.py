"""Writes random small nsys exports, full of ties and odd cases: a seed in, a file out.

Several processes and threads, launches with one, several or no operations, unlinked operations, correlation
ids that repeat across processes, nested ranges in two domains, ranges that another thread ends. Times are
small integers, so that much begins and ends together.
"""

import random
from pathlib import Path

from tests.support import exports
from tests.support.exports import Row

_KERNELS = ("a(int)", "b<float, 3>(T*)", "Zed()", "zed()", "ünï(x)", "void k<int>(int)", "c", "d d", "_e")
_CALLS = (
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernelExC_v11060",
    "cuLaunchKernel",
    "cudaGraphLaunch_v10000",
    "cudaLaunchKernel_v7001",
    "Zlaunch",
)
_OTHER_CALLS = ("cudaDeviceSynchronize_v3020", "cuCtxGetCurrent", "cudaMalloc_v3020")
_SIZES = (0, 500, 1500, 2500, 4500, 123_456, 10**6)


def make_random_export(
    path: Path,
    seed: int,
    *,
    calls: int = 60,
    shuffled: bool = False,
    schema: tuple[int, int, int] = (3, 20, 3),
) -> Path:
    """Write an export; ``shuffled`` puts its rows in no order, as nsys may do from 2025.6 on."""
    rng = random.Random(seed)
    pids = (100, 200)[: rng.choice((1, 2))]
    kernel_names = rng.sample(_KERNELS, rng.randint(1, len(_KERNELS)))
    unit = rng.choice((1, 1, 10, 1000, 10**6))
    tables: dict[str, list[Row]] = {
        name: [] for name in ("kernels", "memcpys", "memsets", "api", "osrt", "nvtx", "graphs")
    }
    clock = {(pid, tid): 0 for pid in pids for tid in (pid, pid + 1)}
    counter = dict.fromkeys(pids, 0)
    for _ in range(calls):
        pid = rng.choice(pids)
        tid = pid + rng.randint(0, 1)
        start = clock[pid, tid] + rng.randint(0, 3) * unit
        end = start + rng.randint(0, 4) * unit + rng.randint(0, 1)
        clock[pid, tid] = end + rng.randint(0, 2)
        counter[pid] += 1
        number = rng.choice((None, 0)) if rng.random() < 0.03 else counter[pid]
        _launch(rng, tables, (pid, tid), (start, end), number, kernel_names, unit)
        name = rng.choice(("read", "Poll", "write", "open"))
        tables["osrt"].append(exports.osrt(start, end, name, pid=pid, tid=tid))
    for (pid, tid), last in clock.items():
        _ranges(rng, tables["nvtx"], pid, tid, last + 5)
    tables["nvtx"] += [exports.domain(1, "NCCL", pid=pid, tid=pid) for pid in pids] + [exports.mark(3)]
    for rows in tables.values():
        if shuffled:
            rng.shuffle(rows)
        else:
            rows.sort(key=lambda row: int(row["start"]))
    threads = [exports.thread(pid, tid, f"thread {tid}") for pid in pids for tid in (pid, pid + 1)]
    gpus = [exports.gpu(0), exports.gpu(1, "NVIDIA X")]
    return exports.make_export(path, schema=schema, gpus=gpus, threads=threads, **tables)  # type: ignore[arg-type]


def _launch(
    rng: random.Random,
    tables: dict[str, list[Row]],
    thread: tuple[int, int],
    called: tuple[int, int],
    number: int | None,
    kernel_names: list[str],
    unit: int,
) -> None:
    pid, tid = thread
    start = max(called[1] + rng.randint(-5, 20) * unit, 0)
    end = start + rng.randint(0, 6) * unit + rng.randint(0, 3)
    where = {"pid": pid, "device": rng.randint(0, 1), "stream": rng.randint(7, 9), "correlation": number}
    what = rng.random()
    call = "cudaMemcpyAsync_v3020"
    if what < 0.6:
        call = rng.choice(_CALLS)
        for _ in range(rng.choice((1, 1, 1, 1, 3))):
            tables["kernels"].append(_kernel(rng, start, end, rng.choice(kernel_names), where))
        if rng.random() < 0.05:
            unlinked = {**where, "correlation": (number or 0) + 10**6}
            tables["kernels"].append(_kernel(rng, start, end, rng.choice(kernel_names), unlinked))
    elif what < 0.8:
        kinds = {"src": rng.choice((0, 1, 2, 4)), "dst": rng.choice((0, 1, 2, 4))}
        kind = rng.choice((1, 2, 8, 9, 10, 11, 12, 13, 99))
        tables["memcpys"].append(exports.memcpy(start, end, rng.choice(_SIZES), kind, **kinds, **where))  # type: ignore[arg-type]
    elif what < 0.9:
        call = "cudaMemsetAsync_v3020"
        tables["memsets"].append(
            exports.memset(start, end, rng.choice(_SIZES), mem_kind=rng.choice((2, 4)), **where)  # type: ignore[arg-type]
        )
    else:
        call = rng.choice(_OTHER_CALLS)
    returned = rng.choice((0, 0, 2))
    tables["api"].append(exports.call(*called, call, pid=pid, tid=tid, correlation=number, returned=returned))


def _kernel(rng: random.Random, start: int, end: int, name: str, where: dict[str, int | None]) -> Row:
    row = exports.kernel(
        start,
        end,
        name,
        grid=(rng.choice((1, 2, 10, 100_000)), rng.choice((1, 3)), 1),
        block=(rng.choice((32, 1024)), 1, rng.choice((1, 64))),
        registers=rng.randint(8, 255),
        static_shared=rng.choice((0, 500, 1500, 4500)),
        dynamic_shared=rng.choice((0, 2500, 48 * 1024)),
        **where,  # type: ignore[arg-type]
    )
    return {**row, "greenContextId": rng.choice((0, 0, None, 5))}


def _ranges(rng: random.Random, rows: list[Row], pid: int, tid: int, last: int) -> None:
    """Ranges of one thread, no two of them with the same start and end: nsys loses such."""
    used: set[tuple[int, int]] = set()

    def nested(low: int, high: int, depth: int) -> None:
        at = low
        while at < high and rng.random() < 0.8:
            start = rng.randint(at, high)
            end = rng.randint(start, high)
            if (start, end) != (low, high) and (start, end) not in used and depth < 4:
                used.add((start, end))
                name = rng.choice(("step", "forward", "backward", "x, y", "optimizer"))
                domain, registered = rng.choice((0, 0, 1)), rng.random() < 0.3
                rows.append(
                    exports.push_pop(start, end, name, pid=pid, tid=tid, domain=domain, registered=registered)
                )
                nested(start, end, depth + 1)
            at = end + 1

    nested(0, last, 0)
    for _ in range(rng.randint(0, 3)):
        start = rng.randint(0, last)
        end = rng.randint(start, last)
        if (start, end) not in used:
            used.add((start, end))
            other = rng.choice((None, None, pid + 2))
            rows.append(
                exports.start_end(start, end, rng.choice(("step", "s")), pid=pid, tid=tid, end_tid=other)
            )
