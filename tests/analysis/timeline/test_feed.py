"""A loader's items and batches out of ranges, their places in the loop, and the model of the loader."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode import store
from labcode.analysis.timeline import feed
from labcode.reports.nsys.report import open_report

US = 1000
RANGES = ["start_ns", "end_ns", "pid", "tid", "name"]


def ranges_of(made: pd.DataFrame, size: int) -> pd.DataFrame:
    """The ranges of a model's batches: each of ``size`` items, of which reading takes a fifth."""
    rows = []
    columns = (made[name].tolist() for name in ("worker", "start_ns", "end_ns"))
    for worker, start, end in zip(*columns, strict=True):
        each = (end - start - 2 * US) / size
        for item in range(size):
            at = start + item * each
            edges = [at, at + 0.2 * each, at + 0.5 * each, at + 0.98 * each]
            for name, low, high in zip(feed.STAGES, edges[:-1], edges[1:], strict=True):
                rows.append((int(low), int(high), 100 + 10 * worker, 101 + 10 * worker, name))
    return pd.DataFrame(rows, columns=RANGES)


def test_items_are_cut_at_the_first_stage_and_have_all_stages() -> None:
    nvtx = pd.DataFrame(
        [
            (0, 5, 1, 1, "transform"),  # of an item that began before the capture
            (10, 20, 1, 1, "read"),
            (21, 40, 1, 1, "decode"),
            (42, 72, 1, 1, "transform"),
            (80, 85, 1, 1, "read"),  # not finished
            (11, 14, 2, 1, "read"),
            (15, 19, 2, 1, "decode"),
            (15, 17, 2, 1, "crop"),
            (20, 29, 2, 1, "transform"),
        ],
        columns=RANGES,
    )
    found = feed.items(nvtx)
    assert found[["pid", "start_ns", "end_ns"]].values.tolist() == [[1, 10, 72], [2, 11, 29]]
    assert found[["read_ns", "decode_ns", "transform_ns"]].values.tolist() == [[10, 19, 30], [3, 4, 9]]
    assert len(feed.items(nvtx.iloc[:0])) == 0
    assert feed.items(nvtx, ("read", "decode"))["decode_ns"].tolist() == [19, 4]


def test_batches_are_cut_at_the_longest_pauses() -> None:
    start = np.array([0, 10, 30, 40, 50, 90, 100, 110, 150, 160])
    made = pd.DataFrame({"pid": 7, "tid": 7, "start_ns": start, "end_ns": start + 8})
    found = feed.batches(made, 3)
    assert found["items"].tolist() == [2, 3, 3, 2]
    assert found["whole"].tolist() == [False, True, True, False]
    assert found["work_ns"].tolist() == [16, 24, 24, 16]
    assert found["after_ns"].tolist() == [12, 32, 32, pd.NA]
    assert found["end_ns"].tolist() == [18, 58, 118, 168]
    assert feed.batches(made.iloc[:0], 3).empty
    single = feed.batches(made.iloc[:1], 3)
    assert single["items"].tolist() == [1] and not single["whole"].any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [20, 600])  # the feed is slower, the feed is faster
@pytest.mark.parametrize(("workers", "ahead"), [(3, 2), (8, 2), (8, 4), (5, 1)])
def test_batches_find_their_place_again(workers: int, ahead: int, step: int, seed: int) -> None:
    cost = np.random.default_rng(seed).integers(400, 700, 130) * US
    made = feed.delivered(cost, step * US, workers, ahead, hand_over_ns=3 * US)
    nvtx = ranges_of(made, 4)
    chosen = made.iloc[40:96]
    window = chosen["taken_ns"].iloc[0] - 1, chosen["taken_ns"].iloc[-1]
    seen = nvtx[(nvtx["end_ns"] >= window[0]) & (nvtx["start_ns"] <= window[1])]
    takes = pd.DataFrame(
        {
            "index": chosen["index"],
            "start_ns": (chosen["taken_ns"] - chosen["waited_ns"]).astype("int64"),
            "end_ns": chosen["taken_ns"].astype("int64"),
        }
    )
    found = feed.numbered(feed.batches(feed.items(seen), 4), takes, ahead)
    whole = found[found["whole"] & found["index"].notna()]
    assert len(whole) >= 6, "some may be missing: of workers that nobody waits for"
    right = made.set_index("index").loc[whole["index"].astype("int64")]
    assert np.abs(whole["start_ns"].to_numpy() - right["start_ns"].to_numpy()).max() <= 1
    assert (whole["pid"].to_numpy() == 100 + 10 * right["worker"].to_numpy()).all()


def test_batches_that_fit_nowhere_have_no_place() -> None:
    made = pd.DataFrame({"pid": [1], "tid": [1], "start_ns": [0], "end_ns": [500]})
    takes = pd.DataFrame({"index": [4, 5, 6], "start_ns": [9, 19, 29], "end_ns": [10, 20, 30]})
    assert feed.numbered(made, takes, 2)["index"].isna().all()  # one worker, and it made none of the three
    made["start_ns"], made["end_ns"] = 11, 18
    assert feed.numbered(made, takes, 2)["index"].isna().all()  # 5 or 6: nobody waited
    assert feed.numbered(made, takes.iloc[:0], 2)["index"].isna().all()


