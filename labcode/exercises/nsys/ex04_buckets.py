"""Hidden cases of nsys-ex04, part b (a model of gradient buckets): a generator in, cases out."""

from __future__ import annotations

import numpy as np

from labcode.exercises.cases import Case, Mistake, Task, duration
from labcode.exercises.nsys import expected

Rng = np.random.Generator
Layers = list[tuple[float, int]]
MIB = 1 << 20


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
    right = expected.buckets(layers, bucket_bytes)
    total = sum(backward for backward, _ in layers)
    sizes = [size for _, size in right]
    over = expected.buckets(layers, bucket_bytes + 1)
    return Case(
        name=name,
        summary=_summary(layers, f"bucket_bytes = {bucket_bytes}"),
        function="buckets",
        arguments=(layers, bucket_bytes),
        expected=right,
        mistakes=(
            Mistake(
                "what is left after the last layer is a bucket too",
                [b for b in right if b[1] >= bucket_bytes],
            ),
            Mistake("a bucket that is filled exactly is full: close it at bucket_bytes or more", over),
            Mistake(
                "a layer that does not fit is still added before the bucket is closed: close it after adding",
                _closed_before(layers, bucket_bytes),
            ),
            Mistake(
                "every bucket waits for the end of the pass: it is ready when its last gradient is",
                [(total, size) for size in sizes],
            ),
            Mistake(
                "each entry is (ready_ns, bytes), in this order", [(size, ready) for ready, size in right]
            ),
            Mistake(
                "ready_ns counts from the start of the pass, not from the bucket before", _since_last(right)
            ),
            Mistake(
                "the layers come in the order of the backward pass already: do not turn them round",
                expected.buckets(layers[::-1], bucket_bytes),
            ),
        ),
    )


def _closed_before(layers: Layers, bucket_bytes: int) -> list[tuple[float, int]]:
    closed, now, filled = [], 0.0, 0
    for backward, size in layers:
        if filled and filled + size > bucket_bytes:
            closed.append((now, filled))
            filled = 0
        now += backward
        filled += size
    return [*closed, (now, filled)]


def _since_last(buckets: list[tuple[float, int]]) -> list[tuple[float, int]]:
    readies = [0.0, *(ready for ready, _ in buckets)]
    return [(ready - before, size) for before, (ready, size) in zip(readies, buckets, strict=False)]


def _exposed_case(name: str, layers: Layers, bucket_bytes: int, latency: float, rate: float) -> Case:
    parts = expected.buckets(layers, bucket_bytes)
    total = sum(backward for backward, _ in layers)
    reductions = [latency + size / rate for _, size in parts]
    no_queue = max(ready + ns for (ready, _), ns in zip(parts, reductions, strict=True)) - total
    right = expected.exposed_ns(layers, bucket_bytes, latency, rate)
    return Case(
        name=name,
        summary=_summary(
            layers, f"bucket_bytes = {bucket_bytes}, latency_ns = {latency:g}, bytes_per_ns = {rate:g}"
        ),
        function="exposed_ns",
        arguments=(layers, bucket_bytes, latency, rate),
        expected=right,
        mistakes=(
            Mistake("nothing is hidden here: a bucket is reduced while the pass goes on", sum(reductions)),
            Mistake("collectives run one at a time: one begins when the one before is done", no_queue),
            Mistake(
                "this is when the last collective ends; subtract the end of the backward pass", right + total
            ),
            Mistake(
                "the latency is left out: every collective pays it",
                expected.exposed_ns(layers, bucket_bytes, 0.0, rate),
            ),
            Mistake(
                "the latency is paid once only: every collective pays it",
                _latency_once(layers, bucket_bytes, latency, rate),
            ),
            Mistake(
                "only the last bucket's own reduction is counted: it may have to wait for those before",
                reductions[-1],
            ),
            Mistake("a collective begins when its bucket is ready, not before", sum(reductions) - total),
        ),
        show=lambda value: f"{value:.6g} ({duration(value)})",
    )


def _latency_once(layers: Layers, bucket_bytes: int, latency: float, rate: float) -> float:
    free = 0.0
    for index, (ready, size) in enumerate(expected.buckets(layers, bucket_bytes)):
        free = max(free, ready) + (0.0 if index else latency) + size / rate
    return free - sum(backward for backward, _ in layers)


def _best_case(name: str, layers: Layers, candidates: list[int], latency: float, rate: float) -> Case:
    right = expected.best_bucket_bytes(layers, candidates, latency, rate)
    times = {size: expected.exposed_ns(layers, size, latency, rate) for size in candidates}
    tied = [size for size in candidates if times[size] == times[right] and size != right]
    worst = max(candidates, key=lambda size: times[size])
    return Case(
        name=name,
        summary=_summary(
            layers, f"candidates = {candidates}, latency_ns = {latency:g}, bytes_per_ns = {rate:g}"
        ),
        function="best_bucket_bytes",
        arguments=(layers, candidates, latency, rate),
        expected=right,
        mistakes=(
            *(Mistake("several are equally good: take the largest of them", size) for size in tied),
            Mistake("this is the candidate with the most exposed time", worst),
            *(
                Mistake(
                    f"{size} leaves {duration(ns)} exposed, {right} leaves {duration(times[right])}", size
                )
                for size, ns in times.items()
                if size not in (right, *tied)
            ),
        ),
    )


def _summary(layers: Layers, more: str) -> str:
    return f"layers = {layers if len(layers) <= 4 else f'{len(layers)} layers'}; {more}"


def _cases(rng: Rng) -> list[Case]:
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
    return [
        *(_buckets_case(*network) for network in networks),
        *(_exposed_case(name, layers, size, latency, rate) for name, layers, size in networks),
        *(
            _exposed_case(f"{name}, slow links", layers, size, latency, slow)
            for name, layers, size in networks
        ),
        *(_best_case(*choice) for choice in choices),
    ]


BUCKETS = Task(_cases)
