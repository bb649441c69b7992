"""Warp states against ncu's own metrics and against kernels made to wait for one thing."""

import pandas as pd
import pytest

from labcode.analysis.kernel.stalls import COLUMNS, STATES, hot_instructions, main_stall, stalls
from labcode.errors import InputError
from labcode.reports.ncu.names import STALL_ENDINGS
from tests.support import ncu
from tests.support.ncu import launch


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return stalls(ncu.opened("full"))


def test_every_state_has_a_meaning_and_a_remedy() -> None:
    assert set(STATES) == set(STALL_ENDINGS)
    assert all(one.title and one.meaning and one.remedy for one in STATES.values())


def test_shares_sum_to_one_and_to_ncus_latency(table: pd.DataFrame) -> None:
    assert list(table.columns) == list(COLUMNS)
    for one in ncu.opened("full").list:
        mine = table[table["launch"] == one.id]
        assert mine["share"].sum() == pytest.approx(1)
        assert mine["sample_share"].sum() == pytest.approx(1)
        # the sum of the states is the time between two issues, which ncu measures by another counter
        assert mine["cycles"].sum() == pytest.approx(one.number("latency_per_issue"), rel=0.03)
        assert mine["samples"].sum() == one.number("samples")
        assert mine["share"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("kernel", "state", "least"),
    [
        ("copy_scalar", "long scoreboard", 0.8),
        ("conflicts", "short scoreboard|MIO throttle", 0.6),
        ("fma_chain", "wait", 0.3),
        ("doubles", "math pipe throttle", 0.4),
        ("spills", "LG throttle|long scoreboard", 0.5),
        ("atomics", "LG throttle|drain|long scoreboard", 0.3),
    ],
)
def test_kernels_wait_for_what_they_were_made_to(kernel: str, state: str, least: float) -> None:
    name, share = main_stall(launch(kernel))
    assert name in state.split("|") and share > least, (name, share)


def test_samples_and_counters_agree(table: pd.DataFrame) -> None:
    # waits for memory; of ready warps the samples of short compute kernels see fewer
    memory = table[
        table["state"].isin(["long scoreboard", "short scoreboard", "LG throttle", "MIO throttle"])
    ]
    big = memory[(memory["all_samples"] > 2000) & (memory["share"] > 0.1)]
    assert len(big) > 5
    assert (big["share"] - big["sample_share"]).abs().max() < 0.06


def test_hot_instructions() -> None:
    report = ncu.opened("full")
    found = hot_instructions(report, launch("copy_scalar").id)
    first = found.iloc[0]
    assert first["sass"].startswith("STG")  # the store waits for the loaded value
    assert first["state"] == "long scoreboard" and first["share"] > 0.5
    assert first["state_samples"] <= first["samples"] and first["line"] > 0
    assert found["samples"].is_monotonic_decreasing


def test_without_the_sections() -> None:
    with pytest.raises(InputError, match="collect them with `ncu --section WarpStateStats --section SourceC"):
        stalls(ncu.opened("basic"))
    with pytest.raises(InputError, match="launch 0 has no samples; collect them with"):
        hot_instructions(ncu.opened("basic"), 0)
