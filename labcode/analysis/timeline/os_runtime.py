"""Calls of the operating system in; the time in each class of call by thread, and what they hold up, out."""

import re

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Window

# Classes of calls, by name; the first that matches counts.
CLASSES: dict[str, str] = {
    "read": r"f?read(?:_unlocked)?|readv|pread(?:64|v)?|preadv(?:64)?2?|fgets|fgetc|getline|fscanf",
    "write": r"f?write(?:_unlocked)?|writev|pwrite(?:64|v)?|pwritev(?:64)?2?|fputs|fputc|fprintf"
    r"|sendfile(?:64)?",
    "sync": r"f?sync|fdatasync|msync|syncfs|sync_file_range|fflush",
    "socket": r"recv\w*|send\w*|accept4?|connect|bind|listen|socket(?:pair)?|shutdown|[gs]etsockopt",
    "poll": r"p?poll|epoll_\w+|p?select",
    "lock": r"pthread_(?:mutex|cond|rwlock|spin|barrier)_\w+|sem_\w+|flock|lockf(?:64)?|futex",
    "sleep": r"u?sleep|(?:clock_)?nanosleep|pause|sigwait\w*|sigsuspend",
    "file": r"f?(?:open(?:64)?|openat(?:64)?|reopen(?:64)?|close|dopen)|[fl]?stat(?:at)?(?:64)?|statx|access"
    r"|unlink(?:at)?|rename|mkdir|opendir|readdir(?:64)?|[fl]seek\w*|fcntl(?:64)?|dup[23]?"
    r"|posix_fadvise(?:64)?|ftruncate(?:64)?|pipe2?",
    "memory": r"m(?:un|re)?map(?:64)?|mprotect|madvise|m(?:un)?lock(?:all)?|s?brk|shm_\w+",
    "process": r"v?fork|clone3?|exec\w*|wait\w*|posix_spawn\w*|kill|system|popen|pclose"
    r"|pthread_(?:create|join|exit|kill|tryjoin_np)",
    "ioctl": r"ioctl",
}
WAITING = ("lock", "sleep", "poll", "process")  # classes in which a thread waits for another one, or for time
_PATTERNS = {name: re.compile(pattern) for name, pattern in CLASSES.items()}
_PARKED_SHARE = 0.95  # of the window


def call_class(name: str) -> str:
    """The class of a call by its name; 'other' for those of none."""
    plain = name.lstrip("_")
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(plain)), "other")


def classified(osrt: pd.DataFrame, window: Window | None = None) -> pd.DataFrame:
    """The calls with their class, and within a window cut off at its ends; without nsys' marks of no length.

    The columns of `NsysReport.osrt` and call_class, duration_ns.
    """
    calls = osrt[osrt["end_ns"] > osrt["start_ns"]]
    if window is not None:
        calls = calls[(calls["start_ns"] < window[1]) & (calls["end_ns"] > window[0])]
        calls = calls.assign(
            start_ns=calls["start_ns"].clip(lower=window[0]), end_ns=calls["end_ns"].clip(upper=window[1])
        )
    kinds = {name: call_class(name) for name in calls["name"].unique()}
    return calls.assign(
        call_class=calls["name"].map(kinds).astype("str"), duration_ns=calls["end_ns"] - calls["start_ns"]
    ).reset_index(drop=True)


def class_summary(calls: pd.DataFrame, by: str = "call_class") -> pd.DataFrame:
    """Time in each class of call (or, with ``by="name"``, in each call) on each thread, the most first.

    pid, tid, the column ``by``; calls; total_ns (the sum of their durations, calls inside of traced calls
    left out); covered_ns (the time in at least one of them); longest_ns. ``calls`` is of `classified`.
    """
    rows = []
    for key, part in calls.groupby(["pid", "tid", by], sort=False):
        outer = part[part["nesting"] == 0]
        covered = intervals.total(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
        longest = int(part["duration_ns"].max())
        rows.append((*key, len(part), int(outer["duration_ns"].sum()), covered, longest))
    columns = ["pid", "tid", by, "calls", "total_ns", "covered_ns", "longest_ns"]
    table = pd.DataFrame(rows, columns=columns).astype({c: "str" if c == by else "int64" for c in columns})
    return table.sort_values(["covered_ns", "calls"], ascending=False, kind="stable", ignore_index=True)


def parked_threads(calls: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Threads that spent nearly all of the window in one call, as idle threads of a pool do: pid, tid, name.

    They wait because nobody needs them, so they hold nothing up.
    """
    width = window[1] - window[0]
    long = calls[(calls["duration_ns"] >= _PARKED_SHARE * width) & (width > 0)]
    return long[["pid", "tid", "name"]].drop_duplicates(["pid", "tid"]).reset_index(drop=True)


def during_gaps(calls: pd.DataFrame, gaps: pd.DataFrame, window: Window) -> pd.DataFrame:
    """What threads were doing in the OS while a GPU was idle, the most first; parked threads are left out.

    pid, tid, name, call_class; calls (that overlap a gap); overlap_ns (time of gaps in at least one such
    call); gap_share (of all gap time, of any GPU). ``gaps`` has start_ns and end_ns, as `idle_gaps` gives.
    """
    parked = set(parked_threads(calls, window)[["pid", "tid"]].itertuples(index=False, name=None))
    start, end = intervals.union(gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy())
    whole = int((end - start).sum())
    rows = []
    for key, part in calls.groupby(["pid", "tid", "name", "call_class"], sort=False):
        if key[:2] in parked:
            continue
        low, high = part["start_ns"].to_numpy(), part["end_ns"].to_numpy()
        overlap = intervals.covered_within(start, end, low, high)
        if overlap.any():
            covered = intervals.total(*intervals.intersect(low, high, start, end))
            rows.append((*key, int((overlap > 0).sum()), covered, covered / whole if whole else np.nan))
    columns = ["pid", "tid", "name", "call_class", "calls", "overlap_ns", "gap_share"]
    types = {"name": "str", "call_class": "str", "gap_share": "float64"}
    table = pd.DataFrame(rows, columns=columns).astype({c: types.get(c, "int64") for c in columns})
    return table.sort_values("overlap_ns", ascending=False, kind="stable", ignore_index=True)


def working_threads(nvtx: pd.DataFrame, api: pd.DataFrame) -> pd.DataFrame:
    """Threads that are known to do work, pid and tid: those with ranges of their own or calls of CUDA."""
    ranges = nvtx[nvtx["event_type"].isin(["push_pop", "start_end"])]
    both = pd.concat([ranges[["pid", "tid"]], api[["pid", "tid"]]])
    return both.drop_duplicates().sort_values(["pid", "tid"], ignore_index=True)


def working_first(found: pd.DataFrame, working: pd.DataFrame) -> pd.DataFrame:
    """Rows by thread, those of working threads first, otherwise in the order they have; with a column works.

    Of idle helpers that wait in several calls, which `parked_threads` does not know, the time says nothing:
    they wait as long as everybody else does, and for nothing that the GPU needs.
    """
    known = pd.MultiIndex.from_frame(working)
    works = pd.MultiIndex.from_frame(found[["pid", "tid"]]).isin(known)
    return found.assign(works=works).sort_values("works", ascending=False, kind="stable", ignore_index=True)
