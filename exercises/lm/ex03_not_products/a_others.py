"""Exercise lm-ex03, part a: what is not a matmul.

    ops      kind ('kernel', 'memcpy', 'memset'), name, start_ns, end_ns, device, stream, path: what the GPU
             did, in no particular order. The path are the names of the ranges around the launch, outermost
             first, joined by slashes: step 8/forward/block 3/attention/softmax
    steps    how many steps were recorded
    least    a share

Put the GPU's operations of the forward pass into buckets with ``bucket_of(name, path, kind)``, and give for
each bucket but matmul a list: milliseconds of one step, and the share of the GPU's time of the whole forward
pass. Leave out buckets whose share is below ``least``. The bucket other is always in the answer, also with no
time: what is not known must not be hidden.

A worked example, one step, least = 0.1; times of the rows are 6, 3 and 0.5 ms:

    kernel  sgemm_128x128             step 0/forward/logits
    kernel  softmax_warp_forward      step 0/forward/loss      ->   {"softmax": [3, 0.316], "other": [0, 0]}
    kernel  elementwise_kernel<add>   step 0/forward/add

Grade it:         labcode exercises lm-ex03a        (or: nox -s exercises -- lm-ex03a)
Get a hint:       labcode exercises lm-ex03a --hint
Try it yourself:  python exercises/lm/ex03_not_products/a_others.py     (runs on a capture of the book)
"""

import pandas as pd

from labcode.analysis.buckets import bucket_of


def others(ops: pd.DataFrame, steps: int, least: float) -> dict[str, list[float]]:
    """Milliseconds of one step, and share, by bucket."""
    raise NotImplementedError("choose the forward pass, name the buckets, add up, divide by the whole pass")


if __name__ == "__main__":
    from labcode.analysis.lm.parts import operations
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    report = open_report(captures.path_of("lm_small", "forward"))
    recorded = captures.record("lm_small", "forward")["parameters"]["window"]
    for name_of, (milliseconds, share) in others(operations(report), recorded, 0.0).items():
        print(f"{name_of:15} {milliseconds:8.3f} ms {share:7.2%}")
