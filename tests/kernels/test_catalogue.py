"""The catalogue: entries that are in the headers, cost models counted by hand, references on small arrays."""

import re
from pathlib import Path

import numpy as np
import pytest

from labcode.errors import LabError
from labcode.experiments.compute.gemm.cuda import program
from labcode.kernels.catalogue import Gpu, Kernel, Problem, Step, entry, numbers
from labcode.kernels.launch import header_sources
from labcode.kernels.topics import gemm, kernels, memory_bandwidth, transpose
from labcode.kernels.topics import sum as sums

H200 = Gpu("NVIDIA H200", 90, 132, 62914560, 232448, 2048)
T4 = Gpu("Tesla T4", 75, 40, 4194304, 65536, 1024)
ALL = kernels()
STEPS = [(kernel, step) for kernel in ALL for step in kernel.steps]
STREAMING = [
    (kernel, step)
    for kernel in (*memory_bandwidth.KERNELS, *transpose.KERNELS, *sums.KERNELS, *gemm.KERNELS)
    for step in kernel.steps
]


def step_id(value: object) -> str:
    return value.name.replace(" ", "_") if isinstance(value, Kernel | Step) else ""


def header(kernel: Kernel) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in header_sources(kernel.header))


def test_names_are_unique() -> None:
    assert len({kernel.name for kernel in ALL}) == len(ALL)
    for kernel in ALL:
        assert len({step.name for step in kernel.steps}) == len(kernel.steps), kernel.name


@pytest.mark.parametrize(("kernel", "step"), STEPS, ids=step_id)
def test_every_step_is_in_its_header_and_says_why(kernel: Kernel, step: Step) -> None:
    expression = entry(step, kernel.timed[0])
    assert "{" not in expression
    namespace, name = expression.split("<")[0].rsplit("::", 1)
    assert re.search(rf"__global__[^;{{]*\b{name}\s*\(", header(kernel)), expression
    assert namespace.split("::")[0] == "lab"
    assert len(step.reason) > 20


@pytest.mark.parametrize(("kernel", "step"), STREAMING, ids=step_id)
@pytest.mark.parametrize("gpu", [H200, T4], ids=["h200", "t4"])
def test_launches_fit_the_gpu(kernel: Kernel, step: Step, gpu: Gpu) -> None:
    if gpu.compute_capability < step.min_cc:
        pytest.skip("newer GPUs only")
    for problem in (*kernel.timed, *kernel.checked):
        refused = step.unfit(problem) if step.unfit else None
        if refused and "tensor maps" not in refused:
            continue
        found = step.launch(problem, gpu)
        grid = (found.grid,) if isinstance(found.grid, int) else found.grid
        block = (found.block,) if isinstance(found.block, int) else found.block
        assert 1 <= grid[0] < 2**31
        assert all(1 <= n <= 65535 for n in grid[1:]), (problem, grid)
        assert 1 <= np.prod(block) <= 1024
        assert 0 <= found.shared_bytes <= gpu.shared_bytes


@pytest.mark.parametrize("kernel", ALL, ids=step_id)
def test_tolerances_cover_the_problems(kernel: Kernel) -> None:
    for problem in (*kernel.timed, *kernel.checked):
        assert (kernel.output(problem).dtype or problem.dtype) in kernel.tolerance, problem
        assert kernel.bytes_moved(problem) > 0


@pytest.mark.parametrize(
    ("name", "problem", "moved", "flops"),
    [
        ("copy", Problem((1000,)), 8000, 0),
        ("copy", Problem((1000,), "float16"), 4000, 0),
        ("triad", Problem((1000,)), 12000, 2000),
        ("gather", Problem((1000,)), 12000, 0),
        ("transpose", Problem((30, 40)), 9600, 0),
        ("sum", Problem((1000,)), 4000, 1000),
        ("gemm_fp32", Problem((10, 20, 30)), 4 * (300 + 600 + 200), 12000),
        ("gemm_bf16", Problem((10, 20, 30), "bfloat16"), 2 * (300 + 600 + 200), 12000),
    ],
)
def test_cost_models(name: str, problem: Problem, moved: int, flops: int) -> None:
    (kernel,) = kernels([name])
    assert (kernel.bytes_moved(problem), kernel.flops(problem)) == (moved, flops)


