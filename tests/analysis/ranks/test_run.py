"""Ranks whose truth is known: their clocks, who was late and why, what they did over time, tables of all."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.ranks import alignment, heatmap, merge, pacing, stragglers
from labcode.analysis.ranks.lane import Curve, lanes_of
from labcode.analysis.ranks.run import Run, open_run
from labcode.errors import InputError
from labcode.verbs.diagnose.verdicts import diagnose
from tests.support import ranks
from tests.support.exports import kernel, make_export, push_pop
from tests.support.ranks import BUSY, LONG, PERIOD, SHORT, STEPS

US = 1_000
LATE = {"slow compute": "more_ns", "late start": "idle_ns"}


@pytest.fixture
def late(tmp_path: Path) -> Run:
    return open_run(ranks.run(tmp_path / "run", late={"more_ns": 200 * US}))


def test_clocks_come_together_on_the_ends_of_collectives(late: Run) -> None:
    found = alignment.table(late.ranks, [lane.file for lane in late.lanes], late.clocks)
    assert set(found["how"]) == {"collectives"} and list(found["rank"]) == [0, 1, 2, 3]
    # the starts of the reports are what is told of the clocks: they are as far apart as the clocks are
    assert np.ptp(late.clocks.spans[:, 0]) < 2
    assert found["residual_ns"].max() < 2 and found["rate_ppm"].abs().max() < 1
    assert late.width == (STEPS - 1) * PERIOD + BUSY + 200 * US + 2 * LONG + SHORT


def test_a_clock_that_runs_fast_is_told_by_its_rate(tmp_path: Path) -> None:
    for number in range(3):
        path = ranks.rank(tmp_path, number, steps=40)
        if number == 1:
            with __import__("sqlite3").connect(path) as db:
                db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start * 1.0001, end = end * 1.0001")
            db.close()
    run = open_run(tmp_path)
    table = alignment.table(run.ranks, ["a", "b", "c"], run.clocks)
    assert table["rate_ppm"].to_numpy() == pytest.approx([0, -100, 0], abs=1)
    assert stragglers.meetings(run)["late_ns"].max() < 20


def test_ends_that_scatter_tell_no_rate(tmp_path: Path) -> None:
    for number in range(2):
        path = ranks.rank(tmp_path, number, steps=20)
        with __import__("sqlite3").connect(path) as db:
            db.execute(
                "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + ? * (rowid * rowid % 17) * 1000", (number,)
            )
        db.close()
    clocks = open_run(tmp_path).clocks
    assert clocks.how == "collectives" and set(clocks.rate) == {1.0} and clocks.residual_ns.max() > US


def test_broadcasts_whose_root_goes_on_tell_nothing_of_clocks(tmp_path: Path) -> None:
    """As at the start of DDP: the shortest collectives are broadcasts, which rank 0 leaves 9 ms before."""
    for number, clock in enumerate((0, 5_000_000)):
        ranks.rank(tmp_path, number, clock_ns=clock, broadcast_ns=9_000_000 * number)
    run = open_run(tmp_path)
    assert run.clocks.how == "collectives" and run.notes == ()
    assert len(stragglers.meetings(run)) == 2 * STEPS and stragglers.meetings(run)["late_ns"].max() < 20


def test_clocks_of_one_host_need_no_collectives_that_bring_them_together(tmp_path: Path) -> None:
    for number, ahead in enumerate((0, 5_000_000)):
        path = ranks.rank(tmp_path, number, clock_ns=ahead, epoch_ns=10**18 - ahead)
        with __import__("sqlite3").connect(path) as db:  # three that one rank leaves 300 µs before the other
            db.execute(
                "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start + 5000 + ? WHERE rowid IN (2, 5, 8)",
                (300 * US * number,),
            )
        db.close()
    run = open_run(tmp_path)
    assert run.clocks.how == "Unix time" and run.clocks.why == ""
    assert run.clocks.residual_ns.max() > 100 * US and len(stragglers.meetings(run)) == 2 * STEPS


def test_who_was_late_and_who_waited(late: Run) -> None:
    table = stragglers.by_rank(late).set_index("rank")
    assert list(table["last_count"]) == [0, 0, STEPS, 0]
    assert table.loc[2, "delay_ns"] == pytest.approx(STEPS * 200 * US, abs=20)
    assert list(table["wait_ns"]) == pytest.approx([STEPS * 200 * US] * 2 + [0] + [STEPS * 200 * US], abs=20)
    assert table.loc[2, "compute_late_ns"] == STEPS * 200 * US and table.loc[2, "cause"] == "slow compute"
    assert table.loc[2, "exposed_ns"] == STEPS * (LONG + SHORT)
    assert list(table["cause"].drop(2)) == ["", "", ""]
    met = stragglers.meetings(late)
    assert len(met) == 2 * STEPS and list(met["last_rank"][::2]) == [2] * STEPS
    assert list(met["transfer_ns"][:2]) == pytest.approx([LONG, SHORT], abs=2)
    assert list(met["waits_ns"][:2]) == pytest.approx([3 * 200 * US, 0], abs=8)


def test_the_gain_is_that_of_a_replay_without_the_delay(late: Run) -> None:
    verdict = {one.rule: one for one in diagnose(late)}["late-rank"]
    took = (STEPS - 1) * PERIOD + 2 * LONG + SHORT  # from where all have come to the first collective
    saved = (STEPS - 1) * 200 * US / took
    assert verdict.predicted and verdict.gain == pytest.approx(saved, rel=1e-3)
    assert verdict.low == pytest.approx(saved / 2, rel=1e-3)
    assert stragglers.without_delay(late, 0) == pytest.approx((0.0, 0.0), abs=1e-6)


@pytest.mark.parametrize("cause", LATE)
def test_the_diagnosis_names_rank_and_cause(tmp_path: Path, cause: str) -> None:
    run = open_run(ranks.run(tmp_path / "run", late={LATE[cause]: 200 * US}))
    found = {verdict.rule: verdict for verdict in diagnose(run)}
    assert found["late-rank"].status == "found"
    assert "rank 2 comes last to 6 of 12" in found["late-rank"].message
    assert f"; {cause}: it" in found["late-rank"].message.replace("its", "it")
    assert found["slow-link"].status == "not found"
    assert found["uneven-computing"].status == ("found" if cause == "slow compute" else "not found")
    assert found["missing-ranks"].message == "4 ranks are there"


def test_the_same_kernels_that_take_longer_are_told_from_more_kernels(tmp_path: Path) -> None:
    run = open_run(ranks.run(tmp_path / "run", late={"more_ns": 200 * US}))
    assert "(the same kernels take 1.4 × as long)" in diagnose(run)[0].message
    table = stragglers.against_median(run, 2)
    assert list(table["ratio"]) == [1.4] and list(table["extra_ns"]) == [STEPS * 200 * US]


def test_a_rank_that_leaves_late_has_a_slow_link(tmp_path: Path) -> None:
    run = open_run(ranks.run(tmp_path / "run", late={"leaves_ns": 30 * US}))
    found = {verdict.rule: verdict for verdict in diagnose(run)}
    assert found["slow-link"].status == "found" and found["late-rank"].status == "not found"
    assert found["slow-link"].message.startswith("rank 2 leaves 6 of 12 collectives last, in all 180 µs")
    assert stragglers.by_rank(run)["link_late_ns"].tolist() == pytest.approx(
        [0, 0, STEPS * 30 * US, 0], abs=20
    )


def test_shares_over_time_add_up_to_what_the_lanes_hold(late: Run) -> None:
    table = heatmap.over_time(late, bins=7)
    per_bin = late.width / 7
    lanes = {lane.rank: lane for lane in late.lanes}
    for number, mine in table.groupby("rank"):
        lane = lanes[int(str(number))]
        assert (mine["gpu_time"] * per_bin).sum() == pytest.approx(lane.busy_ns, rel=0.01)
        assert (mine["compute"] * per_bin).sum() == pytest.approx(lane.compute_ns, rel=0.01)
        assert (mine["communication"] * per_bin).sum() == pytest.approx(lane.comm_ns, rel=0.01)
    assert table["gpu_time"].to_numpy() == pytest.approx(1 - table["idle"].to_numpy())
    assert list(heatmap.balance(late, bins=7)["most_rank"]) == [2] * 7


def test_a_curve_counts_nothing_outside_of_its_points() -> None:
    curve = Curve(np.array([10.0, 20.0, 30.0, 40.0]), np.array([0.0, 10.0, 10.0, 20.0]))
    assert curve.within(np.array([0.0, 15.0, 25.0, 35.0, 99.0])).tolist() == [5, 5, 5, 5]
    assert Curve(np.empty(0), np.empty(0)).within(np.array([0.0, 1.0])).tolist() == [0]


def test_pace_of_steps_is_on_the_common_clock(late: Run) -> None:
    table = pacing.pace(late)
    assert len(table) == 4 * STEPS and set(table["name"]) == {"step #"}
    assert table["late_ns"].max() < 2  # although clocks are milliseconds apart
    own = table[table["rank"] == 1]
    assert list(own["duration_ns"]) == [BUSY + 200 * US + 3 * LONG + 100] * STEPS
    assert list(own["delta_ns"])[1:] == [PERIOD - (BUSY + 200 * US + 3 * LONG + 100)] * (STEPS - 1)
    assert len(pacing.pace(late, "no such range")) == 0


def test_nccl_on_the_cpu_and_where_its_work_ran(late: Run) -> None:
    on_cpu, on_gpu = pacing.nccl_sum(late), pacing.nccl_gpu_proj_sum(late)
    assert list(on_cpu["count"]) == [2 * STEPS] * 4 and set(on_cpu["mean_ns"]) == {8}
    waited = STEPS * (LONG + SHORT + 200 * US)
    assert list(on_gpu["sum_ns"]) == [waited, waited, STEPS * (LONG + SHORT), waited]
    every = pacing.over_all(on_gpu).iloc[0]
    assert every["count"] == 8 * STEPS and every["sum_ns"] == on_gpu["sum_ns"].sum()
    assert every["min_ns"] == SHORT and every["max_ns"] == LONG + 200 * US


def test_kernels_beside_the_rank_in_the_middle(late: Run) -> None:
    assert list(merge.kernels(late)["ratio"]) == [1.0, 1.0, 1.4, 1.0]


def test_reports_of_whole_nodes_are_counted_through(tmp_path: Path) -> None:
    for node in range(2):
        one = ranks.rank(tmp_path, 0, name=f"node{node}.sqlite")
        with __import__("sqlite3").connect(one) as db:
            db.execute("CREATE TEMP TABLE other AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
            db.execute("UPDATE other SET deviceId = 1, globalPid = globalPid + 16777216")
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM other")
        db.close()
    run = open_run(tmp_path)
    assert list(run.ranks) == [0, 1, 2, 3]
    assert "2 reports of 4 GPUs; ranks are counted through in their order" in " ".join(run.notes)
    assert len(stragglers.meetings(run)) == 2 * STEPS


# ---- what is amiss


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    for number in (0, 1, 3):
        ranks.rank(tmp_path, number)
    run = open_run(tmp_path)
    assert run.missing == (2,)
    assert any(
        "no report of rank 2: who waited is told of those that are there" in line for line in run.notes
    )
    found = {verdict.rule: verdict for verdict in diagnose(run)}["missing-ranks"]
    assert found.status == "found" and found.message == "3 ranks are there; no report of rank 2"


def test_a_truncated_report_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    ranks.run(tmp_path, late={"more_ns": 200 * US})
    broken = tmp_path / "run.rank1.sqlite"
    broken.write_bytes(broken.read_bytes()[:5000])
    run = open_run(tmp_path)
    assert list(run.ranks) == [0, 2, 3] and run.missing == ()
    assert f"{broken}: left out: truncated: 5000 of" in " ".join(run.notes)
    assert stragglers.by_rank(run).set_index("rank").loc[2, "last_count"] == STEPS
    for path in run.files:
        path.write_bytes(b"SQLite format 3\0")
    with pytest.raises(InputError, match=r"rank0\.sqlite: truncated: it ends within the SQLite header"):
        _ = open_run(tmp_path).lanes


def test_a_rank_that_was_ended_too_early_has_nothing_to_compare(tmp_path: Path) -> None:
    ranks.rank(tmp_path, 0)
    ranks.rank(tmp_path, 1, steps=0, name="run.rank1.partial.sqlite")
    run = open_run(tmp_path)
    assert "no GPU operations; the program was ended before the profiler had saved any" in run.notes[0]
    found = {verdict.rule: verdict.message for verdict in diagnose(run)}
    assert found["missing-ranks"] == "1 rank is there; 1 not read: run.rank1.partial.sqlite"
    assert found["late-rank"] == found["uneven-computing"] == "could not judge: there is one rank"


def test_two_reports_of_one_rank_are_refused(tmp_path: Path) -> None:
    ranks.rank(tmp_path, 3)
    ranks.rank(tmp_path, 3, name="other.rank3.sqlite")
    with pytest.raises(InputError, match=r"other\.rank3\.sqlite and run\.rank3\.sqlite are both of rank 3"):
        _ = open_run(tmp_path).lanes


def test_reports_without_a_rank_are_numbered_by_name(tmp_path: Path) -> None:
    for name in ("b.sqlite", "a.sqlite", "run.rank1.sqlite"):
        ranks.rank(tmp_path, 0, name=name)
    run = open_run(tmp_path)
    assert {lane.file: lane.rank for lane in run.lanes} == {
        "a.sqlite": 0,
        "run.rank1.sqlite": 1,
        "b.sqlite": 2,
    }
    assert any("2 reports do not say of which rank they are" in line for line in run.notes)


def test_mixed_versions_are_told_and_read(tmp_path: Path) -> None:
    for number in range(3):
        ranks.rank(tmp_path, number, schema=(3, 11, 0) if number == 1 else (3, 20, 3))
    run = open_run(tmp_path)
    said = " ".join(run.notes)
    assert "the reports are of different versions: 2025.3.1.90-253135822126v0 (2), 2024.2.3.38" in said
    assert "run.rank1.sqlite: nsys export schema 3.11.0 does not record which process" in said
    assert run.clocks.how == "collectives"


def test_mixed_kinds_and_folders_without_reports_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder without traces"):
        open_run(tmp_path)
    ranks.rank(tmp_path, 0)
    (tmp_path / "run.rank1.trace.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"holds a capture of Nsight Systems \(run\.rank0\.sqlite\) and a trace of"
    ):
        open_run(tmp_path)
    with pytest.raises(InputError, match="a file, not a folder; name a folder with a report for each rank"):
        open_run(tmp_path / "run.rank0.sqlite")


def test_an_export_beside_its_report_comes_once(tmp_path: Path) -> None:
    path = ranks.rank(tmp_path, 0)
    path.with_suffix(".nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report")
    assert open_run(tmp_path).files == (path,)


def test_clocks_that_cannot_be_aligned_leave_the_tables(tmp_path: Path) -> None:
    for number in range(3):
        ranks.rank(tmp_path, number, talks=False)
    run = open_run(tmp_path)
    assert run.clocks.how == "own start"
    assert any(
        "no collective in common, so the clocks cannot be aligned: each rank's time counts from its own start"
        in line
        for line in run.notes
    )
    assert list(stragglers.by_rank(run)["compute_ns"]) == [STEPS * BUSY] * 3
    assert len(stragglers.meetings(run)) == 0 and len(heatmap.over_time(run, 4)) == 12
    verdict = {one.rule: one for one in diagnose(run)}["late-rank"]
    assert verdict.status == "could not judge" and "no collective in common" in verdict.message


def test_collectives_of_other_groups_are_not_taken_for_the_same(tmp_path: Path) -> None:
    """Two pairs under one kernel's name: each pair meets, the four never do."""
    for number in range(4):
        path = ranks.rank(tmp_path, number, steps=12)
        if number > 1:  # the second pair works at another pace: the ends cannot all be brought together
            with __import__("sqlite3").connect(path) as db:
                db.execute(
                    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + (start / 1000000 % 3) * 700000, "
                    "end = end + (start / 1000000 % 3) * 700000"
                )
            db.close()
    run = open_run(tmp_path)
    assert any("the clocks cannot be aligned: only" in line for line in run.notes)
    assert len(stragglers.meetings(run)) == 0


