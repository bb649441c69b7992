"""Tests that run at night alone while what they depend on is as it was: which, and until when."""

import ast
from pathlib import Path

import pytest

from tests.support import settled

GROUPS = settled.groups()


def test_each_test_that_is_listed_is_there_once() -> None:
    listed = [test for group in GROUPS for test in group.tests]
    assert len(set(listed)) == len(listed) > 20
    for test in listed:
        file, _, name = test.partition("::")
        tree = ast.parse((settled.ROOT / file).read_text(encoding="utf-8"))
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, test


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.tests[0])
def test_the_file_of_a_test_is_among_what_it_depends_on(group: settled.Group) -> None:
    here = {path for pattern in group.sources for path in settled.ROOT.glob(pattern)}
    here |= {settled.ROOT / file for file in settled.imported(group.importing)}
    assert {settled.ROOT / test.partition("::")[0] for test in group.tests} <= here


def test_a_change_of_a_file_that_is_imported_brings_the_tests_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests/support").mkdir(parents=True)
    (tmp_path / "labcode").mkdir()
    (tmp_path / "tests/test_one.py").write_text("from tests.support import other\n")
    (tmp_path / "tests/support/other.py").write_text("import numpy\nimport labcode.deep\n")
    (tmp_path / "labcode/deep.py").write_text("x = 1\n")
    monkeypatch.setattr(settled, "ROOT", tmp_path)
    name = "tests/test_one.py::test_it"
    before = settled.Group((name,), (), ("tests/test_one.py",), "").digest
    group = settled.Group((name,), (), ("tests/test_one.py",), before)
    monkeypatch.setattr(settled, "groups", lambda: [group])
    assert settled.among([name, "tests/test_two.py::test_it"]) == {name}
    (tmp_path / "labcode/deep.py").write_text("x = 2\n")
    settled._content.cache_clear()
    settled._imports.cache_clear()
    assert settled.among([name]) == set()


def test_what_has_not_passed_is_not_settled() -> None:
    assert settled.among(["tests/test_settled.py::test_what_has_not_passed_is_not_settled"]) == set()
