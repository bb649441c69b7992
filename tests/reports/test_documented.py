"""What the readers' docstrings say of their tables holds, and their examples are set as code."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from docutils import nodes
from docutils.core import publish_doctree

import labcode

ROOT = Path(labcode.__file__).parent.parent
CAPTURES = ["timeline_basics/baseline.nsys.xz", "torch_profiler/baseline.trace.json.gz"]
SHAPE = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")


def tables(report: object) -> Iterator[tuple[str, pd.DataFrame]]:
    """The methods of a report that give a table, with the table."""
    for name, method in inspect.getmembers(type(report), inspect.isfunction):
        if not name.startswith("_") and "DataFrame" in str(inspect.signature(method).return_annotation):
            yield name, getattr(report, name)()


def told(kind: type, name: str) -> str:
    """A method's docstring, with those that it points to."""
    text = inspect.getdoc(getattr(kind, name)) or ""
    points = [point.rpartition(".")[2] for point in re.findall(r"`([\w.]+)`", text)]
    more = [inspect.getdoc(getattr(kind, p)) or "" for p in points if p != name and hasattr(kind, p)]
    return " ".join([text, *more])


@pytest.mark.parametrize("capture", CAPTURES)
def test_docstrings_name_every_column_and_what_may_be_missing(capture: str) -> None:
    report = labcode.open(ROOT / "captures" / "h200" / capture)
    for name, table in tables(report):
        if name == "graph_launches":  # of a trace it points to the other reader's
            continue
        text = told(type(report), name)
        text = text.replace("grid_x … block_z", " ".join(SHAPE)).replace(
            "start_ns … correlation", "start_ns end_ns pid device context stream correlation"
        )
        words = set(re.findall(r"\w+", text))
        assert set(table.columns) <= words, (name, set(table.columns) - words)
        if "Int64" in {str(dtype) for dtype in table.dtypes}:
            assert "Int64" in words, name


def docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "labcode").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path.relative_to(ROOT)}:{getattr(node, 'name', '')}", text


def test_indented_examples_are_code() -> None:
    """Without ``::`` before it, an indented example would be set as prose."""
    quoting = [(where, text) for where, text in docstrings() if re.search(r"\n\n {2,}\S", text)]
    assert len(quoting) > 10
    quiet = {"report_level": 5, "halt_level": 6}
    prose = [
        where
        for where, text in quoting
        if any(publish_doctree(text, settings_overrides=quiet).findall(nodes.block_quote))
    ]
    assert prose == []
