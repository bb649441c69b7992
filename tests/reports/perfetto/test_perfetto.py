"""Traces of Perfetto, read: those of this project come back, others' say where they ran, nonsense is told."""

import functools
import gzip
import random
from pathlib import Path

import pytest

from labcode.errors import InputError
from labcode.figures.timeline.perfetto import write_pftrace
from labcode.reports.kineto.report import open_trace
from labcode.reports.nsys.report import open_report
from labcode.reports.perfetto.report import PerfettoReport, open_pftrace
from tests.support import pftraces, traces
from tests.support.command import labcode, one_line
from tests.support.exports import call, graph_launch, kernel, make_export, mark, memcpy, push_pop, thread
from tests.support.pftraces import BEGIN, CLEARED, END, INSTANT, NEEDED, event, field, message
from tests.support.random_export import make_random_export


def opened(tmp_path: Path, data: bytes, name: str = "a.pftrace") -> PerfettoReport:
    path = tmp_path / name
    path.write_bytes(data)
    return open_pftrace(path)


def same(before, after, *columns) -> None:
    """Both tables hold the same in these columns, by time."""
    assert len(before) == len(after) > 0
    order = ["start_ns", "end_ns", *columns]
    tables = [table[order].astype({"end_ns": "Int64"}).sort_values(order) for table in (before, after)]
    first, second = (table.astype("str").to_numpy().tolist() for table in tables)
    assert first == second


PLACE = ("pid", "device", "context", "stream", "correlation")
SHAPE = ("name", "short_name", "grid_x", "grid_y", "block_x", "block_z", "registers_per_thread")


@functools.cache
def _written(folder: Path) -> Path:
    file = traces.training(folder, steps=2, layers=1)[0]
    with open_trace(file) as report, (folder / "a.pftrace").open("wb") as stream:
        write_pftrace(report, stream)
    return file


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("traces")
    return _written(folder), folder / "a.pftrace"


def test_a_trace_of_torch_comes_back(training):
    with open_trace(training[0]) as before, open_pftrace(training[1]) as after:
        same(before.kernels(), after.kernels(), *PLACE, *SHAPE, "shared_bytes", "graph_node")
        same(before.memcpys(), after.memcpys(), *PLACE, "bytes", "copy_kind", "src_kind", "dst_kind")
        same(before.api(), after.api(), "pid", "tid", "correlation", "name", "event_class")
        same(before.nvtx(), after.nvtx(), "pid", "tid", "name")
        assert after.window() == before.window()
        assert [line.partition(": ")[2] for line in after.warnings] == [
            f"not read: {after.warnings[0].split()[-4]} values of counters"
        ]


@pytest.mark.parametrize("seed", [1, 7])
def test_a_capture_of_nsys_comes_back(tmp_path, seed):
    make_random_export(tmp_path / "a.sqlite", seed, calls=40)
    with open_report(tmp_path / "a.sqlite") as before:
        with (tmp_path / "a.pftrace").open("wb") as stream:
            write_pftrace(before, stream)
        with open_pftrace(tmp_path / "a.pftrace") as after:
            same(before.kernels(), after.kernels(), *PLACE, *SHAPE)
            same(before.memcpys(), after.memcpys(), *PLACE, "bytes")
            same(before.memsets(), after.memsets(), *PLACE, "bytes")
            same(before.api(), after.api(), "pid", "tid", "correlation", "name")
            same(before.gpu_ops(), after.gpu_ops(), "kind", *PLACE)


