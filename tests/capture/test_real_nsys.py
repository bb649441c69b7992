"""With a real nsys (no GPU needed): a program is captured, and `nsys stats` reads the scrubbed export."""

import csv
import io
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from labcode.capture import catalogue, privacy, scan
from labcode.capture.scrub import check_export, scrub_export
from labcode.capture.trim import table_names, trim_export
from labcode.errors import ToolError
from labcode.hardware import needs
from labcode.store import load_set, unpack_xz
from labcode.tools import find_nsys, find_nvcc, run_tool
from tests.capture.conftest import Lab

NSYS = find_nsys()
pytestmark = pytest.mark.skipif(NSYS is None, reason="no nsys here: put one on PATH or set LABCODE_NSYS")

RANGES = """
#include <nvtx3/nvToolsExt.h>
extern "C" void push(const char *text) { nvtxRangePushA(text); }
extern "C" void pop() { nvtxRangePop(); }
"""
PROGRAM = """
import argparse, ctypes, json, time
options = argparse.ArgumentParser()
options.add_argument("--variant")
options.add_argument("--gpus")
options.add_argument("--json")
given = options.parse_args()
ranges = ctypes.CDLL("./ranges.so")
ranges.push(b"warm-up")
ranges.pop()
ranges.push(b"lab:measured")
for step in range(3):
    ranges.push(b"step %d" % step)
    time.sleep(0.002)
    ranges.pop()
ranges.pop()
ranges.push(b"afterwards")
ranges.pop()
record = {"program": "program", "results": {}, "checks": {}}
open(given.json, "w").write(json.dumps(record))
"""


@pytest.fixture
def real(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The laboratory with a real nsys and a program with NVTX ranges."""
    try:
        include = find_nvcc().resolve().parents[1] / "include"
    except ToolError:
        include = Path("/usr/include")
    if shutil.which("g++") is None or not any(include.rglob("nvtx3/nvToolsExt.h")):
        pytest.skip("no g++ or no NVTX headers here")
    (lab.home / "ranges.cpp").write_text(RANGES)
    headers = next(include.rglob("nvtx3/nvToolsExt.h")).parents[1]
    build = ["g++", "-shared", "-fPIC", f"-I{headers}", "ranges.cpp", "-o", "ranges.so", "-ldl"]
    subprocess.run(build, cwd=lab.home, check=True)
    lab.program.write_text(PROGRAM)
    monkeypatch.setenv("LABCODE_NSYS", str(NSYS))
    return lab


def test_a_real_capture_is_trimmed_and_read_by_nsys(real: Lab, tmp_path: Path) -> None:
    assert real.capture("alpha") == 0, real.printed
    captures = load_set("mine")
    export = tmp_path / "copy.sqlite"
    unpack_xz(captures.stored("alpha", "baseline", ".sqlite"), export)
    names = [row["Range"].lstrip(":") for row in _stats(export, "nvtx_sum")]
    assert sorted(names) == ["lab:measured", "step 0", "step 1", "step 2"]
    assert privacy.find(scan.texts_of(export), privacy.machine_names()) == []
    with closing(sqlite3.connect(export)) as db:
        kept = set(table_names(db))
        assert not kept & {"META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV", "ProcessStreams", "ANALYSIS_FILE"}
        assert db.execute("SELECT count(*) FROM PROCESSES").fetchone() == (1,)


def test_scrubbing_changes_nothing_that_nsys_reports(real: Lab, tmp_path: Path) -> None:
    report, raw, scrubbed = tmp_path / "a.nsys-rep", tmp_path / "raw.sqlite", tmp_path / "scrubbed.sqlite"
    profile = [
        NSYS,
        "profile",
        "--trace=nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        f"--output={tmp_path / 'a'}",
    ]
    command = [os.path.realpath(sys.executable), "program.py", "--json", str(tmp_path / "a.json")]
    assert run_tool([*profile, *command], 120, cwd=real.home).returncode == 0
    assert run_tool([NSYS, "export", "--type=sqlite", f"--output={raw}", report], 120).returncode == 0
    done = scrub_export(raw, scrubbed)
    assert "META_DATA_CAPTURE" in done.dropped and done.strings_kept < done.strings_before
    for name in ("nvtx_sum", "nvtx_pushpop_trace", "osrt_sum"):
        ours, theirs = (
            [{key: value for key, value in row.items() if key not in ("PID", "TID")} for row in rows]
            for rows in (_stats(scrubbed, name), _stats(raw, name))
        )
        assert ours == theirs != []
    before = _stats(scrubbed, "osrt_sum")
    assert trim_export(raw) is not None
    scrub_export(raw, scrubbed)
    check_export(scrubbed)
    after = {row["Name"]: int(row["Num Calls"]) for row in _stats(scrubbed, "osrt_sum")}
    assert sum(after.values()) < sum(int(row["Num Calls"]) for row in before)
    assert sum(calls for name, calls in after.items() if "sleep" in name) == 3


def _stats(export: Path, report: str) -> list[dict[str, str]]:
    """A report of `nsys stats` as rows; made from a copy, since nsys writes beside its input."""
    assert NSYS is not None
    copy = export.with_name(f"stats-{export.name}")
    shutil.copy(export, copy)
    result = run_tool([NSYS, "stats", "--format=csv", "--quiet", f"--report={report}", copy], 120)
    copy.unlink()
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    header = next((i for i, line in enumerate(lines) if line.count(",") > 2), None)
    return [] if header is None else list(csv.DictReader(io.StringIO("\n".join(lines[header:]))))


def test_a_program_that_waits_for_its_turn_under_nsys_is_recorded_as_ever(
    real: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("class cuda:\n    is_initialized = staticmethod(lambda: False)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(needs, "unmet", lambda _: {})
    alpha = catalogue.EXPERIMENTS["alpha"]
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"alpha": replace(alpha, needs=("torch",))})
    assert real.capture("alpha") == 0, real.printed
    export = tmp_path / "copy.sqlite"
    for run in ("baseline", "improved"):
        unpack_xz(load_set("mine").stored("alpha", run, ".sqlite"), export)
        names = [row["Range"].lstrip(":") for row in _stats(export, "nvtx_sum")]
        assert sorted(names) == ["lab:measured", "step 0", "step 1", "step 2"]
