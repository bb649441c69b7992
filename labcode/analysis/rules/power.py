"""Rules on whether a measured energy can be believed and what it was spent on: a log in, findings out.

They judge the time in which the command ran, on all GPUs together.
"""

import numpy as np
import pandas as pd

from labcode.analysis.energy import reports, sensor
from labcode.analysis.energy.window import DISAGREEMENT, FEW_UPDATES, MOST_WINDOWS, windows
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.tables import top
from labcode.reports.power.log import PowerLog
from labcode.reports.power.schema import IDLE
from labcode.show import percent

THROTTLED_SHARE = 0.05
IDLE_SHARE = 0.5
SWING = 0.25  # of the mean, from one update of the power to the next
GAP = 3.0  # periods
GAP_SHARE = 0.01
_BOOK = "energy/measurement"


@rule(
    "short-windows",
    title="Windows too short for the instrument",
    book=_BOOK,
    advice="Repeat the work until a window lasts at least ten updates of the counter, a second or more.",
)
def short_windows(log: PowerLog) -> Finding:
    """Windows, besides the idle one, with fewer than ten updates of the counter. Numerator: those."""
    table = _windows(log)
    table = table[table["name"] != IDLE]
    few = table[table["updates"] < FEW_UPDATES]
    worst = table["error_j"].div(table["counter_j"]).max()
    judged = _of_windows(log, table)
    message = f"{len(few):,} of {judged} have fewer than {FEW_UPDATES} updates of the counter"
    if np.isfinite(worst):
        message += f"; the largest error bar is {percent(worst)} of its energy"
    return Finding(
        len(few) > 0,
        message,
        len(few),
        f"windows with fewer than {FEW_UPDATES} updates",
        len(table),
        "windows",
        None,
        few[["name", "device", "seconds", "updates", "counter_j", "error_j"]].reset_index(drop=True),
        "high",
    )


@rule(
    "throttled",
    title="Clocks were held down",
    book=_BOOK,
    advice="A power cap is part of the machine: say so beside the number. For heat and brakes look at "
    "cooling and supply; compare runs only at like clocks.",
)
def throttled(log: PowerLog) -> Finding:
    """Time in which a reason that slows clocks was on, for the reason that was on longest, of any GPU."""
    table = reports.clock_reasons(_sampled(log))
    worst = table.sort_values("share", ascending=False).head(1)
    seconds, share = (float(worst[c].iloc[0]) if len(worst) else 0.0 for c in ("seconds", "share"))
    message = "nothing held the clocks down"
    if len(worst):
        message = f"{worst['reason'].iloc[0]}: {percent(share)} of the time, {seconds:.1f} s"
    return Finding(
        share >= THROTTLED_SHARE,
        message,
        seconds,
        "s with clocks held down",
        seconds / share if share else 1.0,
        "s judged",
        None,
        top(table, "seconds"),
        "medium",
    )


@rule(
    "counter-disagrees",
    title="Energy counter and sampled power disagree",
    book=_BOOK,
    advice="Quote neither alone. Sample faster, lengthen the windows and vary their phase; average power "
    "lags by its averaging time.",
)
def counter_disagrees(log: PowerLog) -> Finding:
    """The largest distance of the two energies, beyond the error bar, as a share of the counter's."""
    table = _windows(log)
    table = table[~table["declined"] & table["integral_j"].notna() & (table["counter_j"] > 0)]
    if not len(table):
        raise CannotJudgeError("no window has both energies (record for longer, where NVML gives power)")
    apart = (table["integral_j"] - table["counter_j"]).abs()
    table = table.assign(apart_j=apart)
    beyond = table[(apart > table["error_j"]) & (apart > DISAGREEMENT * table["counter_j"])]
    worst = table.iloc[int(table["apart_j"].div(table["counter_j"]).to_numpy().argmax())]
    columns = ["name", "device", "seconds", "counter_j", "error_j", "integral_j", "apart_j"]
    return Finding(
        len(beyond) > 0,
        f"{len(beyond):,} of {_of_windows(log, table)} disagree by more than {percent(DISAGREEMENT)} and the "
        f"error bar; the largest distance is {worst['disagreement']:+.1%} ({worst['name']})",
        float(worst["apart_j"]),
        "J apart",
        float(worst["counter_j"]),
        "J by the counter",
        None,
        top(beyond[columns], "apart_j"),
        "high",
    )


