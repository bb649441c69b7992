"""What nsys exports hold: a schema version in, whether it can be read out; names and numbers in use.

Facts read off exports of Nsight Systems 2023.4 (schema 3.7), 2024.2 (3.11) and 2025.3 (3.20); 3.24 to 3.27
(2026.x) off its public documentation. A minor version may add, drop or rename a column, so columns are always
looked up.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from labcode.errors import InputError
from labcode.reports.columns import Ints, of_each
from labcode.reports.common import Read

MAJOR = 3
OLDEST_MINOR = 7
NEWEST_MINOR = 27
GRID = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")  # columns of a kernel

READ = (
    Read(
        "Nsight Systems: .sqlite, .nsys.xz",
        f"export schemas {MAJOR}.{OLDEST_MINOR} to {MAJOR}.{NEWEST_MINOR} (nsys 2023.4 to 2026)",
        "EXPORT_SCHEMA_VERSION in the export",
        f"{MAJOR}.{NEWEST_MINOR + 1} and later: read with a warning, columns are looked up by name; "
        f"{MAJOR + 1}.0: refused",
    ),
    Read(
        "Nsight Systems: .nsys-rep",
        "what the nsys on this machine exports",
        "nsys itself",
        "nsys says that it cannot; export it where it was recorded",
    ),
)

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
OSRT = "OSRT_API"
SAMPLES = "COMPOSITE_EVENTS"
SWITCHES = "SCHED_EVENTS"
SAMPLE_STACKS = "SAMPLING_CALLCHAINS"
OSRT_STACKS = "OSRT_CALLCHAINS"
CUDA_STACKS = "CUDA_CALLCHAINS"
CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
MEMORY_USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
MPI = {
    "MPI_P2P_EVENTS": "p2p",
    "MPI_START_WAIT_EVENTS": "start-wait",
    "MPI_OTHER_EVENTS": "other",
    "MPI_COLLECTIVES_EVENTS": "collectives",
}
MPI_RANKS = "MPI_RANKS"
OPENMP = "OPENMP_EVENT_KIND_"  # tables that begin so
OPENACC = "CUPTI_ACTIVITY_KIND_OPENACC_"
COUNTERS = "GPU_METRICS"
COUNTER_NAMES = "TARGET_INFO_GPU_METRICS"
STRINGS = "StringIds"
GPU = "TARGET_INFO_GPU"
CUDA_DEVICE = "TARGET_INFO_CUDA_DEVICE"
THREADS = "ThreadNames"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
DIAGNOSTICS = "DIAGNOSTIC_EVENT"
OVERHEAD = "PROFILER_OVERHEAD"
METADATA = "META_DATA_EXPORT"
OLDER_METADATA = "EXPORT_META_DATA"  # what it is called in 2023.1 (3.1)

# what is cut to a window: work, calls and ranges; not states, such as which thread has a CPU
CUT = frozenset(
    {
        *(KERNEL, MEMCPY, MEMSET, GRAPH, SYNC, RUNTIME, NVTX, OSRT, SAMPLES),
        *(CPU_FAULTS, GPU_FAULTS, OVERHEAD, *MPI),
    }
)
EVENT_TYPES = {34: "mark", 59: "push_pop", 60: "start_end"}  # NVTX_EVENTS.eventType
DOMAIN_CREATED = 75
MARK = 34
ALL_BUT_DOMAINS = f"eventType <> {DOMAIN_CREATED}"
COPY_KINDS = {
    0: "unknown",
    1: "H2D",
    2: "D2H",
    3: "H2A",
    4: "A2H",
    5: "A2A",
    6: "A2D",
    7: "D2A",
    8: "D2D",
    9: "H2H",
    10: "P2P",
    11: "managed H2D",
    12: "managed D2H",
    13: "managed D2D",
}
MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device static",
    6: "managed static",
    7: "unknown",
}
MEMORY_OPERATIONS = {0: "allocation", 1: "deallocation"}  # ENUM_CUDA_DEV_MEM_EVENT_OPER
SYNC_TYPES = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
# ENUM_SAMPLING_THREAD_STATE
THREAD_STATES = {
    0: "unknown",
    1: "running",
    2: "interruptible",
    3: "uninterruptible",
    4: "stopped",
    5: "terminated",
    6: "unscheduled",
    7: "waiting",
    8: "OS runtime",
    9: "initialized",
    10: "transition",
}
BACKTRACE_CLASSES = (67, 68)  # CUPTI_ACTIVITY_KIND_RUNTIME.eventClass: a call's second record, with its stack
SEVERITIES = {1: "info", 2: "warning", 3: "error", 4: "verbose"}

# Columns that no reader can do without: an export whose table lacks one is refused. Any other missing column
# reads as 0, or as missing where the documented dtype of the reader's column is Int64, and a warning names
# it.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    KERNEL: ("start", "end"),
    MEMCPY: ("start", "end", "bytes", "copyKind"),
    MEMSET: ("start", "end", "bytes"),
    GRAPH: ("start", "end"),
    SYNC: ("start", "end"),
    RUNTIME: ("start", "end", "nameId"),
    NVTX: ("start", "end", "eventType"),
    OSRT: ("start", "end", "nameId"),
    SAMPLES: ("id", "start"),
    SWITCHES: ("start", "isSchedIn", "globalTid"),
    **dict.fromkeys((SAMPLE_STACKS, OSRT_STACKS, CUDA_STACKS), ("id", "symbol", "stackDepth")),
    CPU_FAULTS: ("address",),
    GPU_FAULTS: ("address",),
    MEMORY_USAGE: ("start", "bytes", "memKind", "memoryOperationType", "address"),
    **dict.fromkeys(MPI, ("start", "end", "globalTid", "textId")),
    COUNTERS: ("timestamp", "typeId", "metricId", "value"),
    COUNTER_NAMES: ("typeId", "metricId", "metricName"),
    STRINGS: ("id", "value"),
    **dict.fromkeys((METADATA, OLDER_METADATA), ("name", "value")),
}
OPTIONAL = (GPU, CUDA_DEVICE, THREADS, SESSION_START, DIAGNOSTICS, OVERHEAD, MPI_RANKS)

# What an export of an older minor version cannot hold, in the words of the warning.
_SINCE = (
    (11, "whole-graph launches and the profiler's own diagnostics"),
    (20, "which process sees which GPU under which number"),
)


def one_of_many(table: str) -> str | None:
    """The name of a table that nsys splits by the kind of event (``OPENMP_EVENT_KIND_TASK``), else None."""
    name = table.upper()
    return name if re.fullmatch(f"(?:{OPENMP}|{OPENACC})[A-Z_]+", name) else None


@dataclass(frozen=True, order=True)
class SchemaVersion:
    """The version of an export's schema, for instance 3.20.3."""

    major: int
    minor: int
    micro: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.micro}"


