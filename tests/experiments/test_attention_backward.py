"""Attention's backward: its flags, what its steps refuse, its references; right on a GPU."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.compute.attention_backward import program, steps
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Gpu
from labcode.kernels.topics import attention_backward as topic

A100 = Gpu("NVIDIA A100", 80, 108, 41943040, 166912, 2048)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def operands(torch: Any, heads: int = 4, kv_heads: int = 2, length: int = 70, causal: bool = True) -> Any:
    torch.manual_seed(3)
    q, slope, result = (torch.randn(2, heads, length, 128).bfloat16() for _ in range(3))
    k, v = (torch.randn(2, kv_heads, length, 128).bfloat16() for _ in range(2))
    return steps.Operands(q, k, v, result, slope, torch.zeros(2, heads, length), causal)


def of(torch: Any, given: steps.Operands) -> steps.Gradients:
    return steps.gradients_like(torch, (given.q, given.k, given.v))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["benchmark", "--lengths", "0"], "argument --lengths: 0 is not between 1 and 131072"),
        (["benchmark", "--masks", "window"], "argument --masks: 'window' is not one of none, causal"),
        (["benchmark", "--implementations", "fast"], "'fast' is not one of cudnn, flash, flex, two_passes, "),
        (
            ["benchmark", "--plan", "96,kAhead,kBulk,true,true,true"],
            "no plan; give 64 or 80 queries, one of ",
        ),
        (
            ["benchmark", "--plan", "80,kAhead,kBulk,true,true,false"],
            "no plan; give 64 or 80 queries, one of ",
        ),
        (["benchmark", "--plan", "64,kAhead"], "no plan; give 64 or 80 queries, one of kOneByOne|kTogether|"),
    ],
)
def test_bad_flags_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        program.main(arguments)
    assert done.value.code == 2
    assert message in capsys.readouterr().err


def test_what_cannot_run_here_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="--heads 6 --kv-heads 4: give a multiple of the keys' heads"):
        program.main(["benchmark", "--heads", "6", "--kv-heads", "4"])
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(ToolError, match="this workload needs PyTorch, which cannot be imported here"):
            program.main(["benchmark"])
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ToolError, match="no NVIDIA GPU that PyTorch can use"):
        program.main(["benchmark"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: replace(x, q=x.q[:, :, :0]), r"none empty"),
        (lambda x: replace(x, q=x.q[0]), "give batch × heads × length × 128, none empty"),
        (lambda x: replace(x, slope=x.slope[:, :2]), "one for queries, another for keys and values"),
        (lambda x: replace(x, k=x.k[:, :, 1:], v=x.v[:, :, 1:]), "one for queries, another for keys"),
        (lambda x: replace(x, log_sums=x.log_sums.double()), "takes log_sums of float32, one a row"),
        (lambda x: replace(x, v=x.v.half()), "takes tensors of bfloat16"),
        (lambda x: replace(x, result=x.result.mT.contiguous().mT), "call .contiguous()"),
        (lambda x: replace(x, slope=off_by_one(x.slope)), "takes tensors that start on 16 bytes; copy them"),
    ],
)
def test_what_the_steps_refuse(torch: Any, change: Any, message: str) -> None:
    given = operands(torch)
    with pytest.raises(LabError, match=message):
        steps.call_of(torch, "ahead", change(given), of(torch, given))


def off_by_one(x: Any) -> Any:
    storage = x.new_empty(x.numel() + 1)
    return storage[1:].view(x.shape).copy_(x)


def test_heads_and_widths_and_gpus_that_do_not_fit(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = operands(torch, 3, 2)
    with pytest.raises(LabError, match="3 heads cannot share 2"):
        steps.call_of(torch, "ahead", odd, of(torch, odd))
    narrow = operands(torch)
    fields = ("q", "k", "v", "result", "slope")
    narrow = replace(narrow, **{name: getattr(narrow, name)[..., :64].contiguous() for name in fields})
    with pytest.raises(LabError, match="takes heads of 128 dimensions, not 64"):
        steps.call_of(torch, "ahead", narrow, of(torch, narrow))
    monkeypatch.setattr(launching, "this_gpu", lambda device=0: A100)
    given = operands(torch)
    with pytest.raises(LabError, match=r"ahead: needs compute capability 9.0 and this GPU has 8.0"):
        steps.call_of(torch, "ahead", given, of(torch, given))
    with pytest.raises(LabError, match="fast: no such implementation; there are cudnn, flash, flex, two_"):
        steps.call_of(torch, "fast", given, of(torch, given))


@pytest.mark.parametrize("causal", [False, True])
def test_references_agree_with_autograd(torch: Any, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "CHUNK", 32)  # several, the last one short
    given = operands(torch, causal=causal)
    leaves = [x.double().requires_grad_() for x in (given.q, given.k, given.v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    attend(*leaves, is_causal=causal, enable_gqa=True).backward(given.slope.double())
    exact = [x.grad for x in leaves]
    expected = {(0, 1): program.reference(torch, given, 0, 1)}
    assert max(program.errors(torch, given, exact, expected)) < 1e-12
    by_hand = topic.gradients(
        *(x[0].double().numpy() for x in (given.q, given.k, given.v, given.slope)), causal
    )
    for mine, wanted in zip(by_hand, exact, strict=True):
        assert np.allclose(mine, wanted[0].numpy(), atol=1e-10)
    exact[1][0, 1, 5, 7] *= 1.5
    q, k, v = program.errors(torch, given, exact, expected)
    assert q < 1e-12 < 1e-4 < k and v < 1e-12
    exact[2][0, 1, 0, 0] = float("nan")
    assert program.errors(torch, given, exact, expected)[2] == float("inf")


def test_unwritten_and_outside_are_found(torch: Any) -> None:
    to = of(torch, operands(torch))
    to.poison()
    assert to.wrong() == "the gradient of Q has NaN or is not written"
    for one in to.of:
        one.zero_()
    assert to.wrong() == ""
    to.around[1][-steps.GUARD] = 0
    assert to.wrong() == "writes outside the gradient of K"


def test_a_gradient_takes_five_products_and_each_array_once() -> None:
    assert topic.flops(2, 100, causal=False) == 5 * 2 * 2 * 100 * 100 * 128
    assert topic.flops(2, 100, causal=True) * 2 == topic.flops(2, 100, causal=False)
    arrays = 4 * 8 + 4 * 2  # of queries: Q, result, its gradient, gradient of Q; of keys as many
    assert topic.bytes_moved(8, 2, 50) == arrays * 50 * 128 * 2 + 8 * 50 * 4


@pytest.mark.parametrize("name", list(topic.PLANS))
def test_plans_fit_a_block_and_cover_all_rows(name: str) -> None:
    plan = topic.PLANS[name]
    assert plan.shared_bytes <= 227 << 10
    assert plan.padded(1) == plan.queries and plan.padded(129) == -(-129 // plan.queries) * plan.queries
    assert topic.keys_launch(plan, 3, 129).grid == (2, 3)
    assert topic.plan_of(plan_text(plan)) == plan


def plan_text(plan: topic.Plan) -> str:
    given = program.command_line().parse_args(["benchmark"])
    given.implementations, given.plan = (), [plan]
    return next(iter(program.plans(given)))


@pytest.mark.gpu
@pytest.mark.parametrize("heads", ["4,4", "8,2"])
def test_right_on_a_gpu(heads: str, tmp_path: Path) -> None:
    path, (query_heads, kv_heads) = tmp_path / "r.json", heads.split(",")
    # not 1: the weight of a single key is 1, and two of the three gradients are zero but for rounding
    sizes = ["--lengths", "2,33,128,513,1000", "--batch", "2", "--heads", query_heads, "--kv-heads", kv_heads]
    names = ",".join(("cudnn", *topic.PLANS))
    flags = [*sizes, "--implementations", names, "--repetitions", "1", "--json", str(path)]
    assert program.main(["benchmark", *flags]) == 0
    rows = json.loads(path.read_text())["results"]["rows"]
    assert not [row for row in rows if row["kind"] == "step" and "left_out" in row]


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(topic.PLANS))
def test_what_is_no_number_stays_in_its_head(torch: Any, name: str) -> None:
    given = program.command_line().parse_args(
        ["benchmark", "--batch", "2", "--heads", "2", "--kv-heads", "2"]
    )
    data = program.make(torch, given, 300, True)
    data.slope[1, 0, 40, 3] = float("nan")
    to = of(torch, data)
    to.poison()
    steps.call_of(torch, name, data, to)()
    torch.cuda.synchronize()
    for one in to.of:
        bad = one.isnan().flatten(2).any(2)
        assert bad.tolist() == [[False, False], [True, False]]
    assert to.of[0].isnan().any(3)[1, 0].nonzero().flatten().tolist() == [40]
