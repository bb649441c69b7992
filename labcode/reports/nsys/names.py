"""Names and identifiers as nsys writes them: a function's name or a globalTid in, its parts out."""

import re

from labcode.reports.columns import Ints

_VERSION = re.compile(r"_v\d{4,6}(_ptsz|_ptds)?$")


def api_name(raw: str) -> str:
    """``cudaLaunchKernel`` of ``cudaLaunchKernel_v7000``; ``cuMemcpyHtoD_v2`` stays: that is its name."""
    return _VERSION.sub("", raw)


def pid_of(identifier: Ints) -> Ints:
    """The process of nsys' globalPid or globalTid."""
    return identifier >> 24 & 0xFFFFFF


def tid_of(identifier: Ints) -> Ints:
    """The thread of nsys' globalTid."""
    return identifier & 0xFFFFFF
