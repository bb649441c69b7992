"""Long tests whose outcome follows from a few files: at night, and in each change to one of these files.

``tests/settled.toml`` names the tests, the files, and a digest of those under which the tests have passed.
``python -m tests.support.settled`` runs what is not settled, and notes the digests where all pass.
"""

import ast
import functools
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from labcode.freshness import expand, file_digest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "settled.toml"


@dataclass(frozen=True)
class Group:
    """Tests (their ids without parameters), what they depend on, and with what they have passed."""

    tests: tuple[str, ...]
    sources: tuple[str, ...]  # paths or globs
    importing: tuple[str, ...]  # Python files, of which all that they import counts, too
    passed: str

    @property
    def digest(self) -> str:
        """Of the sources as they are, and of the list of tests."""
        paths = expand(sorted({*self.sources, *imported(self.importing)}), ROOT)
        found = [(path.relative_to(ROOT).as_posix(), _content(path)) for path in paths]
        return hashlib.sha256(repr((self.tests, found)).encode()).hexdigest()[:32]


def groups() -> list[Group]:
    """What the file lists."""
    read = tomllib.loads(FILE.read_text(encoding="utf-8"))["group"]
    keys = ("tests", "sources", "importing")
    return [Group(*(tuple(one.get(key, ())) for key in keys), one["passed"]) for one in read]


def among(names: Collection[str]) -> set[str]:
    """Those of some tests that have passed with what they depend on."""
    asked = [(set(group.tests).intersection(names), group) for group in groups()]
    return {name for found, group in asked if found and group.digest == group.passed for name in found}


def imported(files: Iterable[str]) -> set[str]:
    """Python files and all files of this repository that they import, directly or not."""
    left, found = list(files), set[str]()
    while left:
        file = left.pop()
        if file in found:
            continue
        found.add(file)
        left += _imports(ROOT / file)
    return found


@functools.cache
def _imports(path: Path) -> list[str]:
    """The files that a module imports."""
    return [file for name in _names(path.read_text(encoding="utf-8")) for file in _files(name)]


@functools.cache
def _content(path: Path) -> str:
    """Of Python the bytes: what it means takes seconds, in each process that collects tests."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.suffix == ".py" else file_digest(path)


def _names(text: str) -> list[str]:
    """What a module imports; of a name from a module, both: it may be a module, too."""
    found = list[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return found


def _files(module: str) -> list[str]:
    """The files that importing a module of this repository reads."""
    words = module.split(".")
    if words[0] not in ("labcode", "tests"):
        return []
    places = ["/".join(words[:count]) for count in range(1, len(words) + 1)]
    candidates = [f"{place}/__init__.py" for place in places] + [f"{places[-1]}.py"]
    return [path for path in candidates if (ROOT / path).is_file()]


def main() -> int:
    """Run what is not settled; note what has passed."""
    now = [group for group in groups() if group.digest != group.passed]
    tests = [test for group in now for test in group.tests]
    if not tests:
        return 0
    code = subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT, check=False).returncode
    if code == 0:
        text = FILE.read_text(encoding="utf-8")
        for group in now:
            begin = text.index(group.tests[0])
            rest = re.sub(r'passed = "\w*"', f'passed = "{group.digest}"', text[begin:], count=1)
            text = text[:begin] + rest
        FILE.write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
