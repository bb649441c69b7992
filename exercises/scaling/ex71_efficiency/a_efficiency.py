"""Exercise scaling-ex71, part a: one number.

`efficiency(one_ms, many_ms, gpus, kind)`: a step on one GPU and on so many; kind is 'strong' (the same
problem) or 'weak' (a problem as many times as large). 1.0 is ideal.

A worked example: efficiency(80.0, 50.0, 2, 'strong') is 0.8; efficiency(80.0, 100.0, 2, 'weak') is 0.8.

Grade it:         labcode exercises scaling-ex71a        (or: nox -s exercises -- scaling-ex71a)
Get a hint:       labcode exercises scaling-ex71a --hint
"""


def efficiency(one_ms: float, many_ms: float, gpus: int, kind: str) -> float:
    """How near to ideal."""
    raise NotImplementedError("the ideal time over the time")


if __name__ == "__main__":
    print("strong:", efficiency(80.0, 50.0, 2, "strong"))
    print("weak:  ", efficiency(80.0, 100.0, 2, "weak"))
