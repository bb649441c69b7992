"""The bottleneck hunt: every planted problem changes the time alone; both ways of each step are one."""

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.pytorch.bottleneck_hunt import model  # noqa: E402
from labcode.experiments.pytorch.bottleneck_hunt import program as hunt  # noqa: E402
from labcode.experiments.pytorch.bottleneck_hunt.program import PROBLEMS, Outcome  # noqa: E402
from tests.support.records import recorded  # noqa: E402

CPU = torch.device("cpu")
SMALL = [
    *("--device", "cpu", "--batch", "32", "--width", "24", "--blocks", "2", "--classes", "8"),
    *("--warmup", "8", "--steps", "8", "--rate", "0.01"),
]

DEEP = ["--blocks", "6", "--width", "64"]  # what differs in one block grows in the next


def test_normalization_and_activation_by_hand_are_those_of_torch() -> None:
    x = torch.randn(5, 24, dtype=torch.float64)
    weight, bias = torch.randn(24, dtype=torch.float64), torch.randn(24, dtype=torch.float64)
    wanted = torch.nn.functional.layer_norm(x, (24,), weight, bias, model.EPSILON)
    assert torch.allclose(model.normalize_by_hand(x, weight, bias), wanted)
    wanted = torch.nn.functional.gelu(x, approximate="tanh")
    assert torch.allclose(model.gelu_by_hand(x), wanted)


@pytest.mark.parametrize("problem", ["layout", "cpu_tensors", "dtype"])
def test_batches_are_the_same_however_they_are_made(problem: str) -> None:
    data = model.make_data(Namespace(seed=3, batch=16, width=8, classes=4), CPU)
    plain, targets = model.batch_of(data, 5, ())
    slow, same = model.batch_of(data, 5, (problem,))
    assert torch.allclose(plain, slow, atol=1e-6) and torch.equal(targets, same)
    assert slow.dtype == torch.float32
    assert not torch.allclose(plain, model.batch_of(data, 6, ())[0])


def test_norms_of_all_gradients_are_written() -> None:
    network = model.Network(8, 1, 3, ())
    network(torch.randn(4, 8)).sum().backward()
    log = io.StringIO()
    model.write_norms(network, log, 7)
    lines = log.getvalue().splitlines()
    assert len(lines) == len(list(network.parameters())) and lines[0].startswith(
        "step 7: blocks.0.norm.weight"
    )


@pytest.mark.parametrize("problems", [*PROBLEMS, ",".join(PROBLEMS), "none"])
def test_problems_change_nothing_but_the_time(tmp_path: Path, problems: str) -> None:
    record = recorded(hunt, tmp_path, *SMALL, "--problems", problems)
    assert set(record["checks"]) == {"losses_match_improved", "loss_falls"}
    assert record["parameters"]["problems"] == sorted(set(problems.split(",")) - {"none"})
    assert len(record["results"]["losses"]) == 16 and len(record["results"]["step_host_ms"]) == 8


def test_variants_have_all_problems_or_none(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for variant, problems in (("baseline", sorted(PROBLEMS)), ("improved", [])):
        assert hunt.main([*SMALL, "--variant", variant, "--json", str(path)]) == 0
        assert json.loads(path.read_text())["parameters"]["problems"] == problems


def test_other_losses_fail_the_check() -> None:
    plain = Outcome([2.0, 1.0], [1.0], 1.0)
    name = "losses_match_improved"
    assert hunt.check(Outcome([2.0, 1.0 + hunt.TOLERANCE], [1.0], 1.0), plain)[name].passed
    assert not hunt.check(Outcome([2.0, 1.0 + 3 * hunt.TOLERANCE], [1.0], 1.0), plain)[name].passed
    assert not hunt.check(Outcome([2.0, float("nan")], [1.0], 1.0), plain)[name].passed
    assert not hunt.check(Outcome([2.0, 2.0], [1.0], 1.0), plain)["loss_falls"].passed


def test_rounding_near_a_loss_of_zero_is_no_difference() -> None:
    assert hunt.apart([4.0, 2e-5 + 2e-5], [4.0, 2e-5]) < hunt.TOLERANCE


@pytest.mark.parametrize("change", ["epsilon", "gelu", "batch"])
def test_another_formula_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slow way that computes something else, if only in the fourth place, is found."""
    if change == "epsilon":
        monkeypatch.setattr(model, "normalize_by_hand", lambda x, w, b: _normalized(x, w, b, 1e-3))
    elif change == "gelu":
        monkeypatch.setattr(model, "gelu_by_hand", lambda x: torch.nn.functional.gelu(x))
    else:
        monkeypatch.setattr(torch, "ones", lambda shape: torch.full(tuple(shape), 1.001))
    path = tmp_path / "r.json"
    hunt.main([*SMALL, *DEEP, "--problems", "tiny_ops,cpu_tensors", "--json", str(path)])
    assert not json.loads(path.read_text())["checks"]["losses_match_improved"]["passed"]


def _normalized(x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, epsilon)


def test_unknown_problems_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hunt.main(["--problems", "item,gremlin"])
    assert "gremlin: no such problem (item," in capsys.readouterr().err


@pytest.mark.gpu
def test_without_the_problems_the_loop_is_quicker_on_a_gpu(tmp_path: Path) -> None:
    times = {}
    for variant in hunt.VARIANTS:
        path = tmp_path / f"{variant}.json"
        assert hunt.main(["--variant", variant, "--ranges", "none", "--json", str(path)]) == 0
        times[variant] = json.loads(path.read_text())["results"]["per_step_ms"]
    assert times["baseline"] >= 1.5 * times["improved"]
