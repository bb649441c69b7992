"""`labcode energy`: its report, its exit code, signals, and what is wrong with what it was given."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labcode.record.attend import neutral
from labcode.reports.power.log import open_log

_WITH_GPUS = """
import sys
from tests.support.fake_nvml import FakeGpu, FakeNvml
sys.modules["pynvml"] = FakeNvml({gpus})
sys.argv = ["labcode", "energy", *sys.argv[1:]]
from labcode.cli import main
main()
"""
SHELL = ("bash", "-c", "echo x; sleep 0.5")
ROOT = Path(__file__).resolve().parents[2]


def started(*words: str, gpus: str = "FakeGpu()", cwd: Path = ROOT) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.Popen(
        [sys.executable, "-c", _WITH_GPUS.format(gpus=gpus), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def run(*words: str, gpus: str = "FakeGpu()") -> tuple[int, str, str]:
    process = started(*words, gpus=gpus)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def test_a_report_a_log_and_a_plot(tmp_path: Path) -> None:
    log, plot = tmp_path / "a.power.json.xz", tmp_path / "a.svg"
    code, out, err = run(
        *("--period", "20ms", "--idle", "0.3s", "-o", str(log), "--plot", str(plot), "--"),
        *("bash", "-c", "echo printed; sleep 0.6; exit 3"),
        gpus="FakeGpu(reasons=4), FakeGpu(uuid='GPU-1', watts=100)",
    )
    assert code == 3 and out == "printed\n"
    assert "bash: 0." in err and "exit code 3" in err and "2 GPUs together:" in err
    assert "GPU 1: NVIDIA Test, power limit 700 W" in err
    assert "above idle" in err and "s power cap" in err and "counter, " in err
    opened = open_log(log)
    assert opened.exit_code == 3 and opened.command == "bash" and not opened.partial
    assert opened.windows["name"].to_list() == ["idle", "command"]
    assert plot.read_text().count("power limit") == 0 and "GPU 1: NVIDIA Test" in plot.read_text()


def test_json_alone_on_stdout() -> None:
    code, out, err = run(
        "--json", "--period", "20ms", "--idle", "0s", "--", "bash", "-c", "echo x; sleep 0.5"
    )
    found = json.loads(out)
    assert code == 0 and err == "x\n"
    (gpu,) = found["gpus"]
    assert gpu["energy_j"] == pytest.approx(200 * found["seconds"], rel=0.1)
    assert gpu["idle_w"] is None and gpu["above_idle_j"] is None
    assert found["energy_j"] == gpu["energy_j"] and found["exit_code"] == 0
    assert gpu["counter_period_s"] == pytest.approx(0.02, rel=0.3)


def test_a_short_command_gets_no_joules_but_a_reason() -> None:
    code, _, err = run("--period", "20ms", "--idle", "0s", "--", "true", gpus="FakeGpu(update_s=0.1)")
    assert code == 0
    assert "energy      not given" in err and "too short for this instrument" in err


def test_signals_reach_the_command_and_the_report_is_written(tmp_path: Path) -> None:
    log = tmp_path / "a.power.json"
    for number, expected in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 7)):
        process = started(
            *("--period", "20ms", "--idle", "0s", "--force", "-o", str(log), "--", "bash", "-c"),
            "trap 'exit 7' INT; echo up; while true; do sleep 0.05; done",
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.5)
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
        assert process.returncode == expected
        assert f"exit code {expected}" in err and "J ±" in err
        assert open_log(log).exit_code == expected


def test_on_a_terminal_power_is_shown_and_ctrl_c_comes_once(tmp_path: Path) -> None:
    log, heard = tmp_path / "a.power.json", tmp_path / "heard"
    script = f"trap 'echo int >> {heard}' INT; echo up; for i in 1 2 3 4; do sleep 0.5; done; exit 5"
    words = ["--period", "20ms", "--idle", "0s", "-o", str(log), "--", "bash", "-c", script]
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        code = _WITH_GPUS.format(gpus="FakeGpu()")
        os.execve(sys.executable, [sys.executable, "-c", code, *words], environment)
    shown = b""
    while b"MHz" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # the other end is gone
        while more := os.read(terminal, 4096):
            shown += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    assert heard.read_text() == "int\n"
    text = shown.decode()
    assert " s  GPU 0 200 W 1980 MHz 45 °C\x1b[K" in text
    assert "exit code 5" in text and open_log(log).exit_code == 5


def test_a_lost_gpu_leaves_a_partial_report(tmp_path: Path) -> None:
    log = tmp_path / "a.power.json"
    code, _, err = run(
        *("--period", "20ms", "--idle", "0s", "-o", str(log), "--", "sleep", "3"),
        gpus="FakeGpu(lost_after_s=0.6)",
    )
    assert code == 0
    assert re.search(r"was lost after [0-2]\.\d", err) and "of it" in err and "samples cover" in err
    assert open_log(log).partial


def test_a_log_that_is_there_is_not_overwritten_unless_told(tmp_path: Path) -> None:
    log = tmp_path / "a.power.json"
    log.write_text("mine")
    words = ("--idle", "0s", "--period", "20ms", "-o", str(log), "--", "touch", str(tmp_path / "ran"))
    code, _, err = run(*words)
    assert code == 2 and f"{log}: there already; overwrite with --force or name another output" in err
    assert log.read_text() == "mine" and not (tmp_path / "ran").exists()
    assert run("--force", *words)[0] == 0 and run(*words)[0] == 2  # also where its own log lies
    assert open_log(log).exit_code == 0


@pytest.mark.parametrize(
    ("words", "gpus", "message"),
    [
        (("--", "no-such-program"), "FakeGpu()", "no-such-program: not found; check the command after --"),
        (("--", "/etc/passwd"), "FakeGpu()", "/etc/passwd: no permission to execute it"),
        (("--period", "100", "--", "true"), "FakeGpu()", "--period 100: give a time with its unit"),
        (("--period", "2min", "--", "true"), "FakeGpu()", "sample every 0.001 s to 60 s"),
        (("--idle", "x", "--", "true"), "FakeGpu()", "--idle x: give a time with its unit"),
        (("-o", "a.json", "--", "true"), "FakeGpu()", "a power log's name ends in .power.json"),
        (("-o", "no/a.power.json", "--", "true"), "FakeGpu()", "there is no folder no; create it first"),
        (("--plot", "a.png", "--", "true"), "FakeGpu()", "name a file that ends in .svg"),
        (("--", "true"), "FakeGpu(mig=True)", "is in MIG mode"),
        (
            ("--", "true"),
            "FakeGpu(fails={'energy': 3, 'nvmlDeviceGetTotalEnergyConsumption': 3})",
            "has no energy counter",
        ),
        (("--", "true"), "FakeGpu(), init=9", "NVML does not start"),
    ],
)
def test_bad_use_is_one_line(words: tuple[str, ...], gpus: str, message: str) -> None:
    code, out, err = run("--idle", "0s", *words, gpus=gpus)
    assert code == 2 and not out
    assert err.startswith("labcode: ") and err.count("\n") == 1 and message in err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/home/me/prog", "--token", "x"], "prog"),
        (["python3", "/home/me/train.py", "--key", "x"], "python3 train.py"),
        (["/usr/bin/python", "-m", "pkg.mod", "x"], "python -m pkg.mod"),
        (["python", "-c", "secret"], "python"),
    ],
)
def test_commands_are_told_without_folders_and_arguments(words: list[str], name: str) -> None:
    assert neutral(words) == name
