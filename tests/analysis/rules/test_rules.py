"""Each rule on the smallest capture in which it fires, and on one in which it must not."""

from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.rules import Verdict
from labcode.reports.nsys.report import open_report
from labcode.verbs.diagnose.verdicts import diagnose, select
from tests.support import exports as x

US, MS = 1_000, 1_000_000
Tables = dict[str, Any]


def judge(tmp_path: Path, rule: str, **tables: Any) -> Verdict:
    """The verdict of one rule on an export of these tables, all of it."""
    with open_report(x.make_export(tmp_path / "a.sqlite", **tables)) as report:
        (verdict,) = diagnose(report, select([rule]), window="all")
        return verdict


def launched(times: list[tuple[int, int]], *, lead: int = 6 * US, call: int = 4 * US, **where: Any) -> Tables:
    """Kernels at these times, each launched ``lead`` before it begins."""
    kernels = [x.kernel(s, e, correlation=i + 1, **where) for i, (s, e) in enumerate(times)]
    api = [x.call(s - lead, s - lead + call, correlation=i + 1) for i, (s, _) in enumerate(times)]
    return {"kernels": kernels, "api": api}


# ---- idle gaps


def test_idle_gaps_name_the_range_and_the_call(tmp_path: Path) -> None:
    tables = launched([(i * MS, i * MS + 400 * US) for i in range(1, 11)])
    name = 'load, "it"\n'
    steps = [i * MS for i in range(1, 11)]
    tables["nvtx"] = [x.push_pop(begin + 380 * US, begin + 993 * US, name) for begin in steps]
    tables["api"] += [x.call(begin + 420 * US, begin + 980 * US, "cudaMalloc_v3020") for begin in steps]
    verdict = judge(tmp_path, "idle-gaps", **tables)
    assert (verdict.status, verdict.severity) == ("found", "info")
    assert '“load, "it"”, mostly in cudaMalloc' in verdict.message
    assert verdict.evidence["range"].iloc[0] == name
    assert verdict.evidence["duration_ns"].tolist()[1:9] == [600 * US] * 8


def test_gaps_in_which_code_is_loaded_ask_for_a_warm_up(tmp_path: Path) -> None:
    tables = launched([(i * MS, i * MS + 400 * US) for i in range(1, 11)])
    working = [dict(name, api=list(name["api"])) for name in (tables, tables)]
    for made, loads in zip(working, (2, 5), strict=True):
        made["api"] += [
            x.call(
                i * MS + 420 * US,
                i * MS + 980 * US,
                "cuLibraryLoadData" if i <= loads else "cudaMalloc_v3020",
            )
            for i in range(1, 11)
        ]
    few, many = (judge(tmp_path, "idle-gaps", **made).message for made in working)
    assert "loaded there for the first time" in many and "loaded" not in few


def test_short_gaps_are_the_pace_of_launches_and_not_idle_gaps(tmp_path: Path) -> None:
    tables = launched([(i * 12 * US, i * 12 * US + 4 * US) for i in range(1, 200)], lead=6 * US, call=4 * US)
    assert judge(tmp_path, "idle-gaps", **tables).status == "not found"
    verdict = judge(tmp_path, "launch-bound", **tables)
    assert verdict.status == "found" and verdict.share == pytest.approx(8 / 12, abs=0.02)
    assert len(verdict.evidence) == 1 and verdict.evidence["gaps"].iloc[0] == 199


def test_kernels_that_queue_are_not_launch_bound(tmp_path: Path) -> None:
    tables = launched([(MS + i * 12 * US, MS + i * 12 * US + 8 * US) for i in range(50)], lead=MS - 10 * US)
    assert judge(tmp_path, "launch-bound", **tables).status == "not found"


def test_gaps_between_the_nodes_of_a_graph_are_no_launches(tmp_path: Path) -> None:
    kernels = [x.kernel(i * 4 * US, i * 4 * US + 2 * US, correlation=1, graph_node=i) for i in range(2, 6)]
    api = [x.call(US, 21 * US, "cudaGraphLaunch_v10000", correlation=1)]
    assert judge(tmp_path, "launch-bound", kernels=kernels, api=api).numerator == 0


