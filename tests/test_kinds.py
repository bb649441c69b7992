"""How often the house asks of which kind a file is, and what it loads for one: records that only fall."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from labcode.analysis.rules.registry import GROUPS
from labcode.reports import FORMATS, Kind
from tests.support.exports import call, kernel, make_export

LABCODE = Path(__file__).resolve().parent.parent / "labcode"
CLASSES = {
    *("NsysReport", "KinetoReport", "NcuReport", "MemoryHistory", "PowerLog", "Launch", "Run", "TraceTables"),
    *("TimelineReport", "LaunchesReport", "MemoryReport", "PowerReport"),
}
ASKING = {*CLASSES, *(f'"{kind}"' for kind in get_args(Kind))}  # without these words nobody asks
ASKED = 12  # a record: whoever asks less often lowers it; what a format can is declared in `labcode.reports`
LOADED = 80  # modules of the lab, without the command line: a record, too


def questions(tree: ast.AST) -> Iterator[ast.AST]:
    """`isinstance` of a report, a comparison of a kind with a format's name, a case of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            if _names(node) & CLASSES:
                yield node
        elif isinstance(node, ast.Compare) and _words(node) & set(get_args(Kind)):
            if any("kind" in name for name in _names(node)):
                yield node
        elif isinstance(node, ast.MatchValue) and _words(node) & set(get_args(Kind)):
            yield node


def _names(node: ast.AST) -> set[str]:
    return {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node)}


def _words(node: ast.AST) -> set[str]:
    values = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return {value for value in values if isinstance(value, str)}


def test_the_counter_counts() -> None:
    code = """
if isinstance(report, NsysReport | int) or report.kind == "power" or one_kind in ("ncu", "nsys"):
    match report.kind:
        case "ranks": ...
        case "copy": ...
if isinstance(report, str) or kind == "kernel" or word == "power" or kind in TIMELINES: ...
"""
    assert len(list(questions(ast.parse(code)))) == 4


def test_kinds_are_asked_for_no_more_often() -> None:
    asked: dict[str, int] = {}
    for path in sorted(LABCODE.rglob("*.py")):
        roofs = path.name == "roofline.py"  # which are of memory, too
        if path.relative_to(LABCODE).parts[0] != "reports" and not roofs:
            text = path.read_text(encoding="utf-8")
            found = sum(1 for _ in questions(ast.parse(text))) if any(word in text for word in ASKING) else 0
            asked |= {str(path.relative_to(LABCODE)): found} if found else {}
    assert sum(asked.values()) <= ASKED, asked


def test_what_diagnose_reads_has_rules_and_nothing_else_has() -> None:
    assert tuple(FORMATS) == get_args(Kind)
    for kind, one in FORMATS.items():
        assert one.kind == kind and bool(one.rules) == bool(one.diagnose) and set(one.rules) <= GROUPS.keys()


def test_a_report_on_a_capture_loads_no_other_format(tmp_path: Path) -> None:
    """What a format and a command need is declared by import path, and is imported when it is asked for."""
    file = make_export(tmp_path / "a.sqlite", kernels=[kernel(10, 20, correlation=1)], api=[call(0, 5)])
    code = "import sys; from labcode.verbs.report.page import write_report; from pathlib import Path\n"
    code += f"write_report([Path({str(file)!r})], Path({str(tmp_path / 'a.html')!r}))\n"
    code += "print(*(name for name in sys.modules if name.startswith('labcode')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    others = ("kineto", "ncu", "memory", "power")
    parts = [f"labcode.{floor}.{one}" for floor in ("reports", "analysis.rules") for one in others]
    assert [name for name in loaded for part in parts if f"{name}.".startswith(f"{part}.")] == []
    assert len(loaded) <= LOADED, loaded
