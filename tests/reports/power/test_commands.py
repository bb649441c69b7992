"""`labcode stats`, `diagnose`, `compare`, `timeline` and `scrub` on power logs."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.energy.sensor import Load, Sensor
from labcode.errors import InputError, LabError
from labcode.reports.power.log import open_log
from labcode.reports.power.schema import write_document
from labcode.verbs.compare import pairs as comparing
from labcode.verbs.diagnose.verdicts import diagnose
from labcode.verbs.stats import available, print_all
from labcode.verbs.timeline import write_timeline
from tests.support import power
from tests.support.command import labcode, one_line

WINDOWS = [("idle", 0.5, 1.0), ("command", 1.0, 11.0), ("step", 2.0, 6.0), ("step", 6.0, 10.0)]


def write(path: Path, watts: float = 400.0, **more: object) -> Path:
    load = Load(np.array([-1.0, 1.0, 12.0]) * power.S, np.array([80.0, watts]))
    made = power.device(load, **more)  # type: ignore[arg-type]
    write_document(power.document(made, windows=WINDOWS), path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "a.power.json.xz")


def stats(file: Path, *names: str) -> list[dict[str, object]]:
    text = io.StringIO()
    print_all([file], list(names), "json", text)
    found = json.loads(text.getvalue())
    assert isinstance(found, list)
    return found


def test_stats(file: Path) -> None:
    (one,) = stats(file, "power_sum")
    assert one["energy_j"] == pytest.approx(4000, rel=0.01)
    assert one["above_idle_j"] == pytest.approx(3200, rel=0.02)
    assert one["update_ms"] == pytest.approx(100, abs=1) and one["verdict"] == ""
    assert [row["name"] for row in stats(file, "energy_windows")] == ["idle", "command", "step", "step"]
    trace = stats(file, "power_trace")
    assert len(trace) == 600 and trace[0]["time_ms"] == 0 and trace[0]["energy_j"] == 0
    assert {row["reading"] for row in stats(file, "power_sensor")} == {
        *("energy counter", "instantaneous power", "average power")
    }
    can = set(available(file))
    assert can >= {"power_sum", "energy_windows", "power_sensor", "power_trace"}
    assert not can & {"clock_reasons", "range_energy_sum"}  # as it lacks what they tell of
    with pytest.raises(InputError, match="nothing held the clocks down while the command ran"):
        stats(file, "clock_reasons")
    with pytest.raises(LabError, match="'power_some' is not a report of power logs; did you mean power_sum"):
        stats(file, "power_some")


def test_stats_of_throttling_and_of_nothing(tmp_path: Path) -> None:
    (row,) = stats(write(tmp_path / "a.power.json", reasons=0x40), "clock_reasons")
    assert row["reason"] == "temperature, by hardware" and row["share"] == pytest.approx(1, abs=0.01)
    write_document(power.document(), tmp_path / "b.power.json")
    with pytest.raises(InputError, match="no samples; record for longer with `labcode energy`"):
        stats(tmp_path / "b.power.json", "power_sum")


def verdicts(file: Path) -> dict[str, str]:
    return {verdict.rule: verdict.status for verdict in diagnose(open_log(file))}


def test_diagnose_finds_nothing_in_a_good_log(file: Path) -> None:
    found = verdicts(file)
    assert found.pop("slow-sensor") == "could not judge"  # one power all the time has no updates to see
    assert set(found.values()) == {"not found"} and len(found) == 5


def test_diagnose_short_windows_throttling_and_idling(tmp_path: Path) -> None:
    path = write(tmp_path / "a.power.json", watts=100.0, reasons=4)
    document = power.document(power.device(power.steady(100), reasons=4), windows=[*WINDOWS, ("s", 2, 2.3)])
    write_document(document, path)
    found = verdicts(path)
    assert {rule for rule, status in found.items() if status == "found"} == {
        *("short-windows", "throttled", "paid-for-idling")
    }


def test_diagnose_a_load_that_the_sensor_cannot_follow(tmp_path: Path) -> None:
    load = Load.square(700, 100, 0.23, 12.0)
    document = power.document(power.device(load, sensor=Sensor(averaged_s=0.025)), windows=WINDOWS)
    write_document(document, tmp_path / "a.power.json")
    assert verdicts(tmp_path / "a.power.json")["slow-sensor"] == "found"
    aliased = Load.square(700, 100, 0.1, 12.0, 0.25)
    device = power.device(aliased, sensor=Sensor(averaged_s=0.025, phase_s=0.08))
    write_document(power.document(device, windows=WINDOWS), tmp_path / "b.power.json")
    found = {v.rule: v for v in diagnose(open_log(tmp_path / "b.power.json"))}
    assert found["counter-disagrees"].status == "found"
    assert (
        "4 of 4 windows disagree by more than 5.0 % and the error bar" in found["counter-disagrees"].message
    )


def test_diagnose_gaps_and_a_lost_gpu(tmp_path: Path) -> None:
    device = power.device(power.steady())
    kept = [place for place, t in enumerate(device.before_ns) if not 3 * power.S < t < 5 * power.S]
    columns = ("instant_mw", "energy_mj", "sm_mhz", "memory_mhz", "temperature_c", "reasons")
    for name in ("before_ns", "after_ns", *columns):
        values = getattr(device, name)
        setattr(device, name, [values[place] for place in kept])
    write_document(power.document(device, windows=WINDOWS), tmp_path / "a.power.json")
    found = {v.rule: v for v in diagnose(open_log(tmp_path / "a.power.json"))}
    assert found["gaps"].status == "found" and "20.0 % of the time lies in gaps" in found["gaps"].message
    lost = power.device(power.steady(), seconds=6.0)
    lost.lost = "GPU is lost"
    write_document(power.document(lost, windows=WINDOWS), tmp_path / "b.power.json")
    found = {v.rule: v for v in diagnose(open_log(tmp_path / "b.power.json"))}
    assert found["gaps"].status == "found" and found["gaps"].message.endswith("GPU 0 was lost")


def test_diagnose_by_command(file: Path) -> None:
    told = labcode("diagnose", file, "--only", "throttled")
    assert told.returncode == 0 and "10 s judged" in told.stdout and "throttled: nothing held" in told.stdout
    for words, message in (
        (("--only", "idle-gpu"), "'idle-gpu' is not a rule of power logs; "),
        (("--rules", "a.py"), "rules of your own judge nsys captures"),
        (("--kernel", "x"), "a power log; `labcode diagnose --kernel` reads .ncu-rep and not this"),
    ):
        assert message in one_line(labcode("diagnose", file, *words))


def compared(
    before: Path, after: Path, **more: object
) -> tuple[int, dict[str, dict[str, object]], list[str]]:
    text = io.StringIO()
    options: dict[str, object] = {"fail_above": None, "fmt": "json", **more}
    code = comparing.run(before, after, output=text, **options)  # type: ignore[arg-type]
    found = json.loads(text.getvalue())
    return code, {row["window"]: row for row in found["rows"]}, found["notes"]


def test_compare(tmp_path: Path, file: Path) -> None:
    more = write(tmp_path / "more.power.json", watts=480.0)
    code, rows, notes = compared(file, more, fail_above=10.0)
    assert code == 1 and not notes and list(rows) == ["command", "step"]
    assert rows["step"]["ratio"] == pytest.approx(1.2, rel=0.02) and rows["step"]["verdict"] == "more"
    assert rows["step"]["before_s"] == 4.0
    assert compared(file, more, fail_above=25.0)[0] == 0
    assert compared(more, file)[1]["command"]["verdict"] == "less"
    near = write(tmp_path / "near.power.json", watts=403.0)
    assert compared(file, near, fail_above=0.0)[0] == 0
    assert compared(file, near)[1]["step"]["verdict"] == "undecided"
    assert compared(file, near, fail_above=25.0)[1]["step"]["verdict"] == "no change"
    assert compared(file, near, undecided_exit=3)[0] == 3
    assert compared(file, near, fail_above=25.0, undecided_exit=3)[0] == 0
    assert compared(file, more, fail_above=5.0, undecided_exit=3)[0] == 1  # what failed comes first


def test_compare_what_is_new_gone_short_or_elsewhere(tmp_path: Path, file: Path) -> None:
    spans = [("command", 1.0, 11.0), ("other", 2.0, 6.0), ("step", 2.0, 2.05)]
    other = tmp_path / "b.power.json"
    write_document(power.document(power.device(power.steady(), name="NVIDIA H200"), windows=spans), other)
    _, rows, notes = compared(file, other)
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "command": "no change",
        "step": "too short",
        "other": "new",
    }
    assert compared(other, file)[1]["other"]["verdict"] == "vanished"
    assert notes == ["other GPUs: NVIDIA H100 before, NVIDIA H200 after"]


def test_compare_refuses(tmp_path: Path, file: Path) -> None:
    write_document(power.document(power.device(power.steady(), seconds=0.02)), tmp_path / "one.power.json")
    assert "GPU 0" in write_timeline(tmp_path / "one.power.json", tmp_path / "one.svg").read_text()
    write_document(power.document(), tmp_path / "none.power.json")
    for one, other, options, message in (
        (
            file,
            tmp_path / "a.sqlite",
            {},
            r"a\.sqlite: no power log; compare .*a\.power\.json\.xz with anoth",
        ),
        (file, file, {"only": ["kernels"]}, "power logs have none"),
        (file, tmp_path / "none.power.json", {}, "no samples to compare; record for longer"),
    ):
        with pytest.raises(LabError, match=message):
            compared(one, other, **options)  # type: ignore[arg-type]


def test_compare_as_text(tmp_path: Path, file: Path) -> None:
    text = io.StringIO()
    more = write(tmp_path / "more.power.json", watts=480.0)
    assert comparing.run(file, more, fail_above=5.0, fmt="md", output=text) == 1
    assert "- 2 used more by over 5 %, with the whole interval above it: command, step" in text.getvalue()
    assert "| window | verdict |" in text.getvalue()


def test_timeline(tmp_path: Path, file: Path) -> None:
    drawn = write_timeline(file, tmp_path / "x.svg").read_text()
    assert "GPU 0: NVIDIA H100" in drawn and "by the energy counter" in drawn and "command" in drawn
    with pytest.raises(
        LabError, match=r"the timeline of a power log is a picture; name a file that ends in \.svg"
    ):
        write_timeline(file, tmp_path / "x.html")
    with pytest.raises(LabError, match="--window is for timelines of captures"):
        write_timeline(file, tmp_path / "x.svg", window="all")
    write_document(power.document(), tmp_path / "none.power.json")
    with pytest.raises(LabError, match="no samples to draw; record for longer"):
        write_timeline(tmp_path / "none.power.json", tmp_path / "y.svg")
    assert not (tmp_path / "y.svg").exists()


def test_the_power_limit_is_drawn_where_it_is_near(tmp_path: Path) -> None:
    drawn = write_timeline(write(tmp_path / "a.power.json", watts=690.0), tmp_path / "x.svg").read_text()
    assert "power limit 700 W" in drawn


def test_there_is_nothing_to_scrub(file: Path) -> None:
    assert "a power log; `labcode scrub` reads .sqlite" in one_line(labcode("scrub", file))


def test_stats_of_ranges_by_the_capture_of_the_same_run() -> None:
    folder = Path(__file__).resolve().parents[3] / "captures"
    log = folder / "h200" / "energy_ranges" / "phases.power.json.xz"
    capture = folder / "h200" / "energy_ranges" / "phases.nsys.xz"
    told = labcode("stats", log, "--with", capture, "-r", "range_energy_sum", "-f", "json")
    rows = {row["range"]: row for row in json.loads(told.stdout)}
    assert rows["matmul"]["how"] == "counter" and rows["matmul"]["low_j"] <= rows["matmul"]["energy_j"]
    assert rows["norm"]["how"] == "declined" and rows["norm"]["energy_j"] is None
    other = folder / "h100" / "energy_ranges" / "phases.nsys.xz"
    for words, message in (
        ((log,), "the ranges are in the capture of the same run; name it: --with CAPTURE"),
        ((log, "--with", log), "`labcode stats --with` reads .sqlite and not this"),
        ((capture, "--with", capture), "`labcode stats --with` reads .power.json or .json and not this"),
        *([((log, "--with", other), "they are of different runs")] if other.is_file() else []),
    ):
        assert message in one_line(labcode("stats", *words, "-r", "range_energy_sum"))