def test_a_rank_with_fewer_collectives_is_compared_without_them(tmp_path: Path) -> None:
    ranks.run(tmp_path)
    ranks.rank(tmp_path, 3, steps=STEPS - 2)
    run = open_run(tmp_path)
    assert any("rank 3 ran another number of some collectives than most" in line for line in run.notes)
    assert set(stragglers.meetings(run)["ranks"]) == {3}
    table = alignment.table(run.ranks, [lane.file for lane in run.lanes], run.clocks)
    assert table["how"].tolist() == ["collectives"] * 3 + ["not aligned"]
    assert isinstance(table, pd.DataFrame)


@pytest.mark.parametrize("registered", [False, True])
def test_of_a_whole_report_what_is_measured_counts(tmp_path: Path, registered: bool) -> None:
    marked = push_pop(9_000_000, 12_900_000, "lab:measured", registered=registered)
    work = [kernel(begin, begin + 500, "work(int)") for begin in (8_000_000, 10_000_000, 12_899_800)]
    path = make_export(tmp_path / "run.rank0.sqlite", kernels=work, nvtx=[marked])
    (lane,) = lanes_of(path, whole=True)
    assert (lane.begin_ns, lane.end_ns, lane.busy_ns) == (10_000_000, 12_900_000, 700)
    (lane,) = lanes_of(make_export(tmp_path / "run.rank1.sqlite", kernels=work), whole=True)
    assert (lane.begin_ns, lane.end_ns, lane.busy_ns) == (8_000_000, 12_900_300, 1_500)


