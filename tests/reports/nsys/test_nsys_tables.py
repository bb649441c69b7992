"""What each table of a capture holds, on exports of a few rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labcode.reports import columns as nsys_columns
from labcode.reports.columns import Column
from labcode.reports.nsys import sqlite as nsys_sqlite
from labcode.reports.nsys.report import NsysReport, open_report
from tests.support import exports as e

METHODS = (
    "kernels",
    "memcpys",
    "memsets",
    "graph_launches",
    "gpu_ops",
    "synchronizations",
    "api",
    "nvtx",
    "osrt",
    "gpus",
    "threads",
    "diagnostics",
    "profiler_overhead",
)


def full_export(path: Path, schema: tuple[int, int, int] = (3, 20, 3), *, graphs: bool = True) -> Path:
    """At least one row in every table."""
    return e.make_export(
        path,
        schema=schema,
        kernels=[
            e.kernel(
                100, 200, "void ns::scale<float>(float*, int)", short="scale", correlation=1, grid=(4, 2, 1)
            ),
            e.kernel(150, 300, "k(int)", correlation=2, stream=8, graph_node=5),
        ],
        memcpys=[e.memcpy(50, 90, 4096, 1, src=0, dst=2, correlation=3)],
        memsets=[e.memset(300, 310, 64, 7, correlation=4)],
        graphs=[e.graph_launch(400, 500, graph=3, correlation=5)] if graphs else [],
        syncs=[e.sync(310, 320, 4)],
        api=[e.call(10, 20, correlation=1), e.call(12, 18, "cuLaunchKernel", driver=True, returned=2)],
        nvtx=[
            e.domain(1, "NCCL"),
            e.push_pop(0, 600, "step", color=0xFF00FF00),
            e.push_pop(5, 30, "reduce", domain=1, registered=True),
            e.start_end(1, 2, "other", end_tid=101),
            e.mark(7, "here"),
            e.push_pop(9, None, "open"),
        ],
        osrt=[e.osrt(0, 5, "poll", nesting=1)],
        threads=[e.thread(100, 100, "main")],
        diagnostics=[e.diagnostic("lost events", at=9)],
        overheads=[e.overhead(3, 4)],
    )


@pytest.fixture
def report(tmp_path: Path) -> NsysReport:
    return open_report(full_export(tmp_path / "full.sqlite"))


def test_kernels(report: NsysReport) -> None:
    first, second = report.kernels().to_dict("records")
    assert pd.isna(first.pop("graph_node"))
    assert first == {
        "start_ns": 100,
        "end_ns": 200,
        "pid": 100,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 1,
        "name": "void ns::scale<float>(float*, int)",
        "short_name": "scale",
        "grid_x": 4,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 128,
        "block_y": 1,
        "block_z": 1,
        "registers_per_thread": 16,
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0,
    }
    assert second["graph_node"] == 5


def test_memory_operations(report: NsysReport) -> None:
    copy = report.memcpys().iloc[0]
    assert (copy["bytes"], copy["copy_kind"], copy["src_kind"], copy["dst_kind"]) == (
        4096,
        "H2D",
        "pageable",
        "device",
    )
    fill = report.memsets().iloc[0]
    assert (fill["bytes"], fill["value"], fill["mem_kind"]) == (64, 7, "device")


def test_all_operations_by_start(report: NsysReport) -> None:
    ops = report.gpu_ops()
    assert ops["kind"].tolist() == ["memcpy", "kernel", "kernel", "memset", "graph"]
    assert ops["name"].tolist()[0::4] == ["memcpy H2D", "graph 3"]
    assert ops["bytes"].tolist() == [4096, pd.NA, pd.NA, 64, pd.NA]
    assert ops["graph_node"].tolist() == [pd.NA, pd.NA, 5, pd.NA, pd.NA]
    assert ops["short_name"].tolist() == ["memcpy H2D", "scale", "k", "memset", "graph 3"]


def test_api_names_without_their_version(report: NsysReport) -> None:
    api = report.api()
    assert api["name"].tolist() == ["cudaLaunchKernel", "cuLaunchKernel"]
    assert api["raw_name"].tolist() == ["cudaLaunchKernel_v7000", "cuLaunchKernel"]
    assert api["event_class"].tolist() == ["runtime", "driver"]
    assert api["return_value"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cudaMemcpyAsync_v3020_ptsz", "cudaMemcpyAsync"),
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2"),
        ("cudaMalloc", "cudaMalloc"),
    ],
)
def test_api_name(tmp_path: Path, raw: str, name: str) -> None:
    report = open_report(e.make_export(tmp_path / "a.sqlite", api=[e.call(0, 1, raw)]))
    assert report.api()["name"].tolist() == [name]


def test_nvtx(report: NsysReport) -> None:
    nvtx = report.nvtx()
    assert nvtx["event_type"].tolist() == ["push_pop", "push_pop", "start_end", "mark", "push_pop"]
    assert nvtx["domain"].tolist() == ["", "NCCL", "", "", ""]
    assert nvtx["name"].tolist() == ["step", "reduce", "other", "here", "open"]
    assert nvtx["end_ns"].tolist() == [600, 30, 2, pd.NA, pd.NA]
    assert nvtx["end_tid"].tolist() == [pd.NA, pd.NA, 101, pd.NA, pd.NA]
    assert nvtx["color"].tolist()[0] == 0xFF00FF00


def test_a_domain_number_is_a_name_within_its_process_only(tmp_path: Path) -> None:
    rows = [e.domain(1, "A", pid=100), e.domain(1, "B", pid=200)]
    rows += [e.push_pop(0, 1, "r", pid=pid, domain=1) for pid in (200, 100, 300)]
    report = open_report(e.make_export(tmp_path / "a.sqlite", nvtx=rows))
    assert report.nvtx()["domain"].tolist() == ["B", "A", "domain 1"]


def test_registered_text_goes_before_the_events_own(tmp_path: Path) -> None:
    both = {**e.push_pop(0, 1, "registered", registered=True), "text": "own"}
    report = open_report(
        e.make_export(tmp_path / "a.sqlite", nvtx=[both, {**e.push_pop(0, 1, "own"), "textId": 99}])
    )
    assert report.nvtx()["name"].tolist() == ["registered", "own"]


def test_the_rest(report: NsysReport) -> None:
    assert report.graph_launches()["graph_id"].tolist() == [3]
    assert report.synchronizations()["sync_type"].tolist() == ["context"]
    assert report.osrt()[["name", "nesting"]].values.tolist() == [["poll", 1]]
    assert report.threads()["name"].tolist() == ["main"]
    assert report.diagnostics()[["time_ns", "severity", "text"]].values.tolist() == [
        [9, "warning", "lost events"]
    ]
    assert report.profiler_overhead()["name"].tolist() == ["Buffer flush"]
    gpu = report.gpus().iloc[0]
    assert (gpu["name"], gpu["sm_count"], gpu["compute_capability"]) == ("NVIDIA H200", 132, "9.0")
    assert report.schema == type(report.schema)(3, 20, 3)
    assert report.product_version.startswith("2025.3")


@pytest.mark.parametrize("method", METHODS)
def test_an_absent_table_has_the_columns_and_dtypes_of_a_full_one(
    tmp_path: Path, report: NsysReport, method: str
) -> None:
    empty = open_report(e.make_export(tmp_path / "empty.sqlite", gpus=[]))
    full, nothing = getattr(report, method)(), getattr(empty, method)()
    assert len(full) > 0
    assert len(nothing) == 0
    assert nothing.dtypes.to_dict() == full.dtypes.to_dict()


@pytest.mark.parametrize("schema", [(3, 7, 2), (3, 11, 1), (3, 20, 3), (3, 25, 0), (3, 27, 1)])
@pytest.mark.parametrize("method", METHODS)
def test_every_known_schema_reads_the_same(tmp_path: Path, schema: tuple[int, int, int], method: str) -> None:
    graphs = schema[1] >= 11  # older exports have no whole-graph launches
    here = open_report(full_export(tmp_path / "here.sqlite", graphs=graphs))
    other = open_report(full_export(tmp_path / "other.sqlite", schema, graphs=graphs))
    pd.testing.assert_frame_equal(getattr(other, method)(), getattr(here, method)())


def test_a_process_that_sees_one_gpu_calls_it_0(tmp_path: Path) -> None:
    mapping = [
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT)",
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 100, ''), (3, 0, 200, '')",
    ]
    rows = [e.kernel(0, 10, pid=100), e.kernel(0, 10, pid=200)]
    path = e.make_export(tmp_path / "a.sqlite", kernels=rows, extra_sql=mapping)
    assert open_report(path).kernels()["device"].tolist() == [0, 3]


def test_window_of_the_measured_ranges_over_all_processes(tmp_path: Path) -> None:
    ranges = [e.push_pop(100, 200, "lab:measured"), e.push_pop(90, 180, "lab:measured", pid=200)]
    report = open_report(e.make_export(tmp_path / "a.sqlite", nvtx=ranges, kernels=[e.kernel(0, 999)]))
    assert report.window() == (90, 200)


def test_window_without_measured_ranges(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite", kernels=[e.kernel(50, 999)], nvtx=[e.domain(1, "D"), e.mark(20)]
    )
    assert open_report(path).window() == (20, 999)
    assert open_report(e.make_export(tmp_path / "b.sqlite")).window() == (0, 0)


def test_texts_with_everything_in_them(tmp_path: Path) -> None:
    names = ['q"uo,te\nd', "ünïcode ⚡", "", " spaces ", "it's", "a\tb"]
    rows = [e.push_pop(0, 1, name, registered=bool(i % 2)) for i, name in enumerate(names)]
    kernels = [e.kernel(0, 1, name, short=name) for name in names]
    report = open_report(e.make_export(tmp_path / "a.sqlite", nvtx=rows, kernels=kernels))
    assert report.nvtx()["name"].tolist() == names
    assert report.kernels()["name"].tolist() == names


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    sql = ["UPDATE StringIds SET value = CAST(x'6bff' AS TEXT)"]
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(0, 1)], extra_sql=sql)
    assert open_report(path).kernels()["name"].tolist() == ["k\ufffd"]


def test_times_near_the_limit_of_64_bits(tmp_path: Path) -> None:
    high = (1 << 63) - 1
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(high - 5, high), e.kernel(-high, 3 - high)])
    assert open_report(path).kernels()[["start_ns", "end_ns"]].values.tolist() == [
        [high - 5, high],
        [-high, 3 - high],
    ]


def test_identifiers_of_a_machine_above_the_sign_bit(tmp_path: Path) -> None:
    row = {**e.call(0, 1), "globalTid": -(1 << 63) | 4242 << 24 | 77}
    api = open_report(e.make_export(tmp_path / "a.sqlite", api=[row])).api()
    assert api[["pid", "tid"]].values.tolist() == [[4242, 77]]


def test_many_chunks_and_rows_far_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_sqlite, "_ROWS", 7)
    rows = [e.kernel(i, i + 1, f"k{i % 5}", graph_node=i if i % 3 else None) for i in range(50)]
    far = ["UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = 1 << 60 WHERE start = 49"]
    kernels = open_report(e.make_export(tmp_path / "a.sqlite", kernels=rows, extra_sql=far)).kernels()
    assert kernels["start_ns"].tolist() == list(range(50))
    assert kernels["name"].tolist() == [f"k{i % 5}" for i in range(50)]
    assert kernels["graph_node"].tolist() == [i if i % 3 else pd.NA for i in range(50)]


def test_more_texts_than_fit_one_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [e.kernel(i, i + 1, f"k{i}") for i in range(1200)]
    path = e.make_export(tmp_path / "a.sqlite", kernels=rows)
    names = [f"k{i}" for i in range(1200)]
    report = open_report(path)
    assert report.kernels()["name"].tolist() == names
    monkeypatch.setattr(nsys_sqlite, "_texts", None)  # which are known now
    assert report.kernels()["name"].tolist() == names


@pytest.mark.parametrize("values", [[4, 4, 4, 4], [4, 4, 4, 5], [4, 5, 4, 4], [4, 4, 5, 5], [0, 0, 0, 0]])
@pytest.mark.parametrize("absent", [[], [0], [3], [0, 1], [2, 3], [0, 1, 2, 3]])
def test_a_column_that_grows_is_narrow_as_long_as_it_is_one_number(
    values: list[int], absent: list[int]
) -> None:
    present = np.isin(np.arange(4), absent, invert=True)
    growing = nsys_sqlite._Growing()
    for low, high in ((0, 2), (2, 4)):
        some = present[low:high]
        growing.add(Column(np.array(values[low:high]), None if some.all() else some), high / 4)
    column = growing.column()
    assert column.values.tolist() == values
    assert column.there().tolist() == present.tolist()
    assert nsys_columns.is_narrow(column.values) == (len(set(values)) == 1)
    assert (column.present is None) == (not absent)
    rows = np.array([0, 3])
    assert column.take(rows).values.tolist() == [values[0], values[3]]
    assert column.without(rows).values.tolist() == values[1:3]
    assert column.without(rows).there().tolist() == present[1:3].tolist()
    assert column.without(rows[:1]).values.tolist() == values[1:]
    own = nsys_columns.whole(column)
    own.values[0] = 9  # may be written to
    assert column.filled(7).tolist() == [v if p else 7 for v, p in zip(column.values, present, strict=True)]


def test_what_is_not_kept_may_be_written_to(tmp_path: Path) -> None:
    rows = [e.kernel(i, i + 1, "k", stream=7, correlation=i) for i in range(3)]
    ops = open_report(e.make_export(tmp_path / "a.sqlite", kernels=rows)).gpu_ops()
    ops.loc[0, "stream"] = 8
    assert ops["stream"].tolist() == [8, 7, 7]


@pytest.mark.parametrize(
    "values", [[], [5], [3, 1, 3, 2], [3, 1, 3, 5], [1 << 62, -(1 << 62), 0], [-(1 << 63), (1 << 63) - 1]]
)
def test_unique(values: list[int]) -> None:
    distinct, codes = nsys_columns.unique(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert distinct[codes].tolist() == values


@pytest.mark.parametrize("count", [0, 3, 300, 70_000])
def test_by_code(count: int) -> None:
    codes = np.arange(min(2 * count, 9)) * 5 % max(count, 1)
    found = nsys_columns.by_code(codes, count)
    assert [rows.tolist() for rows in found] == [np.flatnonzero(codes == at).tolist() for at in range(count)]
