"""The call of each operation, with numbers that lie close together and far apart."""

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.timeline.joins import launch_rows


@pytest.mark.parametrize("step", [1, 10_000_019], ids=["close", "far apart"])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_call_of_the_process_with_its_number(step: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = pd.DataFrame(
        {
            "pid": rng.integers(1, 4, 300),
            "correlation": rng.integers(0, 80, 300) * step,
            "start_ns": rng.integers(0, 200, 300),
        }
    )
    ops = pd.DataFrame({"pid": rng.integers(0, 5, 200), "correlation": rng.integers(-3, 90, 200) * step})
    wanted = []
    for pid, number in ops.itertuples(index=False):
        same = calls[(calls["pid"] == pid) & (calls["correlation"] == number)]
        wanted.append(same["start_ns"].idxmin() if len(same) and number else -1)
    assert launch_rows(ops, calls).tolist() == wanted
