"""Exercise compute-ex14, part a: time on another GPU, from rates on paper.

    work    what a kernel does, by kind: {'flop': …, 'bytes': …, 'exponentials': …}
    gpu     how much of each kind a GPU does per second; it may have kinds that the kernel does not need

At best all kinds of work overlap, so a kernel takes as long as the kind that takes longest.

`least(work, gpu)`: that time, in seconds; 0.0 without work.

`limit(work, gpu)`: the kind that takes longest, of equal ones the first by name; None without work.

`gain(work, old, new)`: how many times as fast the kernel can become on the new GPU; 1.0 without work.

`held_back(work, old, new)`: whether something else limits it on the new GPU than on the old one.

A worked example: work = {'flop': 800.0, 'bytes': 10.0}, old = {'flop': 100.0, 'bytes': 2.0},
new = {'flop': 400.0, 'bytes': 4.0}:

    least(work, old)            ->  8.0            800 / 100, and 10 / 2 beside it
    limit(work, new)            ->  'bytes'        2.0 and 2.5
    gain(work, old, new)        ->  3.2            8.0 / 2.5, though the FLOP rate is 4 times as high
    held_back(work, old, new)   ->  True

Grade it:         labcode exercises compute-ex14a        (or: nox -s exercises -- compute-ex14a)
Get a hint:       labcode exercises compute-ex14a --hint
"""

Amounts = dict[str, float]


def least(work: Amounts, gpu: Amounts) -> float:
    """The least time of a kernel, in s."""
    # [solution]
    return max((amount / gpu[kind] for kind, amount in work.items()), default=0.0)
    # [starter]
    # raise NotImplementedError("a time for each kind; they overlap")
    # [end]


def limit(work: Amounts, gpu: Amounts) -> str | None:
    """What limits a kernel."""
    # [solution]
    needed = sorted(kind for kind, amount in work.items() if amount)
    return max(needed, key=lambda kind: work[kind] / gpu[kind], default=None)
    # [starter]
    # raise NotImplementedError("the kind that takes longest")
    # [end]


def gain(work: Amounts, old: Amounts, new: Amounts) -> float:
    """How many times as fast a kernel can become."""
    # [solution]
    before, after = least(work, old), least(work, new)
    return before / after if after else 1.0
    # [starter]
    # raise NotImplementedError("old time over new time")
    # [end]


def held_back(work: Amounts, old: Amounts, new: Amounts) -> bool:
    """Whether the limit is another one on the new GPU."""
    # [solution]
    return limit(work, old) != limit(work, new)
    # [starter]
    # raise NotImplementedError("compare the limits")
    # [end]


if __name__ == "__main__":
    from labcode.hardware.specs import find_spec

    for name in ("NVIDIA H200", "NVIDIA B200"):
        spec = find_spec(name)
        if spec and spec.fp16_tensor and spec.memory_gb_s:
            rates = {"flop": 1e12 * spec.fp16_tensor, "bytes": 1e9 * spec.memory_gb_s}
            print(
                name,
                "a matmul of 8192³ at least",
                least({"flop": 2 * 8192.0**3, "bytes": 6 * 8192.0**2}, rates),
                "s",
            )
