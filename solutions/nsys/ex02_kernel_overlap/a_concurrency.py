"""Exercise nsys-ex02, part a: how many kernels run at once?

Streams allow kernels to overlap; they do not make them. Before asking why, measure how much overlap there is.

`kernels` is a table with one row per kernel, in no particular order, with these columns among others:

    start_ns     when it started on the GPU, in ns
    end_ns       when it ended, in ns (a kernel no longer runs at its end_ns)
    pid          the process that launched it
    device       the GPU it ran on
    stream       the stream it was launched to; numbers are unique only within a process and device

A worked example, all on device 0:

    start_ns  end_ns  stream
          10      40       7
          20      60      13
          60      70       7

    time_at_least        ->  {0: [60, 20]}        60 ns with one kernel or more, 20 ns with two or more
    average_concurrency  ->  {0: 1.333…}          (30 + 40 + 10) / 60
    overlapping_streams  ->  {0: 2}

Grade it:         labcode exercises nsys-ex02a        (or: nox -s exercises -- nsys-ex02a)
Get a hint:       labcode exercises nsys-ex02a --hint
Try it yourself:  python exercises/nsys/ex02_kernel_overlap/a_concurrency.py   (on captures of the book)
"""

import pandas as pd


def time_at_least(kernels: pd.DataFrame) -> dict[int, list[int]]:
    """For each device: how long at least 1, at least 2, … kernels ran at once, in ns, up to the most that
    ever did.

    The first entry is the time with any kernel running; no entry is 0, and entries never grow.
    """
    # [solution]
    answer = {}
    for device, mine in kernels.groupby("device"):
        # At equal times ends (-1) come before starts (+1): kernels that touch do not overlap.
        events = sorted([(int(t), 1) for t in mine["start_ns"]] + [(int(t), -1) for t in mine["end_ns"]])
        exactly: dict[int, int] = {}
        running, since = 0, 0
        for time, change in events:
            exactly[running] = exactly.get(running, 0) + time - since
            running, since = running + change, time
        most = max((k for k, ns in exactly.items() if ns > 0 and k > 0), default=0)
        answer[int(device)] = [sum(exactly.get(j, 0) for j in range(k, most + 1)) for k in range(1, most + 1)]
    return answer
    # [starter]
    # raise NotImplementedError("walk along the starts and ends in order of time and count how many run")
    # [end]


def average_concurrency(kernels: pd.DataFrame) -> dict[int, float]:
    """For each device: how many kernels run on average while any runs, so 1.0 when they never overlap."""
    # [solution]
    durations = (kernels["end_ns"] - kernels["start_ns"]).groupby(kernels["device"]).sum()
    return {device: float(durations[device]) / times[0] for device, times in time_at_least(kernels).items()}
    # [starter]
    # raise NotImplementedError("the sum of the durations over the time with any kernel running")
    # [end]


def overlapping_streams(kernels: pd.DataFrame) -> dict[int, int]:
    """For each device: how many streams have a kernel that overlaps a kernel of another stream of that
    device.

    Streams of different processes are different streams, even with the same number. Kernels that only touch
    do not overlap.
    """
    # [solution]
    answer = {}
    for device, mine in kernels.groupby("device"):
        rows = sorted(
            zip(mine["start_ns"], mine["end_ns"], zip(mine["pid"], mine["stream"], strict=True), strict=True)
        )
        involved: set[tuple[int, int]] = set()
        running: list[tuple[int, tuple[int, int]]] = []
        for start, end, stream in rows:
            running = [(stop, other) for stop, other in running if stop > start]
            for _, other in running:
                if other != stream:
                    involved |= {other, stream}
            if end > start:
                running.append((end, stream))
        answer[int(device)] = len(involved)
    return answer
    # [starter]
    # raise NotImplementedError("a stream is a process and a number")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    for run in ("stream", "streams", "graph"):
        table = open_report(load_set().path_of("kernel_overlap", run)).kernels()
        print(
            f"{run}: average {average_concurrency(table)}, streams that overlap {overlapping_streams(table)}"
        )
        for device, times in time_at_least(table).items():
            print(
                f"  device {device}: "
                + ", ".join(f"≥{k}: {ns / 1e6:.3f} ms" for k, ns in enumerate(times, start=1))
            )
