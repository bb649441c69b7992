"""Exercise nsys-ex02, part b: why did these kernels not overlap?

A kernel can start when three things have come true: its launch has reached the GPU, the kernel before it on
its stream has ended, and the GPU has room for it. The one that came true last is what it waited for.

    launch    the CPU: nothing else stood in the way, the launch just came late
    stream    the kernel before it on its stream
    room      something else: other kernels filled the GPU (or an event made the stream wait)

Two tables come in. All times are in ns and on one clock; rows are in no particular order.

    kernels    start_ns, end_ns, pid, device, stream, correlation
    api        start_ns, end_ns, pid, tid, correlation, name

The call that launched a kernel has its pid and its correlation.
Streams are unique only within a process and device. Kernels whose launch was not recorded (the nodes of a
CUDA graph, for instance) are left out of every count, but they do keep their stream and the GPU busy.

A worked example, all of one process and one device:

    kernels  start_ns  end_ns  stream  correlation        api  start_ns  end_ns  correlation
                   20      50       7            1                   10      15            1
                   52      90       7            2                   16      22            2
                  120     140       7            3                  105     112            3

    launch_bound_share(kernels, api)       ->  {0: 0.5}     (of kernels 2 and 3, kernel 3 found the GPU empty)
    waited_for(kernels, api, slack_ns=10)  ->  {'launch': 2, 'stream': 1, 'room': 0}
    diagnose(kernels, api)                 ->  'launch'

Grade it:         labcode exercises nsys-ex02b        (or: nox -s exercises -- nsys-ex02b)
Get a hint:       labcode exercises nsys-ex02b --hint
Try it yourself:  python exercises/nsys/ex02_kernel_overlap/b_waiting.py     (runs on captures of the book)
"""

import pandas as pd


def with_launches(kernels: pd.DataFrame, api: pd.DataFrame) -> pd.DataFrame:
    """The kernels in order of their start, with a new column `launched_ns`.

    It says when the launching call returned, and is `<NA>` where that is unknown.
    """
    # [solution]
    calls = api[["pid", "correlation", "end_ns"]].rename(columns={"end_ns": "launched_ns"})
    calls = calls.astype({"launched_ns": "Int64"}).drop_duplicates(["pid", "correlation"])
    return (
        kernels.merge(calls, on=["pid", "correlation"], how="left")
        .sort_values("start_ns")
        .reset_index(drop=True)
    )
    # [starter]
    # raise NotImplementedError("merge on pid and correlation; keep the kernels without a call")
    # [end]


def launch_bound_share(kernels: pd.DataFrame, api: pd.DataFrame) -> dict[int, float]:
    """For each device: of the kernels with a known launch, the share that found the GPU empty when its launch
    returned.

    Empty means: every kernel of the device that started earlier had ended at or before `launched_ns`. The
    first kernel of a device always finds it empty and says nothing, so it is left out; a device without any
    other known kernel gets 0.0.
    """
    # [solution]
    shares = {}
    for device, mine in with_launches(kernels, api).groupby("device"):
        others_until = mine["end_ns"].cummax().shift(1)
        known = mine["launched_ns"].notna() & others_until.notna()
        found_empty = others_until[known] <= mine["launched_ns"][known].astype("int64")
        shares[int(device)] = float(found_empty.mean()) if known.any() else 0.0
    return shares
    # [starter]
    # raise NotImplementedError("compare launched_ns with the latest end of all kernels before")
    # [end]


def waited_for(kernels: pd.DataFrame, api: pd.DataFrame, slack_ns: int) -> dict[str, int]:
    """How many kernels with a known launch waited for what: always the keys 'launch', 'stream' and 'room'.

    Let `launched` be when the launching call returned and `freed` the latest end of the kernels that started
    before it on the same stream (minus infinity if there are none). A kernel that started more than
    `slack_ns` after both of them waited for room. Otherwise it waited for the stream if `freed > launched`,
    and for the launch if not.
    """
    # [solution]
    counts = {"launch": 0, "stream": 0, "room": 0}
    freed: dict[tuple[int, ...], float] = {}
    for kernel in with_launches(kernels, api).itertuples():
        stream = kernel.pid, kernel.device, kernel.stream
        before = freed.get(stream, float("-inf"))
        if not pd.isna(kernel.launched_ns):
            if kernel.start_ns > max(kernel.launched_ns, before) + slack_ns:
                counts["room"] += 1
            else:
                counts["stream" if before > kernel.launched_ns else "launch"] += 1
        freed[stream] = max(before, kernel.end_ns)
    return counts
    # [starter]
    # raise NotImplementedError("for each stream, walk along its kernels and remember the latest end")
    # [end]


def diagnose(kernels: pd.DataFrame, api: pd.DataFrame) -> str:
    """The most frequent entry of `waited_for` with 20 µs of slack; 'unknown' if no launch is known."""
    # [solution]
    counts = waited_for(kernels, api, slack_ns=20_000)
    return max(counts, key=lambda reason: counts[reason]) if any(counts.values()) else "unknown"
    # [starter]
    # raise NotImplementedError("the key of waited_for with the largest count")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    for run in ("stream", "streams", "tiny_stream"):
        report = open_report(load_set().path_of("kernel_overlap", run))
        tables = report.kernels(), report.api()
        print(
            f"{run}: launch-bound {launch_bound_share(*tables)}, {waited_for(*tables, 20_000)} -> "
            f"{diagnose(*tables)}"
        )
