"""Which kernel of one capture is which of another: two tables of kernels in, pairs of names out.

Kernels of the same name are the same kernel. Of those that only one capture holds, two are taken for one
that was renamed when their names resemble each other, without template arguments and with them, and they
either are launched with the same grid and block or stand between the same two kernels in their stream. That
is a guess, and every table marks it as one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import pandas as pd

ALIKE = 0.6  # how much of two names must be the same, from 0 to 1
_LONGEST = 400  # characters of a name that are looked at
_MOST = 200  # unmatched names on either side, those with the most time
_CONFIGURATION = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]


@dataclass(frozen=True)
class _Traits:
    configuration: tuple[int, ...]
    neighbors: tuple[str, str]


def renamed_kernels(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, str]:
    """Old name → new name of kernels that look renamed; takes two tables of ``NsysReport.kernels``."""
    held = [set(side["name"].unique()) for side in (before, after)]
    common = held[0] & held[1]
    if common in held:  # all that one has the other has, too
        return {}
    gone, new = _only(before, common), _only(after, common)
    old, young = _traits(before, gone, common), _traits(after, new, common)
    candidates = []
    for one in gone:
        for other in new:
            score = _score(one, other, old[one], young[other])
            if score > 0:
                candidates.append((-score, one, other))
    pairs: dict[str, str] = {}
    taken: set[str] = set()
    for _, one, other in sorted(candidates):
        if one not in pairs and other not in taken:
            pairs[one] = other
            taken.add(other)
    return pairs


def strip_templates(name: str) -> str:
    """The name without template arguments and parameters: ``lab::scale`` of ``void lab::scale<float,
    4>(float*)``.
    """
    name = name.replace("(anonymous namespace)", "{anonymous}")
    kept, depth = [], 0
    for character in name:
        if character in "<([":
            depth += 1
        elif character in ">)]":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(character)
    words = "".join(kept).split()
    return words[-1] if words else name


def renamed_transfers(
    before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Copies that go on with another memory: (kind, memory) → bytes of both in, the pairs out."""
    gone = [key for key in before if key not in after]
    new = [key for key in after if key not in before]
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for one in sorted(gone):
        same = [k for k in sorted(new) if k[0] == one[0] and after[k] == before[one]]
        if same and same[0] not in pairs.values():
            pairs[one] = same[0]
    return pairs


def _only(kernels: pd.DataFrame, common: set[str]) -> list[str]:
    """Names that this capture alone has, those with the most time."""
    own = kernels[~kernels["name"].isin(common)]
    time = (own["end_ns"] - own["start_ns"]).groupby(own["name"]).sum()
    return [str(name) for name in time.sort_values(ascending=False, kind="stable").index[:_MOST]]


def _traits(kernels: pd.DataFrame, names: list[str], common: set[str]) -> dict[str, _Traits]:
    """The usual launch configuration of each kernel and the known kernels before and after it."""
    order = kernels.sort_values(["pid", "device", "context", "stream", "start_ns"], kind="stable")
    known = order["name"].where(order["name"].isin(common))
    stream = [order[c] for c in ("pid", "device", "context", "stream")]
    earlier = known.groupby(stream).ffill().fillna("")
    later = known.groupby(stream).bfill().fillna("")
    traits = {}
    for name in names:
        mine = np.flatnonzero((order["name"] == name).to_numpy())
        configurations = order.iloc[mine][_CONFIGURATION].value_counts(sort=True)
        around = pd.DataFrame({"earlier": earlier.iloc[mine], "later": later.iloc[mine]}).value_counts()
        traits[name] = _Traits(
            tuple(int(n) for n in np.atleast_1d(configurations.index[0])),
            (around.index[0][0], around.index[0][1]),
        )
    return traits


def _score(one: str, other: str, old: _Traits, young: _Traits) -> float:
    """How much speaks for a new name of the same kernel; 0: too little."""
    launched = old.configuration == young.configuration
    placed = old.neighbors == young.neighbors and old.neighbors != ("", "")
    if not launched and not placed:
        return 0.0
    base = _alike(strip_templates(one), strip_templates(other))
    whole = _alike(one, other) if base >= ALIKE else 0.0
    if min(base, whole) < ALIKE:
        return 0.0
    return base + whole + 0.5 * launched + 0.5 * placed


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    matcher = SequenceMatcher(None, one[:_LONGEST], other[:_LONGEST], autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE else 0.0
