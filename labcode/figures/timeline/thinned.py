"""A report with too many events for a page in; the same with those joined that nobody could tell apart, out.

Outside of a part that stays as it is, events of a track that begin within the same small stretch of time, and
are shorter than it, become one: it begins with the first, lasts as long as all of them together, and its name
says how many more it stands for. So a page of a million operations keeps its shape, its gaps and its shares.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.timeline.intervals import Window
from labcode.figures.timeline.rows import Report
from labcode.reports.frames import rows_of

_STREAM = ("pid", "device", "context", "stream")
_THREAD = ("pid", "tid")
_KEYS = {
    "kernels": _STREAM,
    "memcpys": _STREAM,
    "memsets": _STREAM,
    "graph_launches": _STREAM,
    "api": _THREAD,
    "nvtx": (*_THREAD, "event_type"),
}
_STRETCHES = (200, 4000)  # of the window, at least and at most


class Thinned:
    """What `labcode.figures.timeline.groups.Report` asks for, with about ``most`` events in ``window``.

    ``whole`` is the part whose events all stay: it begins at ``around`` (ns), and half of ``most`` are in it.
    ``gpu_ops`` are all there, so that shares of idle time are right.
    """

    def __init__(self, report: Report, window: Window, most: int, around: int | None = None) -> None:
        self.report = report
        self._window = window
        tables = {name: _within(getattr(report, name)(), window) for name in _KEYS}
        self.events = sum(map(len, tables.values()))
        tracks = sum(
            table.groupby(list(_KEYS[name])).ngroups if len(table) else 0 for name, table in tables.items()
        )
        count = int(np.clip(most // (2 * max(tracks, 1)), *_STRETCHES))
        self._stretch = max((window[1] - window[0]) // count, 1)
        starts = np.sort(np.concatenate([table["start_ns"].to_numpy(np.int64) for table in tables.values()]))
        first = (
            int(np.searchsorted(starts, around)) if around is not None else max(len(starts) - most, 0) // 2
        )
        last = min(first + most // 2, len(starts) - 1)
        self.whole = (int(starts[first]), int(starts[last])) if len(starts) else window
        self._tables = {name: self._joined(table, _KEYS[name]) for name, table in tables.items()}

    def window(self) -> Window:
        """The window."""
        return self._window

    def kernels(self) -> pd.DataFrame:
        """Kernels, some joined."""
        return self._tables["kernels"]

    def memcpys(self) -> pd.DataFrame:
        """Copies, some joined; ``bytes`` are those of all."""
        return self._tables["memcpys"]

    def memsets(self) -> pd.DataFrame:
        """Memsets, some joined."""
        return self._tables["memsets"]

    def graph_launches(self) -> pd.DataFrame:
        """Graphs, some joined."""
        return self._tables["graph_launches"]

    def gpu_ops(self) -> pd.DataFrame:
        """All operations, as they were."""
        return self.report.gpu_ops()

    def api(self) -> pd.DataFrame:
        """Calls, some joined."""
        return self._tables["api"]

    def nvtx(self) -> pd.DataFrame:
        """Ranges and marks, some joined."""
        return self._tables["nvtx"]

    def threads(self) -> pd.DataFrame:
        """The threads, as they were."""
        return self.report.threads()

    def _joined(self, table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
        if not len(table):
            return table
        start = table["start_ns"].to_numpy(np.int64)
        end = np.maximum(table["end_ns"].fillna(table["start_ns"]).to_numpy(np.int64), start)
        track = table.groupby(list(keys)).ngroup().to_numpy(np.int64)
        order = np.lexsort((start, track))
        start, end, track = start[order], end[order], track[order]
        narrow = (end - start < self._stretch) & ((start < self.whole[0]) | (start > self.whole[1]))
        if "event_type" in table:  # a range without an end goes on to the end of all
            open_ = (table["end_ns"].isna() & (table["event_type"] != "mark")).to_numpy()
            narrow &= ~open_[order]
        place = (start - self._window[0]) // self._stretch
        same = (np.diff(track) == 0) & (np.diff(place) == 0) & narrow[1:] & narrow[:-1]
        first = np.flatnonzero(np.append(True, ~same))
        counts = np.diff(np.append(first, len(order)))
        together = np.add.reduceat(end - start, first)
        until = np.minimum(start[first] + together, np.maximum.reduceat(end, first))
        following = np.append(start[first][1:], until[-1])
        apart = np.append(np.diff(track[first]) != 0, True)
        until = np.where(apart, until, np.minimum(until, np.maximum(following, start[first])))
        joined = counts > 1
        kept: pd.DataFrame = table.iloc[order[first]].reset_index(drop=True)
        ends = kept["end_ns"].astype("Int64").to_numpy(dtype="object", copy=True)
        ends[joined] = until[joined]
        kept["end_ns"] = (
            pd.array(ends, dtype="Int64") if kept["end_ns"].dtype == "Int64" else ends.astype("int64")
        )
        for column in ("name", "short_name"):
            if column in kept and column != "graph_id":
                names = kept[column].to_numpy(object, copy=True)  # what is shared cannot be changed
                names[joined] = [
                    f"{name} and {more:,} more"
                    for name, more in zip(names[joined], counts[joined] - 1, strict=True)
                ]
                kept[column] = pd.Series(names, dtype="str")
        if "bytes" in kept:
            kept["bytes"] = np.add.reduceat(table["bytes"].to_numpy(np.int64)[order], first)
        return kept


def _within(table: pd.DataFrame, window: Window) -> pd.DataFrame:
    end = table["end_ns"].fillna(window[1])
    return rows_of(table, ((end >= window[0]) & (table["start_ns"] <= window[1])).to_numpy(np.bool_))
