"""Exercise pytorch-ex02, part a: what is in use, and who holds it at the peak?

Two tables come in: what PyTorch's recorder wrote down.

    before   addr, size: blocks that were in use before the recording began
    events   action, addr, size, site: what happened, in order of time (the row numbers are 0, 1, 2 …)

The actions, in PyTorch's words:

    alloc             a block comes into use; `site` is the place in the program that asked for it
    free_requested    its last user has let go of it: from here on it is not in use
    free_completed    the allocator has taken it back, at once or later. Nothing changes for the program
    segment_alloc     the allocator got memory from the driver
    segment_free      it gave some back
    snapshot, oom     marks

An address is used again once its block is free. A free of an address that is not in use says nothing.

    live_bytes    the bytes in use after each event, a list as long as `events`
    peak          (the most bytes in use at any time, the row of the event after which that was so for the
                  first time; -1 when it was so before the first event)
    holders       at the peak: bytes by site, a dictionary; blocks from before have the site "before"

A worked example: before = (addr 5, size 100), and the events

    0  alloc           addr 1  size 40  a.py:3
    1  segment_alloc   addr 9  size 512
    2  alloc           addr 2  size 60  b.py:7
    3  free_requested  addr 1  size 40
    4  free_completed  addr 1  size 40
    5  alloc           addr 1  size 20  b.py:7

    live_bytes(before, events)  ->  [140, 140, 200, 160, 160, 180]
    peak(before, events)        ->  (200, 2)
    holders(before, events)     ->  {"before": 100, "a.py:3": 40, "b.py:7": 60}

Grade it:         labcode exercises pytorch-ex02a        (or: nox -s exercises -- pytorch-ex02a)
Get a hint:       labcode exercises pytorch-ex02a --hint
Try it yourself:  python exercises/pytorch/ex02_memory/a_live.py     (runs on a capture of the book)
"""

import pandas as pd


def live_bytes(before: pd.DataFrame, events: pd.DataFrame) -> list[int]:
    """Bytes in use after each event."""
    # [solution]
    return [total for total, _ in after_each(before, events)]


Blocks = dict[int, tuple[int, str]]  # size and site by address


def after_each(before: pd.DataFrame, events: pd.DataFrame) -> list[tuple[int, Blocks]]:
    """After each event, the bytes in use, and what they are: one dictionary, which goes on changing."""
    blocks, found = initial(before), []
    total = sum(size for size, _ in blocks.values())
    for action, addr, size, site in events[["action", "addr", "size", "site"]].itertuples(index=False):
        if action == "alloc":
            blocks[addr] = size, site
            total += size
        elif action == "free_requested" and addr in blocks:
            total -= blocks.pop(addr)[0]
        found.append((total, blocks))
    return found


def initial(before: pd.DataFrame) -> Blocks:
    """What is in use before the first event."""
    return {addr: (size, "before") for addr, size in before[["addr", "size"]].itertuples(index=False)}
    # [starter]
    # raise NotImplementedError("keep what is in use by address")
    # [end]


def peak(before: pd.DataFrame, events: pd.DataFrame) -> tuple[int, int]:
    """The most bytes in use, and the row of the event that brought it about."""
    # [solution]
    at_first = sum(size for size, _ in initial(before).values())
    whole = [at_first, *live_bytes(before, events)]
    return max(whole), whole.index(max(whole)) - 1
    # [starter]
    # raise NotImplementedError("the largest of live_bytes, and of what was there before")
    # [end]


def holders(before: pd.DataFrame, events: pd.DataFrame) -> dict[str, int]:
    """Bytes by site at the peak."""
    # [solution]
    row = peak(before, events)[1]
    blocks = [initial(before), *(after for _, after in after_each(before, events[: row + 1]))][-1]
    found: dict[str, int] = {}
    for size, site in blocks.values():
        found[site] = found.get(site, 0) + size
    return found
    # [starter]
    # raise NotImplementedError("what is in use after the event of the peak, added up by site")
    # [end]


if __name__ == "__main__":
    from labcode.reports.memory.history import open_history
    from labcode.store import load_set

    history = open_history(load_set().path_of("torch_memory", "fixed", ".memory.json"))
    own = [[f for f in stack if "packages/" not in f and f[0] != "<"] for stack in history.stacks]
    sites = [frames[0] if frames else "a library" for frames in own]
    happened = history.events.assign(site=[sites[stack] for stack in history.events["stack"]])
    print("peak:", peak(history.live_before, happened))
    for name, size in sorted(holders(history.live_before, happened).items(), key=lambda item: -item[1]):
        print(f"{size:>16,} {name}")
