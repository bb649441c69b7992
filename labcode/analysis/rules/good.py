"""Whether a steady state is good, and what bounds it next: the ledger and all verdicts in, a verdict out."""

from collections.abc import Sequence

from labcode.analysis.rules.finding import HIGH, CannotJudgeError, Verdict
from labcode.analysis.rules.tables import Tables
from labcode.show import percent

ID = "good"
TITLE = "The steady state is good"
FEWEST = 8  # operations where nothing repeats, or once: of fewer nothing is said
UNEXPLAINED = 0.15  # of an iteration: idle time that no verdict explains
_BOUNDS = {
    "matmul": "the rate of the tensor cores: larger tiles of work, fewer bits, fewer operations",
    "no-tensor-cores": "the rate of the ordinary cores in fp32",
    "attention": "the rate of attention: shorter sequences, a newer kernel, fewer bits",
    "communication": "the link between the GPUs: fewer bytes",
    "copy-in": "the link to the host: fewer bytes",
    "copy-out": "the link to the host: fewer bytes",
}
_MEMORY = "the bandwidth of the memory: fewer bytes, fewer passes over the data"


def good(tables: Tables, verdicts: Sequence[Verdict]) -> Verdict:
    """Good is a steady state in which no verdict is more than low or promises a quarter, and little is idle.

    Numerator: the time in which the GPU computes. There is nothing to gain that the rules know of.
    """
    try:
        tables.need_busy()
        tables.need_kernels()
        ledger = tables.ledger
    except (CannotJudgeError, IndexError) as missing:
        return Verdict(ID, TITLE, "could not judge", f"could not judge: {missing}")
    if tables.count < 2 and len(tables.work) < FEWEST:
        count = len(tables.work)
        told = f"{count} operation{'s' * (count > 1)} in all, and nothing repeats: that is no steady state"
        return Verdict(ID, TITLE, "could not judge", f"could not judge: {told}")
    causes = [one for one in verdicts if one.status == "found" and one.predicted and one.gain]
    most = max(causes, key=lambda one: one.gain or 0.0, default=None)
    computing, idle = ledger.side("computing"), ledger.side("idle") + ledger.side("moving")
    is_good = (
        all(one.severity == "low" and (one.gain or 0.0) < HIGH for one in causes)
        and idle < (UNEXPLAINED + 0.05) * ledger.each_ns
    )
    table = ledger.table
    busy = table[table["side"] != "idle"].sort_values("total_ns", ascending=False)
    first = str(busy["owner"].iloc[0]) if len(busy) else ""
    bound = _BOUNDS.get(first, _MEMORY)
    what = "an iteration" if tables.count else "the window"
    message = f"the GPU computes for {percent(computing / max(ledger.each_ns, 1))} of {what}"
    if most is not None:
        message += f"; the most that a verdict predicts is {percent(most.gain or 0.0)} ({most.rule})"
    if is_good:
        share = float(busy["share"].iloc[0]) if len(busy) else 0.0
        message += f"; what bounds it next is {bound} ({busy['title'].iloc[0]}: {percent(share)})"
    return Verdict(
        ID,
        TITLE,
        "found" if is_good else "not found",
        message,
        "info" if is_good else "",
        computing * ledger.count,
        "ns in which the worst GPU computes",
        float(max(ledger.whole_ns, 1)),
        "ns of the iterations",
        None,
        table,
        "foundations/measuring",
        "Change something only for a reason of its own; compare with a measurement what you change."
        if is_good
        else "",
    )
