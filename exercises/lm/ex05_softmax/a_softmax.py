"""Exercise lm-ex05, part a: softmax against matmuls.

    ops      kind ('kernel', 'memcpy', 'memset'), name, start_ns, end_ns, device, stream, path: what the GPU
             did, in no particular order. The path are the names of the ranges around the launch, outermost
             first, joined by slashes: step 8/forward/block 3/attention/softmax
    steps    how many steps were recorded
    model    batch, heads, context, d_model, layers: whole numbers. Numbers are floats of four bytes, and
             attention is written out: ranges scores, mask, softmax, values, each in every block

Give a dictionary, of the forward pass alone:

    time             time of what ran in the ranges softmax, over that in the ranges scores and values
    time_products    the same, of scores and values only what ``bucket_of(name, path, kind)`` calls matmul
    flops            operations of the softmax over those of both matmuls; the softmax has five for each
                     score, and a multiplication with its addition is two
    gb_per_s         bytes that the softmax reads and writes over its time

A worked example: batch 1, heads 2, context 10, d_model 8, 3 layers, one step: 200 scores in each block. Five
operations each are 1000, against twice 2 * 200 * 4: flops is 0.3125. If all softmaxes together took 480 ns,
gb_per_s is 3 * 2 * 4 * 200 / 480 = 10.

Grade it:         labcode exercises lm-ex05a        (or: nox -s exercises -- lm-ex05a)
Get a hint:       labcode exercises lm-ex05a --hint
Try it yourself:  python exercises/lm/ex05_softmax/a_softmax.py     (runs on a capture of the book)
"""

import pandas as pd

from labcode.analysis.buckets import bucket_of


def softmax_against_products(ops: pd.DataFrame, steps: int, model: dict[str, int]) -> dict[str, float]:
    """Two ratios of times, one of operations, one rate."""
    raise NotImplementedError("times by the innermost range, operations and bytes from the model's shape")


if __name__ == "__main__":
    from labcode.analysis.lm.parts import operations
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    report = open_report(captures.path_of("lm_small", "forward"))
    own = captures.record("lm_small", "forward")["parameters"]
    small = {
        key: own.get(key, own.get(f"model_{key}"))
        for key in ("batch", "heads", "context", "d_model", "layers")
    }
    for what, value in softmax_against_products(operations(report), own["window"], small).items():
        print(f"{what:15} {value:.4g}")
