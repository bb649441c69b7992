"""Which kind a file is of, which command reads it, and that asking so costs nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from labcode import reports
from labcode.errors import InputError, LabError
from labcode.reports import expect, kind_of
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.memory.history import MemoryHistory
from labcode.reports.ncu.report import NcuReport
from labcode.reports.nsys.report import NsysReport
from tests.support import exports, histories, ncu, traces


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[("a.sqlite", "nsys"), ("a.sqlite.xz", "nsys"), ("a.nsys-rep", "nsys"), ("a", "nsys")],
        *[("a.ncu-rep", "ncu"), ("A.NCU-REP.XZ", "ncu")],
        *[("a.trace.json", "kineto"), ("a.json.gz", "kineto"), (".", "kineto")],
        *[("a.power.json", "power"), ("A.POWER.JSON.XZ", "power")],
        *[("a.memory.json", "memory"), ("a.memory.json.xz", "memory"), ("a.memory.json.gz", "memory")],
        ("a.pickle", "memory"),
        *[("a.pftrace", "perfetto"), ("A.PFTRACE.GZ", "perfetto"), ("a.perfetto-trace", "perfetto")],
    ],
)
def test_kinds_by_name(name: str, kind: str) -> None:
    assert kind_of(Path(name)) == kind


def test_averages_are_no_trace() -> None:
    with pytest.raises(InputError, match=r"averages of a trace, not the trace; name the \.trace\.json"):
        kind_of(Path("a.averages.json"))


def test_a_command_says_what_it_reads_and_what_reads_the_file() -> None:
    assert expect(Path("a.ncu-rep"), "roofline", "ncu") == "ncu"
    with pytest.raises(
        LabError,
        match=r"a report of Nsight Compute; `labcode timeline` reads \.sqlite or \.json and not this, ",
    ):
        expect(Path("a.ncu-rep"), "timeline", "nsys", "kineto")


def test_every_kind_is_opened(tmp_path: Path) -> None:
    files = {
        exports.make_export(tmp_path / "a.sqlite"): NsysReport,
        traces.training(tmp_path)[0]: KinetoReport,
        histories.write(tmp_path, histories.leaking()): MemoryHistory,
        ncu.path("sol.ncu-rep"): NcuReport,
    }
    for file, kind in files.items():
        assert type(reports.open(file)) is kind


def test_asking_for_the_kind_imports_no_reader() -> None:
    code = (
        "import sys, labcode.reports; print([n for n in sys.modules if n in ('numpy', 'pandas', 'msgspec')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
