"""The runner: what it files, and that failures, interruptions and full disks leave a set as it was."""

import errno
import json
import os
import re
import signal
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from labcode import store
from labcode.capture import archive, runner
from labcode.capture.job import Part
from labcode.ending import Ended, signals_as_exceptions
from labcode.errors import LabError, ToolError
from labcode.hardware import health, host
from labcode.store import load_set
from tests.capture.conftest import Lab
from tests.support.processes import gone

NOTHING = "^nothing was captured; why is said above$"  # once


def test_a_capture_files_every_run_and_its_numbers_without_the_profiler(lab: Lab) -> None:
    assert lab.capture("alpha", "beta") == 0
    captures = load_set("mine")
    alpha = captures.experiment("alpha")
    assert list(alpha.runs) == ["baseline", "improved"]
    assert alpha.runs["baseline"].argv == ("python", "-m", "program", "--variant", "baseline", "--gpus", "2")
    assert [file.name for file in alpha.runs["improved"].files] == [
        "improved.nsys.xz",
        "improved.json",
        "improved.clean.json",
    ]
    assert captures.machine_of("alpha")["gpus"] == [{"name": "Fake GPU"}]
    assert captures.record("alpha", "improved", clean=True)["variant"] == "improved"
    assert captures.record("alpha", "baseline")["parameters"]["input"] == "input.bin"
    with sqlite3.connect(captures.path_of("alpha", "baseline")) as db:
        assert db.execute("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall() == [(1100,)]
    assert sorted(p.name for p in (lab.sets / "mine").iterdir()) == ["alpha", "beta", "manifest.json"]


def test_warnings_of_the_profiler_are_kept_without_paths(lab: Lab) -> None:
    lab.capture("alpha")
    assert load_set("mine").run("alpha", "baseline").warnings == (
        "CPU IP/backtrace sampling not supported, see notes.txt",
        "Not all CUDA events were collected, see log.txt",
    )


def test_what_the_machine_cannot_run_is_named_and_skipped(lab: Lab) -> None:
    assert lab.capture() == 0
    assert "gamma: not run: needs 3 GPUs, this machine has 2" in lab.printed
    assert set(load_set("mine").experiments) == {"alpha", "beta"}


def test_an_experiment_that_was_asked_for_by_name_and_cannot_run_counts(lab: Lab) -> None:
    assert lab.capture("beta", "gamma") == 1
    with pytest.raises(LabError, match=NOTHING):
        lab.capture("gamma")
    assert lab.printed == "gamma: not run: needs 3 GPUs, this machine has 2\n"


def test_unknown_experiments_and_set_names_are_refused(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"delta: no such experiment \(there are: alpha, beta, gamma\)"):
        lab.capture("delta")
    with pytest.raises(LabError, match=r"'\.\./mine': not a name for a capture set"):
        runner.capture([], "../mine", machine=dict, doctor=dict, console=runner.Console(quiet=True))
    assert lab.tree() == {}


def test_a_set_of_another_gpu_is_left_alone(captured: Lab) -> None:
    before = captured.tree()
    for gpus, has in (([], "no GPU"), ([{"name": "Other GPU"}], "Other GPU")):
        with pytest.raises(
            LabError, match=f"mine: captured on Fake GPU, and this machine has {has}; name a set"
        ):
            captured.capture("beta", machine=lambda gpus=gpus: {"gpus": gpus})
    assert captured.tree() == before


def test_one_failure_does_not_keep_others_from_being_filed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "crash")
    monkeypatch.setenv("FAKE_VARIANT", "improved")
    assert lab.capture("alpha", "beta") == 1
    assert "alpha: failed: alpha/improved: failed with exit code 2 (program.py: it went wrong)" in lab.printed
    assert set(load_set("mine").experiments) == {"beta"}


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("check", r"alpha/baseline: a check of the program failed: sum \(0.5 instead of 1\)"),
        ("no-record", "alpha/baseline: wrote no record; the program must honor --json FILE"),
        ("bad-record", "alpha/baseline: its record is not valid JSON"),
    ],
)
def test_a_program_that_breaks_its_contract_is_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", mode)
    with pytest.raises(ToolError, match=NOTHING):
        lab.capture("alpha")
    assert re.search(message, lab.printed)
    assert lab.tree() == {} and not (lab.sets / "mine").exists()


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("importer", r"could not write its report: the importer of .*/nsys lacks libdw.so.1: install libdw1"),
        (
            "no-permission",
            "alpha/baseline: nsys made no report .*Permission denied: the profiler may not trace",
        ),
        ("silent", r"alpha/baseline: nsys made no report \(it printed nothing\)"),
        ("export-fails", "alpha/baseline: nsys could not export it .*ERROR: cannot read the report"),
        ("no-window", "alpha/baseline: no NVTX range lab:measured was recorded"),
    ],
)
def test_what_goes_wrong_with_nsys_is_said_in_one_line(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    monkeypatch.setenv("FAKE_NSYS", mode)
    with pytest.raises(ToolError, match=NOTHING):
        lab.capture("alpha")
    assert sum(bool(re.search(message, line)) for line in lab.printed.splitlines()) == 1
    assert not (lab.sets / "mine").exists()


def test_without_nsys_the_message_says_what_to_install(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("labcode.tools._NSYS_PLACES", ())
    with pytest.raises(ToolError, match=NOTHING):
        lab.capture("alpha")
    assert "nsys: not found; install Nsight Systems" in lab.printed


def test_an_nsys_without_execute_permission_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labcode.tools._NSYS_PLACES", ())
    nsys = Path(os.environ["PATH"].split(":")[0]) / "nsys"
    nsys.chmod(0o644)
    with pytest.raises(ToolError, match=NOTHING):
        lab.capture("alpha")
    assert "nsys: no permission to execute it; `chmod +x` it" in lab.printed


def test_an_nsys_that_hangs_is_stopped_with_all_it_started(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NSYS", "hang")
    monkeypatch.setattr("labcode.record.nsys.PROCESSING_S", -118.0)  # 2 s are left
    with pytest.raises(ToolError, match=NOTHING):
        lab.capture("alpha")
    assert (
        "alpha/baseline under nsys: not done after 2 s, so it and all it started were stopped" in lab.printed
    )
    assert _left_over(lab) == []
    assert not (lab.sets / "mine").exists()


def test_a_full_disk_stops_the_capture_and_leaves_the_set_as_it_was(
    captured: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = captured
    before = lab.tree()
    lab.program.write_text(lab.program.read_text() + "\nchanged = True\n")
    monkeypatch.setenv("FAKE_NSYS", "full-disk")
    with pytest.raises(LabError, match=f"alpha: .*{os.strerror(errno.ENOSPC)}; free some space") as caught:
        lab.capture("alpha", "beta")
    assert "\n" not in str(caught.value)
    assert lab.tree() == before


def test_a_folder_without_write_permission_is_named_before_anything_runs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.sets.mkdir()
    lab.sets.chmod(0o555)
    monkeypatch.setattr(runner, "_begun", lambda *_: pytest.fail("ran"))
    root = os.geteuid() == 0
    if root:  # root may write everywhere, so be somebody else for a moment
        for parent in lab.sets.parents:
            if parent.stat().st_mode & 0o055 != 0o055:
                parent.chmod(parent.stat().st_mode | 0o055)
        os.seteuid(65534)
    try:
        with pytest.raises(LabError, match=r"sets.mine: Permission denied; you do not have the permission"):
            lab.capture("alpha")
    finally:
        if root:
            os.seteuid(0)
        lab.sets.chmod(0o755)


def test_ctrl_c_ends_the_program_and_leaves_the_set_as_it_was(
    captured: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = captured
    before = lab.tree()
    monkeypatch.setenv("FAKE_PROGRAM", "interrupt")
    with pytest.raises(KeyboardInterrupt):
        lab.capture("alpha")
    assert lab.tree() == before
    assert _left_over(lab) == []


def test_resume_skips_what_is_there_and_fresh(captured: Lab) -> None:
    lab = captured
    before = lab.tree()
    assert lab.capture("alpha", "beta", only_missing=True) == 0
    assert "alpha: already there and fresh" in lab.printed and lab.tree() == before
    lab.program.write_text(lab.program.read_text() + "\n# a comment\n")
    lab.capture("alpha", only_missing=True)
    assert lab.tree() == before
    lab.program.write_text(lab.program.read_text() + "\nchanged = True\n")
    lab.capture("alpha", only_missing=True)
    assert "alpha/baseline" in lab.printed
    assert (
        dict(load_set("mine").experiment("alpha").sources)
        != json.loads(before["mine/manifest.json"])["experiments"]["alpha"]["sources"]
    )


def test_resume_captures_again_what_was_damaged(captured: Lab) -> None:
    lab = captured
    (lab.sets / "mine/beta/record.json").write_text("{}")
    lab.capture("beta", only_missing=True)
    assert "beta/record" in lab.printed
    assert load_set("mine").record("beta", "record")["program"] == "program"


def test_two_captures_into_one_set_at_once_are_refused(lab: Lab) -> None:
    from labcode.capture.filing import open_set

    with (
        open_set(lab.sets / "mine"),
        pytest.raises(LabError, match="another `labcode capture` is writing to this set"),
    ):
        lab.capture("beta")


def test_an_archive_goes_where_it_can_be_written(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"the archive's name must end in \.tar"):
        lab.capture("beta", archive=tmp_path / "out.zip")
    with pytest.raises(LabError, match="its folder does not exist"):
        lab.capture("beta", archive=tmp_path / "nowhere/out.tar")
    lab.capture("beta", archive=tmp_path / "out.tar")
    assert "out.tar: 10 KiB" in lab.printed.replace("\n", "")
    assert archive.add([tmp_path / "out.tar"], tmp_path / "elsewhere") == ["mine/beta: added"]
    assert store.parse_manifest(
        json.loads((tmp_path / "elsewhere/mine/manifest.json").read_text()), lab.sets
    ).experiments.keys() == {"beta"}


def test_who_is_killed_keeps_in_the_archive_what_was_finished(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, found = tmp_path / "out.tar", []

    def killed() -> Any:
        found.append(packed.read_bytes())  # what a kill at this moment would leave
        raise KeyboardInterrupt

    ends = runner.tools.Tool(lambda _: Part("run", killed), alone=False)
    monkeypatch.setitem(runner.tools.TOOLS, "bench", ends)
    with pytest.raises(KeyboardInterrupt):
        lab.capture("alpha", "beta", archive=packed)
    assert found == [packed.read_bytes()]
    assert archive.add([packed], tmp_path / "elsewhere") == ["mine/alpha: added"]


def test_resuming_puts_what_was_there_into_the_archive_first(captured: Lab, tmp_path: Path) -> None:
    packed = tmp_path / "again.tar"
    assert captured.capture("alpha", "beta", only_missing=True, archive=packed) == 0
    assert archive.add([packed], tmp_path / "elsewhere") == ["mine/alpha: added", "mine/beta: added"]


def test_an_archive_that_cannot_be_written_is_named(captured: Lab, tmp_path: Path) -> None:
    (tmp_path / "no.tar").mkdir()
    with pytest.raises(LabError, match=r"no\.tar: a folder or a device, not a file"):
        captured.capture("beta", archive=tmp_path / "no.tar")


def test_sigterm_ends_the_program_and_leaves_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = lab.home / "pids"
    monkeypatch.setenv("FAKE_PROGRAM", "hang")
    monkeypatch.setenv("FAKE_PIDS", str(pids))

    def terminate() -> None:
        for _ in range(200):
            if pids.exists() and len(pids.read_text().split()) == 2:
                break
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate).start()
    with pytest.raises(Ended, match="SIGTERM"), signals_as_exceptions():
        lab.capture("beta")
    for pid in pids.read_text().split():
        assert gone(int(pid))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert not (lab.sets / "mine").exists()


def _left_over(lab: Lab) -> list[str]:
    """Commands of processes that the runner started and that still run."""
    time.sleep(0.1)
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = entry.read_bytes()
            if b"LABCODE_CHILD_OF=" in environment and str(lab.home).encode() in environment:
                found.append(entry.with_name("cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


def test_what_happens_to_a_gpu_meanwhile_is_recorded_or_the_run_is_not_filed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = health.Told((), ("GPU 0 lowered its clocks for heat for 3.0 of 10.0 s",))
    monkeypatch.setattr(health, "between", lambda before, after: hot)
    assert lab.capture("beta") == 0
    manifest = json.loads((lab.sets / "mine" / "manifest.json").read_text())
    runs = manifest["experiments"]["beta"]["runs"]
    assert all(hot.warnings[0] in run["warnings"] for run in runs.values())
    before = lab.tree()
    monkeypatch.setattr(health, "between", lambda before, after: health.Told(("GPU 0 was lost meanwhile",)))
    with pytest.raises(ToolError, match=NOTHING):
        lab.capture("beta")
    assert "GPU 0 was lost meanwhile" in lab.printed
    assert lab.tree() == before


def test_a_host_that_slows_down_is_noticed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_a_pace(*seconds: float) -> tuple[list[float], tuple[str, ...]]:
        """What is filed of a run beside which the host took so long for its work, and the warnings."""
        left = list(seconds)
        monkeypatch.setattr(host, "pace_s", lambda: left.pop(0))
        assert lab.capture("beta") == 0 and not left
        run = load_set("mine").run("beta", "record")
        return list(run.host_s), run.warnings

    told = "the host took 2.8 times as long for the same work as at its best"
    assert at_a_pace(0.005, 0.014) == ([0.005, 0.014], (told,))
    assert f"beta/record: {told}; capture it again when nothing else runs" in lab.printed
    assert at_a_pace(0.009, 0.005) == ([0.009, 0.005], ()) and "at its best" not in lab.printed
    # slow from its beginning to its end: told beside what the set has of this machine
    assert at_a_pace(0.014, 0.014)[1] == (told,)
