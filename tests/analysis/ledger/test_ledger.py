"""Every nanosecond has one owner: on all captures that ship, on random exports, on made-up programs."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labcode import reports
from labcode.analysis.ledger.ledger import Ledger, ledgers
from labcode.analysis.ledger.lines import Lines
from labcode.analysis.ledger.replay import Replay, with_lengths
from labcode.analysis.ledger.steady import judged, phases, steady
from labcode.analysis.ledger.view import CODE, OWNERS, View, owner_of_name
from labcode.analysis.timeline import overlap
from labcode.store import SHIPPED_SET, load_set
from tests.support import exports as x
from tests.support import strangers

CAPTURES = Path(__file__).resolve().parents[3] / "captures" / SHIPPED_SET
TIMELINES = sorted((*CAPTURES.glob("*/*.nsys.xz"), *CAPTURES.glob("*/*.trace.json.gz")))
US, MS = 1_000, 1_000_000


def of(path: Path, window: str | None = None) -> list[Ledger]:
    report = reports.open_timeline(path, "diagnose")
    return ledgers(View(report), judged(report, window))


def check(ledger: Ledger) -> None:
    start, end = (ledger.pieces[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    assert (end > start).all() and (start[1:] == end[:-1]).all()  # one after the other, without a gap
    assert (start[0], end[-1]) == ledger.window
    assert int(ledger.table["total_ns"].sum()) == ledger.whole_ns
    assert set(ledger.table["owner"]) <= {one.id for one in OWNERS}


SMALLEST = {  # of each experiment and format
    (path.parent, path.suffix): path
    for path in sorted(TIMELINES, key=lambda path: path.stat().st_size, reverse=True)
}


@pytest.mark.parametrize(
    "path",
    [  # a third of them in each change; random exports are in `tests/verbs/test_diagnose.py`
        pytest.param(
            path, id=f"{path.parent.name}-{path.name}", marks=[pytest.mark.slow] if place % 3 else []
        )
        for place, path in enumerate(SMALLEST.values())
    ],
)
def test_the_parts_of_each_capture_are_the_iteration(path: Path) -> None:
    found = of(path)
    assert found
    for one in found:
        check(one)


def test_there_are_captures() -> None:
    assert len(TIMELINES) > 80 and len(load_set(SHIPPED_SET).experiments) > 20


def test_what_runs_owns_before_what_waits(tmp_path: Path) -> None:
    """A matmul hides an all-reduce, which hides a copy."""
    gemm, nccl = strangers.TENSOR, strangers.NCCL
    kernels = [
        x.kernel(0, 100, gemm, correlation=1),
        x.kernel(50, 200, nccl, correlation=2, stream=8),
        x.kernel(400, 500, gemm, correlation=3),
    ]
    copies = [x.memcpy(150, 250, correlation=4, stream=9)]
    api = [x.call(-10 + i, -9 + i, correlation=i) for i in (1, 2, 3, 4)]
    (ledger,) = of(x.make_export(tmp_path / "a.sqlite", kernels=kernels, memcpys=copies, api=api))
    check(ledger)
    table = ledger.table.set_index("owner")["total_ns"].to_dict()
    assert table == {"matmul": 200, "communication": 100, "copy-in": 50, "queued": 150}


def test_idle_time_is_of_the_call_or_the_code_that_was_run(tmp_path: Path) -> None:
    kernels = [x.kernel(0, MS, correlation=1), x.kernel(10 * MS, 11 * MS, correlation=2)]
    api = [
        x.call(-10 * US, -5 * US, correlation=1),
        x.call(2 * US, MS + 3 * US, "cudaStreamSynchronize_v3020"),
        x.call(4 * MS, 6 * MS, "cudaMalloc_v3020"),
        x.call(7 * MS, 8 * MS, "cuModuleLoadData", driver=True),
        x.call(10 * MS - 8 * US, 10 * MS - 2 * US, correlation=2),
    ]
    overheads = [x.overhead(9 * MS, 9 * MS + 500 * US)]
    path = x.make_export(tmp_path / "a.sqlite", kernels=kernels, api=api, overheads=overheads)
    (ledger,) = of(path, "10us..11010us")
    check(ledger)
    table = ledger.table.set_index("owner")["total_ns"].to_dict()
    # the code before the call that loads made what is loaded
    assert table["allocation"] == 2 * MS and table["loading"] == 2 * MS and table["profiler"] == 500 * US
    assert table["sync"] == 3 * US and table["launch"] == 8 * US
    assert table["host-code"] == 9 * MS - 4 * MS - 500 * US - 11 * US


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        (strangers.TENSOR, "matmul"),
        (strangers.SIMT, "no-tensor-cores"),
        (strangers.NORM, "reduction"),
        (strangers.ADD, "elementwise"),
        (strangers.RELAY, "layout"),
        (strangers.ADAM, "optimizer"),
        (strangers.NCCL, "communication"),
        ("mine(int)", "kernel"),
    ],
)
def test_owners_by_name(name: str, owner: str) -> None:
    assert owner_of_name(name) == owner


def test_the_late_rank_has_its_code_and_the_others_wait(tmp_path: Path) -> None:
    late, other = of(strangers.ranks(tmp_path / "a.sqlite", late=1, extra=3 * MS))
    for one in (late, other):
        check(one)
    assert (late.device, other.device) == (1, 0)
    assert late.each("late-rank") < 0.02 * late.each_ns
    assert late.each("host-code") == pytest.approx(other.each("late-rank"), rel=0.1)


def test_start_up_is_a_table_of_its_own(tmp_path: Path) -> None:
    report = reports.open_timeline(strangers.program("good", tmp_path / "a.sqlite"), "diagnose")
    chosen = steady(report)
    table = phases(report, chosen)
    assert table["phase"].iloc[0].startswith("before CUDA") and "steady state" in set(table["phase"])
    assert (
        table["start_ns"].to_numpy()[1:] == (table["start_ns"] + table["duration_ns"]).to_numpy()[:-1]
    ).all()
    before = table[table["start_ns"] < chosen.window[0]]
    assert before["duration_ns"].sum() > 4 * 10**9 and before["loading_ns"].sum() > 10**8


def test_without_host_rows_it_is_not_known_why(tmp_path: Path) -> None:
    kernels = [x.kernel(i * MS, i * MS + 400 * US) for i in range(10)]
    path = x.make_export(tmp_path / "a.sqlite", kernels=kernels)
    (ledger,) = of(path)
    check(ledger)
    assert ledger.table["owner"].tolist() == ["kernel", "unknown"]
    replay = Replay(View(reports.open_timeline(path, "diagnose")), ledger)
    assert (
        replay.program is None and replay.why == "the capture holds no calls that launched these operations"
    )


def test_a_single_kernel(tmp_path: Path) -> None:
    (ledger,) = of(x.make_export(tmp_path / "a.sqlite", kernels=[x.kernel(5, 9, correlation=1)]))
    check(ledger)
    assert ledger.each_ns == 4 and ledger.table["owner"].tolist() == ["kernel"]


def test_owners_have_codes() -> None:
    assert [OWNERS[code].id for code in CODE.values()] == list(CODE)


def test_launches_that_ran_ahead_of_the_window_are_replayed(tmp_path: Path) -> None:
    names = [strangers.TENSOR, "nchwToNhwcKernel"]
    kernels = [x.kernel(i * MS, (i + 1) * MS, names[i % 2], correlation=i + 1) for i in range(12)]
    api = [
        x.call(-2 * MS + i * 10 * US, -2 * MS + i * 10 * US + 5 * US, correlation=i + 1) for i in range(12)
    ]
    path = x.make_export(tmp_path / "a.sqlite", kernels=kernels, api=api)
    (ledger,) = of(path, "6ms..10ms")  # counted from the first row, which is a call
    played = Replay(View(reports.open_timeline(path, "diagnose")), ledger)
    program = played.program
    assert program is not None and not len(played.host.start)
    gain = played.gain(lambda p: with_lengths(p, p.length / 2), lambda p: with_lengths(p, p.length / 2))
    assert gain is not None and gain.share == pytest.approx(0.5, abs=0.05)


def _collective(name: str, device: int, start: int, end: int) -> dict[str, object]:
    return {"kind": "kernel", "short_name": name, "start_ns": start, "end_ns": end, "device": device}


def test_who_receives_a_broadcast_waits_for_its_root(tmp_path: Path) -> None:
    sent, reduced = "ncclDevKernel_Broadcast_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    rows = [
        _collective(sent, 0, 900, 1000),  # the root comes late: GPU 1 waits for it
        _collective(sent, 1, 100, 1000),
        _collective(reduced, 0, 1100, 1200),
        _collective(reduced, 1, 1050, 1200),
        _collective(sent, 0, 1300, 1310),  # the root has gone on before GPU 1 comes: nobody waits
        _collective(sent, 1, 1400, 1450),
    ]
    found, why = overlap.waits(pd.DataFrame(rows), np.arange(len(rows)))
    assert why == ""
    waited = (found["until_ns"] - found["start_ns"]).groupby(found["row"]).sum()
    assert waited.to_dict() == {0: 0, 1: 800, 2: 0, 3: 50, 4: 0, 5: 0}
    found, why = overlap.waits(pd.DataFrame(rows[1:]), np.arange(len(rows) - 1))  # one is cut off
    assert why == "" and set(found["short_name"]) == {reduced}
    found, why = overlap.waits(
        pd.DataFrame(rows[:2]), np.arange(2)
    )  # nothing shows that they belong together
    assert not len(found) and "0.0 %" in why


OWN, TORCH_FILE = "/home/me/train.py", "/usr/lib/python3/site-packages/torch/nn/modules/module.py"


@pytest.mark.parametrize(
    ("stacks", "told"),
    [
        # main calls train, which loops: its line changes, main's does not
        (
            [
                [("main", 90), ("train", 40), ("encode", 14)],
                [("main", 90), ("train", 40), ("encode", 14)],
                [("main", 90), ("train", 41)],
            ],
            "in `encode`, train.py:14, from `train`, train.py:40",
        ),
        # the loop itself takes the time
        ([[("main", 90), ("train", 40)], [("main", 90), ("train", 40)], [("main", 90), ("train", 41)]],
         "in `train`, train.py:40"),
        # a loop of one line cannot be told from a call that leads to it: then what called the function
        ([[("main", 90), ("encode", 14)]] * 2, "in `encode`, train.py:14, from `main`, train.py:90"),
    ],
)  # fmt: skip
def test_a_place_is_told_with_the_line_of_its_loop(
    tmp_path: Path, stacks: list[list[tuple[str, int]]], told: str
) -> None:
    lines = Lines(
        reports.open_timeline(x.make_export(tmp_path / "a.sqlite", kernels=[x.kernel(0, 9)]), "diagnose")
    )
    paths = [
        tuple(
            frame for name, line in stack for frame in ((name, OWN, line), ("_call_impl", TORCH_FILE, 1787))
        )
        for stack in stacks
    ]
    lines._paths = list(dict.fromkeys(paths))
    at = np.arange(len(paths)) * 10
    lines.__dict__["_stacks"] = {
        (1, 1): (at, np.array([lines._paths.index(path) for path in paths]), np.ones(len(paths), np.int64))
    }
    (place, _), *_ = lines.spread(1, 1, np.array([0]), np.array([100]))
    assert place.text == told
