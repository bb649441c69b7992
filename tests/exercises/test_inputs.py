from pathlib import Path

import pytest

from labcode.grading import columns, inputs
from labcode.reports.nsys.report import open_report
from tests.support import exports


@pytest.mark.parametrize("kind", sorted(columns.TABLES))
def test_made_up_tables_have_the_columns_and_types_of_real_ones(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.sqlite"
    exports.make_export(
        path,
        kernels=[exports.kernel(100, 200, "k(int)", correlation=1)],
        memcpys=[exports.memcpy(200, 300, correlation=2)],
        api=[exports.call(50, 60, "cudaLaunchKernel_v7000", correlation=1)],
        nvtx=[exports.push_pop(0, 500, "step")],
    )
    real = getattr(open_report(path), kind)()
    made = inputs.table([{}], kind)
    assert list(made.columns) == list(real.columns)
    assert made.dtypes.astype(str).to_dict() == real.dtypes.astype(str).to_dict()
    assert inputs.table([], kind).dtypes.astype(str).to_dict() == real.dtypes.astype(str).to_dict()


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(KeyError, match=r"kernels has no columns \['gird_x'\]"):
        inputs.table([{"gird_x": 1}], "kernels")


def test_a_recorder_keeps_cpu_and_gpu_times() -> None:
    cpu = inputs.Recorder(now=1000, launch_ns=3000, latency_ns=1500)
    with cpu.range("step"):
        first = cpu.launch(10_000, "a")
        second = cpu.launch(2_000, "b")
        other = cpu.launch(2_000, "c", stream=13)
        cpu.synchronize(after_ns=4000)
    begin = 1000 + inputs.RANGE_NS
    assert (first["start_ns"], first["end_ns"]) == (begin + 4500, begin + 14_500)
    assert (second["start_ns"], second["end_ns"]) == (begin + 14_500, begin + 16_500), (
        "its stream is busy until then"
    )
    assert (other["start_ns"], other["end_ns"]) == (begin + 10_500, begin + 12_500), "its stream is free"
    assert cpu.now == begin + 16_500 + 4000 + inputs.RANGE_NS
    ops, api, nvtx = inputs.tables_of([cpu])
    assert ops["name"].tolist() == ["a", "c", "b"]
    assert api["name"].tolist() == ["cudaLaunchKernel"] * 3 + ["cudaDeviceSynchronize"]
    assert set(ops["correlation"]) <= set(api["correlation"])
    assert nvtx[["start_ns", "end_ns"]].iloc[0].tolist() == [1000, cpu.now - inputs.RANGE_NS]


def test_a_gpu_without_room_lets_kernels_wait() -> None:
    cpu = inputs.Recorder(room=2, launch_ns=10, latency_ns=10)
    rows = [cpu.launch(1000, "k", stream=stream) for stream in range(4)]
    assert [row["start_ns"] for row in rows] == [20, 30, rows[0]["end_ns"], rows[1]["end_ns"]]
