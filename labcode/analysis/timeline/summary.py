"""Kernels and API calls by name, copies by direction and memory: tables in, one row for each out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.grouped import group_stats
from labcode.analysis.timeline.joins import duration_ns
from labcode.reports.columns import objects
from labcode.reports.frames import codes_of

_HOST = ("pageable", "pinned", "managed", "managed static")


def kernel_summary(kernels: pd.DataFrame, by: str = "name") -> pd.DataFrame:
    """Kernels by name, the most total time first.

    ``by`` is 'name' (with template arguments) or 'short_name'. Columns: name; count; total_ns (durations
    summed: concurrent kernels count each); share (of the summed time of all kernels); mean_ns, median_ns,
    min_ns, max_ns, std_ns (of a sample; 0 for one kernel).
    """
    return _summary(kernels, by)


def api_summary(api: pd.DataFrame) -> pd.DataFrame:
    """CUDA API calls by name, the most total time first; columns as of `kernel_summary`.

    A driver call inside a runtime call counts in both rows; `api` tells them apart by event_class.
    """
    return _summary(api, "name")


def _summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    codes, names = codes_of(table[by])
    stats = group_stats(codes, duration_ns(table), len(names))
    whole = int(stats.total.sum())
    summary = pd.DataFrame(
        {
            "name": pd.Series(names, dtype="str"),
            "count": stats.count,
            "total_ns": stats.total,
            "share": stats.total / whole if whole else np.full(len(names), np.nan),
            "mean_ns": stats.mean,
            "median_ns": stats.median,
            "min_ns": stats.least,
            "max_ns": stats.greatest,
            "std_ns": stats.std,
        }
    )
    return summary.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)


def transfer_summary(memcpys: pd.DataFrame) -> pd.DataFrame:
    """Copies by kind and host memory, the most bytes first.

    copy_kind ('H2D', 'D2H', 'D2D', …); host_memory ('pageable', 'pinned', 'managed'; '' where neither end is
    on the host); count; bytes; time_ns (durations summed); busy_ns (time with at least one such copy
    running); gb_per_s (bytes by time_ns, that is the rate within a copy; nan when no time passed);
    mean_bytes, median_bytes, min_bytes, max_bytes.
    """
    table = memcpys.assign(host_memory=host_memory(memcpys), time_ns=duration_ns(memcpys))
    rows = []
    for (kind, host), group in table.groupby(["copy_kind", "host_memory"], sort=True):
        size, time = group["bytes"], int(group["time_ns"].sum())
        rows.append(
            {
                "copy_kind": kind,
                "host_memory": host,
                "count": len(group),
                "bytes": int(size.sum()),
                "time_ns": time,
                "busy_ns": intervals.total(group["start_ns"].to_numpy(), group["end_ns"].to_numpy()),
                "gb_per_s": int(size.sum()) / time if time else np.nan,
                "mean_bytes": float(size.mean()),
                "median_bytes": float(size.median()),
                "min_bytes": int(size.min()),
                "max_bytes": int(size.max()),
            }
        )
    summary = pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)
    return summary.sort_values(
        ["bytes", "copy_kind", "host_memory"], ascending=[False, True, True], ignore_index=True
    )


_DTYPES = {
    **dict.fromkeys(("copy_kind", "host_memory"), "str"),
    **dict.fromkeys(("count", "bytes", "time_ns", "busy_ns"), "int64"),
    **dict.fromkeys(("gb_per_s", "mean_bytes", "median_bytes"), "float64"),
    **dict.fromkeys(("min_bytes", "max_bytes"), "int64"),
}


def host_memory(memcpys: pd.DataFrame) -> pd.Series:
    """The kind of memory at the host's end of each copy; '' for copies between devices.

    Of a copy within the host it is the source's, unless only the destination is pageable: that decides the
    speed.
    """
    (source, sources), (target, targets) = (codes_of(memcpys[c]) for c in ("src_kind", "dst_kind"))
    texts = [_host_end(str(one), str(other)) for one in sources for other in targets]
    found = objects(source * len(targets) + target, texts)
    return pd.Series(found, index=memcpys.index, dtype="str")


def _host_end(source: str, target: str) -> str:
    """The kind of memory at the host's end, of a copy between two kinds."""
    source, target = (kind if kind in _HOST else "" for kind in (source, target))
    return target if source == "" or target == "pageable" else source


def bandwidth_changes(moved: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """How fast bytes are moved: ``keys``, start_ns, gb_per_s; a row for each change.

    moved: ``keys``, start_ns, end_ns, bytes. Each row moves its bytes evenly from its start to its end; those
    that run together add up.
    """
    spent = np.maximum(duration_ns(moved), 1)
    speed = moved["bytes"].to_numpy(np.float64) / spent
    begins = moved[[*keys, "start_ns"]].assign(step=speed, running=1)
    ends = begins.assign(start_ns=moved["start_ns"] + spent, step=-speed, running=-1)
    changes = pd.concat([begins, ends], ignore_index=True)
    changes = changes.sort_values([*keys, "start_ns"], kind="stable", ignore_index=True)
    levels = changes.groupby(list(keys))[["step", "running"]].cumsum()
    changes["gb_per_s"] = levels["step"].where(levels["running"] > 0, 0.0)
    return changes.drop(columns=["step", "running"])
