"""Statistics of timings, the host's clock, and, on a GPU, CUDA events."""

import time

import numpy as np
import pytest

from labcode.timing import Spread, event_times_us, flush_l2, host_times_us, l2_scratch, quantile, spread


@pytest.mark.parametrize("p", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_quantile_is_numpys(p: float) -> None:
    values = list(np.random.default_rng(1).normal(size=37))
    assert quantile(values, p) == pytest.approx(float(np.quantile(values, p)))


def test_quantile_refuses_what_has_none() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile([1.0], 1.5)


def test_spread_of_known_numbers() -> None:
    assert spread([5.0, 1.0, 2.0, 4.0, 3.0]) == Spread(5, 3.0, 2.0, 4.0, 1.0, 5.0)


def test_host_clock_covers_the_call_and_the_wait() -> None:
    assert min(host_times_us(lambda: time.sleep(0.002), 3)) >= 2000
    assert min(host_times_us(lambda: None, 3, wait=lambda: time.sleep(0.002))) >= 2000
    assert max(host_times_us(lambda: None, 3)) < 2000


@pytest.mark.gpu
def test_events_agree_with_the_waiting_host_clock() -> None:
    import torch

    a = torch.randn(2048, 2048, device="cuda")

    def products() -> None:
        for _ in range(10):
            torch.mm(a, a)

    events = quantile(event_times_us(products, 10, warmup=3), 0.5)
    host = quantile(host_times_us(products, 10, wait=torch.cuda.synchronize), 0.5)
    # the host waits for what the events bound; these are two runs, and the clocks of two runs differ
    assert 0.95 * events <= host <= 1.5 * events + 200
    assert quantile(event_times_us(products, 5, batch=4), 0.5) == pytest.approx(events, rel=0.2)


@pytest.mark.gpu
def test_flush_covers_the_cache() -> None:
    import torch

    scratch = l2_scratch()
    assert scratch.numel() >= 2 * torch.cuda.get_device_properties(0).L2_cache_size
    scratch.fill_(1)
    flush_l2(scratch)
    assert int(scratch.sum()) == 0


def test_arrays_are_welcome() -> None:
    values = np.array([3.0, 1.0, 2.0])
    assert spread(values).median == 2.0  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no values"):
        quantile(np.array([]), 0.5)  # type: ignore[arg-type]
