"""Exercise lm-ex02, part a: the kernel with the most time.

    ops      kind ('kernel', 'memcpy', 'memset'), name, start_ns, end_ns, device, stream, path: what the GPU
             did, in no particular order. The path are the names of the ranges around the launch, outermost
             first, joined by slashes: step 8/forward/block 3/attention/softmax
    steps    how many steps were recorded

Give a dictionary with two keys, “forward” and “forward + backward”. Each holds a list: the name of the kernel
with the most time in all, its calls in one step, its share of the time of all kernels of that pass (or those
two passes). An operation belongs to a pass whose name is one of the names in its path. Copies and memsets are
no kernels.

A worked example, one step; times of the rows are 30, 20, 25, 40:

    kernel  gemm_tn  step 0/forward/logits         30
    kernel  softmax  step 0/forward/loss           20       forward: ["gemm_tn", 1, 0.6]
    kernel  gemm_nn  step 0/backward               25  ->   forward + backward: ["gemm_tn", 1, 0.4]
    kernel  adam     step 0/optimizer              40

Grade it:         labcode exercises lm-ex02a        (or: nox -s exercises -- lm-ex02a)
Get a hint:       labcode exercises lm-ex02a --hint
Try it yourself:  python exercises/lm/ex02_top_kernel/a_most_expensive.py     (runs on a capture of the book)
"""

from typing import Any

import pandas as pd


def most_expensive(ops: pd.DataFrame, steps: int) -> dict[str, list[Any]]:
    """A name, calls of one step, and a share, for forward pass and for both passes."""
    # [solution]
    kernels = ops[ops["kind"] == "kernel"]
    kernels = kernels.assign(ns=kernels["end_ns"] - kernels["start_ns"])
    found = {}
    for label, passes in {"forward": {"forward"}, "forward + backward": {"forward", "backward"}}.items():
        inside = [bool(passes & set(path.split("/"))) for path in kernels["path"]]
        mine = kernels[inside]
        sums = mine.groupby("name")["ns"].sum()
        name = sums.idxmax()
        calls = int((mine["name"] == name).sum())
        found[label] = [name, calls / steps, float(sums[name] / sums.sum())]
    return found
    # [starter]
    # raise NotImplementedError("choose the kernels of the pass, add up by name, take the largest")
    # [end]


if __name__ == "__main__":
    from labcode.analysis.lm.parts import operations
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    report = open_report(captures.path_of("lm_small", "train"))
    recorded = captures.record("lm_small", "train")["parameters"]["window"]
    for passes_of, (kernel, calls_of, share) in most_expensive(operations(report), recorded).items():
        print(f"{passes_of}: {calls_of:g} calls, {share:.1%}, {kernel}")
