"""The commands on reports of Nsight Compute: what they print, exit codes, one line an error."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support import command, ncu
from tests.support.command import one_line


def labcode(*words: object) -> subprocess.CompletedProcess[str]:
    return command.labcode(*words, env={"LABCODE_CACHE": str(ncu.folder() / "cache")})


FULL, SOL = ncu.path("full.ncu-rep"), ncu.path("sol.ncu-rep")


def test_stats() -> None:
    result = labcode("stats", SOL, "-r", "speed_of_light", "-f", "json", "-k", "vector")
    assert result.returncode == 0, result.stderr
    assert [row["kernel"] for row in json.loads(result.stdout)] == ["copy_vector"]


def test_diagnose_and_its_list() -> None:
    result = labcode("diagnose", FULL, "--kernel", "conflicts")
    assert result.returncode == 0 and "(bank-conflicts)" in result.stdout
    listed = labcode("diagnose", "--list")
    assert listed.returncode == 0 and "uncoalesced" in listed.stdout and "tiny-kernels" in listed.stdout


def test_compare() -> None:
    assert labcode("compare", SOL, SOL, "--fail-above", "5").returncode == 0


def test_roofline_and_scrub(tmp_path: Path) -> None:
    made = labcode("roofline", FULL, "-o", tmp_path / "x.svg", "-k", "doubles", "--datasheet", "--dark")
    assert made.returncode == 0 and (tmp_path / "x.svg").stat().st_size > 5000
    scrubbed = labcode("scrub", SOL, "-o", tmp_path / "x.ncu-rep.xz")
    assert scrubbed.returncode == 0 and (tmp_path / "x.ncu-rep.xz").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("stats", SOL, "--launch", "7"), "no launch 7; there are: 0 copy_scalar, 1 copy_vector"),
        (
            ("stats", SOL, "-r", "stalls"),
            "has no warp states; collect them with `ncu --section WarpStateStats",
        ),
        (
            ("stats", SOL, "x.sqlite", "-r", "launches"),
            "'launches' is not a report of captures by nsys, but one of .ncu-rep files",
        ),
        (("stats", "x.sqlite", "-k", "a"), "`labcode stats --kernel` reads .ncu-rep and not this"),
        (("diagnose", SOL, "--rules", "r.py"), "rules of your own judge nsys captures"),
        (("compare", SOL, "x.sqlite"), "x.sqlite: no .ncu-rep; compare "),
        (("compare", SOL, SOL, "--gate", "total"), "--gate and --only choose among events of timelines"),
        (("roofline", SOL, "-o", "x.svg"), "collect it with `ncu --section SpeedOfLight_RooflineChart`"),
        (("stats", "none.ncu-rep"), "none.ncu-rep: no such file; check the path"),
    ],
)
def test_refusals_are_one_line(words: tuple[object, ...], message: str) -> None:
    assert message in one_line(labcode(*words))
