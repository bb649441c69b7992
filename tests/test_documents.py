"""Documents in JSON that commands print: each says the version of its schema first, and tables are arrays."""

import json
import re
from pathlib import Path

import pytest

from labcode.analysis.energy.summary import as_json
from labcode.capture.plan import Plan, document
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports.power.log import open_log
from tests.support.command import labcode

ROOT = Path(__file__).parents[1]
SET = ROOT / "captures" / "h200"
BEFORE, AFTER = (SET / "timeline_basics" / f"{name}.nsys.xz" for name in ("baseline", "improved"))
MORE = [SET / "timeline_basics" / f"exam_{name}.nsys.xz" for name in ("baseline", "improved")]
TRACE, OTHER = (SET / "torch_profiler" / f"{name}.trace.json.gz" for name in ("baseline", "improved"))
LAUNCHES, POWER = SET / "ncu_softmax" / "steps.ncu-rep.xz", SET / "energy_ranges" / "phases.power.json.xz"


PAGE = (ROOT / "book" / "reference" / "api" / "documents.md").read_text(encoding="utf-8")
DOCUMENTED = {
    row[0]: re.findall("`([^`]+)`", row[1])
    for row in re.findall(r"^\| (.+?) \| (`.+`) \|$", PAGE, re.MULTILINE)
}
GROUPS = ("--group", f"a={BEFORE},{MORE[0]}", "--group", f"b={AFTER},{MORE[1]}")
PRINTED = {
    "`labcode diagnose`: a timeline": ("diagnose", BEFORE),
    "`labcode diagnose`: a power log": ("diagnose", POWER),
    "`labcode diagnose`: a report of Nsight Compute": ("diagnose", LAUNCHES),
    "`labcode compare`: two timelines": ("compare", BEFORE, AFTER),
    "`labcode compare`: two power logs, or two folders of ranks": ("compare", POWER, POWER),
    "`labcode compare`: two reports of Nsight Compute": ("compare", LAUNCHES, LAUNCHES),
    "`labcode compare`: groups, or more than two files": ("compare", *GROUPS),
    "`labcode report`": ("report", BEFORE),
    "`labcode captures compare`": ("captures", "compare", "h100", "h200"),
}
ROWS = {
    "`labcode diagnose`: a timeline": {"verdicts": "`verdicts`"},
    "`labcode diagnose`: a power log": {"verdicts": "`verdicts`"},
    "`labcode compare`: two timelines": {"rows": "`rows` of two timelines"},
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_document_says_its_schema_first_and_has_the_members_that_are_documented(name):
    done = labcode(*PRINTED[name], "--format", "json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert next(iter(printed.items())) == ("schema", DOCUMENT_SCHEMA)
    assert list(printed) == DOCUMENTED[name]
    for member, rows in ROWS.get(name, {}).items():
        assert {frozenset(row) for row in printed[member]} == {frozenset(DOCUMENTED[rows])}


@pytest.mark.parametrize(
    "words", [("diagnose", TRACE), ("compare", TRACE, OTHER)], ids=lambda words: words[0]
)
def test_documents_on_traces_have_the_same_members(words):
    printed = json.loads(labcode(*words, "--format", "json").stdout)
    of = {"diagnose": "`labcode diagnose`: a timeline", "compare": "`labcode compare`: two timelines"}
    assert list(printed) == DOCUMENTED[of[words[0]]]


def test_so_do_those_of_energies_of_a_plan_and_of_the_machine():
    assert list(json.loads(as_json(open_log(POWER)))) == DOCUMENTED["`labcode energy --json`"]
    assert list(document(Plan("a", (), (), ()))) == DOCUMENTED["`labcode captures plan`"]
    probed = json.loads(labcode("doctor", "--json").stdout)
    assert next(iter(probed.items())) == ("schema", DOCUMENT_SCHEMA)
    assert list(probed) == DOCUMENTED["`labcode doctor --json`"]
    others = ("captures plan", "energy --json", "doctor --json", "bench diagnosis --json FILE")
    names = {*PRINTED, *(f"`labcode {name}`" for name in others)}
    assert {name for name in DOCUMENTED if name.startswith("`labcode")} == names


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
