"""The reference of the API: plain signatures, and names that mean what their module imports."""

import pytest
import sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.pycode.parser import Parser

from labcode.book.sphinx import api


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(n: Annotated[int, <typer.models.OptionInfo object at 0x7f00>] = 12)", "(n: int = 12)"),
        (
            "(only: ~types.Annotated[list[str] | None, <typer.models.OptionInfo object at 0x7f>] = None)",
            "(only: list[str] | None = None)",
        ),
        (
            "(p: ~pathlib.Annotated[~pathlib.Path, <typer.models.ArgumentInfo object at 0x1>])",
            "(p: ~pathlib.Path)",
        ),
        ("(x: dict[str, int])", "(x: dict[str, int])"),
    ],
)
def test_signatures_hold_no_addresses(before: str, after: str) -> None:
    assert api.plain(before) == after


def test_a_name_means_what_its_module_imports() -> None:
    found = ["labcode.experiments.serving.inference.speculate.Table", "labcode.book.tables.Table"]
    assert api.meant("Table", found, {"Table": "labcode.book.tables.Table"}) == found[1]
    assert api.meant("Table", found, {"Table": "labcode.book.Table"}) == found[1]
    assert api.meant("Table", found, {"Table": "labcode.show.Table"}) is None
    assert api.meant("Table", found, {}) is None


def test_imports_are_read_without_running_anything() -> None:
    assert api.imports("labcode.book.sphinx.api")["Path"] == "pathlib.Path"
    assert api.imports("labcode.no_such_module") == {}


def analyzed() -> ModuleAnalyzer:
    analyzer = ModuleAnalyzer.for_string("LIMIT = 3  #: at most\n\ndef f() -> None: ...\n", "made.up")
    analyzer.analyze()
    return analyzer


def test_no_lines_are_looked_up() -> None:
    with api.without_lines():
        analyzer = analyzed()
    assert analyzer.attr_docs == {("", "LIMIT"): ["at most", ""]}
    assert analyzer.tags == {}, (
        f"Sphinx {sphinx.__version__} looks for the lines of definitions in another way: the book is "
        "built a few seconds slower until `labcode.book.sphinx.api.without_lines` replaces what does that now"
    )
    assert set(analyzed().tags) == {"f"}  # which proves that it does without


def test_another_sphinx_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Parser, "parse_definition")
    with api.without_lines():
        assert not hasattr(Parser, "parse_definition")
