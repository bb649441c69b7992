"""Typical mistakes in the exercises of the part «PyTorch»: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

PYTORCH = [
    # ex04
    ("pytorch-ex04a", "<= 20 * steps", "< 0", "a fused optimizer"),
    ("pytorch-ex04a", "<= 20 * steps", "< 20 * steps", "exactly 20"),
    ("pytorch-ex04a", "<= 20 * steps", "<= 20", "with several steps the limit"),
    (
        "pytorch-ex04a",
        'str.contains("_by_hand")',
        'str.contains("_by_hand") & (ops["pass"] == "forward")',
        "backward pass, too",
    ),
    ("pytorch-ex04a", ' | (ops["op"] == "aten::mul")', "", "product with the ones"),
    (
        "pytorch-ex04a",
        'in_batch = ops["annotation"] == "batch"',
        'in_batch = ops["op"] != ""',
        "elsewhere than in the batch",
    ),
    (
        "pytorch-ex04a",
        'ops["outer_op"] == "aten::contiguous"',
        'ops["op"] == "aten::copy_"',
        "outermost operator",
    ),
    (
        "pytorch-ex04a",
        '    names = np.select(list(conditions.values()), list(conditions), "")',
        '    conditions = {"dtype": conditions.pop("dtype"), **conditions}\n'
        '    names = np.select(list(conditions.values()), list(conditions), "")',
        "first problem in the list",
    ),
    ("pytorch-ex04a", 'ops["python"].str.contains("write_norms"),', 'ops["python"] == "x",', ""),
    (
        "pytorch-ex04a",
        "    return counts",
        "    return {name: count / steps for name, count in counts.items()}",
        "counts a step",
    ),
    (
        "pytorch-ex04b",
        'waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()',
        "whole[0][:0], whole[1][:0]",
        "nobody's work",
    ),
    (
        "pytorch-ex04b",
        "max(intervals.total(*host), intervals.total(*gpu))",
        "intervals.total(*gpu)",
        "CPU's remaining",
    ),
    (
        "pytorch-ex04b",
        "max(intervals.total(*host), intervals.total(*gpu))",
        "intervals.total(*host)",
        "GPU's remaining",
    ),
    ("pytorch-ex04b", "intervals.total(*gpu))", "int((gpu[1] - gpu[0]).sum()))", "side by side"),
    (
        "pytorch-ex04b",
        "max(intervals.total(*host), intervals.total(*gpu))",
        "(intervals.total(*host) + intervals.total(*gpu))",
        "not the sum",
    ),
    (
        "pytorch-ex04b",
        'intervals.clip(rest["start_ns"].to_numpy(), rest["end_ns"].to_numpy(), window)',
        '(rest["start_ns"].to_numpy(), rest["end_ns"].to_numpy())',
        "cut them first",
    ),
    ("pytorch-ex04b", "(-pair[1], pair[0])", "(pair[1], pair[0])", "largest gain comes first"),
    (
        "pytorch-ex04b",
        "width / max(intervals.total(*host), intervals.total(*gpu))",
        "max(intervals.total(*host), intervals.total(*gpu)) / width",
        "what remains",
    ),
]