def test_time_of_the_profiler_is_not_idle_time_of_the_program(tmp_path: Path) -> None:
    tables = launched([(MS, 2 * MS), (5 * MS, 6 * MS)])
    without = judge(tmp_path, "idle-gaps", **tables)
    held_up = judge(tmp_path, "idle-gaps", **tables, overheads=[x.overhead(2 * MS, 5 * MS)])
    assert without.status == "found" and without.numerator == 3 * MS
    assert held_up.status == "not found" and held_up.numerator == 0
    another = judge(tmp_path, "idle-gaps", **tables, overheads=[x.overhead(2 * MS, 5 * MS, pid=999)])
    assert another.status == "found"


def test_the_bound_leaves_each_gpu_its_work_but_not_its_waiting(tmp_path: Path) -> None:
    """GPU 1 waits inside NCCL while GPU 0 has nothing to do: both are the gap's fault."""
    kernels = [
        *(x.kernel(i * 10 * MS, i * 10 * MS + 4 * MS, device=0, correlation=i + 1) for i in range(10)),
        *(x.kernel(i * 10 * MS, i * 10 * MS + 4 * MS, device=1, pid=200) for i in range(10)),
        *(
            x.kernel(i * 10 * MS + 4 * MS, (i + 1) * 10 * MS, "ncclDevKernel_AllReduce(x)", device=1, pid=200)
            for i in range(10)
        ),
    ]
    assert judge(tmp_path, "idle-gaps", kernels=kernels).gain == pytest.approx(0.6)
    busy = [x.kernel(0, 100 * MS, device=1, pid=200), *kernels[:10]]
    assert judge(tmp_path, "idle-gaps", kernels=busy).gain == 0


# ---- synchronizing calls


def loop_with_waits(name: str = "cudaStreamSynchronize_v3020", tid: int = 100) -> Tables:
    """Ten steps: launch, wait until the kernel is done, work on the CPU, launch again."""
    tables = launched([(i * MS, i * MS + 500 * US) for i in range(1, 11)])
    tables["api"] += [x.call(i * MS + 2 * US, i * MS + 505 * US, name, tid=tid) for i in range(1, 11)]
    return tables


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy"])
def test_a_wait_in_each_step(tmp_path: Path, name: str) -> None:
    verdict = judge(tmp_path, "sync-in-loop", **loop_with_waits(name + "_v3020"))
    assert verdict.status == "found"
    assert verdict.numerator == 9 * 503 * US  # the last wait lets nothing run dry
    assert verdict.evidence["gap_ns"].tolist() == [500 * US] * 9


def test_waits_of_another_thread_do_no_harm(tmp_path: Path) -> None:
    assert judge(tmp_path, "sync-in-loop", **loop_with_waits(tid=101)).numerator == 0


def test_waiting_for_work_that_was_queued_long_ago_does_no_harm(tmp_path: Path) -> None:
    tables = launched([(MS + i * 12 * US, MS + i * 12 * US + 8 * US) for i in range(50)], lead=MS - 10 * US)
    tables["api"].append(x.call(700 * US, 5 * MS, "cudaDeviceSynchronize_v3020"))
    assert judge(tmp_path, "sync-in-loop", **tables).numerator == 0


# ---- copies


def copies(count: int, size: int, *, src: int, took: int = 300 * US, call: str = "cudaMemcpyAsync") -> Tables:
    """A copy and a kernel a millisecond."""
    tables = launched([(i * MS, i * MS + 600 * US) for i in range(1, count + 1)])
    for i in range(1, count + 1):
        begin = i * MS + 620 * US
        copy = x.memcpy(begin, begin + took, size, src=src, correlation=1000 + i)
        tables.setdefault("memcpys", []).append(copy)
        tables["api"].append(x.call(begin - 5 * US, begin + took + 5 * US, call, correlation=1000 + i))
    return tables


