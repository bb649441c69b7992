"""What the page on verdicts says of the captured cases is what the rules say of them today."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from labcode.bench import diagnosis
from labcode.store import repository_root

KEPT = repository_root() / diagnosis.FOLDER / "judged-h100.json"


@pytest.mark.slow
def test_the_cases_are_judged_as_the_page_says(tmp_path: Path) -> None:
    made = tmp_path / "judged.json"
    diagnosis.main("h100", show_aside=False, json_file=made, console=Console(quiet=True))
    now, kept = (json.loads(path.read_text(encoding="utf-8")) for path in (made, KEPT))
    assert now["set"] == kept["set"] == "h100"
    again = "labcode bench diagnosis --set h100 --json benchmarks/diagnosis/judged-h100.json"
    for found, told in zip(now["cases"], kept["cases"], strict=True):
        numbers = {key: (found["told"].pop(key), told["told"].pop(key)) for key in ("gain", "least", "most")}
        numbers |= {key: (found.pop(key), told.pop(key)) for key in ("gained", "again")}
        assert found == told, f"judge them again: {again}"
        for key, (one, other) in numbers.items():
            near = other if other is None else pytest.approx(other, rel=1e-6, abs=1e-9)
            assert one == near, f"{found['case']}: {key}; {again}"
