"""A set that lacks an experiment: every page's cells still run, and claims know what is not the set's own."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from labcode import store
from tests.book import cells

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


def cases() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Pages that read little and together use every experiment, each with those that no page before uses; and
    each page that opens sets by itself with all of its own.
    """
    left = {name for names in used().values() for name in names}
    while left:
        page = min(
            (page for page, names in used().items() if left & {*names}),
            key=lambda page: size_bytes(page) / len(left & {*used()[page]}),
        )
        yield page, tuple(sorted(left & {*used()[page]}))
        left -= {*used()[page]}
    for page, names in used().items():
        if any(_AROUND.search(cell) for cell in cells.cells(page)):
            yield page, names


@pytest.mark.parametrize(("page", "hidden"), list(cases()), ids=str)
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
