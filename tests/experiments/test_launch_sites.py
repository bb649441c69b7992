"""Launch sites: the two ways of each pair give the same, with the same gradients, and the record says so."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from labcode.errors import LabError  # noqa: E402
from labcode.experiments.advanced.launch_sites import model  # noqa: E402
from labcode.experiments.advanced.launch_sites import program as launch_sites  # noqa: E402
from labcode.experiments.advanced.launch_sites.program import HIDDEN, Outcome  # noqa: E402
from tests.support.records import recorded  # noqa: E402

SHAPE = model.Shape(length=12, width=16, heads=4, layers=2, tokens=20)
SMALL = [
    *("--device", "cpu", "--batch", "4", "--length", "16", "--width", "32", "--heads", "4", "--layers", "2"),
    *("--tokens", "24", "--warmup", "16", "--steps", "8"),
]


def test_window_of_the_table_is_the_bias_of_each_distance() -> None:
    table = torch.arange(2 * 5 - 1, dtype=torch.float64)[:, None] * torch.tensor([1.0, 10.0])
    for bias_of in (model.bias_by_index, model.bias_by_window):
        bias = bias_of(table, 5)
        assert bias.shape == (2, 5, 5)
        for row in range(5):
            for column in range(5):
                assert bias[1, row, column] == 10 * (column - row + 4)


def test_both_biases_have_the_same_gradient() -> None:
    weights = torch.rand(3, 7, 7, dtype=torch.float64)
    gradients = []
    for bias_of in (model.bias_by_index, model.bias_by_window):
        table = torch.rand(13, 3, dtype=torch.float64, requires_grad=True)
        (bias_of(table, 7) * weights).sum().backward()
        gradients.append(table.grad)
    assert torch.allclose(*gradients)


def test_both_marks_are_rows_of_the_table_with_the_same_gradient() -> None:
    kinds, weights = torch.tensor([[0, 2, 2], [1, 0, 0]]), torch.rand(2, 3, 5, dtype=torch.float64)
    gradients = []
    for marks_of in (model.marks_by_index, model.marks_by_product):
        table = torch.arange(15, dtype=torch.float64).reshape(3, 5).requires_grad_()
        marks = marks_of(table, kinds)
        assert marks[0, 1].tolist() == [10, 11, 12, 13, 14] and marks[1, 0].tolist() == [5, 6, 7, 8, 9]
        (marks * weights).sum().backward()
        gradients.append(table.grad)
    assert torch.allclose(*gradients)


def test_most_places_are_of_the_first_kind_and_all_kinds_occur() -> None:
    texts, _ = model.make_texts(replace(SHAPE, tokens=64), batch=8, steps=3, seed=5)
    kinds = model.kinds_of(texts, 4)
    assert set(kinds.unique().tolist()) == {0, 1, 2, 3}
    assert 0.6 < (kinds == 0).float().mean() < 1


def test_attention_by_head_is_that_of_all_heads_and_of_torch() -> None:
    query, key, value = (torch.rand(2, 4, 6, 8, dtype=torch.float64) for _ in range(3))
    bias = torch.rand(4, 6, 6, dtype=torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    assert torch.allclose(model.attend(query, key, value, bias), expected)
    assert torch.allclose(model.attend_by_head(query, key, value, bias), expected)


def test_losses_leave_out_what_does_not_count() -> None:
    logits = torch.rand(2, 3, 5, dtype=torch.float64)
    targets = torch.tensor([[1, 2, model.IGNORED], [4, model.IGNORED, model.IGNORED]])
    shares = torch.log_softmax(logits, dim=2)
    expected = -(shares[0, 0, 1] + shares[0, 1, 2] + shares[1, 0, 4]) / 3
    for loss_of in (model.loss_of_chosen, model.loss_with_ignored):
        assert torch.allclose(loss_of(logits, targets), expected)


def test_norms_are_that_of_all_gradients_in_one_vector() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((3, 4), (5,), (2, 2))]
    for parameter in parameters[:2]:
        parameter.grad = torch.rand(parameter.shape)
    expected = torch.cat([p.grad.flatten() for p in parameters[:2]]).norm()
    assert torch.allclose(model.norm_by_parameter(parameters), expected)
    assert torch.allclose(model.norm_together(parameters), expected)


def test_texts_follow_a_rule_and_end() -> None:
    texts, targets = model.make_texts(SHAPE, batch=8, steps=3, seed=5)
    assert texts.shape == targets.shape == (3, 8, SHAPE.length)
    counts = targets != model.IGNORED
    assert counts[:, :, : SHAPE.length // 2].all() and not counts.all()
    assert (counts[:, :, :-1] >= counts[:, :, 1:]).all(), "only the ends do not count"
    inside = counts[:, :, :-1]
    assert (targets[:, :, :-1] == texts[:, :, 1:])[inside].all()
    followers = [targets[counts & (texts == token)].bincount() for token in range(SHAPE.tokens)]
    usual = sum(int(f.max()) for f in followers if len(f)) / sum(int(f.sum()) for f in followers)
    assert 0.8 < usual < 1


@pytest.mark.parametrize("hidden", [*HIDDEN, ",".join(HIDDEN), "none"])
def test_hidden_ways_change_nothing_but_the_time(tmp_path: Path, hidden: str) -> None:
    record = recorded(launch_sites, tmp_path, *SMALL, "--hidden", hidden)
    assert set(record["checks"]) == {"losses_match_improved", "norms_match_improved", "loss_falls"}
    assert record["parameters"]["hidden"] == sorted(set(hidden.split(",")) - {"none"})
    assert len(record["results"]["losses"]) == 24 and len(record["results"]["step_host_ms"]) == 8


def test_variants_differ_in_what_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for variant, hidden in (("baseline", ["marks", "norms"]), ("improved", [])):
        assert launch_sites.main([*SMALL, "--variant", variant, "--json", str(path)]) == 0
        assert json.loads(path.read_text())["parameters"]["hidden"] == hidden


def test_a_way_that_computes_something_else_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(table: torch.Tensor, length: int) -> torch.Tensor:
        return model.bias_by_window(table, length) + torch.arange(length)

    monkeypatch.setattr(model, "bias_by_index", wrong)
    assert launch_sites.main([*SMALL, "--hidden", "bias"]) == 1
    assert "check losses_match_improved failed" in capsys.readouterr().err


def test_not_a_number_fails_the_check() -> None:
    bad = Outcome([2.0, math.nan], [1.0, 1.0], [1.0], 1.0)
    good = Outcome([2.0, 1.0], [1.0, 1.0], [1.0], 1.0)
    assert not launch_sites.check(bad, good)["losses_match_improved"].passed
    assert not launch_sites.check(bad, good)["loss_falls"].passed
    assert launch_sites.check(good, good)["losses_match_improved"].passed


def test_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(LabError, match="--width 30 is no multiple of --heads 4; choose one that is"):
        launch_sites.main(["--device", "cpu", "--width", "30", "--heads", "4"])


def test_unknown_way_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        launch_sites.main(["--device", "cpu", "--hidden", "bias,luck"])
    assert "luck: no such way (marks, bias, norms, heads, mask)" in capsys.readouterr().err


def test_gpu_with_too_little_memory_is_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 20, 1 << 30))
    with pytest.raises(LabError, match=r"1 MiB free .* choose a smaller --batch or --length"):
        launch_sites.main([])


@pytest.mark.gpu
def test_variants_on_the_gpu_give_the_same_and_improved_is_faster(tmp_path: Path) -> None:
    times = SimpleNamespace()
    for variant in ("baseline", "improved"):
        path = tmp_path / f"{variant}.json"
        assert launch_sites.main(["--variant", variant, "--json", str(path)]) == 0
        setattr(times, variant, json.loads(path.read_text())["results"]["per_step_ms"])
    assert times.improved < times.baseline
