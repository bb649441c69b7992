"""Hidden cases of part b (a model of gradient buckets): a generator in, cases out."""

import numpy as np

from labcode.grading.cases import Case, duration

Rng = np.random.Generator
Layers = list[tuple[float, int]]
MIB = 1 << 20
_ORDER = ["buckets", "exposed_ns", "best_bucket_bytes"]


def _networks(rng: Rng) -> list[tuple[str, Layers, int]]:
    def layers(count: int) -> Layers:
        return [
            (float(rng.integers(50, 900)) * 1e3, int(rng.integers(1, 48)) * MIB + int(rng.integers(0, 999)))
            for _ in range(count)
        ]

    even = [(4e5, 16 * MIB)] * int(rng.integers(6, 11))
    some = layers(int(rng.integers(5, 9)))
    first_two = some[0][1] + some[1][1]
    return [
        ("a bucket for each layer", some, 1),
        ("one bucket for all", some, sum(size for _, size in some) + 1),
        ("two layers fill a bucket exactly", even, 32 * MIB),
        ("the first bucket is filled exactly", some, first_two),
        (
            "three equal layers a bucket, some left over",
            [*even, (3e5, 16 * MIB)] if len(even) % 3 == 2 else even,
            48 * MIB,
        ),
        (
            "layers of very different sizes",
            layers(int(rng.integers(15, 30))),
            int(rng.integers(20, 90)) * MIB,
        ),
    ]


def _buckets_case(name: str, layers: Layers, bucket_bytes: int) -> Case:
    summary = _summary(layers, f"bucket_bytes = {bucket_bytes}")
    return Case(name, summary, "buckets", (layers, bucket_bytes))


def _exposed_case(name: str, layers: Layers, bucket_bytes: int, latency: float, rate: float) -> Case:
    more = f"bucket_bytes = {bucket_bytes}, latency_ns = {latency:g}, bytes_per_ns = {rate:g}"
    arguments = layers, bucket_bytes, latency, rate
    return Case(name, _summary(layers, more), "exposed_ns", arguments, show=_shown_time)


def _shown_time(value: float) -> str:
    return f"{value:.6g} ({duration(value)})"


def _best_case(name: str, layers: Layers, candidates: list[int], latency: float, rate: float) -> Case:
    more = f"candidates = {candidates}, latency_ns = {latency:g}, bytes_per_ns = {rate:g}"
    return Case(name, _summary(layers, more), "best_bucket_bytes", (layers, candidates, latency, rate))


def _summary(layers: Layers, more: str) -> str:
    return f"layers = {layers if len(layers) <= 4 else f'{len(layers)} layers'}; {more}"


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    networks = _networks(rng)
    latency, rate = float(rng.integers(10, 60)) * 1e3, float(rng.integers(80, 400))
    slow = rate / 40  # the network is the limit: collectives queue up
    candidates = [1, 8 * MIB, 25 * MIB, 64 * MIB, 10**12]
    even, last = networks[2][1], networks[-1][1]
    choices = [
        ("fast links", last, candidates, latency, rate),
        ("slow links", last, candidates, latency, slow),
        ("a large latency", last, candidates, latency * 100, rate),
        ("several candidates give the same buckets", even, [20 * MIB, 30 * MIB, 32 * MIB], latency, rate),
    ]
    small = [(0.0, 400), *((float(rng.integers(90, 110)), int(rng.integers(200, 400))) for _ in range(5))]
    found = [
        _buckets_case("small layers, the first of which takes no time", small, 500),
        _exposed_case("small layers, the first of which takes no time", small, 400, 30.0, 1.0),
        *(_buckets_case(*network) for network in networks),
        *(_exposed_case(name, layers, size, latency, rate) for name, layers, size in networks),
        *(
            _exposed_case(f"{name}, slow links", layers, size, latency, slow)
            for name, layers, size in networks
        ),
        *(_best_case(*choice) for choice in choices),
    ]
    return sorted(found, key=lambda case: _ORDER.index(case.function))
