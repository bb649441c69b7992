"""The calculators in the browser give what the Python ones give, and start from what the page measured."""

import json
import math
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labcode.analysis.arithmetic import CALCULATORS
from labcode.book import calculators, display
from labcode.book.calculators import SHOWN, Input
from labcode.book.pages import recorded, unrecorded

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "book" / "_static" / "calculators.js"
ROOF = {"intensity": 1.0, "peak": 67.0, "bandwidth": 4800.0}


def _drawn(chance: random.Random, given: Input) -> float:
    if given.log:
        value = math.exp(chance.uniform(math.log(given.low), math.log(given.high)))
    else:
        value = chance.uniform(given.low, given.high)
    value = round(value / given.step) * given.step if given.step else value
    return min(max(value, given.low), given.high)


def _cases(count: int = 60) -> list[tuple[str, dict[str, float]]]:
    chance = random.Random(7)
    return [
        (kind, {given.key: _drawn(chance, given) for given in one.inputs})
        for kind, one in SHOWN.items()
        for _ in range(count)
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script")
def test_script_and_python_agree(tmp_path: Path) -> None:
    cases = _cases()
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    words = ["node", HERE / "calculators_check.js", SCRIPT, tmp_path / "cases.json"]
    answers = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert len(answers) == len(cases)
    for (kind, inputs), answer in zip(cases, answers, strict=True):
        ours = CALCULATORS[kind](inputs)
        assert answer.keys() == ours.keys()
        assert answer == pytest.approx(ours, rel=1e-3 if kind == "queue" else 1e-9), (kind, inputs)


@pytest.mark.parametrize("kind", SHOWN)
def test_what_is_shown_is_what_is_computed(kind: str) -> None:
    one = SHOWN[kind]
    inputs = {given.key: math.sqrt(max(given.low, 1e-3) * given.high) for given in one.inputs}
    found = CALCULATORS[kind](inputs)
    assert {out.key for out in one.outputs} == found.keys()
    assert one.curve[0] in inputs and one.curve[1] in found
    assert all(given.low > 0 for given in one.inputs if given.log)


def test_each_calculator_is_on_a_page() -> None:
    book = "".join(page.read_text(encoding="utf-8") for page in SCRIPT.parents[1].rglob("*.md"))
    assert set(re.findall(r"book\.calculator\(\"(\w+)\"", book)) == set(SHOWN)
    assert "```{occupancy-calculator}" in book


def test_known_answers() -> None:
    assert CALCULATORS["roofline"](ROOF)["attainable"] == pytest.approx(4.8)
    assert CALCULATORS["scaling"]({"count": 8, "serial": 0.1, "crosstalk": 1e-7})["amdahl"] == pytest.approx(
        8 / 1.7
    )
    busy = CALCULATORS["queue"]({"load": 0.5, "mean_ms": 10.0, "variation": 0.0})
    assert busy["wait_ms"] == pytest.approx(5.0)  # M/D/1
    paid = CALCULATORS["joules"]({"watts": 700.0, "tokens_per_s": 1000.0, "load": 0.5, "idle_watts": 100.0})
    assert paid["token_mj"] == pytest.approx(800.0) and paid["kwh"] == pytest.approx(0.8 / 3.6)


def test_a_calculator_starts_from_what_the_page_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict] = []
    monkeypatch.setattr(display, "show", shown.append)
    calculators.calculator("roofline", {"H200": ROOF, "H100": ROOF | {"bandwidth": 3350.0}})
    content = shown[0][display.CALCULATOR_MIME]
    data = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', content["html"])[0])
    assert list(data["presets"]) == ["H200", "H100"] and data["presets"]["H200"]["peak"] == 67.0
    assert "attainable 4.8 TFLOP/s" in shown[0]["text/plain"] and "<noscript>" in content["html"]


def test_a_calculator_tells_which_gpu_it_has_nothing_of(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict] = []
    monkeypatch.setattr(display, "show", shown.append)
    calculators.calculator("roofline", {"H200": ROOF}, unmeasured=["H100"])
    calculators.calculator("roofline", {"H200": ROOF})
    said = ["Not measured on the H100." in one[display.CALCULATOR_MIME]["html"] for one in shown]
    assert said == [True, False]


def test_what_one_set_lacks_is_known_by_its_gpu() -> None:
    assert unrecorded("ceilings", "record") == []
    lacks = unrecorded("scaling_collectives", "sweep")
    assert lacks == [] or lacks == ["H100"]
    assert set(recorded("scaling_collectives", "sweep")) | set(lacks) == {"H100", "H200"}


@pytest.mark.parametrize(
    ("presets", "said"),
    [
        ({}, "nothing to start from"),
        ({"H200": {"peak": 1.0}}, "H200 gives peak"),
        ({"H200": ROOF | {"peak": 1e9}}, r"H200: peak=1e\+09"),
    ],
)
def test_a_preset_that_does_not_fit_is_told(presets: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        calculators.calculator("roofline", presets)
