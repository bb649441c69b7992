"""A set that lacks an experiment: every page's cells still run, and claims know what is not the set's own."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labcode import store
from tests.book import cells

# what opens a capture, a way of borrowing each
_OPENERS = re.compile(
    r"\bbook\.(capture|launches|trace|power|memory|record|holder|metered|recorded|unrecorded|traced|counted)\("
)
_USED = re.compile(r"^```\{captures-used\} (.*)$", re.MULTILINE)
# cells that open sets themselves
_AROUND = re.compile(r"\btwo_sets\.|\bstore\.\w*(?:set|holder|claims)|\bcaptures/\w")
SHIPPED = Path(__file__).parents[2] / "captures" / store.SHIPPED_SET


@cache
def used() -> Mapping[str, tuple[str, ...]]:
    """The experiments of the shipped set that each page opens, by the page's name."""
    found, held = {}, json.loads((SHIPPED / "manifest.json").read_text())["experiments"]
    for path in sorted(cells.PAGES.rglob("*.md")):
        page = path.relative_to(cells.PAGES).with_suffix("").as_posix()
        if cells.cells(page):
            names = " ".join(_USED.findall(path.read_text(encoding="utf-8"))).split()
            found[page] = tuple(name for name in names if name in held)
    return found


COMPUTED = {"attention-online-exact", "attention-half-sum"}  # by the page's own cells, from no capture


@cache
def size_bytes(page: str) -> int:
    experiments = json.loads((SHIPPED / "manifest.json").read_text())["experiments"]
    runs = [run for name in used()[page] for run in experiments[name]["runs"].values()]
    return sum(int(file["bytes"]) for run in runs for file in run["files"].values())


def cases() -> Iterator[Any]:
    """Pages that read little and together open captures in every way; each page that opens sets by itself,
    with all of its own. At night, pages that read little and together use every experiment.
    """
    ways = {page: {*_OPENERS.findall("".join(cells.cells(page)))} for page in used()}
    for page, _ in covering(ways):
        yield page, used()[page]
    for page, names in used().items():
        if any(_AROUND.search(cell) for cell in cells.cells(page)):
            yield page, names
    for page, new in covering({page: {*names} for page, names in used().items()}):
        yield pytest.param(page, tuple(sorted(new)), marks=pytest.mark.slow)


def covering(held: Mapping[str, set[str]]) -> Iterator[tuple[str, set[str]]]:
    """Pages that read little and together hold all that any holds; each with what no page before has."""
    left = {name for names in held.values() for name in names}
    while left:
        page = min(
            (page for page, names in held.items() if left & names),
            key=lambda page: size_bytes(page) / len(left & held[page]),
        )
        yield page, left & held[page]
        left -= held[page]


@pytest.mark.parametrize(("page", "hidden"), list(cases()))
def test_pages_run_without(
    page: str, hidden: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = json.loads((SHIPPED / "manifest.json").read_text())
    held = {*manifest["experiments"]}
    for experiment in hidden:
        del manifest["experiments"][experiment]
    partial = tmp_path / "partial"
    partial.mkdir()
    (partial / "manifest.json").write_text(json.dumps(manifest))
    for name in manifest["experiments"]:
        (partial / name).symlink_to(SHIPPED / name)
    for other in SHIPPED.parent.iterdir():
        (tmp_path / other.name).symlink_to(other)
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    shown = cells.run(page, "partial", monkeypatch)
    assert [one["claim"] for one in shown if not one["claim"]["holds"]] == []
    borrowed = {name for one in shown for name in one["borrowed"]}
    assert {name for name in borrowed if name in held} <= {*hidden}
    if {*hidden} == {*used()[page]}:
        bound = [one for one in shown if one["claim"]["bound"] and one["claim"]["key"] not in COMPUTED]
        assert all(one["borrowed"] for one in bound)
