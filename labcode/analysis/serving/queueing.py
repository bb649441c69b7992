"""Queues: arrivals and service times in; what waiting they make, by model, out.

One server, first come first served: M/G/1 (Poisson arrivals, service times of any distribution, independent
of each other and of the arrivals); or, arrival by arrival, Lindley's recursion. Many slots served together: a
simulation of the engine's own loop with measured times of its steps, for there the service time of a request
depends on who is served beside it, and no formula holds.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from labcode.analysis.numeric import nonnegative_least_squares
from labcode.analysis.serving.latency import requests
from labcode.errors import LabError

GRID = 1 << 15
HORIZON = 60.0  # of the grid, in mean times in the system
DRAWS = 50  # of service times, in a prediction


def fit_service(table: pd.DataFrame) -> np.ndarray:
    """Milliseconds of serving a request alone, [3]: before the first token, per token, per token of prompt.

    Least squares over ``served_ms``, ``tokens``, ``prompt_tokens`` of requests served one by one. `LabError`
    with fewer than three of them.
    """
    if len(table) < 3:
        raise LabError(f"{len(table)} requests do not tell three coefficients; measure 3 or more")
    factors = np.column_stack([np.ones(len(table)), table["tokens"], table["prompt_tokens"]])
    return np.asarray(np.linalg.lstsq(factors, table["served_ms"].to_numpy(), rcond=None)[0])


def service_ms(table: pd.DataFrame, fitted: np.ndarray) -> np.ndarray:
    """Milliseconds that serving each request alone takes by such coefficients, [requests]."""
    factors = np.column_stack([np.ones(len(table)), table["tokens"], table["prompt_tokens"]])
    return np.asarray(factors @ fitted)


def utilization(rate_per_s: float, services_s: Sequence[float]) -> float:
    """The share of time that one server is busy; `LabError` where its queue would grow without end."""
    busy = rate_per_s * float(np.mean(services_s))
    if not 0 <= busy < 1:
        raise LabError(f"the server would be busy {busy:.2f} of the time: its queue grows without end")
    return busy


def mean_wait_s(rate_per_s: float, services_s: Sequence[float]) -> float:
    """The mean wait in M/G/1 (Pollaczek, Khinchine): λ·E[S²] / (2·(1 − ρ))."""
    busy = utilization(rate_per_s, services_s)
    return float(rate_per_s * np.mean(np.square(services_s)) / (2 * (1 - busy)))


def response_quantile_s(rate_per_s: float, services_s: Sequence[float], share: float) -> float:
    """A quantile of the time in the system in M/G/1, first come first served.

    The wait is a geometric number of residual service times; its transform (1 − ρ) / (1 − ρ·R) is inverted on
    a grid.
    """
    services = np.asarray(services_s, dtype=float)
    busy = utilization(rate_per_s, services_s)
    horizon = HORIZON * (mean_wait_s(rate_per_s, services_s) + float(services.mean()))
    step = horizon / GRID
    places = np.minimum((services / step + 0.5).astype(int), GRID - 1)
    service = np.bincount(places, minlength=GRID) / len(services)
    longer = 1 - np.cumsum(service)
    residual = longer / longer.sum() if longer.sum() > 0 else np.eye(1, GRID)[0]
    waits = (1 - busy) / (1 - busy * np.fft.rfft(residual))
    response = np.fft.irfft(waits * np.fft.rfft(service), GRID)
    return float(np.searchsorted(np.cumsum(response), share) * step)


def lindley_s(arrives_s: npt.ArrayLike, services_s: npt.ArrayLike) -> np.ndarray:
    """Seconds in the system of each request, one server, first come first served, in order of arrival.

    ``arrives_s``: [requests]; ``services_s``: [requests], or [draws, requests]; the result has the shape of
    both together. `LabError` where there are not as many of both.
    """
    arrives, services = np.asarray(arrives_s, dtype=float), np.asarray(services_s, dtype=float)
    if arrives.shape[-1] != services.shape[-1]:
        raise LabError(
            f"{arrives.shape[-1]} arrivals and {services.shape[-1]} service times do not go together"
        )
    found: np.ndarray = arrives + services  # of that shape
    free = np.zeros_like(found[..., 0])
    for place in range(found.shape[-1]):
        free = np.maximum(free, arrives[..., place]) + services[..., place]
        found[..., place] = free - arrives[..., place]
    return found


def scatter(
    rate_per_s: float, services_s: Sequence[float], count: int, share: float = 0.99, *, times: int = 200
) -> tuple[float, float]:
    """Where a quantile of ``count`` requests in M/G/1 lies in nine runs of ten, by so many simulated runs.

    Each begins with a quarter more requests, in which the queue grows from nothing and which do not count.
    """
    utilization(rate_per_s, services_s)
    rng, warm = np.random.default_rng(0), count // 4
    arrives = np.cumsum(rng.exponential(1 / rate_per_s, (times, count + warm)), axis=1)
    found = lindley_s(arrives, rng.choice(services_s, arrives.shape))[:, warm:]
    low, high = np.quantile(np.quantile(found, share, axis=1), (0.05, 0.95))
    return float(low), float(high)


def bucket(sizes: Mapping[str, float], wanted: int) -> float:
    """The time of the smallest size that holds what is wanted, of the largest where none does."""
    known = sorted((int(size), seconds) for size, seconds in sizes.items())
    return next((seconds for size, seconds in known if size >= wanted), known[-1][1])


def slots_s(
    arrives_s: Sequence[float],
    prompt_tokens: Sequence[int],
    tokens: Sequence[int],
    *,
    step_us: Mapping[str, float],
    prompt_us: Mapping[str, float],
    slots: int,
    books_us: tuple[float, float] = (0.0, 0.0),
) -> np.ndarray:
    """Seconds in the system of each request, [requests], with so many slots and continuous batching.

    The engine's loop: take in who has arrived while slots are free, each with a pass over its prompt; then
    one step of the smallest size measured that holds the highest slot in use, and its books (`books_us`).
    The cache is taken to be large enough.
    """
    if slots < 1:
        raise LabError(f"{slots} slots serve nobody; give 1 or more")
    now, waiting, coming = 0.0, deque[int](), deque(range(len(arrives_s)))
    running: dict[int, list[int]] = {}
    ends = np.zeros(len(arrives_s))
    while coming or waiting or running:
        if not waiting and not running:
            now = max(now, arrives_s[coming[0]])
        while coming and arrives_s[coming[0]] <= now:
            waiting.append(coming.popleft())
        while waiting and len(running) < slots:
            one = waiting.popleft()
            now += bucket(prompt_us, prompt_tokens[one]) / 1e6
            if tokens[one] > 1:
                slot = next(place for place in range(slots) if place not in running)
                running[slot] = [one, tokens[one] - 1]
            else:
                ends[one] = now
        if running:
            now += (bucket(step_us, max(running) + 1) + books_us[0] + books_us[1] * len(running)) / 1e6
        for slot, state in list(running.items()):
            state[1] -= 1
            if not state[1]:
                ends[state[0]] = now
                del running[slot]
    return np.asarray(ends - np.asarray(arrives_s, dtype=float))


def books_us(runs: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Microseconds that the engine spends beside its runner with each step, and with each row of one.

    Least squares over runs in which it never waited for arrivals.
    """
    factors, beside = [], []
    for run in runs:
        steps = sum(run["steps"].values())
        factors.append([steps, sum(int(rows) * count for rows, count in run["steps"].items())])
        beside.append(run["span_us"] - 1e6 * (run["step_s"] + run["prefill_s"]))
    each_step, each_row = nonnegative_least_squares(np.array(factors, float), np.array(beside, float))
    return float(each_step), float(each_row)


