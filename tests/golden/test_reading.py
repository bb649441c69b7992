"""The comparison with golden files itself: it must be able to fail."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.golden.golden import as_nsys_writes, first_difference, load_golden


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
