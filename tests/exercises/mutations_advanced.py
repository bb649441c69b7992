"""Typical mistakes in the exercises of the advanced part: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

ADVANCED = [
    # ex05a: from samples to a profile
    (
        "advanced-ex05a",
        'samples.loc[samples["thread_state"] == "running", "sample"]',
        'samples["sample"]',
        "not running",
    ),
    (
        "advanced-ex05a",
        'frames[frames["sample"].isin(running)]',
        "frames",
        "not in `samples`|not running",
    ),
    (
        "advanced-ex05a",
        'sort_values(["sample", "depth"], ascending=[True, False])',
        'sort_values(["sample", "depth"])',
        "the innermost function comes first here",
    ),
    (
        "advanced-ex05a",
        'sort_values(["sample", "depth"], ascending=[True, False])',
        'sort_values("sample", kind="stable")',
        "sort by depth",
    ),
    ("advanced-ex05a", 'f"{function} ({file})"', 'f"{function}"', "names repeat"),
    ("advanced-ex05a", "for label in set(labels):", "for label in labels:", "a function that calls itself"),
    ("advanced-ex05a", "label == labels[-1]", "label == labels[0]", "self belongs to the innermost"),
    (
        "advanced-ex05a",
        "(own + count * (label == labels[-1]), total + count)",
        "(own + count, total + count * (label == labels[-1]))",
        "turned round",
    ),
    (
        "advanced-ex05a",
        "    z, p = 1.96, hits / count\n",
        "    q = hits / count\n    r = 1.96 * math.sqrt(q * (1 - q) / count)\n    return q - r, q + r\n"
        "    z, p = 1.96, hits / count\n",
        "Wilson's formula",
    ),
    ("advanced-ex05a", "z, p = 1.96,", "z, p = 1.0,", "68 %"),
    ("advanced-ex05a", "return 0.0, 1.0", "return 0.0, 0.0", "no samples say nothing"),
    # ex05b: find and prove the cause
    (
        "advanced-ex05b",
        'running["end_ns"].clip(upper=end) - running["start_ns"].clip(lower=begin)',
        'running["end_ns"] - running["start_ns"]',
        "not cut to the window",
    ),
    (
        "advanced-ex05b",
        'inside.groupby([running["pid"], running["tid"]]).sum()',
        'inside.groupby([running["pid"], running["tid"]]).sum() * 0 + end',
        "these are all threads",
    ),
    (
        "advanced-ex05b",
        'inside.groupby([running["pid"], running["tid"]]).sum()',
        'inside.groupby(running["tid"]).sum().reindex(running["tid"]).set_axis('
        'pd.MultiIndex.from_frame(running[["pid", "tid"]])).groupby(level=[0, 1]).first()',
        "a thread is pid and tid",
    ),
    ("advanced-ex05b", "pair in busy for pair", "True for pair", "only those of busy threads matter"),
    (
        "advanced-ex05b",
        '(samples["start_ns"] >= window[0]) & (samples["start_ns"] < window[1])',
        'samples["start_ns"] > 0',
        "outside of the window",
    ),
    ("advanced-ex05b", ' & (samples["thread_state"] == "running")', "", "threads that wait"),
    ("advanced-ex05b", 'sort_values("depth")', 'sort_values("depth", ascending=False)', "INNERMOST"),
    ("advanced-ex05b", "len(chosen)\n", "len(mine)\n", "also those without a frame of own code"),
    (
        "advanced-ex05b",
        ' & frames["file"].str.startswith(own)',
        "",
        "the innermost function may be a library's",
    ),
    # ex06a: waits in gaps
    (
        "advanced-ex06a",
        "intervals.total(*intervals.intersect(*spans, *idle))",
        "sum(intervals.total(*intervals.intersect([a], [b], *idle)) for a, b in zip(*spans))",
        "calls inside of calls count twice",
    ),
    (
        "advanced-ex06a",
        "intervals.total(*intervals.intersect(*spans, *idle))",
        "sum(intervals.total(*intervals.intersect(*spans, [a], [b])) for a, b in zip(*idle))",
        "gaps of several GPUs overlap",
    ),
    ("advanced-ex06a", " and (pid, tid) not in parked", "", "parked threads are still in"),
    (
        "advanced-ex06a",
        "(pid, tid) not in parked",
        "tid not in {t for _, t in parked}",
        "a thread is pid and tid",
    ),
    (
        "advanced-ex06a",
        'calls["start_ns"].clip(*window), calls["end_ns"].clip(*window)',
        'calls["start_ns"], calls["end_ns"]',
        "only the part of a call within the window counts",
    ),
    ("advanced-ex06a", '"tid", "call_class"]', '"tid", "name"]', "these are times by name"),
    (
        "advanced-ex06a",
        "return sorted(found)",
        "return sorted(found, key=lambda row: -row[3])",
        "sorted by time|the right entries in the wrong order",
    ),
    # ex06b: the cause
    (
        "advanced-ex06b",
        'calls[calls["name"].isin(OPENS)]',
        "calls",
        "begin with the threads that open files",
    ),
    (
        "advanced-ex06b",
        "        if intervals.total(*inside(part))\n",
        "",
        "only while the GPUs are busy is no reader|Error",
    ),
    ("advanced-ex06b", "        / len(readers)\n", "", "divide by their number"),
    (
        "advanced-ex06b",
        "/ intervals.total(*idle)",
        "/ (window[1] - window[0])",
        "not of the window",
    ),
    (
        "advanced-ex06b",
        'sum(intervals.total(*inside(each)) for _, each in part.groupby(["pid", "tid"]))',
        "intervals.total(*inside(part)) * len(readers)",
        "take the union of each by itself",
    ),
    (
        "advanced-ex06b",
        'mine[~mine["call_class"].isin(WAITING)]',
        "mine[mine['name'] != call]",
        "behind the lock is work",
    ),
    (
        "advanced-ex06b",
        'if (mine.loc[mine["name"] == call, "call_class"] == "lock").all():',
        "if True:",
        "nobody holds anything here",
    ),
    (
        "advanced-ex06b",
        'if (mine.loc[mine["name"] == call, "call_class"] == "lock").all():',
        "if False:",
        "a lock is held by somebody",
    ),
    (
        "advanced-ex06b",
        "        return None\n    mine",
        '        return {"call": None, "share": 0.0, "behind": None}\n    mine',
        "nothing to say: None",
    ),
    (
        "advanced-ex06b",
        "meanwhile[most] >= 0.1 * intervals",
        "meanwhile[most] > 0 * intervals",
        "a tenth of the",
    ),
    # ex07a: change or noise
    ("advanced-ex07a", "if min(len(before), len(after)) < 6:", "if False:", "no basis|no values|Error|error"),
    ("advanced-ex07a", "if low > 1 and ratio", "if ratio", "such a difference comes about by luck"),
    ("advanced-ex07a", " and ratio > 1 + limit", "", "too small to matter"),
    (
        "advanced-ex07a",
        "medians(after) / medians(before)",
        "medians(before) / medians(after)",
        "is the interval that of after",
    ),
    ("advanced-ex07a", "np.median", "np.mean", "the mean follows"),
    # ex07b: the gate
    (
        "advanced-ex07b",
        'groupby(["pid", "tid"])["start_ns"]',
        'groupby("event_type")["start_ns"]',
        "steps of other processes",
    ),
    ("advanced-ex07b", r'fullmatch(r"step \d+")', 'startswith("step")', "other names begin with `step`, too"),
    (
        "advanced-ex07b",
        r'fullmatch(r"step \d+")',
        r'match(r"step \d+")',
        "other names begin alike|other names begin with",
    ),
    (
        "advanced-ex07b",
        '{"slower": 1, "too few": 2}',
        '{"slower": 1}',
        "too few periods .or none. are no answer",
    ),
    (
        "advanced-ex07b",
        '{"slower": 1, "too few": 2}',
        '{"slower": 1, "too few": 1}',
        "too few periods are no regression",
    ),
    (
        "advanced-ex07b",
        '{"slower": 1, "too few": 2}.get(answer, 0)',
        '{"slower": 0, "too few": 2}.get(answer, 1)',
        "turned round",
    ),
    (
        "advanced-ex07b",
        'times = steps.groupby(["pid", "tid"])["start_ns"].diff().dropna()',
        'times = (steps["end_ns"] - steps["start_ns"]).dropna()',
        "the lengths of the steps' ranges|the length of the step's range",
    ),
    # ex08a: the rule
    ("advanced-ex08a", "    tables.need_busy()\n", "", "nobody can know this"),
    ("advanced-ex08a", '["kernel", "graph"]', '["kernel"]', "whole graphs are work"),
    ("advanced-ex08a", '["kernel", "graph"]', '["kernel", "graph", "memset"]', "a memset hides no copy"),
    ("advanced-ex08a", '["H2D", "D2H"]', '["H2D", "D2H", "D2D"]', "copies within the GPU are not looked for"),
    ("advanced-ex08a", '["H2D", "D2H"]', '["H2D"]', "copies back to the host count"),
    ("advanced-ex08a", "gain=sum(exposed)", "gain=max(exposed)", "the gain adds up over all GPUs"),
    ("advanced-ex08a", "        gain=sum(exposed) / tables.width,\n", "", "the gain is missing"),
    ("advanced-ex08a", "share >= 0.1", "share >= 0.02", "found means at least a tenth"),
    (
        "advanced-ex08a",
        "evidence=lengths.sort_values(",
        "evidence=lengths.iloc[:0].sort_values(",
        "the evidence is missing",
    ),
    (
        "advanced-ex08a",
        '(table[table["device"] == gpu] for table in (copies, work))',
        'copies[copies["device"] == gpu], work',
        "kernels of another GPU hide nothing",
    ),
    (
        "advanced-ex08a",
        "exposed.append(intervals.total(*left))",
        'exposed.append(int((here["end_ns"] - here["start_ns"]).sum()))',
        "copies that run at once count twice|these are all copies|a share cannot",
    ),
]
