"""A training step on more GPUs: computing, communication and measured steps in; a prediction out.

T(n) = computing(batch of a GPU) + e · communication(n). Computing is measured on one GPU with the batch that
each has; communication is that of the step's collectives alone, for other numbers of GPUs by the α–β model;
e, the share that nothing hides, is fitted to steps measured on two GPUs and more (above 1 where
communication slows computing). Predicted are steps on numbers of GPUs that were not measured, with what the
model does not know in the interval: the spread of the times, α and B and what they miss, how α grows, which e
of several fits (`pooled`), and whether ranks are late one at a time or all at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from labcode.analysis.scaling import collectives
from labcode.analysis.scaling.collectives import Link
from labcode.analysis.scaling.samples import Times, checked, drawn_medians, drawn_slowest, interval
from labcode.errors import InputError
from labcode.reports.columns import Floats

Batches = Mapping[int, int]  # number of GPUs → sequences that each of them has


@dataclass(frozen=True)
class Traffic:
    """What a step sends: bytes in all, and how long its collectives take alone on the link's GPUs, in ms."""

    bytes: float
    alone_ms: float


@dataclass(frozen=True)
class StepModel:
    """A fitted model of steps; times in ms. ``exposed`` with an interval of 95 %."""

    link: Link
    traffic: Traffic
    alone: Mapping[int, Sequence[float]]  # batch → times of a step without communication
    exposed: float
    low: float
    high: float
    drawn: Floats


def fit(
    measured: Times, batches: Batches, alone: Mapping[int, Sequence[float]], link: Link, traffic: Traffic
) -> StepModel:
    """Find the exposed share from steps on two GPUs and more (times of one GPU in ``measured`` are left out).

    ``alone``: batch of a GPU → times of its step without communication, in ms as ``measured``. `InputError`
    without a count above 1, with a batch that was not timed alone, and for times that are not positive.
    """
    counts, values = checked({count: own for count, own in measured.items() if count > 1}, least=1)
    base = [_alone(alone, batches, int(count)) for count in counts]

    def share(exposed_ms: Floats, communication_ms: Floats) -> Floats:
        return np.asarray((exposed_ms * communication_ms).sum(axis=-1) / (communication_ms**2).sum(axis=-1))

    medians = np.array([np.median(own) for own in values]) - np.array([np.median(own) for own in base])
    what = (traffic.bytes, traffic.alone_ms / 1e3)
    typical = np.array([1e3 * collectives.seconds(link, int(n), *what) for n in counts])
    apart = drawn_medians(values, seed=2) - drawn_medians(base, seed=3)
    sent = np.stack([1e3 * collectives.drawn_seconds(link, int(n), *what) for n in counts], axis=1)
    drawn = np.maximum(share(apart, sent), 0.0)
    low, high = interval(drawn)
    best = max(float(share(medians, typical)), 0.0)
    return StepModel(link, traffic, alone, best, float(low), float(high), drawn)


def pooled(model: StepModel, others: Sequence[StepModel]) -> StepModel:
    """The model with an interval that has the exposed shares of others, of the same strategy, as well.

    Nothing measured on one number of GPUs says how e depends on the batch and on their number; fits of
    several batches say by how much it may.
    """
    every = np.stack([model.drawn, *(other.drawn for other in others)])
    which = np.random.default_rng(5).integers(0, len(every), every.shape[1])
    drawn = every[which, np.arange(every.shape[1])]
    low, high = interval(drawn)
    return replace(model, drawn=drawn, low=float(low), high=float(high))


def predict(model: StepModel, batches: Batches) -> pd.DataFrame:
    """count, batch, step_ms, low, high, and communication_ms, for each count of ``batches``."""
    what = (model.traffic.bytes, model.traffic.alone_ms / 1e3)
    rows = []
    for count, batch in batches.items():
        own = _alone(model.alone, batches, count)
        sent = 1e3 * collectives.seconds(model.link, count, *what) if count > 1 else 0.0
        drawn = drawn_slowest(own, count, seed=3)
        if count > 1:
            drawn = drawn + model.drawn * 1e3 * collectives.drawn_seconds(model.link, count, *what)
        low, high = interval(drawn)
        step = float(np.median(own)) + model.exposed * sent
        rows.append((count, batch, step, float(low), float(high), sent))
    return pd.DataFrame(rows, columns=["count", "batch", "step_ms", "low", "high", "communication_ms"])


def leave_largest_out(
    measured: Times, batches: Batches, alone: Mapping[int, Sequence[float]], link: Link, traffic: Traffic
) -> dict[str, float]:
    """The largest count predicted by a model of the others.

    count, measured_ms, predicted_ms, low, high, error (a share of what was measured). `InputError` with
    fewer than two counts above 1.
    """
    more = [count for count in measured if count > 1]
    checked({count: measured[count] for count in more})
    largest = max(more)
    others = {count: measured[count] for count in more if count != largest}
    row = predict(fit(others, batches, alone, link, traffic), {largest: batches[largest]}).iloc[0]
    median = float(np.median(measured[largest]))
    return {
        "count": largest,
        "measured_ms": median,
        "predicted_ms": float(row["step_ms"]),
        "low": float(row["low"]),
        "high": float(row["high"]),
        "error": float(row["step_ms"]) / median - 1,
    }


def _alone(alone: Mapping[int, Sequence[float]], batches: Batches, count: int) -> Floats:
    """Times without communication of the batch that each of so many GPUs has."""
    if count not in batches or batches[count] not in alone:
        known = ", ".join(map(str, sorted(alone)))
        batch = batches.get(count, "unknown")
        raise InputError(
            f"on {count} GPUs each has a batch of {batch}, which was not timed alone ({known} were); time it"
        )
    return checked({1: alone[batches[count]]}, least=1)[1][0]
