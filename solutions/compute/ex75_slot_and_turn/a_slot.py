"""Exercise compute-ex75, part a: one tile.

`place(tile, slots)`: the slot of the tile-th tile (from 0) in a ring of so many slots, and the parity of
its barrier: 0 in the first round through the ring, 1 in the second, 0 in the third …

A worked example: with 3 slots, tile 4 takes slot 1 in round 1: (1, 1).

Grade it:         labcode exercises compute-ex75a        (or: nox -s exercises -- compute-ex75a)
Get a hint:       labcode exercises compute-ex75a --hint
"""


def place(tile: int, slots: int) -> tuple[int, int]:
    """The slot of a tile, and the parity of its barrier."""
    # [solution]
    return tile % slots, tile // slots % 2
    # [starter]
    # raise NotImplementedError("modulo for the slot, the round's parity for the barrier")
    # [end]


if __name__ == "__main__":
    for tile in range(8):
        print(tile, place(tile, 3))