def test_pageable_asynchronous_copies(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "pageable-copies", **copies(10, 1 << 22, src=0))
    assert verdict.status == "found" and verdict.numerator == 10 * 310 * US
    assert judge(tmp_path, "pageable-copies", **copies(10, 1 << 22, src=1)).numerator == 0
    honest = copies(10, 1 << 22, src=0, call="cudaMemcpy")
    assert judge(tmp_path, "pageable-copies", **honest).status == "not found"


def test_copies_for_which_the_host_waits(tmp_path: Path) -> None:
    waited = copies(10, 1 << 22, src=0, call="cudaMemcpy_v3020")
    verdict = judge(tmp_path, "synchronous-copies", **waited)
    assert verdict.status == "found" and len(verdict.evidence) == 10
    assert verdict.numerator == 10 * 310 * US and verdict.message.startswith("the host waits for 10 copies")
    assert judge(tmp_path, "synchronous-copies", **copies(10, 1 << 22, src=0)).numerator == 0
    small = copies(10, 64_000, src=0, call="cudaMemcpy_v3020")
    assert judge(tmp_path, "synchronous-copies", **small).numerator == 0


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        (1, "cudaMemset_v3020", True),
        (4, "cudaMemset2D_v3020", True),
        (2, "cudaMemset_v3020", False),
        (4, "cudaMemsetAsync_v3020", False),
    ],
)
def test_memsets_for_which_the_host_waits(tmp_path: Path, kind: int, name: str, found: bool) -> None:
    tables = {
        "kernels": [x.kernel(0, 10 * MS)],
        "memsets": [x.memset(10 * MS, 11 * MS, mem_kind=kind, correlation=1)],
        "api": [x.call(10 * MS, 12 * MS, name, correlation=1)],
    }
    verdict = judge(tmp_path, "synchronous-memsets", **tables)
    assert verdict.status == ("found" if found else "not found")
    assert verdict.numerator == 2 * MS * found and len(verdict.evidence) == found


def test_copies_without_their_call_are_counted_and_not_judged(tmp_path: Path) -> None:
    tables = copies(10, 1 << 22, src=0)
    for row in tables["memcpys"][:4]:
        row["correlationId"] = 99_999
    verdict = judge(tmp_path, "pageable-copies", **tables)
    assert verdict.numerator == 6 * 310 * US and "4 copies have no call" in verdict.message


def test_many_small_copies(tmp_path: Path) -> None:
    assert judge(tmp_path, "small-copies", **copies(40, 4096, src=1, took=30 * US)).status == "found"
    assert judge(tmp_path, "small-copies", **copies(40, 1 << 17, src=1, took=30 * US)).status == "not found"
    assert judge(tmp_path, "small-copies", **copies(10, 4096, src=1, took=30 * US)).status == "not found"


def test_repeated_copies_count_where_no_kernel_hides_them(tmp_path: Path) -> None:
    tables = copies(10, 1 << 22, src=1)
    verdict = judge(tmp_path, "copies-not-hidden", **tables)
    assert verdict.status == "found" and verdict.numerator == 10 * 300 * US
    assert verdict.evidence[["repetitions", "bytes"]].to_numpy().tolist() == [[10, 1 << 22]]
    hidden = {**tables, "kernels": [*tables["kernels"], x.kernel(MS, 11 * MS, stream=9)]}
    assert judge(tmp_path, "copies-not-hidden", **hidden).numerator == 0


# ---- small work


def test_tiny_kernels_also_without_launch_calls(tmp_path: Path) -> None:
    tables = launched([(i * 6 * US, i * 6 * US + US) for i in range(1, 300)], lead=5 * US)
    assert judge(tmp_path, "tiny-kernels", **tables).status == "found"
    assert judge(tmp_path, "tiny-kernels", kernels=tables["kernels"]).status == "found"
    large = launched([(i * 9 * US, i * 9 * US + 5 * US) for i in range(1, 300)], lead=5 * US)
    assert judge(tmp_path, "tiny-kernels", **large).status == "not found"


