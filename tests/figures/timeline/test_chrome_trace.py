"""The trace for Perfetto: what is in it, exactly when, where, and whatever the names hold."""

import io
import json

import pytest

from labcode import store
from labcode.figures.timeline.chrome_trace import write_chrome_trace
from labcode.figures.timeline.overlay import CATEGORY, PATH
from labcode.reports.kineto.report import open_trace
from labcode.reports.nsys.report import open_report
from tests.support import traces
from tests.support.exports import (
    call,
    domain,
    graph_launch,
    kernel,
    make_export,
    mark,
    memcpy,
    memset,
    push_pop,
    start_end,
    thread,
)
from tests.support.gpu_metrics import add_metrics

HOSTILE = 'evil</script><b>"quoted"\\ \n new line, ünïcode ✓ \u2028'


@pytest.fixture
def trace(tmp_path):
    """Writes an export and gives its trace's events but the critical path's."""

    def written(*, window=None, **rows):
        output = io.StringIO()
        with open_report(make_export(tmp_path / "a.sqlite", **rows)) as report:
            written.count = write_chrome_trace(report, output, window=window)
        document = json.loads(output.getvalue())
        assert document["displayTimeUnit"] == "ns"
        return [event for event in document["traceEvents"] if not on_path(event)]

    return written


def on_path(event):
    return event["pid"] >= PATH or event.get("cat") == CATEGORY


def slices(events):
    return [event for event in events if event["ph"] == "X"]


def names(events, what="thread_name"):
    """Names of tracks or groups in the order of display."""
    sort = what.replace("_name", "_sort_index")
    place = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in events if e["name"] == sort}
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == what}
    groups = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    return [named[key] for key in sorted(named, key=lambda key: (groups[key[0]], place[key]))]


def test_a_kernel_has_its_times_to_the_nanosecond_and_its_arguments(tmp_path):
    output = io.StringIO()
    shape = {"grid": (1056, 2, 1), "block": (256, 1, 1), "registers": 40, "dynamic_shared": 2048}
    rows = [kernel(1_000_000_123, 1_000_004_125, "k<float>(int)", correlation=3, **shape)]
    with open_report(make_export(tmp_path / "a.sqlite", kernels=rows)) as report:
        assert write_chrome_trace(report, output) == 1
    assert '"ts":1000000.123,"dur":4.002,' in output.getvalue()
    (event,) = slices(json.loads(output.getvalue())["traceEvents"])
    assert event["name"] == "k"
    assert event["args"] == {
        "kernel": "k<float>(int)",
        "grid": "1056 × 2 × 1",
        "block": "256 × 1 × 1",
        "registers per thread": 40,
        "static shared bytes": 0,
        "dynamic shared bytes": 2048,
        "correlation": 3,
    }


def test_times_near_the_limit_of_64_bits_stay_exact(tmp_path):
    output = io.StringIO()
    late = (1 << 63) - 10
    with open_report(make_export(tmp_path / "a.sqlite", kernels=[kernel(late, late + 5)])) as report:
        write_chrome_trace(report, output)
    assert '"ts":9223372036854775.798,"dur":0.005,' in output.getvalue()


def test_an_end_before_its_start_lasts_no_time(trace):
    (event,) = slices(trace(kernels=[kernel(500, 400)]))
    assert (event["ts"], event["dur"]) == (0.5, 0)


def test_copies_have_bytes_and_rate(trace):
    copy, fill = slices(trace(memcpys=[memcpy(0, 1000, 25_000, src=0)], memsets=[memset(0, 0, 64)]))
    assert copy["name"] == "memcpy H2D"
    assert copy["args"]["bytes"] == 25_000
    assert copy["args"]["GB/s"] == 25
    assert (copy["args"]["from"], copy["args"]["to"]) == ("pageable", "device")
    assert fill["args"]["bytes"] == 64
    assert "GB/s" not in fill["args"], "no time passed"


def test_tracks_are_named_and_ordered(trace):
    events = trace(
        kernels=[
            kernel(0, 10, stream=13, pid=200, device=0),
            kernel(0, 10, stream=7, pid=200, device=0),
            kernel(0, 10, stream=7, pid=100, device=1),
        ],
        api=[call(0, 5, pid=100, tid=100), call(0, 5, pid=100, tid=101), call(0, 5, pid=200, tid=200)],
        nvtx=[push_pop(0, 50, "step", pid=100, tid=100)],
        threads=[thread(100, 101, "loader")],
    )
    assert names(events, "process_name") == [
        "process 200",
        "GPU 0, process 200",
        "process 100",
        "GPU 1, process 100",
    ]
    assert names(events) == [
        "CUDA API, main thread",
        "stream 7",
        "stream 13",
        "NVTX, main thread",
        "CUDA API, main thread",
        "CUDA API, thread 101 loader",
        "stream 7",
    ]
    tids = [event["tid"] for event in events if event["name"] == "thread_name"]
    assert len(set(tids)) == len(tids)