def parse_version(text: str) -> SchemaVersion | None:
    """``3.20.3`` as a version; None when the text is none."""
    found = re.fullmatch(r"\s*(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?\s*", text)
    return SchemaVersion(*(int(part or 0) for part in found.groups())) if found else None


def check_version(version: SchemaVersion, product: str, where: str) -> list[str]:
    """Warnings about a version that can be read; `InputError` for one that cannot."""
    made_by = f" (written by nsys {product})" if product else ""
    if version.major > MAJOR:
        raise InputError(
            f"{where}: nsys export schema {version}{made_by} is newer than this version of labcode knows "
            f"({MAJOR}.{NEWEST_MINOR}); update labcode, or export the report again with an older nsys"
        )
    if version.major < MAJOR:
        raise InputError(
            f"{where}: nsys export schema {version}{made_by} is older than labcode reads "
            f"({MAJOR}.{OLDEST_MINOR}); export the .nsys-rep again with Nsight Systems 2023.4 or newer"
        )
    if version.minor > NEWEST_MINOR:
        return [
            f"nsys export schema {version} is newer than the newest one tried ({MAJOR}.{NEWEST_MINOR}): "
            "columns may have changed"
        ]
    warnings = []
    if version.minor < OLDEST_MINOR:
        warnings.append(
            f"nsys export schema {version} is older than the oldest one tried ({MAJOR}.{OLDEST_MINOR}): "
            "columns may be missing"
        )
    lacking = [what for since, what in _SINCE if version.minor < since]
    if lacking:
        warnings.append(f"nsys export schema {version} does not record {'; nor '.join(lacking)}")
    return warnings


_VERSION = re.compile(r"_v\d{4,6}(_ptsz|_ptds)?$")


def api_name(raw: str) -> str:
    """``cudaLaunchKernel`` of ``cudaLaunchKernel_v7000``; ``cuMemcpyHtoD_v2`` stays: that is its name."""
    return _VERSION.sub("", raw)


def pid_of(identifier: Ints) -> Ints:
    """The process of nsys' globalPid or globalTid."""
    return of_each(lambda one: one >> 24 & 0xFFFFFF, identifier)


def tid_of(identifier: Ints) -> Ints:
    """The thread of nsys' globalTid."""
    return of_each(lambda one: one & 0xFFFFFF, identifier)
