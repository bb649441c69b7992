"""Exercise pytorch-ex01, part a: what does the profiler record? A schedule, written down.

`torch.profiler.schedule(wait, warmup, active, repeat, skip_first)` says for each step of a loop what the
profiler does in it. Steps are counted from 0:

1. In the first `skip_first` steps the profiler is off.
2. Then cycles follow, each of `wait` steps in which it is off, `warmup` steps in which it records and throws
   away, and `active` steps that it records. In the last of these it also hands over what it has.
3. After `repeat` cycles it is off for good. `repeat = 0`: the cycles have no end.

The words for the four phases: "off", "warm-up", "record", "hand over". A worked example:

    phases(9, wait=1, warmup=1, active=2, repeat=2, skip_first=0)
        ->  ["off", "warm-up", "record", "hand over", "off", "warm-up", "record", "hand over", "off"]

A trace holds the steps that were recorded since the last one was handed over. When the loop ends in the midst
of a cycle, what was recorded of it is handed over all the same. A trace without any step does not count.

    traces(7, wait=1, warmup=1, active=2, repeat=2, skip_first=0)          ->  [[2, 3], [6]]

`traces_without_step` is for a loop that never calls `prof.step()`. The profiler then takes the whole loop for
step 0. What it records, if it does, is handed over at the end, with all that the loop did in it.

    traces_without_step(7, wait=1, warmup=1, active=2, repeat=0, skip_first=0)   ->  []
    traces_without_step(4, wait=0, warmup=0, active=2, repeat=0, skip_first=0)   ->  [[0, 1, 2, 3]]

Grade it:         labcode exercises pytorch-ex01a        (or: nox -s exercises -- pytorch-ex01a)
Get a hint:       labcode exercises pytorch-ex01a --hint
Try it yourself:  python exercises/pytorch/ex01_profiler/a_schedule.py
"""


def phases(steps: int, wait: int, warmup: int, active: int, repeat: int, skip_first: int) -> list[str]:
    """The phase of each of the loop's steps."""
    # [solution]
    return [phase(step, wait, warmup, active, repeat, skip_first) for step in range(steps)]


def phase(step: int, wait: int, warmup: int, active: int, repeat: int, skip_first: int) -> str:
    """The phase of one step."""
    cycle, place = divmod(step - skip_first, wait + warmup + active)
    if step < skip_first or (repeat and cycle >= repeat) or place < wait:
        return "off"
    if place < wait + warmup:
        return "warm-up"
    return "hand over" if place == wait + warmup + active - 1 else "record"
    # [starter]
    # raise NotImplementedError("where in its cycle is a step, and in which cycle?")
    # [end]


def traces(steps: int, wait: int, warmup: int, active: int, repeat: int, skip_first: int) -> list[list[int]]:
    """The steps in each trace that is handed over."""
    # [solution]
    found: list[list[int]] = []
    current: list[int] = []
    for step, what in enumerate(phases(steps, wait, warmup, active, repeat, skip_first)):
        if what in ("record", "hand over"):
            current.append(step)
        if what == "hand over":
            found.append(current)
            current = []
    return [*found, current] if current else found
    # [starter]
    # raise NotImplementedError("go through the phases; what is left at the end is handed over, too")
    # [end]


def traces_without_step(
    steps: int, wait: int, warmup: int, active: int, repeat: int, skip_first: int
) -> list[list[int]]:
    """The same for a loop that never calls `prof.step()`."""
    # [solution]
    recorded = phases(1, wait, warmup, active, repeat, skip_first)[0] in ("record", "hand over")
    return [list(range(steps))] if recorded and steps else []
    # [starter]
    # raise NotImplementedError("the profiler stays in step 0")
    # [end]


if __name__ == "__main__":
    print(phases(9, 1, 1, 2, 2, 0))
    print(traces(7, 1, 1, 2, 2, 0), "is to be [[2, 3], [6]]")
    print(traces_without_step(7, 1, 1, 2, 0, 0), "is to be []")
