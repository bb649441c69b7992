"""What was got for the joules: a table of runs with their energy in, work by joule and the like out."""

import numpy as np
import pandas as pd

_WORK = {  # column of work → column of its efficiency, and the unit's size
    "flop": ("tflop_per_j", 1e12),
    "bytes": ("gb_per_j", 1e9),
    "tokens": ("tokens_per_j", 1.0),
    "samples": ("samples_per_j", 1.0),
}


def efficiency(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with how far their energy went.

    ``runs`` has energy_j, seconds, and where known error_j (a bound), flop, bytes, tokens, samples: the work
    of a run. Added: mean_w, edp_js (energy times time: Horowitz, Indermaur, Gonzalez, *Low-Power Digital
    Design*, 1994), tflop_per_j (the same as TFLOP/s by watt), gb_per_j, tokens_per_j, samples_per_j, each
    with ``…_error`` where error_j is there. nan where the energy is not known.
    """
    joules = runs["energy_j"].where(runs["energy_j"] > 0)
    table = runs.assign(mean_w=joules / runs["seconds"], edp_js=joules * runs["seconds"])
    share = runs["error_j"] / joules if "error_j" in runs else None
    for work, (column, size) in _WORK.items():
        if work in runs:
            table[column] = runs[work] / joules / size
            if share is not None:
                table[f"{column}_error"] = table[column] * share / (1 - share).where(share < 1)
    return table


def against(runs: pd.DataFrame, baseline: int = 0) -> pd.DataFrame:
    """Each run as a ratio to one of them: speedup, energy_ratio with _low and _high by error bars, edp_ratio.

    ``runs`` as for `efficiency`, all of the same work; ``baseline`` is the position of the run to compare
    with. An energy ratio below 1 used less; faster and cheaper are different things.
    """
    base = runs.iloc[baseline]
    error = runs["error_j"] if "error_j" in runs else pd.Series(0.0, index=runs.index)
    base_error = float(base["error_j"]) if "error_j" in runs else 0.0
    base_j, base_s = float(base["energy_j"]), float(base["seconds"])
    low = (runs["energy_j"] - error).clip(lower=0) / (base_j + base_error)
    high = (runs["energy_j"] + error) / (base_j - base_error if base_j > base_error else np.nan)
    ratio = runs["energy_j"] / base_j
    same = np.arange(len(runs)) == baseline
    return runs.assign(
        speedup=base_s / runs["seconds"],
        energy_ratio=ratio,
        energy_ratio_low=low.where(~same, 1.0),
        energy_ratio_high=high.where(~same, 1.0),
        edp_ratio=ratio * runs["seconds"] / base_s,
    )
