"""Launching: what is wrong with an array is one line; on a GPU, both libraries' arrays, failing launches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labcode.errors import LabError
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step
from labcode.kernels.launch import Pointer, check, header_sources, pointer, reason_unfit
from labcode.kernels.topics.attention import BF16
from labcode.kernels.topics.memory_bandwidth import COPY
from labcode.kernels.topics.sum import SUM
from labcode.kernels.topics.transpose import TRANSPOSE

GOOD = Pointer(4096, (4, 8), "float32", 0, 0, True)
T4 = Gpu("Tesla T4", 75, 40, 4194304, 65536, 1024)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (replace(GOOD, shape=(0, 8)), r"^x: is empty \(shape \(0, 8\)\); there is nothing to compute$"),
        (replace(GOOD, dtype="float64"), r"^x: holds float64 and the kernel takes float32; convert"),
        (replace(GOOD, shape=(8, 4)), r"^x: has shape \(8, 4\) and the kernel takes \(4, 8\)$"),
        (
            replace(GOOD, contiguous=False),
            r"^x: is not contiguous \(a transpose or slice\?\); call \.contiguous",
        ),
        (replace(GOOD, device=1), "^x: lies on GPU 1 and the first input on GPU 0; move it there$"),
    ],
)
def test_bad_arrays_are_one_line(found: Pointer, message: str) -> None:
    check(GOOD, Array((4, 8)), "float32", "x", 0)
    with pytest.raises(LabError, match=message):
        check(found, Array((4, 8)), "float32", "x", 0)


def test_other_objects_are_one_line() -> None:
    with pytest.raises(LabError, match=r"^x: give a GPU array of torch or CuPy, not numpy\.ndarray$"):
        pointer(np.zeros(3), "x")
    torch = pytest.importorskip("torch")
    with pytest.raises(LabError, match=r"^x: lies in host memory; move it to the GPU with \.cuda\(\)$"):
        pointer(torch.zeros(3), "x")


def test_steps_that_a_gpu_or_a_problem_rules_out() -> None:
    assert reason_unfit(COPY.step("bulk"), Problem((8,)), T4) == (
        "needs compute capability 9.0 and this GPU has 7.5"
    )
    assert reason_unfit(COPY.step("coalesced"), Problem((8,)), T4) is None
    picky = replace(COPY.step("coalesced"), unfit=lambda problem: "only long arrays")
    assert reason_unfit(picky, Problem((8,)), T4) == "only long arrays"


def test_sources_of_a_header() -> None:
    names = [path.name for path in header_sources(COPY.header)]
    assert names[0] == "memory_bandwidth.cuh"
    of_attention = {path.name for path in header_sources(BF16.header)}
    assert of_attention >= {"tensor.cuh", "attention.cuh", "layout.cuh", "instructions.cuh"}  # of cuda/gemm
    with pytest.raises(LabError, match=r"nothing\.cuh: there is no such header"):
        header_sources("sum/nothing.cuh")


def test_without_cupy_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(LabError, match=r"^launching kernels needs CuPy, which cannot be imported here"):
        launching.import_cupy()


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.gpu
def test_arrays_of_both_libraries(torch: Any) -> None:
    import cupy

    problem = Problem((1001,))
    step = COPY.step("vectorized")
    x = torch.randn(1001, device="cuda")
    y = torch.full_like(x, float("nan"))
    launching.launch(COPY, step, problem, [x], y)
    assert torch.equal(x, y)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a = cupy.random.normal(size=1001).astype(np.float32)
        b = cupy.full_like(a, np.nan)
        launching.launch(COPY, step, problem, [a], b)
        stream.synchronize()
    assert (a == b).all()


@pytest.mark.gpu
def test_runs_on_the_current_stream_of_torch(torch: Any) -> None:
    problem = Problem((1 << 24,))
    x, y = torch.randn(2, 1 << 24, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        x.mul_(2)
        launching.launch(COPY, COPY.step("bulk"), problem, [x], y)
        same = torch.equal(x, y)
    assert same


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["vectorized", "bulk"])
def test_sum_repeats_itself_to_the_bit(torch: Any, name: str) -> None:
    problem = Problem((10_000_019,))
    x = torch.randn(problem.shape, device="cuda")
    y = torch.empty(1, device="cuda")
    run = launching.prepare(SUM, SUM.step(name), problem, [x], y)
    values = []
    for _ in range(20):
        run()
        values.append(float(y[0]))
    assert len(set(values)) == 1


@pytest.mark.gpu
def test_bad_gpu_arrays_are_one_line(torch: Any) -> None:
    problem, step = Problem((32, 64)), TRANSPOSE.step("padded")
    x, y = torch.randn(32, 64, device="cuda"), torch.empty(64, 32, device="cuda")
    for inputs, output, message in (
        ([x], torch.empty(32, 64, device="cuda").t(), "output: is not contiguous"),
        ([x.double()], y, "input 0: holds float64 and the kernel takes float32"),
        ([x[:0]], y, "input 0: is empty"),
        ([x.cpu()], y, "input 0: lies in host memory"),
        ([x, x], y, r"takes 1 input\(s\), not 2"),
    ):
        with pytest.raises(LabError, match=message):
            launching.launch(TRANSPOSE, step, problem, inputs, output)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch(1, 2048), r"the launch failed \(.*\); grid \(1, 1, 1\), block \(2048, 1, 1\)"),
        (Launch(1, 32, 1 << 20), "this GPU does not grant 1048576 bytes of shared memory"),
    ],
)
def test_failed_launches_are_one_line(torch: Any, launch: Launch, message: str) -> None:
    step = replace(COPY.step("coalesced"), launch=lambda problem, gpu: launch)
    x = torch.randn(8, device="cuda")
    with pytest.raises(LabError, match=message) as error:
        launching.launch(COPY, step, Problem((8,)), [x], torch.empty_like(x))
    assert "\n" not in str(error.value)


@pytest.mark.gpu
def test_header_that_does_not_compile_is_one_line(torch: Any) -> None:
    step: Step = replace(COPY.step("coalesced"), entry="lab::memory_bandwidth::no_such<{W}>")
    broken: Kernel = replace(COPY, steps=(step,))
    x = torch.randn(8, device="cuda")
    with pytest.raises(
        LabError, match=r"^NVRTC: could not compile memory_bandwidth/memory_bandwidth\.cuh: .*no_such"
    ):
        launching.launch(broken, step, Problem((8,)), [x], torch.empty_like(x))
