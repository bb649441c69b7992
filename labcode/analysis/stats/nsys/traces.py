"""nsys' trace reports of GPU operations, API calls and launches: an open export in, nsys' columns out."""

import numpy as np

from labcode.analysis.stats.nsys.tables import COPY_LABELS, MEMORY_LABELS, MEMSET_LABEL, bare_name
from labcode.analysis.stats.table import Table, Texts, Values
from labcode.errors import InputError
from labcode.reports.columns import Column, Floats, Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import pid_of, tid_of
from labcode.reports.nsys.source import Source

_FRAME = ("start", "end", "correlationId", "deviceId", "contextId", "greenContextId", "streamId")
_NS_PER_S = 1_000_000_000


def cuda_gpu_trace(source: Source) -> Table:
    """Every kernel, copy and memset by start time.

    Start, Duration (ns), CorrId, GrdX … BlkZ, Reg/Trd, StcSMem, DymSMem, Bytes (MB), Throughput (MB/s),
    SrcMemKd, DstMemKd, Device, Ctx, GreenCtx, Strm, Name. The throughput is nsys': bytes times the whole part
    of 10⁹ by the duration in ns, so it is too low for long copies and 0 for those above a second.
    """
    shared = ("staticSharedMemory", "dynamicSharedMemory")
    kernels = source.ints(
        schema.KERNEL, (*_FRAME, *schema.GRID, "registersPerThread", *shared, "demangledName")
    )
    copies = source.ints(schema.MEMCPY, (*_FRAME, "bytes", "copyKind", "srcKind", "dstKind"))
    sets = source.ints(schema.MEMSET, (*_FRAME, "bytes", "memKind"))
    parts = (kernels, copies, sets)
    counts = [len(part["start"].values) for part in parts]
    duration = np.concatenate([part.pop("end").values - part["start"].values for part in parts])
    start = np.concatenate([part.pop("start").values for part in parts])
    order = np.argsort(start, kind="stable")

    def stacked(*columns: Column | None) -> Column:
        return _stack(columns, counts).take(order)

    size = stacked(None, copies["bytes"], sets["bytes"])
    names, name = source.kernel_names(kernels.pop("demangledName"))
    labels = [*name, *COPY_LABELS.values(), MEMSET_LABEL]
    code = np.concatenate([names, copies["copyKind"].values + len(name), np.full(counts[2], len(labels) - 1)])
    unknown = (copies["copyKind"].values < 0) | (copies["copyKind"].values >= len(COPY_LABELS))
    code[counts[0] : counts[0] + counts[1]][unknown] = -1
    columns: dict[str, Values] = {"Start (ns)": start[order], "Duration (ns)": duration[order]}
    columns["CorrId"] = stacked(*(part.pop("correlationId") for part in parts))
    for raw, printed in zip(schema.GRID, ("GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ"), strict=True):
        columns[printed] = stacked(kernels.pop(raw), None, None)  # what was read goes as it is put in order
    columns["Reg/Trd"] = stacked(kernels.pop("registersPerThread"), None, None)
    for raw, printed in zip(shared, ("StcSMem (MB)", "DymSMem (MB)"), strict=True):
        columns[printed] = _floats(stacked(kernels.pop(raw), None, None)) / 1e6
    columns["Bytes (MB)"] = _floats(size) / 1e6
    columns["Throughput (MB/s)"] = _throughput(_floats(size), duration[order])
    columns["SrcMemKd"] = _memory_kind(stacked(None, copies["srcKind"], sets["memKind"]))
    columns["DstMemKd"] = _memory_kind(stacked(None, copies["dstKind"], None))
    columns["Device"] = _device_names(source, stacked(*(part.pop("deviceId") for part in parts)).values)
    columns["Ctx"] = stacked(*(part.pop("contextId") for part in parts))
    green = stacked(*(part.pop("greenContextId") for part in parts)).values
    columns["GreenCtx"] = Column(green, green != 0)  # 0: not a green context
    columns["Strm"] = stacked(*(part.pop("streamId") for part in parts))
    columns["Name"] = Texts(code[order], labels)
    return columns


def cuda_api_trace(source: Source) -> Table:
    """Every API call by start: Start, Duration (ns), Name, Result, CorrID, Pid, Tid, T-Pri, Thread Name."""
    raw = source.ints(schema.RUNTIME, ("start", "end", "nameId", "returnValue", "correlationId", "globalTid"))
    order = np.argsort(raw["start"].values, kind="stable")
    raw = {name: column.take(order) for name, column in raw.items()}
    codes, names = source.strings(raw["nameId"])
    threads, thread = unique(raw["globalTid"].values)
    known = source.ints(schema.THREADS, ("globalTid", "nameId", "priority"))
    name_codes, thread_names = source.strings(known["nameId"])
    place = {number: row for row, number in enumerate(known["globalTid"].values.tolist())}
    rows = np.array([place.get(number, -1) for number in threads.tolist()], np.int64)
    present = rows >= 0
    priority = np.where(present, np.append(known["priority"].values, 0)[rows], 0)
    name_of = np.where(present, np.append(name_codes, 0)[rows], -1)
    return {
        "Start (ns)": raw["start"].values,
        "Duration (ns)": raw["end"].values - raw["start"].values,
        "Name": Texts(codes, [bare_name(name) for name in names]),
        "Result": raw["returnValue"].values,
        "CorrID": raw["correlationId"],
        "Pid": pid_of(raw["globalTid"].values),
        "Tid": tid_of(raw["globalTid"].values),
        "T-Pri": Column(priority[thread], present[thread]),
        "Thread Name": Texts(name_of[thread], thread_names),
    }


def _stack(columns: tuple[Column | None, ...], counts: list[int]) -> Column:
    """Columns of several tables below each other; ``None``: missing in that table."""
    values = [
        np.zeros(count, np.int64) if c is None else c.values for c, count in zip(columns, counts, strict=True)
    ]
    present = [
        np.full(count, c is not None) if c is None or c.present is None else c.present
        for c, count in zip(columns, counts, strict=True)
    ]
    return Column(np.concatenate(values), np.concatenate(present))


def _floats(column: Column) -> Floats:
    values = column.values.astype(np.float64)
    if column.present is not None:
        values[~column.present] = np.nan
    return values


def _throughput(size: Floats, duration: Ints) -> Floats:
    """bytes x (10^9 / duration, rounded toward 0), in MB/s; nan for a duration of 0."""
    some = duration != 0
    per_second = np.full(len(duration), np.nan)
    per_second[some] = np.sign(duration[some]) * (_NS_PER_S // np.abs(duration[some]))
    return np.asarray(size * per_second / 1e6, np.float64)


def _memory_kind(kind: Column) -> Texts:
    numbers, codes = unique(kind.filled(-1))
    return Texts(codes, [MEMORY_LABELS.get(int(number), "") for number in numbers])


def _device_names(source: Source, device: Ints) -> Texts:
    """'NVIDIA H200 (0)'."""
    table = source.ints(schema.GPU, ("id",))
    codes, names = source.texts(schema.GPU, "name")
    ids = table["id"].values.tolist()
    if len(ids) != len(codes):
        raise InputError(f"{source.path}: changed while it was read; read a copy of it")
    known = {number: names[code] for number, code in zip(ids, codes.tolist(), strict=True)}
    numbers, place = unique(device)
    return Texts(place, [f"{known.get(number, '')} ({number})" for number in numbers.tolist()])
