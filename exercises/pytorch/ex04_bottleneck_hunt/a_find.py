"""Exercise pytorch-ex04, part a: which of the seven problems are in this loop?

A table of everything that ran on the GPU comes in, each operation with what launched it (what
`labcode stats TRACE --report op_kernel_trace` gives), and the number of recorded steps:

    kind         "kernel", "memcpy" or "memset"
    name         its whole name
    op           the innermost operator around the launch, outer_op the outermost
    annotation   the innermost range of the program: "batch", "forward", "backward", "log", …
    pass         "forward", "backward", "optimizer" or ""
    python       the innermost line of the program; in the backward pass that of the forward operator

(and start_ns, end_ns, cpu_start_ns, cpu_end_ns, which this part does not need.) An operation counts for the
first of these problems that it shows, in this order:

    optimizer    pass is "optimizer"
    logging      python contains "write_norms"
    item         op is "aten::_local_scalar_dense"
    tiny_ops     python contains "_by_hand"
    layout       outer_op is "aten::contiguous"
    cpu_tensors  annotation is "batch", and kind is "memcpy" or op is "aten::mul"
    dtype        name contains "double"

The answer is a dictionary of counts over all steps, of the problems that are there. A fused optimizer has a
few operations, too, and is no problem: leave `optimizer` out unless it has more than 20 operations per step.

A worked example, 2 steps:

    kernel, aten::mul in "batch"                                       cpu_tensors
    kernel …<double>, pass "optimizer"                                 optimizer, but only one: left out
    memcpy, aten::_local_scalar_dense, python "m.py(9): write_norms"   logging
    memcpy, aten::_local_scalar_dense, python "t.py(3): one_step"      item

    find(ops, 2)  ->  {"cpu_tensors": 1, "logging": 1, "item": 1}

Grade it:         labcode exercises pytorch-ex04a        (or: nox -s exercises -- pytorch-ex04a)
Get a hint:       labcode exercises pytorch-ex04a --hint
Try it yourself:  python exercises/pytorch/ex04_bottleneck_hunt/a_find.py     (runs on captures of the book)
"""

import numpy as np
import pandas as pd


def find(ops: pd.DataFrame, steps: int) -> dict[str, int]:
    """How many operations show each problem."""
    raise NotImplementedError("a column of problems by numpy.select, counted; then the optimizer's limit")


if __name__ == "__main__":
    from labcode.analysis.timeline.links import op_kernel_trace
    from labcode.reports.kineto.report import open_trace
    from labcode.store import load_set

    columns = ["kind", "name", "op", "outer_op", "annotation", "pass", "python"]
    rows = [
        ("kernel", "add<float>", "aten::mul", "aten::mul", "batch", "", "m.py(5): batch_of"),
        ("memcpy", "D2H", "aten::_local_scalar_dense", "aten::item", "log", "", "m.py(9): write_norms"),
    ]
    print(find(pd.DataFrame(rows, columns=columns), 2), "is to be {'cpu_tensors': 1, 'logging': 1}")
    captures = load_set()
    for run in ("baseline", "improved") if "bottleneck_hunt" in captures.experiments else ():
        report = open_trace(captures.path_of("bottleneck_hunt", run, ".trace.json.gz"))
        print(run, find(op_kernel_trace(report).assign(name=report.gpu_ops()["name"]), 2))
    print("two problems in the example; how many in the recordings of the page?")
