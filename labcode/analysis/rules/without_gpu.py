"""A trace of a program that used no GPU in; what its host did, in words, out."""

from collections.abc import Iterator

import pandas as pd

from labcode.analysis.timeline.host import (
    OWN,
    double_ns,
    extent_ns,
    host_lines,
    operators,
    place,
    short_operators,
    updates,
)
from labcode.reports.kineto.report import KinetoReport
from labcode.show import one_line, time_text

RANKS = 4  # that are told of
OPERATORS = 3
SHARE = 0.05  # of the time, of a line that is told
DOUBLE = 0.25  # of the operators' time
LINES = 3
# what is called to run or train a model: a module, autograd, an optimizer
MODEL = r"[A-Z]\w*_\d+|\w+, torch/(?:_tensor|autograd/\w+|optim/\w+)\.py:\d+"
MANY, SHORT_NS, MOST = 1000, 50_000, 0.5  # operators of a function; recorded: in the mean; of the time


def host_sentences(report: KinetoReport) -> Iterator[str]:
    """Where the most of each rank's time went, a line each; of no more than `RANKS`. None without Python.

    What runs or trains a model comes last, for that is what the program is for. Of a single rank first what
    all of it suffers from: too many threads for the cores, float64, operators too short for what it costs to
    call them. Then the operators that took the most are told, too.
    """
    table, found = host_lines(report), operators(report)
    several = "rank" in table
    if not several:
        yield from _threads(report)
        yield from _double(report, int(found.sum()))
        yield from _short(report)
    for rank in list(report.ranks)[:RANKS]:
        mine = table[table["rank"] == rank].drop(columns="rank") if several else table
        much = mine[mine["share"] >= SHARE]
        model = much["calls"].str.fullmatch(MODEL).to_numpy(bool)
        top = _by_function(pd.concat([much[~model], much[model]])).head(LINES)
        parts = [
            f"{share:.0%} in {calls}, {'of' if calls == OWN else 'called by'} {where}"
            for where, calls, _, share in top.itertuples(index=False, name=None)
        ]
        if parts:
            length = time_text(extent_ns(report, rank))
            who = f"rank {rank}" if several else "the program"
            window = updates(report, rank)
            between = f", {window[2]:,} iterations after the optimizer’s first update," if window else ""
            yield f"Of {length}{between} {who} spends {'; '.join(parts)}."
    if not several:
        most = found[found > 0].head(OPERATORS)
        told = ", ".join(f"{one_line(str(name), 60)} {time_text(ns)}" for name, ns in most.items())
        if told:
            whole = time_text(found.sum())
            yield f"The operators with the most time of their own: {told}; of {whole} in all."
    if several and len(report.ranks) > RANKS:
        yield f"So much for {RANKS} of {len(report.ranks)} ranks; labcode stats -r host_lines has all."


def _by_function(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `host_lines`; those of one function that call the same thing are one, with its lines."""
    parts = rows["where"].str.extract(r"(?P<function>.*:)(?P<line>\d+)")
    key = parts["function"].fillna(rows["where"])
    lines = parts["line"].fillna("").groupby([key, rows["calls"]], sort=False).agg(list)
    summed = rows.groupby([key, rows["calls"]], sort=False)[["self_ns", "share"]].sum()
    told = [", ".join(sorted(of, key=int)) if of[0] else "" for of in lines.tolist()]
    found = summed.reset_index(names=["where", "calls"])
    return found.assign(where=found["where"] + pd.Series(told, dtype="str"))[
        ["where", "calls", "self_ns", "share"]
    ]


def _threads(report: KinetoReport) -> Iterator[str]:
    """That PyTorch computes with more threads than the program may run at once; or with one of many."""
    told = report.metadata().get("computing")
    if not isinstance(told, dict):
        return
    threads, cores = (told.get(name) for name in ("threads", "cores"))
    if not isinstance(threads, int) or not isinstance(cores, int) or cores < 1:
        return
    if threads > cores:
        yield (
            f"PyTorch computes with {threads} threads on {cores} cores, where threads wait for each other’s "
            f"turn: torch.set_num_threads({cores}), or OMP_NUM_THREADS={cores}."
        )
    elif threads == 1 and cores > 1:
        yield (
            f"PyTorch computes with 1 thread, {cores} cores are there: more help where operators take the "
            "time (torch.set_num_threads)."
        )


def _short(report: KinetoReport) -> Iterator[str]:
    """That a function of the program's spends its time on many operators too short for what a call costs."""
    for where, count, mean, share in short_operators(report):
        if count >= MANY and mean < SHORT_NS and share >= MOST:
            yield (
                f"{share:.0%} of the time {place(where)} is at {count:,} operators of {time_text(mean)} in "
                "the mean, of which most is the calling: give each more to do, all items or steps at once in "
                "place of a loop."
            )


def _double(report: KinetoReport, whole: int) -> Iterator[str]:
    """That a good part of the operators' time is that of operators with float64 in."""
    share = double_ns(report) / max(whole, 1)
    if share >= DOUBLE:
        yield (
            f"{share:.0%} of the operators’ time is computing in float64, with twice the bytes and half the "
            "rate of float32: NumPy’s arrays are float64 unless told otherwise (torch.from_numpy(a).float())."
        )
