"""Kernels back to operator, annotation, module and line; time by module; allocations with their operators."""

from pathlib import Path

import pytest

from labcode.analysis.timeline import links as kineto_links
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support.traces import ADD, BACKWARD, GEMM, MAIN, PID, Trace


@pytest.fixture
def step(tmp_path: Path) -> KinetoReport:
    """A linear layer forward, its gradient on another thread, and an update."""
    trace = Trace()
    trace.annotation("ProfilerStep#0", 0, 9_000)
    main = trace.python("train.py(9): train", 0, 10_000)
    with_marks = trace.annotation("forward", 100, 2_000)
    net = trace.python("nn.Module: Net_0", 200, 1_900, main, module=0)
    called = trace.python("torch/nn/modules/module.py(1): _call_impl", 250, 1_850, net)
    own = trace.python("model.py(5): forward", 300, 1_800, called)
    layer = trace.python("nn.Module: Linear_0", 400, 1_500, own, module=1)
    trace.python("<built-in function linear>", 500, 1_400, layer)
    outer = trace.op("aten::linear", 600, 1_300, sequence=7)
    inner = trace.op("aten::addmm", 700, 1_200, sequence=7)
    trace.launch(GEMM, (800, 900), (1_000, 1_500), external=inner)
    trace.op("aten::relu", 1_600, 1_700, sequence=8)
    # backward
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 3_000, 5_000, tid=BACKWARD)
    back = trace.op("AddmmBackward0", 3_100, 4_000, tid=BACKWARD, sequence=7, fwd=1)
    product = trace.op("aten::mm", 3_200, 3_900, tid=BACKWARD)
    trace.launch(GEMM, (3_300, 3_400), (3_500, 4_500), external=product, tid=BACKWARD)
    total = trace.op("aten::sum", 4_200, 4_800, tid=BACKWARD)
    trace.launch(ADD, (4_300, 4_400), (4_600, 4_700), external=total, tid=BACKWARD)
    trace.flow("s", 1, 700, PID, MAIN, "fwdbwd")
    trace.flow("f", 1, 3_100, PID, BACKWARD, "fwdbwd")
    # update, and something launched by nobody
    trace.annotation("Optimizer.step#SGD.step", 6_000, 7_000)
    add = trace.op("aten::add_", 6_100, 6_900)
    trace.launch(ADD, (6_200, 6_300), (6_500, 6_520), external=add)
    trace.kernel(ADD, 8_000, 8_001, 0)
    trace.memory(1_000, 512, 512)
    trace.memory(6_950, -512, 0)
    assert outer < inner and back and with_marks
    return open_trace(trace.write(tmp_path / "a.trace.json"))


def test_op_kernel_trace(step: KinetoReport) -> None:
    table = kineto_links.op_kernel_trace(step)
    assert table["start_ns"].is_monotonic_increasing and len(table) == 5
    forward, backward, summed, update, alone = table.to_dict("records")
    assert (forward["op"], forward["outer_op"], forward["annotation"]) == (
        "aten::addmm",
        "aten::linear",
        "forward",
    )
    assert (forward["module"], forward["pass"]) == ("Net_0/Linear_0", "forward")
    assert forward["python"] == "model.py(5): forward"
    assert forward["python_stack"].startswith("train.py(9): train;nn.Module: Net_0;torch/nn/")
    assert (forward["call"], forward["call_ns"], forward["queue_ns"]) == ("cudaLaunchKernel", 100, 100)
    for kernel in (backward, summed):
        assert (kernel["module"], kernel["pass"]) == ("Net_0/Linear_0", "backward")
        assert kernel["python"] == "model.py(5): forward"
    assert (backward["op"], summed["op"]) == ("aten::mm", "aten::sum")
    assert (update["pass"], update["annotation"], update["module"]) == (
        "optimizer",
        "Optimizer.step#SGD.step",
        "",
    )
    assert update["python"] == "train.py(9): train"
    assert {alone[key] for key in ("op", "annotation", "module", "pass", "python", "call")} == {""}


def test_module_sum(step: KinetoReport) -> None:
    table = kineto_links.module_sum(step).set_index("module")
    assert table.index.tolist() == ["Net_0", "Net_0/Linear_0"]
    assert table.loc["Net_0/Linear_0"].to_dict() == {
        "calls": 1,
        "cpu_ns": 1100,
        "forward_ns": 500,
        "backward_ns": 1100,
        "own_forward_ns": 500,
        "own_backward_ns": 1100,
        "kernels": 3,
    }
    net = table.loc["Net_0"]
    assert (net["forward_ns"], net["backward_ns"], net["own_forward_ns"], net["kernels"]) == (500, 1100, 0, 3)


def test_memory_timeline(step: KinetoReport) -> None:
    first, last = kineto_links.memory_timeline(step).to_dict("records")
    assert (first["op"], first["annotation"], first["bytes"]) == ("aten::addmm", "forward", 512)
    assert (last["op"], last["annotation"], last["allocated_bytes"]) == ("", "Optimizer.step#SGD.step", 0)


def test_traces_without_any_of_it(tmp_path: Path) -> None:
    report = open_trace(Trace().write(tmp_path / "a.trace.json"))
    assert len(kineto_links.op_kernel_trace(report)) == 0
    assert len(kineto_links.module_sum(report)) == 0
    assert len(kineto_links.memory_timeline(report)) == 0


def test_stacks_of_older_versions(tmp_path: Path) -> None:
    trace = Trace()
    op = trace.op("aten::add", 0, 100)
    trace.events[-1] = trace.events[-1].replace('"Ev Idx"', '"Call stack": "a.py(1): f;b.py(2): g", "Ev Idx"')
    trace.launch(ADD, (10, 20), (30, 40), external=op)
    table = kineto_links.op_kernel_trace(open_trace(trace.write(tmp_path / "a.trace.json")))
    assert table["python_stack"].tolist() == ["a.py(1): f;b.py(2): g"]
