"""The calculator in the browser gives what the Python one gives."""

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labcode.analysis.kernel.occupancy import LIMITS, occupancy, tables
from labcode.book.sphinx.calculator import calculator_html

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


def test_the_directive_in_a_book(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser']\n"
        f"html_static_path = [{str(SCRIPT.parent)!r}]\n"
        "def setup(app):\n"
        "    from labcode.book.sphinx import calculator\n"
        "    calculator.register(app)\n"
    )
    directive = "```{occupancy-calculator}\n:threads: 128\n:cc: '8.6'\n```\n"
    (tmp_path / "index.md").write_text(f"# One\n\n{directive}\n```{{toctree}}\nother\n```\n")
    (tmp_path / "other.md").write_text("# Other\n")
    for builder in ("html", "text"):
        words = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", builder, tmp_path, tmp_path / builder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    page, other = ((tmp_path / "html" / name).read_text() for name in ("index.html", "other.html"))
    assert 'class="lab-occupancy"' in page and 'data-threads="128"' in page and "occupancy.js" in page
    assert "occupancy.js" not in other and "occupancy.css" not in other
    assert "open this page in the HTML" in (tmp_path / "text" / "index.txt").read_text()