def test_graphs_ranges_and_threads_of_a_capture_come_back(tmp_path):
    rows = {
        "kernels": [kernel(100, 200, "k<float>(int)", correlation=3, stream=9)],
        "graphs": [graph_launch(300, 500, correlation=4)],
        "api": [call(50, 60, correlation=3), call(70, 80, "cudaGraphLaunch", correlation=4, tid=101)],
        "nvtx": [push_pop(10, 600, "lab:measured"), push_pop(20, 90, "step"), mark(30, "here")],
        "threads": [thread(100, 101, "loader")],
    }
    with open_report(make_export(tmp_path / "a.sqlite", **rows)) as before:
        with (tmp_path / "a.pftrace").open("wb") as stream:
            write_pftrace(before, stream)
        with open_pftrace(tmp_path / "a.pftrace") as after:
            same(before.graph_launches(), after.graph_launches(), *PLACE, "graph_id")
            same(before.gpu_ops(), after.gpu_ops(), "kind", *PLACE)
            assert after.window() == before.window() == (10, 600)
            assert after.nvtx()["name"].tolist() == ["lab:measured", "step", "here"]
            assert after.threads()[["tid", "name"]].to_numpy().tolist() == [[101, "loader"]]


def test_what_others_write_says_where_it_ran(tmp_path):
    report = opened(tmp_path, pftraces.rocprof())
    (found,) = report.kernels().to_dict("records")
    assert (found["name"], found["device"], found["stream"], found["pid"]) == ("add(float*)", 2, 1, 77)
    calls = report.api().set_index("name")["correlation"]
    assert found["correlation"] == calls["hipLaunchKernel"] > 0
    (copy,) = report.memcpys().to_dict("records")
    assert (copy["bytes"], copy["correlation"]) == (4096, calls["hipMemcpyAsync"])
    assert report.annotations()["name"].tolist() == ["step 1"]
    assert report.threads().to_numpy().tolist() == [[77, 78, "worker", 0]]
    assert sorted(report.flows()["phase"]) == ["f", "f", "s", "s"]
    assert report.warnings == (
        f"{report.path}: 1 events of categories that are not known (my category) are read as ranges",
    )


def test_arguments_and_categories_of_torch_keep_their_meaning(tmp_path):
    grid = field(11, message((10, "x"), (4, 1)))
    told = field(4, field(10, "nested") + grid) + field(
        4, field(10, "grid") + b"".join(field(12, message((4, n))) for n in (3, 2, 1))
    )
    kernels = message((9, BEGIN), (11, 7), (23, "k"), (22, "kernel")) + told
    kernels += field(4, message((10, "stream"), (4, 13))) + field(4, message((10, "device"), (3, 1)))
    data = pftraces.trace(
        message((8, 100), (10, 1), (11, kernels)),
        event(150, END, 7),
        event(90, BEGIN, 8, "aten::mm", "cpu_op", ("External id", 12)),
        event(160, END, 8),
        event(95, INSTANT, 8, "here", "user_annotation"),
    )
    report = opened(tmp_path, data)
    (found,) = report.kernels().to_dict("records")
    assert [found[key] for key in ("grid_x", "grid_y", "stream", "device")] == [3, 2, 13, 1]
    assert report.ops()["external_id"].tolist() == [12]
    assert report.annotations()[["start_ns", "end_ns"]].to_numpy().tolist() == [[5, 5]]


def interned(of: int, number: int, text: str) -> bytes:
    return field(12, field(of, message((1, number), (2, text))))


def named(at: int, kind: int, number: int, flags: int, more: bytes = b"", sequence: int = 1) -> bytes:
    content = message((9, kind), (11, 7), (10, number), (3, 1))
    return message((8, at), (10, sequence), (13, flags)) + more + field(11, content)


def test_names_are_those_of_their_sequence_and_void_when_it_says_so(tmp_path):
    nvtx = interned(1, 1, "nvtx")
    data = pftraces.trace(
        named(1, INSTANT, 5, CLEARED | NEEDED, nvtx + interned(2, 5, "old")),
        named(2, INSTANT, 5, CLEARED | NEEDED, nvtx + interned(2, 5, "of another"), sequence=2),
        named(3, INSTANT, 5, NEEDED),
        named(4, INSTANT, 5, CLEARED | NEEDED, nvtx + interned(2, 5, "new")),
        named(5, INSTANT, 6, CLEARED | NEEDED, nvtx),  # explained nowhere
        named(6, INSTANT, 5, NEEDED, sequence=3),  # of which the beginning was lost
    )
    report = opened(tmp_path, data)
    assert report.annotations()["name"].tolist() == ["old", "of another", "old", "new", ""]
    assert "1 names that nothing explains" in report.warnings[0]
    assert "1 events whose names were lost while recording" in report.warnings[0]


