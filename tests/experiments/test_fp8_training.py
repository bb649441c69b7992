"""Training with 8-bit matmuls: tokens of the table, gradients near bf16's, what is refused in one line."""

import json
import math
from pathlib import Path

import pytest

from labcode.errors import LabError

torch = pytest.importorskip("torch")
from labcode.experiments.compute.fp8_training import program as training  # noqa: E402

TINY = [
    "--device",
    "cpu",
    "--width",
    "32",
    "--layers",
    "1",
    "--heads",
    "2",
    "--context",
    "16",
    "--batch",
    "2",
    "--vocabulary",
    "16",
    "--steps",
    "12",
]


def test_tokens_follow_the_table() -> None:
    table = training.table_of(torch, 16, 3, "cpu")
    tokens = training.draw(torch, table, 64, 40, 4)
    assert tokens.shape == (64, 40)
    places = [
        (table[x, y] == z).nonzero().flatten().tolist()
        for row in tokens.tolist()
        for x, y, z in zip(row, row[1:], row[2:], strict=False)
    ]
    assert all(places)
    first = sum(0 in place for place in places) / len(places)
    assert 0.45 < first < 0.65  # half, and where a token stands twice in a row of the table more
    assert training.least_loss() == pytest.approx(1.75 * math.log(2))


@pytest.mark.parametrize("recipe", ["tensor", "rows"])
def test_gradients_are_those_of_bf16_but_for_rounding(recipe: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x, weight = (
        torch.randn(shape, generator=generator).bfloat16().requires_grad_()
        for shape in ((64, 128), (96, 128))
    )
    above = 1e-6 * torch.randn((64, 96), generator=generator).bfloat16()
    linear = training.linear_of(torch, training.products(torch, recipe, False))(weight)
    linear(x[None]).backward(above[None])
    found = (x.grad.double(), weight.grad.double())
    wanted = (above.double() @ weight.detach().double(), above.double().t() @ x.detach().double())
    for one, other in zip(found, wanted, strict=True):
        assert float((one - other).norm() / other.norm()) < 0.06


def test_without_scales_small_gradients_vanish() -> None:
    product = training.products(torch, "unscaled", False)
    above = 1e-6 * torch.ones((32, 32)).bfloat16()
    assert not bool(product(above, torch.ones((32, 32)).bfloat16()).any())


def test_every_recipe_runs_from_the_same_start(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    training.main([*TINY, "--json", str(path)])
    runs = json.loads(path.read_text())["results"]["runs"]
    assert [run["recipe"] for run in runs] == list(training.RECIPES)
    assert [run["layers"] for run in runs] == [0, 4, 4, 4]
    first = [run["losses"][0] for run in runs]
    assert max(first) - min(first) < 0.02
    assert runs[0]["steps"] == [0, 5, 10, 11]


@pytest.mark.parametrize("flags", [["--width", "40"], ["--heads", "3"], ["--context", "17"]])
def test_sizes_that_8_bits_cannot_take_are_one_line(flags: list[str]) -> None:
    with pytest.raises(LabError, match="the width must be a multiple of 16 and of the heads"):
        training.main([*TINY, *flags])
