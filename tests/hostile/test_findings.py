"""What the campaign found that deserves a case of its own."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.ledger.ledger import MOST_GPUS
from labcode.analysis.ranks import heatmap
from labcode.analysis.ranks.run import open_run
from labcode.analysis.stats.table import Table, Texts
from labcode.analysis.stats.writer import write
from labcode.capture.scan import json_texts
from labcode.hardware import management
from tests.support import exports, histories
from tests.support import ncu as golden
from tests.support.command import labcode, one_line
from tests.support.programs import python_program


def test_what_is_scrubbed_keeps_a_name_that_tells_its_kind(tmp_path: Path) -> None:
    history = histories.write(tmp_path, histories.leaking())
    for file, ends in ((golden.path("few.ncu-rep"), ".ncu-rep"), (history, ".memory.json")):
        refused = one_line(labcode("scrub", file, "-o", tmp_path / "a", "--review"))
        assert f"name a file that ends in {ends}" in refused


def test_hundreds_of_gpus_are_told_and_the_busiest_judged(tmp_path: Path) -> None:
    count = MOST_GPUS + 6
    export = exports.make_export(
        tmp_path / "run.sqlite",
        kernels=[exports.kernel(100 + 10 * k, 105 + 10 * k, correlation=k, device=k) for k in range(count)],
        api=[exports.call(10 * k, 10 * k + 5, correlation=k) for k in range(count)],
    )
    shown = labcode("diagnose", export).stdout
    assert f"{count} GPUs, of which the {MOST_GPUS} busiest are judged" in shown


def test_a_run_of_a_few_nanoseconds_has_a_balance(tmp_path: Path) -> None:
    for rank in range(2):
        exports.make_export(tmp_path / f"run.rank{rank}.sqlite", kernels=[exports.kernel(100, 108)])
    with open_run(tmp_path, scheduler="here") as run:
        assert len(heatmap.balance(run)) > 0


def test_json_that_would_become_far_more_than_it_is() -> None:
    with pytest.raises(ValueError, match=r"20,000,000 values, which would take"):
        json_texts(b"[" + b"[]," * 20_000_000 + b"[]]")


def test_a_tool_that_prints_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python_program(tmp_path / "nvidia-smi", "print('y\\n' * 100_000)")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert management.read().problem == "nvidia-smi printed 100,000 lines; is it NVIDIA's?"


def test_json_of_rows_of_which_some_have_no_name() -> None:
    table: Table = {"Start": np.arange(3), "Name": Texts(np.array([0, -1, 1]), ["a", "b"])}
    shown = io.StringIO()
    write(table, "json", shown)
    assert [row["Name"] for row in json.loads(shown.getvalue())] == ["a", "", "b"]


def test_a_line_on_what_is_wrong_ends(tmp_path: Path) -> None:
    export = exports.make_export(tmp_path / "run.sqlite", kernels=[exports.kernel(100, 108)])
    said = one_line(labcode("stats", export, "--report", "x" * 50_000))
    assert len(said) < 4_100
    assert "labcode: " in said and " … " in said
