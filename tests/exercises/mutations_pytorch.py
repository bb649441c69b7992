"""Typical mistakes in the exercises of the part «PyTorch»: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

PYTORCH = [
    # ex01a: a schedule
    ("pytorch-ex01a", "divmod(step - skip_first,", "divmod(step,", "begin after the skipped steps"),
    ("pytorch-ex01a", "cycle >= repeat", "cycle > repeat", "not so many more"),
    ("pytorch-ex01a", "(repeat and cycle >= repeat)", "False", "the profiler is off"),
    (
        "pytorch-ex01a",
        'return "hand over" if place == wait + warmup + active - 1 else "record"',
        'return "record"',
        "is the one that hands over",
    ),
    (
        "pytorch-ex01a",
        "return [*found, current] if current else found",
        "return found",
        "is handed over, too",
    ),
    (
        "pytorch-ex01a",
        "return [*found, current] if current",
        "return [*found, current] if True",
        "does not count",
    ),
    ("pytorch-ex01a", 'if what in ("record", "hand over"):', 'if what != "off":', "is thrown away"),
    ("pytorch-ex01a", 'if what in ("record", "hand over"):', 'if what == "record":', "recorded as well"),
    (
        "pytorch-ex01a",
        "return [list(range(steps))] if recorded and steps else []",
        "return traces(steps, wait, warmup, active, repeat, skip_first)",
        "stays in step 0",
    ),
    ("pytorch-ex01a", "if recorded and steps", "if steps", "nothing is recorded and nothing handed over"),
    # ex01b: the profiler's table
    (
        "pytorch-ex01b",
        "ordered = events.sort_values",
        "ordered = events.assign(tid=0).sort_values",
        "of its own thread only",
    ),
    ("pytorch-ex01b", 'row["parent"]["self"] -= row["total"]', "pass", "without what lies inside"),
    (
        "pytorch-ex01b",
        'row["parent"]["device_total"] += row["device_total"]',
        "pass",
        "the kernels of the events inside, too",
    ),
    (
        "pytorch-ex01b",
        'row["parent"]["device_total"] += row["device_total"]',
        'row["parent"]["device_total"] += row["device"]',
        "however deep",
    ),
    (
        "pytorch-ex01b",
        "ascending=[True, True, False])",
        "ascending=[True, True, True])",
        "the longer one is around the other",
    ),
    ("pytorch-ex01b", "max(start, reached)", "start", "what runs side by side counts once"),
    (
        "pytorch-ex01b",
        "busy += max(end - begin, 0)",
        "busy += end - (start if reached is None else reached)",
        "gaps",
    ),
    # ex02a: in use, and at the peak
    ("pytorch-ex02a", '"free_requested" and', '"free_completed" and', "not when it is completed"),
    (
        "pytorch-ex02a",
        'return {addr: (size, "before")',
        'return {} and {addr: (size, "before")',
        "are in use, too",
    ),
    ("pytorch-ex02a", "whole.index(max(whole)) - 1", "whole.index(max(whole))", "rows count from 0"),
    (
        "pytorch-ex02a",
        'if action == "alloc":',
        'if action in ("alloc", "segment_alloc"):',
        "",
    ),
    (
        "pytorch-ex02a",
        "blocks = states(before, events)[row] if row >= 0 else initial(before)",
        "blocks = [initial(before), *states(before, events)][-1]",
        "asked for is the peak",
    ),
    # ex02b: find the leak
    (
        "pytorch-ex02b",
        'elif action == "free_requested":',
        'elif action == "free_completed":',
        "completed later",
    ),
    ("pytorch-ex02b", " if len(quarters[stack]) == 4]", "]", "only what stays from each quarter"),
    (
        "pytorch-ex02b",
        "min(4 * (t_us - first) // max(last - first, 1), 3)",
        "4 * (t_us - first) // max(last - first, 1)",
        "",
    ),
    ("pytorch-ex02b", "(-row[2], row[0])", "(-row[1], row[0])", "not by the number of blocks"),
    ("pytorch-ex02b", "(-row[2], row[0])", "(row[2], row[0])", "come first"),
    ("pytorch-ex02b", "(-row[2], row[0])", "-row[2]", "in the order of their numbers"),
    ("pytorch-ex02b", "for frame in frames:", "for frame in reversed(frames):", "not the outermost"),
    ("pytorch-ex02b", '"site-packages/" not in frame and ', "", "is of a library"),
    ("pytorch-ex02b", ' and not frame.startswith(("torch/", "<"))', "", "are of a library, too"),
    (
        "pytorch-ex02b",
        'not frame.startswith(("torch/", "<"))',
        '"torch/" not in frame and not frame.startswith("<")',
        "may bear the name",
    ),
    (
        "pytorch-ex02b",
        "sum(size for _, _, size in leaks(history, stacks))",
        "leaks(history, stacks)[0][2] if leaks(history, stacks) else 0",
        "together",
    ),
    ("pytorch-ex02b", ' - int(history["t_us"].min()) if len', " if len", "from the first event to the last"),
    ("pytorch-ex02b", "if lost and lasted else None", "if lost and lasted else 0.0", "None"),
]
