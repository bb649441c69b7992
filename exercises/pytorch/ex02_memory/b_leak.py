"""Exercise pytorch-ex02, part b: find the leak in a history that you have not seen.

`history` is a table of what the allocator did, in order of time:

    t_us      when, in microseconds
    action    as in part a; only alloc and free_requested matter
    addr      the block's address, which is used again once the block is free
    size      its bytes
    stack     a number that stands for the Python stack: equal numbers, equal stacks

`stacks` is a list: of each of these numbers the frames, innermost first, as texts `file:line function`.

A block **stays** when it is allocated in the recording and not freed in it. Not all that stays leaks: a cache
fills up and then stops, an optimizer makes its state once, the last step's blocks are not freed yet. Here is
a rule: divide the time from the first event to the last into four equal quarters (an event on a border
belongs to the later one, the last event to the last quarter). A stack **leaks** when blocks of it that stay
were allocated in *each* of the quarters. Whether other blocks of the same stack are freed does not matter.
In a history without any event nothing leaks.

    leaks      of the stacks that leak: (number, blocks that stay, their bytes), the most bytes first, and of
               equal ones the smaller number first
    caller     of a stack: its innermost frame that is not of a library. A frame is of a library when its file
               lies in site-packages, or begins with `torch/` or with `<`. None when there is no such frame
    time_left  how long (µs) after the last event `free` bytes are used up, if the leaking stacks together go
               on as in the recording: free / (their bytes / (last time - first time)). None without a leak

A worked example: times 0, 10, 20 … 80, one event each; stack 0 is allocated at 0, 20, 40 and 60 (100 bytes
each, never freed), stack 1 at 10 and 30 (never freed), stack 2 at 50 and freed at 70; a mark at 80.

    leaks(history, stacks)            ->  [(0, 4, 400)]
    time_left(history, stacks, 1000)  ->  200.0
    caller(["site-packages/torch/nn/modules/linear.py:130 forward", "model.py:12 forward", "train.py:5 step"])
                                      ->  "model.py:12 forward"

Grade it:         labcode exercises pytorch-ex02b        (or: nox -s exercises -- pytorch-ex02b)
Get a hint:       labcode exercises pytorch-ex02b --hint
Try it yourself:  python exercises/pytorch/ex02_memory/b_leak.py     (runs on a capture of the book)
"""

import pandas as pd


def leaks(history: pd.DataFrame, stacks: list[list[str]]) -> list[tuple[int, int, int]]:
    """Number, blocks and bytes of each stack that leaks."""
    raise NotImplementedError("what stays? in which quarter was each of it allocated?")


def caller(frames: list[str]) -> str | None:
    """The innermost frame of the program."""
    raise NotImplementedError("the first frame that is of no library")


def time_left(history: pd.DataFrame, stacks: list[list[str]], free: int) -> float | None:
    """Microseconds until `free` bytes are used up."""
    raise NotImplementedError("free bytes by bytes a microsecond")


if __name__ == "__main__":
    from labcode.reports.memory.history import open_history
    from labcode.store import load_set

    history = open_history(load_set().path_of("torch_memory", "leak", ".memory.json"))
    frames = [list(stack) for stack in history.stacks]
    for number, blocks, size in leaks(history.events, frames):
        print(f"{blocks} blocks, {size:,} bytes stay, allocated by {caller(frames[number])}")
        print("   ", "; ".join(reversed(frames[number])))
    print("10 GB last for", time_left(history.events, frames, 10**10), "µs")
