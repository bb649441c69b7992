"""One driver for every kind of file: the list of reports, kinds together, what is lacking."""

import io
import json
from pathlib import Path

import pytest

from labcode.analysis.stats.shelf import shelf_of
from labcode.errors import InputError, LabError
from labcode.reports import FORMATS, Kind
from labcode.verbs.stats import Asked, list_reports, print_all, write_all
from tests.support import exports as e
from tests.support import histories, ranks, traces


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """A capture, a trace and a memory history."""
    capture = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(100, 200, "f(int)", correlation=1)])
    trace = traces.training(tmp_path)[0].rename(tmp_path / "b.trace.json")
    return [capture, trace, histories.write(tmp_path, histories.leaking())]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_of_reports_is_whole(kind: Kind) -> None:
    shelf = shelf_of(kind)
    assert {*shelf.default, *shelf.every} <= {*shelf.reports}
    text = io.StringIO()
    list_reports([], "json", text)
    rows = [row for row in json.loads(text.getvalue()) if row["of"].startswith(FORMATS[kind].what)]
    assert [row["report"] for row in rows] == list(shelf.reports)
    assert all(row["tells"] and not row["tells"].endswith((",", "and")) for row in rows)


def test_the_list_of_a_file_is_what_it_can_answer(three: list[Path]) -> None:
    text = io.StringIO()
    list_reports(three[:1], "csv", text)
    names = [line.split(",")[1] for line in text.getvalue().splitlines()[1:]]
    assert "cuda_gpu_kern_sum" in names and "nvtx_sum" not in names and "thread_states" not in names
    shown = io.StringIO()
    list_reports(three[:2], "table", shown)
    assert (
        shown.getvalue().startswith(f"{three[0]}\nreport ") and f"\n\n{three[1]}\nreport " in shown.getvalue()
    )


def test_kinds_together(three: list[Path], tmp_path: Path) -> None:
    text = io.StringIO()
    print_all(three, [], "json", text)
    found = json.loads(text.getvalue())
    assert list(found) == [str(file) for file in three]
    assert found[str(three[0])]["cuda_gpu_kern_sum"][0]["Name"] == "f(int)"
    assert found[str(three[2])]["leaks"][0]["site"] == histories.LEAK
    made = write_all(three, Asked(every=True), "csv", tmp_path / "out").files
    assert {"a_cuda_gpu_kern_sum.csv", "b_op_sum.csv", "run_peak.csv"} <= {path.name for path in made}
    with pytest.raises(
        LabError, match=r"^'peak' is not a report of traces, but one of memory histories; `labcode "
    ):
        print_all(three[1:], ["peak"], "csv", io.StringIO())
    with pytest.raises(LabError, match=r"^'op_sum' is not a report of captures by nsys, but one of traces; "):
        print_all(three, ["op_sum"], "csv", io.StringIO())
    with pytest.raises(
        LabError, match=r"^'nvtx_sum' is not a report of traces, but one of captures by nsys; "
    ):
        print_all(three[1:], ["nvtx_sum"], "csv", io.StringIO())


def test_what_one_of_several_reports_lacks_is_told(three: list[Path]) -> None:
    text, notes = io.StringIO(), io.StringIO()
    print_all(three[1:2], ["kernel_sum", "module_sum"], "csv", text, notes=notes)
    assert text.getvalue().startswith("name,count,") and "module_sum" not in text.getvalue()
    assert notes.getvalue().startswith(f"skipped: {three[1]}: the trace holds no modules; record them with ")
    with pytest.raises(InputError, match=r"no modules; record them with .*; the trace holds no functions"):
        print_all(three[1:2], ["module_sum", "op_sum_python"], "csv", text)


def test_launches_are_chosen_in_reports_of_ncu_alone(three: list[Path]) -> None:
    with pytest.raises(LabError, match=r"`labcode stats --launch` reads \.ncu-rep and not this"):
        print_all(three[:1], Asked(launch=1), "csv", io.StringIO())


def test_of_many_ranks_people_are_shown_those_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ranks.run(tmp_path / "late", late={"more_ns": 200_000})
    monkeypatch.setattr("labcode.analysis.stats.ranks.SHOWN", 1)

    def printed(*names: str, fmt: str = "table") -> list[str]:
        text = io.StringIO()
        print_all([late], Asked(names), fmt, text)
        return [line for line in text.getvalue().splitlines() if line]

    assert len(printed()) == 2 * (1 + 2 + 4)  # a title, a head, four ranks
    monkeypatch.setattr("labcode.analysis.stats.ranks.MANY", 3)
    for fmt in ("table", "md"):
        told = printed(fmt=fmt)
        assert len(told) == 2 * (1 + 2 + 1 + 1)
        assert told[3].strip("| ").startswith("2 ") and "slow compute" in told[3]
        assert told[4] == (
            "… the 1 with the most delay_ns of 4 rows; all: --report rank_sum, or -f csv, -f json"
        )
    assert len(printed("rank_sum")) == 2 + 4 and len(printed(fmt="csv")) == 2 * (1 + 1 + 4)
