"""Exercise compute-ex74, part a: the lower roof.

`attainable(intensity, bandwidth, peak)`: FLOP/byte, bytes/s, FLOP/s; the FLOP/s that
are possible at most.

A worked example: attainable(2.0, 3e12, 60e12) is 6e12: memory is the roof.

Grade it:         labcode exercises compute-ex74a        (or: nox -s exercises -- compute-ex74a)
Get a hint:       labcode exercises compute-ex74a --hint
"""


def attainable(intensity: float, bandwidth: float, peak: float) -> float:
    """What memory and units allow."""
    # [solution]
    return min(peak, intensity * bandwidth)
    # [starter]
    # raise NotImplementedError("the lower of two roofs")
    # [end]


if __name__ == "__main__":
    print("memory:", attainable(2.0, 3e12, 60e12))
    print("units: ", attainable(200.0, 3e12, 60e12))
