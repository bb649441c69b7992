"""Long tests whose outcome follows from a few files: at night, and in each change to one of these files.

``tests/settled.toml`` names the tests, the files, and a digest of those under which the tests have passed.
``python -m tests.support.settled`` runs what is not settled, and notes the digests where all pass. Comments
and white space count for nothing, as for the sources of captures.
"""

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from labcode.freshness import source_digests

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
        sources = {*self.sources, *imported(self.importing)}
        found = source_digests(sorted(sources), ROOT)
        return hashlib.sha256(repr((self.tests, sorted(found.items()))).encode()).hexdigest()[:32]


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
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            left += [path for name in names for path in _files(name)]
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
