"""`labcode.show` alone escapes, draws tables on a terminal and writes CSV: nobody else imports what does."""

import ast
from pathlib import Path

LABCODE = Path(__file__).resolve().parents[2] / "labcode"
OF_SHOW = {"html.escape", "rich.markup.escape", "csv.writer", "csv.DictWriter"}
METHODS = {"to_markdown", "to_html", "to_latex"}
CSV = {"reports/nsys/export.py"}  # tables of an export as files, for programs


def elsewhere(path: Path, source: str) -> list[str]:
    """What a module uses that is the business of `labcode.show`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{one.name}" for one in node.names}
            found += sorted(names & OF_SHOW)
        elif isinstance(node, ast.Attribute):
            whole = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
            csv = node.attr == "to_csv" and path.relative_to(LABCODE).as_posix() not in CSV
            found += [whole or node.attr] * (whole in OF_SHOW or node.attr in METHODS or csv)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Table":
            found += ["rich.table.Table"] * ("from rich.table import Table" in source)
    return found


def test_the_search_finds() -> None:
    code = """
from html import escape
from rich.table import Table
import html, csv
Table(box=None); html.escape(a); csv.writer(b); table.to_csv(c); table.to_html(); html.unescape(d)
"""
    assert len(elsewhere(LABCODE / "a.py", code)) == 6


def test_nothing_else_escapes_or_draws_tables() -> None:
    paths = [path for path in LABCODE.rglob("*.py") if path.parent.name != "show"]
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    found = {str(path.relative_to(LABCODE)): elsewhere(path, text) for path, text in sources.items()}
    assert not {name: what for name, what in found.items() if what}
