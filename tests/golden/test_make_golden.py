"""The maker of golden files, against a real nsys."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from labcode.capture.scrub import compress
from labcode.tools import find_nsys
from tests.capture import fakes
from tests.golden.make_golden import REPORTS

MAKER = Path(__file__).with_name("make_golden.py")


def make(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, MAKER, *arguments], capture_output=True, text=True)


@pytest.mark.skipif(find_nsys() is None, reason="no nsys here: put one on PATH or set LABCODE_NSYS")
@pytest.mark.parametrize("name", ["golden.tar", "golden.tar.xz"])
def test_every_report_of_every_export_is_written(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "set/overlap"
    folder.mkdir(parents=True)
    compress(fakes.private_export(tmp_path / "raw.sqlite"), folder / "stream.sqlite.xz")
    result = make(tmp_path / "set", tmp_path / name)
    assert result.returncode == 0, result.stderr
    with tarfile.open(tmp_path / name) as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    about = json.loads(members.pop("versions.json"))
    without = about["overlap/stream"]["without_rows"]
    assert set(members) == {f"overlap/stream.{report}.csv" for report in REPORTS if report not in without}
    assert b"work<int>" in members["overlap/stream.cuda_gpu_kern_sum.csv"]
    assert about["nsys"] and [path.name for path in folder.iterdir()] == ["stream.sqlite.xz"]


def test_bad_use_is_named(tmp_path: Path) -> None:
    assert make().returncode == 2
    result = make(tmp_path, tmp_path / "out.tar")
    assert result.returncode == 2 and result.stderr.startswith("make_golden: ")
    assert not (tmp_path / "out.tar").exists()
