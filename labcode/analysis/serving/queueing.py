"""Queues: arrivals and service times in; what waiting they make, by model, out.

One server, first come first served: M/G/1 (Poisson arrivals, service times of any distribution, independent
of each other and of the arrivals); or, arrival by arrival, Lindley's recursion. Many slots served together: a
simulation of the engine's own loop with measured times of its steps, for there the service time of a request
depends on who is served beside it, and no formula holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from labcode.analysis.serving.latency import requests
from labcode.errors import LabError

GRID = 1 << 15
HORIZON = 60.0  # of the grid, in mean times in the system


def fit_service(table: pd.DataFrame) -> np.ndarray:
    """Milliseconds of serving a request alone: before the first token, a token, a token of its prompt.

    Least squares over ``served_ms``, ``tokens``, ``prompt_tokens`` of requests served one by one.
    """
    if len(table) < 3:
        raise LabError(f"{len(table)} requests do not tell three coefficients; measure 3 or more")
    factors = np.column_stack([np.ones(len(table)), table["tokens"], table["prompt_tokens"]])
    return np.asarray(np.linalg.lstsq(factors, table["served_ms"].to_numpy(), rcond=None)[0])


def service_ms(table: pd.DataFrame, fitted: np.ndarray) -> np.ndarray:
    """What serving each request alone takes by such coefficients."""
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


def lindley_s(arrives_s: Sequence[float], services_s: Sequence[float]) -> np.ndarray:
    """Seconds in the system of each request, one server, first come first served, in order of arrival."""
    if len(arrives_s) != len(services_s):
        raise LabError(f"{len(arrives_s)} arrivals and {len(services_s)} service times do not go together")
    free, found = 0.0, []
    for arrives, service in zip(arrives_s, services_s, strict=True):
        free = max(free, arrives) + service
        found.append(free - arrives)
    return np.asarray(found)


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
    """Seconds in the system of each request with so many slots and continuous batching.

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
    each_step, each_row = nnls(np.array(factors, float), np.array(beside, float))[0]
    return float(each_step), float(each_row)


def calibrated(results: Mapping[str, Any]) -> dict[str, Any]:
    """What `slots_s` needs to know of the engine: the times of steps and of prompts, alone and back to back,
    as long on the average as they were in ``continuous all``; and its books.
    """
    runs = results["runs"]
    idle = [one for name, one in runs.items() if not one["rate_per_s"] and name != "alone all"]
    return _as_fast_as(results["calibration"], runs["continuous all"]) | {"books_us": books_us(idle)}


def _as_fast_as(times: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Times of steps and prompts, stretched to take together what they took in a run."""
    found = dict(times)
    prompts = sum(bucket(found["prompt_us"], tokens) for tokens in run["prompt_tokens"])
    steps = sum(count * bucket(found["step_us"], int(rows)) for rows, count in run["steps"].items())
    for name, told, took in (("prompt_us", prompts, run["prefill_s"]), ("step_us", steps, run["step_s"])):
        found[name] = {size: us * 1e6 * took / told for size, us in found[name].items()}
    return found


def predicted_s(results: Mapping[str, Any], name: str, *, own: bool = False) -> np.ndarray:
    """Seconds in the system of each request of a run, from its arrivals and sizes and from runs without load.

    Served one by one: `lindley_s` with service times fitted to the requests of ``alone all``. Together:
    `slots_s` with what is `calibrated`. ``own``: the server is as fast as it was in this very run; by each
    request's service time, or by the mean times of steps and prompts.
    """
    runs, run = results["runs"], results["runs"][name]
    table = requests(run)
    if run["batch"] == 1:
        fitted = service_ms(table, fit_service(requests(runs["alone all"])))
        return lindley_s(list(table["arrives_s"]), list((table["served_ms"] if own else fitted) / 1e3))
    told = calibrated(results)
    if own:
        told = _as_fast_as(told, run)
    return slots_s(
        list(table["arrives_s"]),
        list(table["prompt_tokens"]),
        list(table["tokens"]),
        **told,
        slots=run["batch"],
    )


def predictions(results: Mapping[str, Any], share: float = 0.99) -> pd.DataFrame:
    """A row for each run of one by one or continuous batching under load: what the queue model says.

    Columns: ``run``, ``rate_per_s``, ``measured_ms`` and ``predicted_ms`` (a percentile of whole answers),
    ``ratio`` of the second to the first; ``own_ms`` and ``own_ratio``, by the server's speed in that run.
    """
    rows = []
    for name, run in results["runs"].items():
        if run["rate_per_s"] and run["way"] == "continuous":
            measured = float(requests(run)["whole_ms"].quantile(share))
            ms = [
                1e3 * float(np.quantile(predicted_s(results, name, own=own), share)) for own in (False, True)
            ]
            rows.append((name, run["rate_per_s"], measured, ms[0], ms[0] / measured, ms[1], ms[1] / measured))
    names = ["run", "rate_per_s", "measured_ms", "predicted_ms", "ratio", "own_ms", "own_ratio"]
    return pd.DataFrame(rows, columns=names)
