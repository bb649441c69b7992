"""nsys' reports of unified memory, MPI, OpenMP and OpenACC: an open export in, nsys' columns out."""

from collections.abc import Sequence

import numpy as np

from labcode.analysis.stats.nsys.tables import statistics
from labcode.analysis.stats.table import Table, Texts, texts_of
from labcode.reports.columns import Column, Floats, Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import pid_of, tid_of
from labcode.reports.nsys.source import Source

_TO_DEVICE, _TO_HOST = 11, 12  # copyKind of migrations
_MOST_ADDRESSES = 10  # rows of um_sum, as nsys has it
_NS_PER_S = 1_000_000_000
_NONE: Ints = np.empty(0, np.int64)


def um_sum(source: Source) -> Table:
    """Migrations and page faults by address, the fastest ten: Virtual Address, HtoD and DtoH Migration size,
    CPU and GPU Page Faults, Migration Throughput.

    The throughput is nsys': bytes times 10⁹ ÷ duration, the quotient rounded down.
    """
    cpu = source.ints(schema.CPU_FAULTS, ("address",))["address"].values
    gpu = source.ints(schema.GPU_FAULTS, ("address", "numberOfPageFaults"))
    faults = {
        "cpu": _sums(cpu, np.ones(len(cpu), np.int64)),
        "gpu": _sums(gpu["address"].values, gpu["numberOfPageFaults"].values),
    }
    moved, spent = {}, {}
    for kind in (_TO_HOST, _TO_DEVICE):
        address, size, duration = _migrations(source, kind)
        moved[kind], spent[kind] = _sums(address, size), _sums(address, duration)
    both = dict.fromkeys(at for kind in (_TO_HOST, _TO_DEVICE) for at in moved[kind])
    pace: dict[int, int | None] = {}
    for at in both:
        time = sum(spent[kind].get(at, 0) for kind in spent)
        total = sum(moved[kind].get(at, 0) for kind in moved)
        pace[at] = total * (_NS_PER_S // time) if time > 0 else None
    every = list(dict.fromkeys([*faults["cpu"], *faults["gpu"], *both]))
    every.sort(key=lambda at: -(pace.get(at) or -1))
    every = every[:_MOST_ADDRESSES]
    return {
        "Virtual Address": texts_of([f"0x{at:X}" for at in every]),
        "HtoD Migration size (MB)": _megabytes([moved[_TO_DEVICE].get(at) for at in every]),
        "DtoH Migration size (MB)": _megabytes([moved[_TO_HOST].get(at) for at in every]),
        "CPU Page Faults": _whole([faults["cpu"].get(at) for at in every]),
        " GPU Page Faults": _whole([faults["gpu"].get(at) for at in every]),  # the blank is nsys'
        "Migration Throughput (MB/s)": _megabytes([pace.get(at) for at in every]),
    }


def um_total_sum(source: Source) -> Table:
    """All migrations and page faults in one row: Total HtoD and DtoH Migration Size, Total CPU and GPU Page
    Faults, Minimum and Maximum Virtual Address (empty where one of the four kinds did not occur).
    """
    cpu = source.ints(schema.CPU_FAULTS, ("address",))["address"].values
    gpu = source.ints(schema.GPU_FAULTS, ("address", "numberOfPageFaults"))
    moves = {kind: _migrations(source, kind) for kind in (_TO_DEVICE, _TO_HOST)}
    addresses = [cpu, gpu["address"].values, *(moves[kind][0] for kind in moves)]
    whole = all(len(one) for one in addresses)
    ends = [f"0x{pick(pick(one) for one in addresses):X}" if whole else "" for pick in (min, max)]
    count = gpu["numberOfPageFaults"].values
    return {
        **{
            f"Total {name} Migration Size (MB)": _megabytes([int(size.sum()) if len(size) else None])
            for name, (_, size, _) in zip(("HtoD", "DtoH"), moves.values(), strict=True)
        },
        "Total CPU Page Faults": np.array([len(cpu)], np.int64),
        "Total GPU PageFaults": _whole([int(count.sum()) if len(count) else None]),
        "Minimum Virtual Address": texts_of(ends[:1]),
        "Maximum Virtual Address": texts_of(ends[1:]),
    }


def um_cpu_page_faults_sum(source: Source) -> Table:
    """Page faults on the CPU by the instruction that met them: CPU Page Faults, CPU Instruction Address, and
    where the export has them Source File, Source Line.
    """
    lines = source.has_columns(schema.CPU_FAULTS, ("SourceFile", "SourceLine"))
    asked = ("CpuInstruction", *(("SourceFile", "SourceLine") if lines else ()))
    columns = source.ints(schema.CPU_FAULTS, asked)
    keys = [columns[name].filled(-1) for name in asked]
    places, count = np.unique(np.stack(keys, axis=1), axis=0, return_counts=True)
    order = np.argsort(-count, kind="stable")
    places = places[order]

    def texts(place: int) -> Texts:
        named, known = source.strings(Column(places[:, place]))
        return texts_of([known[code] for code in named.tolist()])

    return {
        "CPU Page Faults": count[order].astype(np.int64),
        "CPU Instruction Address": texts(0),
        **({"Source File": texts(1)} if lines else {}),
        **({"Source Line": _whole([line if line >= 0 else None for line in places[:, 2]])} if lines else {}),
    }


def mpi_event_sum(source: Source) -> Table:
    """MPI events by class and name: Time (%), Total Time (ns), Instances, Avg … StdDev (ns), Source, Name."""
    return _named(
        {name: source.ints(table, ("duration", "textId")) for table, name in schema.MPI.items()},
        "textId",
        source,
        ["Source", "Name"],
        "Instances",
    )


def mpi_event_trace(source: Source) -> Table:
    """Every MPI event by start: Start, End, Duration (ns), Event, Pid, Tid, Tag, Rank, PeerRank, RootRank,
    Size, CollSendSize, CollRecvSize (MB).
    """
    asked = ("start", "end", "globalTid", "textId", "size", "tag", "remoteRank", "recvSize", "rootRank")
    shape = {table: [name for name in asked if source.has_columns(table, (name,))] for table in schema.MPI}
    parts = {table: source.ints(table, names) for table, names in shape.items()}
    counts = [len(parts[table]["start"].values) if parts[table] else 0 for table in schema.MPI]

    def column(name: str, tables: Sequence[str] = tuple(schema.MPI)) -> Column:
        values, present = [], []
        for table, count in zip(schema.MPI, counts, strict=True):
            one = parts[table].get(name) if table in tables else None
            values.append(np.zeros(count, np.int64) if one is None else one.values)
            present.append(np.zeros(count, np.bool_) if one is None else one.there())
        return Column(np.concatenate(values), np.concatenate(present))

    start = column("start").values
    order = np.argsort(start, kind="stable")
    thread = column("globalTid").values[order]
    ranks = source.ints(schema.MPI_RANKS, ("globalTid", "rank"))
    rank_of = dict(zip(ranks["globalTid"].values.tolist(), ranks["rank"].values.tolist(), strict=True))
    codes, texts = source.strings(column("textId").take(order))
    end = column("end").values[order]
    collectives = [table for table, name in schema.MPI.items() if name == "collectives"]
    messages = [table for table, name in schema.MPI.items() if name == "p2p"]
    return {
        "Start (ns)": start[order],
        "End (ns)": end,
        "Duration (ns)": end - start[order],
        "Event": texts_of([texts[code] for code in codes.tolist()]),
        "Pid": pid_of(thread),
        "Tid": tid_of(thread),
        "Tag": column("tag", messages).take(order),
        "Rank": _whole([rank_of.get(one) for one in thread.tolist()]),
        "PeerRank": column("remoteRank", messages).take(order),
        "RootRank": column("rootRank", collectives).take(order),
        "Size (MB)": _scaled(column("size", messages).take(order)),
        "CollSendSize (MB)": _scaled(column("size", collectives).take(order)),
        "CollRecvSize (MB)": _scaled(column("recvSize", collectives).take(order)),
    }


def openmp_sum(source: Source) -> Table:
    """OpenMP events by name: Time (%), Total Time (ns), Count, Avg … StdDev (ns), Name."""
    tables = source.tables(schema.OPENMP)
    parts = {table: source.ints(table, ("duration", "nameId")) for table in tables}
    return _named(parts, "nameId", source, ["", "Name"], "Count")


def openacc_sum(source: Source) -> Table:
    """OpenACC events by name and line: Time (%), Total Time (ns), Num Calls, Avg … StdDev (ns), Name."""
    parts = [
        source.ints(table, ("duration", "nameId", "srcFile", "lineNo"))
        for table in source.tables(schema.OPENACC)
    ]
    columns = {
        name: Column(
            np.concatenate([_NONE, *(part[name].values for part in parts)]),
            np.concatenate([_NONE, *(part[name].there() for part in parts)]).astype(np.bool_),
        )
        for name in ("duration", "nameId", "srcFile", "lineNo")
    }
    names, name_texts = source.strings(columns["nameId"])
    files, file_texts = source.strings(columns["srcFile"])
    there, lines = columns["srcFile"].there().tolist(), columns["lineNo"].values.tolist()
    texts = [
        f"{name_texts[name]}@{file_texts[file]}:{line}" if known else name_texts[name]
        for name, file, line, known in zip(names.tolist(), files.tolist(), lines, there, strict=True)
    ]
    known_texts = sorted(set(texts))
    place = {text: code for code, text in enumerate(known_texts)}
    codes = np.array([place[text] for text in texts], np.int64)
    keys = [(text,) for text in known_texts]
    return statistics(codes, keys, columns["duration"].values, ["Name"], count="Num Calls")


def _named(
    parts: dict[str, dict[str, Column]], column: str, source: Source, heads: Sequence[str], count: str
) -> Table:
    """Durations by class and name id; classes whose head is '' are not shown."""
    keys: list[tuple[object, ...]] = []
    ties: list[tuple[object, ...]] = []
    codes: list[Ints] = []
    for place, (kind, raw) in enumerate(parts.items()):
        ids, mine = unique(raw[column].filled(-1))
        named, texts = source.strings(Column(ids))
        codes.append(mine + len(keys))
        keys += [(kind, texts[code]) for code in named.tolist()]
        ties += [((kind if heads[0] else place), number) for number in ids.tolist()]
    values = np.concatenate([_NONE, *(raw["duration"].values for raw in parts.values())])
    table = dict(statistics(np.concatenate([_NONE, *codes]), keys, values, heads, count=count, ties=ties))
    table.pop("", None)
    return table


def _migrations(source: Source, kind: int) -> tuple[Ints, Ints, Ints]:
    raw = source.ints(schema.MEMCPY, ("virtualAddress", "bytes", "duration"), f"copyKind = {kind}")
    return raw["virtualAddress"].values, raw["bytes"].values, raw["duration"].values


def _sums(address: Ints, values: Ints) -> dict[int, int]:
    """The sum of the values by address, in rising order."""
    known, codes = unique(address)
    sums = np.zeros(len(known), np.int64)
    np.add.at(sums, codes, values)
    return dict(zip(known.tolist(), sums.tolist(), strict=True))


def _whole(values: Sequence[int | None]) -> Column:
    present = np.array([value is not None for value in values], np.bool_)
    return Column(np.array([value or 0 for value in values], np.int64), present)


def _megabytes(values: Sequence[int | None]) -> Floats:
    return np.array([np.nan if value is None else value / 1e6 for value in values], np.float64)


def _scaled(column: Column) -> Floats:
    return np.where(column.there(), column.values / 1e6, np.nan)
