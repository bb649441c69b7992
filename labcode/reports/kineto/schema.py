"""What is read of a trace's events: kinds, members and their types, as msgspec decodes them."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from labcode.reports.common import Read

NEWEST_SCHEMA = 1  # of traces as a whole; nothing newer has been seen

READ = (
    Read(
        "torch.profiler: .trace.json",
        f"schema {NEWEST_SCHEMA}, as PyTorch 2.x writes it",
        "schemaVersion in the trace, if it has one",
        f"schema {NEWEST_SCHEMA + 1}: read with a warning; unknown events and members are left out",
    ),
)
MISSING = -(1 << 63)
_RAW = msgspec.Raw()

# member of "args" → (our name, what it holds)
ARGS: Mapping[str, tuple[str, str]] = {
    "External id": ("external", "int"),
    "Sequence number": ("sequence", "int"),
    "Fwd thread id": ("fwd_thread", "int"),
    "Input Dims": ("input_dims", "text"),
    "Input type": ("input_types", "text"),
    "Input Strides": ("input_strides", "text"),
    "Concrete Inputs": ("concrete_inputs", "text"),
    "Call stack": ("call_stack", "text"),
    "Module Hierarchy": ("module_hierarchy", "text"),
    "Python id": ("python_id", "int"),
    "Python parent id": ("python_parent", "int"),
    "Python module id": ("python_module", "int"),
    "correlation": ("correlation", "int"),
    "device": ("device", "int"),
    "context": ("context", "int"),
    "stream": ("stream", "int"),
    "grid": ("grid", "text"),
    "block": ("block", "text"),
    "registers per thread": ("registers", "int"),
    "shared memory": ("shared", "int"),
    "blocks per SM": ("blocks_per_sm", "real"),
    "warps per SM": ("warps_per_sm", "real"),
    "est. achieved occupancy %": ("occupancy", "real"),
    "graph id": ("graph", "int"),
    "graph node id": ("graph_node", "int"),
    "Collective name": ("collective", "text"),
    "dtype": ("message_type", "text"),
    "In msg nelems": ("message_in", "int"),
    "Out msg nelems": ("message_out", "int"),
    "Group size": ("group_size", "int"),
    "Process Group Name": ("process_group", "text"),
    "bytes": ("bytes", "int"),
    "Bytes": ("memory_bytes", "int"),
    "Total Allocated": ("allocated", "int"),
    "Total Reserved": ("reserved", "int"),
    "Addr": ("address", "int"),
    "Device Id": ("device_id", "int"),
    "Device Type": ("device_type", "int"),
    "name": ("label", "text"),
}
TYPES: Mapping[str, Any] = {"int": int | None, "real": float | None, "text": msgspec.Raw}
DEFAULTS: Mapping[str, Any] = {"int": MISSING, "real": math.nan, "text": _RAW}
HOLDS = dict(ARGS.values())


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event, as far as it is read."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: msgspec.Raw = _RAW
    dur: msgspec.Raw = _RAW
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Times(msgspec.Struct, frozen=True, gc=False):
    """The times of an event as they are written."""

    ts: msgspec.Raw = _RAW
    dur: msgspec.Raw = _RAW


KINDS: Mapping[str, str] = {
    "": "metadata",
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "gpu_user_annotation": "gpu_annotation",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "hip_runtime": "runtime",
    "xpu_runtime": "runtime",
    "mtia_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "python_function": "python",
    "cpu_instant_event": "memory",
    "cuda_sync": "sync",
    "xpu_sync": "sync",
    "overhead": "overhead",
    "ac2g": "flow",
    "fwdbwd": "flow",
    "async_cpu_to_gpu": "flow",
    "forward_backward": "flow",
}
_GPU = ("external", "correlation", "device", "context", "stream")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "op": (
        *("external", "sequence", "fwd_thread", "input_dims", "input_types", "input_strides"),
        *("concrete_inputs", "call_stack", "module_hierarchy"),
    ),
    "annotation": ("external",),
    "gpu_annotation": ("external",),
    "runtime": ("external", "correlation"),
    "driver": ("external", "correlation"),
    "kernel": (
        *(*_GPU, "grid", "block", "registers", "shared", "blocks_per_sm", "warps_per_sm", "occupancy"),
        *("graph", "graph_node", "collective", "message_type", "message_in", "message_out"),
        *("group_size", "process_group"),
    ),
    "memcpy": (*_GPU, "bytes", "graph_node"),
    "memset": (*_GPU, "bytes", "graph_node"),
    "python": ("python_id", "python_parent", "python_module"),
    "memory": ("memory_bytes", "allocated", "reserved", "address", "device_id", "device_type"),
    "sync": _GPU,
    "overhead": (),
    "flow": (),
    "metadata": ("label",),
}
_MEMBERS = {name: member for member, (name, _) in ARGS.items()}
ARGUMENTS: Mapping[str, Any] = {  # of each kind the args, its fields in their order
    kind: msgspec.defstruct(
        "Args",
        [(name, TYPES[HOLDS[name]], DEFAULTS[HOLDS[name]]) for name in names],
        rename={name: _MEMBERS[name] for name in names},
        frozen=True,
        gc=False,
    )
    for kind, names in FIELDS.items()
    if names
}
