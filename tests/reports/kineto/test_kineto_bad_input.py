"""Bad traces: one line that says what is wrong, or what could be read and what not."""

import contextlib
import gzip
import io
import json
import os
import random
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labcode.analysis.stats import kineto as kineto_stats
from labcode.errors import InputError, LabError
from labcode.figures.timeline.chrome_trace import write_chrome_trace
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support import traces
from tests.support.traces import GEMM, Trace

EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5.5, "dur": 2}'


def whole(*events: bytes) -> bytes:
    return b'{"schemaVersion": 1, "traceEvents": [' + b",".join(events) + b'], "traceName": "x"}'


def opened(folder: Path, content: bytes, name: str = "bad.trace.json") -> KinetoReport:
    path = folder / name
    path.write_bytes(content)
    return open_trace(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad.trace.json: empty; record the trace again"),
        (b"  \n ", "bad.trace.json: empty"),
        (b"SQLite format 3\x00", "not JSON, so no trace of torch.profiler"),
        (b"\x89PNG", "not JSON, so no trace of torch.profiler"),
        (b'{"a": 1}', "JSON, but no trace: it has no list traceEvents"),
        (b'{"traceEvents": null}', "JSON, but no trace: it has no list traceEvents"),
        (b'{"traceEvents": {"a": 1}}', "JSON, but no trace: it has no list traceEvents"),
        (b'{"schemaVersion": 1, "deviceProp', "not valid JSON, or cut off before the first event"),
        (b'{"schemaVersion": , "traceEvents": []}', "not valid JSON before its events"),
        (b'{"a": {"traceEvents": [' + EVENT + b"]}}", "not valid JSON before its events"),
        (b'{"a": ' + b"[" * 100_000, "nested more than 500 levels deep"),
        (b'{"traceEvents": [{"args": ' + b'{"a":' * 100_000, "nested more than 500 levels deep"),
        (b'{"traceEvents": [{"args": ' + b"[" * 9_000 + b"]" * 9_000 + b"}]}", "nested more than 500 levels"),
        (b"[" * 50_000, "JSON, but no trace: its list begins with '[["),
        (gzip.compress(b"no json", mtime=0), "not JSON, so no trace of torch.profiler"),
        (gzip.compress(b'{"a": 1' * 9000, mtime=0)[:40], "its gzip data end early"),
        (b"\x1f\x8bno gzip", "its gzip data are damaged"),
        (
            b'[{"name": "fusion", "ph": "X", "pid": 1, "tid": 2, "ts": 1, "dur": 2}]',
            "no trace of torch.profiler",
        ),
        (
            b'{"traceEvents": []}',
            "not one of its events is an operator, a call of CUDA or an operation of a GPU",
        ),
    ],
)
def test_refused(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        opened(tmp_path, content)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert "bad.trace.json" in str(caught.value)


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: no such file; check the path"):
        open_trace(tmp_path / "none.json")
    with pytest.raises(InputError, match="a folder without traces"):
        open_trace(tmp_path)


def test_cut_off_anywhere_counts_whole_events_alone(tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=1, layers=1)
    text = path.read_bytes()
    full = open_trace(path)
    first = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    last = text.rindex(b"\n  ],")
    events = [found.span() for found in re.finditer(rb"\n  \{\n.*?\n  \}", text[:last], re.DOTALL)]
    draw = random.Random(1)
    for end in sorted(draw.sample(range(first, last), 150)):
        report = opened(tmp_path, text[:end])
        assert not report.complete
        assert "cut off (it ends " in report.warnings[0] and "the rest is missing" in report.warnings[0]
        whole_ones = [text[low:high] for low, high in events if first <= low and high <= end]
        for category, table in (("cpu_op", "ops"), ("kernel", "kernels"), ("cuda_runtime", "api")):
            count = sum(f'"cat": "{category}"'.encode() in one for one in whole_ones)
            assert getattr(report, table)().index.size == count, (end, table)
        assert report.ops()["name"].equals(full.ops()["name"].iloc[: len(report.ops())])


def test_cut_off_says_how_much_was_read(tmp_path: Path) -> None:
    report = opened(tmp_path, whole(EVENT, EVENT)[:-60])
    assert report.warnings[0].endswith(
        "bad.trace.json: cut off (it ends within an event): 1 whole events in the first 162 B were read, "
        "0.002 ms of the run; the rest is missing, so every number is of this part alone"
    )


def test_cut_off_behind_the_last_event(tmp_path: Path) -> None:
    content = whole(EVENT, EVENT)
    for cut in (1, 10, len(b', "traceName": "x"}')):
        report = opened(tmp_path, content[:-cut])
        assert "it ends after the events, within the object" in report.warnings[0]
        assert len(report.ops()) == 2
    assert opened(tmp_path, content).complete


def test_cut_off_gzip(tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=2, layers=3, packed=True)
    packed = path.read_bytes()
    report = opened(tmp_path, packed[: len(packed) // 2], "half.json.gz")
    assert "cut off (its gzip data end early)" in report.warnings[0] and len(report.ops()) > 3
    hurt = bytearray(packed)
    hurt[len(hurt) // 2] ^= 0xFF
    report = opened(tmp_path, bytes(hurt), "hurt.json.gz")
    assert not report.complete and report.warnings[0].startswith(str(tmp_path / "hurt.json.gz"))


def test_something_else_within_the_list(tmp_path: Path) -> None:
    report = opened(tmp_path, whole(EVENT, b"17", EVENT))
    assert "cut off (what follows there is no event ('17,{" in report.warnings[0]
    assert len(report.ops()) == 1


def test_events_that_are_no_json_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = b'{"ph": "X", "cat": "cpu_op", "name": "C:\\dir", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
    report = opened(tmp_path, whole(EVENT, bad, EVENT))
    assert len(report.ops()) == 2 and report.complete
    assert "1 events are no valid JSON and were left out" in report.warnings[0]


def test_infinite_numbers_cost_that_number_alone(tmp_path: Path) -> None:
    kernel = (
        b'{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": '
        b'{"device": 0, "stream": 7, "correlation": 5, "blocks per SM": inf, "warps per SM": -nan}}'
    )
    kernels = opened(tmp_path, whole(EVENT, kernel)).kernels()
    assert kernels["correlation"].tolist() == [5] and kernels["blocks_per_sm"].isna().all()


@pytest.mark.parametrize(
    "members",
    [
        b'"args": null',
        b'"args": [1, 2]',
        b'"args": {"External id": [3], "Sequence number": "x", "Input Dims": 7}',
        b'"args": {"External id": 99999999999999999999999}',
        b'"args": {"Sequence number": 1e30}',
        b'"id": [1]',
    ],
)
def test_arguments_of_another_kind(members: bytes, tmp_path: Path) -> None:
    odd = EVENT[:-1] + b", " + members + b"}"
    report = opened(tmp_path, whole(EVENT, odd, EVENT))
    assert report.ops()["end_ns"].tolist() == [2000] * 3


@pytest.mark.parametrize("time", [b'"ts": "soon"', b'"ts": 1e300', b'"ts": null', b'"dur": "x"', b'"x": 0'])
def test_events_without_a_time(time: bytes, tmp_path: Path) -> None:
    odd = EVENT.replace(b'"ts": 5.5' if b"ts" in time or b"x" in time[:3] else b'"dur": 2', time)
    report = opened(tmp_path, whole(EVENT, odd))
    assert len(report.ops()) == 1
    assert any("1 events have no valid time and were left out" in line for line in report.warnings)


def test_negative_durations(tmp_path: Path) -> None:
    report = opened(tmp_path, whole(EVENT, EVENT.replace(b'"dur": 2', b'"dur": -7.25')))
    ops = report.ops()
    assert (ops["end_ns"] - ops["start_ns"]).tolist() == [2000, 0]
    assert "1 events end before they begin; they count as 0 ns long" in report.warnings[0]


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(GEMM, (0, 5_000), (9_000, 10_000))
    jump = 1_000_000_000_000
    trace.launch(GEMM, (jump, jump + 5_000), (jump + 9_000, jump + 10_000))
    report = open_trace(trace.write(tmp_path / "a.json"))
    assert "no event for 1,000 s, 0.000 s after the start: the clock jumped" in report.warnings[0]
    assert report.kernels()["start_ns"].tolist() == [9_000, jump + 9_000]


def test_correlation_ids_that_several_calls_share(tmp_path: Path) -> None:
    trace = Trace()
    trace.call("cudaLaunchKernel", 0, 5_000, correlation=8)
    trace.call("cudaLaunchKernel", 6_000, 9_000, correlation=8)
    trace.kernel(GEMM, 10_000, 20_000, 8)
    trace.kernel(GEMM, 30_000, 40_000, 8)
    report = open_trace(trace.write(tmp_path / "a.json"))
    assert "1 correlation ids are those of several calls" in report.warnings[0]


def test_no_gpu_operations(tmp_path: Path) -> None:
    report = opened(tmp_path, whole(EVENT))
    assert report.warnings == (
        f"{tmp_path / 'bad.trace.json'}: no GPU operations; record them with "
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    )
    assert len(report.gpu_ops()) == 0


def test_missing_ranks(tmp_path: Path) -> None:
    for path in traces.training(tmp_path, ranks=4, steps=1, layers=1)[1:3]:
        path.unlink()
    report = open_trace(tmp_path)
    assert report.ranks == (0, 3) and report.world_size == 4
    assert "traces of 2 of 4 ranks; rank 1, 2 missing" in report.warnings[0]


def test_two_files_of_one_rank(tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=1, layers=1)
    text = Trace(rank=1, world=2).text()
    for name in ("a.trace.json", "b.trace.json"):
        (tmp_path / name).write_text(text)
    path.unlink()
    with pytest.raises(InputError, match=r"a\.trace\.json and b\.trace\.json are both of rank 1"):
        open_trace(tmp_path)


def test_ranks_that_do_not_say_which_they_are(tmp_path: Path) -> None:
    for name in ("x.trace.json", "y.trace.json"):
        (tmp_path / name).write_bytes(whole(EVENT))
    report = open_trace(tmp_path)
    assert report.ranks == (0, 1)
    assert any("2 traces do not say of which rank they are" in line for line in report.warnings)


def test_a_base_time_that_is_none(tmp_path: Path) -> None:
    content = whole(EVENT).replace(b'"schemaVersion": 1', b'"baseTimeNanoseconds": 99999999999999999999')
    report = opened(tmp_path, content)
    assert any("baseTimeNanoseconds is no time" in line for line in report.warnings)
    assert report.window() == (0, 2000)


@pytest.mark.parametrize("seed", range(60))
def test_bytes_changed_at_random_never_crash(seed: int, tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=1, layers=1, packed=seed % 5 == 0)
    draw = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 5, 50))):
        change: Callable[[], None] = draw.choice(
            (
                lambda: data.__setitem__(draw.randrange(len(data)), draw.randrange(256)),
                lambda: data.__delitem__(slice(at := draw.randrange(len(data)), at + draw.randrange(40))),
                lambda: data.insert(draw.randrange(len(data)), draw.choice(b'{}[]",:\\')),
            )
        )
        change()
    try:
        report = opened(tmp_path, bytes(data), "odd.json")
        for name in ("gpu_ops", "api", "ops", "annotations", "memory", "python_functions", "flows", "gpus"):
            getattr(report, name)()
        report.window()
    except InputError as error:
        assert "odd.json" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents": [{"name": "' + b"\\n" * 3_000_000,
        b'{"traceEvents": [{"name": "' + b"},\\n {" * 1_000_000 + b'"}]}',
        b'{"traceEvents": [{"args": {"x": [' + b'{"a": 1}, ' * 300_000 + b"1]}}]}",
        b'{"traceEvents": [' + b"," * 5_000_000,
        b'{"traceEvents": [' + b"{}," * 500_000,
    ],
)
def test_hostile_texts_take_time_in_proportion_to_their_length(text: bytes, tmp_path: Path) -> None:
    began = time.process_time()
    assert len(opened(tmp_path, b'{"schemaVersion": 1, ' + text[1:]).ops()) == 0
    assert time.process_time() - began < 30


