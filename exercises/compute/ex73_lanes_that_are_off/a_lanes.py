"""Exercise compute-ex73, part a: the idle share.

`idle(thread_instructions, instructions)`: how many lanes executed an instruction, and how many warps did,
summed up over the kernel; the share of lanes that were off. 0.0 where there were no instructions.

A worked example: idle(24, 1) is 0.25: eight lanes of thirty-two were off.

Grade it:         labcode exercises compute-ex73a        (or: nox -s exercises -- compute-ex73a)
Get a hint:       labcode exercises compute-ex73a --hint
"""


def idle(thread_instructions: int, instructions: int) -> float:
    """The share of lanes that were off."""
    raise NotImplementedError("those on over 32 each, and the rest of it")


if __name__ == "__main__":
    print("eight are off:", idle(24, 1))
    print("none is:      ", idle(64, 2))
