"""Exercise serving-ex36, part a: two pools of GPUs, and the cache that travels between them.

`cache_bytes(tokens, layers, heads, width, each)`: the bytes of the KV cache of a prompt: for each token,
layer, and key-value head a key and a value of `width` elements of `each` bytes.

`pools(requests, prompt, answer, reads, writes)`: (prefill, decode): the fewest GPUs that keep up with
`requests` per second, of `prompt` tokens to read and `answer` tokens to write. A GPU of the first pool reads
`reads` tokens per second, one of the second writes `writes`. At least one each.

`exposed(prefill_s, bytes_, link, layers)`: how long a request waits for its cache after the prefill, in s.
`link` is in bytes per second. A layer's part of the cache is sent as soon as that layer is done, one after
the other; layers take equally long, and have equal parts.

A worked example: cache_bytes(10, 2, 4, 8, 2) is 2560: 10 · 2 · 4 keys and as many values, of 16 bytes.
pools(3.0, 1000, 100, 2000.0, 400.0) is (2, 1): 3,000 tokens per second to read, 300 to write.
exposed(1.0, 50.0, 100.0, 2) is 0.25: the parts take 0.25 s each, and are sent from 0.5 s and from 1.0 s on.

Grade it:         labcode exercises serving-ex36a        (or: nox -s exercises -- serving-ex36a)
Get a hint:       labcode exercises serving-ex36a --hint
"""

import math


def cache_bytes(tokens: int, layers: int, heads: int, width: int, each: int) -> int:
    """The bytes of a prompt's cache."""
    raise NotImplementedError("keys and values")


def pools(requests: float, prompt: int, answer: int, reads: float, writes: float) -> tuple[int, int]:
    """The GPUs of both phases."""
    raise NotImplementedError("tokens that come over tokens that a GPU handles")


def exposed(prefill_s: float, bytes_: float, link: float, layers: int) -> float:
    """What a request waits for its cache, in s."""
    raise NotImplementedError("each part begins when its layer is done and the part before is sent")


if __name__ == "__main__":
    cache = cache_bytes(4096, 32, 8, 128, 2)
    print("a cache of 4,096 tokens:", cache, "bytes")
    for name, link in (("50 GB/s", 50e9), ("12.5 GB/s", 12.5e9)):
        print(f"over {name}: exposed {1e3 * exposed(0.15, cache, link, 32):.1f} ms")
