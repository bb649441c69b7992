"""Memory that CUDA handed out, as nsys recorded it: read, summed up, drawn, and in a report."""

from pathlib import Path

import pytest

from labcode.analysis.memory.usage import in_use, summary
from labcode.errors import InputError
from labcode.figures.charts.memory import memory_usage
from labcode.figures.style import render
from labcode.reports.nsys.report import open_report
from labcode.verbs.report.gather import gather
from tests.support import exports as e
from tests.support.command import printed
from tests.support.memory_usage import ALLOCATED, FREED, PINNED, add_memory_usage

MIB = 1 << 20


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """4 MiB from before the measured part; in it 8 more, half of which are freed, and pinned memory."""
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(1_200, 1_900, correlation=1)],
        api=[e.call(1_100, 1_110, correlation=1)],
        nvtx=[e.push_pop(1_000, 2_000, "lab:measured")],
    )
    events = [
        (1_500, FREED, 0x20, 4 * MIB),  # nsys writes them in no order
        (100, ALLOCATED, 0x10, 4 * MIB),
        (200, FREED, 0x99, 64 * MIB),  # allocated before the recording
        (1_300, ALLOCATED, 0x20, 4 * MIB),
        (1_400, ALLOCATED, 0x30, 4 * MIB),
        (2_500, ALLOCATED, 0x40, 32 * MIB),
    ]
    add_memory_usage(path, events)
    return add_memory_usage(path, [(1_600, ALLOCATED, 0x10, MIB)], kind=PINNED)


def test_events_are_read_by_time(capture: Path) -> None:
    with open_report(capture) as report:
        table = report.memory_usage()
    assert table["time_ns"].is_monotonic_increasing and len(table) == 7
    assert table.iloc[0][["pid", "device", "operation", "mem_kind", "address", "bytes"]].tolist() == [
        100,
        0,
        "allocation",
        "device",
        0x10,
        4 * MIB,
    ]
    assert table["mem_kind"].tolist().count("pinned") == 1


def test_an_export_without_them_has_an_empty_table(tmp_path: Path) -> None:
    with open_report(e.make_export(tmp_path / "a.sqlite")) as report:
        table = report.memory_usage()
        assert len(table) == 0 and "in_use_bytes" in in_use(table)
        assert len(summary(report)) == 0


def test_a_free_takes_back_what_its_address_holds(capture: Path) -> None:
    with open_report(capture) as report:
        table = in_use(report.memory_usage())
    device = table[table["mem_kind"] == "device"]
    assert (device["in_use_bytes"] // MIB).tolist() == [4, 4, 8, 12, 8, 40]


def test_an_address_allocated_twice_counts_once(tmp_path: Path) -> None:
    path = add_memory_usage(
        e.make_export(tmp_path / "a.sqlite"),
        [(1, ALLOCATED, 1, 10), (2, ALLOCATED, 1, 30), (3, FREED, 1, 30)],
    )
    with open_report(path) as report:
        assert in_use(report.memory_usage())["in_use_bytes"].tolist() == [10, 30, 0]


def test_the_summary_is_of_the_measured_part(capture: Path) -> None:
    assert printed(capture, "cuda_memory_usage").splitlines() == [
        "PID,GPU,Allocations,Frees,At Start (bytes),Peak (bytes),At End (bytes),Largest (bytes),"
        "Time of Peak (ns),Memory",
        f"100,0,2,1,{4 * MIB},{12 * MIB},{8 * MIB},{4 * MIB},400,device",
        f"100,0,1,0,0,{MIB},{MIB},{MIB},600,pinned",
    ]


def test_without_the_option_the_report_says_how_to_record_it(tmp_path: Path) -> None:
    wanted = "no allocations by CUDA, so there is no cuda_memory_usage; .* --cuda-memory-usage=true"
    with pytest.raises(InputError, match=wanted):
        printed(e.make_export(tmp_path / "a.sqlite"), "cuda_memory_usage")


def test_a_table_without_addresses_is_refused(tmp_path: Path) -> None:
    create = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, bytes, memKind, memoryOperationType)"
    with pytest.raises(InputError, match=r"CUDA_GPU_MEMORY_USAGE_EVENTS.*address"):
        open_report(e.make_export(tmp_path / "a.sqlite", extra_sql=[create]))


def test_the_picture_has_a_line_for_each_kind(capture: Path) -> None:
    with open_report(capture) as report:
        figure = memory_usage(report)
        lines = figure.axes[0].get_lines()
        assert [line.get_label() for line in lines] == ["GPU 0: device", "GPU 0: pinned"]
        assert list(lines[0].get_ydata()) == [
            4,
            8,
            12,
            8,
            8,
        ]  # MiB; what comes after the measured part is not
        assert list(lines[0].get_xdata()) == [0, 3e-4, 4e-4, 5e-4, 1e-3]
        assert render(lambda: memory_usage(report)).startswith(b"<?xml")


def test_a_report_shows_them(capture: Path) -> None:
    with gather([capture]) as document:
        (section,) = [one for one in document.sections if one.id == "memory"]
        (shown,) = section.tables
    assert shown.note == "labcode stats -r cuda_memory_usage"
    assert shown.rows["Memory"].tolist() == ["device", "pinned"]
