"""Detective foundations-ex41: which clock was it?

captures/h200/measuring/record.json.xz, results. clocks_of_time holds four lists for one product
of matrices in float32. cache holds rates of a copy over the size of its array, with the same
buffers each time, and rotating.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

QUESTIONS = (
    Word(
        "not_timed",
        "the list that timed the launch, not the product",
        words=("host_without_wait_us", "host_with_wait_us", "events_us", "events_batch_of_10_us"),
    ),
    Number("tflops", "TFLOPS by the median of events_us", within=0.0003),
    Number("would_be", "TFLOPS by the median of the list that timed the launch", within=0.03),
    Number("best_gbps", "the highest rate with the same buffers each time", unit="GB/s", within=0.01),
    Word("from", "where those bytes came from", words=("the L2 cache", "DRAM", "the L1 cache", "the host")),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    import numpy as np

    from labcode.grading import opened

    results = opened.record("h200", "measuring", "record")["results"]
    times, cache = results["clocks_of_time"], results["cache"]

    def tflops(name: str) -> float:
        return float(times["flop"] / np.median(times[name]) / 1e6)

    launch = "host_without_wait_us"
    same = max(cache["same_buffers_gbps"])
    return Answers(
        {
            "not_timed": launch,
            "tflops": tflops("events_us"),
            "would_be": tflops(launch),
            "best_gbps": same,
            "from": "the L2 cache",
        },
        [
            Misreading(
                "it waits for the product: its median is within 1 % of the events'",
                {"not_timed": "host_with_wait_us"},
            ),
            Misreading(
                "events are recorded by the GPU, before and after the product", {"not_timed": "events_us"}
            ),
            Misreading(
                "ten products between two events, divided by ten", {"not_timed": "events_batch_of_10_us"}
            ),
            Misreading(
                "that is by events around ten products each", {"tflops": tflops("events_batch_of_10_us")}
            ),
            Misreading("that is by host_with_wait_us", {"tflops": tflops("host_with_wait_us")}),
            Misreading("that is by host_without_wait_us", {"tflops": tflops(launch)}),
            Misreading(
                "that is by the shortest; the median is asked for",
                {"would_be": float(times["flop"] / min(times[launch]) / 1e6)},
            ),
            Misreading(
                "that is the mean; the median is asked for",
                {"tflops": float(times["flop"] / np.mean(times["events_us"]) / 1e6)},
            ),
            Misreading(
                "that is the highest with rotating buffers", {"best_gbps": max(cache["rotating_gbps"])}
            ),
            Misreading("that is of the largest array", {"best_gbps": cache["same_buffers_gbps"][-1]}),
            Misreading("the memory has 4.8 TB/s at most", {"from": "DRAM"}),
            Misreading("the L1 is the multiprocessor's own, and holds 256 KB", {"from": "the L1 cache"}),
            Misreading("the link to the host is slower than the memory", {"from": "the host"}),
        ],
        ["a rate above the peak is no record: it is another measurement than was meant"],
    )
