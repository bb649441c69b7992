"""Reports that are not what they should be: one line each, and no crash of this process."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labcode.capture.ncu_scrub import scrub_file
from labcode.errors import InputError, LabError, ToolError
from labcode.reports.ncu import open as ncu_open
from labcode.reports.ncu import wire as ncu_wire
from labcode.reports.ncu.report import open_report
from tests.support import ncu


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_report(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text


def damaged(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "damaged.ncu-rep"
    path.write_bytes(data)
    return refusal(path)


def whole() -> bytes:
    return ncu.path("few.ncu-rep").read_bytes()


def test_missing_folder_empty(tmp_path: Path) -> None:
    assert "no such file; check the path" in refusal(tmp_path / "none.ncu-rep")
    assert "a folder; name a report" in refusal(tmp_path)
    assert "empty; the profiling run was interrupted" in damaged(tmp_path, b"")


def test_foreign(tmp_path: Path) -> None:
    assert "not a report of Nsight Compute" in damaged(tmp_path, b"SQLite format 3\0" + bytes(100))


@pytest.mark.parametrize("size", [5, 9, 100, 300, 5_000, 60_000, 200_000, -1])
def test_truncated(tmp_path: Path, size: int) -> None:
    text = damaged(tmp_path, whole()[:size])
    assert "truncated or damaged" in text and "copy it again or profile again" in text


@pytest.mark.parametrize("command", [open_report, scrub_file])
def test_of_a_large_file_that_is_damaged_little_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[Path], object]
) -> None:
    path = tmp_path / "large.ncu-rep"
    path.write_bytes(whole())
    with path.open("r+b") as handle:
        handle.truncate(3 << 30)  # zeros up to there, which lie on no disk
    pieces = []
    read = ncu_wire.FileBytes.__getitem__
    monkeypatch.setattr(
        ncu_wire.FileBytes, "__getitem__", lambda data, part: pieces.append(read(data, part)) or pieces[-1]
    )
    with pytest.raises(InputError, match="a block without a header"):
        command(path)
    assert 0 < sum(map(len, pieces)) < len(whole()) // 10


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a program in the place of the reader; gives a whole report."""

    def replaced(program: str) -> Path:
        file, path = tmp_path / "reader.py", tmp_path / "few.ncu-rep"
        file.write_text(program)
        monkeypatch.setattr(ncu_open.ncu_extract, "__file__", str(file))
        path.write_bytes(whole())
        return path

    return replaced


def test_truncated_behind_a_block_with_fewer_launches_is_seen_by_its_end(tmp_path: Path) -> None:
    blocks = list(ncu_wire.blocks(whole()))
    first = next(place for place, block in enumerate(blocks) if block.results)
    text = damaged(tmp_path, whole()[: blocks[first].offset])
    assert "holds no launch: no kernel was profiled; check the filter given to `ncu -k`" in text


def test_a_newer_format(tmp_path: Path) -> None:
    data = whole()
    assert data[8:10] == b"\x08\x07"
    text = damaged(tmp_path, data[:9] + b"\x63" + data[10:])
    assert "format 99 of Nsight Compute's reports is newer than this labcode knows (7)" in text


def test_a_newer_ncu_is_told(tmp_path: Path) -> None:
    path = tmp_path / "newer.ncu-rep"
    path.write_bytes(whole().replace(b"2025.3.1.0 (build", b"2099.3.1.0 (build"))
    report = open_report(path)
    assert len(report.list) == 14
    assert "written by Nsight Compute 2099.3.1.0, newer than the reader" in report.warnings[0]


def test_launches_that_the_reader_leaves_out_are_missed(reader: Callable[[str], Path]) -> None:
    path = reader(
        "import json, sys\n"
        "json.dump({'format': 3, 'library': '1', 'launches': [], 'files': {}}, open(sys.argv[2], 'w'))\n"
    )
    assert "damaged: 14 launches were recorded and 0 can be read" in refusal(path)


def test_a_launch_of_which_nothing_can_be_read_is_named(reader: Callable[[str], Path]) -> None:
    path = reader(
        "import json, sys\n"
        "launches = [{'function': 'f', 'metrics': {'m': [1, '', '']}}] * 2\n"
        "launches += [{'function': None, 'metrics': {}}] * 12\n"
        "made = {'format': 3, 'library': '1', 'launches': launches, 'files': {}}\n"
        "json.dump(made, open(sys.argv[2], 'w'))\n"
    )
    assert "damaged: nothing can be read of launch 2; copy it again or profile again" in refusal(path)


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bits_never_end_this_process(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(ncu.path("sol.ncu-rep").read_bytes())
    program = data.find(b"\x7fELF")
    spans = ((program, program + 0x540), (program, program + 50_000), (len(data) // 2, len(data)))
    low, high = spans[seed % 3]
    for _ in range(30):
        data[chance.randrange(low, high)] ^= 1 << chance.randrange(8)
    path = tmp_path / "flipped.ncu-rep"
    path.write_bytes(data)
    try:
        report = open_report(path)
    except LabError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert len(report.list) == 2


def test_a_crash_of_the_reader_is_told(reader: Callable[[str], Path]) -> None:
    assert "NVIDIA's reader crashed on it (signal 6)" in refusal(reader("import os\nos.abort()\n"))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "raise SystemExit(\"ModuleNotFoundError: No module named 'ncu_report'\")\n",
            "takes the package ncu-report, which is not installed; pip install",
        ),
        ("class IMetric: pass\nIMetric().label()\n", r"takes ncu-report 2026\.3 or newer"),
    ],
    ids=["missing", "old"],
)
def test_without_the_package_or_with_an_old_one(
    reader: Callable[[str], Path], program: str, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        open_report(reader(program))


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "few.ncu-rep"
    path.write_bytes(whole())
    open_report(path)
    made = next((tmp_path / "cache").glob("*/*.json"))
    made.write_text("{}")
    assert len(open_report(path).list) == 14


def test_this_process_does_not_load_the_native_reader(tmp_path: Path) -> None:
    path = tmp_path / "few.ncu-rep"
    path.write_bytes(whole())
    open_report(path)
    assert "ncu_report" not in sys.modules
