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
    raise NotImplementedError("the union of the collectives, minus the union of all other kernels")


def lateness_ns(kernels: pd.DataFrame) -> dict[int, int]:
    """For each device with collectives: by how much, in all, it joined its collectives later than the first
    device did.

    Every device takes part in every collective, in the same order: the n-th collective of one device (by
    start) belongs to the n-th of every other. Lateness in one collective is the device's start minus the
    earliest start of that collective; it is added up over all collectives. Devices that have more collectives
    than others (a capture may be cut) count with the first ones only.
    """
    raise NotImplementedError("line up the n-th collective of every device, subtract the earliest start")


def straggler(kernels: pd.DataFrame) -> int:
    """The device with the largest lateness in all; the lowest number if several have it."""
    raise NotImplementedError("the device that comes last, which is not the one that waits longest")


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
