"""Exercise compute-ex02, part a: occupancy, by hand.

A multiprocessor takes blocks until something runs out. `sm` says what it has:

    warps            warps at a time
    blocks           blocks at a time
    registers        32-bit registers, of which each warp gets a whole number of units
    register_unit    that unit: registers × 32 lanes, rounded up to it, is what a warp gets
    shared_bytes     shared memory for all blocks together
    shared_unit      what a block gets is rounded up to this
    reserved_bytes   shared memory that the driver keeps in every block, added before rounding

A block's threads are rounded up to whole warps of 32. The register file is in four equal parts; a warp takes
its registers from one of them, so each part holds a whole number of warps, and the four together hold four
times as many. Blocks get what they need whole or not at all.

A worked example, with sm = {"warps": 64, "blocks": 32, "registers": 65536, "register_unit": 256,
"shared_bytes": 233472, "shared_unit": 128, "reserved_bytes": 1024}:

    blocks_that_fit(sm, threads=256, registers=40, shared_bytes=0)
        ->  {"warps": 8, "blocks": 32, "registers": 6, "shared": 228}
            40 × 32 = 1280 registers per warp; 16384 // 1280 = 12 warps in a part, 48 in all, 6 blocks of 8
    occupancy(sm, 256, 40, 0)              ->  0.75                6 × 8 = 48 of 64 warps
    limiters(sm, 256, 40, 0)               ->  ["registers"]
    most_registers(sm, 256, 0, 1.0)        ->  32

Grade it:         labcode exercises compute-ex02a        (or: nox -s exercises -- compute-ex02a)
Get a hint:       labcode exercises compute-ex02a --hint
"""

PARTS, LANES, MOST_REGISTERS = 4, 32, 255


def blocks_that_fit(sm: dict[str, int], threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
    """How many blocks each resource allows at a time: keys 'warps', 'blocks', 'registers', 'shared'."""

    raise NotImplementedError("four divisions that round down, of needs that are rounded up")


def occupancy(sm: dict[str, int], threads: int, registers: int, shared_bytes: int) -> float:
    """The warps that are there at a time over the most there can be."""
    raise NotImplementedError("the scarcest resource decides")


def limiters(sm: dict[str, int], threads: int, registers: int, shared_bytes: int) -> list[str]:
    """The resources that allow no more blocks than there are, in alphabetical order."""
    raise NotImplementedError("there may be several")


def most_registers(sm: dict[str, int], threads: int, shared_bytes: int, wanted: float) -> int:
    """The most registers a thread may have, up to 255, for an occupancy of at least `wanted`; 0 for none."""
    raise NotImplementedError("try them all")


if __name__ == "__main__":
    h200 = {"warps": 64, "blocks": 32, "registers": 65536, "register_unit": 256}
    h200 |= {"shared_bytes": 233472, "shared_unit": 128, "reserved_bytes": 1024}
    for needed in (32, 40, 64, 128, 255):
        share = occupancy(h200, 256, needed, 0)
        print(f"{needed} registers: {share:.0%}, limited by {', '.join(limiters(h200, 256, needed, 0))}")
