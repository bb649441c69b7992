"""Chains of small kernels, their passes over the data, and kernels that nothing runs beside."""

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.rules import gpu_work
from labcode.analysis.rules.finding import Finding, rule, verdict_of

NOTHING = np.empty(0, np.int64)
ADD, MUL, SUM, SOFT = "add_kernel", "mul_kernel", "reduce_kernel<512>", "cunn_SoftMaxForward"


def ops(*names: str) -> pd.DataFrame:
    start = 100 * np.arange(len(names))
    return pd.DataFrame(
        {"name": names, "context": 1, "stream": 7, "start_ns": start, "end_ns": start + 50}
    ).astype({"name": "str"})


def chains(table: pd.DataFrame, edges: np.ndarray = NOTHING) -> list[int]:
    part = ~table["name"].str.contains("gemm").to_numpy()
    return gpu_work._chains(table, part, edges).tolist()


def test_a_chain_lies_between_other_kernels_and_within_an_iteration() -> None:
    table = ops("gemm", ADD, MUL, "gemm", ADD, "gemm", MUL, ADD, MUL, ADD)
    assert chains(table) == [-1, 0, 0, -1, -1, -1, 1, 1, 1, 1]
    assert chains(table, np.array([0, 800])) == [-1, 0, 0, -1, -1, -1, 1, 1, 2, 2]


def test_one_kernel_again_and_again_is_no_chain() -> None:
    assert chains(ops(*[ADD] * 6)) == [-1] * 6


@pytest.mark.parametrize(
    ("names", "passes"),
    [
        ((ADD, MUL, SUM, MUL, ADD), [0, 0, 0, 1, 1]),  # a sum ends a pass and takes in what comes before it
        ((ADD, SOFT, MUL, ADD), [0, 1, 2, 2]),  # an operator of a library takes in nothing
    ],
)
def test_a_pass_ends_where_a_kernel_reduces(names: tuple[str, ...], passes: list[int]) -> None:
    table = ops(*names)
    reduces = table["name"].isin([SUM, SOFT]).to_numpy()
    assert gpu_work._passes(table, np.zeros(len(names), np.int64), reduces).tolist() == passes


BACK = "softmax_warp_backward"


def scores(table: pd.DataFrame, edges: np.ndarray = NOTHING) -> list[int]:
    product = table["name"].str.contains("gemm").to_numpy()
    part = ~product & (table["name"] != "top_k").to_numpy()
    return np.flatnonzero(gpu_work._scores(table, part, product, edges)).tolist()


@pytest.mark.parametrize(
    ("names", "edges", "found"),
    [
        (("gemm", SOFT, "gemm"), (), [1]),
        (("gemm", MUL, SOFT, ADD, "gemm", BACK, "gemm"), (), [1, 2, 3, 5]),
        (("gemm", MUL, ADD, "gemm"), (), []),  # no softmax
        (("gemm", SOFT, MUL, BACK, "gemm"), (), []),  # a loss, and its gradient
        (("gemm", SOFT, SOFT, SOFT, "gemm"), (), []),  # a loop
        (("gemm", SOFT, "top_k", "gemm"), (), []),
        (("top_k", SOFT, "gemm"), (), []),
        (("gemm", SOFT, "gemm", ADD), (0, 200), []),  # an output, and the next iteration
        (("gemm", SOFT, "gemm", ADD), (0, 100), []),
        (("gemm", SOFT), (), []),
        ((SOFT, "gemm"), (), []),
    ],
)
def test_scores_lie_between_matmuls_of_an_iteration(
    names: tuple[str, ...], edges: tuple[int, ...], found: list[int]
) -> None:
    assert scores(ops(*names), np.array(edges, np.int64)) == found


def test_scores_lie_between_matmuls_of_their_stream() -> None:
    table = ops("gemm", "top_k", SOFT, "gemm", "gemm")
    assert scores(table.assign(stream=[7, 8, 7, 8, 7])) == [2]
    assert scores(table.assign(stream=[7, 7, 8, 7, 7])) == []


def test_a_lone_softmax_is_a_chain_where_it_is_of_scores() -> None:
    table = ops("gemm", SOFT, "gemm", ADD, "gemm")
    part = ~table["name"].str.contains("gemm").to_numpy()
    found = gpu_work._scores(table, part, ~part, NOTHING)
    assert gpu_work._chains(table, part, NOTHING, found).tolist() == [-1, 0, -1, -1, -1]
    assert gpu_work._passes(table, np.array([-1, 0, -1, -1, -1]), found).tolist() == [-1, 0, -1, -1, -1]


def test_time_alone_is_without_any_other_kernel() -> None:
    table = pd.DataFrame({"start_ns": [0, 50, 60, 300], "end_ns": [100, 150, 70, 400]})
    assert gpu_work._alone(table).tolist() == [50, 50, 0, 100]


@pytest.mark.parametrize(
    ("gain", "low", "severity"),
    [(0.5, 0.2, "high"), (0.5, 0.09, "low"), (0.2, 0.1, "medium"), (0.5, None, "high")],
)
def test_an_alarm_needs_a_tenth_in_the_cautious_case(gain: float, low: float | None, severity: str) -> None:
    @rule("mine", title="mine")
    def mine(_: object) -> Finding:
        return Finding(True, "found", 1, "a", 2, "b", gain, low=low, high=None if low is None else gain)

    assert verdict_of(mine, mine(None)).severity == severity


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("PointwiseOpScalarListFunctor<float, (int)3, (int)3, (int)0>, std::divides<float>", 3),  # nsys
        (
            "TernaryOpScalarFunctor<c10::BFloat16, 2, 2, 0>, at::native::LerpFunctor<float>",
            2,
        ),  # torch.profiler
        ("UnaryOpFunctor<float, (int)2, (int)1, (int)1>, at::native::Sqrt<float>", 1),
        ("FusedAdamMathFunctor<float, (int)4, (at::native::ADAM_MODE)0, (bool)0>", None),
    ],
)
def test_a_name_tells_how_many_lists_a_kernel_reads(name: str, lists: int | None) -> None:
    found = gpu_work.LISTS.search(f"void multi_tensor_apply_kernel<TensorListMetadata<(int)3>, {name}>(T1)")
    assert (int(found[1]) if found else None) == lists


@pytest.mark.parametrize(("made", "takes"), [(MUL, 40), ("distribution_elementwise_grid_stride_kernel", 60)])
def test_a_fused_kernel_makes_all_random_numbers(made: str, takes: int) -> None:
    names = pd.Series([made, ADD, made, ADD], dtype="str")
    length = np.array([30.0, 40.0, 30.0, 500.0])
    assert gpu_work._fused(length, np.array([0, 0, 0, -1]), names).tolist() == [takes]
