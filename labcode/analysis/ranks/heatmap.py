"""A run in; what its ranks did over time, rank by rank and all together, as tables out."""

import numpy as np
import pandas as pd

from labcode.analysis.ranks.lane import below
from labcode.analysis.ranks.run import Run
from labcode.reports.columns import Floats

BINS = 60
SHARES = ("gpu_time", "compute", "communication", "exposed", "idle")


def edges(run: Run, bins: int = BINS) -> Floats:
    """The ends of even bins over the run's window."""
    begin, end = run.window()
    end = max(end, begin + 1)
    return np.linspace(begin, end, min(bins, end - begin) + 1)  # none shorter than a nanosecond


def over_time(run: Run, bins: int = BINS) -> pd.DataFrame:
    """A row for each rank and bin: rank, start_ns, end_ns and, as shares of the bin, gpu_time (anything
    runs), compute, communication, exposed (communication alone), idle; of power logs power_w. Bins in which a
    rank was not recorded are nan; one that is recorded in part counts by that part.
    """
    return run.once(f"over time, {bins}", lambda: _over_time(run, bins))


def _over_time(run: Run, bins: int) -> pd.DataFrame:
    grid = edges(run, bins)
    parts: list[dict[str, Floats]] = []
    for place, lane in enumerate(run.lanes):
        own = (grid - run.clocks.offset_ns[place]) / run.clocks.rate[place]
        there = np.clip(np.minimum(own[1:], lane.end_ns) - np.maximum(own[:-1], lane.begin_ns), 0, None)
        there[there < 1e-6 * np.diff(own)] = np.nan
        if run.metered:
            joules = lane.curves["energy"].within(np.clip(own, lane.begin_ns, lane.end_ns))
            parts.append({"power_w": joules / (there / 1e9)})
            continue
        found = {name: curve.within(own) / there for name, curve in lane.curves.items()}
        shares = found["busy"], found["compute"], found["comm"], found["exposed"], 1 - found["busy"]
        parts.append(dict(zip(SHARES, shares, strict=True)))
    table = below(parts, rank=run.ranks.tolist())
    ends = np.rint(grid).astype(np.int64)
    for place, moments in ((1, ends[:-1]), (2, ends[1:])):
        table.insert(place, ("start_ns", "end_ns")[place - 1], np.tile(moments, len(parts)))
    return table


def balance(run: Run, bins: int = BINS) -> pd.DataFrame:
    """How even the ranks are over time: start_ns, and of the share that they compute mean, least, most,
    most_rank, imbalance (most by mean, less 1); of communication and idle the means. Of power logs the same
    of power_w.
    """
    table = over_time(run, bins)
    what = "power_w" if run.metered else "compute"
    wide = table.pivot(index="start_ns", columns="rank", values=what).dropna(how="all")
    found = pd.DataFrame(
        {
            "start_ns": wide.index.to_numpy(np.int64),
            "mean": wide.mean(axis=1).to_numpy(),
            "least": wide.min(axis=1).to_numpy(),
            "most": wide.max(axis=1).to_numpy(),
            "most_rank": wide.idxmax(axis=1).to_numpy(np.int64),
        }
    )
    found["imbalance"] = found["most"] / found["mean"].where(found["mean"] > 0) - 1
    for other in () if run.metered else ("communication", "idle"):
        mean = table.groupby("start_ns")[other].mean()
        found[other] = mean.reindex(found["start_ns"]).to_numpy()
    return found
