"""Our reports of the shipped captures against what nsys 2025.3 printed where they were made."""

import io
from functools import cache
from pathlib import Path

import pytest

from labcode import store
from labcode.analysis.stats.nsys.reports import TABLES, missing_data
from labcode.analysis.stats.writer import write
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source
from tests.golden.golden import Golden, as_nsys_writes, difference, load_golden

SET = store.SHIPPED_SET
SETS = Path(__file__).resolve().parents[2] / "captures"
HOW = f"where it was made: python3 tests/golden/make_golden.py captures/{SET} tests/golden/{SET}.tar.xz"


NOT_ASKED = {("llama_found", "eager")}  # recorded on a machine whose own nsys was not asked for reports


def exports() -> list[tuple[str, str]]:
    """Every capture of the shipped set that nsys made: (experiment, run)."""
    if not (SETS / SET / "manifest.json").is_file():
        return []
    captures = store.parse_manifest(store.load_json(SETS / SET / "manifest.json"), SETS / SET)
    return [
        (experiment.id, run)
        for experiment in captures.experiments.values()
        for run, record in experiment.runs.items()
        if any(file.name.startswith(f"{run}.sqlite") for file in record.files)
        and (experiment.id, run) not in NOT_ASKED
    ]


@cache
def golden() -> Golden:
    found = load_golden(SET)
    assert found is not None, f"tests/golden: no golden files of the set {SET}; make them {HOW}"
    return found


@cache
def export_path(experiment: str, run: str) -> Path:
    captures = store.parse_manifest(store.load_json(SETS / SET / "manifest.json"), SETS / SET)
    return captures.path_of(experiment, run)


EXPORTS = exports()


@pytest.mark.skipif(not EXPORTS, reason="no captures of nsys in this checkout")
@pytest.mark.parametrize(("experiment", "run"), EXPORTS)
def test_the_golden_files_are_of_this_very_export(experiment: str, run: str) -> None:
    about = golden().versions.get(f"{experiment}/{run}")
    assert about is not None, f"{experiment}/{run}: nsys was not asked about it; ask it {HOW}"
    assert about["sha256"] == store.file_sha256(export_path(experiment, run)), (
        f"{experiment}/{run}: captured anew; ask nsys again {HOW}"
    )


@pytest.mark.skipif(not EXPORTS, reason="no captures of nsys in this checkout")
@pytest.mark.parametrize(("experiment", "run"), EXPORTS)
def test_reports_are_those_of_nsys(experiment: str, run: str) -> None:
    wrong = []
    about = golden().versions[f"{experiment}/{run}"]
    without = about["without_rows"]
    opened = open_export(export_path(experiment, run))
    source = Source(opened)
    for name, table in TABLES.items():
        stream = io.StringIO()
        write(table(source), "csv", stream)
        ours = as_nsys_writes(stream.getvalue())
        expected = golden().files.get(f"{experiment}/{run}.{name}.csv")
        if expected is None:
            if name not in without:
                if not missing_data(source, name):
                    wrong.append(f"{name}: no golden file")
            elif len(ours) != 1:
                wrong.append(f"{name}: {len(ours) - 1} rows here, none of nsys")
            continue
        found = difference(ours, expected, about["long"].get(name))
        if found:
            wrong.append(f"{name}: {found}")
    source.close()
    assert not wrong, "\n".join(wrong)
