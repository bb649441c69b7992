"""A report in; the same one, which reads each of its tables once, out."""

import functools
from collections.abc import Callable
from typing import TypeVar

from labcode.reports.nsys.report import NsysReport
from labcode.reports.report import TimelineReport
from labcode.reports.texts import remembering

T = TypeVar("T")
KEPT = ("window", "kernels", "memcpys", "memsets", "graph_launches", "gpu_ops", "api", "nvtx", "gpus")


def kept(report: TimelineReport) -> TimelineReport:
    """The report, which from now on keeps the tables that are asked for many times: reading takes long."""
    if isinstance(report, NsysReport):
        report.source.keeps = True
        for name in KEPT:
            method = getattr(report, name)
            if not hasattr(method, "cache_info"):
                setattr(report, name, functools.cache(functools.partial(_remembered, method)))
    return report


def _remembered(method: Callable[[], T]) -> T:
    with remembering():
        return method()
