"""Which kernel is which: names without their templates, and what passes for a new name."""

import pandas as pd
import pytest

from labcode.analysis.compare.match import renamed_kernels, renamed_transfers, strip_templates

COLUMNS = ["name", "start_ns", "end_ns", "pid", "device", "context", "stream"]
SHAPE = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]


def table(*names, grid=8):
    rows = [[name, i * 100, i * 100 + 50, 1, 0, 1, 7, grid, 1, 1, 128, 1, 1] for i, name in enumerate(names)]
    return pd.DataFrame(rows, columns=[*COLUMNS, *SHAPE])


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("void lab::scale<float, 4>(float*, int)", "lab::scale"),
        ("scale(float*)", "scale"),
        ("plain", "plain"),
        ("void (anonymous namespace)::soft<a<b>>(c<d>)", "{anonymous}::soft"),
        ("void at::native::<unnamed>::apply<x>(y)", "at::native::::apply"),
        ("<<<", "<<<"),
        ("", ""),
    ],
)
def test_templates_and_parameters_are_left_out(name, base):
    assert strip_templates(name) == base


def test_other_names_are_other_kernels():
    assert renamed_kernels(table("gemm_nt(float*)"), table("softmax_forward(half*)")) == {}


def test_a_like_name_with_another_launch_and_place_is_another_kernel():
    before, after = table("a", "copy_v1(int)", "b"), table("copy_v2(int)", "b", "a", grid=9)
    assert renamed_kernels(before, after) == {}


def test_the_place_between_known_kernels_counts_too():
    before, after = table("a", "copy_v1(int)", "b"), table("a", "copy_v2(int)", "b", grid=9)
    assert renamed_kernels(before, after) == {"copy_v1(int)": "copy_v2(int)"}


def test_each_kernel_is_renamed_once_and_to_the_likest():
    before = table("k<float, 4>(int)", "k<double, 4>(int)")
    after = table("k<float, 8>(int)", "k<double, 8>(int)")
    assert renamed_kernels(before, after) == {
        "k<float, 4>(int)": "k<float, 8>(int)",
        "k<double, 4>(int)": "k<double, 8>(int)",
    }


def test_nothing_is_renamed_in_empty_tables():
    assert renamed_kernels(table(), table("a")) == {}
    assert renamed_kernels(table("a"), table()) == {}


def test_copies_of_the_same_bytes_go_on_with_another_memory():
    before = {("H2D", "pageable"): 100, ("D2H", "pageable"): 50}
    after = {("H2D", "pinned"): 100, ("D2H", "pinned"): 51}
    assert renamed_transfers(before, after) == {("H2D", "pageable"): ("H2D", "pinned")}
