"""What taking a cause out gains: the tables of a capture and two changes of its replay in, a finding out."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from labcode.analysis.ledger.lines import Place
from labcode.analysis.ledger.replay import Gain, Program, call_of
from labcode.analysis.ledger.view import CODE
from labcode.analysis.rules.finding import HIGH, MEDIUM, Finding
from labcode.analysis.rules.tables import Tables
from labcode.analysis.timeline.joins import duration_ns, spans
from labcode.reports.columns import Bools, Floats, Ints
from labcode.show import one_line, percent

Change = Callable[[Program], Program]
FOUND = 0.03  # of an iteration: what gains less is not worth a verdict


def gain_of(tables: Tables, bold: Change, cautious: Change | None, at_most: float) -> Gain:
    """The gain of a change by replay; without a replay from nothing to ``at_most``.

    Predicted is what the bold change saves, which takes the cause out. Without a cautious change the least is
    half of that. No gain is more than ``at_most``: the share
    of the iteration that is owed to the cause, where a rule knows it.
    """
    if at_most < FOUND / 2:
        return Gain(at_most / 2, 0.0, at_most)
    replay = tables.replay
    found = replay.gain(bold, bold if cautious is None else cautious)
    if found is None:
        return Gain(at_most, 0.0, at_most)
    if cautious is None:
        found = Gain(found.share, found.low / 2, found.high)
    top = min(at_most, 1.0)
    return Gain(min(found.share, top), min(found.low, top), min(found.high, top))


def cause(
    tables: Tables,
    gain: Gain,
    message: str,
    spent_ns: float,
    name: str,
    evidence: pd.DataFrame,
    *,
    enough: bool = True,
    least: float = FOUND,
    advice: str = "",
    owner: str = "",
    certain: bool = True,
) -> Finding:
    """A finding with a predicted gain; found where that is worth it and the rule has seen enough.

    More than medium is nothing that was seen in one iteration alone, which may well be a first one, nor what
    is not ``certain``.
    ``owner`` is what of the ledger the cause is about. Where the worst GPU alone has it and the others wait
    for that one, no more is gained than they wait.
    """
    if owner in ("host-code", "launch") and tables.contended[2] >= 50:  # what another thread costs is told so
        most = 0.9 * tables.contended[0]
        gain = Gain(min(gain.share, 0.9 * most), min(gain.low, most / 2), gain.high)
    wait = tables.lateness(owner)
    if wait is not None:
        gain = Gain(min(gain.share, 0.9 * wait), min(gain.low, wait / 2), min(gain.high, wait))
    capped = gain.share >= HIGH and gain.low >= MEDIUM and (tables.first or not certain)
    return Finding(
        enough and gain.share >= least,
        message,
        spent_ns,
        name,
        tables.width,
        "ns of the window",
        gain.share,
        evidence,
        "medium" if capped else "",
        low=gain.low,
        high=gain.high,
        advice=advice,
    )


def places(tables: Tables, *owners: str) -> pd.DataFrame:
    """Where in the program the time of owners was caused, the most first: as `Ledger.places`."""
    return tables.ledger.places(*owners)


def told_places(found: pd.DataFrame, most: int = 2) -> str:
    """The first places in words, with what they take: “in `train`, train.py:14 (2.9 ms)”; '' for none."""
    parts = []
    whole = max(float(found["total_ns"].sum()), 1.0) if len(found) else 1.0
    for place, range_, total in zip(found["place"], found["range"], found["total_ns"], strict=True):
        where = place or (f"in “{one_line(range_)}”" if range_ else "")
        if where and total >= 0.1 * whole:
            also = f", “{one_line(range_)}”" if place and range_ else ""
            parts.append(f"{percent(total / whole)} of that {where}{also}")
        if len(parts) == most:
            break
    return ", ".join(parts)


def told_lines(found: Sequence[tuple[Place, float]], most: int = 2) -> str:
    """The first lines of the program in words; '' for none."""
    return ", ".join(
        f"{percent(share)} of that {one.text}" for one, share in found[:most] if one.text and share >= 0.1
    )


def lines_of_idle(tables: Tables, *owners: str) -> str:
    """Where the program was in the idle time of owners, by samples of its thread, in words."""
    pieces = tables.ledger.pieces
    mine = pieces[np.isin(pieces["owner"].to_numpy(np.int64), [CODE[one] for one in owners])]
    host = tables.replay.host
    return told_lines(tables.lines.spread(host.pid, host.main, *spans(mine)))


def lines_of_kernels(tables: Tables, ops: pd.DataFrame) -> str:
    """Which lines launched some operations of the view (by its index), by their time, in words.

    Those of the main thread where it launched any: what autograd's thread launches has the line of
    backward().
    """
    if not len(ops) or not tables.lines.known:
        return ""
    row = tables.view.row[ops.index.to_numpy(np.int64)]
    return lines_of_calls(tables, row[row >= 0], duration_ns(ops)[row >= 0].astype(np.float64))


def lines_of_calls(tables: Tables, rows: Ints, spent: Floats) -> str:
    """Which lines made some calls (rows of ``api``), by what each is to count, in words; as above."""
    if not len(rows) or not tables.lines.known:
        return ""
    calls, host = tables.api.iloc[rows], tables.replay.host
    mine = (calls["tid"] == host.main).to_numpy()
    if mine.any():
        calls, spent = calls[mine], spent[mine]
    start = calls["start_ns"].to_numpy(np.int64)
    return told_lines(tables.lines.launched(host.pid, host.main, start, spent, tables.repeated))


def owned(tables: Tables, program: Program, *owners: str) -> Bools:
    """Which operations of a program are of some owners."""
    return np.isin(tables.view.owner[program.op], [CODE[one] for one in owners])


def op_sizes(tables: Tables, program: Program) -> Ints:
    """The bytes of each operation of a program, 0 where it has none."""
    return tables.view.ops["bytes"].take(program.op).fillna(0).to_numpy(np.int64)


def calls_of_ops(program: Program, ops: Bools) -> Bools:
    """Which calls launched some operations."""
    found = np.zeros(len(program.row), np.bool_)
    found[call_of(program)[ops]] = True
    return found
