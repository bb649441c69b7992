"""What grows without end: a few commands on a small one in each change, others on a large one at night."""

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.energy import window as energy
from labcode.analysis.ledger.ledger import MOST_GPUS
from labcode.analysis.ranks.lane import lanes_of
from labcode.analysis.rules import gpu_work
from labcode.analysis.rules import power as rules
from labcode.analysis.rules.tables import Tables
from labcode.analysis.stats.power import SHELF
from labcode.analysis.stats.shelf import NOTES
from labcode.figures.pages import interactive
from labcode.reports.nsys import schema
from labcode.reports.nsys.report import NsysReport
from labcode.verbs.report import captures, together
from labcode.verbs.report.page import write_report
from labcode.verbs.stats import Asked, write_all
from tests.hostile import judge, sizes
from tests.hostile.__main__ import ready
from tests.support import exports, power, ranks
from tests.support.growth import memory_held

HELD = (  # at full size within ten seconds and a gigabyte
    *(
        "streams:",
        "devices:diagnose",
        "devices:report",
        "devices:timeline",
        "devices:page",
        "devices:compare",
        "names:scrub",
        "parts:",
    ),
    *("windows:report", "windows:stats", "windows:timeline", "device_name:diagnose", "device_name:report"),
    *("long_names:stats", "long_names:timeline", "long_part:table", "devices:md"),
    *("long_names:md", "long_names:diagnose", "devices:stats", "devices:shown", "devices:scrub"),
    *("names:stats", "names:shown", "names:diagnose", "names:report", "names:md", "names:timeline"),
    *("names:page", "names:compare", "nested:", "behind:", "history:", "kernels:", "spaces:", "lists:"),
    *("members:", "many_ranks:diagnose", "many_ranks:report", "many_ranks:timeline"),
)
SAMPLED = ("streams:diagnose", "long_names:md", "parts:md", "lists:verify")


@pytest.mark.parametrize("name", SAMPLED)
def test_a_small_one(name: str) -> None:
    ready()
    size = next(size for size in sizes.SIZES if size.name == name)
    assert size.case(size.few).faults == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "size", [one for one in sizes.SIZES if one.name.startswith(HELD)], ids=lambda size: size.name
)
def test_a_large_one(size: sizes.Size, monkeypatch: pytest.MonkeyPatch) -> None:
    ready()
    monkeypatch.setattr(judge, "LONGEST", 600.0)  # in which the file is made, too
    assert size.case(size.many).faults == []


def test_of_too_many_windows_the_longest_are_judged_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [(f"w{k}", 1.0, 1.5 + k) for k in range(6)]
    log = power.log(power.device(power.steady()), windows=spans)
    for module in (energy, rules):
        monkeypatch.setattr(module, "MOST_WINDOWS", 3)
    assert "of the 3 longest of 6 windows" in rules.short_windows(log).message
    table = SHELF.reports["energy_windows"](log)
    assert list(table["name"]) == ["w3", "w4", "w5"]
    assert table.attrs[NOTES] == ("of 6 windows the 3 longest",)
    assert len(energy.windows(log)) == 6


def test_more_gpus_than_a_page_has_lines_make_a_report() -> None:
    ready()
    size = next(size for size in sizes.SIZES if size.name == "devices:report")
    assert size.case(1_200).faults == []


def test_windows_of_one_length_are_not_all_judged() -> None:
    log = power.log(power.device(power.steady()), windows=[("w", 1.0, 2.0)] * 9)
    table = energy.windows(log, 4)
    assert len(table) == 4 and list(table["instance"]) == [0, 1, 2, 3]


def test_a_page_has_a_thousand_lines_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive, "MOST_TRACKS", 5)
    with reports.open_timeline(sizes.streams(tmp_path, 30), "timeline") as report:
        page = interactive.interactive_page(report)
    assert "Timeline: of 32 lines the 5 with most time in their events" in page
    assert page.count("stream ") < 20


def test_of_too_many_gpus_the_busiest_have_gaps(tmp_path: Path) -> None:
    with reports.open_timeline(sizes.devices(tmp_path, MOST_GPUS + 9), "diagnose") as report:
        tables = Tables(report)
        assert len(tables.busy) == len(tables.by_device) == MOST_GPUS
        assert set(tables.gaps["device"]) == set(tables.by_device)
        assert tables.work["device"].nunique() == MOST_GPUS + 9


def test_a_rank_reads_each_of_its_tables_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, count = NsysReport.nvtx, []
    monkeypatch.setattr(NsysReport, "nvtx", lambda self: count.append(1) or read(self))
    lanes_of(ranks.rank(tmp_path, 0))
    assert len(count) == 1


def test_chains_end_where_streams_do() -> None:
    import numpy as np
    import pandas as pd

    ops = pd.DataFrame(
        {
            "name": ["a", "b", "a", "b", "a", "a", "c"],
            "start_ns": [10, 20, 30, 40, 50, 60, 70],
            "context": [1] * 7,
            "stream": [7, 7, 8, 8, 9, 9, 7],
        }
    )
    part = np.array([True] * 6 + [False])
    found = gpu_work._chains(ops, part, np.array([0])).tolist()
    assert found[4:] == [-1, -1, -1] and found[0] == found[1] != found[2] == found[3] and min(found[:4]) >= 0
    apart = gpu_work._chains(ops, part, np.array([0, 15])).tolist()
    assert apart[:2] == [-1, -1] and apart[2] == apart[3] >= 0


def test_the_reports_of_a_folder_open_each_rank_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, count = reports.open_timeline, []
    monkeypatch.setattr(reports, "open_timeline", lambda *words: count.append(words[0]) or opened(*words))
    folder = ranks.run(tmp_path / "run")
    written = write_all([folder], Asked(every=True), "csv", tmp_path / "out")
    assert len(written.files) == 11 and len(count) == len(set(count)) == 4


def _dense(path: Path, count: int) -> Path:
    """Kernels of nine names back to back, each with the call that launched it, in 1,000 ranges."""
    own = [(exports.kernel(50, 140, f"k{k}(int)", correlation=k), exports.call(0, 40)) for k in range(9)]
    wide = 100 * count // 1_000
    steps = [exports.push_pop(k * wide, (k + 1) * wide - 1, f"step {k}") for k in range(1_000)]
    kernels, calls = zip(*own, strict=True)
    exports.make_export(path, kernels=kernels, api=calls, nvtx=steps)
    moved = {"start": "start + 100 * i", "end": "end + 100 * i", "correlationId": "i"}
    with closing(sqlite3.connect(path)) as database:
        for table in (schema.KERNEL, schema.RUNTIME):
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            rows = ", ".join(moved.get(name, f'"{name}"') for name in names)
            database.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
                f"INSERT INTO {table} SELECT {rows} FROM n "
                f"JOIN (SELECT *, row_number() OVER () - 1 AS place FROM {table}) ON place = i % 9"
            )
        database.commit()
    return path


def test_what_a_report_holds_of_each_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (together, captures):
        monkeypatch.setattr(part, "MOST_WALKED", 10_000)  # as of a long run
    for count in (50_000, 150_000):
        _dense(tmp_path / f"{count}.sqlite", count)

    def work(count: int) -> None:
        write_report([tmp_path / f"{count}.sqlite"], None, fmt="json", stream=io.StringIO())

    work(50_000)  # what is imported and cached
    few, many = (memory_held(work, count) for count in (50_000, 150_000))
    # The times and numbers of an operation, its call, the gap before it and what owns both are some thirty
    # of 8 bytes, those with what one step needs beside them forty: five million stay below 1.6 GiB.
    assert (many - few) / 100_000 < 330
