"""On a GPU machine: wrong kernels of the exercises on Nsight Compute are told what is wrong with them.

python -m pytest -m gpu tests/exercises/test_gpu_compute.py tests/exercises/test_gpu.py -k compute -s
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exercises.support import solution
from tests.exercises.test_gpu import verdict_on

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

# (part, what is replaced in its solution, by what, the words that must come up)
WRONG = [
    ("compute-ex01b", "LAB_CUDA(cudaMemsetAsync(out, 0,", "LAB_CUDA(cudaMemsetAsync(out, 64,", "instead of"),
    ("compute-ex01b", "(columns + kLanes - 1) / kLanes", "columns / kLanes", ""),
    ("compute-ex01b", "for (; row < end; row += kGroups)", "for (; false;)", "instead of"),
    ("compute-ex01b", "dim3(kLanes, kGroups), 0, stream>>>", "dim3(kLanes, kGroups)>>>", ""),
    ("compute-ex02b", "(rows + kRows - 1) / kRows", "rows / kRows + (rows < kRows)", "was not written"),
    ("compute-ex02b", "if (column + 1 < columns) sum += logf", "sum += logf", "instead of"),
    ("compute-ex02b", "int away = 16;", "int away = 8;", "instead of"),
    ("compute-ex03b", "if (first + e * kThreads < count) out", "out", ""),
    ("compute-ex03b", "int k = kTerms - 1;", "int k = kTerms - 2;", "instead of"),
    ("compute-ex04b", "if (row < height && left + x < width) out", "if (row < height) out", ""),
    ("compute-ex04b", "return min(max(i, 0), count - 1);", "return (i + count) % count;", ""),
]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda n: f"{WRONG[n][0]}-{n}")
def test_wrong_kernels_are_told_so(number: int, tmp_path: Path) -> None:
    short, old, new, words = WRONG[number]
    source = solution(short)
    assert old in source, "the solution has changed: change this test with it"
    verdict = verdict_on(short, tmp_path, source.replace(old, new, 1))
    assert verdict.status == "failed"
    assert verdict.headline != "right, but not fast enough"
    assert words in "\n".join((verdict.headline, *verdict.details))