def test_tiny_kernels_beside_a_large_one_cost_nothing(tmp_path: Path) -> None:
    tables = launched([(i * 6 * US, i * 6 * US + US) for i in range(1, 300)], lead=5 * US)
    tables["kernels"].append(x.kernel(0, 1800 * US, stream=9))
    assert judge(tmp_path, "tiny-kernels", **tables).numerator == 0


def test_allocation_in_the_steady_state(tmp_path: Path) -> None:
    tables = launched([(i * MS, i * MS + 500 * US) for i in range(1, 31)])
    calls = [
        x.call(i * MS + 520 * US, i * MS + 620 * US, name, driver=name.startswith("cu") and name[2] == "M")
        for i in range(1, 31)
        for name in ("cudaMalloc_v3020", "cuMemAlloc_v2")
    ]
    verdict = judge(tmp_path, "allocation-in-loop", **{**tables, "api": tables["api"] + calls})
    assert (
        verdict.status == "found" and "30 calls allocate" in verdict.message
    )  # a driver call inside counts once
    ordered = [{**c, "nameId": type(c["nameId"])("cudaMallocAsync_v11020")} for c in calls]
    assert judge(tmp_path, "allocation-in-loop", **{**tables, "api": tables["api"] + ordered}).numerator == 0
    before = [x.call(i * 20 * US, i * 20 * US + 15 * US, "cudaMalloc_v3020") for i in range(40)]
    path = x.make_export(tmp_path / "b.sqlite", **{**tables, "api": before + tables["api"]})
    with open_report(path) as report:  # the steady state begins with the first kernel
        (verdict,) = (v for v in diagnose(report) if v.rule == "allocation-in-loop")
    assert verdict.numerator == 0


# ---- GPUs that work together


def ranks(late_ns: int, *, last: int = 3, gpus: int = 4, hidden: bool = False) -> list[Any]:
    """Each step: 2 ms of computing (more on one GPU), then an all-reduce that ends everywhere at once."""
    rows = []
    for step in range(20):
        for gpu in range(gpus):
            begin = step * 10 * MS
            ready = begin + 2 * MS + (late_ns if gpu == last else 0)
            end = begin + 3 * MS + late_ns
            where = {"pid": 100 + gpu, "device": gpu, "correlation": None}
            rows.append(x.kernel(begin, end if hidden else ready, "gemm(x)", **where))
            rows.append(x.kernel(ready, end, "ncclDevKernel_AllReduce_Sum(x)", stream=9, **where))
    return rows


def test_a_late_gpu_is_named(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "late-rank", kernels=ranks(2 * MS))
    assert verdict.status == "found" and verdict.numerator == 20 * 2 * MS
    assert verdict.evidence[["device", "last_count"]].iloc[0].tolist() == [3, 20]
    assert "GPU 3 is last in 20 of 20 collectives" in verdict.message


def test_waiting_beside_a_kernel_costs_nothing(tmp_path: Path) -> None:
    assert judge(tmp_path, "late-rank", kernels=ranks(2 * MS, hidden=True)).numerator == 0
    assert judge(tmp_path, "communication-not-hidden", kernels=ranks(2 * MS, hidden=True)).numerator == 0


def test_exposed_communication_is_that_of_the_gpu_that_waits_least(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "communication-not-hidden", kernels=ranks(5 * MS))
    assert verdict.status == "found" and verdict.numerator == 20 * MS


def test_communication_on_the_stream_that_computes(tmp_path: Path) -> None:
    apart = judge(tmp_path, "serialized-communication", kernels=ranks(0))
    assert apart.status == "not found"
    assert apart.message == "no communication kernels run on a stream that computes"
    one = [{**row, "streamId": 7} for row in ranks(0)]
    verdict = judge(tmp_path, "serialized-communication", kernels=one)
    assert verdict.status == "found" and verdict.numerator == 20 * MS
    assert verdict.evidence["comm_count"].tolist() == verdict.evidence["compute_count"].tolist() == [20] * 4
    helper = [*ranks(0), x.kernel(0, US, "scale(x)", stream=9)]  # too little to call it a computing stream
    assert judge(tmp_path, "serialized-communication", kernels=helper).status == "not found"


