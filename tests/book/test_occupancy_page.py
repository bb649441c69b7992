"""The calculator in the browser gives what the Python one gives."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labcode.analysis.occupancy import LIMITS, occupancy, tables
from labcode.book.calculator import calculator_html

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "book" / "_static" / "occupancy.js"


def _cases() -> list[tuple[str, int, int, int]]:
    chance = random.Random(2)
    return [
        (cc, chance.randint(1, 1024), chance.randint(0, 255), chance.choice((0, chance.randint(0, 240_000))))
        for cc in LIMITS
        for _ in range(400)
    ]


def test_the_container_holds_the_tables() -> None:
    html = calculator_html("9.0", threads=256, registers=64, shared_bytes=0)
    found = re.search(r'<script type="application/json">(.*?)</script>', html)
    assert found is not None and json.loads(found.group(1)) == json.loads(json.dumps(tables()))
    assert 'data-cc="9.0"' in html and "<noscript>" in html


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script")
def test_script_and_python_agree(tmp_path: Path) -> None:
    cases = _cases()
    (tmp_path / "tables.json").write_text(json.dumps(tables()))
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    words = ["node", HERE / "occupancy_check.js", SCRIPT, tmp_path / "tables.json", tmp_path / "cases.json"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    answers = json.loads(text)
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        ours = occupancy(*case)
        got = (answer["blocks"], answer["warps"], answer["limits"], answer["registersPerThread"])
        assert got == (ours.blocks, ours.warps, dict(ours.limits), ours.registers_per_thread), case
        assert answer["share"] == pytest.approx(ours.share) and tuple(answer["limiters"]) == ours.limiters
        assert answer["sharedPerBlock"] == ours.shared_per_block
