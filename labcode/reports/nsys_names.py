"""Names as nsys writes them: a CUDA API function's with its version suffix in, without it out."""

from __future__ import annotations

import re

_VERSION = re.compile(r"_v\d{4,6}(_ptsz|_ptds)?$")


def api_name(raw: str) -> str:
    """``cudaLaunchKernel`` of ``cudaLaunchKernel_v7000``; ``cuMemcpyHtoD_v2`` stays: that is its name."""
    return _VERSION.sub("", raw)