def test_ranges_of_nccl_are_described_as_pandas_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(f"nccl{k % 3}", int(rng.integers(1, 10 ** rng.integers(1, 12)))) for k in range(400)]
    ranges = [push_pop(k, k + ns, f"nccl:{name}") for k, (name, ns) in enumerate([*rows, ("one", 5)])]
    make_export(tmp_path / "run.rank0.sqlite", kernels=[kernel(0, 9)], nvtx=ranges)
    found = pacing.nccl_sum(open_run(tmp_path)).set_index("name")
    made = pd.DataFrame([*rows, ("one", 5)], columns=["name", "ns"])
    grouped = made.groupby("nccl:" + made["name"])["ns"]
    told = grouped.agg(["count", "mean", "std", "min", "median", "max", "sum"])
    told["q1"], told["q3"] = grouped.quantile(0.25), grouped.quantile(0.75)
    assert list(found.index) == list(told.index) == ["nccl:nccl0", "nccl:nccl1", "nccl:nccl2", "nccl:one"]
    for name in told:
        np.testing.assert_array_equal(found[name if name == "count" else f"{name}_ns"], told[name])


def test_tables_made_with_the_lanes_are_those_made_alone(tmp_path: Path) -> None:
    for number in range(2):  # two GPUs in each report
        work = [kernel(100 * p, 100 * p + 50, device=p, pid=100 + p) for p in (0, 1)]
        ranges = [push_pop(k, 2 * k + number, "nccl:sum", pid=100 + k % 2) for k in range(1, 9)]
        make_export(tmp_path / f"run.{number}.sqlite", kernels=work, nvtx=ranges)
    together, alone = open_run(tmp_path), open_run(tmp_path)
    together.plan(pacing.NCCL, pacing.steps("nccl:sum"))
    for _ in range(2):
        found = pacing.nccl_sum(together)
        assert list(found["rank"]) == [0, 1, 2, 3] and list(found["count"]) == [4] * 4
        pd.testing.assert_frame_equal(found, pacing.nccl_sum(alone))
        pd.testing.assert_frame_equal(pacing.pace(together, "nccl:sum"), pacing.pace(alone, "nccl:sum"))
