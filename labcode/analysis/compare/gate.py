"""Gates of a comparison: words such as ``period:step*`` and a limit in; what became slower by more out.

A gate names what the users of a program wait for. Everything else explains: where a change moves work from
one kernel to another, some kernel is always slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pandas as pd

from labcode.analysis.compare.tables import COLUMNS, Comparison
from labcode.errors import LabError

KINDS = {
    "total": "total",
    "kernel": "kernel",
    "range": "range",
    "gpu-range": "range on the GPU",
    "period": "period",
    "transfer": "copy",
}
ONLY = {
    "totals": ("total",),
    "kernels": ("kernel",),
    "ranges": ("range", "range on the GPU", "period"),
    "transfers": ("copy",),
}
_LISTED = 12
_LONGEST = 60


@dataclass(frozen=True)
class Judged:
    """What gates say: the rows that became slower by more than the limit; all rows that were gated.

    Both have a column kind before `COLUMNS`. ``unjudged`` of the gated rows have no interval.
    """

    failed: pd.DataFrame
    gated: pd.DataFrame

    @property
    def unjudged(self) -> pd.DataFrame:
        """The gated rows that have no interval: new, vanished, or too few instances."""
        return self.gated[self.gated["ratio_low"].isna()]


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The kinds of tables that words of ``--only`` stand for; all of them for no word."""
    for word in only:
        if word not in ONLY:
            raise LabError(f"--only {word}: choose one of {', '.join(ONLY)}")
    wanted = {kind for word in (only or ONLY) for kind in ONLY[word]}
    return tuple(kind for kind in KINDS.values() if kind in wanted)


def parse(gates: Sequence[str]) -> list[tuple[str, str]]:
    """(kind of table, pattern) of each gate; `LabError` for one that is not KIND:NAME-GLOB."""
    found = []
    for gate in gates:
        kind, colon, pattern = gate.partition(":")
        if kind not in KINDS or (colon and not pattern):
            raise LabError(
                f"--gate {gate}: write KIND:NAME, with a kind of {', '.join(KINDS)} and a name in which * "
                "stands for anything, for instance period:step*"
            )
        found.append((KINDS[kind], pattern or "*"))
    return found


def judge(comparison: Comparison, gates: Sequence[str], percent: float) -> Judged:
    """Judge by gates: only what one of them names can fail.

    Raises `LabError` for a gate that is none, that matches nothing (it lists what there is), or of which no
    row can be judged, for want of instances or of a counterpart: no answer is not a pass.
    """
    parts = []
    for gate, (kind, pattern) in zip(gates, parse(gates), strict=True):
        table = comparison.tables[kind]
        rows = table[_matching(kind, table, pattern)]
        if rows.empty:
            raise LabError(f"--gate {gate} matches nothing; {_there_is(kind, table)}")
        if rows["ratio_low"].isna().all():
            raise LabError(f"--gate {gate} cannot be judged: {_why(rows)}")
        parts.append(rows.assign(kind=kind))
    gated = pd.concat(parts, ignore_index=True).drop_duplicates(["kind", "name", "name_before"])
    gated = gated[["kind", *COLUMNS]].reset_index(drop=True)
    failed = gated[gated["ratio_low"] > 1 + percent / 100]
    return Judged(failed.reset_index(drop=True), gated)


def _matching(kind: str, table: pd.DataFrame, pattern: str) -> list[bool]:
    """Which rows a pattern names, by the name of either side; copies also by their direction alone."""

    def fits(name: str) -> bool:
        names = (name, name.split(" ")[0]) if kind == "copy" else (name,)
        return bool(name) and any(one == pattern or fnmatchcase(one, pattern) for one in names)

    return [fits(new) or fits(old) for new, old in zip(table["name"], table["name_before"], strict=True)]


def _there_is(kind: str, table: pd.DataFrame) -> str:
    word = next(word for word, own in KINDS.items() if own == kind)
    if table.empty:
        return f"the captures hold nothing of the kind {word}"
    names = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in table["name"]]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"of the kind {word} there are: {', '.join(names[:_LISTED])}{more}"


def _why(rows: pd.DataFrame) -> str:
    reasons = ", ".join(
        f"{name} is {verdict!r}" for name, verdict in rows[["name", "verdict"]].to_numpy()[:3]
    )
    return (
        f"{reasons}{' …' if len(rows) > 3 else ''}; record more instances, or gate on what both captures hold"
    )
