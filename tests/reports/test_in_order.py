"""Work on several threads: results in order, exceptions in their place, no thread left."""

from __future__ import annotations

import threading
import time

import pytest

from labcode.reports import in_order as module
from labcode.reports.in_order import in_order


@pytest.fixture(autouse=True)
def _four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cpus", lambda: 4)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 50])
def test_results_in_order(count: int) -> None:
    def work(item: int) -> int:
        time.sleep((item * 7 % 5) / 2000)
        return item * item

    assert list(in_order(work, range(count))) == [item * item for item in range(count)]
    assert threading.active_count() == 1


def test_several_threads_take_part() -> None:
    seen = set()

    def work(item: int) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.002)

    list(in_order(work, range(20)))
    assert len(seen) == 4


def test_an_exception_comes_in_its_place() -> None:
    taken = []
    with pytest.raises(ZeroDivisionError):
        for result in in_order(lambda item: 60 // (12 - item), range(40)):
            taken.append(result)
    assert taken == [60 // (12 - item) for item in range(12)]
    assert threading.active_count() == 1


def test_no_thread_is_left_when_the_rest_is_not_wanted() -> None:
    results = in_order(lambda item: item, range(1000))
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == 1
