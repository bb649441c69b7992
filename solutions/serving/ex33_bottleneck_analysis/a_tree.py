"""Exercise serving-ex33, part a: from evidence to the name of the bottleneck.

    evidence   a dictionary of shares between 0 and 1:
        idle        of the window, the GPU has nothing to do
        long_gaps   of the idle time, that in gaps of 100 µs or more
        copying     of the window, copies and nothing else run
        talking     of the window, collectives and no other kernel run
        sm          what the longest kernel reached of the SMs' peak, by Nsight Compute
        memory      the same of the memory system's peak

`bound(evidence)`: the name, by the questions of the tree, in this order:

    idle for MUCH or more: 'input' where half of the idle time or more is in long gaps, else 'launch'
    copying or talking for MUCH or more: 'transfer', or 'communication' where talking is the larger share
    otherwise its kernels: 'latency' where neither unit is at NEAR or more; else 'compute' where the SMs'
    share is the larger one, else 'memory'

`gain(evidence)`: how many times as fast the program is at most without that bottleneck: 1 / (1 − s), with s
the idle, copying or talking share that gave the name; infinity where s is 1; and 1 for the other names, since
these shares do not tell.

A worked example: idle 0.5, long_gaps 0.1, all else 0 gives 'launch' and 2.0.

Grade it:         labcode exercises serving-ex33a        (or: nox -s exercises -- serving-ex33a)
Get a hint:       labcode exercises serving-ex33a --hint
"""

MUCH = 0.2
NEAR = 0.6


def bound(evidence: dict[str, float]) -> str:
    """One of seven names."""
    # [solution]
    if evidence["idle"] >= MUCH:
        return "input" if evidence["long_gaps"] >= 0.5 else "launch"
    if max(evidence["copying"], evidence["talking"]) >= MUCH:
        return "communication" if evidence["talking"] > evidence["copying"] else "transfer"
    if max(evidence["sm"], evidence["memory"]) < NEAR:
        return "latency"
    return "compute" if evidence["sm"] > evidence["memory"] else "memory"
    # [starter]
    # raise NotImplementedError("three questions, in their order")
    # [end]


def gain(evidence: dict[str, float]) -> float:
    """At most so many times as fast."""
    # [solution]
    of = {"input": "idle", "launch": "idle", "transfer": "copying", "communication": "talking"}
    share = evidence[of[bound(evidence)]] if bound(evidence) in of else 0.0
    return 1 / (1 - share) if share < 1 else float("inf")
    # [starter]
    # raise NotImplementedError("what is left without that share")
    # [end]


if __name__ == "__main__":
    example = dict.fromkeys(("idle", "long_gaps", "copying", "talking", "sm", "memory"), 0.0)
    example |= {"idle": 0.5, "long_gaps": 0.1}
    print("bound by:", bound(example))
    print("without that at most so many times as fast:", gain(example))
