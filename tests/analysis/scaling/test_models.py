"""α–β and steps: made-up collectives and steps with known parameters are understood and foretold."""

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.scaling import bus, collectives, samples, steps
from labcode.errors import InputError

ALPHA_US, GBPS = 12.0, 350.0
TRAFFIC = steps.Traffic(bytes=1.2e9, alone_ms=5.0)
BATCHES = {1: 32, 2: 16, 4: 8, 8: 4}
ALONE = {32: [90.0, 91, 89], 16: [48.0, 48.5, 47.5], 8: [26.0, 26.2, 25.8], 4: [18.0, 18.1, 17.9]}


def sweep(count: int = 2, alpha_us: float = ALPHA_US, noise: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = []
    for operation in bus.OPERATIONS:
        for size in 2.0 ** np.arange(10, 33, 2):
            time_us = alpha_us + 1e-3 * bus.bus_factor(operation, count) * size / GBPS
            times = list(time_us * (1 + noise * rng.standard_normal(5)))
            rows.append({"operation": operation, "count": count, "bytes": size, "times_us": times})
    return collectives.by_size(rows)


@pytest.mark.parametrize(
    ("operation", "count", "factor"),
    [("all_reduce", 2, 1.0), ("all_reduce", 4, 1.5), ("all_gather", 4, 0.75), ("reduce_scatter", 8, 0.875)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(operation: str, count: int, factor: float) -> None:
    assert bus.bus_factor(operation, count) == factor
    assert bus.bus_bandwidth_gbps(operation, count, 1e9, 0.01) == pytest.approx(100 * factor)


def test_a_sweep_becomes_a_table() -> None:
    cases = [{"operation": "all_reduce", "count": 2, "bytes": 1000, "times_us": [4.0, 2.0, 3.0]}]
    row = collectives.by_size(cases).iloc[0]
    assert row[["time_us", "low_us", "high_us"]].to_list() == [3.0, 2.5, 3.5]
    assert row["bus_gb_per_s"] == pytest.approx(1000 / 3e-6 / 1e9)


@pytest.mark.parametrize("operation", bus.OPERATIONS)
def test_latency_and_bandwidth_are_found_again(operation: str) -> None:
    link = collectives.fit(sweep(), operation, 2)
    assert link.alpha_us == pytest.approx(ALPHA_US) and link.gbps == pytest.approx(GBPS)
    assert link.worst < 1e-9
    noisy = collectives.fit(sweep(noise=0.05), operation, 2)
    assert noisy.alpha_low_us <= noisy.alpha_us <= noisy.alpha_high_us
    assert noisy.gbps_low < noisy.gbps < noisy.gbps_high
    assert noisy.gbps == pytest.approx(GBPS, rel=0.1) and 0 < noisy.worst < 0.2


def test_other_counts_are_foretold_between_no_growth_of_latency_and_that_of_a_ring() -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    assert collectives.seconds(link, 2, 1e6) == pytest.approx(ALPHA_US * 1e-6 + 1e6 / (GBPS * 1e9))
    per_call_us = 1e6 * (collectives.drawn_seconds(link, 4, 1e6) - 1.5 * 1e6 / (GBPS * 1e9))
    assert ALPHA_US * 0.999 < per_call_us.min() < 1.05 * ALPHA_US
    assert 2.9 * ALPHA_US < per_call_us.max() < 3.001 * ALPHA_US
    assert (collectives.drawn_seconds(link, 4, 1e6) == collectives.drawn_seconds(link, 4, 1e6)).all()


def test_what_moving_does_not_explain_of_several_collectives_is_their_latency() -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    moving = 1.2e9 / (GBPS * 1e9)
    assert collectives.seconds(link, 2, 1.2e9, alone_s=0.01) == pytest.approx(0.01)
    at_four = collectives.seconds(link, 4, 1.2e9, alone_s=0.01)
    assert at_four == pytest.approx((0.01 - moving) * 3**0.5 + 1.5 * moving)
    # faster than the fit has it: it keeps its own bandwidth
    assert collectives.seconds(link, 2, 1.2e9, alone_s=moving / 2) == pytest.approx(moving / 2)
    assert collectives.seconds(link, 4, 1.2e9, alone_s=moving / 2) == pytest.approx(1.5 * moving / 2)


def test_what_the_fit_misses_of_large_sizes_is_in_the_interval_of_large_ones() -> None:
    table = sweep()
    large = table["bytes"] > 1e8
    table.loc[large, "time_us"] *= np.where(np.arange(large.sum()) % 2, 1.2, 0.8)
    link = collectives.fit(table, "all_reduce", 2)
    assert 0.1 < np.abs(link.missed[link.moves]).max() == pytest.approx(np.abs(link.missed).max())
    told = collectives.seconds(link, 4, 1e9)
    low, high = np.quantile(collectives.drawn_seconds(link, 4, 1e9) / told, (0.025, 0.975))
    assert low < 0.85 and high > 1.15
    small = collectives.drawn_seconds(link, 2, 1e3) / collectives.seconds(link, 2, 1e3)
    assert np.ptp(small) < np.ptp(collectives.drawn_seconds(link, 2, 1e9) / collectives.seconds(link, 2, 1e9))
    assert np.ptp(collectives.drawn_seconds(link, 2, 1e9, alone_s=0.01)) < 1e-12  # measured


def test_ranks_that_are_late_one_at_a_time_make_the_slowest_slower() -> None:
    own = np.array([1.0, 1.0, 1.0, 1.0, 2.0])
    one, eight = (samples.drawn_slowest(own, ranks) for ranks in (1, 8))
    assert (one == samples.drawn_slowest(own, 1)).all() and (one > 1).mean() < 0.2
    assert 0.3 < (eight > 1).mean() < 0.9  # late together, or each on its own


def test_the_share_of_another_batch_widens_the_interval_and_moves_nothing_else() -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    one, other = (steps.fit(measured(e, link, (2,)), BATCHES, ALONE, link, TRAFFIC) for e in (0.5, 1.5))
    both = steps.pooled(one, [other])
    assert both.exposed == one.exposed and both.low <= one.low < 1.0 < both.high
    assert (steps.pooled(one, []).drawn == one.drawn).all()
    told = [steps.predict(model, {8: 4}).iloc[0] for model in (one, both)]
    assert told[0]["step_ms"] == told[1]["step_ms"] and told[1]["high"] > told[0]["high"] + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.head(2), "all_reduce on 2 GPUs: 2 size(s), 3 are needed"),
        (lambda t: t.assign(time_us=0.0), "all_reduce on 2 GPUs: a time is zero or negative"),
        (lambda t: t.assign(time_us=1 / t["bytes"]), "times do not grow with size"),
        (lambda t: t.assign(count=4), "all_reduce on 2 GPUs: 0 size(s)"),
    ],
)
def test_sweeps_that_cannot_be_fitted(change: object, message: str) -> None:
    table = change(sweep())  # type: ignore[operator]
    with pytest.raises(InputError) as caught:
        collectives.fit(table, "all_reduce", 2)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("broadcast", 2, 1.0, 1.0), "broadcast: no such collective (there are: all_reduce,"),
        (("all_reduce", 1, 1.0, 1.0), "a collective needs two GPUs, not 1"),
        (("all_reduce", 2, 1.0, 0.0), "all_reduce of 1 bytes took 0 s"),
        (("all_reduce", 2, 1.0, -1.0), "took -1 s"),
    ],
)
def test_bad_bus_bandwidths(arguments: tuple[str, int, float, float], message: str) -> None:
    with pytest.raises(InputError) as caught:
        bus.bus_bandwidth_gbps(*arguments)
    assert message in str(caught.value)


