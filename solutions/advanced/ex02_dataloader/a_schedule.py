"""Exercise advanced-ex02, part a: a model of the DataLoader. What does prefetching hide, and what not?

The rules, for batches 0, 1, 2 …, all times counted from the moment at which the loop asks for batch 0:

1. Batch i is made by worker i % workers, and by no other. A worker makes one batch at a time, in order.
2. A batch has to be ordered. The first workers * ahead batches are ordered at time 0; batch i after those at
   the moment at which the loop takes batch i - workers * ahead. A worker begins a batch when it is ordered
   and the worker is free, and is busy with it for costs[i].
3. The loop takes the batches in their order: when it has asked for batch i and batch i is finished. Then it
   works for `step` before it asks for the next.

Without workers (workers = 0) the loop makes each batch itself, when it asks for it.

A worked example: two workers, one batch ordered ahead of each, costs = [10, 10, 30, 10, 10], step = 8

    batch          0    1    2    3    4
    ordered at     0    0   10   18   40
    finished at   10   10   40   28   50
    taken at      10   18   40   48   56        taken([10, 10, 30, 10, 10], 8, 2, 1)

The loop waits for batch 2, from 26 to 40; batch 3 is finished long before, but it is not its turn.

    fewest_workers([10] * 20, step=4, ahead=2, most=8)                   ->  3
    fewest_workers([10] * 20, step=4, ahead=2, most=2)                   ->  None
    least_ahead([4] * 9 + [30] + [4] * 9, step=7, workers=1, most=8)     ->  5
    least_ahead([9] * 20, step=7, workers=1, most=8)                     ->  None

Grade it:         labcode exercises advanced-ex02a        (or: nox -s exercises -- advanced-ex02a)
Get a hint:       labcode exercises advanced-ex02a --hint
Try it yourself:  python exercises/advanced/ex02_dataloader/a_schedule.py
"""


def taken(costs: list[float], step: float, workers: int, ahead: int) -> list[float]:
    """When the loop has each batch in hand."""
    # [solution]
    had: list[float] = []
    free = [0.0] * workers
    asks = 0.0
    for i, cost in enumerate(costs):
        if workers:
            first_ordered = workers * ahead
            order = had[i - first_ordered] if i >= first_ordered else 0.0
            begin = max(order, free[i % workers])
            free[i % workers] = begin + cost
            had.append(max(asks, begin + cost))
        else:
            had.append(asks + cost)
        asks = had[-1] + step
    return had
    # [starter]
    # raise NotImplementedError("of each batch: when it is ordered, when its worker is free, when it is done")
    # [end]


def fewest_workers(costs: list[float], step: float, ahead: int, most: int) -> int | None:
    """The fewest workers (1 to `most`) with which the loop waits for no batch but the first; or None."""
    # [solution]
    for workers in range(1, most + 1):
        if not waits(taken(costs, step, workers, ahead), step):
            return workers
    return None
    # [starter]
    # raise NotImplementedError("try 1, 2, 3 …; it waits when it takes a batch later than it asks for it")
    # [end]


def least_ahead(costs: list[float], step: float, workers: int, most: int) -> int | None:
    """The smallest `ahead` (1 to `most`) with which the loop waits for no batch but the first; or None."""
    # [solution]
    for ahead in range(1, most + 1):
        if not waits(taken(costs, step, workers, ahead), step):
            return ahead
    return None


def waits(times: list[float], step: float) -> bool:
    """Whether any batch but the first is taken later than it is asked for."""
    return any(times[i] > (times[i - 1] + step) * (1 + 1e-9) for i in range(1, len(times)))
    # [starter]
    # raise NotImplementedError("like fewest_workers")
    # [end]


if __name__ == "__main__":
    print(taken([10, 10, 30, 10, 10], 8, 2, 1), "is to be [10, 18, 40, 48, 56]")
    print("a feed that is too slow, however far ahead:", least_ahead([9.0] * 20, 7.0, 1, 8))
    hiccup = [4.0] * 9 + [30.0] + [4.0] * 9
    for ahead in (1, 2, 4, 5):
        times = taken(hiccup, 7.0, 1, ahead)
        lost = times[-1] - times[0] - 7.0 * (len(times) - 1)
        print(f"one slow batch, {ahead} ahead: the loop waits for {lost:g}")
