"""What the page on verdicts says of the captured cases is what the rules say of them today."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from labcode.bench import diagnosis
from labcode.store import repository_root


@pytest.mark.parametrize("held", ["h100", "h200"])
def test_the_cases_are_judged_as_the_page_says(tmp_path: Path, held: str) -> None:
    made = tmp_path / "judged.json"
    path = repository_root() / diagnosis.FOLDER / f"judged-{held}.json"
    diagnosis.main(held, show_aside=False, json_file=made, console=Console(quiet=True))
    now, kept = (json.loads(one.read_text(encoding="utf-8")) for one in (made, path))
    assert now["set"] == kept["set"] == held
    again = f"labcode bench diagnosis --set {held} --json benchmarks/diagnosis/judged-{held}.json"
    for found, told in zip(now["cases"], kept["cases"], strict=True):
        numbers = {key: (found["told"].pop(key), told["told"].pop(key)) for key in ("gain", "least", "most")}
        numbers |= {key: (found.pop(key), told.pop(key)) for key in ("gained", "again")}
        assert found == told, f"judge them again: {again}"
        for key, (one, other) in numbers.items():
            near = other if other is None else pytest.approx(other, rel=1e-6, abs=1e-9)
            assert one == near, f"{found['case']}: {key}; {again}"