def measured(exposed: float, link: collectives.Link, counts: tuple[int, ...]) -> dict[int, list[float]]:
    """Steps as the model has them, on one GPU without communication."""
    result = {1: ALONE[32]}
    for count in counts:
        sent = 1e3 * collectives.seconds(link, count, TRAFFIC.bytes, TRAFFIC.alone_ms / 1e3)
        result[count] = [own + exposed * sent for own in ALONE[BATCHES[count]]]
    return result


@pytest.mark.parametrize("exposed", [0.0, 0.3, 1.0, 1.4])
def test_the_exposed_share_is_found_again_and_larger_counts_are_foretold(exposed: float) -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    steps_ms = measured(exposed, link, (2, 4))
    model = steps.fit({n: t for n, t in steps_ms.items() if n < 4}, BATCHES, ALONE, link, TRAFFIC)
    assert model.exposed == pytest.approx(exposed, abs=1e-9)
    assert model.low <= model.exposed <= model.high
    table = steps.predict(model, BATCHES).set_index("count")
    assert table["batch"].to_dict() == BATCHES
    assert table.loc[1, "step_ms"] == 90 and table.loc[1, "communication_ms"] == 0
    assert table.loc[4, "step_ms"] == pytest.approx(np.median(steps_ms[4]))
    assert (table["low"] <= table["step_ms"]).all() and (table["step_ms"] <= table["high"]).all()
    assert table.loc[8, "high"] - table.loc[8, "low"] > table.loc[2, "high"] - table.loc[2, "low"] - 0.5
    left = steps.leave_largest_out(steps_ms, BATCHES, ALONE, link, TRAFFIC)
    assert left["count"] == 4 and left["error"] == pytest.approx(0, abs=1e-9)
    assert left["low"] <= left["measured_ms"] <= left["high"]


def test_a_step_that_breaks_the_model_is_seen_when_left_out() -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    own = measured(1.0, link, (2, 4))
    own[4] = [2 * time for time in own[4]]
    assert steps.leave_largest_out(own, BATCHES, ALONE, link, TRAFFIC)["error"] == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, b, a: ({1: t[1]}, b, a), "times on no GPUs only; times on 1 numbers of GPUs are needed"),
        (
            lambda t, b, a: (t, b, {32: a[32]}),
            "on 2 GPUs each has a batch of 16, which was not timed alone (32 were)",
        ),
        (lambda t, b, a: (t, {}, a), "on 2 GPUs each has a batch of unknown"),
        (lambda t, b, a: (t | {2: [0.0]}, b, a), "a time on 2 GPUs is missing, zero or negative"),
    ],
)
def test_steps_that_cannot_be_modeled(change: object, message: str) -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    given = change(measured(1.0, link, (2,)), BATCHES, ALONE)  # type: ignore[operator]
    with pytest.raises(InputError) as caught:
        steps.fit(*given, link, TRAFFIC)
    assert message in str(caught.value)


def test_leaving_the_largest_out_needs_another_count_above_one() -> None:
    link = collectives.fit(sweep(), "all_reduce", 2)
    with pytest.raises(InputError, match="times on 2 GPUs only; times on 2 numbers"):
        steps.leave_largest_out(measured(1.0, link, (2,)), BATCHES, ALONE, link, TRAFFIC)
