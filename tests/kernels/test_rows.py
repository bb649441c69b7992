"""Row kernels: which instance serves which rows, references against PyTorch's, correctness on the GPU."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from labcode.errors import LabError
from labcode.kernels import row_kernels
from labcode.kernels.catalogue import Gpu, Kernel, Problem, Step, entry
from labcode.kernels.row_kernels import Instance
from labcode.kernels.topics import rmsnorm, softmax

KERNELS = (softmax.SOFTMAX, rmsnorm.RMSNORM)
H200 = Gpu("NVIDIA H200", 90, 132, 60 << 20, 227 << 10, 2048)
LENGTHS = (1, 2, 255, 256, 257, 1024, 4096, 8192, 16384, 16385, 32769, 65536, 131072, 131073, 262144, 300001)

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch here")


def every_step() -> list[Any]:
    return [
        pytest.param(kernel, step, id=f"{kernel.name}-{step.name.replace(' ', '-')}")
        for kernel in KERNELS
        for step in kernel.steps
    ]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("columns", LENGTHS)
def test_chosen_serves_every_length(kernel: Kernel, columns: int) -> None:
    for step in kernel.steps[-2:]:
        problem = Problem((1000, columns))
        assert step.unfit is None or step.unfit(problem) is None
        assert entry(step, problem).startswith(f"lab::{kernel.name}::")
        assert step.launch(problem, H200).shared_bytes <= H200.shared_bytes


@pytest.mark.parametrize(("kernel", "step"), every_step())
def test_launches_cover_every_row_and_fit_the_gpu(kernel: Kernel, step: Step) -> None:
    for columns in LENGTHS:
        for dtype in ("float32", "bfloat16"):
            problem = Problem((1000, columns), dtype)
            if step.unfit is not None and step.unfit(problem):
                continue
            launch = step.launch(problem, H200)
            assert isinstance(launch.grid, int)
            assert isinstance(launch.block, int)
            assert launch.block % 32 == 0
            assert launch.block <= 1024
            assert launch.grid % launch.cluster == 0
            assert launch.shared_bytes <= H200.shared_bytes
            stays = "bulk" in entry(step, problem)
            warps = launch.block // 32 if "warp_rows" in entry(step, problem) else 1
            assert launch.grid // launch.cluster * warps >= 1000 or stays


def test_the_first_that_holds_is_taken() -> None:
    two = (Instance("vectorized", 8, 64), Instance("vectorized", 8, 128))
    assert [row_kernels.first_that_holds(two, Problem((1, n))) for n in (512, 513, 1025)] == [*two, None]
    assert row_kernels.why_not(two, Problem((1, 1024))) is None
    assert row_kernels.why_not(two, Problem((1, 1025))) == "holds rows of up to 1,024 elements"


def test_instances_and_choices_by_size_of_elements() -> None:
    pair = (Instance("bulk", 32, 128, item_bytes=4), Instance("bulk", 16, 256, item_bytes=2))
    found = [
        row_kernels.first_that_holds(pair, Problem((1, 4096), dtype)) for dtype in ("float32", "bfloat16")
    ]
    assert found == [*pair]
    for columns, dtype, softmax_takes, rmsnorm_takes in (
        (256, "float32", "warp_rows", "warp_rows"),
        (512, "float32", "vectorized", "vectorized"),
        (512, "bfloat16", "warp_rows", "warp_rows"),  # by bytes: a block a row would hold half as many
        (1024, "bfloat16", "vectorized", "vectorized"),
        (4096, "float32", "bulk", "bulk"),
        (4096, "bfloat16", "vectorized", "bulk"),
        (8192, "bfloat16", "bulk", "bulk"),
        (16384, "bfloat16", "bulk", "bulk"),
        (16384, "float32", "bulk", "bulk"),
        (8191, "bfloat16", "vectorized", "vectorized"),  # the copy engine fetches no rows that start anywhere
        (8192, "float32", "bulk", "bulk"),
        (8191, "float32", "vectorized", "vectorized"),
        (65537, "bfloat16", "bulk", "bulk"),
    ):
        problem = Problem((1000, columns), dtype)
        for topic, step in ((softmax, softmax_takes), (rmsnorm, rmsnorm_takes)):
            one = topic.LADDER.chosen(problem, clusters=True)
            assert one is not None
            assert (one.step, one.item_bytes in (0, problem.item_bytes)) == (step, True)


def test_names_of_instances() -> None:
    assert Instance("warp_rows", 8, 64).columns == 256
    assert Instance("cluster", 32, 256, 8).columns == 65536
    assert Instance("cluster", 32, 256, 8).entry("lab::x") == "lab::x::cluster<{T}, 32, 256, 8>"
    assert Instance("bulk", 32, 512, 4, 1, 2, 4).entry("lab::x") == "lab::x::bulk<{T}, 32, 512, 4, 1, 2>"


def test_fewer_blocks_an_sm_by_shared_memory_that_nobody_uses() -> None:
    asked = Instance("vectorized", 32, 128, at_most=6).launch(Problem((10, 4096)), H200).shared_bytes
    of_an_sm = H200.shared_bytes + 1024
    assert of_an_sm // (asked + 1024 + 128) == 6  # with what the system and the kernel take themselves


def test_a_slice_is_whole_vectors() -> None:
    bulk = Instance("bulk", 32, 512, 4, stages=3, blocks=1, rows=1)
    launch = bulk.launch(Problem((7, 65537)), H200)
    assert launch.shared_bytes == 3 * 4 * 16388  # a quarter of the row in whole vectors of four, three times
    assert (launch.grid, launch.cluster) == (28, 4)
    half = bulk.launch(Problem((7, 65537), "bfloat16"), H200)
    assert half.shared_bytes == 3 * 2 * 16392


def test_rows_too_long_for_shared_memory_are_refused() -> None:
    step = softmax.SOFTMAX.step("on chip")
    assert step.unfit is not None
    assert step.unfit(Problem((1, 57856))) is None
    assert step.unfit(Problem((1, 57857))) == "holds rows of up to 57,856 elements"


def test_costs() -> None:
    problem = Problem((10, 100), "bfloat16")
    assert softmax.SOFTMAX.bytes_moved(problem) == 10 * 100 * 2 * 2
    assert rmsnorm.RMSNORM.bytes_moved(problem) == 10 * 100 * 2 * 2 + 100 * 2
    assert softmax.SOFTMAX.flops(problem) == rmsnorm.RMSNORM.flops(problem) == 4000


@needs_torch
def test_references_are_pytorchs() -> None:
    import torch

    generator = np.random.default_rng(5)
    x, weight = generator.normal(size=(7, 33)) * 10, generator.normal(size=33)
    expected = torch.softmax(torch.from_numpy(x), -1).numpy()
    np.testing.assert_allclose(softmax.reference(x), expected, rtol=1e-12)
    expected = torch.nn.functional.rms_norm(
        torch.from_numpy(x), (33,), torch.from_numpy(weight), rmsnorm.EPSILON
    ).numpy()
    np.testing.assert_allclose(rmsnorm.reference(x, weight), expected, rtol=1e-12)


@needs_torch
def test_rmsnorm_of_an_infinity_is_pytorchs_on_the_host() -> None:
    import torch

    x, weight = torch.randn(3, 100, dtype=torch.float64), torch.randn(100, dtype=torch.float64)
    x[1, 50], x[2, 3] = float("inf"), float("nan")
    with np.errstate(invalid="ignore"):
        found = torch.from_numpy(rmsnorm.reference(x.numpy(), weight.numpy()))
    expected = torch.nn.functional.rms_norm(x, (100,), weight, rmsnorm.EPSILON)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found.isnan().sum(-1).tolist() == [0, 1, 100]


@pytest.mark.gpu
@pytest.mark.parametrize(("kernel", "step"), every_step())
def test_right_for_every_size_start_and_value(kernel: Kernel, step: Step) -> None:
    import torch

    from labcode.kernels.checking import check_step
    from labcode.kernels.launch import this_gpu

    gpu = this_gpu()
    if gpu.compute_capability < step.min_cc:
        pytest.skip("this GPU has no clusters")
    outcome = check_step(torch, kernel, step, gpu)
    assert outcome.passed, outcome.detail


def special_rows(columns: int) -> Any:
    """Rows with infinities, NaN, masked ends and large numbers, at places that differ in warp and block."""
    import torch

    inf, nan = float("inf"), float("nan")
    x = torch.randn(12, columns, generator=torch.Generator().manual_seed(3)) * 3
    x[0, columns // 2] = inf
    x[1, columns - 1] = nan
    x[2] = -inf
    x[3, : columns - 1] = -inf  # one element is left: it becomes 1
    x[4, 1:] = -inf
    x[5, columns // 3 :] = -inf
    x[6] *= 1e30
    x[7] = -3e38
    x[8] = 1e30
    x[9, 0], x[9, columns - 1] = inf, -inf
    x[10, ::2] = -inf
    x[11] = nan
    return x


@pytest.mark.gpu
@pytest.mark.parametrize(
    "columns", [2, 5, 100, 1024, 4097, 8192, 16384, 40000, 65536, 100000, 131072, 262144, 270000]
)
@pytest.mark.parametrize("step", softmax.SOFTMAX.steps, ids=lambda step: step.name)
def test_softmax_of_special_values_agrees_with_pytorch(step: Step, columns: int) -> None:
    import torch

    from labcode.kernels.launch import launch, reason_unfit, this_gpu

    problem = Problem((12, columns))
    if reason_unfit(step, problem, this_gpu()):
        return
    x = special_rows(columns).cuda()
    found = torch.full_like(x, 7.0)
    launch(softmax.SOFTMAX, step, problem, [x], found)
    expected = torch.softmax(x.double(), -1)
    assert torch.equal(found.isnan(), expected.isnan()), (found.isnan() != expected.isnan()).nonzero()[:3]
    torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=1e-7, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("step", rmsnorm.RMSNORM.steps, ids=lambda step: step.name)
def test_rmsnorm_of_zeros_infinities_and_large_values_follows_its_definition(step: Step) -> None:
    """The definition in float64: beside an infinity finite elements become 0, the infinity itself NaN.

    Not PyTorch's function for the GPU, which turns such a row into NaN where it computes its moments as
    running means (∞ − ∞), as it does in float64; on the host it agrees with the definition.
    """
    import torch

    from labcode.kernels.launch import launch, reason_unfit, this_gpu

    for columns in (1, 100, 4097, 16384, 65536, 131072):
        problem = Problem((6, columns))
        if reason_unfit(step, problem, this_gpu()):
            continue
        x, weight = torch.randn(6, columns, device="cuda"), torch.randn(columns, device="cuda")
        x[0] = 0
        x[1] *= 1e15
        x[2] *= 1e-15
        x[3, columns // 2] = float("inf")
        x[4, columns - 1] = float("nan")
        found = torch.full_like(x, 7.0)
        launch(rmsnorm.RMSNORM, step, problem, [x, weight], found)
        wide = x.double()
        rms = (wide.square().mean(-1, keepdim=True) + rmsnorm.EPSILON).sqrt()
        expected = wide / rms * weight.double()
        assert columns < 3 or expected[3].isnan().sum() == 1
        assert expected[4].isnan().all()
        torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=1e-6, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_arrays_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    import torch

    from labcode.kernels.launch import launch

    problem = Problem((4, 64))
    rest = [torch.ones(64, device="cuda")] if kernel.name == "rmsnorm" else []
    good, out = torch.randn(4, 64, device="cuda"), torch.empty(4, 64, device="cuda")
    step = kernel.steps[-1]
    for bad, message in (
        (torch.empty(0, 64, device="cuda"), "is empty"),
        (torch.randn(64, 4, device="cuda").t(), "is not contiguous"),
        (good.double(), "holds float64 and the kernel takes float32"),
        (good.cpu(), "lies in host memory"),
    ):
        with pytest.raises(LabError, match=message):
            launch(kernel, step, problem, [bad, *rest], out)
    launch(kernel, step, problem, [good, *rest], out)
    assert not out.isnan().any()
