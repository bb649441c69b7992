"""Work on many items on a few threads: items and a function in, its results in the order of the items out.

For functions that spend their time in numpy, which lets other threads run meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, Queue
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
_Result = tuple[_R | None, BaseException | None]

_MOST_THREADS = 4
_AHEAD = 2  # results that each thread may have waiting


def in_order(work: Callable[[_T], _R], items: Sequence[_T]) -> Iterator[_R]:
    """``work`` of each item, by as many threads as there are CPUs for (at most 4); few items by this one.

    An exception comes in the place of its item. No thread is left when the iterator is closed.
    """
    count = min(_MOST_THREADS, _cpus(), len(items) // 2)
    if count < 2:
        yield from map(work, items)
        return
    stop = threading.Event()
    results: list[Queue[_Result[_R]]] = [Queue(_AHEAD) for _ in range(count)]

    def run(first: int) -> None:
        for item in items[first::count]:
            if stop.is_set():
                return
            try:
                results[first].put((work(item), None))
            except BaseException as error:  # handed on, to be raised where the results are taken
                results[first].put((None, error))
                return

    threads = [threading.Thread(target=run, args=(first,), daemon=True) for first in range(count)]
    for thread in threads:
        thread.start()
    try:
        for place in range(len(items)):
            result, error = results[place % count].get()
            if error is not None:
                raise error
            yield result  # type: ignore[misc]
    finally:
        stop.set()
        for thread, waiting in zip(threads, results, strict=True):
            while thread.is_alive():
                with suppress(Empty):
                    waiting.get(timeout=0.01)
            thread.join()


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
