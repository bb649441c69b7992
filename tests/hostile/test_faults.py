"""A capture that is killed at any point leaves the set as it was, or with the whole experiment in it."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from labcode import store
from labcode.capture import verify
from tests.capture.conftest import Lab, make_lab


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])])
def test_killed_at_any_point(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(tmp_path, monkeypatch)
    assert lab.capture("beta") == 0
    before = lab.tree()
    took = _capture(lab, None)
    rng = random.Random(kills)
    for _ in range(kills):
        _capture(lab, rng.uniform(0, 1.1 * took))
        captures = store.load_set("mine")
        assert {"beta"} <= set(captures.experiments) <= {"beta", "alpha"}
        told = [str(one) for one in verify.verify("mine")]
        assert [one for one in told if "stray: left by an interrupted capture" not in one] == []
        assert all(lab.tree()[name] == data for name, data in before.items() if name.startswith("beta/"))
    assert lab.capture("alpha") == 0  # what killed ones left is in nobody's way
    left = [path.name for path in (lab.sets / "mine").iterdir() if path.name.startswith(".")]
    assert [name for name in left if "lock" not in name] == []


def _capture(lab: Lab, seconds: float | None) -> float:
    """Capture in a process that is killed, with what it started, after so many seconds; how long it took."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            lab.capture("alpha")
        finally:
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.killpg(child, signal.SIGKILL) if _leads(child) else os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return time.monotonic() - began


def _leads(child: int) -> bool:
    """Whether a process has its own group already."""
    return os.getpgid(child) == child
