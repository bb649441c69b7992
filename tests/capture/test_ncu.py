"""Capturing with a made-up ncu: what is filed, what replaying cost, and what goes wrong."""

from pathlib import Path

import pytest

from labcode import store
from labcode.capture import catalogue, verify
from labcode.capture.catalogue import Experiment, Run, needs_of
from labcode.errors import LabError
from labcode.hardware import needs
from labcode.record import ncu
from labcode.reports.ncu.report import open_report
from labcode.store import load_set
from tests.capture.conftest import Lab
from tests.support import ncu as golden
from tests.support.programs import python_program

FAKE = f"""
import os, pathlib, shutil, subprocess, sys
mode = os.environ.get("FAKE_NCU", "")
words = sys.argv[1:]
print("==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, ...")
if mode == "no-rights":
    print("==ERROR== ERR_NVGPUCTRPERM - The user has no permission to access Performance Counters")
    sys.exit(1)
place = next(n for n, word in enumerate(words) if word.startswith("--export="))
report = pathlib.Path(words[place].removeprefix("--export="))
command = words[place + 1:]
code = subprocess.run(command).returncode
if mode == "none" or mode == "nothing":
    print("==WARNING== No kernels were profiled.")
    if mode == "none":
        print("Available Kernels:\\n1. copy_scalar\\n2. void spills<float>(int)")
    sys.exit(0)
if mode == "fails":
    print("==ERROR== Failed to open /home/someone/secret/library.so")
    sys.exit(11)
print('==PROF== Profiling "copy_scalar" - 0: 0%....50%....100% - 8 passes')
print('==PROF== Profiling "strided" - 1: 0%....50%....100% - 9 passes')
print("==WARNING== Metric x is not available, see /home/someone/log.txt")
shutil.copy({str(golden.path("sol.ncu-rep"))!r}, report)
sys.exit(code)
"""


@pytest.fixture
def lab(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    python_program(tmp_path / "bin" / "ncu", FAKE)
    monkeypatch.delenv("FAKE_NCU", raising=False)
    monkeypatch.delenv("LABCODE_NCU", raising=False)
    run = Run("copies", ("--variant", "copies"), ("-k", "regex:copy"))
    delta = Experiment("delta", "Kernels under ncu", "ncu", "program", (run,), ("program.py",), 1, 20.0)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "delta", delta)
    monkeypatch.setattr(needs.permissions, "counters", lambda: needs.permissions.Permission(True, "test"))
    return lab


def test_a_report_is_filed_with_what_replaying_cost(lab: Lab) -> None:
    assert lab.capture("delta") == 0, lab.printed
    captures = load_set("mine")
    run = captures.run("delta", "copies")
    assert [file.name for file in run.files] == ["copies.ncu-rep.xz", "copies.json", "copies.clean.json"]
    assert run.tool_args[:4] == ("--clock-control", "none", "--target-processes", "all")
    assert run.tool_args[-2:] == ("-k", "regex:copy")
    assert run.warnings == ("Metric x is not available, see log.txt",)
    report = open_report(captures.path_of("delta", "copies", ".ncu-rep"))
    assert len(report.list) == 2
    profiler = captures.record("delta", "copies")["profiler"]
    assert profiler["launches"] == [
        {"kernel": "copy_scalar", "passes": 8},
        {"kernel": "strided", "passes": 9},
    ]
    assert profiler["wall_s"] > 0 and profiler["clean_wall_s"] > 0
    assert "profiler" not in captures.record("delta", "copies", clean=True)
    assert captures.experiment("delta").tool == "ncu"
    assert verify.verify("mine") == []


def test_an_archive_carries_it(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from labcode.capture import archive

    assert lab.capture("delta", archive=lab.archive) == 0, lab.printed
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    archive.add([lab.archive])
    assert (store.sets_root() / "mine" / "delta" / "copies.ncu-rep.xz").is_file()


def test_a_damaged_report_in_a_set_is_found(lab: Lab) -> None:
    import lzma

    lab.capture("delta")
    file = lab.sets / "mine" / "delta" / "copies.ncu-rep.xz"
    data = lzma.compress(lzma.decompress(file.read_bytes())[:-30])
    file.write_bytes(data)
    manifest = lab.sets / "mine" / "manifest.json"
    text = manifest.read_text()
    old = load_set("mine").run("delta", "copies").files[0]
    text = text.replace(old.sha256, store.file_sha256(file)).replace(
        f'"bytes": {old.size_bytes}', f'"bytes": {len(data)}'
    )
    manifest.write_text(text)
    found = [finding for finding in verify.verify("mine") if finding.kind == "damaged"]
    assert len(found) == 1 and "truncated or damaged" in found[0].text


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (
            "no-rights",
            "delta/copies: the GPU's counters are not permitted (ERR_NVGPUCTRPERM): run as root; or",
        ),
        ("none", "no kernel matches -k regex:copy; there were: copy_scalar, void spills<float>(int)"),
        ("nothing", "no kernel matches -k regex:copy; the program launched none"),
        ("fails", "ncu made no report (==ERROR== Failed to open library.so)"),
    ],
)
def test_what_goes_wrong_is_one_line(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    monkeypatch.setenv("FAKE_NCU", mode)
    with pytest.raises(LabError, match="nothing was captured"):
        lab.capture("delta")
    assert message in lab.printed
    assert not (lab.sets / "mine" / "delta").exists()


def test_needs() -> None:
    run = (Run("a"),)
    assert needs_of(Experiment("x", "", "ncu", "m", run, ())) == ("gpu", "ncu", "counters")


def test_naming_the_filter() -> None:
    assert ncu.kernels(["--set", "full", "--kernel-name=regex:x"]) == "--kernel-name=regex:x"
    assert ncu.kernels(["--set", "full"]) == "the filter"
