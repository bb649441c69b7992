"""Power logs as files: what is read, and every way in which one is damaged."""

import json
import lzma
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labcode import reports
from labcode.errors import InputError
from labcode.reports.power.log import PowerLog, open_log
from labcode.reports.power.schema import write_document
from tests.support import power


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.power.json"
    windows = [("idle", 0, 1), ("command", 1, 11)]
    write_document(power.document(power.device(power.steady()), windows=windows), path)
    return path


def test_tables_of_a_log(file: Path) -> None:
    log = reports.open(file)
    assert isinstance(log, PowerLog)
    assert list(log.samples.columns) == [
        *("device", "t_ns", "before_ns", "after_ns", "instant_w", "average_w", "energy_j", "sm_mhz"),
        *("memory_mhz", "temperature_c", "reasons"),
    ]
    assert log.samples.dtypes["reasons"] == "int64" and log.samples.dtypes["sm_mhz"] == "float64"
    assert log.samples["average_w"].isna().all()
    assert log.window() == (power.S, 11 * power.S)
    assert log.devices["samples"].to_list() == [600] and math.isnan(log.devices["peak_w"].iloc[0])
    assert log.warnings == ()
    with pytest.raises(InputError, match="no samples of GPU 3; it has those of 0"):
        log.of(3)


