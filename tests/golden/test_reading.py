"""The comparison with golden files itself: it must be able to fail."""

import tarfile
from pathlib import Path

from tests.golden.golden import (
    BLOCK_LINES,
    KEPT_LINES,
    abridge,
    as_nsys_writes,
    difference,
    first_difference,
    load_golden,
)


def test_a_set_without_golden_files(tmp_path: Path) -> None:
    assert load_golden("h200", tmp_path) is None


def test_packed_and_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "h200"
    (folder / "overlap").mkdir(parents=True)
    (folder / "overlap" / "stream.osrt_sum.csv").write_text("Name\nread\n")
    (folder / "versions.json").write_text('{"overlap/stream": {"sha256": "00"}}')
    unpacked = load_golden("h200", tmp_path)
    with tarfile.open(tmp_path / "other.tar.xz", "w:xz") as tar:
        for name in ("overlap/stream.osrt_sum.csv", "versions.json"):
            tar.add(folder / name, name)
    packed = load_golden("other", tmp_path)
    assert packed == unpacked
    assert packed is not None
    assert packed.files == {"overlap/stream.osrt_sum.csv": "Name\nread\n"}
    assert packed.versions["overlap/stream"]["sha256"] == "00"


def test_quotes_as_nsys_writes_them() -> None:
    assert as_nsys_writes('a,b\n"x, ""y""",1\n"""z""",2\n') == ["a,b", '"x, "y"",1', '"z",2']


def test_differences() -> None:
    assert first_difference(["a", "b"], ["a", "b"]) == ""
    assert first_difference(["a", "b"], ["a", "c"]) == "line 1: ours 'b', nsys 'c'"
    assert first_difference(["a"], ["a", "c"]) == "1 lines here, 2 of nsys"


def test_of_a_long_report_every_line_counts() -> None:
    lines = [f"line {n}" for n in range(KEPT_LINES + 3 * BLOCK_LINES + 7)]
    kept, hashes = abridge("\n".join(lines) + "\n")
    assert kept.count("\n") == KEPT_LINES and hashes is not None
    assert difference(lines, kept, hashes) == ""
    for number in (0, KEPT_LINES - 1, KEPT_LINES, KEPT_LINES + 2 * BLOCK_LINES, len(lines) - 1):
        changed = [*lines[:number], "another", *lines[number + 1 :]]
        assert difference(changed, kept, hashes), number
    assert difference(lines[:-1], kept, hashes) == f"{len(lines) - 1} lines here, {len(lines)} of nsys"
    assert abridge("a\nb\n") == ("a\nb\n", None)
    assert difference(["a", "c"], "a\nb\n", None) == "line 1: ours 'c', nsys 'b'"
