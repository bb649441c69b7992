"""Rules on a run of many ranks, a report each: the run with its clocks aligned in, findings out."""

import pandas as pd

from labcode.analysis.ranks import stragglers
from labcode.analysis.ranks.merge import power
from labcode.analysis.ranks.run import Run, named
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.registry import TOGETHER
from labcode.analysis.rules.tables import top
from labcode.errors import InputError
from labcode.show import percent, time_text

LATE_SHARE = 0.03  # of the window
LINK_SHARE, LINK_OFTEN = 0.05, 0.5  # of the time of transfers; of the collectives
EXPOSED_SHARE = 0.05
UNEVEN = 0.05
SLOW_CLOCK = 0.97  # of the median clock
_BEYOND_CHANCE = 0.25  # of two ranks one leaves half of the collectives last, whatever their links
_BOOK = "scaling/thousand-ranks"
_WHY = {
    "slow compute": "it computes for {} longer than the rank in the middle",
    "late start": "its GPU is idle for {} longer than the one in the middle, so its host comes late",
    "slow link": "it leaves the collectives before {} later, in all, than the rank in the middle",
}


@rule(
    "late-rank",
    title="All ranks wait for one that comes late",
    book=_BOOK,
    of=("nsys", "kineto", TOGETHER),
    advice="Look at that rank alone: of slow compute its clocks, its share of the work, its kernels one by "
    "one; of a late start its data loading, its CPU and what only it does (logs, checkpoints).",
)
def late_rank(run: Run) -> Finding:
    """Which rank delays the collectives most, and why.

    Blamed is the rank that is furthest behind the next to last, summed over the collectives to which it comes
    last; not the one that waits longest. Numerator: how much less of its window is communication with no
    computing beside it than of the rank in the middle: so long do the others wait for it. Gain: the replay of
    the collectives in which this rank takes as long from one to the next as the rank in the middle; cautious:
    half of what it is late stays. Where its collectives cannot be replayed, the numerator is a bound.
    """
    table = _compared(run)
    worst = table.iloc[int(table["delay_ns"].argmax())]
    waited = max(int(table["exposed_ns"].median()) - int(worst["exposed_ns"]), 0)
    share = waited / run.width
    cause = str(worst["cause"])
    message = (
        f"rank {worst['rank']} comes last to {worst['last_count']:,} of {worst['collectives']:,} "
        f"collectives; the rank in the middle waits for {percent(share)} of the window more than it does"
    )
    if cause:
        late = {name: column for column, name in stragglers.CAUSES.items()}[cause]
        message += f"; {cause}: {_WHY[cause].format(time_text(max(int(worst[late]), 0)))}"
        if cause == "slow compute":
            message += _kernels(run, int(worst["rank"]))
    gain = stragglers.without_delay(run, int(worst["rank"]))
    least, likely = (
        (None, share) if gain is None else (min(one, share) for one in gain)
    )  # others wait no longer
    return Finding(
        share >= LATE_SHARE,
        message,
        waited,
        "ns by which the rank in the middle waits longer in exposed communication",
        run.width,
        "ns of the window",
        likely,
        top(table[["rank", "last_count", "delay_ns", "wait_ns", *stragglers.CAUSES, "cause"]], "delay_ns"),
        low=least,
        high=None if gain is None else share,
    )


@rule(
    "slow-link",
    title="One rank leaves its collectives later than all others",
    book=_BOOK,
    of=("nsys", "kineto", TOGETHER),
    advice="Test its links: NCCL's own tests on pairs of GPUs with and without it, the counters of its "
    "network card and of NVLink, the cable and the slot.",
)
def slow_link(run: Run) -> Finding:
    """How late a rank leaves collectives that it did not come late to.

    Numerator: by how much one rank leaves after the rank in the middle, summed; where that is most.
    Denominator: the time of the transfers. No bound: how much quicker all would be, a timeline does not tell;
    in a ring a slow link holds up all ranks alike, and none of them leaves late. Where a rank comes late to
    most collectives, who leaves last says nothing: all leave when the last one has come.
    """
    table = _compared(run)
    met = stragglers.meetings(run)
    transfer = int(met["transfer_ns"].sum())
    worst = table.iloc[int(table["link_late_ns"].argmax())]
    late, often = (
        int(worst["link_late_ns"]),
        int(worst["left_last_count"]) / max(int(worst["collectives"]), 1),
    )
    last = table.iloc[int(table["delay_ns"].argmax())]
    is_late = int(last["delay_ns"]) >= LATE_SHARE * run.width and 2 * int(last["last_count"]) >= int(
        last["collectives"]
    )
    return Finding(
        not is_late
        and often >= max(LINK_OFTEN, 1 / len(table) + _BEYOND_CHANCE)
        and late >= LINK_SHARE * transfer,
        f"rank {worst['rank']} leaves {worst['left_last_count']:,} of {worst['collectives']:,} collectives "
        f"last, in all {time_text(max(late, 0))} after the rank in the middle "
        f"({percent(late / max(transfer, 1))} of the transfers)",
        max(late, 0),
        "ns by which one rank leaves later than the rank in the middle",
        max(transfer, 1),
        "ns of transfers",
        None,
        top(table[["rank", "left_last_count", "link_late_ns", "last_count", "comm_ns"]], "link_late_ns"),
        "medium",
    )


