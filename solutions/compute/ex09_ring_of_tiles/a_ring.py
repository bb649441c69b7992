"""Exercise compute-ex09, part a: how tiles lie in shared memory, and how a ring of them is gone through.

`address(row, chunk)`: the byte at which chunk `chunk` (16 bytes) of row `row` lies in a tile with rows of 128
bytes and the 128-byte swizzle: in its row, at chunk XOR (row mod 8).

`turns(chunks, swizzle)`: how many turns shared memory takes to read these chunks, a list of (row, chunk). In
a turn each group of four banks delivers 16 bytes; there are eight groups, and a chunk lies in the group of
its place in the row. The same chunk twice is delivered once. Without `swizzle` chunk c lies at place c. 0 for
an empty list.

`turn(stage, slots)`: (slot, reads, asks) for the stage of this number, counted from 0 over all tiles: its
slot in the ring; the parity that a consumer waits for on the slot's barrier “full”; and the one that the
producer waits for on “empty” before it asks. Barriers begin in the phase of parity 0. A wait for a parity is
over when the phase of that parity has ended; the phase before the first one counts as ended, with parity 1.

`schedule(stages, slots, interval, latency, multiply)`: for each stage (asked, came, done), times in
nanoseconds. The producer asks for stages in order, the first at 0, not sooner than `interval` after the
request before, and not before the slot is empty: the matmul of the stage that was in it is done. Bytes come
`latency` after the request. Matmuls are done in order, one at a time, each takes `multiply` and begins when
its bytes are there.

`enough(stages, interval, latency, multiply)`: the fewest slots with which the last matmul is done as early
as with a slot for each stage.

A worked example: interval 10, latency 50, multiply 20:

    turn(5, 4)                         ->  (1, 1, 0)
    schedule(3, 1, 10, 50, 20)         ->  [(0, 50, 70), (70, 120, 140), (140, 190, 210)]
    schedule(3, 2, 10, 50, 20)         ->  [(0, 50, 70), (10, 60, 90), (70, 120, 140)]
    enough(3, 10, 50, 20)              ->  3

Grade it:         labcode exercises compute-ex09a        (or: nox -s exercises -- compute-ex09a)
Get a hint:       labcode exercises compute-ex09a --hint
"""

from collections import Counter


def address(row: int, chunk: int) -> int:
    """The byte at which a chunk lies in a swizzled tile."""
    # [solution]
    return 128 * row + 16 * _place(row, chunk, True)
    # [starter]
    # raise NotImplementedError("rows stay where they are; chunks move within their row")
    # [end]


def turns(chunks: list[tuple[int, int]], swizzle: bool) -> int:
    """How many turns shared memory takes to read these chunks."""
    # [solution]
    groups = Counter(_place(row, chunk, swizzle) for row, chunk in set(chunks))
    return max(groups.values(), default=0)
    # [starter]
    # raise NotImplementedError("how many different chunks lie in the group of banks that has most of them?")
    # [end]


def turn(stage: int, slots: int) -> tuple[int, int, int]:
    """A stage's slot, the parity its readers wait for, and the one that the producer waits for."""
    # [solution]
    reads = stage // slots & 1
    return stage % slots, reads, 1 - reads
    # [starter]
    # raise NotImplementedError("how often has the ring been gone through when this stage comes?")
    # [end]


def schedule(
    stages: int, slots: int, interval: int, latency: int, multiply: int
) -> list[tuple[int, int, int]]:
    """When each stage is asked for, has come, and is done with."""
    # [solution]
    found: list[tuple[int, int, int]] = []
    for stage in range(stages):
        asked = found[-1][0] + interval if found else 0
        if stage >= slots:
            asked = max(asked, found[stage - slots][2])
        came = asked + latency
        begin = max(came, found[-1][2]) if found else came
        found.append((asked, came, begin + multiply))
    return found
    # [starter]
    # raise NotImplementedError("each stage looks at the one before and at the last one in its slot")
    # [end]


def enough(stages: int, interval: int, latency: int, multiply: int) -> int:
    """The fewest slots with which nothing is later than with a slot for each stage."""
    # [solution]
    end = schedule(stages, stages, interval, latency, multiply)[-1][2]
    slots = 1
    while schedule(stages, slots, interval, latency, multiply)[-1][2] != end:
        slots += 1
    return slots
    # [starter]
    # raise NotImplementedError("compare the ends")
    # [end]


# [solution]
def _place(row: int, chunk: int, swizzle: bool) -> int:
    """The place of a chunk in its row, which is its group of banks."""
    return chunk ^ row % 8 if swizzle else chunk


# [end]
if __name__ == "__main__":
    column = [(row, 2) for row in range(8)]
    print(
        f"eight rows of one column: {turns(column, False)} turns as in memory, {turns(column, True)} swizzled"
    )
    for latency in (300, 600, 900):  # nanoseconds: a stage of 128 × 256 × 64 takes about 600
        print(f"latency {latency} ns: {enough(64, 100, latency, 600)} stages are enough")
