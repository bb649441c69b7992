"""With a real nsys (no GPU needed): samples, context switches and OS calls of a Python program are read."""

import os
import sys
from pathlib import Path

import pytest

from labcode.analysis.timeline import os_runtime, stacks, switches
from labcode.reports.nsys.report import open_report
from labcode.tools import find_nsys, run_tool

NSYS = find_nsys()
pytestmark = pytest.mark.skipif(NSYS is None, reason="no nsys here: put one on PATH or set LABCODE_NSYS")
PROGRAM = """
import threading, time, zlib
def wait():
    time.sleep(0.05)
waiting = threading.Thread(target=wait)
waiting.start()
data = bytes(range(256)) * 4096
for _ in range(12):
    zlib.compress(data, 9)
waiting.join()
"""


def test_what_a_real_nsys_saw_of_a_program(tmp_path: Path) -> None:
    assert NSYS is not None
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = ("--trace=osrt", "--sample=process-tree", "--cpuctxsw=process-tree")
    profile = [NSYS, "profile", *words, "--osrt-backtrace-threshold=1000", f"--output={tmp_path / 'a'}"]
    done = run_tool([*profile, os.path.realpath(sys.executable), str(program)], 120)
    assert done.returncode == 0, done.stderr
    export = tmp_path / "a.sqlite"
    report = tmp_path / "a.nsys-rep"
    assert run_tool([NSYS, "export", "--type=sqlite", f"--output={export}", report], 120).returncode == 0

    with open_report(export) as capture:
        calls = os_runtime.classified(capture.osrt())
        sleeping = calls[calls["call_class"] == "sleep"]
        waits_ns = sleeping["duration_ns"].max() if len(sleeping) else calls["duration_ns"].max()
        assert waits_ns > 45_000_000
        chains = capture.osrt_callchains()
        assert set(calls["callchain"].dropna()) <= set(chains["callchain"]) != set()
        assert chains.groupby("callchain")["depth"].min().eq(0).all()
        if len(capture.cpu_samples()) == 0:
            pytest.skip("this machine lets nsys sample no CPU")
        frames = capture.cpu_callchains()
        assert set(frames["sample"]) <= set(capture.cpu_samples()["sample"])
        table = stacks.functions(stacks.fold(frames, stacks.native_labels(frames)))
        assert table["self_share"].sum() == pytest.approx(1)
        events = capture.context_switches()
        if len(events):
            window = (int(events["start_ns"].min()), int(events["start_ns"].max()))
            summary = switches.thread_summary(switches.thread_states(events, window), capture.threads())
            assert len(summary) >= 2 and summary["running_ns"].max() > 10_000_000