def parts(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each part of a run, as a run."""
    ends = np.cumsum([part["done"] for part in run["parts"]])
    columns = ("arrives_us", "started_us", "first_us", "last_us", "prompt_tokens", "tokens")
    return [
        {**run, **part, **{name: run[name][end - part["done"] : end] for name in columns}}
        for part, end in zip(run["parts"], ends, strict=True)
    ]


def calibrated(results: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What `slots_s` needs to know of the engine before the loads of a round: the times of steps and of
    prompts, by their medians in the rounds so far, as long together as in the round's requests that were all
    there from the start; and its books, from the runs before all rounds.
    """
    known, runs = results["calibration"][: number + 1], results["runs"]
    times = {
        name: {size: float(np.median([one[name][size] for one in known])) for size in known[0][name]}
        for name in ("step_us", "prompt_us")
    }
    idle = [one for one in runs.values() if not one["rate_per_s"] and len(one["parts"]) == 1]
    return _as_fast_as(times, parts(runs["continuous before"])[number]) | {"books_us": books_us(idle)}


def _as_fast_as(times: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Times of steps and prompts, stretched to take together what they took in a run."""
    found = dict(times)
    prompts = sum(bucket(found["prompt_us"], tokens) for tokens in run["prompt_tokens"])
    steps = sum(count * bucket(found["step_us"], int(rows)) for rows, count in run["steps"].items())
    for name, told, took in (("prompt_us", prompts, run["prefill_s"]), ("step_us", steps, run["step_s"])):
        found[name] = {size: us * 1e6 * took / told for size, us in found[name].items()}
    return found


def predicted_s(results: Mapping[str, Any], name: str, *, own: bool = False) -> list[np.ndarray]:
    """Seconds in the system of each request of each part of a run: [draws, requests].

    From arrivals and sizes, and from what was measured before the part. Served one by one: `lindley_s` with
    service times fitted to the requests of ``alone all`` so far; each draw takes how far a request is off
    from those of the same round. Together: `slots_s` with what is `calibrated`. ``own``: the server is as
    fast as it was in this very part; by each request's service time, or by the mean times of steps and
    prompts.
    """
    runs, found = results["runs"], []
    alone, rng = parts(runs["alone all"]), np.random.default_rng(0)
    for number, part in enumerate(parts(runs[name])):
        table = requests(part)
        arrives = table["arrives_s"].tolist()
        if part["batch"] == 1:
            fitted = fit_service(pd.concat([requests(one) for one in alone[: number + 1]]))
            before = requests(alone[number])
            moods = before["served_ms"].to_numpy() / service_ms(before, fitted)
            drawn = service_ms(table, fitted) * rng.choice(moods, (DRAWS, len(table)))
            services = table["served_ms"].to_numpy()[None] if own else drawn
            found.append(lindley_s(arrives, services / 1e3))
        else:
            told = calibrated(results, number)
            if own:
                told = _as_fast_as(told, part)
            sizes = table["prompt_tokens"].tolist(), table["tokens"].tolist()
            found.append(slots_s(arrives, *sizes, **told, slots=part["batch"])[None])
    return found


def predictions(results: Mapping[str, Any], share: float = 0.99) -> pd.DataFrame:
    """A row for each run of one by one or continuous batching under load: what the queue model says.

    Columns: ``run``, ``rate_per_s``, ``measured_ms`` and ``predicted_ms`` (a percentile of whole answers of
    all parts together), ``ratio`` of the second to the first; ``own_ms`` and ``own_ratio``, by the server's
    speed in each part; ``ratios``, predicted to measured in each part, and their median ``typical``.
    """
    rows = []
    for name, run in results["runs"].items():
        if not run["rate_per_s"] or run["way"] != "continuous" or name.startswith("asleep"):
            continue
        told, own = predicted_s(results, name), predicted_s(results, name, own=True)
        measured = [requests(part)["whole_ms"].quantile(share) for part in parts(run)]
        ratios = [_quantile_ms([one], share) / ms for one, ms in zip(told, measured, strict=True)]
        row = {
            "run": name,
            "rate_per_s": run["rate_per_s"],
            "measured_ms": float(requests(run)["whole_ms"].quantile(share)),
            "predicted_ms": _quantile_ms(told, share),
            "own_ms": _quantile_ms(own, share),
            "ratios": ratios,
            "typical": float(np.median(ratios)),
        }
        row |= {
            "ratio": row["predicted_ms"] / row["measured_ms"],
            "own_ratio": row["own_ms"] / row["measured_ms"],
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _quantile_ms(seconds: Sequence[np.ndarray], share: float) -> float:
    """A quantile of all requests of some parts, by the median draw."""
    return float(1e3 * np.median(np.quantile(np.concatenate(seconds, axis=1), share, axis=1)))