def test_an_arrow_leads_from_the_call_to_the_first_operation_it_launched(trace):
    events = trace(
        kernels=[
            kernel(900, 950, correlation=5),
            kernel(300, 400, correlation=5),
            kernel(1, 2, correlation=6),
        ],
        api=[call(100, 150, correlation=5), call(100, 150, correlation=5, pid=7, tid=7)],
    )
    start, finish = (event for event in events if event["ph"] in "sf")
    launched = next(e for e in slices(events) if e["cat"] == "api" and e["pid"] == 100)
    target = next(e for e in slices(events) if e["ts"] == 0.3)
    assert start["id"] == finish["id"]
    assert finish["bp"] == "e"
    assert [start[k] for k in ("pid", "tid", "ts")] == [launched[k] for k in ("pid", "tid", "ts")]
    assert [finish[k] for k in ("pid", "tid", "ts")] == [target[k] for k in ("pid", "tid", "ts")]


def test_what_overlaps_without_nesting_gets_another_track(trace):
    events = trace(
        kernels=[kernel(0, 100), kernel(50, 150), kernel(150, 160)],
        nvtx=[start_end(0, 100, "a"), start_end(50, 150, "b")],
    )
    assert names(events) == [
        "NVTX start/end, main thread",
        "NVTX start/end (2), main thread",
        "stream 7",
        "stream 7 (2)",
    ]
    ends: dict[int, float] = {}
    for event in sorted(slices(events), key=lambda event: event["ts"]):
        assert event["ts"] >= ends.get(event["tid"], 0)
        ends[event["tid"]] = event["ts"] + event["dur"]


def test_marks_and_open_ranges(trace):
    events = trace(
        nvtx=[domain(3, "lib"), push_pop(10, None, "open", domain=3), mark(20, "now")], api=[call(0, 5000)]
    )
    instant = next(event for event in events if event["ph"] == "i")
    assert (instant["name"], instant["ts"]) == ("now", 0.02)
    still = next(event for event in slices(events) if event["name"] == "lib:open")
    assert still["args"] == {"still open at the end": True}
    assert still["ts"] + still["dur"] == 5


def test_whole_graphs_have_a_slice(trace):
    (event,) = slices(trace(graphs=[graph_launch(0, 1000)]))
    assert event["cat"] == "graph"


def test_a_window_keeps_what_overlaps_it_whole(trace):
    events = trace(kernels=[kernel(0, 10), kernel(90, 120), kernel(300, 310)], window=(100, 200))
    assert [(e["ts"], e["dur"]) for e in slices(events)] == [(0.09, 0.03)]


def test_hostile_names_come_back_as_they_were(trace):
    events = trace(
        kernels=[kernel(0, 1, HOSTILE, short=HOSTILE)],
        nvtx=[push_pop(0, 5, HOSTILE)],
        threads=[thread(100, 101, HOSTILE)],
        api=[call(0, 1, HOSTILE, tid=101)],
    )
    assert [event["name"] for event in slices(events)] == [HOSTILE] * 3
    assert any(HOSTILE in name for name in names(events))


