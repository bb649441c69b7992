"""The reports of `labcode stats X.ncu-rep`: what they hold, in every format, and what they refuse."""

import csv
import io
import json
import os
import tracemalloc
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from labcode.analysis.stats import ncu as ncu_stats
from labcode.analysis.stats.ncu import REPORTS
from labcode.analysis.stats.writer import records, write
from labcode.errors import InputError, LabError
from labcode.reports.ncu.report import open_report
from labcode.verbs import stats as driver
from labcode.verbs.stats import Asked, print_all, write_all
from tests.support import ncu

opened = cache(open_report)  # a whole report takes half a second to read


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(ncu.folder() / "cache"))
    monkeypatch.setattr(driver, "shelf_of", lambda kind: replace(ncu_stats.SHELF, open=opened))


def text(name: str, *reports: str, fmt: str = "csv", **options: object) -> str:
    output = io.StringIO()
    asked = Asked(reports, **options)  # type: ignore[arg-type]
    print_all([ncu.path(f"{name}.ncu-rep")], asked, fmt, output, notes=output)
    return output.getvalue()


def rows(name: str, report: str, **options: object) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text(name, report, **options)))


@pytest.mark.parametrize("report", sorted(REPORTS))
@pytest.mark.parametrize("fmt", ["table", "csv", "json", "md"])
def test_every_report_in_every_format(report: str, fmt: str) -> None:
    written = text("full", report, fmt=fmt, kernel="spills")
    assert "spills" in written
    if fmt == "json":
        assert isinstance(json.loads(written), list)
    if fmt == "csv":
        table = list(csv.reader(io.StringIO(written)))
        assert len({len(row) for row in table}) == 1


def test_speed_of_light_equals_the_details_page() -> None:
    ours = rows("full", "speed_of_light").set_index("launch")
    titles = {"compute (%)": "Compute (SM) Throughput", "memory (%)": "Memory Throughput"}
    titles |= {"L2 (%)": "L2 Cache Throughput", "DRAM (%)": "DRAM Throughput", "cycles": "Elapsed Cycles"}
    theirs = ncu.page("full", "details")
    place = {name: theirs[0].index(name) for name in ("ID", "Section Name", "Metric Name", "Metric Value")}
    compared = 0
    for row in theirs[1:]:
        if row[place["Section Name"]] != "GPU Speed Of Light Throughput":
            continue
        for column, title in titles.items():
            if row[place["Metric Name"]] == title:
                value = float(row[place["Metric Value"]].replace(",", ""))
                assert ours.loc[int(row[place["ID"]]), column] == pytest.approx(value, abs=0.0051)
                compared += 1
    assert compared == 14 * len(titles)


def test_occupancy_names_what_limits() -> None:
    table = rows("full", "occupancy").set_index("kernel")
    assert (table["calculated (%)"] - table["theoretical (%)"]).abs().max() < 1e-9
    assert table.loc["shared_limited", "limited by"] == "shared memory"
    assert table.loc["tensor", "limited by"] == "registers"
    assert table.loc["copy_scalar", "achieved (%)"] > 80


def test_memory_shows_how_accesses_lie() -> None:
    table = rows("full", "memory").set_index("kernel")
    assert (
        table.loc["copy_scalar", "sectors a load"] == 4 and table.loc["copy_vector", "sectors a load"] == 16
    )
    assert table.loc["strided", "sectors a load"] == pytest.approx(32, rel=0.01)
    assert table.loc["transpose_naive", "sectors a store"] == pytest.approx(32, rel=0.01)
    assert table.loc["conflicts", "shared conflicts, loads"] > 30e6
    assert table.loc["spills", "spill requests"] > 0


def test_raw_and_details_are_ncus_pages() -> None:
    assert list(csv.reader(io.StringIO(text("sol", "raw")))) == ncu.page("sol", "raw")
    ours = list(csv.reader(io.StringIO(text("sol", "details"))))
    theirs = ncu.page("sol", "details")
    width = len(theirs[0])
    assert [row[:width] for row in ours] == [[*row, *[""] * width][:width] for row in theirs]


