"""Exercise compute-ex72, part a: one request.

`sectors(addresses, size)`: the byte addresses that a warp's threads ask for, `size` bytes each (at most
32); how many sectors of 32 bytes they touch. Two threads that share a sector share its fetch.

A worked example: sectors([0, 4, 32], 4) is 2; sectors([30], 4) is 2: its last byte is in the next one.

Grade it:         labcode exercises compute-ex72a        (or: nox -s exercises -- compute-ex72a)
Get a hint:       labcode exercises compute-ex72a --hint
"""


def sectors(addresses: list[int], size: int) -> int:
    """How many sectors some addresses touch."""
    raise NotImplementedError("the sectors of first and last bytes, each once")


if __name__ == "__main__":
    print("in order:", sectors([4 * thread for thread in range(32)], 4))
    print("a line apart:", sectors([128 * thread for thread in range(32)], 4))