def test_low_utilization_tells_kernels_from_copies(tmp_path: Path) -> None:
    tables = {
        "kernels": [x.kernel(0, 10 * MS), x.kernel(290 * MS, 300 * MS)],
        "memcpys": [x.memcpy(100 * MS, 140 * MS), x.memcpy(5 * MS, 8 * MS)],
    }
    verdict = judge(tmp_path, "low-utilization", **tables)
    assert verdict.evidence["copy_only_ns"].sum() + verdict.evidence["kernel_ns"].sum() < 50 * MS
    assert "kernels run for 0.0 % of the time, copies and memsets alone for 0.0 %" in verdict.message


def test_collectives_that_cannot_be_matched(tmp_path: Path) -> None:
    verdict = judge(tmp_path, "late-rank", kernels=ranks(0)[:-1])
    assert verdict.status == "could not judge"
    assert "different numbers of communication kernels" in verdict.message
    apart = [row["deviceId"] * 10**9 for row in ranks(0)]
    shifted = [
        {**row, "start": row["start"] + by, "end": row["end"] + by}
        for row, by in zip(ranks(0), apart, strict=True)
    ]
    verdict = judge(tmp_path, "late-rank", kernels=shifted)
    assert verdict.status == "could not judge" and "clocks apart" in verdict.message


# ---- the profile


@pytest.mark.parametrize("schema", [(3, 7, 2), (3, 11, 1)])
def test_graph_launches_without_a_trace_are_not_idle_time(
    tmp_path: Path, schema: tuple[int, int, int]
) -> None:
    tables = launched([(i * MS, i * MS + 100 * US) for i in range(1, 11)])
    tables["api"] += [
        x.call(i * MS + 150 * US, i * MS + 160 * US, "cudaGraphLaunch_v10000", correlation=500 + i)
        for i in range(1, 11)
    ]
    verdict = judge(tmp_path, "untraced-graphs", schema=schema, **tables)
    assert verdict.status == "found" and (verdict.numerator, verdict.denominator) == (10, 10)
    for rule in ("idle-gaps", "low-utilization", "launch-bound", "sync-in-loop"):
        unknown = judge(tmp_path, rule, schema=schema, **tables)
        assert (
            unknown.status == "could not judge" and "10 of 10 graph launches left no trace" in unknown.message
        )


def test_graphs_traced_kernel_by_kernel_are_all_right(tmp_path: Path) -> None:
    kernels = [x.kernel(i * 10 * US, i * 10 * US + 9 * US, correlation=1, graph_node=i) for i in range(1, 9)]
    api = [x.call(0, 9 * US, "cudaGraphLaunch_v10000", correlation=1)]
    assert judge(tmp_path, "untraced-graphs", kernels=kernels, api=api).status == "not found"


def test_a_driver_call_inside_a_launch_is_no_second_launch(tmp_path: Path) -> None:
    graphs = [x.graph_launch(i * MS, i * MS + 900 * US, correlation=i) for i in range(1, 11)]
    runtime = [
        x.call(g["start"] - 9 * US, g["start"] - US, "cudaGraphLaunch_v10000", correlation=500 + i)
        for i, g in enumerate(graphs)
    ]
    driver = [
        x.call(g["start"] - 8 * US, g["start"] - 2 * US, "cuGraphLaunch", driver=True, correlation=i)
        for i, g in enumerate(graphs, 1)
    ]
    verdict = judge(tmp_path, "untraced-graphs", graphs=graphs, api=runtime + driver)
    assert (verdict.numerator, verdict.denominator) == (10, 10) and "0 not at all" in verdict.message


def test_one_graph_lost_among_many_leaves_the_rest_to_be_judged(tmp_path: Path) -> None:
    graphs = [x.graph_launch(i * MS, i * MS + 500 * US, correlation=i) for i in range(1, 31)]
    api = [
        x.call(i * MS - 9 * US, i * MS - US, "cudaGraphLaunch_v10000", correlation=i) for i in range(1, 32)
    ]
    assert judge(tmp_path, "untraced-graphs", graphs=graphs, api=api).numerator == 31
    assert judge(tmp_path, "idle-gaps", graphs=graphs, api=api).status == "found"
    assert judge(tmp_path, "idle-gaps", graphs=graphs[:25], api=api).status == "could not judge"


