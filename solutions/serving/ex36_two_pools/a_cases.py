"""Hidden cases of part a (two pools): a generator in, models, loads, and links out; sums that are exact."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Each function in turn."""

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    made = [
        Case("a model", "{} tokens, {} layers, {} heads, {} wide, {} bytes each".format(*a), "cache_bytes", a)
        for a in (
            (some(100, 9000), some(3, 80), some(2, 9), 64, 4),
            (some(100, 9000), some(3, 80), 8, some(3, 12) * 16, 1),
            (0, 32, 8, 128, 2),
        )
    ]
    rate = 64.0 * some(4, 60)
    loads = {
        "just enough": (4.0, int(rate), int(rate) // 4, 2 * rate, rate / 2),
        "a little more than two GPUs": (4.0, int(rate) + 1, int(rate) // 4 + 1, 2 * rate, rate / 2),
        "hardly any": (0.5, some(2, 90), some(2, 90), 1e6, 1e5),
        "long prompts": (some(3, 9) / 1.0, some(4000, 9000), some(20, 90), 2000.0, 1000.0),
        "long answers": (some(3, 9) / 1.0, some(20, 90), some(4000, 9000), 2000.0, 1000.0),
        "nobody asks": (0.0, 100, 100, 10.0, 10.0),
    }
    made += [
        Case(name, "{:g} requests/s, {} and {} tokens, {:g} and {:g} tokens/s".format(*a), "pools", a)
        for name, a in loads.items()
    ]
    time = 2.0 * some(1, 9)
    links = {
        "a fast link": (time, 16.0 * time, 64.0, 4),
        "as fast as the prefill": (time, 64.0 * time, 64.0, 8),
        "a slow link": (time, 256.0 * time, 64.0, 8),
        "a short prefill, a slow link": (2.0, 512.0, 64.0, 8),
        "one layer": (time, 16.0 * time, 64.0, 1),
        "two layers, a slow link": (time, 128.0 * time, 64.0, 2),
        "nothing to send": (time, 0.0, 64.0, 8),
    }
    made += [
        Case(name, "prefill {:g} s, {:g} bytes, {:g} bytes/s, {} layers".format(*a), "exposed", a)
        for name, a in links.items()
    ]
    return made
