"""Exercise serving-ex32, part a: the operators that are worth your time.

    rows    name, calls, self_cuda_us: averages of torch.profiler, a row for each operator; self_cuda_us is
            the time of the kernels that the operator itself launched, over all its calls
    share   a share of the GPU's time, above 0 and at most 1
    small   µs

`few(rows, share)`: the names of the fewest operators that together have at least ``share`` of the time of
all, the most time first, of equal ones by name. Operators without time on the GPU never count.

`small_work(rows, share, small)`: of those the ones whose mean time a call is below ``small``, in the same
order: it is their number of calls that costs, not the work of each.

A worked example: a has 60 µs in 2 calls, b 30 µs in 30, c 10 µs in 1. For a share of 0.9: few gives
['a', 'b'], and small_work with 5 µs gives ['b'].

Grade it:         labcode exercises serving-ex32a        (or: nox -s exercises -- serving-ex32a)
Get a hint:       labcode exercises serving-ex32a --hint
"""

import pandas as pd


def few(rows: pd.DataFrame, share: float) -> list[str]:
    """The fewest operators that have the share."""
    # [solution]
    timed = rows.sort_values(["self_cuda_us", "name"], ascending=[False, True])
    before = timed["self_cuda_us"].cumsum() - timed["self_cuda_us"]
    return [str(name) for name in timed.loc[before < share * timed["self_cuda_us"].sum(), "name"]]
    # [starter]
    # raise NotImplementedError("sort, then take until the share is reached")
    # [end]


def small_work(rows: pd.DataFrame, share: float, small: float) -> list[str]:
    """Those of them whose calls are short."""
    # [solution]
    each = (rows["self_cuda_us"] / rows["calls"]).to_numpy()
    mean = dict(zip(rows["name"], each, strict=True))
    return [name for name in few(rows, share) if mean[name] < small]
    # [starter]
    # raise NotImplementedError("time over calls")
    # [end]


if __name__ == "__main__":
    example = pd.DataFrame({"name": ["a", "b", "c"], "calls": [2, 30, 1], "self_cuda_us": [60.0, 30.0, 10.0]})
    print("the few:", few(example, 0.9))
    print("of those small work:", small_work(example, 0.9, 5.0))
