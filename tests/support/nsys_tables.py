"""The tables of an nsys export as each schema version declares them: a table and a version in, column declarations out."""

from __future__ import annotations

_FRAME = (
    "start INTEGER NOT NULL",
    "end INTEGER NOT NULL",
    "deviceId INTEGER NOT NULL",
    "contextId INTEGER NOT NULL",
    "greenContextId INTEGER",
    "streamId INTEGER NOT NULL",
    "correlationId INTEGER",
    "globalPid INTEGER",
)

_COLUMNS: dict[str, tuple[str, ...]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *_FRAME,
        "demangledName INTEGER NOT NULL",
        "shortName INTEGER NOT NULL",
        "mangledName INTEGER",
        "launchType INTEGER REFERENCES ENUM_CUDA_KERNEL_LAUNCH_TYPE(id)",
        "cacheConfig INTEGER",
        "registersPerThread INTEGER NOT NULL",
        "gridX INTEGER NOT NULL",
        "gridY INTEGER NOT NULL",
        "gridZ INTEGER NOT NULL",
        "blockX INTEGER NOT NULL",
        "blockY INTEGER NOT NULL",
        "blockZ INTEGER NOT NULL",
        "staticSharedMemory INTEGER NOT NULL",
        "dynamicSharedMemory INTEGER NOT NULL",
        "localMemoryPerThread INTEGER NOT NULL",
        "localMemoryTotal INTEGER NOT NULL",
        "gridId INTEGER NOT NULL",
        "sharedMemoryExecuted INTEGER",
        "graphNodeId INTEGER",
        "sharedMemoryLimitConfig INTEGER REFERENCES ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG(id)",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        *_FRAME,
        "bytes INTEGER NOT NULL",
        "copyKind INTEGER NOT NULL REFERENCES ENUM_CUDA_MEMCPY_OPER(id)",
        "deprecatedSrcId INTEGER",
        "srcKind INTEGER REFERENCES ENUM_CUDA_MEM_KIND(id)",
        "dstKind INTEGER REFERENCES ENUM_CUDA_MEM_KIND(id)",
        "srcDeviceId INTEGER",
        "srcContextId INTEGER",
        "dstDeviceId INTEGER",
        "dstContextId INTEGER",
        "migrationCause INTEGER REFERENCES ENUM_CUDA_UNIF_MEM_MIGRATION(id)",
        "graphNodeId INTEGER",
        "virtualAddress INTEGER",
        "copyCount INTEGER",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        *_FRAME,
        "value INTEGER NOT NULL",
        "bytes INTEGER NOT NULL",
        "graphNodeId INTEGER",
        "memKind INTEGER REFERENCES ENUM_CUDA_MEM_KIND(id)",
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (*_FRAME, "graphId INTEGER NOT NULL", "graphExecId INTEGER NOT NULL"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        *_FRAME,
        "syncType INTEGER NOT NULL REFERENCES ENUM_CUPTI_SYNC_TYPE(id)",
        "eventId INTEGER NOT NULL",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER NOT NULL",
        "end INTEGER NOT NULL",
        "eventClass INTEGER NOT NULL REFERENCES ENUM_NSYS_EVENT_CLASS(id)",
        "globalTid INTEGER",
        "correlationId INTEGER",
        "nameId INTEGER NOT NULL REFERENCES StringIds(id)",
        "returnValue INTEGER NOT NULL",
        "callchainId INTEGER REFERENCES CUDA_CALLCHAINS(id)",
    ),
    "NVTX_EVENTS": (
        "start INTEGER NOT NULL",
        "end INTEGER",
        "eventType INTEGER NOT NULL REFERENCES ENUM_NSYS_EVENT_TYPE(id)",
        "rangeId INTEGER",
        "category INTEGER",
        "color INTEGER",
        "text TEXT",
        "globalTid INTEGER",
        "endGlobalTid INTEGER",
        "textId INTEGER REFERENCES StringIds(id)",
        "domainId INTEGER",
        "uint64Value INTEGER",
        "int64Value INTEGER",
        "doubleValue REAL",
        "uint32Value INTEGER",
        "int32Value INTEGER",
        "floatValue REAL",
        "jsonTextId INTEGER",
        "jsonText TEXT",
        "binaryData TEXT",
    ),
    "OSRT_API": (
        "start INTEGER NOT NULL",
        "end INTEGER NOT NULL",
        "eventClass INTEGER NOT NULL REFERENCES ENUM_NSYS_EVENT_CLASS(id)",
        "globalTid INTEGER",
        "correlationId INTEGER",
        "nameId INTEGER NOT NULL REFERENCES StringIds(id)",
        "returnValue INTEGER NOT NULL",
        "nestingLevel INTEGER",
        "callchainId INTEGER NOT NULL REFERENCES OSRT_CALLCHAINS(id)",
    ),
    "TARGET_INFO_GPU": (
        "vmId INTEGER NOT NULL",
        "id INTEGER NOT NULL",
        "name TEXT",
        "busLocation TEXT",
        "isDiscrete INTEGER",
        "l2CacheSize INTEGER",
        "totalMemory INTEGER",
        "memoryBandwidth INTEGER",
        "clockRate INTEGER",
        "smCount INTEGER",
        "pwGpuId INTEGER",
        "uuid TEXT",
        "luid INTEGER",
        "chipName TEXT",
        "cuDevice INTEGER",
        "ctxswDevPath TEXT",
        "ctrlDevPath TEXT",
        "revision INTEGER",
        "nodeMask INTEGER",
        "constantMemory INTEGER",
        "maxIPC INTEGER",
        "maxRegistersPerBlock INTEGER",
        "maxShmemPerBlock INTEGER",
        "maxShmemPerBlockOptin INTEGER",
        "maxShmemPerSm INTEGER",
        "maxRegistersPerSm INTEGER",
        "threadsPerWarp INTEGER",
        "asyncEngines INTEGER",
        "maxWarpsPerSm INTEGER",
        "maxBlocksPerSm INTEGER",
        "maxThreadsPerBlock INTEGER",
        "maxBlockDimX INTEGER",
        "maxBlockDimY INTEGER",
        "maxBlockDimZ INTEGER",
        "maxGridDimX INTEGER",
        "maxGridDimY INTEGER",
        "maxGridDimZ INTEGER",
        "computeMajor INTEGER",
        "computeMinor INTEGER",
        "smMajor INTEGER",
        "smMinor INTEGER",
    ),
    "ThreadNames": (
        "nameId INTEGER NOT NULL REFERENCES StringIds(id)",
        "priority INTEGER",
        "globalTid INTEGER",
    ),
    "PROCESSES": ("globalPid INTEGER", "pid INTEGER", "name TEXT"),
    "DIAGNOSTIC_EVENT": (
        "timestamp INTEGER NOT NULL",
        "timestampType INTEGER NOT NULL REFERENCES ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE(id)",
        "source INTEGER NOT NULL REFERENCES ENUM_DIAGNOSTIC_SOURCE_TYPE(id)",
        "severity INTEGER NOT NULL REFERENCES ENUM_DIAGNOSTIC_SEVERITY_LEVEL(id)",
        "text TEXT NOT NULL",
        "globalPid INTEGER",
    ),
    "PROFILER_OVERHEAD": (
        "start INTEGER NOT NULL",
        "end INTEGER NOT NULL",
        "globalTid INTEGER",
        "correlationId INTEGER",
        "nameId INTEGER NOT NULL REFERENCES StringIds(id)",
        "returnValue INTEGER NOT NULL",
    ),
    "META_DATA_EXPORT": ("name TEXT", "value TEXT"),
}

