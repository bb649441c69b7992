"""GPU metrics for made-up exports, in nsys' own two tables: samples by metric in, an export with them out."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

NAMES = (
    "GPC Clock Frequency [MHz]",
    "GR Active [Throughput %]",
    "SMs Active [Throughput %]",
    "SM Issue [Throughput %]",
    "Tensor Active [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
    "PCIe RX Throughput [Throughput %]",
    "PCIe TX Throughput [Throughput %]",
)
_TYPE = 72340172838076416  # its last byte is the number of the GPU
DECLARED = {
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, "
    "metricId INTEGER NOT NULL, metricName TEXT NOT NULL",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, "
    "value INTEGER NOT NULL",
}


def add_metrics(
    path: Path, samples: Mapping[str, Sequence[tuple[int, int]]], *, device: int = 0, first: int = 1
) -> Path:
    """Add the (time, value) samples of counters, by name or its beginning, of a GPU; ``first``: their ids."""
    with closing(sqlite3.connect(path)) as db:
        for table, columns in DECLARED.items():
            db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        kind = _TYPE + device
        rows = []
        for number, (wanted, values) in enumerate(samples.items(), start=first):
            name = next((name for name in NAMES if name.startswith(wanted)), wanted)
            about = (kind, _TYPE >> 8, "GPU Metrics [NVIDIA H200]", number, name)
            db.execute("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, ?, ?, ?, ?)", about)
            rows += [(time, kind, number, value) for time, value in values]
        rows.sort(key=lambda row: row[0])  # as nsys writes them: all counters of a moment together
        db.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, ?, ?)", rows)
        db.commit()
    return path