def test_numbers_keep_all_digits_in_csv_and_json() -> None:
    launch = ncu.opened("full").list[0]
    assert rows("full", "speed_of_light").loc[0, "compute (%)"] == launch.number("compute_pct")
    first = json.loads(text("full", "speed_of_light", fmt="json"))[0]
    assert first["compute (%)"] == launch.number("compute_pct")


def test_many_rows_are_not_held_at_once() -> None:
    many = pd.DataFrame({"start_ns": range(24_000), "name": "kernel", "50 %": 0.5})
    with open(os.devnull, "w") as output:
        tracemalloc.start()
        write(many, "json", output, exact=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8_000_000  # all of them as text take 20 MB
    text = io.StringIO()
    write(many[-2:], "json", text, exact=True)
    assert json.loads(text.getvalue()) == records(many)[-2:]


def test_shares_for_people_are_percent_of_two_decimals() -> None:
    few = pd.DataFrame(
        {"share": [0.35, 0.0562, 1.71e-05, float("nan"), 1.0], "idle_share": [0.5, 0.25, 0.0, 0.125, 2.0]}
    )
    few["share_of_roof"], few["shared"] = few["share"], few["share"]
    output = io.StringIO()
    write(few, "md", output, exact=True)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.getvalue().splitlines()[2:]]
    columns = list(map(list, zip(*cells, strict=True)))
    assert columns[0] == columns[2] == ["35.00 %", "5.62 %", "0.00 %", "", "100.00 %"]
    assert columns[1] == ["50.00 %", "25.00 %", "0.00 %", "12.50 %", "200.00 %"]
    assert columns[3] == ["0.35", "0.0562", "1.71e-05", "", "1"]
    assert records(few)[2]["share"] == 1.71e-05
    shown = [line.split() for line in text("full", "instructions", fmt="table", launch=2).splitlines()[2:]]
    assert all(line[-1] == "%" and len(line[-2].split(".")[1]) == 2 for line in shown)
    assert rows("full", "instructions", launch=2)["share"].sum() == pytest.approx(1)


def test_defaults_take_what_was_collected() -> None:
    written = text("few", fmt="csv")
    assert "few.ncu-rep: launch 0 (copy_scalar) has no " in written and "--section SpeedOfLight" in written
    assert "# launches" in written and "# occupancy" in written
    several = json.loads(text("full", "launches", "occupancy", fmt="json", launch=2))
    assert list(several) == ["launches", "occupancy"] and several["launches"][0]["kernel"] == "strided"


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("speed_of_light", "collect it with `ncu --section SpeedOfLight`"),
        ("stalls", "ncu --section WarpStateStats"),
        ("roofline", "ncu --section SpeedOfLight_RooflineChart"),
        ("memory", "ncu --section MemoryWorkloadAnalysis"),
        ("instructions", "ncu --section SourceCounters"),
        (
            "rules",
            "holds no results of NVIDIA's rules; they come with sections: collect them with `ncu --set",
        ),
    ],
)
def test_sections_that_are_missing(report: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        text("few", report)
    assert message in str(caught.value)


def test_refused() -> None:
    with pytest.raises(
        LabError, match=r"'occupanci' is not a report of .ncu-rep files; did you mean occupancy\?"
    ):
        text("few", "occupanci")


def test_files_in_a_folder(tmp_path: Path) -> None:
    files = [ncu.path("few.ncu-rep"), ncu.path("sol.ncu-rep")]
    made = write_all(files, ["launches", "occupancy"], "csv", tmp_path / "tables").files
    assert sorted(path.name for path in made) == [
        *("few_launches.csv", "few_occupancy.csv", "sol_launches.csv", "sol_occupancy.csv"),
    ]
    assert all(path.is_file() for path in made)
    every = text("sol", every=True)
    assert "# speed_of_light" in every and "stalls" not in every


def test_several_files_follow_their_names() -> None:
    output = io.StringIO()
    asked = Asked(("launches",), kernel="copy_v")
    print_all([ncu.path("few.ncu-rep"), ncu.path("sol.ncu-rep")], asked, "table", output)
    assert output.getvalue().count("copy_vector") >= 2
    assert "few.ncu-rep\n" in output.getvalue() and "sol.ncu-rep\n" in output.getvalue()
