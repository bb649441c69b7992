"""The report on memory that CUDA handed out: an open capture in, a table out."""

import pandas as pd

from labcode.analysis.memory import usage
from labcode.reports.nsys.report import NsysReport

_NAMES = {
    "pid": "PID",
    "device": "GPU",
    "allocations": "Allocations",
    "frees": "Frees",
    "start_bytes": "At Start (bytes)",
    "peak_bytes": "Peak (bytes)",
    "end_bytes": "At End (bytes)",
    "largest_bytes": "Largest (bytes)",
    "peak_ns": "Time of Peak (ns)",
    "mem_kind": "Memory",
}


def cuda_memory_usage(report: NsysReport) -> pd.DataFrame:
    """Memory that CUDA handed out: PID, GPU, Allocations, Frees, At Start … Time of Peak, Memory.

    What programs asked of CUDA, by kind of memory, in the measured part; of what PyTorch's allocator keeps in
    its pool, a history of that allocator tells.
    """
    return usage.summary(report).rename(columns=_NAMES)[list(_NAMES.values())]
