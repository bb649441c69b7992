"""The columns of the tables that learners get, with the types and defaults that made-up rows take.

They are the columns of `labcode.reports.nsys.report`; a test holds the two together.
"""

from typing import Any

_INT: tuple[str, Any] = ("int64", 0)
_MAYBE: tuple[str, Any] = ("Int64", None)
_TEXT: tuple[str, Any] = ("str", "")

_WHERE = {
    "pid": ("int64", 4000),
    "device": _INT,
    "context": ("int64", 1),
    "stream": ("int64", 7),
    "correlation": _INT,
}
_TIMES = {"start_ns": _INT, "end_ns": _INT}

TABLES: dict[str, dict[str, tuple[str, Any]]] = {
    "gpu_ops": {
        "kind": ("str", "kernel"),
        "name": _TEXT,
        **_TIMES,
        **_WHERE,
        "bytes": _MAYBE,
        "short_name": _TEXT,
        "graph_node": _MAYBE,
    },
    "kernels": {
        **_TIMES,
        **_WHERE,
        "name": _TEXT,
        "short_name": _TEXT,
        "grid_x": ("int64", 8),
        "grid_y": ("int64", 1),
        "grid_z": ("int64", 1),
        "block_x": ("int64", 256),
        "block_y": ("int64", 1),
        "block_z": ("int64", 1),
        "registers_per_thread": ("int64", 32),
        "static_shared_bytes": _INT,
        "dynamic_shared_bytes": _INT,
        "graph_node": _MAYBE,
    },
    "memcpys": {
        **_TIMES,
        **_WHERE,
        "bytes": _INT,
        "copy_kind": ("str", "H2D"),
        "src_kind": ("str", "pinned"),
        "dst_kind": ("str", "device"),
        "graph_node": _MAYBE,
    },
    "api": {
        **_TIMES,
        "pid": ("int64", 4000),
        "tid": ("int64", 4000),
        "correlation": _INT,
        "name": ("str", "cudaLaunchKernel"),
        "raw_name": ("str", "cudaLaunchKernel_v7000"),
        "event_class": ("str", "runtime"),
        "return_value": _INT,
    },
    "nvtx": {
        "start_ns": _INT,
        "end_ns": _MAYBE,
        "pid": ("int64", 4000),
        "tid": ("int64", 4000),
        "end_tid": _MAYBE,
        "domain": _TEXT,
        "name": ("str", "range"),
        "event_type": ("str", "push_pop"),
        "color": _MAYBE,
    },
}
