"""Hidden cases of part a (alone, and hidden): a generator in, collectives, steps and buckets out."""

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator


def _sweeps(rng: Rng) -> dict[str, tuple[list[float], list[float], float]]:
    alpha, rate = float(rng.integers(5, 40)), float(rng.integers(100, 400))
    sizes = [float(2**power) for power in range(10, 31, 2)]

    def times(factor: float, noise: float) -> list[float]:
        exact = [alpha + factor * size / rate / 1e3 for size in sizes]
        return [time * float(1 + rng.uniform(-noise, noise)) for time in exact]

    return {
        "without noise": (sizes, times(1.0, 0.0), 1.0),
        "four GPUs": (sizes, times(1.5, 0.0), 1.5),
        "with noise": (sizes, times(1.0, 0.2), 1.0),
        "noise, another factor": (sizes, times(0.75, 0.3), 0.75),
        "two sizes": (sizes[::10], times(1.0, 0.0)[::10], 1.0),
    }


def _buckets(rng: Rng) -> dict[str, tuple[list[float], float, float, float, float]]:
    """Multiples of powers of two, so that equal limits are equal."""
    total = 128.0 * int(rng.integers(2, 6))
    return {
        "the smallest wins without latency": ([total, total / 4, total / 16], total, 64.0, 0.0, 128.0),
        "latency forbids the smallest": ([total / 4, total / 64, total / 256], total, 16.0, 500.0, 128.0),
        "one bucket only": ([total], total, 32.0, 50.0, 128.0),
        "a limit above all gradients": ([4 * total, total / 2], total, 32.0, 250.0, 128.0),
        "not a divisor": ([total / 3 + 1, total / 2.5], total, 32.0, 125.0, 64.0),
        "links slower than the pass": ([total, total / 2, total / 8], total, 1.0, 125.0, 16.0),
        "equal ones": ([total * 2, total, total * 4], total, 16.0, 125.0, 128.0),
        "many": ([total / k for k in (1, 2, 4, 8, 16, 32, 64, 128)], total, 8.0, 62.5, 256.0),
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    made = []
    size, time = float(2 ** int(rng.integers(20, 32))), float(rng.integers(100, 5000))
    for operation in ("all_reduce", "all_gather", "reduce_scatter"):
        for gpus in (2, 4, 8, 3):
            summary = f"{size:g} bytes in {time:g} µs"
            made.append(
                Case(f"{operation} on {gpus}", summary, "bus_gb_per_s", (operation, gpus, size, time))
            )
    for name, (sizes, times, factor) in _sweeps(rng).items():
        made.append(
            Case(name, f"{len(sizes)} sizes, factor {factor:g}", "alpha_beta", (sizes, times, factor))
        )
    alone, sent = float(rng.integers(20, 60)), float(rng.integers(3, 9))
    for name, added in {
        "nothing hidden": sent,
        "half": sent / 2,
        "all": 0.0,
        "less than nothing": 1.5 * sent,
        "a step that is shorter than alone": -0.25 * sent,
    }.items():
        given = (alone + added, alone, sent)
        summary = f"{given[0]:g} ms, {alone:g} ms without, {sent:g} ms alone"
        made.append(Case(name, summary, "exposed", given))
    for name, given in _buckets(rng).items():
        limits, total, backward, alpha, rate = given
        summary = (
            f"limits {', '.join(f'{limit:g}' for limit in limits)} of {total:g} MB, pass {backward:g} ms, "
            f"{alpha:g} µs, {rate:g} GB/s"
        )
        made.append(Case(name, summary, "best_bucket", given))
    return made
