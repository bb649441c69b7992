"""The reference of the API: plain signatures, and names that mean what their module imports."""

import inspect

import pytest
from sphinx.ext.autodoc._dynamic import _signatures
from sphinx.pycode import ModuleAnalyzer

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


LIMIT = 3


def limited(most: int = LIMIT, *, least: int) -> int:
    return most + least


def unlimited(most: int) -> int:
    return most


def test_defaults_are_shown_as_written_and_no_line_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    source = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda thing: looked_up.append(thing) or source(thing))
    with api.looked_up_once():
        for function in (limited, unlimited):
            _signatures.update_default_value(function, False)
        analyzer = ModuleAnalyzer.for_string("LIMIT = 3  #: at most\n\ndef f() -> None: ...\n", "made.up")
        analyzer.analyze()
    assert str(inspect.signature(limited)) == "(most: int = LIMIT, *, least: int) -> int"
    assert str(inspect.signature(unlimited)) == "(most: int) -> int"
    assert set(looked_up) == {limited}
    assert (analyzer.attr_docs, analyzer.tags) == ({("", "LIMIT"): ["at most", ""]}, {})
