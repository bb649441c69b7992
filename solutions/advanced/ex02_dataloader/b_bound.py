"""Exercise advanced-ex02, part b: what bounds the run, and prove it.

A loop trains on batches that workers make. It is slow. Is it the feed, or the GPU? Which stage of the feed,
how many workers would be enough, and do these numbers explain how long a step takes?

Two tables, a window (start, end) and the number of items in a batch come in. Times are in ns; rows are in no
particular order.

    ranges   start_ns, end_ns, pid, tid, name: NVTX ranges of all processes. For each item there are the
             stages `read`, `decode` and `transform`, one after another; the loop has a range `data wait`
             around each question for a batch, and one `lab:measured` around everything. Some reach over the
             window's ends. Other threads may have ranges of the same names.
    ops      start_ns, end_ns, stream: kernels and copies of the one GPU; they may overlap

Who is who: the loop is the thread that has `lab:measured`. A feeder is a thread with ranges of all three
stages. A thread is a pid and a tid; a tid alone may occur in several processes. For stages, only ranges that
lie wholly within the window count. A step is a `data wait` of the loop that begins within the window (at its
start or later, before its end).

The answer is a dictionary:

    wait_share   the part of the window in which the loop is in `data wait`
    feed_ns      what the feed needs for a step: batch * (mean read + mean decode + mean transform), over all
                 ranges of feeders, divided by the number of feeders
    gpu_ns       what the GPU needs for a step: the time within the window in which it does anything (a
                 union), divided by the number of steps
    bound        "feed" if feed_ns > gpu_ns, else "gpu"
    stage        the stage with the longest mean
    explained    the step these two predict / the measured step (window / steps). Side by side they predict
                 max(feed_ns, gpu_ns). If the loop itself is the feeder, one follows the other: the sum
    gain         how many times as fast the predicted step becomes when `stage` costs nothing
    enough       the fewest feeders with which the feed needs no more than the GPU

and None in place of it when there is no feeder or no step.

A worked example, window = (0, 1000), batch = 2, times of the ranges that count:

    loop (1, 1)      lab:measured 0-1000, data wait 0-300, data wait 500-800
    feeder (2, 2)    read 0-20, decode 20-60, transform 60-200
    feeder (3, 3)    read 100-140, decode 140-180, transform 180-280
    ops              300-400, 350-450, 800-900

    bound(ranges, ops, (0, 1000), 2)  ->  {"wait_share": 0.6, "feed_ns": 190.0, "gpu_ns": 125.0,
        "bound": "feed", "stage": "transform", "explained": 0.38, "gain": 1.52, "enough": 4}

An item takes 30 + 40 + 120 ns in the mean; 2 items by 2 feeders take 190. Without the transform the feed
takes 70, and the GPU 125: 190 / 125. And 2 * 190 / 125 is a little more than 3. The two rates explain only
38 % of this step of 500 ns: somebody waits for something else.

Grade it:         labcode exercises advanced-ex02b        (or: nox -s exercises -- advanced-ex02b)
Get a hint:       labcode exercises advanced-ex02b --hint
Try it yourself:  python exercises/advanced/ex02_dataloader/b_bound.py     (runs on captures of the book)
"""

import math

import pandas as pd

from labcode.analysis.timeline import intervals

STAGES = ("read", "decode", "transform")


def bound(
    ranges: pd.DataFrame, ops: pd.DataFrame, window: tuple[int, int], batch: int
) -> dict[str, object] | None:
    """What bounds the run.

    `intervals.clip(starts, ends, window)` gives the parts within a window, `intervals.total(starts, ends)`
    the length of a union; both take arrays (`.to_numpy()`).
    """
    # [solution]
    begin, end = window
    measured = ranges[ranges["name"] == "lab:measured"].iloc[0]
    loop = int(measured["pid"]), int(measured["tid"])
    of_loop = (ranges["pid"] == loop[0]) & (ranges["tid"] == loop[1])
    waits = ranges[of_loop & (ranges["name"] == "data wait")]
    steps = int(((waits["start_ns"] >= begin) & (waits["start_ns"] < end)).sum())

    made = ranges[ranges["name"].isin(STAGES)]
    made = made[(made["start_ns"] >= begin) & (made["end_ns"] <= end)]
    kinds = made.groupby(["pid", "tid"])["name"].nunique()
    feeders = set(kinds.index[kinds == 3])
    made = made[[thread in feeders for thread in zip(made["pid"], made["tid"], strict=True)]]
    if not feeders or not steps:
        return None

    mean = (made["end_ns"] - made["start_ns"]).groupby(made["name"]).mean()
    feed_ns = batch * float(mean.sum()) / len(feeders)
    inside = intervals.clip(ops["start_ns"].to_numpy(), ops["end_ns"].to_numpy(), window)
    gpu_ns = intervals.total(*inside) / steps
    stage = str(mean.idxmax())

    def step(fed: float) -> float:
        return fed + gpu_ns if loop in feeders else max(fed, gpu_ns)

    waited = intervals.clip(waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy(), window)
    return {
        "wait_share": intervals.total(*waited) / (end - begin),
        "feed_ns": feed_ns,
        "gpu_ns": gpu_ns,
        "bound": "feed" if feed_ns > gpu_ns else "gpu",
        "stage": stage,
        "explained": step(feed_ns) / ((end - begin) / steps),
        "gain": step(feed_ns) / step(feed_ns - batch * float(mean[stage]) / len(feeders)),
        "enough": math.ceil(batch * float(mean.sum()) / gpu_ns),
    }
    # [starter]
    # raise NotImplementedError("the loop and its steps; the feeders' means; the GPU's union; then divide")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    for run in ("baseline", "workers", "improved", "slow_disk"):
        size = captures.record("dataloader", run)["parameters"]["batch"]
        with open_report(captures.path_of("dataloader", run)) as report:
            print(f"{run}: {bound(report.nvtx(), report.gpu_ops(), report.window(), size)}")