@pytest.mark.parametrize(
    ("cost", "step", "workers", "ahead", "taken"),
    [
        ([10, 10, 10], 4, 0, 2, [10, 24, 38]),  # the loop makes them itself
        ([10, 10, 10], 4, 1, 2, [10, 20, 30]),  # one worker: its rate
        ([10, 10, 10, 10], 4, 2, 2, [10, 14, 20, 24]),  # two side by side, batches in pairs
        ([10, 10, 10, 10], 20, 2, 2, [10, 30, 50, 70]),  # the loop is slower
        ([30, 5, 5, 5], 1, 2, 2, [30, 31, 35, 36]),  # batch 1 has to wait for batch 0
        ([10, 10, 10, 10], 4, 2, 1, [10, 14, 20, 24]),
        ([2, 2, 2, 40, 2, 2], 10, 1, 1, [2, 12, 22, 62, 72, 82]),  # a hiccup, one ordered ahead …
        ([2, 2, 2, 40, 2, 2], 10, 1, 4, [2, 12, 22, 46, 56, 66]),  # … and four
    ],
)
def test_the_model_by_hand(cost: list[int], step: int, workers: int, ahead: int, taken: list[int]) -> None:
    made = feed.delivered(cost, step, workers, ahead)
    assert made["taken_ns"].tolist() == taken
    asked = np.concatenate(([0], np.array(taken[:-1]) + step))
    assert made["waited_ns"].tolist() == (np.array(taken) - asked).tolist()


@given(
    st.integers(0, 6),
    st.integers(1, 4),
    st.lists(st.integers(1, 99), min_size=4, max_size=40),
    st.integers(1, 50),
)
def test_the_model_keeps_its_rules(workers: int, ahead: int, cost: list[int], step: int) -> None:
    made = feed.delivered(cost, step, workers, ahead, hand_over_ns=2.0)
    assert (made["taken_ns"] >= made["end_ns"] + 2).all()
    assert (made["taken_ns"].diff().dropna() >= step).all()
    assert (made["waited_ns"] >= 0).all()
    for _, mine in made.groupby("worker"):
        assert (mine["start_ns"].to_numpy()[1:] >= mine["end_ns"].to_numpy()[:-1]).all()
    deeper = feed.delivered(cost, step, workers, ahead + 1, hand_over_ns=2.0)
    assert deeper["taken_ns"].iloc[-1] <= made["taken_ns"].iloc[-1]


def test_prefetching_does_not_change_a_rate() -> None:
    """Steady costs: the step is the longer of cost / workers and the loop's own, however far ahead."""
    for ahead in (2, 4, 16):
        slow = feed.delivered([80.0] * 400, 5.0, 4, ahead)
        assert feed.step_of(slow) == pytest.approx(20.0, rel=0.05)
        fast = feed.delivered([80.0] * 400, 30.0, 4, ahead)
        assert feed.step_of(fast) == pytest.approx(30.0)
    assert np.isnan(feed.step_of(feed.delivered([1.0], 1.0, 1)))


@pytest.mark.parametrize("run", ["workers", "pinned", "improved", "slow_disk"])
def test_on_a_real_capture_a_long_wait_ends_with_the_batch_whose_turn_it_is(run: str) -> None:
    captures = store.load_set(store.SHIPPED_SET)
    setup = captures.record("dataloader", run)["parameters"]
    with open_report(captures.path_of("dataloader", run)) as report:
        nvtx = report.nvtx()
    waits = nvtx[nvtx["name"] == "data wait"].sort_values("start_ns")[["start_ns", "end_ns"]].astype("int64")
    takes = waits.assign(index=range(setup["warmup"], setup["warmup"] + len(waits)))
    found = feed.numbered(
        feed.batches(feed.items(nvtx), setup["batch"]), takes, setup["prefetch_factor"]
    ).dropna(subset=["index"])
    assert found["index"].is_unique
    assert found["pid"].nunique() >= setup["workers"] / 2
    rank = {
        pid: number for number, pid in enumerate(sorted(nvtx.loc[nvtx["name"] == "read", "pid"].unique()))
    }
    assert (found["index"] % setup["workers"] == found["pid"].map(rank)).all()
    ends = dict(zip(found["index"].tolist(), found["end_ns"].tolist(), strict=True))
    long = takes[takes["end_ns"] - takes["start_ns"] > 20_000_000]
    known = [(row["start_ns"], ends[row["index"]], row["end_ns"]) for row in long.to_dict("records")
             if row["index"] in ends]  # fmt: skip
    assert len(known) >= len(long) / 2
    assert all(asked < finished < had for asked, finished, had in known)
