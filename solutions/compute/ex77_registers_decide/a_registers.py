"""Exercise compute-ex77, part a: blocks by registers.

`blocks(registers, threads)`: how many blocks fit on a multiprocessor with 65,536 registers. A thread takes
so many registers; a warp gets them in pieces of 256; a block has so many threads, and its last warp is
whole.

A worked example: blocks(33, 100) is 12: 32 × 33 = 1056 is rounded up to 1280 a warp, four warps take 5120.

Grade it:         labcode exercises compute-ex77a        (or: nox -s exercises -- compute-ex77a)
Get a hint:       labcode exercises compute-ex77a --hint
"""


def blocks(registers: int, threads: int) -> int:
    """The blocks that registers allow."""
    # [solution]
    warp = -(-32 * registers // 256) * 256
    return 65536 // (warp * -(-threads // 32))
    # [starter]
    # raise NotImplementedError("a warp's registers rounded up, times the warps, into 65,536")
    # [end]


if __name__ == "__main__":
    print("32 registers, 256 threads:", blocks(32, 256))
    print("33 registers, 100 threads:", blocks(33, 100))
