"""Exercise nsys-ex04, part b: how large should a gradient bucket be? A model to decide with.

The backward pass produces the gradients of one layer after another, the last layer first. They are collected
in buckets, and a bucket is reduced across GPUs while the pass goes on. Small buckets start early, but each
pays the latency of a collective; one large bucket pays it once, but starts when the pass is over.

The model, with times in ns:

  * `layers` is a list of `(backward_ns, gradient_bytes)` in the order in which the backward pass goes through
    them. A layer's gradient is there when its backward step ends; the steps follow one another without gaps,
    from time 0.
  * Gradients join the open bucket in that order. When the bucket holds `bucket_bytes` or more, it is closed.
    What is left after the last layer is the last bucket. (A layer is never split.)
  * A bucket is ready when its last gradient is. Reducing it takes `latency_ns + bytes / bytes_per_ns`.
  * Collectives run one at a time, in the order of their buckets, each as soon as its bucket is ready and the
    one before is done.

A worked example: layers = [(100, 400), (100, 400), (100, 200)], 10 bytes per ns, latency 30 ns.

    buckets(layers, 500)                          ->  [(200, 800), (300, 200)]        (ready_ns, bytes)
    exposed_ns(layers, 500, 30, 10.0)             ->  60.0
    exposed_ns(layers, 10_000, 30, 10.0)          ->  130.0    (one bucket: nothing is hidden)
    best_bucket_bytes(layers, [500, 10_000], 30, 10.0)  ->  500

The 60.0: the pass ends at 300. The first bucket is reduced from 200 to 200 + 30 + 80 = 310, the second until
310 + 30 + 20 = 360.

Grade it:         labcode exercises nsys-ex04b        (or: nox -s exercises -- nsys-ex04b)
Get a hint:       labcode exercises nsys-ex04b --hint
Try it yourself:  python exercises/nsys/ex04_multi_gpu_timeline/b_buckets.py
"""

Layer = tuple[float, int]


def buckets(layers: list[Layer], bucket_bytes: int) -> list[tuple[float, int]]:
    """The buckets in order, each `(ready_ns, bytes)`."""
    raise NotImplementedError("add to the open bucket, close it when it is full; mind the last one")


def exposed_ns(layers: list[Layer], bucket_bytes: int, latency_ns: float, bytes_per_ns: float) -> float:
    """How long the last collective goes on after the backward pass has ended."""
    raise NotImplementedError("a collective begins when its bucket is ready and the one before is done")


def best_bucket_bytes(
    layers: list[Layer], candidates: list[int], latency_ns: float, bytes_per_ns: float
) -> int:
    """The candidate with the least exposed time; of equally good ones the largest."""
    raise NotImplementedError("try them all")


if __name__ == "__main__":
    network = [(400_000.0, 32 << 20)] * 24  # 24 layers of 32 MiB, 0.4 ms each
    sizes = [1 << 20, 25 << 20, 64 << 20, 256 << 20, 1 << 30]
    for bucket in sizes:
        print(f"{bucket >> 20:5d} MiB: {exposed_ns(network, bucket, 20_000.0, 150.0) / 1e6:8.3f} ms exposed")
    print("best:", best_bucket_bytes(network, sizes, 20_000.0, 150.0) >> 20, "MiB")
