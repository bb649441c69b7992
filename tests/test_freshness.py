"""Digests of sources: comments, docstrings and layout do not count; code does."""

import hashlib
from pathlib import Path

import pytest

from labcode.errors import InputError
from labcode.freshness import (
    as_of_today,
    c_meaning,
    changes_since,
    equivalent,
    expand,
    file_digest,
    is_fresh,
    python_meaning,
    source_digests,
    timed_code_changed,
    version_digest,
)
from labcode.store import ExperimentRecord, RunRecord, TimedCode, repository_root

PYTHON = '''
"""A module."""
import os


class Empty(Exception):
    """Nothing in it."""


def area(width: float, height: float = 2.0) -> float:
    """Width times height."""
    # a comment
    label = f"{width!r:>{8}} x {height:.2f}" "!"
    values = [*range(3), None]
    return width * height if label else os.getpid()
'''

SAME_PYTHON = [
    PYTHON.replace('"""Width times height."""\n', ""),
    PYTHON.replace("# a comment", "# another\n\n"),
    PYTHON.replace('    """Nothing in it."""', "    pass"),
    PYTHON.replace('"""A module."""', ""),
    PYTHON.replace(
        "(width: float, height: float = 2.0)", "(\n    width: float,\n    height: float = 2.0,\n)"
    ),
    PYTHON.replace('f"{width!r:>{8}} x {height:.2f}" "!"', """(f'{width!r:>{8}} x ' f'{height:.2f}!')"""),
    PYTHON.replace("width * height if", "(width) * (height) if"),
    PYTHON.replace("\n", "\r\n"),
]
OTHER_PYTHON = [
    PYTHON.replace("2.0", "2.5"),
    PYTHON.replace("width * height", "height * width"),
    PYTHON.replace("!r", "!s"),
    PYTHON.replace(":.2f", ":.3f"),
    PYTHON.replace('"!"', '"?"'),
    PYTHON.replace("None", "0"),
    PYTHON.replace("*range", "range"),
    PYTHON.replace("import os", "import sys as os"),
    PYTHON.replace("(Exception)", ""),
    PYTHON.replace("-> float", "-> int"),
    PYTHON.replace("def area", "async def area"),
]

CUDA = r"""
#include <cstdio>
#define SQUARE(x) ((x) * (x))
#define WIDE \
    32
// a comment with an 'apostrophe
/* and
   another */
__global__ void scale(float *data, float by) {  // launch bounds?
    data[blockIdx.x * WIDE + threadIdx.x] *= by + +1.0e-3f - 1'000;
}
const char *text = "// not a comment /* nor this */ \" quote";
const char *raw = R"x(a "b" // c )" d)x";
int main() { scale<<<1, 32>>>(nullptr, SQUARE(2)); printf("%c", '\''); }
"""

SAME_CUDA = [
    CUDA.replace("// launch bounds?", ""),
    CUDA.replace("/* and\n   another */", "/* gone */"),
    CUDA.replace("// a comment with an 'apostrophe", ""),
    CUDA.replace("{ scale", "{\n    scale"),
    CUDA.replace("float *data", "float* data"),
    CUDA.replace("#define WIDE \\\n    32", "#define WIDE 32"),
    CUDA.replace("#include <cstdio>", "#  include <cstdio>"),
    CUDA.replace("\n", "\r\n"),
    CUDA + "\n// the end",
]
OTHER_CUDA = [
    CUDA.replace("// not a comment", "/// not a comment"),
    CUDA.replace("// c )", "//c )"),
    CUDA.replace("+ +1", "++1"),
    CUDA.replace("1'000", "2'000"),
    CUDA.replace("e-3f", "e-4f"),
    CUDA.replace("SQUARE(x)", "SQUARE (x)"),
    CUDA.replace("#define WIDE \\\n    32", "#define WIDE\n    32"),
    CUDA.replace("<<<1, 32>>>", "<<<1, 64>>>"),
    CUDA.replace(r"'\''", r"'\"'"),
    CUDA.replace("*= by", "* = by"),
]


