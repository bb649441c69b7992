"""Launches of a ladder by step: the library's apart, one for each name."""

from types import SimpleNamespace

import pytest

from labcode import book
from labcode.analysis.kernel.products import by_step
from labcode.errors import LabError


def launches(*names):
    return [SimpleNamespace(demangled=name) for name in names]


def test_steps_in_their_order_and_the_library():
    found = by_step(
        launches("nvjet_tst_128x256", "void lab::gemm::a<1>()", "lab::gemm::b()"), ["first", "second"]
    )
    assert {name: one.demangled for name, one in found.items()} == {
        "cublas": "nvjet_tst_128x256",
        "first": "void lab::gemm::a<1>()",
        "second": "lab::gemm::b()",
    }
    assert list(by_step(launches("lab::gemm::a()"), ["one"])) == ["one"]


def test_a_launch_that_is_missing_is_told():
    with pytest.raises(LabError, match=r"^this report has 1 launches of steps, not one for each of a, b$"):
        by_step(launches("nvjet", "lab::gemm::a()"), ["a", "b"])


def test_the_shipped_ladder_is_whole_on_every_machine_whose_traces_are_here():
    counted = book.counted("ncu_gemm", "fp32")
    assert next(iter(counted)) == "H200"
    for report in counted.values():
        assert len(by_step(report.list, map(str, range(9)))) == 9
