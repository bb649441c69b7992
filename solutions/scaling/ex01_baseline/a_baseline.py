"""Exercise scaling-ex01, part a: the baseline, and what it may be compared with.

    times_ms     the steps of a run on one GPU, in their order

`first_steady(times_ms, tolerance)`: the number (from 0) of the first step from which on all steps are
typical. Typical is the median of the last half of the run (of an odd number of steps the larger half); a step
differs if it is further from that than `tolerance` times it, up or down. `len(times_ms)` if the last differs.

`baseline(times_ms, tolerance, tokens, flops, peak_flops)`: {'step_ms', 'tokens_per_s', 'mfu'} from the steady
steps: their median, the tokens of a step by it, and its FLOP by it as a share of the peak (FLOP/s). None if
no step is steady.

`unfair(one, many, kind)`: why two runs cannot be compared for 'strong' or 'weak' scaling: the names of the
parameters that are wrong, sorted. Each run is a dictionary; 'gpus' is its number of GPUs and 'batch' the
sequences of each GPU. `many` must have more GPUs; for strong scaling all GPUs together must have the same
batch, for weak scaling each of them; all other parameters must be in both, and equal.

A worked example:

    first_steady([90.0, 50.0, 31.0, 30.0, 30.0, 29.0], 0.1)       -> 2    (typical is 30)

    one = {"gpus": 1, "batch": 32, "precision": "bf16"}
    unfair(one, {"gpus": 2, "batch": 16, "precision": "bf16"}, "strong")   -> []
    unfair(one, {"gpus": 2, "batch": 32, "precision": "fp32"}, "strong")   -> ["batch", "precision"]

Grade it:         labcode exercises scaling-ex01a        (or: nox -s exercises -- scaling-ex01a)
Get a hint:       labcode exercises scaling-ex01a --hint
"""

from statistics import median
from typing import Any


def first_steady(times_ms: list[float], tolerance: float) -> int:
    """The first step from which on all are typical."""
    # [solution]
    typical = median(times_ms[len(times_ms) // 2 :])
    far = [step for step, time in enumerate(times_ms) if abs(time - typical) > tolerance * typical]
    return far[-1] + 1 if far else 0
    # [starter]
    # raise NotImplementedError("the step after the last that is too far from the median of the last half")
    # [end]


def baseline(
    times_ms: list[float], tolerance: float, tokens: int, flops: float, peak_flops: float
) -> dict[str, float] | None:
    """Median step, tokens a second, and the share of the peak, of the steady steps."""
    # [solution]
    steady = times_ms[first_steady(times_ms, tolerance) :]
    if not steady:
        return None
    step_ms = median(steady)
    seconds = step_ms / 1e3
    return {"step_ms": step_ms, "tokens_per_s": tokens / seconds, "mfu": flops / seconds / peak_flops}
    # [starter]
    # raise NotImplementedError("the median of the steady steps, and two rates by it")
    # [end]


def unfair(one: dict[str, Any], many: dict[str, Any], kind: str) -> list[str]:
    """The parameters that make a comparison unfair, sorted."""
    # [solution]
    wrong = []
    for name in sorted(one | many):
        if name not in one or name not in many:
            wrong.append(name)
        elif name == "gpus":
            wrong += [name] if many[name] <= one[name] else []
        elif name == "batch":
            whole = [run[name] * run["gpus"] if kind == "strong" else run[name] for run in (one, many)]
            wrong += [name] if whole[0] != whole[1] else []
        elif one[name] != many[name]:
            wrong.append(name)
    return wrong
    # [starter]
    # raise NotImplementedError("names that only one has, names that differ, 'gpus', 'batch'")
    # [end]


if __name__ == "__main__":
    from labcode.store import load_set

    record = load_set().record("scaling_training", "strong")
    for case in record["results"]["cases"]:
        if case["count"] == 1:
            found = baseline(case["step_ms"], 0.05, case["tokens"], 0.0, 1.0)
            print(f"one GPU, {case['batch']} sequences:", found and found["tokens_per_s"], "tokens/s")