def test_a_trace_that_ends_in_60_gb_of_zeros_is_read_up_to_them(tmp_path: Path) -> None:
    path = traces.training(tmp_path, steps=2, layers=2, packed=False)[0]
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])
    os.truncate(path, 60 * 10**9)
    began = time.process_time()
    report = open_trace(path)
    assert len(report.gpu_ops()) > 0 and "cut off (zeros follow)" in report.warnings[0]
    assert time.process_time() - began < 10


def changed(
    folder: Path, change: Callable[[dict[str, Any]], object], name: str = "bad.trace.json"
) -> KinetoReport:
    """A small trace of a training, with a change to each event or to what stands beside them."""
    (path,) = traces.training(folder, steps=2, layers=1)
    content = json.loads(path.read_text())
    change(content)
    path.unlink()
    return opened(folder, json.dumps(content).encode(), name)


def of(category: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    """Sets arguments of all events of a category."""

    def change(content: dict[str, Any]) -> None:
        for event in content["traceEvents"]:
            if event.get("cat") == category:
                event["args"] |= values

    return change


def test_a_trace_without_times_has_no_events(tmp_path: Path) -> None:
    report = changed(tmp_path, lambda content: [event.pop("ts", None) for event in content["traceEvents"]])
    assert "events have no valid time and were left out" in report.warnings[0]
    assert "no GPU operations; record them" in report.warnings[-1]
    assert len(report.ops()) == len(report.kernels()) == 0 and report.window() == (0, 0)


def test_numbers_beyond_64_bits_are_left_out(tmp_path: Path) -> None:
    report = changed(tmp_path, of("kernel", grid=[2**70, 1, 1], block=[2**63 - 1, 2, -(2**63)]))
    kernels = report.kernels()
    assert (kernels[["grid_x", "grid_y", "grid_z"]] == 0).all(axis=None) and (kernels["block_y"] == 2).all()
    assert (changed(tmp_path, of("gpu_memcpy", bytes=2**70)).memcpys()["bytes"] == 0).all()
    listed = [{"id": 2**70}, {"id": 0, "numSms": 2**70, "totalGlobalMem": "x", "name": [1]}]
    (gpu,) = (
        changed(tmp_path, lambda content: content.update(deviceProperties=listed)).gpus().to_dict("records")
    )
    assert (gpu["device"], gpu["sm_count"], gpu["memory_bytes"]) == (0, 0, 0)


def _with_ranks(value: object, content: dict[str, Any]) -> None:
    content["distributedInfo"] = value


def test_ranks_that_are_no_numbers_of_ranks(tmp_path: Path) -> None:
    for value in ([1, 2], "x", None, {"rank": 2**70, "world_size": 2**70}, {"rank": [1], "world_size": {}}):
        report = changed(tmp_path, partial(_with_ranks, value))
        assert report.ranks == (0,) and report.world_size == 1
    for name in ("run.rank" + "9" * 30 + ".trace.json", "run.rank99999999.trace.json"):
        assert changed(tmp_path, lambda content: content.pop("distributedInfo", 0), name).ranks == (0,)


def test_gpus_of_negative_numbers_are_those_of_their_processes(tmp_path: Path) -> None:
    report = changed(tmp_path, of("kernel", device=-1))
    assert set(report.gpu_ops()["device"]) == set(report.memcpys()["device"]) == {0}
    write_chrome_trace(report, drawn := io.StringIO())
    assert '"GPU 0' in drawn.getvalue() and "GPU -1" not in drawn.getvalue()

    def both(content: dict[str, Any]) -> None:
        for event in content["traceEvents"]:
            if event.get("cat") == "gpu_memcpy":
                event |= {"pid": -5, "args": event["args"] | {"device": -5}}

    report = changed(tmp_path, both)
    assert set(report.memcpys()["device"]) == {0}
    write_chrome_trace(report, io.StringIO())


def test_steps_with_numbers_beyond_64_bits_are_no_steps(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        for event in content["traceEvents"]:
            if str(event.get("name")).startswith("ProfilerStep#1"):
                event["name"] = "ProfilerStep#" + "9" * 5000

    assert kineto_stats.REPORTS["steps"](changed(tmp_path, change))["step"].nunique() == 1


JUNK = st.sampled_from(
    [None, True, -1, 1.5, 1e300, 2**62, 2**63 - 1, 2**64, -(2**63), 10**30, "", "x", "12", "9" * 30, "1e999"]
    + [[], [1], [2**70] * 3, ["a"], [None, 1, 1], [[1], 2], {}, {"a": 1}, "ProfilerStep#x", "lab:measured"]
)


@settings(  # each makes a trace and asks everything of it
    max_examples=settings().max_examples // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_whatever_a_trace_holds_ends_in_tables_or_one_line(data: st.DataObject, tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=2, layers=1)
    content = json.loads(path.read_text())
    for _ in range(data.draw(st.integers(1, 4))):
        place: Any = data.draw(st.sampled_from([content, *content["traceEvents"]]))
        if isinstance(place.get("args"), dict) and place["args"] and data.draw(st.booleans()):
            place = place["args"]
        key = data.draw(st.sampled_from([*(key for key in place if key != "traceEvents"), "distributedInfo"]))
        place[key] = data.draw(JUNK)
    try:
        report = opened(tmp_path, json.dumps(content).encode())
        for table in ("gpu_ops", "api", "nvtx", "ops", "memory", "flows", "gpus", "threads", "distributed"):
            getattr(report, table)()
        for make in kineto_stats.REPORTS.values():
            with contextlib.suppress(LabError):
                make(report)
        write_chrome_trace(report, io.StringIO())
    except LabError as error:
        assert "\n" not in str(error)