ENUMS: dict[str, list[tuple[int, str, str]]] = {
    "ENUM_CUDA_MEMCPY_OPER": [
        (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
        (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
        (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
        (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
        (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        (13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
    ],
    "ENUM_CUDA_MEM_KIND": [
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        (3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
        (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
        (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
        (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ],
    "ENUM_CUPTI_SYNC_TYPE": [
        (0, "CUPTI_SYNC_TYPE_UNKNOWN", "Unknown"),
        (1, "CUPTI_SYNC_TYPE_EVENT", "Event"),
        (2, "CUPTI_SYNC_TYPE_STREAM_WAIT_EVENT", "Stream wait event"),
        (3, "CUPTI_SYNC_TYPE_STREAM", "Stream"),
        (4, "CUPTI_SYNC_TYPE_CONTEXT", "Context"),
    ],
}

# (table, column) → the first minor version of schema 3 that has it
_SINCE: dict[tuple[str, str], int] = {
    ("NVTX_EVENTS", "jsonTextId"): 11,
    **{(table, "greenContextId"): 11 for table in _COLUMNS if table.startswith("CUPTI")},
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "deprecatedSrcId"): 11,
}
# what newer versions add or rename
_ADDED: dict[str, tuple[int, tuple[str, ...]]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        24,
        ("clusterX INTEGER", "clusterY INTEGER", "clusterZ INTEGER", "graphId INTEGER", "graphExecId INTEGER"),
    ),
}
_RENAMED: dict[tuple[str, str], tuple[int, str]] = {
    ("PROFILER_OVERHEAD", "returnValue INTEGER NOT NULL"): (24, "overheadType INTEGER"),
}


def columns_of(table: str, schema: tuple[int, int, int]) -> list[str]:
    """The column declarations of ``table`` in a schema version, in nsys' order."""
    minor = schema[1]
    columns = [c for c in _COLUMNS[table] if _SINCE.get((table, c.split()[0]), 0) <= minor]
    for index, column in enumerate(columns):
        since, new = _RENAMED.get((table, column), (10_000, ""))
        if minor >= since:
            columns[index] = new
    since, added = _ADDED.get(table, (10_000, ()))
    return [*columns, *added] if minor >= since else columns
