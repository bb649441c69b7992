"""Exercise serving-ex31, part a: how much time kernels lose against the memory's roof.

    launches   kernel, duration_ns, dram_bytes: a row for each launch, by Nsight Compute; a kernel may be
               launched several times
    peak       the bandwidth in GB/s that a kernel that only reads reached on this GPU

`rates(launches)`: {kernel: GB/s}: bytes of all its launches over their time.

`lost_us(launches, peak)`: {kernel: µs}: the time of all its launches beyond what their bytes take at the
peak; 0 for a kernel that is faster than that.

`work_on(launches, peak)`: the kernel that loses most; of equal ones the first by name. None without launches.

A worked example, peak 2: a kernel 'a' with two launches of 1,000 ns and 500 bytes each has a rate of 0.5 GB/s
and loses 2,000 − 1,000 / 2 = 1,500 ns, that is 1.5 µs.

Grade it:         labcode exercises serving-ex31a        (or: nox -s exercises -- serving-ex31a)
Get a hint:       labcode exercises serving-ex31a --hint
"""

import pandas as pd


def rates(launches: pd.DataFrame) -> dict[str, float]:
    """GB/s of each kernel."""
    # [solution]
    whole = launches.groupby("kernel")[["duration_ns", "dram_bytes"]].sum()
    return {str(name): float(row["dram_bytes"] / row["duration_ns"]) for name, row in whole.iterrows()}
    # [starter]
    # raise NotImplementedError("bytes of all launches over their time")
    # [end]


def lost_us(launches: pd.DataFrame, peak: float) -> dict[str, float]:
    """Microseconds of each kernel beyond the roof."""
    # [solution]
    whole = launches.groupby("kernel")[["duration_ns", "dram_bytes"]].sum()
    over = (whole["duration_ns"] - whole["dram_bytes"] / peak).clip(lower=0) / 1e3
    return {str(name): float(value) for name, value in over.items()}
    # [starter]
    # raise NotImplementedError("duration minus bytes at the peak")
    # [end]


def work_on(launches: pd.DataFrame, peak: float) -> str | None:
    """The kernel that loses most."""
    # [solution]
    lost = lost_us(launches, peak)
    return max(lost, key=lambda name: lost[name]) if lost else None
    # [starter]
    # raise NotImplementedError("most lost time, not the lowest rate")
    # [end]


if __name__ == "__main__":
    example = pd.DataFrame({"kernel": ["a", "a"], "duration_ns": [1000, 1000], "dram_bytes": [500, 500]})
    print("GB/s:", rates(example), "lost:", lost_us(example, 2.0))
    print("work on:", work_on(example, 2.0))
