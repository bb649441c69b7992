"""Whose code a function of Python is."""

import pytest

from labcode.analysis.buckets import own_file, own_name


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("train.py(4): load", True),
        ("src/data/set.py(40): __getitem__", True),
        ("torch/utils/data/dataloader.py(10): __next__", False),
        ("json/decoder.py(3): decode", False),
        ("threading.py(9): run", False),
        ("/usr/lib/python3.12/random.py(2): shuffle", False),
        ("/opt/x/site-packages/pkg/a.py(1): f", False),
        ("<built-in function sleep>", False),
        ("nn.Module: Linear_0", False),
    ],
)
def test_functions_as_traces_name_them(name: str, own: bool) -> None:
    assert own_name(name) is own


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/me/code/train.py", True),
        ("/home/me/datasets/json/train.py", True),  # folders that are called as packages are
        ("test/train.py", True),
        ("labcode/workloads/input_pipeline.py", True),
        ("labcode/experiments/advanced/input_pipeline/program.py", True),
        ("labcode/easy_profiler.py", False),
        ("/src/pytorch/torch/nn/functional.py", False),  # a checkout of the sources
        ("lib/python3.12/threading.py", False),  # what is left of a path that was taken out
        ("site-packages/torch/cuda/__init__.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("[Broken backtraces]", False),
        ("", False),
    ],
)
def test_files(file: str, own: bool) -> None:
    assert own_file(file) is own