@rule(
    "slow-sensor",
    title="The load changes faster than the sensor",
    book=_BOOK,
    advice="Trust the counter over many periods, not single readings; repeat one phase alone in a long "
    "window.",
)
def slow_sensor(log: PowerLog) -> Finding:
    """Power that swings from update to update: what lies between two updates was not seen.

    Numerator: the median distance of neighboring updates of the power while the command ran, of the GPU where
    it is largest. Steady loads scatter by a few percent.
    """
    begin, end = _sampled(log).window()
    periods = sensor.updates(log)
    worst, mean, evidence = 0.0, 1.0, []
    for device in log.devices.loc[log.devices["samples"] > 0, "device"]:
        mine = log.of(int(device))
        mine = mine[(mine["t_ns"] >= begin) & (mine["t_ns"] <= end) & mine["instant_w"].notna()]
        watts = mine["instant_w"].to_numpy(np.float64)
        watts = watts[np.concatenate([[True], np.diff(watts) != 0])] if len(watts) else watts
        if len(watts) < FEW_UPDATES:
            continue
        swing = float(np.median(np.abs(np.diff(watts))))
        of_power = periods[(periods["device"] == device) & (periods["reading"] == "instantaneous power")]
        evidence.append((int(device), swing, float(watts.mean()), float(of_power["update_ms"].iloc[0])))
        if swing / watts.mean() > worst / mean:
            worst, mean = swing, float(watts.mean())
    if not evidence:
        raise CannotJudgeError(
            f"fewer than {FEW_UPDATES} updates of the power (record for longer, where NVML gives it)"
        )
    columns = ["device", "swing_w", "mean_w", "update_ms"]
    return Finding(
        worst / mean >= SWING,
        f"from one update of the power to the next it moves by {worst:.0f} W, {percent(worst / mean)} of the "
        "mean",
        worst,
        "W between neighboring updates",
        mean,
        "W on average",
        None,
        pd.DataFrame(evidence, columns=columns),
        "medium",
    )


@rule(
    "gaps",
    title="Samples are missing",
    book=_BOOK,
    advice="Meter from a process of its own (`labcode energy -- COMMAND`), or sample less often.",
)
def gaps(log: PowerLog) -> Finding:
    """Time between samples that are more than three periods apart, in the GPU with most of it."""
    begin, end = _sampled(log).window()
    late = 0.0
    rows = []
    for device in log.devices["device"]:
        mine = log.samples[log.samples["device"] == device]
        times = mine["t_ns"].to_numpy(np.float64)
        apart = np.diff(np.concatenate([times[(times > begin) & (times < end)], [end]])) / 1e9
        missing = apart[apart > GAP * log.period_s]
        rows.append((int(device), len(missing), float(missing.sum())))
        late = max(late, float(missing.sum()))
    whole = max((end - begin) / 1e9, 1e-9)
    lost = log.devices[log.devices["lost"] != ""]
    message = f"{percent(late / whole)} of the time lies in gaps of more than {GAP:g} periods"
    if len(lost):
        message += f"; GPU {int(lost['device'].iloc[0])} was lost"
    return Finding(
        late / whole >= GAP_SHARE or len(lost) > 0,
        message,
        late,
        "s in gaps",
        whole,
        "s judged",
        None,
        pd.DataFrame(rows, columns=["device", "gaps", "seconds"]),
        "high",
    )


@rule(
    "paid-for-idling",
    title="Most of the energy is what an idle GPU uses",
    book=_BOOK,
    advice="Finish sooner, or put more work on the GPU at a time: idle power is paid by the second.",
)
def paid_for_idling(log: PowerLog) -> Finding:
    """What idle GPUs would have used in the same time, against what was used, in J."""
    table = reports.power_sum(_sampled(log))
    if table["idle_w"].isna().any():
        raise CannotJudgeError("the power at idle was not metered (record without --idle 0s)")
    table = table[table["energy_j"].notna()]
    if not len(table):
        raise CannotJudgeError("no energy, for the time was too short (record for longer)")
    idle, whole = float((table["idle_w"] * table["seconds"]).sum()), float(table["energy_j"].sum())
    return Finding(
        idle / whole >= IDLE_SHARE,
        f"idle GPUs would have used {idle:,.0f} J of {whole:,.0f} J in the same time",
        idle,
        "J at idle power",
        whole,
        "J used",
        None,
        table[["device", "idle_w", "mean_w", "seconds", "energy_j"]].reset_index(drop=True),
        "medium",
    )


def _sampled(log: PowerLog) -> PowerLog:
    if not len(log.samples):
        raise CannotJudgeError("the log has no samples (record for longer)")
    return log


def _windows(log: PowerLog) -> pd.DataFrame:
    return windows(_sampled(log), MOST_WINDOWS)


def _of_windows(log: PowerLog, table: pd.DataFrame) -> str:
    """How many windows are judged, in words."""
    if len(log.windows) <= MOST_WINDOWS:
        return f"{len(table):,} windows"
    return f"the {len(table):,} longest of {len(log.windows):,} windows"
