"""The floors of the house: contracts that leave no package out, no circles, and a map that follows them."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]
LAYERS = {
    contract.get("containers", ["labcode"])[0]: contract for contract in CONTRACTS if "layers" in contract
}
EXPERIMENTS = r"labcode\.experiments\.(?!shared)"  # free of circles; a new folder writes no contract


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("labcode", cache_dir=None)


def circles(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """A way around, for each module from which one is found, starting where it was entered."""
    done: set[str] = set()

    def walk(one: str, way: list[str]) -> Iterator[list[str]]:
        if one in way:
            yield [*way[way.index(one) :], one]
        elif one not in done:
            for other in sorted(edges[one]):
                yield from walk(other, [*way, one])
            done.add(one)

    for one in sorted(edges):
        yield from walk(one, [])


def test_no_two_modules_import_each_other(graph: grimp.ImportGraph) -> None:
    """Wherever in the modules the imports stand: inside functions counts."""
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == [["b", "c", "b"]]
    assert list(circles({one: graph.find_modules_directly_imported_by(one) for one in graph.modules})) == []


def test_no_two_parts_of_a_package_import_each_other(graph: grimp.ImportGraph) -> None:
    """A part is a module or a package with all that is in it."""
    for package in graph.modules:
        parts = graph.find_children(package)
        edges: dict[str, set[str]] = {part: set() for part in parts}
        for part in parts:
            for module in {part, *graph.find_descendants(part)}:
                for other in graph.find_modules_directly_imported_by(module):
                    edges[part] |= {one for one in parts if f"{other}.".startswith(f"{one}.")} - {part}
        assert list(circles(edges)) == [], package


def test_every_package_has_floors(graph: grimp.ImportGraph) -> None:
    packages = {package for package in graph.modules if len(graph.find_children(package)) > 1}
    packages -= {package for package in packages if re.match(EXPERIMENTS, package)}
    assert sorted(packages - LAYERS.keys()) == [], "packages of several modules without a contract of layers"
    assert sorted(LAYERS.keys() - packages) == [], "contracts of packages that there are not"


def test_floors_name_what_there_is(graph: grimp.ImportGraph) -> None:
    for package, contract in LAYERS.items():
        names = [name for layer in contract["layers"] for name in re.split(r" [|:] ", layer)]
        whole = [name if name.startswith("labcode.") else f"{package}.{name}" for name in names]
        assert [name for name in whole if name not in graph.modules] == [], package
        assert len(set(names)) == len(names), package


@pytest.mark.parametrize("package", ["labcode", "labcode.analysis", "labcode.experiments", "labcode.figures"])
def test_every_part_has_its_floor(graph: grimp.ImportGraph, package: str) -> None:
    named = {name for layer in LAYERS[package]["layers"] for name in layer.split(" | ")}
    parts = {part.removeprefix(f"{package}.") for part in graph.find_children(package)}
    assert sorted(parts - {name.removeprefix(f"{package}.") for name in named}) == []


def map_of(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / ".ci" / "map"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_map_is_what_the_contracts_say() -> None:
    done = map_of(ROOT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_map_that_lies_is_told_and_written_again(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    for name in (".ci/map", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    guide = tmp_path / "CONTRIBUTING.md"
    right = guide.read_text(encoding="utf-8")
    contracts = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    assert '"pages", "charts"' in contracts
    (tmp_path / "pyproject.toml").write_text(contracts.replace('"pages", "charts"', '"charts", "pages"'))
    done = map_of(tmp_path, "--check")
    says = ".ci/map: CONTRIBUTING.md is not what the contracts say; run .ci/map\n"
    assert (done.returncode, done.stderr, guide.read_text(encoding="utf-8")) == (1, says, right)
    assert map_of(tmp_path).returncode == 0
    assert "charts → pages → timeline" in guide.read_text(encoding="utf-8")
    assert map_of(tmp_path, "--check").returncode == 0
    guide.write_text("no marks\n", encoding="utf-8")
    done = map_of(tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has not one of each mark" in done.stderr


def test_the_picture_shows_packages_that_there_are() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    picture = text.partition("```text\n")[2].partition("```")[0]
    inside = picture.partition("labcode/ ═")[2].partition("the ground")[0]
    names = set(re.findall(r"\b(\w+)/", inside)) - {"cuda", "exercises"}
    assert len(names) > 12
    assert sorted(name for name in names if not (ROOT / "labcode" / name / "__init__.py").is_file()) == []


def test_decisions_are_few_whole_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    pages = sorted(path.name for path in folder.glob("*.md") if path.name != "README.md")
    assert listed == pages
    assert 8 < len(pages) <= 15
    for name in pages:
        text = (folder / name).read_text(encoding="utf-8")
        parts = re.findall(r"^\*\*(.+?)\*?\*?(?:\.\*\*| when\*\*)", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "What else there was", "Look again"], name
        for path in re.findall(r"`((?:labcode|book|captures|tests)/[\w/.-]+)`", text):
            assert (ROOT / path).exists(), f"{name}: {path}"