def test_clocks_that_count_up_and_unix_time(tmp_path):
    def clock(number: int, now: int, *more: tuple[int, int]) -> bytes:
        return field(1, message((1, number), (2, now), *more))

    snapshot = clock(6, 5_000_000) + clock(1, 1_700_000_000_000_000_000) + clock(64, 100, (3, 1), (4, 1000))
    begin = field(11, message((9, BEGIN), (11, 7), (23, "a"), (22, "nvtx")))
    end = field(11, message((9, END), (11, 7)))
    data = pftraces.trace(
        message((10, 1), (6, snapshot), (59, message((58, 64)))),
        message((8, 2), (10, 1)) + begin,
        message((8, 3), (10, 1)) + end,
        message((8, 9), (10, 1), (58, 65)) + begin,  # a clock that nothing explains
    )
    report = opened(tmp_path, data)
    (found,) = report.annotations().to_dict("records")
    assert (found["start_ns"], found["end_ns"]) == (0, 3000)
    assert report.utc_origin_ns() == 1_700_000_000_000_000_000 + 2000
    assert "1 events have no valid time" in report.warnings[0]


def test_packed_by_gzip_and_packets_in_packets(tmp_path, training):
    data = pftraces.rocprof()
    whole = opened(tmp_path, data).gpu_ops()
    assert opened(tmp_path, gzip.compress(data), "b.pftrace.gz").gpu_ops().equals(whole)
    inside = pftraces.trace(pftraces.packed(event(1, INSTANT, 1, "a", "nvtx")))
    assert opened(tmp_path, inside).annotations()["name"].tolist() == ["a"]


def test_events_of_older_writers(tmp_path):
    legacy = field(6, message((2, ord("X")), (3, 7)))
    content = message((11, 7), (23, "a"), (22, "nvtx")) + legacy
    report = opened(tmp_path, pftraces.trace(message((8, 1000), (11, content))))
    assert report.nvtx()["end_ns"].tolist() == [7000]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"no trace at all, but text", "no trace in Perfetto's format"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "no trace in Perfetto's format"),
        (b"\0" * 4096, "no trace in Perfetto's format"),
        (pftraces.trace(message((8, 1), (1, b"ftrace"))), r"without slices .*it holds 1 packets of ftrace"),
        (pftraces.trace(event(1 << 63, INSTANT, 1, "a")), "without slices"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, data, says):
    (tmp_path / "a.pftrace").write_bytes(data)
    with pytest.raises(InputError, match=says):
        open_pftrace(tmp_path / "a.pftrace")
    assert "a.pftrace: " in one_line(labcode("stats", tmp_path / "a.pftrace"))


GOOD = event(5, INSTANT, 1, "a", "nvtx")
DEEP = functools.reduce(lambda inner, _: field(11, inner), range(3000), message((4, 1)))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (
            message((8, 9), (11, field(9, INSTANT) + field(4, DEEP))),
            "1 packets are no valid protocol buffers",
        ),
        (b"\x5a\xff\xff\x7f", "1 packets are no valid protocol buffers"),
        (message((8, 9)) + field(11, b"\x0b\x0c"), "1 packets are no valid protocol buffers"),
        (field(50, b"no zlib"), "1 packets are no valid protocol buffers"),
        (pftraces.packed(pftraces.packed(GOOD)), "1 packets are no valid protocol buffers"),
        (event(5, END, 99), "1 ends of what did not begin"),
        (event(2, BEGIN, 1, "b", "nvtx"), "1 slices do not end"),
        (event(5, 77, 1, "b"), "1 events of other types"),
        (message((8, 9), (1234, b"new")), "1 packets of kind 1234"),
        (event(1 << 63, INSTANT, 1, "b"), "1 events have no valid time"),
    ],
)
def test_what_cannot_be_read_is_counted_and_told(tmp_path, bad, says):
    report = opened(tmp_path, pftraces.trace(bad, GOOD))
    assert "a" in report.annotations()["name"].tolist()
    assert any(says in line for line in report.warnings), report.warnings


