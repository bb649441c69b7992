"""Exercise energy-ex05, part a: what a slower clock costs and saves, on paper.

    kernels   a list of (seconds, limit, still, moving): how long a kernel takes at the full clock; 'compute',
              'memory' or 'host'; and its watts at the full clock: `still`, which is drawn at any clock, and
              `moving`, which goes with the cube of the clock, as the voltage falls with it
    clock     a fraction φ of the full clock, above 0 and at most 1

`seconds(kernels, clock)`: what all of them take at this clock: what computes takes 1 / φ times as long, what
waits for memory or for the host as long as before.

`joules(kernels, clock)`: their energy: each one's time at this clock, times its watts there, which are
still + moving · φ³.

`best(kernels, clocks, slower)`: of some clocks the one with the least energy among those with which all takes
at most 1 + slower times as long as at the full clock; of equal ones the highest. None if there is none.

A worked example: kernels = [(2.0, 'compute', 100.0, 400.0), (1.0, 'memory', 100.0, 200.0)], clock 0.5:

    seconds(kernels, 0.5)             ->  5.0         4 s and 1 s
    joules(kernels, 0.5)              ->  725.0       4 s · 150 W + 1 s · 125 W; at the full clock 1300
    best(kernels, [1.0, 0.5], 0.5)    ->  1.0         at 0.5 it takes 5 s, and 4.5 are allowed

Grade it:         labcode exercises energy-ex05a        (or: nox -s exercises -- energy-ex05a)
Get a hint:       labcode exercises energy-ex05a --hint
"""

Kernel = tuple[float, str, float, float]


def seconds(kernels: list[Kernel], clock: float) -> float:
    """What kernels take at a clock."""
    # [solution]
    return float(sum(_longer(time, limit, clock) for time, limit, _, _ in kernels))
    # [starter]
    # raise NotImplementedError("only what computes takes longer")
    # [end]


def joules(kernels: list[Kernel], clock: float) -> float:
    """What they use at a clock."""
    # [solution]
    return float(
        sum(
            _longer(time, limit, clock) * (still + moving * clock**3)
            for time, limit, still, moving in kernels
        )
    )
    # [starter]
    # raise NotImplementedError("time at this clock, times watts at this clock")
    # [end]


def best(kernels: list[Kernel], clocks: list[float], slower: float) -> float | None:
    """The clock with the least energy that is fast enough."""
    # [solution]
    most = (1 + slower) * seconds(kernels, 1.0)
    fit = sorted((clock for clock in clocks if seconds(kernels, clock) <= most), reverse=True)
    return min(fit, key=lambda clock: joules(kernels, clock), default=None)
    # [starter]
    # raise NotImplementedError("drop what is too slow, then take the least energy")
    # [end]


# [solution]
def _longer(time: float, limit: str, clock: float) -> float:
    """What a kernel takes at a clock."""
    return time / clock if limit == "compute" else time


# [end]
if __name__ == "__main__":
    example = [(2.0, "compute", 100.0, 400.0), (1.0, "memory", 100.0, 200.0)]
    for clock in (1.0, 0.9, 0.7, 0.5):
        print(f"{clock:.0%} of the clock: {seconds(example, clock):.2f} s, {joules(example, clock):.0f} J")