@rule(
    "exposed-communication",
    title="Ranks communicate while they compute nothing",
    book=_BOOK,
    of=("nsys", "kineto"),
    advice="Reduce gradients in buckets while the backward pass still runs; send fewer bytes; accumulate "
    "over several batches.",
)
def exposed(run: Run) -> Finding:
    """Exposed communication of the rank with the least of it; what others have more is waiting."""
    table = stragglers.by_rank(run)
    talking = table[table["comm_ns"] > 0]
    if not len(talking):
        raise CannotJudgeError("no rank runs kernels of NCCL")
    least, most = int(talking["exposed_ns"].min()), int(talking["exposed_ns"].max())
    share = least / run.width
    return Finding(
        share >= EXPOSED_SHARE,
        f"even the rank with the least has {percent(share)} of the window of communication with no computing "
        f"beside it (the most: {percent(most / run.width)}; "
        f"{percent(talking['hidden_ns'].sum() / talking['comm_ns'].sum())} is hidden)",
        least,
        "ns of exposed communication on the rank with the least",
        run.width,
        "ns of the window",
        share,
        top(talking[["rank", "comm_ns", "hidden_ns", "exposed_ns", "wait_ns"]], "exposed_ns"),
    )


@rule(
    "uneven-computing",
    title="Ranks have unequal amounts of computing",
    book=_BOOK,
    of=("nsys", "kineto"),
    advice="Even out what ranks get: lengths of sequences, experts, layers of a pipeline; or find the "
    "slow GPU.",
)
def uneven(run: Run) -> Finding:
    """The most computing of a rank against the mean. Bound: all that it has more than the mean."""
    table = stragglers.by_rank(run)
    if len(table) < 2:
        raise CannotJudgeError("there is one rank")
    mean, most = float(table["compute_ns"].mean()), int(table["compute_ns"].max())
    if not mean:
        raise CannotJudgeError("no rank runs kernels")
    rank = int(table["rank"].iloc[int(table["compute_ns"].argmax())])
    return Finding(
        most / mean - 1 >= UNEVEN,
        f"rank {rank} computes most, {percent(most / mean - 1)} more than the mean of {len(table):,} ranks",
        most - mean,
        "ns that the rank with the most computing has more than the mean",
        mean,
        "ns of computing in the mean",
        (most - mean) / run.width,
        top(table[["rank", "compute_ns", "idle_ns"]], "compute_ns"),
    )


@rule(
    "slow-clock",
    title="A GPU runs at a lower clock than the others",
    book="energy/measurement",
    of=("power",),
    advice="Look at what held it down (labcode stats --report clock_reasons): power, heat, a limit of "
    "its own.",
)
def slow_clock(run: Run) -> Finding:
    """The lowest mean SM clock against that of the GPU in the middle, from power logs."""
    table = power(run)
    middle = float(table["sm_mhz"].median())
    if not middle > 0:
        raise CannotJudgeError("the power logs hold no clocks")
    worst = table.iloc[int(table["sm_mhz"].argmin())]
    return Finding(
        worst["sm_mhz"] < SLOW_CLOCK * middle,
        f"rank {worst['rank']} runs at {worst['sm_mhz']:,.0f} MHz in the mean, the rank in the middle at "
        f"{middle:,.0f} MHz; something held its clock down in {percent(float(worst['held_share']))} of "
        "its samples",
        float(worst["sm_mhz"]),
        "MHz of the slowest GPU",
        middle,
        "MHz of the GPU in the middle",
        max(1 - float(worst["sm_mhz"]) / middle, 0.0),
        table.sort_values("sm_mhz")[["rank", "gpu", "sm_mhz", "mean_w", "temperature_c", "held_share"]].head(
            20
        ),
    )


@rule(
    "missing-ranks",
    title="Not all ranks are there",
    book=_BOOK,
    of=("nsys", "kineto", "power"),
    advice="Copy the missing reports; record again where one is damaged. A rank that is not there may be "
    "the late one.",
)
def missing_ranks(run: Run) -> Finding:
    """Ranks without a report, and reports that could not be read. The program has nothing to gain."""
    gone, lost = len(run.missing), len(run.lost)
    message = f"{len(run.lanes):,} ranks are there" if len(run.lanes) > 1 else "1 rank is there"
    if gone:
        message += f"; no report of {named(run.missing)}"
    if lost:
        message += (
            f"; {lost} not read: {', '.join(one.path.name for one in run.lost[:4])}{' …' if lost > 4 else ''}"
        )
    return Finding(
        gone + lost > 0,
        message,
        gone + lost,
        "ranks missing",
        len(run.lanes) + gone + lost,
        "ranks",
        None,
        severity="high" if gone + lost else "",
    )


def _compared(run: Run) -> pd.DataFrame:
    """`stragglers.by_rank` of the ranks that meet; `CannotJudgeError` where none do, or no GPU was seen."""
    try:
        meetings = run.clocks.meetings
    except InputError as error:
        raise CannotJudgeError(str(error)) from error
    if not meetings:
        raise CannotJudgeError(run.clocks.why or "there is one rank")
    table = stragglers.by_rank(run)
    return table[table["rank"].isin(run.ranks[meetings[0].lanes])].reset_index(drop=True)


def _kernels(run: Run, rank: int) -> str:
    """What its kernels say: the same ones, longer; or others."""
    found = stragglers.against_median(run, rank)
    common = found[found["count"] == found["median_count"]]
    if not len(common) or not found["extra_ns"].clip(lower=0).sum():
        return ""
    same = common["extra_ns"].sum() / found["extra_ns"].clip(lower=0).sum()
    ratio = (common["mean_ns"] * common["count"]).sum() / (common["median_mean_ns"] * common["count"]).sum()
    if same > 0.5:
        return f" (the same kernels take {ratio:.3g} × as long)"
    return f" (more work: above all {found['name'].iloc[0]}, {found['count'].iloc[0]:,} × there)"