def test_a_packed_log_is_the_same(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "a.power.json.xz"
    packed.write_bytes(lzma.compress(file.read_bytes()))
    assert open_log(packed).samples.equals(open_log(file).samples)


def test_a_log_of_version_1_knows_its_calls_by_their_neighbors(file: Path) -> None:
    content = json.loads(file.read_text())
    (device,) = content["devices"]
    times = device.pop("before_ns")
    del device["after_ns"]
    times[7] += 5_000_000  # of 20 ms between calls
    file.write_text(json.dumps({**content, "version": 1, "devices": [{**device, "t_ns": times}]}))
    samples = open_log(file).of(0)
    assert samples["t_ns"].to_list() == times
    half = (samples["after_ns"] - samples["before_ns"]) // 2
    assert (samples["after_ns"] - samples["t_ns"]).equals(half)
    assert half.to_list()[4:11] == [ms * 1_000_000 for ms in (20, 20, 20, 15, 15, 20, 20)]
    assert half.iloc[0] == half.iloc[-1] == 20_000_000
    times[7] = times[6]
    file.write_text(json.dumps({**content, "version": 1, "devices": [{**device, "t_ns": times}]}))
    with pytest.raises(InputError, match="times go back at sample 7 of GPU 0; the log is damaged"):
        open_log(file)


def test_a_log_without_samples_or_windows(tmp_path: Path) -> None:
    write_document(power.document(), tmp_path / "a.power.json")
    log = open_log(tmp_path / "a.power.json")
    assert len(log.samples) == 0 and log.window() == (0, 0) and len(log.devices) == 0
    log = power.log(power.device(power.steady()))
    assert log.window() == (0, round(11.98 * power.S))


def _change(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(values)


def _column(name: str, place: int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["devices"][0][name][place] = value

    return change


def _device(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["devices"][0].update(values)


def _windows(count: int) -> Callable[[dict[str, Any]], None]:
    return _change(windows=[{"name": "a", "begin_ns": 5, "end_ns": 6}] * count)


def _shorter(content: dict[str, Any]) -> None:
    content["devices"][0]["sm_mhz"].pop()


def _calls(content: dict[str, Any]) -> None:
    content["devices"][0]["after_ns"].pop()


def _twice(content: dict[str, Any]) -> None:
    content["devices"].append(content["devices"][0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_change(schema="other"), r"JSON, but no power log: its schema is not 'labcode\.power'; name a"),
        (_change(schema=None), r"no power log: its schema is not"),
        (_change(version=3), r"version 3, newer than this labcode knows \(2\); update labcode"),
        (_change(version="1"), r"a power log whose version is no number"),
        (_change(version=0), r"a power log whose version is no number"),
        (_change(devices="x"), r"JSON, but no power log \(Expected `array`"),
        (_change(clock=None), r"JSON, but no power log \(Expected `object`"),
        (_change(period_ns=1.5), r"JSON, but no power log \(Expected `int`"),
        (_change(windows=[["a", 5, 4]]), r"JSON, but no power log"),
        (_change(windows=[{"name": "a", "begin_ns": 5, "end_ns": 4}]), r"window 'a' ends before it begins"),
        (_column("before_ns", 7, 3), r"times go back at sample 7 of GPU 0; the log is damaged, record it"),
        (_column("after_ns", 7, 3), r"a call ends before it begins at sample 7 of GPU 0; the log is damaged"),
        (_column("after_ns", 7, 1 << 70), r"after_ns has a number that is no time"),
        (_calls, r"GPU 0 has 600 calls that began and 599 that ended; the log is damaged"),
        (_change(version=1), r"GPU 0 has 0 times and 600 values of instant_mw"),
        (_column("instant_mw", 2, -1), r"instant_mw of GPU 0 has a value that no GPU has"),
        (_column("instant_mw", 2, 10**12), r"instant_mw of GPU 0 has a value that no GPU has"),
        (_column("temperature_c", 2, 40.5), r"JSON, but no power log \(Expected `int \| null`"),
        (_shorter, r"GPU 0 has 600 times and 599 values of sm_mhz"),
        (_windows(3), r"3 windows, and a power log can have 2; measure several repetitions"),
        (_device(number=1 << 70), r"a device has a number that no GPU has"),
        (_device(nvml_index=-1), r"a device has a number that no GPU has"),
        (_twice, r"two devices have the same number"),
    ],
)
def test_damaged_logs(
    file: Path, change: Callable[[dict[str, Any]], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcode.reports.power.log._MOST_WINDOWS", 2)
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as told:
        open_log(file)
    assert str(told.value).startswith(str(file)) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON, or cut off"),
        (b"[1, 2]", "JSON, but no power log"),
        (b'{"schema": "labcode.power", "version": 1, "period_ns": NaN}', "not valid JSON, or cut off"),
        (b"\x89PNG\r\n", "not valid JSON, or cut off"),
        (b'{"x": ' + b"[" * 1_000_000, "nested too deep to be a power log"),
        (b"\xfd7zXZ\x00rest", "cannot be unpacked"),
    ],
)
def test_what_is_no_log(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "a.power.json"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message):
        open_log(path)


def test_a_log_that_was_cut_off(file: Path, tmp_path: Path) -> None:
    text = file.read_bytes()
    file.write_bytes(text[: len(text) // 2])
    with pytest.raises(InputError, match="not valid JSON, or cut off"):
        open_log(file)
    packed = tmp_path / "b.power.json.xz"
    packed.write_bytes(lzma.compress(text)[:-40])
    with pytest.raises(InputError, match="cannot be unpacked"):
        open_log(packed)
    with pytest.raises(InputError, match="no such file; check the path"):
        open_log(tmp_path / "none.power.json")


def test_what_is_odd_is_told(file: Path) -> None:
    content = json.loads(file.read_text())
    energies = content["devices"][0]["energy_mj"]
    content["devices"][0]["energy_mj"] = energies[:300] + [e - energies[300] for e in energies[300:]]
    content["problems"] = ["GPU 0 was lost"]
    file.write_text(json.dumps(content))
    assert open_log(file).warnings == (
        f"{file}: GPU 0 was lost",
        f"{file}: the energy counter of GPU 0 fell 1 times: it was reset or wrapped; energies across that "
        "are bridged by power",
    )
    content["devices"][0]["energy_mj"] = None
    file.write_text(json.dumps(content))
    assert f"{file}: no reading of the energy counter of GPU 0" in open_log(file).warnings
