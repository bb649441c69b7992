"""Exercise nsys-ex03, part a: how fast are the copies, and how much of their time is hidden behind kernels?

`memcpys` is a table with one row per copy, in no particular order:

    start_ns, end_ns      when it ran on the GPU, in ns
    device, stream, pid   where it ran, who launched it
    bytes                 how many bytes it moved
    copy_kind             'H2D' (host to device), 'D2H' (device to host), 'D2D', 'P2P', …
    src_kind, dst_kind    the memory it read and wrote: 'pageable', 'pinned', 'device', 'managed'

`ops` is a table of all GPU operations: kind ('kernel', 'memcpy', 'memset', 'graph'), start_ns, end_ns,
device, stream, pid.

GB is 10⁹ bytes. A rate over several copies is all their bytes over all their time: long copies weigh more
than short ones.

A worked example:

    start_ns    end_ns     bytes  copy_kind  src_kind  dst_kind
           0   100_000 1_000_000  H2D        pageable  device
     100_000   300_000 9_000_000  H2D        pinned    device
     400_000   600_000 8_000_000  D2H        device    pinned

    achieved_gb_per_s  ->  {('H2D', 'pageable'): 10.0, ('H2D', 'pinned'): 45.0, ('D2H', 'pinned'): 40.0}

With a kernel that runs on the same device from 250_000 to 450_000 as well:

    hidden_copy_share  ->  {0: 0.2}        100_000 of 500_000 ns of copying

Grade it:         labcode exercises nsys-ex03a        (or: nox -s exercises -- nsys-ex03a)
Get a hint:       labcode exercises nsys-ex03a --hint
Try it yourself:  python exercises/nsys/ex03_memory_timeline/a_transfers.py     (runs on captures of the book)
"""

import pandas as pd


def achieved_gb_per_s(memcpys: pd.DataFrame) -> dict[tuple[str, str], float]:
    """The rate of the copies between host and device, in GB/s, by direction and kind of host memory.

    Keys are `(copy_kind, kind of the host's memory)` with copy_kind 'H2D' or 'D2H': the host's memory is the
    source of an H2D copy and the destination of a D2H copy. Other copies are left out. A key appears when
    there is at least one such copy.
    """
    # [solution]
    totals: dict[tuple[str, str], list[int]] = {}
    for copy in memcpys.itertuples():
        if copy.copy_kind not in ("H2D", "D2H"):
            continue
        host = copy.src_kind if copy.copy_kind == "H2D" else copy.dst_kind
        total = totals.setdefault((copy.copy_kind, host), [0, 0])
        total[0] += copy.bytes
        total[1] += copy.end_ns - copy.start_ns
    return {key: size / ns for key, (size, ns) in totals.items()}  # bytes per ns are GB per s
    # [starter]
    # raise NotImplementedError("add up bytes and time for each key, then divide")
    # [end]


def hidden_copy_share(ops: pd.DataFrame) -> dict[int, float]:
    """For each device that copies: the share of its copying time during which a kernel runs on the same
    device.

    Copying time is time in which at least one copy of the device runs (two directions at once count once),
    and kernels that overlap one another count once too.
    """
    # [solution]
    shares = {}
    for device, mine in ops.groupby("device"):
        copies, kernels = _merged(mine[mine["kind"] == "memcpy"]), _merged(mine[mine["kind"] == "kernel"])
        copying = sum(end - start for start, end in copies)
        if not copying:
            continue
        both = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in copies for b in kernels)
        shares[int(device)] = both / copying
    return shares
    # [starter]
    # raise NotImplementedError("merge the copies, merge the kernels, intersect the two")
    # [end]


# [solution]
def _merged(ops: pd.DataFrame) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(zip(ops["start_ns"].tolist(), ops["end_ns"].tolist(), strict=True)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


# [end]
if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    for run in ("pageable", "pinned", "pipelined"):
        report = open_report(load_set().path_of("memory_timeline", run))
        print(f"{run}: hidden {hidden_copy_share(report.gpu_ops())}")
        for (direction, memory), rate in achieved_gb_per_s(report.memcpys()).items():
            print(f"  {direction} {memory}: {rate:.1f} GB/s")