def counted(events):
    """The values of each counter: (time in µs, value)."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "C":
            found.setdefault(event["name"], []).append((event["ts"], *event["args"].values()))
    return found


def test_queues_and_bandwidth_are_counters(trace):
    rows = {
        "kernels": [kernel(3_000, 4_000, correlation=1), kernel(4_000, 6_000, correlation=2)],
        "memcpys": [memcpy(5_000, 6_000, 8_000, correlation=3)],
        "api": [
            call(1_000, 1_500, "cudaLaunchKernel", correlation=1),
            call(2_000, 2_500, "cudaLaunchKernel", correlation=2),
        ],
    }
    events = trace(**rows)
    assert counted(events) == {
        "queue of stream 7": [(1, 1), (2, 2), (3, 1), (4, 0)],
        "bandwidth H2D": [(5, 8), (6, 0)],
    }
    (gpu,) = {event["pid"] for event in slices(events) if event["cat"] == "kernel"}
    assert {event["pid"] for event in events if event["ph"] == "C"} == {gpu}
    part = counted(trace(window=(2_500, 3_500), **rows))
    assert part == {"queue of stream 7": [(2.5, 2), (3, 1)]}


def test_the_critical_path_of_a_trace_is_a_track_with_arrows(tmp_path):
    one = traces.Trace()
    one.op("aten::mm", 0, 30_000)
    one.launch(traces.GEMM, (10_000, 20_000), (25_000, 90_000))
    one.call("cudaDeviceSynchronize", 40_000, 95_000)
    output = io.StringIO()
    report = open_trace(one.write(tmp_path / "a.trace.json"))
    assert write_chrome_trace(report, output) == 3  # the path is no event of the trace
    events = json.loads(output.getvalue())["traceEvents"]
    path = [event for event in slices(events) if event["cat"] == CATEGORY]
    assert [(e["args"]["kind"], e["ts"], e["dur"]) for e in path] == [
        ("operator", 0, 10),
        ("CUDA call", 10, 10),
        ("launch latency", 20, 5),
        ("kernel", 25, 65),
        ("wait ends", 90, 5),
    ]
    assert names(events, "process_name")[0] == "critical path"
    arrows = [event for event in events if event.get("cat") == CATEGORY and event["ph"] in "sf"]
    where = {event["cat"]: (event["pid"], event["tid"]) for event in slices(events)}
    assert [(e["ph"], (e["pid"], e["tid"]), e["ts"]) for e in arrows] == [
        ("s", where["api"], 19.999),
        ("f", where["kernel"], 20),
        ("s", where["kernel"], 89.999),
        ("f", where["api"], 90),
    ]


def test_a_path_that_contradicts_the_gpus_time_is_labelled(tmp_path):
    one = traces.Trace()
    for at in range(0, 1_000_000, 100_000):
        one.op("aten::mul", at, at + 98_000)
        one.launch(traces.GEMM, (at + 5_000, at + 15_000), (at + 20_000, at + 60_000))
    output = io.StringIO()
    write_chrome_trace(open_trace(one.write(tmp_path / "a.trace.json")), output)
    events = json.loads(output.getvalue())["traceEvents"]
    (label,) = [e["args"]["labels"] for e in events if e["ph"] == "M" and e["name"] == "process_labels"]
    assert label.startswith("critical path of rank 0: 0% computing, while GPU 0 computes for 40%")


def test_the_critical_path_of_each_process_of_an_export(tmp_path):
    rows = {
        "api": [call(0, 10_000, correlation=1, pid=pid, tid=pid) for pid in (5, 6)],
        "kernels": [kernel(15_000, 90_000, correlation=1, pid=pid) for pid in (5, 6)],
    }
    output = io.StringIO()
    with open_report(make_export(tmp_path / "a.sqlite", **rows)) as report:
        assert write_chrome_trace(report, output) == 4
    events = json.loads(output.getvalue())["traceEvents"]
    path = [event for event in slices(events) if event["cat"] == CATEGORY]
    kinds = [("CUDA call", 0, 10), ("launch latency", 10, 5), ("kernel", 15, 75)]
    assert [(e["args"]["kind"], e["ts"], e["dur"]) for e in path] == 2 * kinds
    assert names(events, "process_name")[:2] == ["critical path, process 5", "critical path, process 6"]
    arrows = [event for event in events if event.get("cat") == CATEGORY and event["ph"] in "sf"]
    tracks = [{(e["pid"], e["tid"]) for e in slices(events) if e["cat"] == cat} for cat in ("api", "kernel")]
    for side, phase in zip(tracks, "sf", strict=True):  # from each process' call to its kernel
        assert {(e["pid"], e["tid"]) for e in arrows if e["ph"] == phase} == side
    assert len(arrows) == 4 and len({event["id"] for event in arrows}) == 2


def test_nothing_is_still_json(trace):
    assert slices(trace()) == []


@pytest.mark.parametrize(("experiment", "run"), [("kernel_overlap", "graph"), ("multi_gpu", "improved")])
def test_shipped_captures_keep_every_operation(experiment, run):
    output = io.StringIO()
    captures = store.load_set(store.SHIPPED_SET)
    with open_report(captures.path_of(experiment, run)) as report:
        count = write_chrome_trace(report, output)
        ops = report.gpu_ops()
        assert count == len(ops) + len(report.api()) + len(report.nvtx())
    events = json.loads(output.getvalue())["traceEvents"]
    on_gpu = [event for event in slices(events) if event["cat"] in ("kernel", "memcpy", "memset", "graph")]
    assert len(on_gpu) == len(ops)
    assert round(sum(event["dur"] for event in on_gpu) * 1000) == int((ops["end_ns"] - ops["start_ns"]).sum())


def test_counters_hold_from_where_their_time_begins(tmp_path):
    path = make_export(tmp_path / "a.sqlite", kernels=[kernel(0, 100)])
    add_metrics(path, {"SMs Active": [(100, 7), (200, 7), (300, 9), (400, 0)], "GPC": [(100, 5)]})
    output = io.StringIO()
    with open_report(path) as report:
        assert write_chrome_trace(report, output, window=(0, 350)) == 1 + 3 + 1
    events = json.loads(output.getvalue())["traceEvents"]
    found = [(e["name"], e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C"]
    active, clock = "SMs Active [Throughput %]", "GPC Clock Frequency [MHz]"
    assert found == [(active, 0.1, 7), (active, 0.3, 9), (active, 0.4, 9), (clock, 0.1, 5), (clock, 0.1, 5)]
    assert names(events, "process_name")[-1] == "GPU 0, its own counters"
