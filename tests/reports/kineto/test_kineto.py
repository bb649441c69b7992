"""Traces of torch.profiler: every table against what was written, times to the nanosecond."""

import gzip
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from labcode.errors import InputError
from labcode.reports.kineto.events import nanoseconds
from labcode.reports.kineto.names import short_name
from labcode.reports.kineto.report import open_trace
from tests.support import traces
from tests.support.traces import GEMM, MAIN, PID, Trace

TABLES = (
    *("kernels", "memcpys", "memsets", "graph_launches", "gpu_ops", "synchronizations", "gpu_annotations"),
    *("api", "ops", "annotations", "nvtx", "python_functions", "memory", "overheads", "flows", "gpus"),
    *("threads", "distributed"),
)


@pytest.fixture
def one() -> Trace:
    trace = Trace()
    outer = trace.python("train.py(3): step", 0, 900_000)
    trace.python("nn.Module: Linear_0", 10_000, 500_000, outer, module=0)
    op = trace.op(
        "aten::linear", 20_001, 90_002, sequence=5, fwd=0, dims=[[2, 3], [3]], strides=[[3, 1], [1]]
    )
    trace.launch(GEMM, (30_000, 35_123), (50_000, 80_777), external=op)
    number = trace.call("cudaMemcpyAsync", 100_000, 101_000)
    trace.copy("Memcpy HtoD (Pageable -> Device)", 110_000, 120_000, number, 4096)
    number = trace.call("cudaMemsetAsync", 130_000, 131_000)
    trace.copy("Memset (Device)", 140_000, 141_000, number, 512)
    trace.annotation("forward", 15_000, 95_000)
    trace.memory(40_000, 1024, 5000, address=77)
    return trace


def test_tables_hold_what_was_written(one: Trace, tmp_path: Path) -> None:
    report = open_trace(one.write(tmp_path / "a.trace.json"))
    assert report.warnings == () and report.complete
    kernel = report.kernels().iloc[0]
    assert (kernel["start_ns"], kernel["end_ns"]) == (50_000, 80_777)
    assert (kernel["name"], kernel["device"], kernel["stream"], kernel["pid"]) == (GEMM, 0, 7, PID)
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [132, 1, 1]
    assert (kernel["registers_per_thread"], kernel["warps_per_sm"], kernel["occupancy_pct"]) == (32, 4.0, 6.0)
    call = report.api().iloc[0]
    assert (call["name"], call["tid"], call["correlation"]) == (
        "cudaLaunchKernel",
        MAIN,
        kernel["correlation"],
    )
    op = report.ops().iloc[0]
    assert (op["start_ns"], op["end_ns"], op["sequence"], op["fwd_thread"]) == (20_001, 90_002, 5, 0)
    assert op["input_dims"] == "[[2, 3], [3]]" and op["input_strides"] == "[[3, 1], [1]]"
    assert op["external_id"] == call["external_id"] == kernel["external_id"]
    copy, memset = report.memcpys().iloc[0], report.memsets().iloc[0]
    assert (copy["copy_kind"], copy["src_kind"], copy["dst_kind"], copy["bytes"]) == (
        *("H2D", "pageable", "device"),
        4096,
    )
    assert (memset["bytes"], memset["mem_kind"]) == (512, "device")
    assert report.gpu_ops()["kind"].tolist() == ["kernel", "memcpy", "memset"]
    python = report.python_functions()
    assert python["python_parent"].tolist()[1] == python["python_id"].tolist()[0]
    assert python["python_module"].tolist()[1] == 0 and python["python_module"].isna().tolist()[0]
    memory = report.memory().iloc[0]
    assert (memory["bytes"], memory["allocated_bytes"], memory["address"], memory["device"]) == (
        1024,
        5000,
        77,
        0,
    )
    assert report.nvtx()["name"].tolist() == ["forward"]
    assert set(report.flows()["phase"]) == {"s", "f"}
    assert report.gpus()["name"].tolist() == ["NVIDIA H200"]
    assert report.threads()["name"].tolist() == ["python"]
    assert report.window() == (15_000, 141_000)


def test_every_table_has_its_columns_without_events(one: Trace, tmp_path: Path) -> None:
    full = open_trace(one.write(tmp_path / "a.trace.json"))
    empty = open_trace(Trace().write(tmp_path / "b.trace.json"))
    for name in TABLES:
        table, other = getattr(empty, name)(), getattr(full, name)()
        assert len(table) == 0 or name in ("gpus", "threads", "distributed")
        assert dict(table.dtypes) == dict(other.dtypes), name
    assert empty.window() == (0, 0)


@pytest.mark.parametrize("backend", ["xpu", "privateuse1", "hip"])
def test_calls_of_other_backends_launch_their_kernels(backend: str, one: Trace, tmp_path: Path) -> None:
    """As CUDA's do; Kineto has a category for each."""
    path = one.write(tmp_path / "a.trace.json")
    path.write_text(path.read_text().replace('"cuda_runtime"', f'"{backend}_runtime"'))
    api = open_trace(path).api()
    assert list(api["name"]) == ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"]


