"""Which tables of an nsys export are kept: a table's name in, what it is and its private columns out.

Whatever is not named here is dropped by `labcode.capture.scrub`, and named in its report.
"""

from __future__ import annotations

import re

# Things that happened, with `start` and `end` (or one of the two, or `timestamp`).
EVENT_TABLES = re.compile(
    r"""CUPTI_ACTIVITY_KIND_\w+ | NVTX_EVENTS | OSRT_API | COMPOSITE_EVENTS | SCHED_EVENTS
      | PROFILER_OVERHEAD | CUBLAS_EVENTS | CUDNN_EVENTS | GPU_METRICS | NCCL_\w+
      | MPI_\w+_EVENTS | MPI_(?:P2P|COLLECTIVES|OTHER)\w*
      | CUDA_GPU_MEMORY_(?:USAGE|POOL)_EVENTS | CUDA_UM_[CG]PU_PAGE_FAULT_EVENTS
      | GPU_CONTEXT_SWITCH_EVENTS""",
    re.VERBOSE,
)
# Operations of a GPU: they belong to the API call with the same correlation id in the same process.
GPU_TABLES = re.compile(r"CUPTI_ACTIVITY_KIND_(?!RUNTIME$|DRIVER$|SYNCHRONIZATION$|CUDA_EVENT$)\w+")
CALL_TABLES = re.compile(r"CUPTI_ACTIVITY_KIND_(?:RUNTIME|DRIVER)")
# Call stacks, each with the (table, column) whose values point to its `id`.
STACK_TABLES = {
    "CUDA_CALLCHAINS": ("CUPTI_ACTIVITY_KIND_RUNTIME", "callchainId"),
    "OSRT_CALLCHAINS": ("OSRT_API", "callchainId"),
    "SAMPLING_CALLCHAINS": ("COMPOSITE_EVENTS", "id"),
}
# What the events refer to, and what the profiler said about itself.
OTHER_TABLES = re.compile(
    r"""ENUM_\w+ | TARGET_INFO_(?:GPU|GPU_METRICS|CUDA_\w+|NVTX_CUDA_DEVICE) | CUDA_GRAPH_(?:NODE_)?EVENTS
      | CUDA_GRAPH_EXEC\w* | NVTX_PAYLOAD_\w+ | ThreadNames | PROCESSES | DIAGNOSTIC_EVENT | ANALYSIS_DETAILS
      | META_DATA_EXPORT | StringIds""",
    re.VERBOSE,
)
# Columns that say which machine it was; they are emptied.
PRIVATE_COLUMNS = {
    "TARGET_INFO_GPU": ("uuid", "luid", "busLocation", "ctxswDevPath", "ctrlDevPath"),
    "TARGET_INFO_CUDA_DEVICE": ("uuid", "luid", "busLocation"),
    "TARGET_INFO_CUDA_GPU": ("uuid", "luid", "busLocation"),
    "NVTX_EVENTS": ("binaryData",),
    **dict.fromkeys(STACK_TABLES, ("originalIP",)),  # addresses: different at every run, and bulky
}
# Rows of META_DATA_EXPORT that readers need; the others hold the host, the user and paths.
EXPORT_FACTS = re.compile(r"EXPORT_(?:PRODUCT_\w+|SCHEMA_\w+|PLATFORM|ARCH|TIME_UTC)")
# Columns that hold ids of StringIds, where the table's own declaration does not say so.
STRING_COLUMNS = frozenset(
    {
        "nameId",
        "textId",
        "jsonTextId",
        "demangledName",
        "shortName",
        "mangledName",
        "symbol",
        "module",
        "messageId",
    }
)
# Payloads of NVTX events that are kept: Python stacks. Others, such as those of NCCL, are dropped.
KEPT_PAYLOAD = re.compile(r'\s*\{\s*"Python ')
# Events of threads that the operating system or a sampler saw, also of threads nobody asked about.
SCHEDULING_TABLES = ("SCHED_EVENTS", "COMPOSITE_EVENTS")
# Names (SQL patterns) of threads that the profiler itself runs inside of the program.
PROFILER_THREADS = ("[NSys%", "NSys %")
# Range-like NVTX events; the other types (domains, categories, names of threads) give names and always stay.
NVTX_MARK, NVTX_PUSH_POP, NVTX_START_END = 34, 59, 60


def is_kept(table: str) -> bool:
    """Whether a table may stay in a published export."""
    return table in STACK_TABLES or bool(EVENT_TABLES.fullmatch(table) or OTHER_TABLES.fullmatch(table))
