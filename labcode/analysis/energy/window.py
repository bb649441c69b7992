"""The energy of a stretch of time, with its error: samples of a GPU and two moments in, joules out.

NVML's counter is updated at intervals (100 ms on an H100 or H200) and says what had been used at the last
update. A call that reads it may wait: the value was there at some moment between its begin and its end. So at
a moment t the true value lies between what a call had read that ended before t and the first value that
cannot have been set before t, because a call that began after t still read an older one; the estimate is
interpolated between the updates that were seen, and the error is the distance to the farther of the two
bounds, at each end. It holds for a counter that is right when it is updated; whether it is, the integral of
the sampled power tells: both are given, with their disagreement.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.reports.columns import Floats
from labcode.reports.power.schema import IDLE, REASONS
from labcode.reports.report import PowerReport

FEW_UPDATES = 10  # below, an energy is flagged
MOST_WINDOWS = 20_000  # that are judged and listed, the longest of them
LEAST_UPDATES = 3  # below, none is given
_STANDING_S = 5.0  # so long no counter takes for its updates
DISAGREEMENT = 0.05  # of the energy: above, and above the error bar, it is told
_ENERGY_COLUMNS = (
    *("seconds", "counter_j", "error_j", "integral_j", "disagreement", "mean_w", "peak_w", "idle_w"),
    *("above_idle_j", "above_idle_error_j", "throttled_s"),
)
COLUMNS = {
    "name": "str",
    "instance": "int64",
    "device": "int64",
    "begin_ns": "int64",
    "end_ns": "int64",
    **dict.fromkeys(_ENERGY_COLUMNS, "float64"),
    "updates": "int64",
    "declined": "bool",
    "verdict": "str",
}


@dataclass(frozen=True)
class Energy:
    """The energy of one window on one GPU.

    ``seconds`` that samples cover; ``counter_j`` with ``error_j``, a bound on both sides, by the counter, nan
    where it is ``declined``; ``integral_j`` by power (instantaneous where the GPU gives it; trapezoids);
    ``mean_w`` by the counter; ``peak_w`` of the samples; ``idle_w`` and ``above_idle_j`` where the power at
    idle is known; ``updates`` of the counter that were seen; ``throttled`` seconds by reason; ``flags``: what
    speaks against the numbers, '' each for nothing.
    """

    seconds: float
    counter_j: float
    error_j: float
    integral_j: float
    peak_w: float
    updates: int
    throttled: dict[str, float]
    flags: tuple[str, ...]
    declined: bool
    idle_w: float = float("nan")
    idle_error_w: float = 0.0

    @property
    def mean_w(self) -> float:
        """Mean power by the counter."""
        return self.counter_j / self.seconds if self.seconds else float("nan")

    @property
    def disagreement(self) -> float:
        """By how much the integral is above the counter, as a share of the latter."""
        return self.integral_j / self.counter_j - 1 if self.counter_j else float("nan")

    @property
    def above_idle_j(self) -> float:
        """What was used more than an idle GPU would have used in the same time."""
        return self.counter_j - self.idle_w * self.seconds

    @property
    def above_idle_error_j(self) -> float:
        """The error of `above_idle_j`."""
        return self.error_j + self.idle_error_w * self.seconds

    @property
    def throttled_s(self) -> float:
        """Seconds for the reason that slowed work down longest."""
        return max(self.throttled.values(), default=0.0)

    @property
    def verdict(self) -> str:
        """``flags`` as one text."""
        return "; ".join(self.flags)


@dataclass(frozen=True)
class Curve:
    """One GPU's samples, ready to be asked for many windows: see `curve_of`.

    ``t_ns`` and ``joules`` since the first sample: the counter, resets bridged; ``read_ns`` when each value
    had been read at the latest; ``knots_ns`` and ``knots_j`` the updates, each halfway between
    ``known_after_ns``, when the last call began that did not see it, and ``known_before_ns``, when the first
    ended that did; ``power_ns``, ``watts`` and their ``integral`` (J); ``all_ns`` every sample and its
    ``reasons``; ``covered_ns`` from the end of the first call to the begin of the last; ``resets`` when the
    counter was seen to fall.
    """

    t_ns: Floats
    read_ns: Floats
    joules: Floats
    knots_ns: Floats
    knots_j: Floats
    known_after_ns: Floats
    known_before_ns: Floats
    power_ns: Floats
    watts: Floats
    integral: Floats
    reasons: NDArray[np.int64]
    all_ns: Floats
    covered_ns: tuple[float, float]
    resets: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def update_s(self) -> float:
        """Median time between updates of the counter that were seen; nan with fewer than three."""
        return float(np.median(np.diff(self.knots_ns)) / 1e9) if len(self.knots_ns) > 2 else float("nan")

    def counter(self, t_ns: float) -> tuple[float, float, float]:
        """What the counter would have said at a moment: estimate, lower and upper bound, in J."""
        place = int(self.read_ns.searchsorted(t_ns, "right")) - 1
        low = float(self.joules[max(place, 0)])
        later = int(self.known_after_ns.searchsorted(t_ns))
        if later < len(self.knots_j):
            high = float(self.knots_j[later])
        else:  # no update after this moment was seen: as much as two updates bring
            high = max(float(self.joules[-1]), low + 2 * self._step())
        if len(self.knots_ns) < 2:
            return low, low, high
        estimate = float(np.interp(t_ns, self.knots_ns, self.knots_j))
        if t_ns > self.knots_ns[-1] or t_ns < self.knots_ns[0]:
            side = slice(-2, None) if t_ns > self.knots_ns[-1] else slice(None, 2)
            (t0, t1), (e0, e1) = self.knots_ns[side], self.knots_j[side]
            estimate = float(e0 + (e1 - e0) * (t_ns - t0) / (t1 - t0))
        return min(max(estimate, low), high), low, high

    def _step(self) -> float:
        """The largest of the last updates, in J."""
        return float(np.diff(self.knots_j[-4:]).max()) if len(self.knots_j) > 1 else 0.0

    def power_j(self, begin_ns: float, end_ns: float) -> float:
        """The integral of the sampled power; nan without readings of power."""
        if len(self.power_ns) < 2:
            return float("nan")

        def until(t_ns: float) -> float:
            place = min(max(int(self.power_ns.searchsorted(t_ns)) - 1, 0), len(self.power_ns) - 2)
            watts = float(np.interp(t_ns, self.power_ns, self.watts))
            first = float(self.watts[place]) if t_ns >= self.power_ns[0] else watts
            since_ns = t_ns - float(self.power_ns[place])
            return float(self.integral[place]) + (first + watts) / 2 * since_ns / 1e9

        return until(end_ns) - until(begin_ns)

    def energy(
        self, begin_ns: int, end_ns: int, *, idle_w: float = float("nan"), idle_error_w: float = 0.0
    ) -> Energy:
        """The energy between two moments; see `Energy`."""
        flags: list[str] = []
        begin, end = max(float(begin_ns), self.covered_ns[0]), min(float(end_ns), self.covered_ns[1])
        nan = float("nan")
        if end <= begin:
            flags.append("no samples in this window")
            return Energy(0.0, nan, nan, nan, nan, 0, {}, tuple(flags), True, idle_w, idle_error_w)
        covered = (end - begin) / (end_ns - begin_ns)
        if covered < 0.995:
            flags.append(f"samples cover {covered:.0%} of it")
        seconds = (end - begin) / 1e9
        inside = self.watts[_between(self.power_ns, begin, end)]
        peak = float(inside.max()) if len(inside) else nan
        integral = self.power_j(begin, end)
        joules = error = nan
        updates = len(self.knots_ns[_between(self.knots_ns, begin, end)])
        declined = updates < LEAST_UPDATES
        if len(self.t_ns) < 2:
            flags.append("the counter was not read")
        elif declined and seconds > _STANDING_S:
            flags.append(f"the counter stood still: {updates} updates in {seconds:.3g} s")
        elif declined:
            flags.append(
                f"too short for this instrument: {updates} updates of the counter in {seconds:.3g} s; repeat "
                f"the work for at least {FEW_UPDATES} updates"
            )
        else:
            (e0, low0, high0), (e1, low1, high1) = self.counter(begin), self.counter(end)
            joules = e1 - e0
            error = max(e0 - low0, high0 - e0) + max(e1 - low1, high1 - e1)
            if updates < FEW_UPDATES:
                flags.append(f"short: {updates} updates of the counter")
            if len(self.resets[_between(self.resets, begin, end)]):
                flags.append("the counter was reset or wrapped, which power bridges")
            if abs(integral - joules) > max(DISAGREEMENT * joules, error):
                flags.append(f"counter and power disagree by {integral / joules - 1:+.0%}")
        throttled = self.throttled(begin, end)
        return Energy(
            *(seconds, joules, error, integral, peak, updates, throttled, tuple(flags), declined),
            *(idle_w, idle_error_w),
        )

    def throttled(self, begin_ns: float, end_ns: float) -> dict[str, float]:
        """Seconds in which each reason slowed the clocks down; a reading holds until the next sample."""
        inside = _between(self.all_ns, begin_ns, end_ns)
        there = slice(max(inside.start - 1, 0), inside.stop + 1)  # what was read before holds at the begin
        reasons = self.reasons[there]
        if not reasons.any():
            return {}
        starts = np.clip(self.all_ns[there], begin_ns, end_ns)
        held = np.diff(np.append(starts, starts[-1])) / 1e9
        found = {
            name: float(held[(reasons & bit) != 0].sum()) for bit, (name, slows) in REASONS.items() if slows
        }
        return {name: seconds for name, seconds in found.items() if seconds > 0}


def _between(sorted_ns: Floats, begin_ns: float, end_ns: float) -> slice:
    """Where the times from one moment to another lie, both included."""
    return slice(int(sorted_ns.searchsorted(begin_ns)), int(sorted_ns.searchsorted(end_ns, "right")))


def curve_of(samples: pd.DataFrame) -> Curve:
    """The samples of one GPU (`labcode.reports.power.log.PowerLog.of`) as a `Curve`."""
    times = samples["t_ns"].to_numpy(np.float64)
    powers = samples["instant_w"] if samples["instant_w"].notna().any() else samples["average_w"]
    watts = powers.to_numpy(np.float64)
    there = np.isfinite(watts)
    power_ns, watts = times[there], watts[there]
    pieces = (watts[1:] + watts[:-1]) / 2 * np.diff(power_ns) / 1e9
    integral = np.concatenate([[0.0], np.cumsum(pieces)])
    counter = samples["energy_j"].to_numpy(np.float64)
    read = np.isfinite(counter)
    t_ns, counter = times[read], counter[read]
    before, after = (samples[name].to_numpy(np.float64) for name in ("before_ns", "after_ns"))
    covered = (float(after[0]), float(before[-1])) if len(times) else (0.0, 0.0)
    before, after = before[read], after[read]
    steps = np.diff(counter)
    fell = np.flatnonzero(steps < 0)
    if len(fell) and len(power_ns) > 1:
        at = np.interp(t_ns, power_ns, integral)
        steps[fell] = np.diff(at)[fell]
    joules = np.concatenate([[0.0], np.cumsum(np.maximum(steps, 0.0))]) if len(t_ns) else np.empty(0)
    changed = np.flatnonzero(np.diff(joules) > 0) + 1
    return Curve(
        t_ns=t_ns,
        read_ns=after,
        joules=joules,
        knots_ns=(before[changed - 1] + after[changed]) / 2,
        knots_j=joules[changed],
        known_after_ns=before[changed - 1],
        known_before_ns=after[changed],
        power_ns=power_ns,
        watts=watts,
        integral=integral,
        reasons=samples["reasons"].to_numpy(np.int64),
        all_ns=times,
        covered_ns=covered,
        resets=t_ns[fell + 1] if len(fell) else np.empty(0),
    )


def idle_power(log: PowerReport, curve: Curve) -> tuple[float, float]:
    """Mean power in the window named idle, and half its range, in W; (nan, 0) without such a window."""
    found = log.windows[log.windows["name"] == IDLE]
    if not len(found):
        return float("nan"), 0.0
    begin, end = int(found["begin_ns"].iloc[0]), int(found["end_ns"].iloc[0])
    watts = curve.watts[(curve.power_ns >= begin) & (curve.power_ns <= end)]
    if len(watts) < 2 or end <= begin:
        return float("nan"), 0.0
    return curve.power_j(begin, end) / ((end - begin) / 1e9), float(watts.max() - watts.min()) / 2


def windows(log: PowerReport, most: int | None = None) -> pd.DataFrame:
    """The energy of every window of a log, of the whole log where it has none: columns are `COLUMNS`.

    With ``most``, of more windows than that the longest ones.

    A row for each window, instance (from 0, of a name) and device; times in ns, energies in J, powers in W.
    ``disagreement`` is the integral's share above the counter; ``verdict`` says what speaks against a row.
    """
    named = [*log.windows.itertuples(index=False, name=None)] or [("log", *log.window())]
    curves = {
        int(device): (curve := curve_of(log.of(int(device))), *idle_power(log, curve))
        for device, samples in zip(log.devices["device"], log.devices["samples"], strict=True)
        if samples
    }
    rows = []
    seen: dict[str, int] = {}
    longest = sorted(range(len(named)), key=lambda place: named[place][1] - named[place][2])
    judged = set(longest[:most])
    for place, (name, begin, end) in enumerate(named):
        instance = seen[name] = seen.get(name, -1) + 1
        if place not in judged:
            continue
        for device, (curve, idle_w, idle_error_w) in curves.items():
            one = curve.energy(begin, end, idle_w=idle_w, idle_error_w=idle_error_w)
            rows.append((name, instance, device, begin, end, one))
    return pd.DataFrame(
        [(*where, *(getattr(one, column) for column in list(COLUMNS)[5:])) for *where, one in rows],
        columns=list(COLUMNS),
    ).astype(COLUMNS)
