"""Hidden cases of nsys-ex03, part a (rates and hiding of copies): a generator or captures in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.nsys import expected
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, ops_table, table
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT = "memory_timeline"
RUNS = ("exam_pinned", "exam_pipelined")
_COPY_COLUMNS = ["start_ns", "end_ns", "bytes", "copy_kind", "src_kind", "dst_kind"]
_OP_COLUMNS = ["kind", "start_ns", "end_ns", "device", "stream"]


# --- achieved_gb_per_s


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


def _rate_case(name: str, memcpys: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.achieved_gb_per_s(memcpys)
    between = memcpys[memcpys["copy_kind"].isin(["H2D", "D2H"])]
    lasts = between["end_ns"] - between["start_ns"]
    host = between["src_kind"].where(between["copy_kind"] == "H2D", between["dst_kind"])
    groups = [between["copy_kind"], host]
    means = (between["bytes"] / lasts).groupby(groups).mean()
    reach = between.groupby(groups).agg(
        first=("start_ns", "min"), last=("end_ns", "max"), size=("bytes", "sum")
    )
    kinds = memcpys["copy_kind"].tolist()
    return Case(
        name=name,
        summary=f"{len(memcpys)} copies: {', '.join(f'{kinds.count(k)} {k}' for k in sorted(set(kinds)))}",
        function="achieved_gb_per_s",
        arguments=(memcpys,),
        expected=right,
        mistakes=(
            Mistake(
                "this is the mean of each copy's own rate; divide all bytes by all time",
                {_pair(k): float(v) for k, v in means.items()},
            ),
            Mistake(
                "the time between copies is counted: add up the copies' own durations",
                {_pair(k): float(row["size"] / (row["last"] - row["first"])) for k, row in reach.iterrows()},
            ),
            Mistake(
                "for D2H the host's memory is the destination: use dst_kind",
                _rates(memcpys, "src_kind", ("H2D", "D2H")),
            ),
            Mistake(
                "for H2D the host's memory is the source: use src_kind",
                _rates(memcpys, "dst_kind", ("H2D", "D2H")),
            ),
            Mistake(
                "D2D and P2P copies do not touch the host: leave them out",
                _rates(memcpys, None, ("H2D", "D2H", "D2D", "P2P")),
            ),
            Mistake(
                "pinned and pageable memory are taken together: they have different rates",
                {
                    k: float(
                        between.loc[between["copy_kind"] == k[0], "bytes"].sum()
                        / lasts[between["copy_kind"] == k[0]].sum()
                    )
                    for k in right
                },
            ),
            Mistake(
                "keys are pairs (direction, memory), not the direction alone",
                {
                    k: float(rows["bytes"].sum() / (rows["end_ns"] - rows["start_ns"]).sum())
                    for k, rows in between.groupby("copy_kind")
                },
            ),
            Mistake("this is ns per byte: turn the fraction round", {k: 1 / v for k, v in right.items()}),
        ),
        table=memcpys[_COPY_COLUMNS],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _pair(key: Any) -> tuple[str, str]:
    return str(key[0]), str(key[1])


def _rates(memcpys: pd.DataFrame, memory: str | None, kinds: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Rates of copies of these kinds, with one column for the host's memory; None takes the right one."""
    chosen = memcpys[memcpys["copy_kind"].isin(kinds)]
    host = (
        chosen[memory]
        if memory
        else chosen["src_kind"].where(chosen["copy_kind"] != "D2H", chosen["dst_kind"])
    )
    rates = {}
    for key, rows in chosen.groupby([chosen["copy_kind"], host]):
        rates[_pair(key)] = float(rows["bytes"].sum() / (rows["end_ns"] - rows["start_ns"]).sum())
    return rates


# --- hidden_copy_share


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


def _hidden_case(name: str, ops: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.hidden_copy_share(ops)
    copies, kernels = ops[ops["kind"] == "memcpy"], ops[ops["kind"] == "kernel"]
    pairwise, per_kernel, pooled = {}, {}, expected.hidden_copy_share(ops.assign(device=0)).get(0, 0.0)
    for device in right:
        moved, ran = copies[copies["device"] == device], kernels[kernels["device"] == device]
        both = 0
        for start, end in zip(*(times.tolist() for times in expected.spans(ran)), strict=True):
            starts, ends = expected.spans(moved)
            both += int(np.maximum(0, np.minimum(ends, end) - np.maximum(starts, start)).sum())
        pairwise[device] = both / int((moved["end_ns"] - moved["start_ns"]).sum())
        union = expected.hidden_copy_share(
            ops[ops["device"] == device].replace({"kind": {"memcpy": "kernel", "kernel": "memcpy"}})
        )
        per_kernel[device] = union.get(device, 0.0)
    return Case(
        name=name,
        summary=f"{len(copies)} copies, {len(kernels)} kernels, {ops['device'].nunique()} device(s)",
        function="hidden_copy_share",
        arguments=(ops,),
        expected=right,
        mistakes=(
            Mistake(
                "this is the share of kernel time with a copy beside it; divide by the copying time",
                per_kernel,
            ),
            Mistake(
                "overlaps are added up pair by pair, so some time counts twice: merge copies and "
                "kernels first",
                pairwise,
            ),
            Mistake(
                "a memset is no kernel: it hides no copy here",
                expected.hidden_copy_share(ops.replace({"kind": {"memset": "kernel"}})),
            ),
            Mistake(
                "all devices are taken together: a kernel hides only copies of its own device",
                dict.fromkeys(right, pooled),
            ),
            Mistake("a kernel of another device hides nothing: each device by itself", _foreign(ops)),
            Mistake(
                "a device that never copies has no share: leave it out",
                {**dict.fromkeys(sorted(int(d) for d in ops["device"].unique()), 0.0), **right},
            ),
        ),
        table=ops[_OP_COLUMNS],
        exam=exam,
        share=True,
        limit_s=60.0 if exam else 10.0,
    )


def _foreign(ops: pd.DataFrame) -> dict[int, float]:
    """Shares when the kernels of all devices count for every device."""
    kernels = ops[ops["kind"] == "kernel"]
    shares: dict[int, float] = {}
    for device, moved in expected.per_device(ops[ops["kind"] == "memcpy"]):
        both = pd.concat([moved, kernels.assign(device=device)], ignore_index=True)
        shares |= expected.hidden_copy_share(both)
    return shares


def _cases(rng: Rng) -> list[Case]:
    no_copies = Case("no copies at all", "an empty table", "achieved_gb_per_s", (table([], "memcpys"),), {})
    no_ops = Case(
        "no operations at all", "an empty table", "hidden_copy_share", (ops_table([]),), {}, share=True
    )
    rates = [_rate_case(*scene) for scene in _copies(rng)]
    return [*rates, no_copies, *(_hidden_case(*scene) for scene in _overlaps(rng)), no_ops]


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for run in RUNS:
        report = open_run(captures, EXPERIMENT, run)
        name = f"a capture you have not seen ({EXPERIMENT}, {run})"
        cases += [
            _rate_case(name, report.memcpys(), exam=True),
            _hidden_case(name, report.gpu_ops(), exam=True),
        ]
    return cases


TRANSFERS = Task(_cases, _exam)
