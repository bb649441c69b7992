"""Strips of threads: the ones that ran longest, what they waited in, and the GPU above."""

import numpy as np
import pandas as pd
import pytest

from labcode.errors import LabError
from labcode.figures.style import render
from labcode.figures.timeline.threads import thread_strips

STATES = pd.DataFrame(
    {
        "pid": 1,
        "tid": [1, 1, 2, 3],
        "start_ns": [0, 40, 10, 0],
        "end_ns": [40, 100, 90, 5],
        "state": ["running", "off", "running", "running"],
    }
)
NAMES = pd.DataFrame({"pid": 1, "tid": [1, 2, 3], "name": ["python3", "loader", "idle one"]})


def test_the_threads_that_ran_longest_with_what_they_waited_in() -> None:
    waits = pd.DataFrame({"pid": 1, "tid": [1], "start_ns": [40], "end_ns": [100], "call": ["sem_wait"]})
    ops = pd.DataFrame({"start_ns": [20], "end_ns": [30]})
    drawn = thread_strips(STATES, (0, 100), threads=NAMES, waits=waits, gpu_ops=ops, most=2, title="Threads")
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts == ["GPU", "python3 1", "loader 2"]
    assert len(drawn.axes[0].collections) == 4
    svg = render(
        lambda: thread_strips(STATES, (0, 100), threads=NAMES, waits=waits, gpu_ops=ops, most=2), "dark"
    ).decode()
    for text in (
        "waits for another thread",
        "runs on a CPU",
        "GPU busy",
        "the 2 threads that ran longest, of 3<",
    ):
        assert f">{text}" in svg


@pytest.mark.parametrize(("states", "window"), [(STATES.iloc[:0], (0, 9)), (STATES, (5, 5))])
def test_without_switches_it_says_how_to_record_them(states: pd.DataFrame, window: tuple[int, int]) -> None:
    with pytest.raises(LabError, match="no context switches in this window; record them with"):
        thread_strips(states, window)


def test_a_crowded_thread_is_drawn_by_the_share_of_time() -> None:
    start = np.arange(0, 10_000_000, 10_000)
    states = pd.DataFrame(
        {"pid": 1, "tid": 1, "start_ns": start, "end_ns": start + 2_500, "state": "running"}
    )
    waits = pd.DataFrame(
        {"pid": 1, "tid": 1, "start_ns": start + 2_500, "end_ns": start + 10_000, "call": "flock"}
    )
    drawn = thread_strips(states, (0, 10_000_000), waits=waits)
    assert "part height: share of time" in [text.get_text() for text in drawn.texts]
    ran, waited = (
        np.array([path.vertices for path in patches.get_paths()]) for patches in drawn.axes[0].collections
    )
    heights = [np.ptp(boxes[:, :, 1], axis=1).mean() / 0.72 for boxes in (ran, waited)]
    assert heights == pytest.approx([0.25, 0.75], abs=0.05)
    assert len(ran) + len(waited) < 100