def test_tracks_that_belong_to_each_other_in_a_circle(tmp_path):
    data = pftraces.trace(pftraces.track(1, "a", 2), pftraces.track(2, "b", 1), GOOD)
    assert len(opened(tmp_path, data).annotations()) == 1


def test_a_trace_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path):
    data = pftraces.trace(GOOD, GOOD)
    report = opened(tmp_path, data[:-3])
    assert len(report.annotations()) == 1 and not report.complete
    assert "cut off (it ends within a packet): 1 events" in report.warnings[0]
    assert "what follows there is no packet" in opened(tmp_path, data + b"\0" * 99).warnings[0]


def test_random_changes_never_raise_anything_else(tmp_path, training):
    data = training[1].read_bytes()
    rng = random.Random(7)
    for _ in range(25):
        odd = bytearray(data)
        for _ in range(rng.choice((1, 3, 20))):
            at = rng.randrange(len(odd) - 12)
            odd[at : at + rng.choice((1, 4, 10))] = rng.choice(
                (b"\xff" * 9 + b"\x01", b"\0", rng.randbytes(3))
            )
        try:
            report = opened(tmp_path, bytes(odd[: rng.randrange(1, len(odd))]))
            report.gpu_ops(), report.nvtx(), report.threads()
        except InputError as error:
            assert "\n" not in str(error)


def test_the_commands_read_it(tmp_path, training):
    file = training[1]
    assert "Memcpy" not in labcode("stats", file, "-r", "kernel_sum").stderr
    for words in (
        ("stats", file),
        ("diagnose", file),
        ("compare", file, training[0]),
        ("timeline", file, "-o", tmp_path / "a.pftrace"),
    ):
        done = labcode(*words)
        assert done.returncode == 0 and done.stdout, (words, done.stderr)
    with open_pftrace(file) as before, open_pftrace(tmp_path / "a.pftrace") as after:
        same(before.kernels(), after.kernels(), *PLACE, *SHAPE)


def test_export_writes_traces_of_captures_and_traces(tmp_path, training):
    make_export(tmp_path / "b.sqlite", kernels=[kernel(100, 200)], memcpys=[memcpy(300, 400, 8)])
    done = labcode("export", tmp_path / "b.sqlite", training[0], "-o", tmp_path / "out", "-f", "pftrace")
    files = [Path(line) for line in done.stdout.splitlines()]
    assert [file.suffix for file in files] == [".pftrace"] * 2
    assert len(open_pftrace(files[0]).gpu_ops()) == 2
    again = ("export", tmp_path / "b.sqlite", "-o", tmp_path / "out", "-f", "pftrace")
    assert "there already" in one_line(labcode(*again))
    assert "a trace holds all events" in one_line(labcode(*again, "--table", "kernels"))
    make_export(tmp_path / "none.sqlite")
    empty = one_line(labcode("export", tmp_path / "none.sqlite", "-o", tmp_path, "-f", "pftrace"))
    assert "no events to write" in empty and not (tmp_path / "none.pftrace").exists()
    (tmp_path / "a.ncu-rep").write_bytes(b"")
    refused = one_line(labcode("export", tmp_path / "a.ncu-rep", "-o", tmp_path, "-f", "pftrace"))
    assert "`labcode export --format pftrace` reads .sqlite or .json or .pftrace" in refused
