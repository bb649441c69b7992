"""Timelines with too many events: what is joined, what stays, and that the sums are right."""

from pathlib import Path

from labcode.figures.timeline.thinned import Thinned
from labcode.reports.nsys.report import open_report
from tests.support import exports as x


def test_narrow_neighbors_become_one_and_the_rest_stays(tmp_path: Path) -> None:
    kernels = [x.kernel(i * 1000, i * 1000 + 400, f"k{i % 2}(int)") for i in range(5000)]
    kernels.append(x.kernel(1_000_450, 1_000_900, "wide(int)", stream=8))
    kernels.append(x.kernel(2_000_000, 4_000_000, "long(int)", stream=9))
    copies = [x.memcpy(i * 1000 + 500, i * 1000 + 600, 10, stream=8) for i in range(1000)]
    opens = [x.push_pop(0, None, "open"), x.push_pop(0, 5_000_000, "lab:measured"), x.mark(77)]
    file = x.make_export(tmp_path / "a.sqlite", kernels=kernels, memcpys=copies, nvtx=opens)
    with open_report(file) as report:
        thinned = Thinned(report, report.window(), 400, around=1_000_000)
        assert thinned.events == 5002 + 1000 + 3
        made = thinned.kernels()
        low, high = thinned.whole
        assert low == 1_000_000 and high > low
        inside = made[made["start_ns"].between(low, high)]
        whole = report.kernels()
        assert len(inside) == whole["start_ns"].between(low, high).sum()
        assert not inside["name"].str.contains("more").any()
        spent, was = ((table["end_ns"] - table["start_ns"]).sum() for table in (made, whole))
        assert spent == was and len(made) < 700
        assert "k0(int) and" in made["name"].iloc[0] and made["name"].iloc[0].endswith("more")
        assert "long(int)" in set(made["name"])
        assert thinned.memcpys()["bytes"].sum() == 10_000
        assert set(thinned.nvtx()["name"]) == {"open", "lab:measured", "mark"}
        assert len(thinned.gpu_ops()) == 6002 and thinned.window() == report.window()


def test_boxes_of_a_stream_do_not_overlap(tmp_path: Path) -> None:
    kernels = [x.kernel(i * 100, i * 100 + 250, "k(int)") for i in range(3000)]
    with open_report(x.make_export(tmp_path / "a.sqlite", kernels=kernels)) as report:
        made = Thinned(report, report.window(), 100).kernels()
        joined = made[made["name"].str.endswith("more")]
        assert (joined["end_ns"].to_numpy()[:-1] <= joined["start_ns"].to_numpy()[1:]).all()
