"""The attention workload: its three commands, what its implementations refuse, its plots; right on a GPU."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.compute.attention import program as attention
from labcode.experiments.compute.attention import steps
from labcode.kernels.tensor_maps import Boxes, encode


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["benchmark", "--lengths", "0"], "argument --lengths: 0 is not between 1 and 131072"),
        (["benchmark", "--lengths", "64,x"], "argument --lengths: 'x' is not a whole number"),
        (
            ["benchmark", "--dtypes", "int8"],
            "argument --dtypes: 'int8' is not one of float32, bfloat16, float16",
        ),
        (
            ["benchmark", "--implementations", "fast"],
            "argument --implementations: 'fast' is not one of eager, ",
        ),
        (["benchmark", "--scale", "0"], "argument --scale: 0 is not above 0"),
        (["profile", "--implementation", "fast"], "argument --implementation: invalid choice: 'fast'"),
        (["profile", "--length", "0"], "argument --length: 0 is not between 1 and 131072"),
        (["visualize"], "the following arguments are required: --input, --output-dir"),
    ],
)
def test_bad_flags_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        attention.main(arguments)
    assert done.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["benchmark", "profile"])
def test_without_torch_or_a_gpu_it_says_so(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(ToolError, match="this workload needs PyTorch, which cannot be imported here"):
            attention.main([command])
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ToolError, match="no NVIDIA GPU that PyTorch can use"):
        attention.main([command])


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "message"),
    [
        ("lazy", (2, 8, 80), "bfloat16", r"^lazy: takes heads of 64 or 128 dimensions, not 80$"),
        ("tiled", (2, 8, 80), "float32", r"^tiled: takes heads of 64 or 128 dimensions, not 80$"),
        (
            "lazy",
            (2, 0, 64),
            "bfloat16",
            r"^lazy: shapes \[\(2, 0, 64\)\]; give tensors heads × length × dim, none",
        ),
        ("lazy", (8, 64), "bfloat16", r"^lazy: shapes \[\(8, 64\)\]; give tensors heads × length × dim"),
        (
            "lazy",
            (2, 8, 64),
            "float32",
            r"^lazy: takes tensors of one type, bfloat16 or float16, not \['float32'\]$",
        ),
        (
            "online",
            (2, 8, 64),
            "bfloat16",
            r"^online: takes tensors of one type, float32, not \['bfloat16'\]$",
        ),
        ("lazy", (65536, 1, 64), "bfloat16", r"^lazy: takes at most 65535 heads, not 65536$"),
    ],
)
def test_what_it_cannot_take_is_one_line(torch: Any, name: str, shape: Any, dtype: str, message: str) -> None:
    x = torch.empty(shape, dtype=getattr(torch, dtype))
    with pytest.raises(LabError, match=message):
        steps.call_of(torch, steps.IMPLEMENTATIONS[name], [x, x, x], x, False)


def test_where_tensors_lie(torch: Any) -> None:
    x = torch.empty((2, 8, 64), dtype=torch.bfloat16)
    lazy = steps.IMPLEMENTATIONS["lazy"]
    apart = torch.empty((2, 16, 64), dtype=torch.bfloat16)[:, ::2]
    with pytest.raises(LabError, match=r"lazy: the elements must lie without gaps; call \.contiguous\(\)$"):
        steps.check(lazy, [x, x, apart], x)
    storage = torch.empty(2 * 8 * 64 + 1, dtype=torch.bfloat16)
    shifted = storage[1:].view(2, 8, 64)
    with pytest.raises(
        LabError, match=r"lazy: takes tensors that start on 16 bytes; copy them with \.clone\(\)$"
    ):
        steps.check(lazy, [x, x, x], shifted)
    steps.check(steps.IMPLEMENTATIONS["cudnn"], [x, x, x], shifted)


def test_an_older_gpu_is_told_which_step_it_can_run(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from labcode.kernels.catalogue import Gpu

    older = Gpu("NVIDIA A100", 80, 108, 41943040, 166912, 2048)
    monkeypatch.setattr(steps.launching, "this_gpu", lambda device: older)
    x = torch.empty((2, 8, 64), dtype=torch.bfloat16)
    with pytest.raises(
        LabError, match=r"^lazy: needs compute capability 9\.0 and this GPU has 8\.0; take double_"
    ):
        steps.call_of(torch, steps.IMPLEMENTATIONS["lazy"], [x, x, x], x, False)


def test_flashinfer_gets_positions_before_heads_and_its_faults_are_one_line(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = (torch.randn(4, 6, 64).to(torch.bfloat16) for _ in range(3))
    flash3 = steps.IMPLEMENTATIONS["flash3"]
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(
        ToolError, match=r"^flash3: FlashInfer cannot be imported here .*install flashinfer-py"
    ):
        steps.call_of(torch, flash3, [q, k, v], q, True)

    def prefill(q: Any, k: Any, v: Any, *, causal: bool, backend: str) -> Any:
        assert (q.shape, backend) == ((6, 4, 64), "fa3")
        turned = [x.transpose(0, 1) for x in (q, k, v)]
        return steps.written_out(torch, *turned, causal).transpose(0, 1).contiguous()

    fake = SimpleNamespace(single_prefill_with_kv_cache=prefill)
    monkeypatch.setitem(sys.modules, "flashinfer", fake)
    for causal in (True, False):
        result = steps.call_of(torch, flash3, [q, k, v], q, causal)()
        assert torch.equal(result, steps.written_out(torch, q, k, v, causal))
    fake.single_prefill_with_kv_cache = lambda *_, **__: 1 / 0
    with pytest.raises(LabError, match=r"^flash3: FlashInfer's kernel does not run \(division by zero\)$"):
        steps.call_of(torch, flash3, [q, k, v], q, True)()


def test_names_that_there_are_not() -> None:
    with pytest.raises(LabError, match=r"^fast: no such implementation; there are eager, efficient, flash, "):
        steps.chosen(["fast"], "bfloat16")
    assert [one.name for one in steps.chosen(["lazy", "tiled", "eager"], "float32")] == ["eager", "tiled"]


def test_tensor_maps_refuse_what_the_copy_engine_cannot_serve() -> None:
    with pytest.raises(LabError, match=r"starts 8 bytes behind a multiple of 16 and its rows have 128 bytes"):
        encode(1032, Boxes((64, 5, 2), (64, 128, 1)))
    with pytest.raises(LabError, match=r"starts 0 bytes behind a multiple of 16 and its rows have 72 bytes"):
        encode(1024, Boxes((36, 5), (36, 5)))


@pytest.mark.parametrize("causal", [False, True])
def test_written_out_and_its_error_are_those_of_the_definition(torch: Any, causal: bool) -> None:
    torch.manual_seed(3)
    tensors = [torch.randn(5, 70, 64) for _ in range(3)]
    exact = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)
    found = steps.written_out(torch, *tensors, causal)
    assert torch.allclose(found, exact, atol=1e-5)
    expected = attention.reference(torch, tensors, causal)
    assert attention.errors(torch, found, expected)["error"] < 1e-6
    found[0, 69] += 1
    assert attention.errors(torch, found, expected)["largest_error"] == pytest.approx(1, abs=1e-3)
    found[0, 69] = float("nan")
    assert attention.errors(torch, found, expected)["error"] == float("inf")


def _row(name: str, length: int, **more: Any) -> dict[str, Any]:
    case = {"dtype": "bfloat16", "mask": "none", "length": length, "dim": 64}
    return {"implementation": name, "kind": "step", **case, **more}


def test_plots_of_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timed = {"time_us": 5.0, "tflop_per_s": 2.0, "error": 1e-3}
    rows = [_row("lazy", n, **timed) for n in (64, 128)] + [_row("eager", 64, left_out="too large")]
    source = tmp_path / "r.json"
    source.write_text(json.dumps({"results": {"rows": rows}}))
    assert attention.main(["visualize", "--input", str(source), "--output-dir", str(tmp_path / "plots")]) == 0
    named = ["bfloat16_64_none_error.svg", "bfloat16_64_none_tflop_per_s.svg"]
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == named
    said = capsys.readouterr().out
    assert all(name in said for name in named)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"r\.json: No such file or directory; check the path$"),
        ("{", r"r\.json: is no record of «attention benchmark»; make one with --json$"),
        ('{"results": []}', r"r\.json: is no record of «attention benchmark»; make one with --json$"),
        ('{"results": {"rows": []}}', r"r\.json: holds no timed implementation; there is nothing to plot$"),
    ],
)
def test_what_is_no_record_is_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    source = tmp_path / "r.json"
    if content is not None:
        source.write_text(content)
    with pytest.raises(LabError, match=message):
        attention.main(["visualize", "--input", str(source), "--output-dir", str(tmp_path / "plots")])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", attention.DTYPES)
def test_right_on_a_gpu(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    sizes = ["--lengths", "1,33,300", "--batch", "1", "--heads", "3", "--repetitions", "1"]
    assert attention.main(["benchmark", "--dtypes", dtype, *sizes, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["results"]["rows"]
    assert not [row for row in rows if row["kind"] == "step" and "left_out" in row]


@pytest.mark.gpu
def test_one_call_is_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, path = tmp_path / "trace.json", tmp_path / "r.json"
    flags = ["--length", "300", "--repetitions", "2", "--trace", str(trace), "--json", str(path)]
    assert attention.main(["profile", "--implementation", "lazy", *flags]) == 0
    assert "lazy: bfloat16, 300 x 128, mask: none: " in capsys.readouterr().out
    launched = [event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]]
    assert sum("specialized" in name for name in launched) == 2
    assert len(json.loads(path.read_text())["results"]["time_us"]) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["double_buffer", "specialized", "lazy", "cudnn"])
def test_what_is_no_number_stays_none(torch: Any, name: str) -> None:
    """A NaN in a query makes its row NaN, a score of −∞ is a weight of 0."""
    q, k, v = (torch.randn(1, 200, 64, device="cuda").bfloat16() for _ in range(3))
    q[0, 7, 3], q[0, :, 0], k[0, 11, 0] = float("nan"), 1.0, float("-inf")
    out = torch.empty_like(q)
    result = steps.call_of(torch, steps.IMPLEMENTATIONS[name], [q, k, v], out, False)()
    out = out if result is None else result
    bad = torch.isnan(out[0]).any(dim=1).nonzero().flatten().tolist()
    assert bad == [7]
    seen = [j for j in range(200) if j != 11]
    expected = torch.softmax(q[0].double() @ k[0, seen].double().T / 8, -1) @ v[0, seen].double()
    good = [i for i in range(200) if i != 7]
    assert float((out[0, good].double() - expected[good]).abs().max()) < 3e-2


def test_gradients_refuse_what_they_cannot_take(torch: Any) -> None:
    from labcode.experiments.compute.attention.gradients import gradients

    x = torch.empty(2, 8, 80)
    with pytest.raises(LabError, match=r"^materialized: takes heads of 64 or 128 dimensions, not 80$"):
        gradients(torch, x, x, x, x, False)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
def test_gradients_are_autograds(torch: Any, dim: int, causal: bool) -> None:
    from labcode.experiments.compute.attention.gradients import gradients

    q, k, v, slope = (torch.randn(2, 150, dim, device="cuda") for _ in range(4))
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    steps.written_out(torch, *wide, causal).backward(slope.double())
    for found, exact in zip(gradients(torch, q, k, v, slope, causal), wide, strict=True):
        assert float((found.double() - exact.grad).norm() / exact.grad.norm()) < 1e-5