def test_references() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 60))
    order = rng.permutation(60).astype(np.int32)
    matrix = x.reshape(6, 10)
    copy, triad, gather = memory_bandwidth.KERNELS
    assert np.array_equal(copy.reference(x), x)
    assert np.allclose(triad.reference(x, y), [a + 3 * b for a, b in zip(x, y, strict=True)])
    assert gather.reference(x, order).tolist() == [x[i] for i in order]
    assert transpose.TRANSPOSE.reference(matrix)[7, 2] == matrix[2, 7]
    assert sums.SUM.reference(x).shape == (1,)
    assert float(sums.SUM.reference(x)[0]) == pytest.approx(sum(x))
    assert gemm.FP32.reference(matrix, matrix.T).shape == (6, 6)
    assert sums.SUM.scale is not None
    assert sums.SUM.scale(np.array([3.0, 4.0])) == 5.0


def test_gathered_places_are_a_permutation() -> None:
    places = memory_bandwidth.permutation((1000,), 5)
    assert sorted(places.tolist()) == list(range(1000))
    assert places.dtype == np.int32


@pytest.mark.parametrize(("step", "each"), [("coalesced", 1), ("strided", memory_bandwidth.RUN)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_steps_that_count_elements_have_threads_for_all(step: str, each: int, dtype: str) -> None:
    for count in (1, 1000, 1_000_003):
        found = memory_bandwidth.COPY.step(step).launch(Problem((count,), dtype), H200)
        assert isinstance(found.grid, int)
        assert isinstance(found.block, int)
        assert count <= found.grid * found.block * each < count + found.block * each


def test_numbers_are_those_that_a_header_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_HOME", str(tmp_path))
    (tmp_path / "cuda" / "thing").mkdir(parents=True)
    (tmp_path / "cuda" / "thing" / "thing.cuh").write_text(
        "constexpr int kTile = 32;  // words\n"
        "constexpr int kHigh = 128, kBytes = 2 * kHigh,\n    kWide = 64;\n"
        "template <typename T>\nconstexpr int kWords = sizeof(T) == 4 ? 128 : 64;\n"
        "void f() {\n    constexpr int kInside = 7;\n}\n"
    )
    assert numbers("thing/thing.cuh") == {"kTile": 32, "kHigh": 128, "kWide": 64}
    with pytest.raises(LabError, match=r"other\.cuh: there is no such header; is this a whole checkout"):
        numbers("thing/other.cuh")


def test_steps_behind_tensor_maps_say_who_runs_them() -> None:
    wanted = (
        "takes tensor maps; «python -m labcode.workloads.cuda gemm» makes them, checks and times this step"
    )
    refused = [step.unfit(Problem((8, 8, 8))) for step in gemm.BF16.steps if step.unfit]
    assert refused == [wanted] * 7
    small = gemm.BF16.step("store").launch(Problem((300, 300, 64)), H200)
    assert (small.grid, small.cluster, small.shared_bytes) == (2 * 2 * 2, 2, 230400)
    assert gemm.BF16.step("store").launch(Problem((8192,) * 3), H200).grid == 132
    assert [step.variant for kernel in gemm.KERNELS for step in kernel.steps] == list(program.variants[2:])


def test_element_types_in_entries() -> None:
    step = Step("x", "", "f<{T}, {W}>", lambda problem, gpu: None)  # type: ignore[arg-type, return-value]
    assert entry(step, Problem((1,), "bfloat16")) == "f<__nv_bfloat16, unsigned short>"
    assert entry(step, Problem((1,))) == "f<float, unsigned>"


def test_selection_by_name_and_topic() -> None:
    assert [kernel.name for kernel in kernels(["memory_bandwidth"])] == ["copy", "triad", "gather"]
    assert [kernel.name for kernel in kernels(["sum", "triad"])] == ["triad", "sum"]
    with pytest.raises(LabError, match=r"^sgem: no kernel or topic of this name; there are .*\bcopy\b"):
        kernels(["sgem"])
    with pytest.raises(LabError, match=r"^sum: no step trees; its steps are atomics, tree, "):
        sums.SUM.step("trees")
    assert sums.SUM.step("tree").name == "tree"
