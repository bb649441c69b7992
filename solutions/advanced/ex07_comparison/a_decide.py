"""Exercise advanced-ex07, part a: a change, or noise?

Two lists of measured times come in, from before and after a change, and a limit. Decide:

    "slower"      it is sure that the typical time became longer, and it did by more than the limit
    "faster"      the same the other way round
    "no change"   it may be luck, or it is too little to matter
    "too few"     either list has fewer than six times: that is no basis for an answer

The typical time is the median: a page fault or a first launch makes single times very long, and the mean
follows them. “Sure” means with 95 %, for instance: the 95 % interval of the ratio of the medians (after /
before) lies on one side of 1. You may get it by a bootstrap (see the page), or use any other sound test: the
hidden cases are clear. The change matters when the ratio of the medians is more than 1 + limit (slower) or
less than 1 / (1 + limit) (faster).

A worked example:

    quiet  = [10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 10.1]
    again  = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1]
    longer = [12.1, 11.9, 12.0, 12.2, 11.8, 12.0, 12.1]

    verdict(quiet, longer, 0.05)      ->  "slower"
    verdict(longer, quiet, 0.05)      ->  "faster"
    verdict(quiet, again, 0.05)       ->  "no change"
    verdict(quiet, longer[:3], 0.05)  ->  "too few"

The same input must always give the same answer: seed your random numbers. NumPy is at hand.

Grade it:         labcode exercises advanced-ex07a        (or: nox -s exercises -- advanced-ex07a)
Get a hint:       labcode exercises advanced-ex07a --hint
Try it yourself:  python exercises/advanced/ex07_comparison/a_decide.py     (runs on captures of the book)
"""

import numpy as np


def verdict(before: list[float], after: list[float], limit: float) -> str:
    """'slower', 'faster', 'no change' or 'too few'; `limit` is a share: 0.05 stands for 5 %."""
    # [solution]
    if min(len(before), len(after)) < 6:
        return "too few"
    rng = np.random.default_rng(1)

    def medians(values: list[float]) -> np.ndarray:
        drawn = rng.choice(np.asarray(values), (2000, len(values)))
        return np.median(drawn, axis=1)

    low, high = np.quantile(medians(after) / medians(before), [0.025, 0.975])
    ratio = np.median(after) / np.median(before)
    if low > 1 and ratio > 1 + limit:
        return "slower"
    if high < 1 and ratio < 1 / (1 + limit):
        return "faster"
    return "no change"
    # [starter]
    # raise NotImplementedError("resample both lists, look at the interval of the ratios of medians")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    def steps(run: str) -> list[float]:
        ranges = open_report(load_set().path_of("timeline_basics", run)).nvtx()
        starts = ranges.loc[ranges["name"].str.match(r"step \d+$"), "start_ns"].sort_values()
        return starts.diff().dropna().tolist()

    loop = steps("baseline")
    for name, times in (("waits removed", steps("nosync")), ("every other step", loop[::2])):
        print(f"{name}: {np.median(times) / np.median(loop):.3f} times as long, {verdict(loop, times, 0.05)}")
