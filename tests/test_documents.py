"""Documents in JSON that commands print: each says the version of its schema first, and tables are arrays."""

import json
import re
from pathlib import Path

import pytest

from labcode.analysis.energy.summary import as_json
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports.power.log import open_log
from tests.support.command import labcode

ROOT = Path(__file__).parents[1]
SET = ROOT / "captures" / "h200"
BEFORE, AFTER = (SET / "timeline_basics" / f"{name}.nsys.xz" for name in ("baseline", "improved"))
MORE = [SET / "timeline_basics" / f"exam_{name}.nsys.xz" for name in ("baseline", "improved")]
TRACE, OTHER = (SET / "torch_profiler" / f"{name}.trace.json.gz" for name in ("baseline", "improved"))
LAUNCHES, POWER = SET / "ncu_softmax" / "steps.ncu-rep.xz", SET / "energy_ranges" / "phases.power.json.xz"


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", BEFORE),
        ("diagnose", TRACE),
        ("diagnose", POWER),
        ("diagnose", LAUNCHES),
        ("compare", BEFORE, AFTER),
        ("compare", TRACE, OTHER),
        ("compare", POWER, POWER),
        ("compare", LAUNCHES, LAUNCHES),
        ("compare", "--group", f"a={BEFORE},{MORE[0]}", "--group", f"b={AFTER},{MORE[1]}"),
        ("report", BEFORE),
        ("captures", "compare", "h100", "h200"),
    ],
    ids=lambda words: " ".join(str(getattr(word, "name", word)).partition("=")[0] for word in words),
)
def test_a_document_says_its_schema_first(words):
    done = labcode(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert next(iter(json.loads(done.stdout).items())) == ("schema", DOCUMENT_SCHEMA)


def test_so_does_that_of_energies():
    assert json.loads(as_json(open_log(POWER)))["schema"] == DOCUMENT_SCHEMA


def test_a_table_is_an_array_and_several_are_an_object_of_them():
    one = labcode("stats", BEFORE, "-r", "cuda_gpu_kern_sum", "-f", "json")
    assert isinstance(json.loads(one.stdout)[0], dict)
    two = json.loads(labcode("stats", BEFORE, "-r", "cuda_gpu_kern_sum,cuda_api_sum", "-f", "json").stdout)
    assert [type(rows) for rows in two.values()] == [list, list]


def test_what_is_written_of_documents_names_commands_that_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"A document \(([^)]+)\) is an\nobject whose `schema`", text)
    assert found
    for name in re.findall(r"`([^`]+)`", found[1]):
        assert labcode(*name.split(), "--help").returncode == 0, name
