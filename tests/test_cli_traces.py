"""The commands on traces of torch.profiler: what they print, exit codes, one line an error."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import histories, traces
from tests.support.command import labcode, one_line


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traces.training(tmp_path_factory.mktemp("one"), steps=3, layers=3, packed=True)[0]


def test_stats(trace: Path, tmp_path: Path) -> None:
    result = labcode("stats", trace, "-r", "kernel_sum", "-f", "json")
    assert result.returncode == 0 and result.stderr == ""
    assert {row["name"] for row in json.loads(result.stdout)} == {traces.GEMM, traces.ADD, traces.NCCL}
    usual = labcode("stats", trace)
    assert usual.returncode == 0 and usual.stdout.startswith("op_sum\n") and "\nkernel_sum\n" in usual.stdout
    made = labcode("stats", trace, "-r", "op_sum,kernel_sum", "-f", "csv", "-o", tmp_path / "out")
    assert made.stdout.split() == [str(tmp_path / "out" / f"run_{n}_sum.csv") for n in ("op", "kernel")]
    assert (tmp_path / "out" / "run_op_sum.csv").read_text().startswith("name,device_type,annotation,calls,")


def test_a_cut_off_trace_is_read_and_said_to_be_cut_off(trace: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.trace.json.gz"
    part.write_bytes(trace.read_bytes()[:-3000])
    result = labcode("stats", part, "-r", "kernel_sum")
    assert result.returncode == 0 and "gemm" in result.stdout
    assert result.stderr.startswith("note: ") and "cut off (its gzip data end early): " in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (lambda trace: ("stats", trace, "-r", "kernel_sun"), "did you mean kernel_sum?"),
        (lambda trace: ("stats", trace, "-f", "xml"), "'xml' is not a format"),
        (lambda trace: ("stats", trace, "--all", "-r", "op_sum"), "leave out --report or --all"),
        (lambda trace: ("stats", trace.parent / "none.json"), "none.json: no such file; check the path"),
        (
            lambda trace: ("stats", trace, "-k", "x"),
            "a trace of torch.profiler; `labcode stats --kernel` reads .ncu-rep and",
        ),
        (lambda trace: ("stats", "a.averages.json"), "averages of a trace, not the trace; name the .trace"),
        (lambda trace: ("diagnose", trace, "--only", "no-step"), "did you mean no-steps?"),
        (lambda trace: ("timeline", trace, "-o", trace.parent / "x.pdf"), "is not a kind of timeline"),
        (
            lambda trace: ("timeline", trace, "-o", trace.parent / "x.svg", "--window", "train"),
            "no annotation 'train'",
        ),
    ],
)
def test_refusals_are_one_line(
    words: Callable[[Path], tuple[object, ...]], message: str, trace: Path
) -> None:
    assert message in one_line(labcode(*words(trace)))


def test_diagnose_compare_and_timeline(trace: Path, tmp_path: Path) -> None:
    found = labcode("diagnose", trace)
    assert found.returncode == 0 and "low-utilization: " in found.stdout and found.stderr == ""
    listed = labcode("diagnose", "--list")
    assert listed.returncode == 0 and "reads-in-loop" in listed.stdout
    same = labcode("compare", trace, trace, "--fail-above", "5")
    assert same.returncode == 0 and "ProfilerStep##" in same.stdout
    assert "\nAnnotations on the CPU\n" in same.stdout and "NVTX" not in same.stdout
    slower = tmp_path / "slower.trace.json"
    traces.training(tmp_path, steps=3, layers=3, seed=2)[0].rename(slower)
    assert labcode("compare", trace, slower).returncode == 0
    for name in ("x.svg", "x.html", "x.json", "x.json.gz"):
        made = labcode("timeline", trace, "-o", tmp_path / name, "--window", "ProfilerStep#1")
        assert made.returncode == 0, made.stderr
    assert "annotations" in (tmp_path / "x.svg").read_text()
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"ProfilerStep#1", "cudaLaunchKernel"}


def test_a_trace_with_stacks_is_said_to_have_them(trace: Path, tmp_path: Path) -> None:
    content = json.loads(gzip.decompress(trace.read_bytes()))
    (tmp_path / "x.trace.json").write_text(json.dumps({**content, "with_stack": 1}))
    result = labcode("diagnose", tmp_path / "x.trace.json")
    assert result.returncode == 0 and result.stderr.count("\n") == 1
    assert "x.trace.json: recorded with stacks; each call of a Python function cost" in result.stderr


def test_op_sum_has_columns_of_memory_where_it_was_recorded(tmp_path: Path) -> None:
    trace = traces.Trace()
    trace.op("aten::empty", 0, 10)
    for count, recorded in ((1, False), (2, True)):
        path = trace.write(tmp_path / f"{count}.trace.json")
        header = labcode("stats", path, "-r", "op_sum", "-f", "csv").stdout.splitlines()[0]
        assert ("device_memory_bytes" in header) is recorded and header.startswith(
            "name,device_type,annotation"
        )
        trace.memory(5, 64, 64)


def test_a_folder_of_ranks(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=2, layers=2)
    result = labcode("stats", tmp_path, "-r", "comm_overlap", "-f", "csv")
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 3
    (tmp_path / "run.rank1.trace.json").unlink()
    (tmp_path / "averages.json").write_text("[]")
    result = labcode("stats", tmp_path, "-r", "launch_stats")
    assert result.returncode == 0


def test_memory_histories(trace: Path, tmp_path: Path) -> None:
    path = histories.write(tmp_path, histories.leaking())
    result = labcode("stats", path, "-r", "leaks", "-f", "json")
    assert result.returncode == 0 and json.loads(result.stdout)[0]["site"] == histories.LEAK
    made = labcode("timeline", path, "-o", tmp_path / "x.svg")
    assert made.returncode == 0 and (tmp_path / "x.svg").stat().st_size > 3000
    for words, message in (
        (("stats", path, trace, "-r", "peak"), "'peak' is not a report of traces"),
        (
            ("timeline", path, "-o", tmp_path / "y.svg", "--window", "all"),
            "--window is for timelines of captures",
        ),
        (("stats", tmp_path / "none.memory.json"), "none.memory.json: no such file"),
        (
            ("diagnose", path),
            "a history of the allocator; `labcode diagnose` reads .sqlite or .json or .ncu-rep or "
            ".power.json or .pftrace and not this",
        ),
        (("compare", path, trace), "a history of the allocator; `labcode compare` reads "),
    ):
        assert message in one_line(labcode(*words))


def test_the_difference_to_another_trace(trace: Path, tmp_path: Path) -> None:
    (other,) = traces.training(tmp_path, steps=2, layers=3)
    result = labcode("stats", trace, "--with", other, "-r", "op_diff", "-f", "json")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert result.returncode == 0
    assert (rows[traces.NCCL]["calls_before"], rows[traces.NCCL]["calls_after"]) == (6, 9)
    for words, message in (
        ((trace,), "the difference to an earlier trace; name that: --with TRACE"),
        ((trace, "--with", tmp_path / "none.json"), "none.json: no such file"),
        ((trace, "--with", "a.sqlite"), "`labcode stats --with` reads .json and not this"),
    ):
        assert message in one_line(labcode("stats", *words, "-r", "op_diff"))


LACKING = ("module_sum", "memory_timeline", "op_sum_python", "arrivals", "comm_overlap")


@pytest.mark.parametrize("report", LACKING)
def test_what_a_trace_lacks_is_said(report: str, tmp_path: Path) -> None:
    trace = traces.Trace()
    trace.launch(traces.GEMM, (0, 10), (20, 30))
    result = labcode("stats", trace.write(tmp_path / "a.trace.json"), "-r", report)
    assert result.returncode == 2
    assert "the trace holds no " in result.stderr and "; record them with " in result.stderr


def test_every_report_that_has_data(trace: Path, tmp_path: Path) -> None:
    result = labcode("stats", trace, "--all", "-f", "csv", "-o", tmp_path / "out")
    assert result.returncode == 0
    names = {file.name.removeprefix("run_").removesuffix(".csv") for file in (tmp_path / "out").iterdir()}
    assert not names & set(LACKING[:4]) and names >= {
        *("op_sum", "kernel_sum", "op_kernel_trace", "idle_breakdown", "comm_overlap", "queue_length"),
        *("launch_stats", "steps", "temporal_breakdown", "critical_path", "critical_path_sum", "queue_full"),
        *("critical_path_trace", "memory_bandwidth", "memory_bandwidth_trace", "queue_length_trace"),
        *("kernel_sequences", "kernel_runs"),
    }


def _timeless(event: dict[str, Any]) -> None:
    event.pop("ts", None)


def _huge(event: dict[str, Any]) -> None:
    event["args"] = {**event.get("args", {}), "bytes": 2**63 - 1, "grid": [2**70, 1, 1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_timeless, "no events to draw; record some with nsys (--trace=cuda,nvtx) or torch.profiler"),
        (_huge, ""),
    ],
)
def test_odd_traces_end_in_a_result_or_one_line(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    (path,) = traces.training(tmp_path, steps=2, layers=1)
    content = json.loads(path.read_text())
    for event in content["traceEvents"]:
        change(event)
    path.write_text(json.dumps(content | {"distributedInfo": [1]}))
    for words in (("stats", path, "--all"), ("diagnose", path), ("compare", path, path)):
        result = labcode(*words)
        errors = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
        assert (result.returncode == 0 and not errors) or (result.returncode == 2 and len(errors) == 1)
    drawn = labcode("timeline", path, "-o", tmp_path / "x.json")
    assert drawn.returncode == (2 if message else 0) and message in drawn.stderr
    flame = labcode("flame", path, "-o", tmp_path / "x.svg", "--of", "cpu")
    assert flame.returncode in (0, 2) and "Traceback" not in flame.stderr