def test_packed_and_plain_are_the_same(one: Trace, tmp_path: Path) -> None:
    plain, packed = one.write(tmp_path / "a.json"), one.write(tmp_path / "a.json.gz")
    two = tmp_path / "two.json.gz"
    text = plain.read_bytes()
    two.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    for name in TABLES[:-1]:
        table = getattr(open_trace(plain), name)()
        assert table.equals(getattr(open_trace(packed), name)()) and table.equals(
            getattr(open_trace(two), name)()
        )


def test_times_are_exact() -> None:
    draw = random.Random(3)
    texts = [f"{draw.randrange(-(10**15), 10**15)}.{draw.randrange(1000):03d}" for _ in range(2000)]
    texts += ["0", "17", "1712195495519689.047", "63.8", "1.0005", "2.00049", "1e3", "-0.001", "12.50"]
    draw.shuffle(texts)
    values, known = nanoseconds([text.encode() for text in texts])
    right = [int((Decimal(text) * 1000).to_integral_value()) for text in texts]
    assert known.all() and values.tolist() == right
    whole, _ = nanoseconds([b"5", b"1712195495519689"])
    assert whole.tolist() == [5000, 1712195495519689000]


@pytest.mark.parametrize("text", [b"null", b"", b"1e300", b"NaN", b"[1]", b"9" * 30, b"true"])
def test_what_is_no_time(text: bytes) -> None:
    values, known = nanoseconds([b"1.5", text])
    assert values.tolist() == [1500, 0] and known.tolist() == [True, False]


def test_blocks_are_cut_between_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = traces.training(tmp_path, steps=2, layers=2, packed=False)
    whole = open_trace(path)
    for size in (1, 700, 5_000, path.stat().st_size // 3):
        monkeypatch.setattr("labcode.reports.kineto.text.BLOCK", size)
        report = open_trace(path)
        assert report.warnings == whole.warnings == ()
        for name in ("kernels", "api", "ops", "annotations", "flows"):
            assert getattr(report, name)().equals(getattr(whole, name)()), (size, name)


def test_names_that_look_like_the_end_of_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    names = ['},\n  {"a": [', "]}\\", 'quote " and }, {', "{{{[[", "é\u2028"] * 40
    for place, name in enumerate(names):
        trace.op(name, place * 10, place * 10 + 5)
    path = trace.write(tmp_path / "a.json")
    for size in (300, 2_000, 1 << 22):
        monkeypatch.setattr("labcode.reports.kineto.text.BLOCK", size)
        report = open_trace(path)
        assert report.ops()["name"].tolist() == names and report.complete


def test_ranks_share_a_clock_and_keep_their_devices(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=3, steps=2, layers=2)
    report = open_trace(tmp_path)
    assert report.ranks == (0, 1, 2) and report.world_size == 3 and report.warnings == ()
    kernels = report.kernels()
    assert kernels.groupby("rank")["device"].unique().str[0].tolist() == [0, 1, 2]
    assert kernels.groupby("rank")["pid"].unique().str[0].tolist() == [PID, PID + 1, PID + 2]
    assert report.distributed()["events"].gt(0).all()


def test_ranks_that_number_their_gpus_alike(tmp_path: Path) -> None:
    for rank in (0, 1):
        trace = Trace(rank=rank, world=2)
        trace.launch(GEMM, (0, 10), (20, 30))
        trace.write(tmp_path / f"x.rank{rank}.trace.json")
    kernels = open_trace(tmp_path).kernels()
    assert kernels["device"].tolist() == [0, 1] and kernels["pid"].nunique() == 2


def test_operators_are_ranges_where_there_is_no_gpu(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotation("forward", 0, 100)
    trace.op("aten::add", 10, 20)
    report = open_trace(trace.write(tmp_path / "a.json"))
    assert report.nvtx()["name"].tolist() == ["forward", "aten::add"]
    trace.launch(GEMM, (12, 14), (20, 30))
    report = open_trace(trace.write(tmp_path / "b.json"))
    assert report.nvtx()["name"].tolist() == ["forward"]


def test_list_without_an_object_around_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 2}'
    path.write_text(f"[{event},\n{event}]")
    report = open_trace(path)
    assert report.ops()["end_ns"].tolist() == [2000, 2000] and report.complete


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (GEMM, GEMM),
        (traces.ADD, "vectorized_elementwise_kernel"),
        (traces.NCCL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("void (anonymous namespace)::softmax_warp<float, (int)4>(float*)", "softmax_warp"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_1>(cutlass_80_simt_sgemm_1::Params)",
            "cutlass_80_simt_sgemm_1",
        ),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_numbers_of_the_whole(tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=3, layers=6, packed=True)
    report = open_trace(path)
    text = gzip.decompress(path.read_bytes()).decode()
    for category, table in (("kernel", "kernels"), ("cpu_op", "ops"), ("cuda_runtime", "api")):
        assert len(getattr(report, table)()) == text.count(f'"cat": "{category}"')
    spent = report.kernels()["end_ns"] - report.kernels()["start_ns"]
    assert np.all(spent > 0)


def test_metadata_of_a_rank_that_is_not_there(one: Trace, tmp_path: Path) -> None:
    report = open_trace(one.write(tmp_path / "a.trace.json"))
    assert report.metadata() is report.metadata(report.ranks[0])
    with pytest.raises(InputError, match="no trace of rank 7; it has those of"):
        report.metadata(7)
