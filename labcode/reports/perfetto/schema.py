"""What is read of a trace of Perfetto: numbers of fields, and which categories are which kind of event.

The numbers are those of Perfetto's ``trace_packet.proto``, ``track_event.proto``, ``track_descriptor.proto``,
``interned_data.proto``, ``debug_annotation.proto`` and ``clock_snapshot.proto`` (2025).
"""

from collections.abc import Mapping

from labcode.reports.common import Read
from labcode.reports.kineto.schema import ARGS, KINDS

READ = (
    Read(
        "Perfetto: .pftrace",
        "track events and their descriptors, as of 2025",
        "nothing: fields have numbers",
        "read; packets and fields that are not known are counted and left out",
    ),
)

BEGIN, END, INSTANT, COUNTER, WHOLE = 1, 2, 3, 4, 5  # types of events; the last: begun and ended in one
PHASES: Mapping[int, int] = {  # of older writers
    ord("B"): BEGIN,
    ord("E"): END,
    ord("X"): WHOLE,
    ord("I"): INSTANT,
    ord("i"): INSTANT,
    ord("R"): INSTANT,
    ord("C"): COUNTER,
}
BOOT, REALTIME = 6, 1  # clocks
OWN_CLOCKS = range(64, 128)  # those of one sequence of packets alone
CLEARED, NEEDED = 1, 2  # flags of a sequence

# Packets that hold no events and take nothing from them: of configuration, statistics, clocks, names.
PLAIN = frozenset((5, 6, 12, 33, 34, 35, 36, 43, 44, 45, 46, 59, 60, 69, 72, 89, 2, 9, 47, 92, 95))
OTHERS: Mapping[int, str] = {
    1: "ftrace events",
    37: "heap profiles",
    38: "battery counters",
    39: "Android logs",
    40: "power rails",
    52: "GPU counters",
    53: "GPU render stages",
    54: "samples of stacks",
    56: "heap graphs",
    57: "graphics frames",
    61: "Vulkan's memory",
    65: "Vulkan's calls",
    66: "samples of stacks",
    71: "GPU memory",
}

GRAPH = "graph"
COMPUTED = "critical path"  # which timelines of this project add
CATEGORIES: Mapping[str, str] = {  # besides those of torch.profiler
    **{name: kind for name, kind in KINDS.items() if name},
    "api": "runtime",
    "nvtx": "annotation",
    "graph": GRAPH,
    "kernel_dispatch": "kernel",
    "gpu_kernel": "kernel",
    "memory_copy": "memcpy",
    "hip_api": "runtime",
    "hip_runtime_api": "runtime",
    "cuda_api": "runtime",
    "marker_api": "annotation",
    "roctx": "annotation",
}
ON_GPU = frozenset(("kernel", "memcpy", "memset", "sync", "gpu_annotation", GRAPH))
FIELDS_OF: Mapping[str, str] = {  # names of arguments → fields
    **{member: name for member, (name, _) in ARGS.items() if name != "label"},
    "shared bytes": "shared",
    "graph node": "graph_node",
    "corr_id": "correlation",
    "correlation_id": "correlation",
    "correlation id": "correlation",
    "stream_id": "stream",
    "stream_ID": "stream",
    "size": "bytes",
}