@pytest.mark.parametrize("changed", SAME_PYTHON)
def test_python_comments_docstrings_and_layout_do_not_count(changed: str) -> None:
    assert changed != PYTHON
    assert python_meaning(changed) == python_meaning(PYTHON)


@pytest.mark.parametrize("changed", OTHER_PYTHON)
def test_python_code_counts(changed: str) -> None:
    assert changed != PYTHON
    assert python_meaning(changed) != python_meaning(PYTHON)


@pytest.mark.parametrize("changed", SAME_CUDA)
def test_cuda_comments_and_layout_do_not_count(changed: str) -> None:
    assert changed != CUDA
    assert c_meaning(changed) == c_meaning(CUDA)


@pytest.mark.parametrize("changed", OTHER_CUDA)
def test_cuda_code_counts(changed: str) -> None:
    assert changed != CUDA
    assert c_meaning(changed) != c_meaning(CUDA)


def test_an_apostrophe_in_a_preprocessor_line_does_not_swallow_the_file() -> None:
    source = "#error it's wrong\nint a;\n#error it's wrong\n"
    assert c_meaning(source) != c_meaning(source.replace("int a", "int b"))


def test_the_meaning_of_python_is_the_same_in_every_version() -> None:
    """Pinned, so that a Python version whose syntax tree differs fails here and not by stale captures."""
    digest = hashlib.sha256(python_meaning(PYTHON).encode()).hexdigest()
    assert digest[:16] == "79b6f61c186dadbe"


def test_digests_cover_files_and_names(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.py").write_text("x = 1\n")
    (tmp_path / "a/two.cu").write_text("int x;\n")
    (tmp_path / "a/data.txt").write_text("text\n")
    whole = source_digests(["a/*"], tmp_path)
    assert list(whole) == ["a/data.txt", "a/one.py", "a/two.cu"]
    assert whole == source_digests(["a/*", "a/one.py"], tmp_path)
    (tmp_path / "a/one.py").write_text("x = 1  # one\n")
    assert whole == source_digests(["a/*"], tmp_path)
    (tmp_path / "a/data.txt").write_text("Text\n")
    changed = source_digests(["a/*"], tmp_path)
    assert [label for label in whole if whole[label] != changed[label]] == ["a/data.txt"]
    assert [p.name for p in expand(["a/*.py"], tmp_path)] == ["one.py"]


def test_where_the_modules_of_the_lab_lie_does_not_count() -> None:
    before = "import os\nfrom labcode.a import x, y\nfrom labcode.b import z as w\nw(x, y)\n"
    for after in (
        "import os\nfrom labcode.a.c import x\nfrom labcode.b import y, z as w\nw(x, y)\n",
        "import os\nfrom labcode.b.d import v as w\nfrom labcode.e import y, x\nw(x, y)\n",
    ):
        assert python_meaning(after) == python_meaning(before)
    for after in (before.replace("z as w", "z"), before.replace("labcode.a", "other.a")):
        assert python_meaning(after) != python_meaning(before)


def test_bad_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"missing\.py: no such source file; correct the experiment's sources"
    ):
        source_digests(["missing.py"], tmp_path)
    (tmp_path / "bad.py").write_text("def (:\n")
    with pytest.raises(InputError, match=r"bad\.py: does not parse as Python"):
        source_digests(["bad.py"], tmp_path)


def record_of(sources: dict[str, str], timed: TimedCode | None = None) -> ExperimentRecord:
    runs = {"run": RunRecord("run", ("python", "-m", "one"), (), (), ())}
    return ExperimentRecord("id", "", "bench", "m1", "2026-01-01", sources, 1.0, runs, timed)


