"""Latencies of requests: the columns of a run in; percentiles with intervals, goodput, Little's law out.

A run is what `labcode.workloads.inference` records of one load: ``arrives_us``, ``started_us``, ``first_us``,
``last_us``, ``prompt_tokens``, ``tokens`` of each request, ``span_us`` and ``held_mean`` of all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.numeric import binomial_quantile
from labcode.errors import LabError

SHARES = (0.5, 0.95, 0.99)


def requests(run: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each request that was served.

    Columns: ``arrives_s``; ``wait_ms`` (arrival to start), ``first_ms`` (arrival to first token),
    ``whole_ms`` (arrival to last token), ``between_ms`` (mean time between its tokens; NaN of a single one),
    ``served_ms`` (start to last token), ``prompt_tokens``, ``tokens``. `LabError` for a run of none.
    """
    columns = {name: np.asarray(run[name], dtype=float) for name in ("arrives_us", "started_us", "first_us")}
    arrives, started, first = columns.values()
    last, tokens = np.asarray(run["last_us"], float), np.asarray(run["tokens"], int)
    if not len(arrives):
        raise LabError("no request was served: there is no latency to speak of")
    gaps = np.where(tokens > 1, tokens - 1, np.nan)
    return pd.DataFrame(
        {
            "arrives_s": arrives / 1e6,
            "wait_ms": (started - arrives) / 1e3,
            "first_ms": (first - arrives) / 1e3,
            "whole_ms": (last - arrives) / 1e3,
            "between_ms": (last - first) / 1e3 / gaps,
            "served_ms": (last - started) / 1e3,
            "prompt_tokens": np.asarray(run["prompt_tokens"], int),
            "tokens": tokens,
        }
    )


def percentiles(
    values: Sequence[float] | pd.Series, shares: Sequence[float] = SHARES, confidence: float = 0.95
) -> pd.DataFrame:
    """Percentiles with intervals of order statistics, which assume no distribution, only independence.

    Columns ``share``, ``value``, ``low``, ``high``. Neighbors in a queue wait together, so that the real
    interval is wider. Where too few values lie beyond a percentile, ``high`` is infinite: nobody knows.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    count = len(ordered)
    if not count or np.isnan(ordered).any():
        raise LabError("percentiles need values, all of them numbers")
    rows = []
    for share in shares:
        if not 0 < share < 1:
            raise LabError(f"a percentile lies between 0 and 1, not at {share}")
        tail = (1 - confidence) / 2
        low = binomial_quantile(tail, count, share) - 1
        high = binomial_quantile(1 - tail, count, share)
        rows.append(
            {
                "share": share,
                "value": float(np.quantile(ordered, share)),
                "low": float(ordered[low]) if low >= 0 else 0.0,
                "high": float(ordered[high]) if high < count else float("inf"),
            }
        )
    return pd.DataFrame(rows)


def goodput_per_s(run: Mapping[str, Any], limit_ms: float, column: str = "whole_ms") -> float:
    """Requests per second that were answered within a limit; the others count as if they had not been."""
    table = requests(run)
    return float((table[column] <= limit_ms).sum() / (run["span_us"] / 1e6))


def little(run: Mapping[str, Any]) -> dict[str, float]:
    """Little's law on a run.

    ``held``: requests in the system, as the engine counted before each step; ``rate_per_s``; ``mean_s`` in
    the system, as the clients saw; ``product`` of both; ``ratio``: held / product.
    """
    table = requests(run)
    rate, mean = len(table) / (run["span_us"] / 1e6), float(table["whole_ms"].mean()) / 1e3
    held = float(run["held_mean"])
    return {
        "held": held,
        "rate_per_s": rate,
        "mean_s": mean,
        "product": rate * mean,
        "ratio": held / (rate * mean),
    }


def curve(runs: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each run: ``run``, ``rate_per_s`` asked for, ``served_per_s``, ``tokens_per_s``, ``p50_ms``,
    ``p95_ms``, ``p99_ms`` of whole answers, ``first_p99_ms``, ``between_ms`` (median).
    """
    rows = []
    for name, run in runs.items():
        table, seconds = requests(run), run["span_us"] / 1e6
        whole = {f"p{round(100 * share)}_ms": table["whole_ms"].quantile(share) for share in SHARES}
        rows.append(
            {
                "run": name,
                "rate_per_s": run["rate_per_s"],
                "served_per_s": len(table) / seconds,
                "tokens_per_s": table["tokens"].sum() / seconds,
                **whole,
                "first_p99_ms": table["first_ms"].quantile(0.99),
                "between_ms": table["between_ms"].median(),
            }
        )
    return pd.DataFrame(rows)
