"""The reference of the API: plain signatures, and names that mean what their module imports."""

import pytest

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