def test_a_record_is_fresh_until_its_sources_change_or_go(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("x = 1\n")
    record = record_of(source_digests(["one.py"], tmp_path))
    assert is_fresh(record, tmp_path)
    source.write_text("x = 2\n")
    assert not is_fresh(record, tmp_path)
    source.unlink()
    assert not is_fresh(record, tmp_path)
    assert not is_fresh(record_of({}), tmp_path)  # a set of the first schema


def test_a_change_that_leaves_a_capture_standing_is_listed_with_its_reason(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("x = 1\n")
    record = record_of(source_digests(["one.py"], tmp_path))
    was = file_digest(source)
    source.write_text("x = 2\n")
    now = file_digest(source)
    assert not is_fresh(record, tmp_path) and changes_since(record, tmp_path) == ()
    equivalent.cache_clear()
    listed = tmp_path / "captures/equivalent.toml"
    listed.parent.mkdir()
    text = f'[[change]]\nsource = "one.py"\nwas = "{was}"\nnow = "{now}"\nwhy = "a name"\n'
    listed.write_text(text)
    assert is_fresh(record, tmp_path) and as_of_today(record, tmp_path) == {"one.py": now}
    assert [change.why for change in changes_since(record, tmp_path)] == ["a name"]
    source.write_text("x = 3\n")  # a further change is not covered
    assert not is_fresh(record, tmp_path)
    equivalent.cache_clear()
    listed.write_text(text.replace("why", "because"))
    with pytest.raises(InputError, match=r"equivalent.toml: not a list of \[\[change\]\]"):
        equivalent(tmp_path)
    equivalent.cache_clear()


def test_listed_changes_lead_to_the_sources_of_today() -> None:
    for change in equivalent(repository_root()):
        assert file_digest(repository_root() / change.source) == change.now, change.source
        assert change.why


def test_a_source_that_moved_is_still_there(tmp_path: Path) -> None:
    (tmp_path / "labcode/deep").mkdir(parents=True)
    source = tmp_path / "labcode/one.py"
    source.write_text("from labcode.two import f\nSIZE = 3\nx = f(SIZE)\n")
    record = record_of(source_digests(["labcode/one.py", "labcode/one.py:SIZE"], tmp_path))
    moved = source.rename(tmp_path / "labcode/deep/renamed.py")
    moved.write_text(moved.read_text().replace("labcode.two", "labcode.deep.two"))
    assert is_fresh(record, tmp_path)
    (tmp_path / "labcode/one.py").write_text("x = 2\n")  # another file in its place
    assert not is_fresh(record, tmp_path)


def test_code_that_is_timed_makes_nothing_stale(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("x = 1\n")
    (tmp_path / "reader.py").write_text("y = 1\n")
    timed = TimedCode(("reader.py",), version_digest(["reader.py"], tmp_path))
    record = record_of(source_digests(["program.py"], tmp_path), timed)
    assert not timed_code_changed(record, tmp_path)
    (tmp_path / "reader.py").write_text("y = 2\n")
    assert timed_code_changed(record, tmp_path) and is_fresh(record, tmp_path)
    assert not timed_code_changed(record_of({}), tmp_path)


def test_one_definition_of_a_module_can_be_a_source(tmp_path: Path) -> None:
    module = tmp_path / "m.py"

    def digest(name: str, text: str) -> str:
        module.write_text(text)
        return source_digests([f"m.py:{name}"], tmp_path)[f"m.py:{name}"]

    text = "FLAGS = ('-O3',)\nsize: int = 3\n\ndef f():\n    return 1\n\nclass C:\n    x = 1\n"
    for name, before, after in (
        ("FLAGS", "-O3", "-O2"),
        ("size", "3\n", "4\n"),
        ("f", "return 1", "return 2"),
        ("C", "x = 1", "x = 2"),
    ):
        assert digest(name, text.replace(before, after)) != digest(name, text)
        assert digest(name, text + "other = 1\n# comment\n") == digest(name, text)
    with pytest.raises(InputError, match=r"m\.py: defines no g; correct the experiment's sources"):
        digest("g", text)


@pytest.mark.parametrize("source", ["", ":NAME", "a**", "/etc/*"])
def test_what_is_no_pattern_of_sources_is_named(tmp_path: Path, source: str) -> None:
    with pytest.raises(InputError, match=r"correct the experiment's sources"):
        source_digests([source], tmp_path)
