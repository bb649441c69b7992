"""Exercise scaling-ex02, part a: efficiency, a law, a deadline.

    times    {number of GPUs: time of a step in ms}, with 1 among them

`scaling(times, kind)`: {number: (speed-up, efficiency)} for 'strong' scaling (all GPUs together have the same
work whatever their number) or 'weak' scaling (each has), relative to one GPU.

`drops_at(times, kind, least)`: the smallest number of GPUs whose efficiency is below `least`; None if none
is.

`serial_share(times)`: σ of Amdahl's law for strong scaling, S(n) = 1 / (σ + (1 − σ) / n), by least squares of
its linear form 1/S − 1/n = σ · (1 − 1/n) over all numbers above 1; never below 0 or above 1.

`gpus_for(times, deadline_ms, most)`: the fewest GPUs, at most `most`, on which a step takes no longer than
the deadline by Amdahl's law with that σ; None if that many are not enough.

A worked example: times {1: 80, 2: 50, 4: 40}, strong

    scaling    -> {1: (1.0, 1.0), 2: (1.6, 0.8), 4: (2.0, 0.5)}
    drops_at with least 0.75                                     -> 4
    x = 1/2, 3/4 and y = 1/1.6 - 1/2, 1/2 - 1/4: serial_share    -> 0.3077 (= 0.25 / 0.8125)

Grade it:         labcode exercises scaling-ex02a        (or: nox -s exercises -- scaling-ex02a)
Get a hint:       labcode exercises scaling-ex02a --hint
"""


def scaling(times: dict[int, float], kind: str) -> dict[int, tuple[float, float]]:
    """Speed-up and efficiency of each number of GPUs."""
    # [solution]
    found = {}
    for count, time in times.items():
        speedup = times[1] / time * (count if kind == "weak" else 1)
        found[count] = (speedup, speedup / count)
    return found
    # [starter]
    # raise NotImplementedError("work done by time, against one GPU")
    # [end]


def drops_at(times: dict[int, float], kind: str, least: float) -> int | None:
    """The smallest number of GPUs whose efficiency is too low."""
    # [solution]
    low = [count for count, (_, efficiency) in scaling(times, kind).items() if efficiency < least]
    return min(low, default=None)
    # [starter]
    # raise NotImplementedError("of the numbers below the bound the smallest")
    # [end]


def serial_share(times: dict[int, float]) -> float:
    """Amdahl's serial share by least squares."""
    # [solution]
    xy = xx = 0.0
    for count, (speedup, _) in scaling(times, "strong").items():
        x = 1 - 1 / count
        xy += x * (1 / speedup - 1 / count)
        xx += x * x
    return min(max(xy / xx, 0.0), 1.0)
    # [starter]
    # raise NotImplementedError("sum of x·y by sum of x·x")
    # [end]


def gpus_for(times: dict[int, float], deadline_ms: float, most: int) -> int | None:
    """The fewest GPUs by Amdahl's law on which a step is in time."""
    # [solution]
    serial = serial_share(times)
    for count in range(1, most + 1):
        if times[1] * (serial + (1 - serial) / count) <= deadline_ms:
            return count
    return None
    # [starter]
    # raise NotImplementedError("the law for 1, 2, 3 … GPUs; the first that is in time")
    # [end]


if __name__ == "__main__":
    from statistics import median

    from labcode.store import load_set

    for kind in ("strong", "weak"):
        cases = load_set().record("scaling_training", kind)["results"]["cases"]
        whole = max(case["batch"] for case in cases)
        times = {
            case["count"]: median(case["step_ms"])
            for case in cases
            if case["strategy"] == "bucketed" or (case["strategy"], case["batch"]) == ("single", whole)
        }
        print(f"{kind}, in buckets:", {n: f"{e:.1%}" for n, (_, e) in scaling(times, kind).items()})
        if kind == "strong":
            print("serial share:", round(serial_share(times), 3))
            print("GPUs for half of the step of one:", gpus_for(times, times[1] / 2, 64))
