"""A record of training steps on several numbers of GPUs in; one strategy's times, model and forecast out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.scaling import steps
from labcode.analysis.scaling.collectives import Link
from labcode.analysis.scaling.laws import Kind
from labcode.analysis.scaling.samples import Times, of_cases
from labcode.errors import InputError

_SINGLE = "single"
_SENDS_LIKE = {"ddp": "bucketed"}  # whose collectives were not timed alone → with the same ones


def times_of(cases: Sequence[dict[str, Any]], kind: Kind, strategy: str) -> Times:
    """Number of GPUs → times of a step, in ms: those of one GPU with the whole batch, then the strategy's."""
    batch = _batch(cases, kind, 1)
    one = [case for case in cases if case["strategy"] == _SINGLE and case["batch"] == batch]
    return of_cases([*one, *(case for case in cases if case["strategy"] == strategy)])


def model_of(cases: Sequence[dict[str, Any]], kind: Kind, strategy: str, link: Link) -> steps.StepModel:
    """The model of a strategy's steps, fitted to all counts; `InputError` for one without all-reduces."""
    sends = _SENDS_LIKE.get(strategy, strategy)
    timed = [case for case in cases if case["strategy"] == sends and case["count"] == link.count]
    if not timed or timed[0]["all_reduce_ms"] is None:
        raise InputError(
            f"{strategy} on {link.count} GPUs: its all-reduces were not timed alone; choose another"
        )
    traffic = steps.Traffic(timed[0]["gradient_bytes"], timed[0]["all_reduce_ms"])
    times = times_of(cases, kind, strategy)
    batches = {count: _batch(cases, kind, count) for count in times}
    return steps.fit(times, batches, _alone(cases), link, traffic)


def forecast(
    cases: Sequence[dict[str, Any]],
    kind: Kind,
    strategy: str,
    link: Link,
    counts: Sequence[int],
    others: Sequence[steps.StepModel] = (),
) -> pd.DataFrame:
    """What the model says of these counts, beside what was measured; ``others`` as `steps.pooled` has them.

    count, batch (of a GPU), measured_ms (nan where it was not), step_ms, low, high, alone_ms (without
    communication), efficiency with ``_low`` and ``_high``, all by the model.
    """
    model = steps.pooled(model_of(cases, kind, strategy, link), others)
    table = steps.predict(model, {count: _batch(cases, kind, count) for count in counts})
    times, alone = times_of(cases, kind, strategy), _alone(cases)
    base = float(np.median(times[1]))
    work = 1.0 / table["count"] if kind == "strong" else 1.0
    measured = [float(np.median(times[n])) if n in times else float("nan") for n in counts]
    return table.assign(
        measured_ms=measured,
        alone_ms=[float(np.median(alone[batch])) for batch in table["batch"]],
        efficiency=base * work / table["step_ms"],
        efficiency_low=base * work / table["high"],
        efficiency_high=base * work / table["low"],
    )


def _alone(cases: Sequence[dict[str, Any]]) -> dict[int, list[float]]:
    """Batch of a GPU → times of a step on one GPU."""
    return {case["batch"]: case["step_ms"] for case in cases if case["strategy"] == _SINGLE}


def _batch(cases: Sequence[dict[str, Any]], kind: Kind, count: int) -> int:
    """The batch of each of so many GPUs."""
    whole = max((case["batch"] for case in cases if case["strategy"] == _SINGLE), default=0)
    if not whole:
        raise InputError("the record has no step on one GPU; measure one")
    if kind == "strong" and whole % count:
        raise InputError(f"a batch of {whole} cannot be shared evenly by {count} GPUs; choose other counts")
    return int(whole) // count if kind == "strong" else int(whole)
