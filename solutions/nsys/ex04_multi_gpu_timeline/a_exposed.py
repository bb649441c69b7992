"""Exercise nsys-ex04, part a: how much communication is exposed, and who keeps the others waiting?

Data-parallel training adds the gradients of all GPUs up with collectives (NCCL kernels). A collective costs
nothing while the same GPU computes; what is left over is exposed. And a collective cannot begin its work
before the last GPU has joined: the others sit inside of their kernel and wait.

`kernels` is a table with one row per kernel, in no particular order, of all GPUs and processes:

    start_ns, end_ns     when it ran, in ns; all GPUs are on one clock
    pid, device          the process (rank) and the GPU
    stream               the stream it was launched to
    name                 its full name; NCCL's kernels have 'nccl' in it, in upper or lower case:
                         'ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)' now, 'ncclKernel_…' in older versions

A worked example, two GPUs:

    start_ns  end_ns  device  name                         start_ns  end_ns  device  name
           0     100       0  gemm                                0     140       1  gemm
          60     180       0  ncclDevKernel_AllReduce…          140     180       1  ncclDevKernel_AllReduce…

    communication(kernels)  ->  {0: (120, 80), 1: (40, 40)}     (with a collective, with nothing else)
    lateness_ns(kernels)    ->  {0: 0, 1: 80}
    straggler(kernels)      ->  1          (device 0 has the longer collective: it waits for device 1)

Grade it:         labcode exercises nsys-ex04a        (or: nox -s exercises -- nsys-ex04a)
Get a hint:       labcode exercises nsys-ex04a --hint
Try it yourself:  python exercises/nsys/ex04_multi_gpu_timeline/a_exposed.py   (on captures of the book)
"""

import pandas as pd


def communication(kernels: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """For each device: `(communication_ns, exposed_ns)`.

    communication_ns is the time in which at least one collective runs on the device; exposed_ns is the part
    of it in which no other kernel runs on the same device. A device without collectives has (0, 0).
    """
    # [solution]
    answer = {}
    for device, mine in kernels.groupby("device"):
        collective = mine["name"].str.contains("nccl", case=False)
        talk, compute = _merged(mine[collective]), _merged(mine[~collective])
        total = sum(end - start for start, end in talk)
        beside = [(a, b) for a in talk for b in compute if a[0] < b[1] and b[0] < a[1]]
        hidden = sum(min(a[1], b[1]) - max(a[0], b[0]) for a, b in beside)
        answer[int(device)] = (total, total - hidden)
    return answer
    # [starter]
    # raise NotImplementedError("the union of the collectives, minus the union of all other kernels")
    # [end]


def lateness_ns(kernels: pd.DataFrame) -> dict[int, int]:
    """For each device with collectives: by how much, in all, it joined its collectives later than the first
    device did.

    Every device takes part in every collective, in the same order: the n-th collective of one device (by
    start) belongs to the n-th of every other. Lateness in one collective is the device's start minus the
    earliest start of that collective; it is added up over all collectives. Devices that have more collectives
    than others (a capture may be cut) count with the first ones only.
    """
    # [solution]
    mine = kernels[kernels["name"].str.contains("nccl", case=False)].sort_values("start_ns")
    starts = {int(device): rows["start_ns"].tolist() for device, rows in mine.groupby("device")}
    late = dict.fromkeys(starts, 0)
    for joined in zip(*starts.values(), strict=False):
        for device, start in zip(starts, joined, strict=True):
            late[device] += start - min(joined)
    return late
    # [starter]
    # raise NotImplementedError("line up the n-th collective of every device, subtract the earliest start")
    # [end]


def straggler(kernels: pd.DataFrame) -> int:
    """The device with the largest lateness in all; the lowest number if several have it."""
    # [solution]
    late = lateness_ns(kernels)
    return min(late, key=lambda device: (-late[device], device))
    # [starter]
    # raise NotImplementedError("the device that comes last, which is not the one that waits longest")
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

    for run in ("baseline", "improved"):
        table = open_report(load_set().path_of("multi_gpu", run)).kernels()
        print(run)
        late = lateness_ns(table)
        for device, (total, exposed) in communication(table).items():
            print(
                f"  device {device}: {total / 1e6:.2f} ms of communication, {exposed / 1e6:.2f} ms exposed, "
                f"{late.get(device, 0) / 1e6:.2f} ms late in all"
            )
        print(f"  the others wait most for device {straggler(table)}")
