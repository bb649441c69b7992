"""How work grows with its size: a function of a size in, how much more the larger size takes out."""

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def processor_time() -> Iterator[Callable[[], float]]:
    """Gives what tells the CPU seconds of the block, of which collecting other tests' garbage is no part."""
    collects, begun = gc.isenabled(), time.process_time()
    gc.disable()
    try:
        yield lambda: time.process_time() - begun
    finally:
        if collects:
            gc.enable()


def time_growth(work: Callable[[int], object], small: int, large: int) -> float:
    """CPU time of the large size over that of the small one: the best of three and of two trials."""

    def spent(size: int) -> float:
        with processor_time() as seconds:
            work(size)
        return seconds()

    return min(spent(large) for _ in range(2)) / max(min(spent(small) for _ in range(3)), 1e-3)


def memory_growth(work: Callable[[int], object], small: int, large: int) -> float:
    """Peak of the memory that Python and numpy hold at the large size over that at the small one."""
    memory_held(work, small)  # what is imported and cached
    return memory_held(work, large) / memory_held(work, small)


def memory_held(work: Callable[[int], object], size: int) -> int:
    """Peak of the bytes that Python and numpy hold while they work."""
    gc.collect()
    tracemalloc.start()
    try:
        work(size)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
