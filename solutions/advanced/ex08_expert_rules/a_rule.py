"""Exercise advanced-ex08, part a: write an expert rule.

The rule `exposed-copies` looks for copies between host and GPU that nothing hides: while they run, the GPU
computes nothing. The page writes another rule step by step; this one is yours, decorator and all.

What it measures. On each GPU, the time of the window in which at least one copy with the kind 'H2D' or 'D2H'
runs and no kernel does. A graph that was traced as a whole (kind 'graph') is work like a kernel. Memsets and
copies within the GPU (D2D) are neither: they are not looked for, and they hide nothing. It does not matter
which process an operation belongs to.

What it says, as a `Finding`:

    found           on the GPU with the most of that time, it is at least a tenth of the window
    numerator       that time on that GPU, in ns (0 without such copies); numerator_name: in words
    denominator     the window, in ns: tables.width; denominator_name: in words
    gain            at most this share of the window is saved by hiding them: that time, added up over all
                    GPUs, by the window (the lab cuts it to 1)
    evidence        the copies that were looked at, rows of tables.memcpys, the longest first
    message         one sentence with what was measured

When nobody can know (no operations of the GPU in the capture, or graph launches that left no trace of what
ran) the rule must not guess: `tables.need_busy()` raises the right error.

What `tables` has for you (see labcode.analysis.rules.tables.Tables): `ops` (kind, start_ns, end_ns, device,
…, cut to the window), `memcpys` (copy_kind, start_ns, end_ns, device, bytes, …, too), `busy` (a row for each
GPU: device, …), `window`, `width`. And labcode.analysis.timeline.intervals has union, total, subtract and
intersect on arrays of starts and ends.

A worked example. The window is 1000 ns. On GPU 0 a copy to the GPU runs from 0 to 200, a kernel from 150 to
900, a copy back from 880 to 1000:

    exposed: 0 to 150 and 900 to 1000, so 250 of 1000 ns: found, gain 0.25

Use it afterwards:  labcode diagnose CAPTURE.sqlite --rules exercises/advanced/ex08_expert_rules/a_rule.py
Grade it:           labcode exercises advanced-ex08a        (or: nox -s exercises -- advanced-ex08a)
Get a hint:         labcode exercises advanced-ex08a --hint
Try it yourself:    python exercises/advanced/ex08_expert_rules/a_rule.py     (runs on captures of the book)
"""

from pathlib import Path

from labcode.analysis.rules import CannotJudgeError, Finding, Rule, Tables, rule
from labcode.analysis.rules.finding import verdict_of
from labcode.analysis.timeline import intervals
from labcode.reports.nsys.report import open_report


# [solution]
@rule(
    "exposed-copies",
    title="Copies that no kernel hides",
    book="nsys/memory-timeline",
    advice="Copy in chunks on a stream of their own, from pinned memory, while other chunks compute.",
)
def exposed_copies(tables: Tables) -> Finding:
    """Bound: as if every exposed copy took no time, on every GPU."""
    tables.need_busy()
    copies = tables.memcpys[tables.memcpys["copy_kind"].isin(["H2D", "D2H"])]
    work = tables.ops[tables.ops["kind"].isin(["kernel", "graph"])]
    exposed = [0]
    for gpu in tables.busy["device"]:
        here, hiding = (table[table["device"] == gpu] for table in (copies, work))
        left = intervals.subtract(
            here["start_ns"].to_numpy(),
            here["end_ns"].to_numpy(),
            hiding["start_ns"].to_numpy(),
            hiding["end_ns"].to_numpy(),
        )
        exposed.append(intervals.total(*left))
    share = max(exposed) / tables.width
    lengths = copies.assign(duration_ns=copies["end_ns"] - copies["start_ns"])
    return Finding(
        share >= 0.1,
        f"a GPU copies and computes nothing for {share:.1%} of the window",
        max(exposed),
        "ns in copies that no kernel hides",
        tables.width,
        "ns of the window",
        gain=sum(exposed) / tables.width,
        evidence=lengths.sort_values("duration_ns", ascending=False),
    )


# [starter]
# # Write the rule here: put @rule("exposed-copies", title=…, book=…, advice=…) over the function.
# def exposed_copies(tables: Tables) -> Finding:
#     """Say in one line why the gain is an upper bound."""
#     raise NotImplementedError("measure, compare with a tenth of the window, return a Finding")
#
#
# [end]
def say(capture: Path) -> dict[str, object]:
    """What the rule says about a capture, with the ns of the first three copies of its evidence.

    Given: the grader calls it, so leave it as it is.
    """
    with open_report(capture) as report:
        try:
            found = exposed_copies(Tables(report, "0ms.."))  # the measured part from end to end
        except CannotJudgeError:
            return {"status": "could not judge", "share": None, "gain": None, "evidence": None}
        if not isinstance(exposed_copies, Rule) or exposed_copies.id != "exposed-copies":
            raise TypeError('exposed_copies is no rule yet: put @rule("exposed-copies", title=…) over it')
        said = verdict_of(exposed_copies, found)
    first = [int(row.end_ns - row.start_ns) for row in said.evidence.head(3).itertuples()]
    return {"status": said.status, "share": said.share, "gain": said.gain, "evidence": first}


if __name__ == "__main__":
    from labcode.store import load_set

    for run in ("pageable", "pinned", "pipelined"):
        print(f"{run}: {say(load_set().path_of('memory_timeline', run))}")
