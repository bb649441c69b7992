"""Hidden cases of part a (rates and hiding of copies): a generator or captures in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline.overlap import copy_compute_overlap
from labcode.analysis.timeline.summary import transfer_summary
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, ops_table, table
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT = "memory_timeline"
RUNS = ("exam_pinned", "exam_pipelined")
_COPY_COLUMNS = ["start_ns", "end_ns", "bytes", "copy_kind", "src_kind", "dst_kind"]
_OP_COLUMNS = ["kind", "start_ns", "end_ns", "device", "stream"]


def _copies(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    now = int(rng.integers(10**6, 10**9))

    def copy(size: int, rate: float, kind: str, host: str) -> Row:
        nonlocal now
        lasts = int(size / rate) + 1
        row: Row = {"start_ns": now, "end_ns": now + lasts, "bytes": size, "copy_kind": kind}
        row["src_kind"], row["dst_kind"] = (host, "device") if kind == "H2D" else ("device", host)
        now += lasts + int(rng.integers(100, 9000))
        return row

    slow, fast = float(rng.uniform(4, 12)), float(rng.uniform(20, 56))
    size = int(rng.integers(1, 64)) << 20
    between = [
        copy(size, 1500.0, "D2D", "device") | {"src_kind": "device"},
        copy(size, 380.0, "P2P", "device") | {"src_kind": "device"},
    ]
    scenes = {
        "pinned copies in one direction": [copy(size, fast, "H2D", "pinned") for _ in range(3)],
        "pinned and pageable memory": [
            copy(size, fast, "H2D", "pinned"),
            copy(size, slow, "H2D", "pageable"),
        ],
        "both directions": [
            copy(size, fast, "H2D", "pinned"),
            copy(size // 3, fast / 1.7, "D2H", "pinned"),
            copy(size, slow, "D2H", "pageable"),
        ],
        "single copies of a few bytes": [
            copy(4, 0.003, "H2D", "pinned"),
            copy(8, 0.005, "D2H", "pageable"),
        ],
        "one long copy and many short slow ones": [
            copy(size << 2, fast, "H2D", "pinned"),
            *(copy(4096 + 64 * i, 1.5, "H2D", "pinned") for i in range(5)),
        ],
        "copies within and between devices": [
            copy(size, fast, "D2H", "pinned"),
            *between,
            copy(size // 2, slow, "H2D", "pageable"),
        ],
    }
    many = [
        copy(int(rng.integers(1, 4000)) << 12, float(rng.uniform(3, 60)), kind, host)
        for kind, host in zip(
            rng.choice(["H2D", "D2H"], 60), rng.choice(["pinned", "pageable", "managed"], 60), strict=True
        )
    ]
    scenes["many copies of all kinds"] = [*many, *between]
    return [(name, _shuffled(rng, table(rows, "memcpys"))) for name, rows in scenes.items()]


def _shuffled(rng: Rng, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


def _overlaps(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    def op(kind: str, start: int, end: int, **more: Any) -> Row:
        row = {"kind": kind, "start_ns": base + start * unit, "end_ns": base + end * unit, **more}
        return row | ({"name": "memcpy H2D"} if kind == "memcpy" and "name" not in more else {})

    base, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(100, 3000))
    a, b, c = sorted(int(x) for x in rng.choice(np.arange(15, 85), 3, replace=False))
    one, two = (int(d) for d in rng.choice(np.arange(1, 8), 2, replace=False))
    scenes = {
        "one copy, one kernel": [op("memcpy", a - 9, c), op("kernel", b, c + 9, stream=13)],
        "copies and kernels take turns": [op("memcpy", 0, a), op("kernel", a, b), op("memcpy", b, c)],
        "two directions at once": [
            op("memcpy", a - 11, c),
            op("memcpy", a, c + 6, name="memcpy D2H", stream=13),
            op("kernel", b, c + 10, stream=20),
        ],
        "two kernels at once": [
            op("memcpy", a - 2, c + 7),
            op("kernel", a, c, stream=13),
            op("kernel", b, c + 2, stream=20),
        ],
        "a memset beside the copy": [
            op("memcpy", a, c + 3),
            op("memset", a + 1, b, stream=13),
            op("kernel", b, c, stream=20),
        ],
        "nothing but a memset beside the copy": [
            op("memcpy", a - 5, c + 3),
            op("memset", a, b, stream=13),
            op("kernel", c + 5, c + 9, stream=20),
        ],
        "a memset behind the copy": [
            op("memcpy", 0, a),
            op("memset", a, b),
            op("kernel", a // 2, c, stream=13),
        ],
        "two devices, and one that does not copy": [
            op("memcpy", a - 8, c, device=one),
            op("kernel", b, c + 3, device=one),
            op("memcpy", 0, b, device=two),
            op("kernel", a, c + 8, device=two),
            op("kernel", 0, 95, device=0),
        ],
    }
    count = int(rng.integers(100, 200))
    many = [
        op(
            str(kind),
            int(start),
            int(start + rng.integers(1, 30)),
            device=int(rng.choice([0, two])),
            stream=int(rng.choice([7, 13, 20])),
        )
        for kind, start in zip(
            rng.choice(["kernel", "memcpy"], count), rng.integers(0, 12 * count, count), strict=True
        )
    ]
    scenes["many operations on two devices"] = many
    return [(name, _shuffled(rng, ops_table(rows))) for name, rows in scenes.items()]


def _rate_case(name: str, memcpys: pd.DataFrame) -> Case:
    kinds = memcpys["copy_kind"].tolist()
    summary = f"{len(memcpys)} copies: {', '.join(f'{kinds.count(k)} {k}' for k in sorted(set(kinds)))}"
    return Case(name, summary, "achieved_gb_per_s", (memcpys,), table=memcpys[_COPY_COLUMNS])


def _hidden_case(name: str, ops: pd.DataFrame) -> Case:
    copies, kernels = ((ops["kind"] == kind).sum() for kind in ("memcpy", "kernel"))
    summary = f"{copies} copies, {kernels} kernels, {ops['device'].nunique()} device(s)"
    return Case(name, summary, "hidden_copy_share", (ops,), table=ops[_OP_COLUMNS], share=True)


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    rates = [_rate_case(*scene) for scene in _copies(rng)]
    shares = [_hidden_case(*scene) for scene in _overlaps(rng)]
    no_copies = _rate_case("no copies at all", table([], "memcpys"))
    return [*rates, no_copies, *shares, _hidden_case("no operations at all", ops_table([]))]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to two captures."""
    found = []
    for run in RUNS:
        report = open_run(captures, EXPERIMENT, run)
        name = f"a capture you have not seen ({EXPERIMENT}, {run})"
        found += [_rate_case(name, report.memcpys()), _hidden_case(name, report.gpu_ops())]
    return found


def _achieved_gb_per_s(memcpys: pd.DataFrame) -> dict[tuple[str, str], float]:
    summary = transfer_summary(memcpys[memcpys["copy_kind"].isin(["H2D", "D2H"])])
    keys = zip(summary["copy_kind"], summary["host_memory"], strict=True)
    return dict(zip(keys, summary["gb_per_s"].tolist(), strict=True))


def _hidden_copy_share(ops: pd.DataFrame) -> dict[int, float]:
    overlap = copy_compute_overlap(ops[ops["kind"] != "graph"])
    copying = overlap[overlap["copy_ns"] > 0]
    return dict(zip(copying["device"].tolist(), copying["hidden_share"].tolist(), strict=True))


AGREES_WITH = {"achieved_gb_per_s": _achieved_gb_per_s, "hidden_copy_share": _hidden_copy_share}
