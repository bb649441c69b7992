"""The parts that the CUDA programs share, on the host: the record, the statistics, the reference."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def record(built: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("record") / "record.json"
    subprocess.run([built("host_checks"), path], check=True)
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def test_record_is_json_whatever_it_holds(record: dict[str, Any]) -> None:
    assert record["variant"] == 'quote " backslash \\ newline \n'
    assert record["parameters"] == {"whole": 7, "flag": True, "text": "x"}
    assert record["results"]["nan"] is None
    assert record["results"]["infinity"] is None
    assert record["results"]["empty"] == []
    assert record["checks"] == {"passes": {"passed": True, "detail": "fine"}}


def test_quantiles_interpolate(record: dict[str, Any]) -> None:
    results = record["results"]
    assert results["median_of_four"] == 2.5
    assert results["quartile_of_four"] == 1.75
    assert (results["time_us"], results["time_q1_us"], results["time_q3_us"]) == (2, 1.5, 2.5)
    assert results["time_all_us"] == [3, 1, 2]


def test_reference_follows_the_loop_and_notices_one_step_too_few(record: dict[str, Any]) -> None:
    assert record["results"]["worst"] < 1e-5
    assert record["results"]["one_short"] > 1e-2


def test_random_numbers_fill_their_range(record: dict[str, Any]) -> None:
    results = record["results"]
    assert abs(results["mean"]) < 0.01
    assert -1 <= results["least"] < -0.999
    assert 0.999 < results["most"] <= 1


def test_failed_check_is_exit_code_1(built: Callable[[str], Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [built("host_checks"), tmp_path / "r.json", "fail"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "host_checks: check fails failed: on purpose\n"
    assert json.loads((tmp_path / "r.json").read_text())["checks"]["fails"]["passed"] is False


def test_unwritable_record_is_one_line(built: Callable[[str], Path], tmp_path: Path) -> None:
    target = tmp_path / "missing" / "r.json"
    done = subprocess.run([built("host_checks"), target], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"host_checks: {target}: cannot be written; check the folder and its permissions\n"


def test_full_disk_leaves_no_record(built: Callable[[str], Path], tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    target = tmp_path / "r.json"
    Path(f"{target}.part").symlink_to("/dev/full")  # where the record is first written
    done = subprocess.run([built("host_checks"), target], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"host_checks: {target}: could not be written in full; is the disk full?\n"
    assert list(tmp_path.iterdir()) == []
