"""Exercise lm-ex04, part a: what training changes.

Two runs of the same model come in: one that was asked (forward passes), one that was taught (training steps).
Each is a table and the number of steps in it:

    ops      kind ('kernel', 'memcpy', 'memset'), name, start_ns, end_ns, device, stream, path: what the GPU
             did, in no particular order. The path are the names of the ranges around the launch, outermost
             first, joined by slashes: step 8/forward/block 3/attention/softmax

Give a dictionary:

    inference, training    the share of matmuls in the GPU's time of each run
    without optimizer      the same of the training run's forward and backward pass alone
    growth                 the time of matmuls in one step of training over that in one of inference

A matmul is what ``bucket_of(name, path, kind)`` calls matmul. The GPU's time is that of all operations,
copies included.

A worked example: inference 10 ms, of which matmuls 8; a training step 30 ms in forward and backward pass, of
which matmuls 24, and 6 ms in the optimizer: 0.8, 24 / 36, 0.8, 3.

Grade it:         labcode exercises lm-ex04a        (or: nox -s exercises -- lm-ex04a)
Get a hint:       labcode exercises lm-ex04a --hint
Try it yourself:  python exercises/lm/ex04_training_share/a_change.py     (runs on a capture of the book)
"""

import pandas as pd

from labcode.analysis.buckets import bucket_of


def change(
    inference: pd.DataFrame, inference_steps: int, training: pd.DataFrame, training_steps: int
) -> dict[str, float]:
    """Three shares and a ratio."""

    raise NotImplementedError("write a function for the matmuls' time of a table, and use it three times")


if __name__ == "__main__":
    from labcode.analysis.lm.parts import operations
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    tables = []
    for run in ("forward", "train"):
        tables.append(operations(open_report(captures.path_of("lm_small", run))))
        tables.append(captures.record("lm_small", run)["parameters"]["window"])
    for what, value in change(*tables).items():
        print(f"{what:20} {value:.3f}")
