"""Exercise compute-ex01, part a: sectors, by hand.

A load or store instruction of a warp is one request. The memory system answers it with sectors of 32 bytes:
each sector that any active lane touches is moved once, whole, however few of its bytes are wanted.

Addresses are in bytes, a list of one a lane; None stands for a lane that takes no part. A lane's access
begins at its address and is `size` bytes long; it may cross from one sector into the next.

A worked example, with warps of four lanes to keep it short:

    sectors([0, 4, 8, 12], size=4)            ->  1
    sectors([0, 64, 128, None], size=4)       ->  3
    efficiency([0, 64, 128, None], size=4)    ->  0.125         12 of 96 bytes
    sectors([30, None, None, None], size=4)   ->  2             bytes 30 to 33

`ranking` reads counters of several kernels. A table comes in, one row per kernel:

    kernel, requests, sectors, wanted_bytes

`wanted_bytes` is what the algorithm needs from memory. A kernel wastes 32 × sectors − wanted_bytes (none, if
it wants more: a cache or a register gave the rest).

    kernel  requests  sectors  wanted_bytes
    copy         100      400         12800
    column       100     1600          6400

    ranking(table)  ->  [('column', 16.0, 44800), ('copy', 4.0, 0)]

Grade it:         labcode exercises compute-ex01a        (or: nox -s exercises -- compute-ex01a)
Get a hint:       labcode exercises compute-ex01a --hint
"""

import pandas as pd

SECTOR = 32


def sectors(addresses: list[int | None], size: int) -> int:
    """How many sectors a warp's request moves; 0 when no lane takes part."""
    # [solution]
    touched = set()
    for address in addresses:
        if address is not None:
            touched |= set(range(address // SECTOR, (address + size - 1) // SECTOR + 1))
    return len(touched)
    # [starter]
    # raise NotImplementedError("collect the numbers of the sectors that any byte lies in, each once")
    # [end]


def efficiency(addresses: list[int | None], size: int) -> float:
    """The share of the moved bytes that some lane wanted; a byte that several lanes want counts once.

    1.0 when no lane takes part: nothing was moved in vain.
    """
    # [solution]
    wanted = {byte for a in addresses if a is not None for byte in range(a, a + size)}
    return len(wanted) / (SECTOR * sectors(addresses, size)) if wanted else 1.0
    # [starter]
    # raise NotImplementedError("different bytes that lanes want, over 32 times the sectors")
    # [end]


def ranking(table: pd.DataFrame) -> list[tuple[str, float, int]]:
    """(kernel, sectors per request, wasted bytes) of each kernel, the most wasteful first, then by name.

    A kernel without requests has 0.0 sectors per request.
    """
    # [solution]
    found = []
    for row in table.itertuples():
        each = row.sectors / row.requests if row.requests else 0.0
        found.append((row.kernel, float(each), max(0, int(SECTOR * row.sectors - row.wanted_bytes))))
    return sorted(found, key=lambda entry: (-entry[2], entry[0]))
    # [starter]
    # raise NotImplementedError("two divisions and a sort; waste is never below 0")
    # [end]


if __name__ == "__main__":
    for name, stride in (("floats side by side", 4), ("every second float", 8), ("a column of 1,024", 4096)):
        warp: list[int | None] = [lane * stride for lane in range(32)]
        print(f"{name}: {sectors(warp, 4)} sectors, {efficiency(warp, 4):.1%} of the bytes wanted")