def test_communication_inside_graphs_cannot_be_judged(tmp_path: Path) -> None:
    graphs = [x.graph_launch(0, 9 * MS, device=gpu, correlation=gpu + 1) for gpu in range(2)]
    kernels = [x.kernel(9 * MS, 10 * MS, device=gpu, correlation=gpu + 9) for gpu in range(2)]
    for rule in ("communication-not-hidden", "late-rank"):
        verdict = judge(tmp_path, rule, graphs=graphs, kernels=kernels)
        assert verdict.status == "could not judge" and "NCCL's may be among them" in verdict.message


def test_start_up(tmp_path: Path) -> None:
    sizes = [900 * US if i % 2 else 100 * US for i in range(50, 100)]  # of two sizes: nothing repeats
    tables = launched([(MS * i, MS * i + size) for i, size in enumerate(sizes, 50)])
    tables["api"] += [
        x.call(0, 30 * MS, "cuInit", driver=True),
        x.call(60 * MS, 62 * MS, "cuLibraryLoadData"),
    ]

    def told(**more: Any) -> Verdict:
        with open_report(x.make_export(tmp_path / "a.sqlite", **tables, **more)) as report:
            return {verdict.rule: verdict for verdict in diagnose(report)}["start-up"]

    verdict = told()  # judged from the first kernel after the loading to the last one
    assert (verdict.status, verdict.severity, verdict.gain) == ("found", "info", None)
    assert verdict.numerator == 62 * MS and "creating the context" in verdict.message
    assert told(osrt=[x.osrt(-900 * MS, -899 * MS)]).numerator == 962 * MS
    marked = told(nvtx=[x.push_pop(70 * MS, 100 * MS, "lab:measured")])
    assert marked.numerator == 70 * MS + 100 * US and "steady state" in set(marked.evidence["phase"])


def test_profiler_overhead(tmp_path: Path) -> None:
    tables = launched([(MS * i, MS * i + 900 * US) for i in range(1, 11)])
    flush = [x.overhead(3 * MS, 4 * MS), x.overhead(3 * MS, 4 * MS), x.overhead(3 * MS, 4 * MS, tid=101)]
    verdict = judge(tmp_path, "profiler-overhead", **tables, overheads=flush)
    assert verdict.status == "found" and verdict.numerator == MS  # the union in one thread
    assert verdict.gain is None and verdict.severity == "info"
    assert judge(tmp_path, "profiler-overhead", **tables).status == "not found"


def test_dropped_events(tmp_path: Path) -> None:
    kernels = [x.kernel(0, MS)]
    fine = [x.diagnostic("Profiling has started.", severity=1)]
    assert judge(tmp_path, "dropped-events", kernels=kernels, diagnostics=fine).status == "not found"
    dropped = [*fine, x.diagnostic("12 events were dropped.", severity=1)]
    lost = judge(tmp_path, "dropped-events", kernels=kernels, diagnostics=dropped)
    assert (lost.status, lost.severity, lost.numerator) == ("found", "high", 1)
    other = [*fine, x.diagnostic("no CPU samples", severity=2)]
    warned = judge(tmp_path, "dropped-events", kernels=kernels, diagnostics=other)
    assert (warned.status, warned.severity) == ("found", "info")


def test_diagnostics_that_are_missing(tmp_path: Path) -> None:
    old = judge(tmp_path, "dropped-events", kernels=[x.kernel(0, MS)], schema=(3, 7, 2))
    assert old.message.startswith("could not judge: exports of schema 3.7.2 hold no messages")
    new = judge(tmp_path, "dropped-events", kernels=[x.kernel(0, MS)])
    assert new.message == "could not judge: the capture holds no messages of the profiler"
