"""Rules about iterations, found without being told: the tables of a capture in, findings out."""

import numpy as np

from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline.iterations import COLUMNS
from labcode.show import percent, time_text

LOST_SHARE = 0.05


@rule(
    "uneven-iterations",
    title="Some iterations take longer than the usual one",
    book="advanced/own-program",
    advice="Look at the slow iterations of the evidence in the timeline: loading, checkpoints, evaluation, "
    "and allocation come every so often; leave the warm-up out of what you report.",
)
def uneven_iterations(tables: Tables) -> Finding:
    """Iterations after the warm-up beside their median, in the process with the most to gain.

    Numerator: the time by which they exceed the median, summed. Bound: the same, as if each took the median.
    The warm-up counts for nothing: a longer run has a smaller share of it.
    """
    tables.need_ops()
    found = tables.iterations
    rows = tables.judged.rows
    if found is None or len(rows) < 2:
        raise CannotJudgeError(
            "no iterations were found: nothing repeats often enough (put each step in an NVTX range)"
        )
    worst, lost, table = "", -1, rows
    for pid, mine in rows.groupby("pid"):
        spent = mine["duration_ns"].to_numpy(np.int64)
        extra = int(np.maximum(spent - np.median(spent), 0).sum())
        if extra > lost:
            low, usual, high = np.quantile(spent, [0.1, 0.5, 0.9])
            warm = int((found.table["warm_up"] & (found.table["pid"] == pid)).sum())
            lost, table = extra, mine
            worst = (
                f"{len(mine):,} iterations ({found.how}) take {time_text(usual)} each, four in five "
                f"{time_text(low)} to {time_text(high)}; what exceeds the median is "
                f"{percent(extra / tables.width)} of the window"
                + (f"; {warm} before them are warm-up" if warm else "")
            )
    share = lost / tables.width
    return tables.finding(
        share >= LOST_SHARE,
        worst,
        lost,
        "ns above the median iteration",
        top(table[list(COLUMNS)], "duration_ns"),
        severity="info",
    )
